//! Commands on a terminal: whole words, tables that fit, and nothing left of the progress.

use specreel_client::present::systems;
use specreel_speculate::Method;

use super::terminal::Terminal;

/// Parts of progress lines.
const PROGRESS: [&str; 6] = ["░", "█", "loading", "decoding video", "calibrating", "reading the prompt"];

/// The screen at the end of a command.
fn run(columns: u16, rows: u16, args: &[&str]) -> String {
    let mut t = Terminal::start(columns, rows, args);
    assert_eq!(t.exit_code(), 0, "{}", t.text());
    t.text()
}

fn piped(args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_specreel"));
    let output = command.args(args).env("HOME", home.path()).current_dir(home.path()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_caption_has_whole_words_and_no_progress_is_left() {
    let args = ["caption", "demo", "--method", "naive", "--max-new-tokens", "60"];
    let plain = words(&piped(&args));
    assert!(plain.len() > 100, "{plain}");
    for columns in [24, 40, 57, 90] {
        let screen = run(columns, 60, &args);
        assert!(words(&screen).contains(&plain), "at {columns} columns a word is split:\n{screen}");
        assert!(screen.starts_with("naive (lossless):"), "{screen}");
        for part in PROGRESS {
            assert!(!screen.contains(part), "{part:?} is left at {columns} columns:\n{screen}");
        }
    }
}

#[test]
fn pieces_have_a_line_of_their_own() {
    let args = ["caption", "demo", "--method", "naive", "--segments", "2", "--max-new-tokens", "20"];
    let screen = run(50, 40, &args);
    assert!(words(&screen).contains(&words(&piped(&args))), "{screen}");
    for line in screen.lines().filter(|line| line.starts_with('[')) {
        assert!(line.contains("] The"), "something else is on the line of the times:\n{screen}");
    }
    assert_eq!(screen.matches(" --> ").count(), 3, "{screen}");
}

#[test]
fn repeated_comparisons_leave_one_line() {
    let screen =
        run(60, 40, &["compare", "demo", "--methods", "naive", "--repeat", "3", "--max-new-tokens", "8"]);
    assert!(!screen.contains("/6]") && !PROGRESS.iter().any(|part| screen.contains(part)), "{screen}");
    let before: Vec<&str> = screen.lines().take_while(|line| !line.starts_with("method ")).collect();
    assert_eq!(
        before,
        ["note: autoregressive is added as the baseline", "demo-target with demo-drafter on cpu, q8_0"],
        "{screen}"
    );
}

#[test]
fn tables_fit_a_narrow_terminal() {
    // Lines that the terminal breaks would begin with the rest of a word.
    let screen = run(40, 100, &["methods"]);
    let headings: Vec<&str> = Method::presets().iter().map(systems::system).collect();
    for line in screen.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let fits = match indent {
            0 => headings.contains(&line),
            2 => line.contains(" loss"),
            _ => indent > 10,
        };
        assert!(fits, "{line:?} is neither a heading nor a row:\n{screen}");
    }
    let screen = run(30, 20, &["models"]);
    assert!(screen.starts_with("MODEL") && screen.contains("embedded drafter"), "{screen}");
    assert!(!screen.contains("FAMILY"), "{screen}");
}

/// no-color.org: any value that is not empty counts. Captions, help and the studio follow one rule.
#[test]
fn colors_follow_no_color() {
    for (value, colored) in [("", true), ("0", false), ("1", false)] {
        let caption = ["caption", "demo", "--method", "naive", "--max-new-tokens", "12", "--quiet"];
        for args in [&["--help"][..], &caption] {
            let mut t = Terminal::start_with(100, 60, args, &[("NO_COLOR", value)]);
            assert_eq!(t.exit_code(), 0, "{}", t.text());
            assert_eq!(t.has_raw("\x1b[0m"), colored, "NO_COLOR={value} {args:?}: {}", t.text());
        }
        let mut t = Terminal::start_with(100, 30, &[], &[("NO_COLOR", value)]);
        t.wait("Library");
        t.quit("q");
        assert_eq!(t.has_raw("\x1b[38;"), colored, "NO_COLOR={value}");
    }
}
