//! Ctrl-C at every stage: what was written stays, the exit code is 130.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::Program;

/// A run of a method with all stages.
fn spawn(program: &Program) -> Child {
    Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args(["caption", "demo", "--json", "--method", "naive", "--max-new-tokens", "4096"])
        .env("HOME", program.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    send(child, "-INT");
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn at_every_stage() {
    let program = Program::new();
    for place in [
        "load",
        "started",
        "decode",
        "encode",
        "prefill",
        "select",
        "calibrate",
        "prompt",
        "generate",
        "step",
    ] {
        let mut child = spawn(&program);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = String::new();
        let mut sent = false;
        while let Some(Ok(line)) = lines.next() {
            let event: Value = serde_json::from_str(&line).unwrap();
            if !sent && (event["event"] == place || event["stage"] == place) {
                interrupt(&child);
                sent = true;
            }
            last = line;
        }
        assert!(sent, "{place} never came");
        let status = child.wait().unwrap();
        let mut talk = String::new();
        child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["event"], "done", "{place}: {talk}");
        if last["reason"] == "eos" {
            // The run was over before the signal arrived.
            assert_eq!(status.code(), Some(0), "{place}");
        } else {
            assert_eq!((status.code(), &last["reason"]), (Some(130), &"cancelled".into()), "{place}: {talk}");
        }
        assert!(!talk.contains("panicked"), "{talk}");
    }
}

#[test]
fn before_anything_was_printed() {
    let program = Program::new();
    let mut child = spawn(&program);
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    let status = child.wait().unwrap();
    // Until our handler stands the signal kills, and then there is no code.
    assert!([Some(130), Some(0), None].contains(&status.code()), "{status:?}");
}

/// Until a step has been told; then the signal. The exit code, the last event, and what was said.
fn ended(mut child: Child, signal: &str) -> (Option<i32>, Value, String) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut last, mut sent) = (Value::Null, false);
    while let Some(Ok(line)) = lines.next() {
        last = serde_json::from_str(&line).unwrap();
        if !sent && last["event"] == "step" {
            send(&child, signal);
            sent = true;
        }
    }
    let code = child.wait().unwrap().code();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    (code, last, talk)
}

#[test]
fn by_the_system_or_a_closed_terminal() {
    let program = Program::new();
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let (found, last, talk) = ended(spawn(&program), signal);
        assert_eq!(last["event"], "done", "{signal}: {talk}");
        if last["reason"] != "eos" {
            assert_eq!((found, &last["reason"]), (Some(code), &"cancelled".into()), "{signal}: {talk}");
        }
    }
}

#[test]
fn a_hang_up_that_nohup_ignores_stays_ignored() {
    let program = Program::new();
    let caption = format!("trap '' HUP; exec {} caption demo --json", env!("CARGO_BIN_EXE_specreel"));
    let child = Command::new("sh")
        .args(["-c", &caption])
        .env("HOME", program.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (code, last, talk) = ended(child, "-HUP");
    assert_eq!((code, &last["reason"]), (Some(0), &"eos".into()), "{talk}");
}

#[test]
fn a_bench_prints_what_it_has_and_leaves_nothing_behind() {
    let program = Program::new();
    let clips = program.home().join("clips");
    std::fs::create_dir(&clips).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args(["bench", "--methods", "naive", "--clips", "1000", "--max-new-tokens", "8", "--json"])
        .env("HOME", program.home())
        .env("TMPDIR", &clips)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["event"], "trial");
    send(&child, "-TERM");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(rest.iter().any(|line| line.contains("\"event\":\"summary\"")), "{rest:?}");
    let left: Vec<_> = std::fs::read_dir(&clips).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("bench")), "{left:?}");
}
