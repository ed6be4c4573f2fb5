//! The real program in a pseudo-terminal, with real keys and the embedded models.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch;
mod command_line;
mod download;
#[path = "../support/hollow.rs"]
mod hollow;
mod models;
mod panics;
mod preview;
mod remote;
mod robust;
#[path = "../it/hub/server.rs"]
#[expect(dead_code, reason = "the tests of downloads use all of it")]
mod server;
mod start;
mod terminal;
mod watch;

use std::{path::PathBuf, process::Command, time::Duration};

use start::{clips, endless, endless_with, studio};
use terminal::{TOO_LONG, Terminal};

/// The program under test, and the root of the workspace.
const BINARY: &str = "specreel";
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn a_whole_session() {
    let mut t = studio(110, 34, &["--method", "lvspec"]);
    t.wait("Library");
    assert!(t.is_taken());
    eprintln!("models loaded after {:?}", t.age());

    // Pick a clip by its name, type a prompt.
    t.press("/star", "/ star");
    t.keys("\r");
    t.press("e", "F3 prompts");
    t.press("\u{15}What moves?", "What moves?");

    // Colored tokens, live numbers.
    t.press("\r", "state     done");
    t.wait("▸ star.mp4");
    let screen = t.text();
    for words in ["lossy lvspec", "tok/s", "emitted per step", "visual", "drafter sees"] {
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
    assert!(t.caption_has_style(), "every token of the caption is plain:\n{screen}");

    // Another method on the kept context. Esc leaves the prompt, for where it was come from.
    t.press("\u{1b}", "q quit");
    t.press("\t\t", "r again");
    t.press("m", "schedule");
    t.press("autoreg", "filter autoreg");
    t.press("\r", "this is the baseline");
    t.wait("state     done");
    t.wait("runs on this clip");
    assert!(t.text().contains("prefill reused"), "{}", t.text());

    // Help, theme, copy, and a smaller window.
    t.press("?", "search");
    t.keys("\u{1b}");
    t.gone("search");
    t.press("t", "╭ Theme");
    t.press("\u{1b}[B\r", "theme ");
    t.press("y", "caption copied");
    t.resize(64, 18);
    t.wait_line(1, "╭ Prompt");
    t.quit("q");
}

#[test]
fn a_run_is_cancelled_and_keys_are_answered_meanwhile() {
    let mut t = endless(100, 30);
    t.press("\r", "writing");
    let time = t.time_of_frames(31);
    eprintln!("31 frames of a stream in {time:?}");
    assert!(time > Duration::from_millis(900), "more than thirty frames a second");
    let mut slowest = Duration::ZERO;
    let (first, second) = ("▸ three shapes", "▸ one large shape");
    for (key, line) in [("j", second), ("k", first), ("j", second), ("k", first)] {
        let begun = std::time::Instant::now();
        t.press(key, line);
        slowest = slowest.max(begun.elapsed());
        assert!(t.text().contains("writing"), "the run ended too early:\n{}", t.text());
    }
    eprintln!("a key shows after at most {slowest:?} while the engine runs");
    assert!(slowest < Duration::from_secs(2), "a key took {slowest:?}");
    t.press("\u{1b}", "state     cancelled");
    t.wait("● ready");
    // The engine is free again.
    t.press("\r", "writing");
    t.press("\u{3}", "state     cancelled");
    t.wait("● ready");
    t.press("\u{3}", "again to quit");
    t.quit("\u{3}");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, keys) in [("-TERM", ""), ("-HUP", ""), ("-TERM", "\r")] {
        let mut t = endless(100, 30);
        if !keys.is_empty() {
            t.press(keys, "writing");
        }
        let begun = std::time::Instant::now();
        t.signal(signal);
        t.exit_code();
        eprintln!("gone {:?} after {signal}", begun.elapsed());
        t.check_restored();
    }
}

#[test]
fn a_stopped_studio_comes_back() {
    let mut t = studio(100, 30, &[]);
    t.signal("-STOP");
    t.forget();
    t.signal("-CONT");
    t.wait("● ready");
    t.quit("q");
}

