//! Segments of streams, captioned as they end.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::Value;

use crate::{
    cli::{Outcome, Program, event, events, send},
    video::make,
};

const SHORT: [&str; 4] = ["--max-new-tokens", "12", "--segments", "2"];

/// Segments of which the last one is no shorter than half of the others, so that it is the same for a stream.
const HALVES: [&str; 4] = ["--max-new-tokens", "12", "--segments", "4"];

/// The embedded clip as a file, which can be read as a stream.
fn clip() -> Vec<u8> {
    std::fs::read(specreel_demo::demo(None).unwrap().clips[0].path.clone()).unwrap()
}

fn watch(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["watch"], args, &SHORT[..]].concat())
}

fn piped(program: &Program, bytes: Vec<u8>, args: &[&str]) -> Outcome {
    let mut command = program.command();
    command.args([&["watch", "-"], &SHORT[..], args].concat()).write_stdin(bytes);
    crate::cli::outcome(&mut command)
}

#[test]
fn a_finished_file_has_the_captions_of_its_segments() {
    let program = Program::new();
    let want = program.run(&[&["caption", "demo"], &HALVES[..]].concat()).ok();
    let run = program.run(&[&["watch", "demo", "--idle", "0"], &HALVES[..]].concat()).ok();
    assert_eq!(run.stdout, want.stdout);
    assert_eq!(run.stdout.lines().count(), 2);
    assert!(run.stderr.contains("segments  2 of 2") && run.stderr.contains("24 tokens"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("auto (lossless)").count(), 1, "{}", run.stderr);

    let scenes = ["--max-new-tokens", "12", "--segments", "scenes", "--min-segment", "1"];
    let want = program.run(&[&["caption", "demo:3"], &scenes[..]].concat()).ok();
    let run = program.run(&[&["watch", "demo:3", "--idle", "0"], &scenes[..]].concat()).ok();
    assert_eq!(run.stdout, want.stdout);
}

#[test]
fn a_pipe_is_captioned_and_its_events_say_so() {
    let program = Program::new();
    let run = piped(&program, clip(), &["--json", "--out", "a.vtt"]).silent();
    let events = events(&run.stdout);
    let started: Vec<&Value> = events.iter().filter(|e| e["event"] == "started").collect();
    let piece = serde_json::json!({"first": 1, "index": 2, "count": 0});
    assert_eq!((&started[2]["segment"], &started[2]["video"]), (&piece, &"-".into()));
    let frames = event(&events, "prompt")["frames"].as_array().unwrap();
    assert!(frames.iter().all(|at| (0.0..2.0).contains(&at.as_f64().unwrap())), "{frames:?}");
    let vtt = std::fs::read_to_string(program.home().join("a.vtt")).unwrap();
    assert!(vtt.starts_with("WEBVTT\n\n00:00:00.000 --> ") && vtt.contains("\n00:00:02.000 --> "), "{vtt}");
    // A saved stream is replayed as segments are.
    program.file("a.jsonl", &run.stdout);
    let text = program.run(&["replay", "a.jsonl", "--speed", "0"]).ok();
    assert_eq!(text.stdout, piped(&program, clip(), &[]).ok().stdout);
}

#[test]
fn a_killed_run_is_continued_after_its_last_caption() {
    let program = Program::new();
    let file = |name: &str| std::fs::read_to_string(program.home().join(name)).unwrap();
    for name in ["a.srt", "a.jsonl"] {
        let args = ["demo", "--idle", "0", "--quiet", "--out", name];
        let whole = watch(&program, &args).silent();
        let text = file(name);
        // Killed while it wrote the second segment.
        program.file(name, &text[..text.len() / 2]);
        watch(&program, &args).ends(2).said("already exists");
        let rest = watch(&program, &[&args[..], &["--resume"]].concat()).silent();
        assert_eq!(file(name), text);
        assert!(whole.stdout.ends_with(&rest.stdout) && rest.stdout.len() < whole.stdout.len());
    }
    let lines = events(&file("a.jsonl"));
    assert_eq!((&lines[1]["start"], &lines[1]["end"]), (&2.0.into(), &4.0.into()));
    // A pipe starts over, and its times continue.
    let run = piped(&program, clip(), &["--quiet", "--out", "a.jsonl", "--resume"]).silent();
    assert!(run.stdout.starts_with("[00:00:06."), "{}", run.stdout);
}

#[test]
fn a_killed_run_is_continued_from_its_events() {
    let program = Program::new();
    let file = |name: &str| std::fs::read_to_string(program.home().join(name)).unwrap();
    let args = ["demo", "--idle", "0", "--quiet", "--save", "run.jsonl", "--out", "a.ffmetadata"];
    let whole = watch(&program, &args).silent();
    let (saved, chapters) = (file("run.jsonl"), file("a.ffmetadata"));
    assert_eq!(chapters.matches("[CHAPTER]").count(), whole.stdout.lines().count());
    let replayed = program.run(&["replay", "run.jsonl", "--speed", "0"]).ok();
    assert_eq!(replayed.stdout, whole.stdout);
    // Killed in the third segment; the second one's caption is not in the other file yet.
    let third = saved.match_indices("\"event\":\"started\"").nth(2).unwrap().0;
    program.file("run.jsonl", &saved[..third + 20]);
    program.file("a.ffmetadata", &chapters[..chapters.match_indices("[CHAPTER]").nth(1).unwrap().0]);
    let resumed = [&args[..], &["--resume"]].concat();
    watch(&program, &[&resumed[..], &["--prompt", "Who?"]].concat()).ends(2).said("has another prompt");
    let rest = watch(&program, &resumed).silent();
    assert_eq!(file("a.ffmetadata"), chapters);
    assert!(whole.stdout.ends_with(&rest.stdout) && rest.stdout.len() < whole.stdout.len());
    let texts = |events: &str| -> Vec<Value> {
        let done = crate::cli::events(events).into_iter().filter(|event| event["event"] == "done");
        done.map(|event| event["text"].clone()).collect()
    };
    assert_eq!(texts(&file("run.jsonl")), texts(&saved));
}

#[test]
fn what_is_said_is_in_the_prompt_of_a_segment() {
    let program = Program::new();
    program.file("said.srt", "1\n00:00:02,500 --> 00:00:03,500\nLook, a star.\n");
    let prompts = |args: &[&str]| -> Vec<String> {
        let run =
            watch(&program, &[args, &["--json", "--idle", "0", "--prompt", "Describe."]].concat()).silent();
        let started = events(&run.stdout).into_iter().filter(|event| event["event"] == "started");
        started.map(|event| event["prompt"].as_str().unwrap().to_owned()).collect()
    };
    let with = prompts(&["demo", "--transcript", "said.srt"]);
    assert_eq!(
        with[..2],
        ["Describe.", "What is said in the video:\n[0:00.5 - 0:01.5] Look, a star.\n\nDescribe."]
    );
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/whisper");
    let clip = fixtures.join("sound.mp4");
    let heard = prompts(&[clip.to_str().unwrap(), "--transcribe", fixtures.to_str().unwrap()]);
    assert!(heard[0].starts_with("What is said in the video:\n["), "{heard:?}");
    piped(&program, self::clip(), &["--transcribe", "x"]).ends(2).said("can be read only once");
}

#[test]
fn a_growing_file_is_followed_until_an_interrupt() {
    let program = Program::new();
    let bytes = clip();
    let (first, rest) = bytes.split_at(bytes.len() * 3 / 5);
    program.file("part.mp4", first);
    let args = ["watch", "part.mp4", "--idle", "3600", "--out", "a.srt"];
    let mut child = program.spawn(&[&args[..], &SHORT[..]].concat());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("[00:00:00.000 --> 00:00:02.000] The"));
    let file = std::fs::OpenOptions::new().append(true).open(program.home().join("part.mp4"));
    file.unwrap().write_all(rest).unwrap();
    assert!(next().starts_with("[00:00:02.000 --> 00:00:04.000] The"));
    send(&child, "-INT");
    let code = child.wait().unwrap().code();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(code, Some(130), "{talk}");
    // The line is printed before the file has its caption.
    let srt = std::fs::read_to_string(program.home().join("a.srt")).unwrap();
    assert!(srt.contains(" --> 00:00:02,000\n") && srt.ends_with("\n\n"), "{srt}");
}

