//! `specreel train` from outside.

use std::{
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::Program;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/gqa_tied")
}

/// A short training on a tiny random target.
fn arguments(out: &str, more: &[&str]) -> Vec<String> {
    on("scenes:4", out, more)
}

fn on(data: &str, out: &str, more: &[&str]) -> Vec<String> {
    let tiny = tiny().display().to_string();
    let all = ["train", "sparrow", "--target", tiny.as_str(), "--data", data, "--out", out];
    let short = ["--max-new-tokens", "8", "--batch", "2", "--keep", "2", "--save-every", "0"];
    [&all[..], &short, more].concat().into_iter().map(String::from).collect()
}

fn run(program: &Program, out: &str, more: &[&str]) -> crate::Outcome {
    let arguments = arguments(out, more);
    program.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_trained_layer_drafts_for_its_target_and_no_other() {
    let program = Program::new();
    let trained = run(&program, "mine", &["--epochs", "10", "--learning-rate", "0.002"]);
    assert_eq!((trained.code, trained.stdout.as_str()), (0, ""), "{}", trained.stderr);
    assert!(trained.stderr.contains("finished after 20 steps (10 of text)"), "{}", trained.stderr);
    for file in ["config.json", "model.safetensors", "training.json", "curve.svg"] {
        assert!(program.home().join("mine").join(file).is_file(), "{file}");
    }
    let tiny = tiny().display().to_string();
    let mut captions = Vec::new();
    for method in ["autoregressive", "sparrow", "sparrow-chain"] {
        let caption = ["caption", "demo", "--target", &tiny, "--drafter", "mine", "--frames", "4"];
        let limits = ["--max-new-tokens", "24", "--method", method, "--json"];
        let written = program.run(&[&caption[..], &limits].concat());
        assert_eq!(written.code, 0, "{}", written.stderr);
        let done: Value = serde_json::from_str(written.stdout.lines().last().unwrap()).unwrap();
        captions.push(done["ids"].clone());
        let drafted = written.stdout.contains(r#""drafter":"mine""#);
        assert_eq!(drafted, method != "autoregressive", "{method}");
    }
    assert!(captions.windows(2).all(|pair| pair[0] == pair[1]), "{captions:?}");
    let other = program.run(&["caption", "demo", "--drafter", "mine"]);
    assert_eq!(other.code, 3);
    assert!(other.stderr.contains("trained for another target"), "{}", other.stderr);
    let small =
        program.run(&["caption", "demo", "--target", &tiny, "--drafter", "mine", "--method", "naive"]);
    assert_eq!(small.code, 2, "{}", small.stderr);
    let again = run(&program, "mine", &["--epochs", "10", "--learning-rate", "0.002"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("is finished"), "{}", again.stderr);
}

#[test]
fn what_cannot_be_trained_is_refused_before_any_work() {
    let program = Program::new();
    for folder in ["empty", "full", "clips"] {
        std::fs::create_dir(program.home().join(folder)).unwrap();
    }
    program.file("full/photo.jpg", "x");
    program.file("clips/broken.mp4", "no video");
    for (out, more, code, words) in [
        ("new", &["--data", "empty"][..], 3, "no videos in empty"),
        ("new", &["--data", "nowhere"], 3, "cannot list nowhere"),
        ("new", &["--data", "scenes:0"], 2, "no number of scenes"),
        ("new", &["--dtype", "f15"], 2, "f15"),
        ("new", &["--no-mtp", "--recursions", "2"], 2, "cannot be used with"),
        ("new", &["--learning-rate", "0"], 2, "above 0"),
        ("new", &["--target", "nowhere"], 3, "nowhere"),
        ("full", &[], 2, "full is not empty"),
        ("full/photo.jpg", &[], 3, "cannot write"),
        ("broken", &["--data", "clips"], 3, "none of the 1 clips"),
    ] {
        let mut arguments = arguments(out, &[]);
        for pair in more.chunks(2) {
            match arguments.iter().position(|a| a == pair[0]) {
                Some(at) if pair.len() == 2 => arguments[at + 1] = pair[1].into(),
                _ => arguments.extend(pair.iter().map(|a| String::from(*a))),
            }
        }
        let run = program.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, code, "{more:?}: {}", run.stderr);
        assert!(run.stderr.contains(words) && run.stderr.contains("hint: "), "{more:?}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
    assert_eq!(std::fs::read_dir(program.home().join("full")).unwrap().count(), 1);
}

/// A long training with its lines. (Without a reader it would end, as any program whose pipe is closed.)
fn long(program: &Program) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_specreel"))
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
fn it_goes_on_after_an_interrupt_and_after_a_kill() {
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
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let code = child.wait().unwrap().code();
        assert_eq!(code, if signal == "-INT" { Some(130) } else { None });
        let told = std::fs::read_to_string(program.home().join("long/training.json")).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert!(told["account"]["steps"].as_u64().unwrap() >= 10, "{told}");
    }
    let other = on("scenes:9000", "long", &["--epochs", "501"]);
    let other = program.run(&other.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("has epochs 500, not 501"), "{}", other.stderr);
}
