//! `replay`: saved runs.

use crate::cli::Program;

fn saved(program: &Program, name: &str) -> String {
    let path = program.home().join(name);
    let path = path.to_str().unwrap().to_owned();
    program.line(&format!("caption demo --max-new-tokens 16 --method lvspec --save '{path}'")).ok();
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
    again.said("stopped after 16 tokens");
    let json = program.run(&["replay", &file, "--json"]);
    assert_eq!(json.stdout, std::fs::read_to_string(&file).unwrap());
    let quiet = program.run(&["replay", &file, "--quiet", "--speed", "50"]);
    assert_eq!((quiet.stdout, quiet.stderr.as_str()), (caption.stdout, ""));
}

#[test]
fn all_runs_of_a_comparison_or_one_are_played() {
    let program = Program::new();
    let path = program.home().join("c.jsonl");
    let file = path.to_str().unwrap();
    program.line(&format!("compare demo --methods naive --max-new-tokens 8 --save '{file}'")).ok();
    let all = program.run(&["replay", file, "--speed", "0"]);
    assert_eq!(all.stdout.lines().count(), 2, "{}", all.stdout);
    let one = program.run(&["replay", file, "--speed", "0", "--run", "2"]);
    assert_eq!(one.stdout.lines().count(), 1);
    assert!(!one.said("naive").stderr.contains("autoregressive (lossless)"), "{}", one.stderr);
}

#[test]
fn a_file_is_passed_on_without_its_invalid_lines() {
    let program = Program::new();
    let file = saved(&program, "a.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines.insert(3, "garbage");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let json = program.run(&["replay", &file, "--json"]);
    assert_eq!(json.stdout, whole);
    json.said("line 4 is skipped");
}