#[test]
fn a_run_is_kept_replayed_and_deleted() {
    let mut t = studio(110, 34, &["--method", "lvspec"]);
    t.press("\r", "state     done");
    let kept = t.sessions();
    assert_eq!(kept.len(), 1, "{kept:?}");
    // As the command line plays it, it is the same text.
    let file = kept[0].to_str().unwrap().to_owned();
    let replay =
        Command::new(env!("CARGO_BIN_EXE_specreel")).args(["replay", "--speed", "0", &file]).output();
    let replay = replay.unwrap();
    let caption = String::from_utf8_lossy(&replay.stdout);
    assert!(replay.status.success() && caption.split_whitespace().count() > 10, "{caption}");
    // In the studio: listed, played, deleted.
    t.press("S", "Saved runs");
    t.wait(" now ");
    t.press("\r", "▶ ");
    t.press("++++++", "■ ");
    t.keys("\u{1b}");
    t.gone("■ ");
    t.press("S", "Saved runs");
    t.wait(" now ");
    t.press("d", "Delete the run from");
    t.press("y", "no saved runs yet");
    assert_eq!(t.sessions(), Vec::<PathBuf>::new());
    t.keys("\u{1b}");
    t.gone("no saved runs yet");
    t.quit("q");
}

/// A program that writes the prompt.
fn editor(dir: &std::path::Path, script: &str) -> String {
    let path = dir.join("editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    Command::new("chmod").arg("755").arg(&path).status().unwrap();
    path.display().to_string()
}

#[test]
fn the_prompt_comes_from_an_editor_and_the_caption_goes_to_files() {
    let home = tempfile::tempdir().unwrap();
    let editor = editor(home.path(), "read line\nprintf \"What $line?\" > \"$1\"");
    let clips = clips();
    let args = ["demo", "--library", clips.to_str().unwrap()];
    let mut t = Terminal::start_with(100, 30, &args, &[("EDITOR", &editor)]);
    t.wait("● ready");
    t.keys("E");
    t.until_restored();
    t.press("turns\n", "What turns?");
    t.press("\r", "state     done");
    t.press("\t", "r again");
    for keys in ["s\r", "sj\r", "sjj\r"] {
        t.press(keys, "saved as");
        t.keys("b");
        t.gone("saved as");
    }
    let kept = |ending: &str| t.file(ending);
    assert!(kept("md").contains("What turns?") && kept("html").contains("<!doctype html>"));
    let (text, page) = (kept("txt"), kept("md"));
    assert!(text.split_whitespace().next().is_some_and(|word| page.contains(word)), "{text:?}");
    t.quit("q");
}

/// The engine's queue of events holds 1024: it would stop there if nobody took them in while the editor is open.
#[test]
fn the_engine_keeps_running_while_the_editor_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let editor = editor(dir.path(), "read word && printf 'Why %s?' \"$word\" > \"$1\"");
    let mut t = endless_with(100, 30, &[("EDITOR", &editor)]);
    t.press("\r", "writing");
    t.keys("E");
    t.until_restored();
    let steps = |text: &str| text.matches("\"event\":\"step\"").count();
    let before = steps(&std::fs::read_to_string(&t.sessions()[0]).unwrap());
    t.until_session(|text| steps(text) > before + 2500);
    t.press("now\n", "Why now?");
    t.wait("writing");
    t.quit("\u{11}\u{11}");
}

#[test]
fn a_killed_studio_has_kept_what_it_showed() {
    let mut t = endless(100, 30);
    t.press("\r", "writing");
    t.time_of_frames(20);
    t.signal("-KILL");
    t.wait_end();
    let kept = t.sessions();
    let session = specreel_record::Session::read(&kept[0]).unwrap();
    let steps = session.lines.iter().filter(|l| matches!(l.event.kind, specreel_record::EventKind::Step(_)));
    let steps = steps.count();
    eprintln!("{steps} steps kept, torn: {}", session.torn);
    assert!(steps > 10);
}

#[test]
fn keys_one_by_one_after_silence_are_all_answered() {
    // The studio sleeps between these keys; each of them has to wake it.
    let mut t = studio(100, 30, &[]);
    for _ in 0..3 {
        for (key, words) in [("?", "search"), ("\u{1b}", ""), ("m", "schedule"), ("\u{1b}", "")] {
            t.keys(key);
            match words {
                "" => t.gone(if t.text().contains("search") { "search" } else { "schedule" }),
                words => t.wait(words),
            }
        }
    }
    t.quit("q");
    assert!(t.age() < TOO_LONG * 4);
}

