//! Parts of a video, and long videos in segments: text with time stamps, subtitles, events.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
};

use serde_json::Value;

use crate::cli::{Outcome, Program, event, events, send};

const SHORT: [&str; 2] = ["--max-new-tokens", "12"];

fn caption(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["caption", "demo"], &SHORT[..], args].concat())
}

fn files_with(program: &Program, extension: &str) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(program.home()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == extension)).collect()
}

fn spans(events: &[Value]) -> Vec<(f64, f64)> {
    let spans = events.iter().filter(|e| e["event"] == "started").map(|e| &e["span"]);
    spans.map(|s| (s["start"].as_f64().unwrap(), s["end"].as_f64().unwrap())).collect()
}

#[test]
fn events_say_which_part_a_run_is_about() {
    let program = Program::new();
    let run = caption(&program, &["--segments", "0:02", "--json"]).silent();
    let events = events(&run.stdout);
    let spans = spans(&events);
    assert_eq!(spans[..2], [(0.0, 2.0), (2.0, 4.0)]);
    assert_eq!(spans.len(), 3);
    let mut started = events.iter().filter(|e| e["event"] == "started");
    let piece = serde_json::json!({"first": 1, "index": 1, "count": 3});
    assert_eq!(
        (&started.nth(1).unwrap()["segment"], events.last().unwrap()["run"].as_u64()),
        (&piece, Some(3))
    );
    for (prompt, (start, end)) in events.iter().filter(|e| e["event"] == "prompt").zip(spans) {
        let frames: Vec<f64> =
            prompt["frames"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
        assert!(frames.len() >= 2 && frames.iter().all(|t| (start..end).contains(t)), "{frames:?}");
    }
}

#[test]
fn a_part_is_a_clip_of_its_own() {
    let program = Program::new();
    let json = |args: &[&str]| {
        let run = caption(&program, &[&["--json", "--method", "naive"], args].concat()).ok();
        events(&run.stdout)
    };
    let part = json(&["--start", "0:04"]);
    assert_eq!(spans(&part)[0].0, 4.0);
    assert!(event(&part, "started").get("segment").is_none());
    // The whole as a part is the whole.
    let (whole, same) = (json(&[]), json(&["--start", "0"]));
    assert!(event(&whole, "started").get("span").is_none());
    assert_eq!(event(&whole, "done")["ids"], event(&same, "done")["ids"]);
    assert_eq!(event(&whole, "prompt"), event(&same, "prompt"));
    assert_ne!(event(&whole, "prompt")["frames"], event(&part, "prompt")["frames"]);
    // A text without pieces has no time stamps.
    let text = caption(&program, &["--start", "1", "--end", "3"]);
    assert!(!text.stdout.contains("-->"), "{}", text.stdout);
}

#[test]
fn subtitles_are_written_also_by_replay() {
    let program = Program::new();
    let srt =
        caption(&program, &["--segments", "2", "--format", "srt", "--save", "a.jsonl", "--quiet"]).silent();
    assert!(srt.stdout.starts_with("1\n00:00:00,000 --> 00:00:0"), "{}", srt.stdout);
    // A number, times, and at most two lines; each piece has its time.
    let cues: Vec<&str> = srt.stdout.split_terminator("\n\n").collect();
    assert!(cues.iter().all(|cue| (3..=4).contains(&cue.lines().count())), "{}", srt.stdout);
    srt.printed(" --> 00:00:02,000\n");
    srt.printed("\n00:00:02,000 --> ");
    assert!(srt.stdout.ends_with("\n\n") && srt.stdout.lines().all(|l| l.chars().count() <= 42));
    let again = program.run(&["replay", "a.jsonl", "--speed", "0", "--format", "srt"]);
    assert_eq!((again.code, &again.stdout), (0, &srt.stdout), "{}", again.stderr);
    let text = program.run(&["replay", "a.jsonl", "--speed", "0"]);
    assert_eq!(text.stdout, caption(&program, &["--segments", "2"]).stdout);
    text.said("segments  3 of 3");

    // One cue over the whole length, where nobody asks for pieces.
    let vtt = caption(&program, &["--format", "vtt"]);
    assert!(vtt.stdout.starts_with("WEBVTT\n\n00:00:00.000 --> 00:00:06."), "{}", vtt.stdout);
    let sentences = caption(&program, &["--format", "vtt", "--cues", "sentences"]).ok();
    sentences.printed("WEBVTT\n\n00:00:00.000 --> ");
    caption(&program, &["--save", "b.jsonl"]).ok();
    program.run(&["replay", "b.jsonl", "--format", "srt"]).ends(2).said("which part of its video");
}

#[test]
fn output_is_well_formed_after_an_interrupt() {
    let program = Program::new();
    for format in ["vtt", "text"] {
        let args = ["caption", "demo", "--segments", "1", "--format", format, "--method", "autoregressive"];
        let mut child = program.spawn(&args);
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut out = String::new();
        while out.matches("-->").count() < 2 && reader.read_line(&mut out).unwrap() > 0 {}
        send(&child, "-INT");
        reader.read_to_string(&mut out).unwrap();
        let code = child.wait().unwrap().code();
        let mut talk = String::new();
        child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        // Either it was stopped, or it was over before the signal came.
        let whole = talk.contains("6 of 6") && !talk.contains("interrupted");
        assert_eq!(code, Some(if whole { 0 } else { 130 }), "{talk}");
        assert!(out.ends_with('\n'), "{out:?}");
        if format == "vtt" {
            let body = out.strip_prefix("WEBVTT\n\n").unwrap();
            assert!(body.ends_with("\n\n"), "{out:?}");
            for cue in body.split_terminator("\n\n") {
                let (times, text) = cue.split_once('\n').unwrap();
                assert!(times.contains(" --> ") && !text.is_empty(), "{cue:?}");
            }
        }
    }
}

#[test]
fn a_comparison_and_an_inspection_of_a_part() {
    let program = Program::new();
    let part = ["--start", "0:02", "--end", "4"];
    let run = program
        .run(
            &[&["compare", "demo", "--methods", "naive", "--json", "--html", "p.html"], &SHORT[..], &part]
                .concat(),
        )
        .silent();
    assert_eq!(spans(&events(&run.stdout)), [(2.0, 4.0); 2]);
    let page = std::fs::read_to_string(program.home().join("p.html")).unwrap();
    assert!(page.contains("<h1>Decoding methods on demo, 0:02 – 0:04</h1>"), "{page}");

    let run = program.run(&[&["inspect", "demo", "--png", "p.png", "--json"], &part[..]].concat()).silent();
    let events = events(&run.stdout);
    let frames = events[0]["frames"].as_array().unwrap();
    assert!(frames.iter().all(|t| (2.0..4.0).contains(&t.as_f64().unwrap())), "{frames:?}");
    assert!(program.home().join("p.png").exists());
}

#[test]
fn scenes_are_segments() {
    let program = Program::new();
    // The first clip has no cuts, the third has two.
    let scenes = ["--segments", "scenes", "--min-segment", "1"];
    let run = program.run(&[&["caption", "demo:3", "--json"], &SHORT[..], &scenes].concat()).silent();
    let found = spans(&events(&run.stdout));
    assert_eq!(found.iter().map(|span| span.0).collect::<Vec<_>>(), [0.0, 1.8, 5.5]);
    let whole = program.run(&[&["caption", "demo", "--format", "srt"], &SHORT[..], &scenes].concat());
    assert_eq!(whole.stdout.matches("-->").count(), 1, "{}", whole.stdout);
    // Many videos have the same segments.
    program
        .run(&[&["caption", "demo:3", "--sidecar", "json", "--out-dir", "."], &SHORT[..], &scenes].concat())
        .ok();
    let sidecar = files_with(&program, "json").pop().unwrap();
    let json: Value = serde_json::from_str(&std::fs::read_to_string(sidecar).unwrap()).unwrap();
    assert_eq!(json.to_string().matches("\"start\"").count(), 3, "{json}");
}

#[test]
fn options_of_scenes_are_checked() {
    let program = Program::new();
    let refused = |args: &[&str], words: &str| _ = caption(&program, args).ends(2).said(words);
    refused(&["--scene-threshold", "20"], "--scene-threshold is an option of --segments scenes");
    refused(&["--segments", "30", "--max-segment", "60"], "--max-segment is an option of --segments scenes");
    refused(&["--segments", "scene"], "expected a time, such as 30 or 1:30, or `scenes`");
    refused(&["--segments", "scenes", "--scene-threshold", "0"], "a number from 0.1 to 255");
    refused(
        &["--segments", "scenes", "--min-segment", "10", "--max-segment", "15"],
        "--max-segment 15 is less than twice --min-segment 10",
    );
}

#[test]
fn what_is_said_is_in_the_prompt_of_its_segment() {
    let program = Program::new();
    let srt = "1\n00:00:00,500 --> 00:00:01,500\nLook, a star.\n\n2\n00:00:03,000 --> 00:00:03,800\nIt <i>falls</i>.\n\n3\n00:01:00,000 \
               --> 00:01:01,000\nThe end.\n";
    std::fs::write(program.home().join("said.srt"), srt).unwrap();
    let prompts = |args: &[&str]| -> Vec<String> {
        let run = caption(
            &program,
            &[&["--json", "--prompt", "Describe.", "--transcript", "said.srt"], args].concat(),
        );
        let events = events(&run.silent().stdout);
        let started = events.iter().filter(|e| e["event"] == "started");
        started.map(|e| e["prompt"].as_str().unwrap().to_owned()).collect()
    };
    let said = |lines: &str| format!("What is said in the video:\n{lines}\nDescribe.");
    assert_eq!(
        prompts(&["--segments", "2"]),
        [said("[0:00.5 - 0:01.5] Look, a star.\n"), said("[0:01 - 0:01.8] It falls.\n"), "Describe.".into()]
    );
    assert_eq!(prompts(&[]), [said("[0:00.5 - 0:01.5] Look, a star.\n[0:03 - 0:03.8] It falls.\n")]);
    let run = caption(&program, &["--transcript", "said.srt"]).ok();
    run.said("note: 1 of 3 lines of the transcript are past the end of the video (0:06");

    // One video with a file of its own has it too, and its row has the prompt alone.
    let many = ["caption", "demo", "--sidecar", "json", "--transcript", "said.srt", "--out-dir", "."];
    program.run(&[&many, &SHORT[..], &["--json"]].concat()).ok().printed("Look, a star.");
    let row = files_with(&program, "json").pop().unwrap();
    let row: Value = serde_json::from_str(&std::fs::read_to_string(row).unwrap()).unwrap();
    assert_eq!(row["captions"][0]["transcript"], "said.srt");
    assert!(!row.to_string().contains("Look, a star."), "{row}");

    program
        .run(&["caption", "demo", "demo:2", "--transcript", "said.srt"])
        .ends(2)
        .said("is for one video; these are 2");
    caption(&program, &["--transcript", "none.srt"]).ends(3).said("transcript none.srt: no such file");
    std::fs::write(program.home().join("words.txt"), "no times").unwrap();
    caption(&program, &["--transcript", "words.txt"]).ends(3).said("it holds no line with a time");
}

#[test]
fn what_a_speech_model_hears_is_in_the_prompt_of_its_segment() {
    let program = Program::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/whisper");
    let clip = program.home().join("sound.mp4");
    std::fs::copy(fixtures.join("sound.mp4"), &clip).unwrap();
    let model = fixtures.to_str().unwrap();
    let heard = |args: &[&str]| {
        program.run(&[&["caption", "sound.mp4", "--transcribe", model], &SHORT[..], args].concat())
    };
    let run = heard(&["--json", "--segments", "4", "--prompt", "Describe."]).silent();
    let prompts: Vec<String> = events(&run.stdout)
        .iter()
        .filter(|event| event["event"] == "started")
        .map(|event| event["prompt"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        prompts[0].starts_with("What is said in the video:\n[") && prompts[0].ends_with("\n\nDescribe."),
        "{prompts:?}"
    );
    // Before the runs: how far the model is, and what it knows.
    let all = events(&run.stdout);
    let heard_s: Vec<_> =
        all.iter().filter(|e| e["stage"] == "listen").map(|e| (&e["done"], &e["total"])).collect();
    assert_eq!((heard_s[0], heard_s[heard_s.len() - 1]), ((&0.into(), &7.into()), (&7.into(), &7.into())));
    let at = |kind: &str| all.iter().position(|event| event["event"] == kind).unwrap();
    let told = &all[at("transcript")];
    assert!(at("transcript") < at("started") && told["run"] == 0 && told["file"] == model, "{told}");
    assert!(told["lines"].as_u64().unwrap() > 0 && told["notes"][0].to_string().contains("spoken language"));
    assert!(["de", "en", "fr"].contains(&told["language"].as_str().unwrap()), "{told}");
    heard(&[]).ok().said("note: the spoken language is `");
    for language in ["EN", "English"] {
        let told = heard(&["--language", language, "--json"]).ok().stdout;
        let told = events(&told).into_iter().find(|event| event["event"] == "transcript").unwrap();
        assert_eq!((&told["language"], told.get("notes")), (&"en".into(), None), "{told}");
    }
    heard(&["--language", "tlh"]).ends(2).said("hint: use one of: de, en, fr");

    // A picture has no sound.
    image::RgbImage::from_pixel(64, 64, image::Rgb([200, 20, 20]))
        .save(program.home().join("a.png"))
        .unwrap();
    let picture = ["caption", "a.png", "--transcribe", model];
    program.run(&[&picture[..], &SHORT[..]].concat()).ok().said("note: the video has no sound");
    let told = program.run(&[&picture[..], &SHORT[..], &["--json"]].concat()).ok();
    told.printed(r#""lines":0,"notes":["the video has no sound, so nothing is said in it"]"#);

    // Several videos, some of them without sound.
    let many =
        ["caption", "sound.mp4", "demo", "a.png", "--language", "en", "--sidecar", "json", "--out-dir", "."];
    program.run(&[&many, &SHORT[..], &["--transcribe", model]].concat()).ok();
    let rows: Vec<_> = files_with(&program, "json").into_iter().map(std::fs::read_to_string).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let row: Value = serde_json::from_str(&row.unwrap()).unwrap();
        assert_eq!(row["captions"][0]["transcript"], model, "{row}");
    }

    program
        .run(&["caption", "demo", "--transcribe", "nobody/whisper"])
        .ends(3)
        .said("specreel models pull nobody/whisper");
    program.run(&["caption", "demo", "--transcribe", "."]).ends(3).said("config.json");
    for (named, problem) in [("sound.mp4", "not a directory"), ("./none", "no such directory")] {
        let run = program.run(&["caption", "demo", "--transcribe", named]).ends(3);
        run.said(&format!("speech model {named}: {problem}\nhint: pass a directory with a Whisper model"));
    }
    let tracks = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/video/fixtures/tracks.mkv");
    std::fs::copy(tracks, program.home().join("tracks.mkv")).unwrap();
    let of_tracks = ["caption", "tracks.mkv", "--language", "en", "--transcribe", model];
    let listen = |args: &[&str]| program.run(&[&of_tracks[..], &SHORT[..], args].concat());
    listen(&[]).ok().said("note: the video has 2 audio tracks: 1 (eng), 2 (ger); --audio-track chooses one");
    assert!(!listen(&["--audio-track", "1"]).ok().stderr.contains("audio tracks"));
    listen(&["--audio-track", "3"]).ends(3).said("no audio track 3; it has 1 (eng), 2 (ger)");
    listen(&["--audio-track", "0"]).ends(2).said("--audio-track");
    program.run(&["caption", "demo", "--language", "en"]).ends(2).said("--transcribe");
}

#[test]
fn a_summary_reads_the_captions_of_the_segments() {
    let program = Program::new();
    let args = ["--segments", "2", "--summary=In short?", "--json", "--save", "a.jsonl"];
    let run = caption(&program, &args).silent();
    let events = events(&run.stdout);
    let done: Vec<&str> =
        events.iter().filter(|e| e["event"] == "done").map(|e| e["text"].as_str().unwrap().trim()).collect();
    assert_eq!(done.len(), 4);
    let last = events.iter().rfind(|e| e["event"] == "started").unwrap();
    let prompt = format!(
        "Captions of the parts of the video, in order:\n[0:00 - 0:02] {}\n[0:02 - 0:04] {}\n[0:04 - {}] {}\n\nIn short?",
        done[0],
        done[1],
        last["prompt"].as_str().unwrap().split("[0:04 - ").nth(1).unwrap().split(']').next().unwrap(),
        done[2]
    );
    assert_eq!(last["prompt"], prompt);
    assert_eq!((&last["run"], &last["summary_of"], last.get("segment")), (&4.into(), &1.into(), None));

    // As text it comes after the segments, in a saved run too.
    let text = caption(&program, &["--segments", "2", "--summary=In short?"]).ok();
    let (segments, summary) = text.stdout.split_once("\n\n").unwrap();
    assert_eq!((segments.lines().count(), summary.trim()), (3, done[3]), "{}", text.stdout);
    let replay = |format| program.run(&["replay", "a.jsonl", "--speed", "0", "--format", format]);
    assert_eq!(replay("text").stdout, text.stdout);

    let json: Value = serde_json::from_str(&replay("json").stdout).unwrap();
    assert_eq!(json["summary"], done[3]);
    assert_eq!((&json["events"][1]["start"], &json["events"][1]["text"]), (&2.0.into(), &done[1].into()));
    let chapters = replay("chapters").stdout;
    assert!(chapters.starts_with(";FFMETADATA1\ndescription="), "{chapters}");
    assert_eq!(chapters.matches("[CHAPTER]").count(), 3);
    program.file("a.ffmetadata", &chapters);
    let read = ffmpeg_next::format::input(&program.home().join("a.ffmetadata")).unwrap();
    assert_eq!(read.metadata().get("description"), Some(done[3].trim()));
    for (chapter, text) in read.chapters().zip(&done) {
        let title = chapter.metadata().get("title").unwrap().to_owned();
        let whole = title.trim_end_matches('…');
        assert!(title.len() > 10 && text.trim().starts_with(whole), "{title}");
        assert_eq!((chapter.start() / 2000, chapter.start() % 2000), (chapter.id(), 0));
    }

    for (args, words) in [
        (&["--summary"][..], "--summary sums up segments"),
        (&["--segments", "2", "--summary", "--format", "srt"], "no place for a summary"),
        (&["--segments", "2", "--summary", "--sidecar", "txt"], "--summary is for one video"),
    ] {
        caption(&program, args).ends(2).said(words);
    }
}

#[test]
fn chapters_need_no_segments_and_events_have_their_own_times() {
    let program = Program::new();
    let youtube = caption(&program, &["--format", "youtube"]).ok();
    assert!(youtube.stdout.starts_with("0:00 The"), "{}", youtube.stdout);
    youtube.said("note: YouTube shows chapters if there are at least 3");
    // The model is made to write one event.
    std::fs::write(program.home().join("event.lark"), "start: \"<1 - 2.5> It falls.\"\n").unwrap();
    let args = ["caption", "demo", "--grammar", "event.lark", "--segments", "3", "--format"];
    let json = program.run(&[&args[..], &["json"]].concat()).ok();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let event = |start: f64, end: f64| serde_json::json!({"start": start, "end": end, "text": "It falls."});
    assert_eq!(json, serde_json::json!({"events": [event(1.0, 2.5), event(4.0, 5.5)]}));
    let srt = program.run(&[&args[..], &["srt"]].concat()).ok();
    srt.printed("00:00:01,000 --> 00:00:02,500\nIt falls.");
}

#[test]
fn a_killed_run_is_resumed() {
    let program = Program::new();
    let args = ["--segments", "2", "--summary", "--quiet", "--save"];
    let whole = caption(&program, &[&args[..], &["whole.jsonl"]].concat()).silent();
    let file = |name: &str| std::fs::read_to_string(program.home().join(name)).unwrap();
    let lines: Vec<String> = file("whole.jsonl").split_inclusive('\n').map(str::to_owned).collect();
    let ends: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].contains("\"event\":\"done\"")).collect();
    assert_eq!(ends.len(), 4);
    // Killed in a line of the second segment, between segments, in the summary, after the end.
    let cut = |lines: &[String], more: &str| {
        std::fs::write(program.home().join("cut.jsonl"), lines.concat() + more).unwrap()
    };
    for (kept, more) in
        [(ends[0] + 4, "{\"run\":2,\"ev"), (ends[1] + 1, ""), (ends[2] + 3, ""), (lines.len(), "")]
    {
        cut(&lines[..kept], more);
        let again = caption(&program, &[&args[..], &["cut.jsonl", "--resume"]].concat()).silent();
        assert_eq!(again.stdout, whole.stdout, "{kept} lines were kept");
        let events = events(&file("cut.jsonl"));
        let done: Vec<u64> =
            events.iter().filter(|e| e["event"] == "done").map(|e| e["run"].as_u64().unwrap()).collect();
        assert_eq!(done, [1, 2, 3, 4], "{kept} lines were kept");
        assert!(file("cut.jsonl").starts_with(&lines[..=ends[0]].concat()));
    }
    // A file that does not exist is begun; one of another request is left alone.
    caption(&program, &[&args[..], &["new.jsonl", "--resume"]].concat()).silent();
    assert_eq!(file("new.jsonl").matches("\"event\":\"done\"").count(), 4);
    let before = file("cut.jsonl");
    let refused = |more: &[&str], what: &str| {
        let run = caption(&program, &[&["--save", "cut.jsonl", "--resume", "--segments"], more].concat());
        run.ends(2).said(&format!("has another {what}"));
        assert_eq!(file("cut.jsonl"), before);
    };
    refused(&["3"], "segment");
    refused(&["2", "--prompt", "What?"], "prompt");
    refused(&["2", "--method", "autoregressive"], "method");
    refused(&["2", "--temperature", "0.7"], "sampling");
    let schema = program.file("schema.json", r#"{"type": "object"}"#);
    refused(&["2", "--schema", &schema], "format of the answer");
    refused(&["2", "--target", "demo-drafter"], "target");
    caption(&program, &["--resume"]).ends(2).said("--save");
    // Nothing of another file is cut off.
    std::fs::write(program.home().join("notes.txt"), "Buy milk.\n").unwrap();
    let run = caption(&program, &["--segments", "2", "--save", "notes.txt", "--resume"]);
    run.ends(3).said("notes.txt is not a saved run");
    assert_eq!(file("notes.txt"), "Buy milk.\n");
}
