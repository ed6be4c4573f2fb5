//! What terminals do to a program: storms of sizes, megabytes of keys, silence, other characters, a multiplexer.

use std::{process::Command, time::Duration};

use super::{
    start::{clips, endless, library, studio},
    terminal::{TOO_LONG, Terminal, Tmux},
};

#[test]
fn a_storm_of_sizes_ends_with_a_whole_picture() {
    let mut t = endless(100, 30);
    t.press("\r", "writing");
    // Sizes as a hand at a window's corner makes them, the impossible ones among them.
    let mut seed = 7u32;
    let mut next = |least: u32, most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (least + (seed >> 16) % (most - least)) as u16
    };
    for i in 0..200 {
        t.resize(next(1, 220), next(1, 70));
        if i % 20 == 0 {
            t.keys("\t");
        }
    }
    t.resize(110, 32);
    t.press("\u{3}", "cancelled");
    t.wait("Library");
    let shown = t.settled();
    t.forget();
    t.press("\u{c}", "Library");
    assert_eq!(t.settled(), shown, "the picture was not whole");
    t.quit("q");
}

#[test]
fn a_megabyte_that_is_pasted_is_cut_and_said() {
    let mut t = studio(100, 30, &[]);
    let text = "a long story, pasted by mistake\n".repeat(32_768);
    t.keys("e");
    t.press(&format!("\u{1b}[200~{text}\u{1b}[201~"), "too long for a prompt and was truncated");
    // Outside the prompt it is no prompt and no path.
    t.keys("\u{1b}");
    t.gone("too long");
    t.press(&format!("\u{1b}[200~{text}\u{1b}[201~"), "paste the path of a video");
    t.quit("\u{11}");
}

#[test]
fn a_text_that_arrives_as_keys_is_taken_in() {
    // A terminal without bracketed paste types what is pasted.
    let mut t = studio(100, 30, &[]);
    t.keys("e");
    t.press(&"many words ".repeat(20_000), "the prompt is full");
    t.quit("\u{11}");
}

/// A studio that captions while its terminal reads nothing, once the caption is written.
fn unread() -> Terminal {
    let mut t = studio(100, 30, &[]);
    t.stop_reading();
    // More than a terminal's line holds is drawn.
    for _ in 0..20 {
        t.keys("pq");
    }
    t.keys("\r");
    t.until_session(|text| text.contains("\"event\":\"done\""));
    t
}

#[test]
fn a_terminal_that_reads_nothing_stops_nothing() {
    let mut t = unread();
    t.signal("-TERM");
    t.wait_end();
}

#[test]
fn a_terminal_that_was_stopped_goes_on_with_the_newest_picture() {
    let mut t = unread();
    t.go_on_reading();
    t.wait("done");
    t.wait("tau");
    t.quit("q");
}

#[test]
fn without_utf8_everything_is_drawn_in_ascii() {
    let clips = clips();
    let args = ["--library", clips.to_str().unwrap()];
    let mut t = Terminal::start_with(100, 30, &args, &[("LANG", "C")]);
    t.wait("* ready");
    t.press("\r", "done");
    t.wait("+ Caption ---");
    for keys in ["?", "m", "S", "i"] {
        t.keys(keys);
        let text = t.settled();
        assert!(text.is_ascii(), "{text}");
        t.keys("\u{1b}");
        t.settled();
    }
    t.quit("q");
    // The font of the Linux console has few other characters, regardless of the locale.
    let console = [("TERM", "linux"), ("LANG", "C.UTF-8")];
    let mut t = Terminal::start_with(100, 30, &args, &console);
    t.wait("* ready");
    assert!(t.settled().is_ascii(), "{}", t.text());
    t.quit("q");
    // An option overrides the locale.
    let mut t = library(100, 30, &["--charset", "utf-8"], &[("LC_ALL", "C")]);
    t.quit("q");
}

#[test]
#[cfg(target_os = "linux")]
fn the_meters_tell_the_memory() {
    // A method without notes, which would be shown first.
    let mut t = studio(120, 60, &["--method", "naive"]);
    t.press("\r", "MB peak");
    t.quit("q");
}

#[test]
#[cfg(target_os = "linux")]
fn a_studio_that_waits_takes_no_time() {
    let mut t = studio(100, 30, &[]);
    t.press("\r", "done");
    // Everything that is checked after a run is checked once; a second without a tick has to come.
    let begun = std::time::Instant::now();
    loop {
        let before = t.ticks();
        std::thread::sleep(Duration::from_secs(1));
        if t.ticks() == before {
            break;
        }
        assert!(begun.elapsed() < TOO_LONG, "it never rests:\n{}", t.text());
    }
    t.quit("q");
}

