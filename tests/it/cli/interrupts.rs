//! Signals at every stage: events so far are printed, and the exit code is 128 plus the signal.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::cli::{Program, send};

/// A run with all stages.
const CAPTION: [&str; 7] = ["caption", "demo", "--json", "--method", "naive", "--max-new-tokens", "4096"];

#[test]
fn at_every_stage() {
    let program = Program::new();
    let places = "load started decode encode prefill select calibrate prompt generate step";
    for place in places.split(' ') {
        let mut child = program.spawn(&CAPTION);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = String::new();
        let mut sent = false;
        while let Some(Ok(line)) = lines.next() {
            let event: Value = serde_json::from_str(&line).unwrap();
            if !sent && (event["event"] == place || event["stage"] == place) {
                send(&child, "-INT");
                sent = true;
            }
            last = line;
        }
        assert!(sent, "no {place}");
        let status = child.wait().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["event"], "done", "{place}: {stderr}");
        if last["reason"] == "eos" {
            // The run was over before the signal arrived.
            assert_eq!(status.code(), Some(0), "{place}");
        } else {
            assert_eq!(
                (status.code(), &last["reason"]),
                (Some(130), &"cancelled".into()),
                "{place}: {stderr}"
            );
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// Send a signal after the first step. Returns the exit code, the last event and stderr.
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
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (code, last, stderr)
}

#[test]
fn by_the_system_or_a_closed_terminal() {
    let program = Program::new();
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let (found, last, stderr) = ended(program.spawn(&CAPTION), signal);
        assert_eq!(last["event"], "done", "{signal}: {stderr}");
        if last["reason"] != "eos" {
            assert_eq!((found, &last["reason"]), (Some(code), &"cancelled".into()), "{signal}: {stderr}");
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
    let (code, last, stderr) = ended(child, "-HUP");
    assert_eq!((code, &last["reason"]), (Some(0), &"eos".into()), "{stderr}");
}

/// The reader of `--stdin`'s answers is slow: the signal comes while one is written, which the pipe does not take at once.
#[test]
fn in_the_middle_of_an_answer() {
    let program = Program::new();
    let mut child = program.spawn(&["caption", "--stdin"]);
    let line = serde_json::json!({ "video": "none.mp4", "prompt": "a".repeat(400_000) });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = vec![0];
    stdout.read_exact(&mut text).unwrap();
    send(&child, "-INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    stdout.read_to_end(&mut text).unwrap();
    let answer: Value = serde_json::from_slice(&text).expect("a whole line");
    assert!(answer["error"].as_str().unwrap().contains("none.mp4"), "{}", answer["error"]);
    assert_eq!(child.wait().unwrap().code(), Some(130), "stdin is still open");
    drop(stdin);
}
