//! The pictures of the documentation: what the studio draws, kept as files. `SPECREEL_UPDATE_SCREEN=1 cargo test --test tui
//! pictures` writes them afresh; look at them before they are kept.

use std::path::Path;

use specreel::{
    record::StopReason,
    tui::{Msg, Studio, picture},
};

use crate::script::{
    Footage, compared, done, finish_compared, inspected, loaded, lossy, press, read_frames, ready, streaming,
    watched, with_pictures,
};

/// Fails where the file of this name is not what the studio draws.
fn kept(name: &str, studio: &Studio, (columns, rows): (u16, u16)) {
    let drawn = picture::svg(&studio.picture(columns, rows));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("SPECREEL_UPDATE_SCREEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/{name} is not what the studio draws: look at it with SPECREEL_UPDATE_SCREEN=1 cargo test --test tui pictures"
    );
}

#[test]
fn a_caption_as_it_is_written() {
    kept("screen.svg", &streaming("dark", 112, 33), (112, 33));
}

#[test]
fn a_step_that_is_watched() {
    let mut studio = watched("dark", 112, 33);
    press(&mut studio, ". . . .");
    kept("screens/watch.svg", &studio, (112, 33));
}

#[test]
fn a_token_under_the_inspector() {
    kept("screens/inspector.svg", &inspected(Footage::Scene, 112, 33), (112, 33));
}

#[test]
fn a_clip_before_it_is_captioned() {
    let mut studio = with_pictures(Footage::Scene, "dark", 100, 28);
    loaded(&mut studio);
    let asked = press(&mut studio, "v");
    read_frames(&mut studio, Footage::Scene, asked);
    press(&mut studio, "space");
    studio.handle(Msg::Advance(2400.0));
    press(&mut studio, "space");
    kept("screens/preview.svg", &studio, (100, 28));
}

#[test]
fn methods_side_by_side() {
    let mut studio = ready("dark", 100, 28);
    press(&mut studio, "c g down space");
    compared(&mut studio);
    finish_compared(&mut studio);
    press(&mut studio, "down down");
    kept("screens/comparison.svg", &studio, (100, 28));
    press(&mut studio, "tab");
    studio.handle(Msg::Advance(1200.0));
    press(&mut studio, "space");
    kept("screens/race.svg", &studio, (100, 28));
}

#[test]
fn a_method_taken_apart() {
    let mut studio = streaming("dark", 100, 28);
    done(&mut studio, 3, &lossy(), StopReason::Eos);
    press(&mut studio, "m e down down down down down down");
    kept("screens/method.svg", &studio, (100, 28));
}
