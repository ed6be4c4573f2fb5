//! `specreel-lab bench`: tables, JSON lines and files. No test depends on measured times.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::{
    REPOSITORY,
    program::{Outcome, Program, events, send},
};

const SHORT: [&str; 5] = ["bench", "--clips", "1", "--max-new-tokens", "12"];

fn bench(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&SHORT[..], args].concat())
}

#[test]
fn json_has_a_line_per_trial_and_the_summary_last() {
    let program = Program::new();
    let run = program
        .line("bench --clips 2 --max-new-tokens 12 --methods naive,lvspec --json --out b.jsonl")
        .silent();
    assert_eq!(std::fs::read_to_string(program.home().join("b.jsonl")).unwrap(), run.stdout);
    let lines = events(&run.stdout);
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
        assert!(trial["decode_ratio"].is_number() && trial["end_to_end_ratio"].is_number(), "{trial}");
        assert!(trial["stats"].get("speedup").is_none(), "{trial}");
        let lossless = trial["system"] != "lvspec";
        assert!(!lossless || trial["stats"]["equality"]["equal"] == true, "{trial}");
    }
    assert_eq!((&closing["event"], &closing["complete"]), (&"summary".into(), &true.into()));
    assert_eq!((&closing["clips"], &closing["clips_done"]), (&2.into(), &2.into()));
    let systems = closing["systems"].as_array().unwrap();
    assert_eq!(systems.len(), 3);
    let [plain, naive, lvspec] = &systems[..] else { panic!("{systems:?}") };
    assert_eq!((&plain["decode"], &plain["end_to_end"]), (&1.0.into(), &1.0.into()));
    assert!(naive["decode"].is_null() && naive.get("low").is_none(), "two clips are too few for an interval");
    assert_eq!((&naive["retention"], &naive["equal"]), (&plain["retention"], &2.into()));
    assert_eq!((&naive["lossless"], &lvspec["lossless"]), (&true.into(), &false.into()));
    assert_eq!(naive["loosened_share"], 0.0);
    assert!(naive["tau"].as_f64().unwrap() > 0.0 && naive["times"]["td_ms"].is_number());
    assert_eq!(lvspec["method"]["acceptance"]["kind"], "visual");
    assert!(systems.iter().any(|s| s["front"] == true));
}

