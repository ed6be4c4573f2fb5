//! Captions of the embedded clips: text, events, sessions, losslessness, closed pipes.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;
use specreel::record::{Event, EventKind, StopReason};

use crate::{Outcome, Program};

const SHORT: [&str; 2] = ["--max-new-tokens", "24"];

fn caption(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["caption", "demo"], &SHORT[..], args].concat())
}

fn events(text: &str) -> Vec<Event> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn ids(program: &Program, args: &[&str]) -> Vec<u32> {
    let run = caption(program, &[&["--json"], args].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    match events(&run.stdout).pop().unwrap().kind {
        EventKind::Done { ids, .. } => ids,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_caption_is_stdout_and_the_rest_is_stderr() {
    let program = Program::new();
    let run = caption(&program, &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.ends_with('\n') && run.stdout.trim().len() > 10, "{:?}", run.stdout);
    assert!(!run.stdout.contains('\x1b'));
    assert!(run.stderr.contains("lvspec (lossy)") && run.stderr.contains("tokens/s"), "{}", run.stderr);
    let quiet = caption(&program, &["--quiet"]);
    assert_eq!((quiet.stdout, quiet.stderr.as_str()), (run.stdout, ""));
}

#[test]
fn events_are_well_formed_and_agree_with_each_other() {
    let run = caption(&Program::new(), &["--json", "--logprobs", "3"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let events = events(&run.stdout);
    let started = events.iter().position(|e| matches!(e.kind, EventKind::Started { .. })).unwrap();
    let prompt = events.iter().position(|e| matches!(e.kind, EventKind::Prompt { .. })).unwrap();
    let first = events.iter().position(|e| matches!(e.kind, EventKind::Step(_))).unwrap();
    assert!(started < prompt && prompt < first);
    let mut emitted = Vec::new();
    let mut text = String::new();
    for (number, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Prompt { grid, visual_tokens, prompt_ids, frames, .. } => {
                assert_eq!(grid.iter().product::<usize>(), *visual_tokens);
                assert!(prompt_ids.len() > *visual_tokens && !frames.is_empty());
            }
            EventKind::Step(step) => {
                assert!(step.accepted <= step.judged && step.judged <= step.drafted.len());
                assert!(step.tokens.iter().all(|t| t.logprobs.len() == 3));
                emitted.extend(step.tokens.iter().map(|t| t.id));
                text.extend(step.tokens.iter().map(|t| t.text.as_str()));
            }
            EventKind::Done { ids, text: whole, stats, .. } => {
                assert_eq!(number + 1, events.len());
                assert_eq!(*ids, emitted);
                assert_eq!(whole.trim(), text.trim());
                assert_eq!(stats.emitted as usize, ids.len());
                assert_eq!(stats.verdicts.total(), stats.emitted);
            }
            EventKind::Failed(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
}

#[test]
fn lossless_methods_write_what_the_target_writes_alone() {
    let program = Program::new();
    let alone = ids(&program, &["--method", "autoregressive", "--dtype", "f32"]);
    assert!(!alone.is_empty());
    for method in ["naive", "sd-random", "sd-uniform", "sd-frames", "text-only"] {
        assert_eq!(ids(&program, &["--method", method, "--dtype", "f32"]), alone, "{method}");
    }
}

#[test]
fn lambda_zero_without_shifts_is_lossless() {
    let program = Program::new();
    let sets = ["--set", "acceptance.lambda=0", "--set", "acceptance.shift_tolerant=false"];
    assert_eq!(ids(&program, &sets), ids(&program, &["--method", "autoregressive"]));
}

#[test]
fn the_number_of_tokens_is_kept() {
    let program = Program::new();
    for n in ["1", "2", "7"] {
        let run = program.run(&["caption", "demo", "--json", "--max-new-tokens", n]);
        let last = events(&run.stdout).pop().unwrap();
        let EventKind::Done { ids, reason, .. } = last.kind else { panic!("{last:?}") };
        assert_eq!(ids.len().to_string(), n);
        assert_eq!(reason, StopReason::Length);
    }
}

#[test]
fn a_seed_makes_sampling_repeatable() {
    let program = Program::new();
    let args = ["--temperature", "1", "--top-p", "0.9", "--seed", "5", "--method", "autoregressive"];
    assert_eq!(ids(&program, &args), ids(&program, &args));
}

#[test]
fn a_saved_session_has_the_events() {
    let program = Program::new();
    let run = caption(&program, &["--json", "--save", "run.jsonl"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(program.home().join("run.jsonl")).unwrap(), run.stdout);
    assert_eq!(caption(&program, &["--save", "run.jsonl"]).code, 2);
    assert_eq!(caption(&program, &["--save", "run.jsonl", "--force"]).code, 0);
}

#[test]
fn colour_is_only_added_when_asked() {
    let program = Program::new();
    let colored = caption(&program, &["--color", "always"]).stdout;
    let plain = caption(&program, &["--color", "never"]).stdout;
    assert!(colored.contains("\x1b["), "{colored:?}");
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        stripped += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn without_a_terminal_the_studio_captions() {
    let run = Program::new().run(&["demo", "--max-new-tokens", "4"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.trim().is_empty());
}

#[test]
fn a_closed_pipe_is_success() {
    let program = Program::new();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args(["caption", "demo", "--json"])
        .env("HOME", program.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str::<Value>(&line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_prompt_comes_from_stdin() {
    let program = Program::new();
    let args = ["caption", "demo", "--json", "--max-new-tokens", "2", "--prompt", "-"];
    let output = program.command().args(args).write_stdin("What moves?\n").output().unwrap();
    let events = events(&String::from_utf8(output.stdout).unwrap());
    let prompts: Vec<&str> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::Started { prompt, .. } => Some(prompt.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(prompts, ["What moves?"]);
}