#[test]
fn inside_tmux() {
    let Some(server) = Tmux::server("studio") else { return };
    let program = env!("CARGO_BIN_EXE_specreel");
    let inside = format!("{program} --library {}", clips().display());
    let args = ["-f", "/dev/null", "-L", server.name(), "new-session", "-s", "studio", &inside];
    let mut t = Terminal::start_program("tmux", 100, 31, &args, &[("LANG", "C.UTF-8")]);
    t.wait("● ready");
    t.press("\r", "done");
    t.wait("speedup");
    assert!(t.caption_has_style(), "no verdict can be seen");
    t.resize(80, 25);
    // The order of panes depends on the size. Before the studio draws, tmux shows the end of its old screen.
    t.wait_line(1, "╭ Prompt");
    // A key that a multiplexer writes in its own way: to the prompt, where letters are text, and past it.
    t.press("\u{1b}[Z", "F3 prompts");
    t.press("\u{1b}[Z", "? help");
    t.press("?", "╭ Help");
    t.keys("\u{1b}");
    // A multiplexer holds Esc back for a while: keys that follow too soon would be one with it. The pane that the help covered
    // is there again, and the help is not, once it has arrived; an empty screen while tmux redraws is no sign of that, nor is
    // the pane before the help has come.
    t.until_screen("the help stays", |screen| {
        screen.contains("Describe the video") && !screen.contains("╭ Help")
    });
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
}

#[test]
fn the_window_has_a_title_and_a_batch_calls_the_user_who_is_away() {
    let mut t = studio(110, 34, &["--max-new-tokens", "8"]);
    t.wait_raw("\x1b[22;2t");
    t.press("\r", "state     done");
    t.wait_raw("\x1b]2;specreel: three shapes – done\x1b\\");
    t.press("xx\r", "Batch of 2 clips");
    t.press("\r", "batch done: 2 videos");
    assert!(!t.has_raw("\x07"), "a user who is there is not called");
    t.keys("\u{1b}");
    t.gone("Batch of");
    t.press("x\r", "Batch of 1 clip");
    // The terminal loses the focus.
    t.keys("\u{1b}[O");
    t.press("\r", "batch done: 1 video");
    t.wait_raw("\x07");
    t.keys("\u{1b}");
    t.gone("Batch of");
    t.quit("q");
    assert!(t.has_raw("\x1b]2;\x1b\\\x1b[23;2t"));
}

#[test]
fn a_clip_opens_in_the_systems_player_without_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let opener = dir.path().join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    let script = "#!/bin/sh\necho noise\n(: </dev/tty) 2>/dev/null && echo terminal >> played.txt\n\
                  echo \"$1\" >> played.txt\nexit $(cat code)\n";
    std::fs::write(&opener, script).unwrap();
    Command::new("chmod").arg("755").arg(&opener).status().unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut t = library(100, 30, &[], &[("PATH", &path)]);
    t.write("code", "0");
    t.press("/star\rO", "opening star.mp4");
    t.until_file("played.txt", |text| text == format!("{}\n", clips().join("star.mp4").display()));
    t.write("code", "3");
    t.press("O", "no program for videos");
    t.quit("qq");
    let mut t = library(100, 30, &[], &[("PATH", "/nonexistent")]);
    t.press("O", "is not installed");
    t.quit("q");
}

#[test]
fn the_mouse_is_taken_unless_it_is_left_to_the_terminal() {
    let mut t = studio(100, 30, &[]);
    assert!(t.has_mouse());
    // A press and a release on the second clip, and a wheel's notch on the first, as terminals write them (SGR).
    t.keys("\u{1b}[<0;5;4M\u{1b}[<0;5;4m");
    t.wait("▸ one large shape");
    t.keys("\u{1b}[<64;5;3M");
    t.wait("▸ three shapes");
    // Two presses at once run a clip; the key's hint in the last line quits.
    t.keys("\u{1b}[<0;5;4M\u{1b}[<0;5;4m\u{1b}[<0;5;4M\u{1b}[<0;5;4m");
    t.wait("state     done");
    t.keys("\u{1b}[<0;96;30M\u{1b}[<0;96;30m");
    assert_eq!(t.exit_code(), 0);
    assert!(!t.has_mouse());
    t.check_restored();
    let mut t = studio(100, 30, &["--no-mouse"]);
    assert!(!t.has_mouse());
    t.quit("q");
}
