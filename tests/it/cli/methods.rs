//! `specreel methods --json`; its text and errors are snapshots in `outputs.rs`.

use specreel_speculate::Method;

use crate::cli::Program;

#[test]
fn json_has_the_five_axes_and_lossless() {
    let program = Program::new();
    let list = program.run(&["methods", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len(), Method::presets().len());
    let one = program.run(&["methods", "show", "lvspec", "--json"]).json();
    assert_eq!(one["lossless"], false);
    assert_eq!(one["acceptance"]["kind"], "visual");
    assert_eq!(one["acceptance"]["top_n"], 10);
}
