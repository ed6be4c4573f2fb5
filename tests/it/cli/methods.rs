//! `specreel methods --json`; its text and errors are snapshots in `outputs.rs`.

use specreel_speculate::Method;

use crate::cli::Program;

#[test]
fn json_has_the_five_axes_and_lossless() {
    let program = Program::new();
    let list = program.run(&["methods", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len(), Method::presets().len());
    let one = program.run(&["methods", "show", "fly", "--json"]).json();
    assert_eq!(one["lossless"], false);
    assert_eq!(one["acceptance"]["kind"], "window");
    assert_eq!(one["acceptance"]["length"], 4);
}