#[test]
fn a_comparison_fits_a_narrow_terminal() {
    let methods = format!("naive,{REPOSITORY}/lab/methods/random-loose.toml");
    let weak = ["--drafter", "demo-drafter-weak", "--methods", &methods];
    let mut t = Terminal::start(44, 60, &[&["compare", "demo"], &weak[..]].concat());
    assert_eq!(t.exit_code(), 0);
    let screen = t.text();
    let table = screen.find("method ").unwrap_or_else(|| panic!("no table in\n{screen}"));
    for row in ["autoregressive  lossless ", "naive           lossless ", "random-loose    lossy "] {
        assert!(screen[table..].contains(&format!("\n{row}")), "no {row:?} in\n{screen}");
    }
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Columns that do not fit this terminal: per step, end to end"), "{screen}");
    assert!(
        words.contains("random-loose differs at token") && words.contains("{+"),
        "no differences in\n{screen}"
    );
}

#[test]
fn a_clip_in_pieces_is_kept() {
    let mut t = studio(110, 36, &["--method", "naive", "--max-new-tokens", "24"]);
    t.press("j", "▸ one large shape");
    t.press("L", "Segment length");
    t.press("\u{15}2\r", "0:02 – 0:04");
    t.wait("all       ");
    t.wait("state     done");
    // One file for all pieces, which the command line makes into subtitles.
    let kept = t.sessions();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let args = ["replay", "--speed", "0", "--format", "vtt", kept[0].to_str().unwrap()];
    let replay = Command::new(env!("CARGO_BIN_EXE_specreel")).args(args).output().unwrap();
    let subtitles = String::from_utf8_lossy(&replay.stdout);
    assert!(replay.status.success() && subtitles.starts_with("WEBVTT\n\n00:00:00.000 --> "), "{subtitles}");
    assert!(subtitles.matches(" --> ").count() > 1, "{subtitles}");
    t.quit("q");
}

#[cfg(feature = "find")]
#[test]
fn captions_of_a_session_are_kept_in_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("library.db");
    let option = format!("--index={}", index.to_str().unwrap());
    let mut t = studio(110, 34, &["--method", "naive", &option]);
    t.press("\r", "state     done");
    // While the studio is open.
    let args = ["find", "--json", "--db", index.to_str().unwrap(), "the"];
    let moments = || {
        let found = Command::new(env!("CARGO_BIN_EXE_specreel")).args(args).output().unwrap();
        found.status.success().then(|| String::from_utf8_lossy(&found.stdout).into_owned())
    };
    let found = std::iter::repeat_with(moments).find_map(|found| found).unwrap();
    assert!(found.contains(".mp4") && found.contains("demo-target"), "{found}");
    t.quit("q");
    assert_eq!(moments(), Some(found));
}

#[test]
fn prompts_come_back_in_the_next_sitting_unless_nobody_wants_it() {
    let data = tempfile::tempdir().unwrap();
    let config = tempfile::tempdir().unwrap();
    let variables = [
        ("XDG_DATA_HOME", data.path().to_str().unwrap()),
        ("XDG_CONFIG_HOME", config.path().to_str().unwrap()),
    ];
    let session = || {
        let clips = clips();
        let args = ["--max-new-tokens", "4", "--library", clips.to_str().unwrap()];
        let mut t = Terminal::start_with(110, 34, &args, &variables);
        t.wait("● ready");
        t.press("e", "F3 prompts");
        t
    };
    let mut t = session();
    t.press("\u{15}Which zebra moves?\r", "state     done");
    t.signal("-TERM");
    t.exit_code();
    let file = data.path().join("specreel/prompts.jsonl");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"Which zebra moves?\"\n");

    let mut t = session();
    t.press("\u{12}", "Earlier prompts");
    t.press("zbr\r", "Which zebra moves?");
    t.signal("-TERM");
    t.exit_code();

    std::fs::create_dir_all(config.path().join("specreel")).unwrap();
    std::fs::write(config.path().join("specreel/config.toml"), "prompt_history = false\nsessions_keep = 5\n")
        .unwrap();
    let mut t = session();
    t.press("\u{15}Not to be kept.\r", "state     done");
    t.press("\u{12}", "Earlier prompts");
    assert!(!t.text().contains("zebra"), "{}", t.text());
    t.signal("-TERM");
    t.exit_code();
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1);
}
