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
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
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
