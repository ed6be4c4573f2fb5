//! Looking at clips: their facts, their frames, and what the terminal is asked for that.

use std::time::Duration;

use super::{
    start::{clips, library, studio},
    terminal::{Terminal, Tmux},
};

/// What kitty answers when it is asked for its name, the size of a cell and its attributes.
const KITTY: &str = "\x1bP>|kitty(0.35.2)\x1b\\\x1b[6;16;8t\x1b[?62;c";

#[test]
fn a_clip_is_looked_at_played_and_scrubbed() {
    let mut t = studio(100, 30, &[]);
    t.press("/star\r", "╰ / star");
    // Without the filter the other clip is also there.
    t.keys("\u{1b}");
    t.gone("╰ / star");
    t.wait("▸ star.mp4");
    let opened = t.press("v", "╭ Preview");
    // The screen does not wait for the frames.
    let answered = t.press("k", " cross.mp4 ") + t.press("j", " star.mp4 ");
    eprintln!("opened in {opened:?}, two other clips in {answered:?}");
    assert!(opened < Duration::from_secs(5) && answered < Duration::from_secs(10));
    for words in ["320 × 320", "h264", "fps", "frames", "a run samples"] {
        t.wait(words);
    }
    t.wait("▀");
    let colors = t.colors_of("▀");
    assert!(colors.len() > 8, "{colors:?} is no picture");
    t.wait("‖ ");

    // It moves by its keys and by itself, and stops at its end.
    let before = t.text();
    t.keys("ll");
    t.until_other(&before);
    t.press("g ", "▶ ");
    t.wait("■ ");
    t.press("h", "‖ ");

    // The other clip, and back; nothing is drawn while nothing happens.
    t.press("k", " cross.mp4 ");
    t.wait("▀");
    assert!(t.is_quiet(Duration::from_millis(700)), "something is drawn while nothing happens");
    t.keys("\r");
    t.gone("╭ Preview");
    t.wait("state     done");
    t.quit("q");
}

#[test]
fn a_small_screen_and_one_without_colors() {
    let mut t = library(60, 16, &[], &[]);
    t.press("/star\rv", "h264");
    t.wait("▀");
    t.quit("qq");
    let mut t = library(80, 24, &[], &[("NO_COLOR", "1")]);
    t.press("/star\rv", "no pictures without colors");
    t.quit("qq");
    let mut t = library(80, 24, &["--image-protocol", "none"], &[]);
    t.press("/star\rv", "pictures are off");
    t.quit("qq");
}

#[test]
fn a_terminal_that_tells_its_name_gets_pictures_and_keeps_the_keys_around_it() {
    let clips = clips();
    let args = ["--library", clips.to_str().unwrap(), "--theme", "dark"];
    let mut t = Terminal::start(100, 30, &args);
    // The filter is typed before, between and after the answers.
    t.keys("/");
    t.keys(KITTY);
    t.press("sta", "/ sta");
    t.press("r\r", "▸ star.mp4");
    t.keys("v");
    t.wait_raw("\x1b_Gq=2,i=");
    // Its pictures are taken away again.
    t.keys("qq");
    t.wait_raw("\x1b_Ga=d,d=I,");
    t.quit("");
}

#[test]
fn inside_a_multiplexer_pictures_are_half_blocks() {
    let clips = clips();
    let args = ["--library", clips.to_str().unwrap()];
    let mut t = Terminal::start_with(100, 30, &args, &[("TMUX", "/tmp/tmux-0/default,1,0")]);
    t.press(KITTY, "● ready");
    t.press("/star\rv", "▀");
    t.keys("qq");
    assert_eq!(t.exit_code(), 0);
    assert!(!t.has_raw("\x1b_Gq=2"), "kitty's words inside tmux");
}

#[test]
fn tmux_passes_pictures_to_a_terminal_that_answers_through_it() {
    let Some(server) = Tmux::server("pictures") else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tmux.conf");
    std::fs::write(&config, "set -g allow-passthrough on\nset -as terminal-features ',xterm*:RGB'\n")
        .unwrap();
    // The answers are there before the studio asks: then no time limit matters.
    let program = env!("CARGO_BIN_EXE_specreel");
    let inside = format!("read go; exec {program} --theme dark --library {}", clips().display());
    let args = ["-f", config.to_str().unwrap(), "-L", server.name(), "new-session", &inside];
    let mut t = Terminal::start_program("tmux", 100, 31, &args, &[("LANG", "C.UTF-8")]);
    t.wait("[0]");
    t.keys("\r\x1bP1+r544e=787465726d2d6b69747479\x1b\\\x1b_Gi=31;OK\x1b\\");
    t.wait("● ready");
    assert!(t.has_raw("\x1b_Gi=31,s=1,v=1,a=q"), "the terminal around tmux was not asked");
    t.press("/star\r", "▸ star.mp4");
    t.keys("v");
    t.wait_raw("\x1b_Gq=2,i=");
    t.keys("qq");
    assert_eq!(t.exit_code(), 0);
}

#[test]
fn files_used_last_are_there_again_unless_nobody_wants_that() {
    let (clips, home, empty) = (clips(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, config) = (home.path().join("data"), home.path().join("config"));
    let variables =
        [("XDG_DATA_HOME", data.to_str().unwrap()), ("XDG_CONFIG_HOME", config.to_str().unwrap())];
    let start = |library: &std::path::Path| {
        let args = ["--library", library.to_str().unwrap()];
        Terminal::start_with(100, 30, &args, &variables)
    };
    let mut t = start(&clips);
    t.wait("● ready");
    t.press("/star\r\r", "state     done");
    t.quit("q");
    let list = std::fs::read_to_string(data.join("specreel/recent.json")).unwrap();
    assert!(list.contains("star.mp4") && !list.contains("cross.mp4"), "{list}");

    let mut t = start(empty.path());
    // Its folder is not shown: it is there because it was used.
    t.wait("star.mp4");
    t.quit("q");

    std::fs::create_dir_all(config.join("specreel")).unwrap();
    std::fs::write(config.join("specreel/config.toml"), "recent = false\n").unwrap();
    let mut t = start(empty.path());
    t.wait("no videos in");
    assert!(!t.text().contains("star.mp4"), "{}", t.text());
    t.quit("q");
}
