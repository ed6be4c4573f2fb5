//! `specreel bench`: tables, JSON lines, files, and what is refused. Never how long anything took.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{Outcome, Program};

const SHORT: [&str; 5] = ["bench", "--clips", "1", "--max-new-tokens", "12"];

fn bench(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&SHORT[..], args].concat())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

#[test]
fn trials_come_as_lines_and_the_summary_is_the_last() {
    let program = Program::new();
    let run = program.run(&[
        "bench",
        "--clips",
        "2",
        "--max-new-tokens",
        "12",
        "--methods",
        "naive,lvspec",
        "--json",
        "--out",
        "b.jsonl",
    ]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(std::fs::read_to_string(program.home().join("b.jsonl")).unwrap(), run.stdout);
    let lines = lines(&run.stdout);
    let (closing, trials) = lines.split_last().unwrap();
    let order: Vec<(u64, &str)> =
        trials.iter().map(|t| (t["clip"].as_u64().unwrap(), t["system"].as_str().unwrap())).collect();
    assert_eq!(
        order,
        [
            (1000, "autoregressive"),
            (1000, "naive"),
            (1000, "lvspec"),
            (1001, "autoregressive"),
            (1001, "naive"),
            (1001, "lvspec")
        ]
    );
    for trial in trials {
        assert_eq!(trial["event"], "trial");
        assert!(trial["facts"]["total"].as_u64().unwrap() > 0);
        assert_eq!(trial["stats"]["speedup"]["baseline"]["kind"], "measured", "{trial}");
        let lossless = trial["system"] != "lvspec";
        assert!(!lossless || trial["stats"]["equality"]["equal"] == true, "{trial}");
    }
    assert_eq!((&closing["event"], &closing["complete"]), (&"summary".into(), &true.into()));
    assert_eq!((&closing["clips"], &closing["clips_done"]), (&2.into(), &2.into()));
    let systems = closing["systems"].as_array().unwrap();
    assert_eq!(systems.len(), 3);
    let [plain, naive, lvspec] = &systems[..] else { panic!("{systems:?}") };
    assert_eq!((&plain["decode"], &plain["end_to_end"]), (&1.0.into(), &1.0.into()));
    assert_eq!((&naive["retention"], &naive["equal"]), (&plain["retention"], &2.into()));
    assert_eq!((&naive["lossless"], &lvspec["lossless"]), (&true.into(), &false.into()));
    assert_eq!(naive["loosened_share"], 0.0);
    assert!(naive["tau"].as_f64().unwrap() > 0.0 && naive["times"]["td_ms"].is_number());
    assert_eq!(lvspec["method"]["acceptance"]["kind"], "visual");
    assert!(systems.iter().any(|s| s["front"] == true));
}

#[test]
fn tables_have_systems_as_rows() {
    let program = Program::new();
    let run = bench(&program, &["--methods", "naive,lenient"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let names: Vec<&str> = run.stdout.lines().filter_map(|l| l.split_whitespace().next()).collect();
    for name in ["autoregressive", "naive", "lenient"] {
        assert!(names.iter().filter(|n| **n == name).count() >= 2, "{name}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("-0.0"), "{}", run.stdout);
    for part in ["1 clip (seed 1000); ", "lenient ~", "tau", "T(K+1)", "facts kept (%)"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(!run.stdout.contains('\x1b'));
}

#[test]
fn a_sweep_is_a_row_a_value_and_a_picture() {
    let program = Program::new();
    let args = ["--methods", "lvspec", "--sweep", "acceptance.lambda=0,0.9", "--svg", "front.svg"];
    let run = bench(&program, &args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.lines().next().unwrap().ends_with("; lvspec"), "{}", run.stdout);
    assert!(run.stdout.contains("acceptance.lambda=0.9 ~"), "{}", run.stdout);
    let picture = std::fs::read_to_string(program.home().join("front.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("autoregressive") && picture.contains("acceptance.lambda=0.9"), "{picture}");

    let again = bench(&program, &args);
    assert_eq!(again.code, 2);
    assert!(again.stderr.starts_with("error: front.svg exists\nhint: "), "{}", again.stderr);
}

#[test]
fn passes_are_timed_for_target_and_drafter() {
    let program = Program::new();
    let run = program.run(&["bench", "--suite", "step", "--slots", "20,10", "--rows", "3,2", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let lines = lines(&run.stdout);
    let rows = |line: &Value| -> Vec<u64> {
        line["passes"].as_array().unwrap().iter().map(|p| p["rows"].as_u64().unwrap()).collect()
    };
    let curves: Vec<(&str, u64)> =
        lines.iter().map(|l| (l["role"].as_str().unwrap(), l["slots"].as_u64().unwrap())).collect();
    assert_eq!(curves[..4], [("target", 10), ("target", 20), ("drafter", 10), ("drafter", 20)]);
    // Sparrow's layer and MSD's.
    assert_eq!(curves[4..], [("layer", 10), ("layer", 20)].repeat(2));
    assert_eq!(rows(&lines[4]), [1, 8]);
    // One row is what the others are set against.
    assert_eq!((rows(&lines[0]), rows(&lines[2])), (vec![1, 2, 3], vec![1]));
    assert_eq!(lines[0]["passes"][0]["ratio"], 1.0);
    for pass in lines.iter().flat_map(|l| l["passes"].as_array().unwrap()) {
        for key in ["ms", "gigabytes_per_second", "gigamacs_per_second"] {
            assert!(pass[key].as_f64().unwrap() > 0.0, "{pass}");
        }
    }
    let text = program.run(&["bench", "--suite", "step", "--slots", "10", "--rows", "2"]);
    assert!(text.stdout.contains("to one row") && text.stdout.contains("to the target's"), "{}", text.stdout);
}

#[test]
fn what_cannot_be_measured_is_refused_before_any_work() {
    let program = Program::new();
    std::fs::create_dir(program.home().join("m")).unwrap();
    for (args, code, part) in [
        (&["--clips", "0"][..], 2, "--clips"),
        (&["--clips", "-1"], 2, "--clips"),
        (&["--first-seed", "18446744073709551615"], 2, "leaves no room"),
        (&["--methods", ""], 2, "has an empty name"),
        (&["--methods", "naive,,fly"], 2, "has an empty name"),
        (&["--methods", "lvspce"], 2, "unknown method `lvspce`"),
        (&["--methods", "no.toml"], 3, "cannot read method file no.toml"),
        (&["--methods", "fly", "--method", "fly"], 2, "--method"),
        (&["--target", "m", "--methods", "naive"], 2, "drafts with a small model"),
        (&["--target", "no/model"], 3, "no such directory"),
        (&["--sweep", "acceptance.lambda=1"], 2, "--sweep needs one method"),
        (&["--method", "lvspec", "--sweep", "acceptance.lamda=1"], 2, "unknown key `acceptance.lamda`"),
        (&["--method", "lvspec", "--sweep", "lambda=1"], 2, "axis.key=value"),
        (&["--method", "lvspec", "--sweep", "acceptance.lambda="], 2, "has no values"),
        (&["--method", "lvspec", "--sweep", "acceptance.lambda=0,x"], 2, "but must be a number"),
        (&["--method", "lvspec", "--sweep", "acceptance.lambda=0,7"], 2, "must be 0 to 1"),
        (
            &["--method", "naive", "--set", "acceptance.lambda=1"],
            2,
            "--set acceptance.lambda=1 fits none of the methods",
        ),
        (&["--rows", "1"], 2, "--rows has no meaning for --suite scenes"),
        (&["--suite", "step", "--clips", "1"], 2, "--clips has no meaning for --suite step"),
        (&["--suite", "step", "--rows", "0"], 2, "1..=1024"),
        (&["--suite", "step", "--rows", "two"], 2, "--rows"),
        (&["--suite", "step", "--slots", "1000000"], 3, "more than the"),
        (&["--suite", "step", "--device", "metal"], 2, "--device cpu"),
        (&["--suite", "hop"], 2, "scenes, step"),
        (&["--out", "no/such/file"], 3, "cannot write no/such/file"),
    ] {
        let run = program.run(&[&["bench"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("\nhint: "), "{}", run.stderr);
        assert!(run.stderr.contains(part), "{args:?} lacks {part}: {}", run.stderr);
    }
}

#[test]
fn without_a_drafter_the_rest_is_measured() {
    let program = Program::new();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/target");
    let run = bench(&program, &["--target", demo, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.starts_with("hint: without a drafter these are left out: naive"), "{}", run.stderr);
    let lines = lines(&run.stdout);
    let closing = lines.last().unwrap();
    assert_eq!(closing["drafter"], Value::Null);
    let methods = closing["systems"].as_array().unwrap();
    assert!(methods.len() > 1 && methods.iter().all(|m| m["method"]["drafter"]["kind"] != "model"));
}

#[test]
fn an_interrupt_prints_what_is_done() {
    let program = Program::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args(["bench", "--methods", "naive", "--clips", "1000", "--max-new-tokens", "8", "--json"])
        .env("HOME", program.home())
        .env("TMPDIR", program.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut text).unwrap();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    out.read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!((status.code(), talk.as_str()), (Some(130), ""));
    let lines = lines(&text);
    let closing = lines.last().unwrap();
    assert_eq!((&closing["event"], &closing["complete"]), (&"summary".into(), &false.into()));
    assert!(closing["clips_done"].as_u64().unwrap() < 1000);
    assert_eq!(closing["systems"][0]["system"], "autoregressive");
    // The clips are gone.
    let left = std::fs::read_dir(program.home()).unwrap();
    let left =
        left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("specreel-bench"));
    assert_eq!(left.count(), 0);
}
