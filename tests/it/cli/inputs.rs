//! Videos that are not video files: stdin and pictures; and pages that reveal nothing about their writer.

use std::path::PathBuf;

use crate::cli::{Outcome, Program, event, events, outcome};

const SHORT: [&str; 2] = ["--max-new-tokens", "8"];

/// The file of the first embedded clip.
fn clip(program: &Program) -> PathBuf {
    specreel_demo::demo(Some(program.home())).unwrap().clips[0].path.clone()
}

/// A run with a video on stdin, and with a folder for temporary files.
fn pipe(program: &Program, args: &[&str], bytes: impl Into<Vec<u8>>) -> Outcome {
    let temporary = program.home().join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let run = outcome(program.command().args(args).env("TMPDIR", &temporary).write_stdin(bytes));
    assert_eq!(
        std::fs::read_dir(temporary).unwrap().count(),
        0,
        "{args:?}: a temporary file was left behind"
    );
    run
}

#[test]
fn a_video_comes_from_stdin() {
    let program = Program::new();
    let bytes = std::fs::read(clip(&program)).unwrap();
    let plain = program.run(&[&["caption", "demo"], &SHORT[..]].concat());
    for args in [&["caption", "-"][..], &["-"]] {
        let run = pipe(&program, &[args, &SHORT].concat(), bytes.clone());
        assert_eq!((run.code, run.stdout.as_str()), (0, plain.stdout.as_str()), "{}", run.stderr);
    }
    let run = pipe(
        &program,
        &[&["caption", "-", "--json", "--save", "run.jsonl"], &SHORT[..]].concat(),
        bytes.clone(),
    );
    let saved = std::fs::read_to_string(program.home().join("run.jsonl")).unwrap();
    for text in [&run.stdout, &saved] {
        assert_eq!(event(&events(text), "started")["video"], "-", "{text}");
    }
    // The file is opened more than once.
    pipe(
        &program,
        &[&["compare", "-", "--methods", "naive", "--html", "a.html"], &SHORT[..]].concat(),
        bytes,
    )
    .ok();
    let page = std::fs::read_to_string(program.home().join("a.html")).unwrap();
    assert!(page.contains("Decoding methods on a video from stdin"), "{page}");
}

#[test]
fn a_stdin_without_a_video_is_refused() {
    let program = Program::new();
    for (args, bytes, code, part) in [
        (&["caption", "-"][..], "", 2, "error: no video on stdin: it is empty\nhint: pipe one in"),
        (&["caption", "-"], "this is text\n", 3, "error: -: "),
        (&["caption", "-", "--segments", "2"], "this is text\n", 3, "error: -: "),
        (
            &["caption", "-", "--prompt", "-"],
            "What?",
            2,
            "error: video and prompt cannot both be read from stdin",
        ),
    ] {
        let run = pipe(&program, args, bytes);
        assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{args:?}: {}", run.stderr);
    }
    let run = pipe(&program, &["caption", "-", "--json"], "this is text\n");
    assert!(!run.stdout.contains("/proc/") && run.stdout.contains("\"failed\""), "{}", run.stdout);
}

#[test]
fn a_picture_is_captioned_as_one_frame() {
    let program = Program::new();
    for name in ["still.png", "still.jpg"] {
        let picture = image::RgbImage::from_fn(320, 240, |x, y| {
            let near = x.abs_diff(110).pow(2) + y.abs_diff(110).pow(2) < 2500;
            image::Rgb(if near { [200, 20, 20] } else { [120; 3] })
        });
        picture.save(program.home().join(name)).unwrap();
        let run = program.run(&[&["caption", name], &SHORT[..]].concat()).ok();
        assert!(!run.stdout.trim().is_empty());
        let note = "note: the file is a picture, not a video: it is captioned as a single frame\n";
        run.said(note);
        for args in [&["--format", "srt"][..], &["--start", "0"], &["--segments", "1"]] {
            let run = program.run(&[&["caption", name], args].concat()).ends(3);
            run.said("it has one frame only, so it has no parts");
        }
    }
}

