//! `specreel compare` on an embedded clip: table, differences, events, page, usage, interrupts, failures.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;
use specreel_record::{Event, EventKind, PromptSeen};
use specreel_speculate::Method;

use crate::cli::{Outcome, Program, send};

fn compare(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["compare", "demo", "--max-new-tokens", "24"], args].concat())
}

/// The cells of a row of the table: two spaces part columns.
fn cells<'a>(table: &'a str, method: &str) -> Vec<&'a str> {
    let is_row = |line: &&str| line.split_whitespace().next() == Some(method);
    let line = table.lines().find(is_row).unwrap_or_else(|| panic!("no {method} in {table}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn a_measured_speedup_has_an_interval() {
    let program = Program::new();
    let run = compare(&program, &["--methods", "naive", "--quiet"]).silent();
    assert_eq!(cells(&run.stdout, "autoregressive")[6], "1x");
    let naive = cells(&run.stdout, "naive");
    assert_eq!((naive[4], naive[8]), ("0.0 %", "identical"), "lossless means identical");
    // A busy machine may leave too few pairs for an interval; the figure is then marked.
    assert!(naive[6].contains("x (") || naive[6].starts_with("≈ "), "{naive:?}");
}

#[test]
fn differences_are_marked_word_by_word() {
    let program = Program::new();
    // Every draft of a drafter that sees nothing passes: it is wrong about what it cannot see.
    let blind = Method::preset("text-only").unwrap();
    let sets = ["acceptance.kind=random", "acceptance.probability=1", "shape.length=20"];
    program
        .file("blind.toml", blind.with_sets(sets).unwrap().to_toml().replace("\"text-only\"", "\"blind\""));
    let line = "compare demo --max-new-tokens 100 --methods blind.toml";
    let run = program.line(line).ok();
    let row = cells(&run.stdout, "blind");
    let first: usize = row[8].strip_prefix("differs at token ").unwrap().parse().unwrap();
    run.printed(&format!("blind differs at token {first} from autoregressive"));
    assert!(run.stdout.contains("[-") && run.stdout.contains("{+"), "{}", run.stdout);
    let colored = program.line(&format!("{line} --color always"));
    assert!(colored.stdout.contains("\x1b[31m[-") && colored.stdout.contains("\x1b[32m{+"));
}

#[test]
fn json_has_the_events_of_all_runs_and_the_comparison_last() {
    let program = Program::new();
    let args = [
        "--methods",
        "naive,lenient",
        "--json",
        "--repeat",
        "2",
        "--save",
        "runs.jsonl",
        "--measure",
        "never",
    ];
    let run = compare(&program, &args).silent();
    let (events, last) = run.stdout.trim_end().rsplit_once('\n').unwrap();
    let events: Vec<Event> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut dones, mut over) = (Vec::new(), 0);
    for event in &events {
        assert!(event.run == 0 || event.run > over, "nothing comes after a run's done");
        match &event.kind {
            EventKind::Done { ids, text, .. } => {
                dones.push((ids.clone(), text.clone()));
                over = event.run;
            }
            EventKind::Prompt(PromptSeen { reused, .. }) => {
                assert_eq!(*reused, event.run > 1, "one prefilled context")
            }
            EventKind::Failed(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
    assert_eq!((dones.len(), over), (6, 6));
    let again: Vec<_> = dones[3..].iter().rev().cloned().collect();
    assert_eq!(dones[..3], again, "the second pass, in the opposite order, writes what the first wrote");
    assert_eq!(dones[0], dones[1]);

    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&last["run"], &last["event"], &last["passes"]), (&0.into(), &"comparison".into(), &2.into()));
    assert_eq!(last["baseline"], "autoregressive");
    let rows = last["rows"].as_array().unwrap();
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["autoregressive", "naive", "lenient"]);
    assert_eq!((&rows[1]["runs"], &rows[1]["equality"]["equal"]), (&serde_json::json!([2, 5]), &true.into()));
    assert_eq!(
        (&rows[0]["runs"], &rows[2]["runs"]),
        (&serde_json::json!([1, 6]), &serde_json::json!([3, 4]))
    );
    let figures = ["decode_speedup", "low", "high", "pairs", "end_to_end_speedup"];
    let told = |row: usize| figures.iter().filter(|name| rows[row].get(**name).is_some()).count();
    assert_eq!((told(0), told(1)), (5, 0), "two pairs are no interval: {rows:?}");

    let saved = std::fs::read_to_string(program.home().join("runs.jsonl")).unwrap();
    assert!(run.stdout.starts_with(&saved) && saved.lines().count() == events.len(), "the events, no more");
}