#[test]
fn a_papers_table_is_measured_kept_and_read_again() {
    let program = Program::new();
    let table = ["--paper", "std", "--table", "1"];
    let run = bench(&program, &[&table[..], &["--out", "std.jsonl"]].concat()).silent();
    for part in
        ["STD, table 1", "LayerSkip", "paper: accepted", "order", "Kendall's tau", "1 clip (seed 1000); "]
    {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let kept = std::fs::read_to_string(program.home().join("std.jsonl")).unwrap();
    let lines = events(&kept);
    let runs: Vec<&str> =
        lines.iter().filter(|l| l["event"] == "paper_run").map(|l| l["run"].as_str().unwrap()).collect();
    // Once each, though the table has two parts.
    let streaming = "streaming context.first=2 context.last=20";
    assert_eq!(runs, ["autoregressive", "layerskip", streaming, "std"]);
    for line in lines.iter().filter(|l| l["event"] == "paper_run") {
        assert_eq!(line["equal"], true, "{line}");
    }
    assert_eq!(lines.iter().filter(|l| l["event"] == "paper_table").count(), 2);

    let again = program.run(&["bench", "--paper", "std", "--table", "1", "--from", "std.jsonl"]);
    assert_eq!((again.code, &again.stdout), (0, &run.stdout));
    program.line("bench --paper std --from std.jsonl --from std.jsonl --pages pages --json").silent();
    let read = |name: &str| std::fs::read_to_string(program.home().join("pages").join(name)).unwrap();
    assert!(read("papers.md").starts_with("# The papers' claims\n"));
    let page = read("papers/std.md");
    assert!(page.contains("## Figure 1: gamma up to 9") && page.contains("not measured"), "{page}");
    assert!(
        read("papers/figures.csv").contains("\nstd,1,LLaVA-OneVision,STD,std,true,accepted_share,0.478,")
    );
    assert!(read("papers/verdicts.csv").starts_with("paper,table,part,of,drafter,verdict\n"));

    // Pages that would lose a row are not written, and those that are there stay.
    let kept: Vec<&str> = kept.lines().filter(|line| !line.contains(streaming)).collect();
    std::fs::write(program.home().join("less.jsonl"), kept.join("\n") + "\n").unwrap();
    let less = program.line("bench --paper std --from less.jsonl --from less.jsonl --pages pages --force");
    assert_eq!(less.code, 3, "{}", less.stderr);
    for part in ["the pages would lose", "std, 1, LLaVA-OneVision, Streaming, accepted_share", "changes.toml"]
    {
        assert!(less.stderr.contains(part), "{part}: {}", less.stderr);
    }
    assert_eq!(read("papers/std.md"), page);
}

#[test]
fn the_papers_speedups_are_charged_at_their_own_acceptance() {
    let program = Program::new();
    let line = "bench --paper sparrow --table 2 --at-paper-acceptance";
    let run = program.line(line).silent();
    for part in
        ["Sparrow, table 2 (T = 0), l20-llava-ov-7b", "end to end", "calibrated", " speedups that no profile"]
    {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let lines = events(&program.line(&format!("{line} --json")).silent().stdout);
    let rows = lines[0]["rows"].as_array().unwrap();
    assert_eq!(
        (&lines[0]["event"], &lines[0]["profile"]),
        (&"paper_replay".into(), &"l20-llava-ov-7b".into())
    );
    let sparrow = rows.iter().find(|row| row["label"] == "Sparrow").unwrap();
    assert_eq!((&sparrow["acceptance"], &sparrow["paper"]), (&3.88.into(), &2.84.into()));
    let none = program.line("bench --paper lvspec --table F10 --at-paper-acceptance").silent();
    assert!(none.stdout.starts_with("No speedup of these tables can be replayed"), "{}", none.stdout);
}

#[test]
fn a_sweep_has_a_row_per_value_and_a_chart() {
    let program = Program::new();
    let line = "bench --clips 6 --max-new-tokens 12 --methods lvspec --svg front.svg --sweep acceptance.lambda=0,0.9";
    let run = program.line(line).silent();
    assert!(run.stdout.lines().next().unwrap().ends_with("; lvspec"), "{}", run.stdout);
    for part in ["acceptance.lambda=0.9 ~", "facts kept (%)"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("-0.0"), "{}", run.stdout);
    let picture = std::fs::read_to_string(program.home().join("front.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("autoregressive") && picture.contains("acceptance.lambda=0.9"), "{picture}");
}

#[test]
fn passes_are_timed_for_target_and_drafter() {
    let program = Program::new();
    let run =
        program.run(&["bench", "--suite", "step", "--slots", "20,10", "--rows", "3,2", "--json"]).silent();
    let lines = events(&run.stdout);
    let rows = |line: &Value| -> Vec<u64> {
        line["passes"].as_array().unwrap().iter().map(|p| p["rows"].as_u64().unwrap()).collect()
    };
    let curves: Vec<(&str, u64)> =
        lines.iter().map(|l| (l["role"].as_str().unwrap(), l["slots"].as_u64().unwrap())).collect();
    assert_eq!(curves[..4], [("target", 10), ("target", 20), ("drafter", 10), ("drafter", 20)]);
    // The draft heads of Sparrow, MSD, EAGLE-3 and DFlash.
    assert_eq!(curves[4..], [("layer", 10), ("layer", 20)].repeat(4));
    assert_eq!(rows(&lines[4]), [1, 8]);
    // One row is the baseline of the others.
    assert_eq!((rows(&lines[0]), rows(&lines[2])), (vec![1, 2, 3], vec![1, 8]));
    assert_eq!(lines[0]["passes"][0]["ratio"], 1.0);
    for pass in lines.iter().flat_map(|l| l["passes"].as_array().unwrap()) {
        for key in ["ms", "gigabytes_per_second", "gigamacs_per_second"] {
            assert!(pass[key].as_f64().unwrap() > 0.0, "{pass}");
        }
    }
    let text = program.run(&["bench", "--suite", "step", "--slots", "10", "--rows", "2"]);
    assert!(text.stdout.contains("vs one row") && text.stdout.contains("vs target"), "{}", text.stdout);
}

#[test]
fn a_clip_is_measured_in_a_known_shape() {
    let program = Program::new();
    let clip = ["bench", "--suite", "clip", "--shape", "tiny", "--seconds", "3", "--max-new-tokens", "2"];
    let run = program.run(&[&clip[..], &["--json"]].concat()).silent();
    let lines = events(&run.stdout);
    let line = &lines[0];
    assert_eq!(
        (lines.len(), &line["event"], &line["family"]),
        (1, &"clip".into(), &"llava_onevision".into())
    );
    // Always 32 frames of four visual tokens, and the text around them.
    assert_eq!(
        (&line["frames"], &line["visual_tokens"], &line["tokens"]),
        (&32.into(), &128.into(), &2.into())
    );
    assert!(line["prompt_tokens"].as_u64().unwrap() > 128, "{line}");
    for key in ["tower_ms", "prefill_ms", "first_token_ms", "token_ms"] {
        assert!(line[key].as_f64().unwrap() > 0.0, "{line}");
    }
    let text = program.run(&[&clip[..], &["--max-visual-tokens", "20"]].concat());
    text.printed("3 s: 5 frames of 56x56, 20 visual tokens");
    assert!(text.stdout.contains("first token") && text.stdout.contains("tokens/s"), "{}", text.stdout);
    program.line("bench --suite clip").ends(2).said("error: --suite clip needs --shape NAME\nhint: ");
}

#[test]
fn without_a_drafter_the_other_methods_are_measured() {
    let program = Program::new();
    let demo = &format!("{REPOSITORY}/assets/demo/target");
    let run = bench(&program, &["--target", demo, "--json"]).ok();
    assert!(run.stderr.starts_with("hint: skipped without a drafter: naive"), "{}", run.stderr);
    let lines = events(&run.stdout);
    let closing = lines.last().unwrap();
    assert_eq!(closing["drafter"], Value::Null);
    let methods = closing["systems"].as_array().unwrap();
    assert!(methods.len() > 1 && methods.iter().all(|m| m["method"]["drafter"]["kind"] != "model"));
}

#[test]
fn a_signal_prints_the_summary_so_far_and_leaves_no_files() {
    let program = Program::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let args = ["bench", "--methods", "naive", "--clips", "1000", "--max-new-tokens", "8", "--json"];
        let mut child = program.spawn(&args);
        let mut text = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut text).unwrap();
        send(&child, signal);
        out.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(code), ""));
        let lines = events(&text);
        let closing = lines.last().unwrap();
        assert_eq!(lines[0]["event"], "trial");
        assert_eq!((&closing["event"], &closing["complete"]), (&"summary".into(), &false.into()));
        assert!(closing["clips_done"].as_u64().unwrap() < 1000);
        assert_eq!(closing["systems"][0]["system"], "autoregressive");
        let left = std::fs::read_dir(program.home()).unwrap();
        let left =
            left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("specreel-bench"));
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn methods_are_measured_on_own_videos_and_other_files_are_left_out() {
    let program = Program::new();
    std::fs::create_dir_all(program.home().join("in/b")).unwrap();
    for (seed, name) in [("2", "in/a.mp4"), ("3", "in/b/c.mp4")] {
        program.run(&["scenes", "render", "--seed", seed, name, "--size", "64x48"]).silent();
    }
    program.file("in/none.mp4", "text");
    let run = program.line("bench --videos in --methods naive --json --max-new-tokens 5 --frames 2");
    let lines = events(&run.stdout);
    let summary = lines.last().unwrap();
    assert!(run.code == 0 && run.stderr.contains("skipped: in/none.mp4"), "{}", run.stderr);
    assert_eq!((&summary["clips_done"], &summary["videos"][1]), (&2.into(), &"in/b/c.mp4".into()));
    let systems = summary["systems"].as_array().unwrap();
    assert!(systems.iter().all(|row| row["equal"] == 2 && row["facts"]["total"] == 0), "{systems:?}");
    assert!(summary.get("first_seed").is_none() && systems[1]["tau"].is_number());
}
