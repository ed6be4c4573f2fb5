//! The pictures of the documentation: what the studio draws, kept as files. `SPECREEL_UPDATE_SCREEN=1 cargo test --test tui
//! pictures` writes them afresh; look at them before they are kept.

use std::path::Path;

use specreel::tui::{Msg, Studio, picture};
use specreel_record::{Pace, Step, StopReason};

use crate::tui::script::{
    Footage, asked, baselines, batched, begin, choose, compared, done, finish_compared, inspected, loaded,
    lossy, press, read_frames, ready, streaming, watched, with_pictures, write,
};

/// Fails where the file of this name is not what the studio draws.
fn kept(name: &str, studio: &Studio, (columns, rows): (u16, u16)) {
    kept_as(name, &picture::svg(&studio.picture(columns, rows)));
}

fn kept_as(name: &str, drawn: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("SPECREEL_UPDATE_SCREEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/{name} is not what the studio draws: look at it with SPECREEL_UPDATE_SCREEN=1 cargo test --test tui pictures"
    );
}

#[test]
fn a_batch_in_the_middle() {
    let mut studio = ready("dark", 112, 33);
    press(&mut studio, "X enter");
    batched(&mut studio);
    kept("screens/batch.svg", &studio, (112, 33));
}

#[test]
fn a_caption_as_it_is_written() {
    kept("screen.svg", &streaming("dark", 112, 33), (112, 33));
}

/// A run whose events are there at once: it is played from its beginning.
fn play_from(studio: &mut Studio, run: u64, steps: &[Step]) {
    begin(studio, run, Some(10), true);
    write(studio, run, steps);
    done(studio, run, steps, StopReason::Eos);
}

/// Largest size of the moving picture in bytes: a page should not wait for it.
const MAX_BYTES: usize = 600_000;

#[test]
fn a_run_as_it_is_watched() {
    let (columns, rows) = (112, 33);
    let mut studio = baselines("dark", Pace::Auto, columns, rows);
    let mut film = Vec::new();
    let mut take = |studio: &Studio, ms: u32| film.push((studio.picture(columns, rows), ms));
    take(&studio, 700);
    let run = asked(&choose(&mut studio, "lvspec")).unwrap();
    take(&studio, 300);
    play_from(&mut studio, run, &lossy());
    // A little slower than in the studio: whoever reads a page does not wait for it.
    while studio.is_playing() {
        studio.handle(Msg::Advance(100.0));
        take(&studio, 150);
    }
    take(&studio, 2500);
    // Then step by step.
    for (key, ms) in [("d", 900), ("n", 900), ("n", 900), ("n", 900), ("n", 2500)] {
        press(&mut studio, key);
        take(&studio, ms);
    }
    let drawn = picture::animated(&film);
    assert!(drawn.len() < MAX_BYTES, "{} bytes", drawn.len());
    kept_as("watch.svg", &drawn);
}

#[test]
fn the_steps_of_a_run() {
    let mut studio = streaming("dark", 180, 40);
    done(&mut studio, 3, &lossy(), StopReason::Eos);
    press(&mut studio, "d n n n");
    kept("screens/steps.svg", &studio, (180, 40));
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
    press(&mut studio, "c home down space");
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
    press(&mut studio, "m tab down down down down down down");
    kept("screens/method.svg", &studio, (100, 28));
}