#[test]
fn streams_that_cannot_be_read_are_refused() {
    let program = Program::new();
    watch(&program, &["none.mp4"]).ends(3).said("video none.mp4: no such file");
    piped(&program, Vec::new(), &[]).ends(2).said("no video on stdin: it is empty");
    piped(&program, make::wav().bytes(), &[]).ends(3).said("-: no video stream, only audio");
    let unreachable = watch(&program, &["http://user:secret@127.0.0.1:1/live.ts", "--json"]).ends(3);
    unreachable.said("http://127.0.0.1:1/live.ts: cannot open the stream");
    assert_eq!(unreachable.last()["event"], "failed");
    assert!(!unreachable.stderr.contains("secret") && !unreachable.stdout.contains("secret"));
    watch(&program, &["demo", "--out", "a.json"]).ends(2).said("ends in .srt, .vtt, .txt");
    watch(&program, &["demo", "--min-segment", "3"]).ends(2).said("is an option of --segments scenes");
}

#[test]
fn a_named_pipe_is_a_pipe() {
    let program = Program::new();
    let path = program.home().join("pipe");
    assert!(
        std::process::Command::new("mkfifo").arg(&path).stdout(Stdio::null()).status().unwrap().success()
    );
    let writer = std::thread::spawn(move || std::fs::write(path, clip()));
    assert_eq!(watch(&program, &["pipe"]).ok().stdout.lines().count(), 4);
    writer.join().unwrap().unwrap();
}

/// Segments are found while the file is watched and after that; a stream that is no file has no moments to return to.
#[cfg(feature = "find")]
#[test]
fn a_watched_file_is_kept_in_the_index() {
    let program = Program::new();
    std::fs::write(program.home().join("a.mp4"), clip()).unwrap();
    let args = ["a.mp4", "--idle", "0", "--index", "--out", "a.jsonl"];
    watch(&program, &args).ok();
    let lines = events(&std::fs::read_to_string(program.home().join("a.jsonl")).unwrap());
    let last = lines.last().unwrap();
    let words = last["text"].as_str().unwrap();
    let word = words.split(|c: char| !c.is_alphanumeric()).max_by_key(|word| word.len()).unwrap();
    let found = program.run(&["find", word, "--json"]).ok().json();
    let moments = found["moments"].as_array().unwrap();
    let here = |moment: &&Value| moment["start"] == last["start"] && moment["end"] == last["end"];
    assert!(moments.iter().find(here).unwrap()["video"].as_str().unwrap().ends_with("a.mp4"), "{found}");
    // Continued after the first segment, all segments are there again.
    let text = std::fs::read_to_string(program.home().join("a.jsonl")).unwrap();
    program.file("a.jsonl", &text[..=text.find('\n').unwrap()]);
    watch(&program, &[&args[..], &["--resume"]].concat()).ok();
    let again = program.run(&["find", word, "--json"]).ok().json();
    assert_eq!(again["moments"].as_array().unwrap().len(), moments.len());
    piped(&program, clip(), &["--index"]).ends(2).said("this stream is none");
}
