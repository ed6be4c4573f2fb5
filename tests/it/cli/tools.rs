//! Completions, manual, doctor, closed pipes, configuration files.

use crate::cli::Program;

#[test]
fn completions_for_every_shell() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = program.run(&["completions", shell]);
        assert_eq!(run.code, 0, "{shell}");
        // It asks the program; tests/cli/shells.rs has what it is answered.
        assert!(run.stdout.contains("SPECREEL_COMPLETE") && run.stdout.contains("specreel"), "{shell}");
    }
    assert_eq!(program.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn the_doctor_reports_every_area() {
    let program = Program::new();
    let run = program.run(&["doctor", "--json"]);
    assert!([0, 3].contains(&run.code), "{}", run.stderr);
    let report = run.json();
    let findings = report["findings"].as_array().unwrap();
    for area in ["Devices", "FFmpeg", "Terminal", "Directories", "Models"] {
        assert!(findings.iter().any(|f| f["area"] == area), "{area}");
    }
    for finding in findings.iter().filter(|f| f["state"] != "good") {
        assert!(finding["found"].is_string());
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let program = Program::new();
    for args in [&["methods"][..], &["man"], &["completions", "bash"]] {
        let mut child = program.spawn(args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }
}

#[test]
fn the_log_is_a_file_and_not_stderr() {
    let program = Program::new();
    let run = program.run(&["methods"]);
    assert_eq!(run.stderr, "");
    let log = std::fs::read_to_string(program.home().join(".local/state/specreel/specreel.log")).unwrap();
    assert!(log.contains("started"), "{log}");
}

#[test]
fn an_unwritable_home_is_not_an_error() {
    let program = Program::new();
    let file = program.file("home", "");
    let output = program.command().env("HOME", program.home().join(file)).arg("methods").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn config_prints_schemas() {
    let program = Program::new();
    for file in ["config", "keymap", "theme"] {
        let schema = program.run(&["config", "schema", file]).json();
        assert_eq!(schema["type"], "object", "{file}");
    }
}

#[test]
fn the_skill_is_installed_and_a_changed_one_is_kept() {
    let (program, dir) = (Program::new(), tempfile::tempdir().unwrap());
    let place = dir.path().to_str().unwrap();
    let shown = program.run(&["skills", "show"]);
    assert!(shown.code == 0 && shown.stdout.starts_with("---\nname: specreel\n"), "{}", shown.stdout);
    let files = [".agents/skills", ".claude/skills"].map(|at| dir.path().join(at).join("specreel/SKILL.md"));
    // The second time nothing changes.
    for _ in 0..2 {
        assert_eq!(program.run(&["skills", "install", place]).code, 0);
        assert!(files.iter().all(|file| std::fs::read_to_string(file).unwrap() == shown.stdout));
    }
    std::fs::write(&files[1], "my own").unwrap();
    let refused = program.run(&["skills", "install", place]);
    assert!(refused.code == 2 && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&files[1]).unwrap(), "my own");
    assert_eq!(program.run(&["skills", "install", place, "--force"]).code, 0);
    assert_eq!(std::fs::read_to_string(&files[1]).unwrap(), shown.stdout);
    let absent = program.run(&["skills", "install", "/nowhere/at/all"]);
    assert!(absent.code == 2 && absent.stderr.contains("is no directory"), "{}", absent.stderr);
}
