//! `specreel-lab train`.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::{
    BINARY,
    program::{Outcome, Program, fixture, outcome, send},
    terminal::Terminal,
};

/// A short training run on a tiny random target.
fn arguments(out: &str, more: &[&str]) -> Vec<String> {
    on("scenes:4", out, more)
}

fn on(data: &str, out: &str, more: &[&str]) -> Vec<String> {
    let tiny = fixture("gqa_tied");
    let all = ["train", "sparrow", "--target", tiny.as_str(), "--data", data, "--out", out];
    let short = ["--max-new-tokens", "8", "--batch", "2", "--keep", "2", "--save-every", "0"];
    [&all[..], &short, more].concat().into_iter().map(String::from).collect()
}

fn run(program: &Program, out: &str, more: &[&str]) -> Outcome {
    let arguments = arguments(out, more);
    program.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What the product says with these arguments.
fn captioned(program: &Program, args: &[&str]) -> Outcome {
    outcome(program.command_of("specreel").args(args))
}

#[test]
fn a_draft_head_works_with_its_target_only() {
    let program = Program::new();
    let trained = run(&program, "mine", &["--epochs", "10", "--learning-rate", "0.002"]);
    assert_eq!((trained.code, trained.stdout.as_str()), (0, ""), "{}", trained.stderr);
    trained.said("finished after 20 steps (10 of text)");
    for file in ["config.json", "model.safetensors", "training.json", "curve.svg"] {
        assert!(program.home().join("mine").join(file).is_file(), "{file}");
    }
    let tiny = fixture("gqa_tied");
    let mut captions = Vec::new();
    for method in ["autoregressive", "sparrow"] {
        let caption = ["caption", "demo", "--target", &tiny, "--drafter", "mine", "--frames", "4"];
        let limits = ["--max-new-tokens", "24", "--method", method, "--json"];
        let written = captioned(&program, &[&caption[..], &limits].concat()).ok();
        let done = written.last();
        captions.push(done["ids"].clone());
        let drafted = written.stdout.contains(r#""drafter":"mine""#);
        assert_eq!(drafted, method != "autoregressive", "{method}");
    }
    assert!(captions.windows(2).all(|pair| pair[0] == pair[1]), "{captions:?}");
    captioned(&program, &["caption", "demo", "--drafter", "mine"]).ends(3).said("trained for another target");
    let small = captioned(
        &program,
        &["caption", "demo", "--target", &tiny, "--drafter", "mine", "--method", "naive"],
    );
    assert_eq!(small.code, 2, "{}", small.stderr);
    run(&program, "mine", &["--epochs", "10", "--learning-rate", "0.002"]).ends(2).said("is finished");
}

fn long(program: &Program) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(cargo_bin(BINARY))
        .args(on("scenes:9000", "long", &["--epochs", "500", "--json"]))
        .env("HOME", program.home())
        .current_dir(program.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

#[test]
fn training_resumes_after_an_interrupt_and_a_kill() {
    let program = Program::new();
    for signal in ["-INT", "-KILL"] {
        let (mut child, mut lines) = long(&program);
        let mut line = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let (begun, fresh) = (line(), signal == "-INT");
        assert_eq!(begun["event"], "begun");
        assert_eq!(begun["steps"].as_u64().unwrap() == 0, fresh, "{begun}");
        let progress = std::iter::repeat_with(line).find(|line| line["event"] == "progress").unwrap();
        if fresh {
            let (stage, step) = (&progress["value"]["stage"], &progress["value"]["step"]);
            assert_eq!((stage.as_str(), step.as_u64()), (Some("text"), Some(10)));
        }
        send(&child, signal);
        let code = child.wait().unwrap().code();
        assert_eq!(code, if signal == "-INT" { Some(130) } else { None });
        let saved = std::fs::read_to_string(program.home().join("long/training.json")).unwrap();
        let saved: Value = serde_json::from_str(&saved).unwrap();
        assert!(saved["account"]["steps"].as_u64().unwrap() >= 10, "{saved}");
    }
    let other = on("scenes:9000", "long", &["--epochs", "501"]);
    let other = program.run(&other.iter().map(String::as_str).collect::<Vec<_>>()).ends(2);
    other.said("has epochs 500, not 501");
}

#[test]
fn a_training_is_a_picture_that_stays() {
    let target = &fixture("gqa_tied");
    let data = ["train", "sparrow", "--target", target, "--data", "scenes:4", "--out", "mine"];
    let short = ["--max-new-tokens", "8", "--batch", "2", "--keep", "2", "--epochs", "20"];
    let args = [&data[..], &short].concat();
    let mut t = Terminal::start(90, 40, &args);
    assert_eq!(t.exit_code(), 0);
    let screen = t.text();
    assert_eq!(screen.matches(" Training ").count(), 1, "one picture, drawn in place:\n{screen}");
    for words in
        ["sparrow for gqa_tied, on scenes:4", "own outputs", "% of tokens", "Ctrl-C saves", "visual stage"]
    {
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
    assert!(screen.contains("finished after 40 steps") && screen.contains("use it: specreel"), "{screen}");
    // On a small terminal it is lines.
    let mut t = Terminal::start(50, 40, &[&args[..7], &["yours"], &args[8..]].concat());
    assert_eq!(t.exit_code(), 0);
    assert!(!t.text().contains("Training") && t.text().contains("agreement"), "{}", t.text());
}
