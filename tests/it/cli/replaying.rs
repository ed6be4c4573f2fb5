//! `replay`: saved sessions once more.

use crate::cli::Program;

fn saved(program: &Program, name: &str) -> String {
    let path = program.home().join(name);
    let path = path.to_str().unwrap().to_owned();
    let run =
        program.run(&["caption", "demo", "--max-new-tokens", "16", "--method", "lvspec", "--save", &path]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    path
}

#[test]
fn a_session_file_replays_the_same_text() {
    let program = Program::new();
    let file = saved(&program, "a.jsonl");
    let again = program.run(&["replay", &file, "--speed", "0"]);
    let caption = program.run(&["caption", "demo", "--max-new-tokens", "16", "--method", "lvspec"]);
    assert_eq!((again.code, &again.stdout), (0, &caption.stdout));
    assert!(again.stderr.contains("lvspec (lossy)") && again.stderr.contains("tokens/s"), "{}", again.stderr);
    assert!(again.stderr.contains("stopped after 16 tokens"), "{}", again.stderr);
    let json = program.run(&["replay", &file, "--json"]);
    assert_eq!(json.stdout, std::fs::read_to_string(&file).unwrap());
    let quiet = program.run(&["replay", &file, "--quiet", "--speed", "50"]);
    assert_eq!((quiet.stdout, quiet.stderr.as_str()), (caption.stdout, ""));
}

#[test]
fn a_file_of_a_killed_program_is_played_as_far_as_it_goes() {
    let program = Program::new();
    let file = saved(&program, "a.jsonl");
    let whole = std::fs::read(&file).unwrap();
    // Without the last line, and with half of the one before.
    let lines: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i).collect();
    let cut = lines[lines.len() - 2] - 20;
    std::fs::write(&file, &whole[..cut]).unwrap();
    let run = program.run(&["replay", &file, "--speed", "0"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.trim().is_empty());
    assert!(run.stderr.contains("the last line of the file is incomplete"), "{}", run.stderr);
}

#[test]
fn all_runs_of_a_comparison_or_one_are_played() {
    let program = Program::new();
    let path = program.home().join("c.jsonl");
    let file = path.to_str().unwrap();
    let args = ["compare", "demo", "--methods", "naive", "--max-new-tokens", "8", "--save", file];
    assert_eq!(program.run(&args).code, 0);
    let all = program.run(&["replay", file, "--speed", "0"]);
    assert_eq!(all.stdout.lines().count(), 2, "{}", all.stdout);
    let one = program.run(&["replay", file, "--speed", "0", "--run", "2"]);
    assert_eq!(one.stdout.lines().count(), 1);
    assert!(
        one.stderr.contains("naive") && !one.stderr.contains("autoregressive (lossless)"),
        "{}",
        one.stderr
    );
    let none = program.run(&["replay", file, "--run", "9"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("expected one of: 1, 2"), "{}", none.stderr);
}

#[test]
fn files_that_are_not_sessions_are_refused() {
    let program = Program::new();
    let path = program.home().join("notes.txt");
    std::fs::write(&path, "hello\nworld\n").unwrap();
    for (file, part) in
        [("no/such.jsonl", "no/such.jsonl: "), (path.to_str().unwrap(), "line 1: not an event")]
    {
        let run = program.run(&["replay", file]);
        assert_eq!(run.code, 3);
        assert!(
            run.stderr.starts_with("error: ")
                && run.stderr.contains("session file ")
                && run.stderr.contains(part),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("hint: "), "{}", run.stderr);
    }
    assert_eq!(program.run(&["replay", "x", "--speed", "-1"]).code, 2);
}

#[test]
fn invalid_lines_are_skipped_and_stdin_is_read() {
    let program = Program::new();
    let file = saved(&program, "a.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let caption = program.run(&["replay", &file, "--speed", "0"]).stdout;
    let mut lines: Vec<&str> = whole.lines().collect();
    lines.insert(3, "garbage");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let run = program.run(&["replay", &file, "--speed", "0"]);
    assert_eq!((run.code, &run.stdout), (0, &caption), "{}", run.stderr);
    assert!(run.stderr.contains("line 4 is skipped"), "{}", run.stderr);
    let json = program.run(&["replay", &file, "--json"]);
    assert_eq!(json.stdout, whole);
    assert!(json.stderr.contains("line 4 is skipped"), "{}", json.stderr);
    let piped =
        program.command().args(["replay", "-", "--speed", "0"]).write_stdin(whole.clone()).output().unwrap();
    assert_eq!((piped.status.code(), String::from_utf8(piped.stdout).unwrap()), (Some(0), caption));
    // Ended before its run began.
    std::fs::write(&file, whole.lines().next().unwrap()).unwrap();
    let run = program.run(&["replay", &file, "--json"]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.contains("contains no runs"), "{}", run.stderr);
}