#[test]
fn measured_speeds_follow_the_runs_and_are_in_the_comparison() {
    let program = Program::new();
    let run = compare(&program, &["--methods", "naive,lenient", "--json", "--measure", "always"]).ok();
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last_done = lines.iter().rposition(|line| line["event"] == "done").unwrap();
    let last = &lines[lines.len() - 1];
    for (run, row) in [(2, 1), (3, 2)] {
        let is_its_own = |line: &&Value| line["run"] == run && line["event"] == "speed";
        assert!(!lines[..last_done].iter().any(|line| is_its_own(&line)), "runs come before measurements");
        let told = lines.iter().rfind(is_its_own).unwrap_or_else(|| panic!("no speed of run {run}"));
        assert_eq!(told["measuring"], false);
        // A busy machine may leave too few pairs for an interval, or only impossible ones; then the last figure before that
        // counts: of the measurement, or of the run itself.
        let done = lines.iter().find(|line| line["run"] == run && line["event"] == "done").unwrap();
        let of_measurement = lines.iter().rev().filter(is_its_own).map(|line| &line["speedup"]);
        let known = of_measurement.chain([&done["stats"]["speedup"]]).find(|speedup| speedup.is_object());
        let of = |key: &str| known.and_then(|speedup| speedup.get(key));
        for (key, name) in
            [("low", "low"), ("high", "high"), ("pairs", "pairs"), ("decode", "decode_speedup")]
        {
            assert_eq!(of(key), last["rows"][row].get(name), "{key}");
        }
    }
    assert!(!lines.iter().any(|line| line["run"] == 1 && line["event"] == "speed"), "the baseline is 1");
}

#[test]
fn a_change_reaches_the_methods_that_have_it() {
    let program = Program::new();
    let args =
        ["--methods", "naive,lvspec", "--json", "--set", "shape.length=2", "--set", "acceptance.lambda=0"];
    let run = compare(&program, &args).ok();
    let mut seen = 0;
    for line in run.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["event"] == "started" {
            let method = &event["method"];
            let plain = method["name"] == "autoregressive";
            assert_eq!(method["shape"]["length"], if plain { 1 } else { 2 }, "{method}");
            let lambda = &method["acceptance"]["lambda"];
            assert_eq!(lambda.as_f64(), (method["name"] == "lvspec").then_some(0.0), "{method}");
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
    let talk = compare(&program, &["--methods", "naive,lvspec", "--set", "acceptance.lambda=0"]).stderr;
    assert!(talk.contains("note: --set acceptance.lambda=0 changes only lvspec\n"), "{talk}");
}

#[test]
fn the_page_is_self_contained() {
    let program = Program::new();
    let args = ["--methods", "lvspec", "--html", "page.html"];
    assert_eq!(compare(&program, &args).code, 0);
    let page = std::fs::read_to_string(program.home().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("://") && !page.contains("src="), "nothing is loaded");

    compare(&program, &args).ends(2).said("error: page.html already exists\nhint: ");
    assert_eq!(compare(&program, &[&args[..], &["--force"]].concat()).code, 0);
}

#[test]
fn methods_that_can_run_are_compared_and_the_others_named() {
    let program = Program::new();
    let methods =
        ["compare", "demo", "--methods", "naive,mtp", "--max-new-tokens", "4", "--measure", "never"];
    let run = program.run(&methods).ok();
    run.said("note: mtp is left out: method `mtp` ");
    let row = run.stdout.lines().find(|line| line.starts_with("mtp ")).unwrap_or_default();
    assert!(row.ends_with("not run") && run.stdout.contains("mtp is left out: "), "{}", run.stdout);
    let run = program.run(&[&methods[..], &["--json"]].concat());
    let last = run.last();
    assert_eq!((&last["rows"][2]["method"], &last["rows"][2]["state"]), (&"mtp".into(), &"waiting".into()));
    assert!(last["rows"][2]["failure"]["error"].as_str().unwrap().contains("mtp"), "{last}");
    let none = program.run(&["compare", "demo", "--methods", "mtp"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""), "{}", none.stderr);
}

#[test]
fn a_failure_is_told_once_and_leaves_no_page() {
    let program = Program::new();
    program.file("text.mp4", "this is not a video\n".repeat(100));
    let run = program.run(&["compare", "text.mp4", "--methods", "naive,lvspec", "--html", "page.html"]);
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
    assert_eq!(run.stderr.matches("error: ").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("text.mp4") && run.stderr.contains("\nhint: "), "{}", run.stderr);
    assert!(!program.home().join("page.html").exists());
}

#[test]
fn an_interrupt_keeps_what_has_finished() {
    let program = Program::new();
    let all = ["compare", "demo", "--methods", "naive,lvspec", "--repeat", "100", "--json"];
    let mut child = program.spawn(&[&all[..], &["--html", "page.html"]].concat());
    let mut last = Value::Null;
    let mut sent = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        last = serde_json::from_str(&line.unwrap()).unwrap();
        if !sent && last["event"] == "done" && last["run"] == 4 {
            send(&child, "-INT");
            sent = true;
        }
    }
    let status = child.wait().unwrap();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!((status.code(), talk.as_str()), (Some(130), ""));
    assert_eq!(last["event"], "comparison", "{last}");
    let rows = last["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["state"] == "done" && row["runs"].as_array().unwrap().len() < 100));
    assert!(program.home().join("page.html").exists());
}