#[test]
fn a_page_does_not_tell_the_home_directory() {
    let program = Program::new();
    let video = program.home().join("holiday.mp4");
    std::fs::copy(clip(&program), &video).unwrap();
    let video = video.to_str().unwrap();
    let run =
        program.run(&[&["compare", video, "--methods", "naive", "--html", "a.html"], &SHORT[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(program.home().join("a.html")).unwrap();
    assert!(page.contains("Decoding methods on holiday.mp4"), "{page}");
    assert!(!page.contains(program.home().to_str().unwrap()), "{page}");
}

#[test]
fn the_axis_of_a_change_may_be_left_out() {
    let program = Program::new();
    let run = program.line("caption demo --json --max-new-tokens 2 --method lvspec --set lambda=0.2").ok();
    assert_eq!(event(&events(&run.stdout), "started")["method"]["acceptance"]["lambda"], 0.2);
    let run = program.line("compare demo --max-new-tokens 2 --methods naive,lvspec --set lambda=0.2").ok();
    run.said("--set acceptance.lambda=0.2 changes only lvspec");
}

#[test]
fn captions_too_long_to_be_read_are_whole_and_noted() {
    let program = Program::new();
    let run = program.run(&["caption", "demo", "--segments", "2", "--format", "srt"]).ok();
    run.said("captions too long to read");
    let blocks: Vec<Vec<&str>> =
        run.stdout.split("\n\n").map(|block| block.lines().skip(2).collect()).collect();
    assert!(blocks.len() > 3, "{}", run.stdout);
    assert!(blocks.iter().all(|lines| lines.len() <= 2), "{}", run.stdout);
    assert!(blocks.concat().iter().all(|line| line.chars().count() <= 42), "{}", run.stdout);
}

#[test]
fn a_limit_of_visual_tokens_thins_frames() {
    let program = Program::new();
    let naive = |more: &[&str]| {
        program.run(&[&["caption", "demo", "--json", "--method", "naive"], more, &SHORT[..]].concat())
    };
    let run = |limit: &str| naive(&["--max-visual-tokens", limit]);
    let whole = naive(&[]);
    let prompt = event(&events(&whole.stdout), "prompt").clone();
    let tokens = |prompt: &serde_json::Value| prompt["visual_tokens"].as_u64().unwrap();
    let grid = |prompt: &serde_json::Value, at: usize| prompt["grid"][at].as_u64().unwrap();
    assert!(prompt["notes"].is_null(), "{prompt}");

    let same = run(&tokens(&prompt).to_string());
    assert_eq!(event(&events(&same.stdout), "prompt"), &prompt, "a limit that is not reached");

    let less = run(&(tokens(&prompt) - 1).to_string());
    let thinned = event(&events(&less.stdout), "prompt").clone();
    let estimate = event(&events(&less.stdout), "estimate").clone();
    assert_eq!(estimate["visual_tokens"], thinned["visual_tokens"]);
    assert!(tokens(&thinned) < tokens(&prompt) && grid(&thinned, 0) == grid(&prompt, 0), "{thinned}");
    let note = estimate["notes"][0].as_str().unwrap();
    assert!(note.starts_with("--max-visual-tokens: ") && note.contains(" instead of "), "{note}");

    let dry =
        program.run(&["caption", "demo", "--dry-run", "--max-visual-tokens", &tokens(&thinned).to_string()]);
    dry.said(&format!("note: {note}"));

    let few = run("30");
    let thinned = event(&events(&few.stdout), "prompt").clone();
    assert!(tokens(&thinned) <= 30 && grid(&thinned, 0) < grid(&prompt, 0), "{thinned}");
    assert_eq!(thinned["frames"].as_array().unwrap().len() as u64, 2 * grid(&thinned, 0));

    let none = run("1").ends(2);
    let least = none.stderr.split("at least ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(run(least).code, 0);
    assert_eq!(run(&(least.parse::<u32>().unwrap() - 1).to_string()).code, 2);
}

#[test]
fn a_dry_run_reports_what_the_run_takes() {
    let program = Program::new();
    let dry = ["caption", "demo", "--dry-run"];
    let text = program.run(&dry).ok();
    let line =
        |name: &str| text.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    // The models have never run: they are probed.
    assert!(line("frames").contains(" frames of ") && line("tokens").contains(" visual, "), "{text:?}");
    assert!(line("memory").ends_with(" at the peak") && line("time").contains("writing up to "), "{text:?}");
    assert!(line("basis").contains("short passes"), "{}", text.stdout);

    let run = program.run(&["caption", "demo", "--json", "--max-new-tokens", "24"]);
    let seen = events(&run.stdout);
    let (estimate, prompt) = (event(&seen, "estimate"), event(&seen, "prompt"));
    assert_eq!(estimate["visual_tokens"], prompt["visual_tokens"]);
    assert_eq!(estimate["prompt_tokens"], prompt["prompt_ids"].as_array().unwrap().len());
    assert_eq!(estimate["frames"], prompt["frames"].as_array().unwrap().len());
    assert_eq!(estimate["max_new_tokens"], 24);
    let (said, peak) = (&estimate["peak_bytes"], &event(&seen, "done")["stats"]["peak_memory_bytes"]);
    let ratio = said.as_f64().unwrap() / peak.as_f64().unwrap();
    assert!((0.95..1.3).contains(&ratio), "{said} bytes for a peak of {peak}");
    let at = |name: &str| seen.iter().position(|event| event["run"] == 1 && event["event"] == name).unwrap();
    assert!(at("started") < at("estimate") && at("estimate") < at("stage"), "before the first stage");

    // What that run has measured is known now.
    let json = program.run(&[&dry[..], &["--json"]].concat());
    let found = events(&json.stdout);
    assert_eq!((found.len(), &found[0]["event"]), (1, &"estimate".into()), "{}", json.stdout);
    assert_eq!(found[0]["basis"], "measured");
    assert!(found[0]["tower_ms"].as_f64().unwrap() > 0.0 && found[0]["prompt_ms"].as_f64().unwrap() > 0.0);
    let pieces = program.run(&[&dry[..], &["--segments", "1"]].concat());
    pieces.printed("segments  ").printed(" at most, each");

    program.run(&["caption", "no.mp4", "--dry-run"]).ends(3);
}
