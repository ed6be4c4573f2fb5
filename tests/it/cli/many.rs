//! Many clips in one run: what is found, what is written, what is skipped, and what survives a kill.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::cli::{Program, events, make::Clip};

const SHORT: [&str; 4] = ["--max-new-tokens", "5", "--frames", "2"];

/// Some short clips under these names.
fn clips(program: &Program, names: &[impl AsRef<Path>]) {
    for (i, name) in names.iter().enumerate() {
        let path = program.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, Clip::of(6 + i % 3).write().bytes()).unwrap();
    }
}

fn caption(program: &Program, args: &[&str]) -> crate::cli::Outcome {
    program.run(&[&["caption"], args, &SHORT].concat())
}

/// The files below a directory that are no clips, hidden ones included, with their contents.
fn written(folder: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let is_link = path.symlink_metadata().unwrap().is_symlink();
            if path.is_dir() && !is_link {
                folders.push(path);
            } else if !is_link && !path.extension().is_some_and(|e| e == "mp4" || e == "mkv") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), text);
            }
        }
    }
    found
}

fn rows(path: &Path) -> Vec<Value> {
    events(&fs::read_to_string(path).unwrap())
}

/// 40 files: good ones, with odd names, and every kind of bad one. Returns the names of the good ones.
fn forty(program: &Program) -> BTreeSet<PathBuf> {
    let folder = program.home().join("clips");
    let mut good: Vec<PathBuf> = (0..22).map(|i| format!("{}/{i}.mp4", i % 3).into()).collect();
    good.extend(
        ["two\nlines.mp4", "comma, \"quoted\".mp4", "é ü 红.mp4", "-dash.mp4", "%41;$(x).mp4"]
            .map(PathBuf::from),
    );
    let bytes = Clip::of(6).write().bytes();
    for name in &good {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), &bytes).unwrap();
    }
    let bad: [(&str, &[u8]); 8] = [
        ("bad/empty.mp4", b""),
        ("bad/text.mp4", b"this is no video\n"),
        ("bad/zeros.mp4", &[0; 4096]),
        ("bad/cut.mp4", &bytes[..bytes.len() / 3]),
        ("bad/page.mp4", b"<html>404</html>"),
        ("bad/png.mp4", b"\x89PNG\r\n\x1a\n"),
        ("bad/head.mp4", &bytes[..40]),
        ("bad/noise.mkv", &[0xa5; 999]),
    ];
    fs::create_dir_all(folder.join("bad/folder.mp4")).unwrap();
    for (name, bytes) in bad {
        fs::write(folder.join(name), bytes).unwrap();
    }
    fs::create_dir_all(folder.join(".hidden")).unwrap();
    fs::write(folder.join(".hidden/x.mp4"), &bytes).unwrap();
    fs::write(folder.join("bad/ignored.mp4"), &bytes).unwrap();
    fs::write(folder.join("bad/.ignore"), "ignored.mp4\n").unwrap();
    std::os::unix::fs::symlink("..", folder.join("bad/circle")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("bad/dead.mp4")).unwrap();
    good.into_iter().collect()
}

#[test]
fn a_directory_is_captioned_and_bad_files_stop_nothing() {
    let program = Program::new();
    let good = forty(&program);
    let folder = program.home().join("clips");
    let odd = OsStr::from_bytes(b"caf\xe9.mp4");
    fs::write(folder.join(odd), Clip::of(6).write().bytes()).unwrap();
    let args = ["clips", "--sidecar", "txt", "--dataset", "csv"];
    let run = caption(&program, &args);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{}", run.stderr);
    // Eight that are no videos, and one that a data set cannot name.
    run.said("36 videos: 27 captioned, 9 failed");
    for name in ["empty", "text", "zeros", "cut", "page", "png", "head", "noise"] {
        let line = run.stderr.lines().find(|line| line.starts_with("failed: ") && line.contains(name));
        assert!(line.is_some(), "{name}: {}", run.stderr);
    }
    run.said("not UTF-8");
    let text = written(&folder);
    for name in &good {
        assert!(!text[&name.with_extension("txt")].trim().is_empty(), "{name:?}");
    }
    let single = caption(&program, &["clips/0/0.mp4"]);
    assert_eq!(single.stdout.trim(), text[Path::new("0/0.txt")].trim());
    let csv = &text[Path::new("dataset.csv")];
    assert!(
        csv.starts_with("\"video\",\"caption\",\"prompt\",\"cut\"\n")
            && csv.contains("\"comma, \"\"quoted\"\".mp4\""),
        "{csv}"
    );
    assert!(
        text.keys()
            .all(|path| !path.to_string_lossy().ends_with(".lock")
                && !path.to_string_lossy().ends_with(".part"))
    );

    // Again: nothing is done twice, and what failed is not tried.
    let before = text.clone();
    let again = caption(&program, &args).ends(5);
    again.said("36 videos: 0 captioned, 27 had captions, 9 failed");
    assert_eq!(written(&folder), before);
    assert_eq!(again.stderr.matches("failed: ").count(), 1, "{}", again.stderr);
    let retried = caption(&program, &[&args[..], &["--retry-failed"]].concat());
    assert_eq!(retried.stderr.matches("failed: ").count(), 9, "{}", retried.stderr);
    // A file that was repaired is tried without being asked.
    fs::write(folder.join("bad/cut.mp4"), Clip::of(6).write().bytes()).unwrap();
    caption(&program, &args).said("1 captioned, 27 had captions, 8 failed");

    python(
        &folder,
        "import csv; rows = list(csv.DictReader(open('dataset.csv', newline='')));\n\
        assert len(rows) == 28 and {'two\\nlines.mp4', 'comma, \"quoted\".mp4', 'bad/cut.mp4'} <= {r['video'] for r in rows}, rows",
    );
    let checked = program.run(&["dataset", "check", "clips/dataset.csv"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (0, "28 rows, no problems\n"));
}

/// Run a check in Python, where there is one.
fn python(folder: &Path, code: &str) {
    let Ok(ran) = Command::new("python3").args(["-c", code]).current_dir(folder).output() else {
        eprintln!("skipped: no python3");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let names: Vec<String> = (0..12).map(|i| format!("clips/{}/{i}.mp4", i % 2)).collect();
    let args = ["caption", "clips", "--sidecar", "txt", "--dataset", "ltx", "--quiet"];
    let whole = Program::new();
    clips(&whole, &names);
    assert_eq!(whole.run(&[&args[..], &SHORT].concat()).code, 0);
    let expected = written(&whole.home().join("clips"));
    let sorted = |rows: &str| rows.lines().map(str::to_owned).collect::<BTreeSet<_>>();

    let program = Program::new();
    clips(&program, &names);
    let folder = program.home().join("clips");
    // By name: what is written meanwhile may be renamed or removed before it could be read.
    let done = |name: &&String| program.home().join(name).with_extension("txt").exists();
    let count = || names.iter().filter(done).count();
    for until in [1, 3, 4, 8] {
        let mut child = program.spawn(&[&args[..], &SHORT].concat());
        while count() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
    // A row that was cut short.
    let dataset = folder.join("dataset.jsonl");
    let text = fs::read_to_string(&dataset).unwrap();
    fs::write(&dataset, &text[..text.len() - 7]).unwrap();
    program.run(&[&args[..], &SHORT].concat()).ok();
    let mut found = written(&folder);
    let rows_of = |files: &BTreeMap<PathBuf, String>| files[Path::new("dataset.jsonl")].clone();
    assert_eq!(rows_of(&found).lines().count(), 12);
    assert_eq!(sorted(&rows_of(&found)), sorted(&rows_of(&expected)));
    found.insert("dataset.jsonl".into(), rows_of(&expected));
    assert_eq!(found, expected);
}

#[test]
fn two_processes_share_a_directory() {
    let program = Program::new();
    let names: Vec<String> = (0..16).map(|i| format!("clips/{i}.mp4")).collect();
    clips(&program, &names);
    let args = ["caption", "clips", "--sidecar", "txt", "--dataset", "musubi"];
    let children: Vec<_> = (0..2).map(|_| program.spawn(&[&args[..], &SHORT].concat())).collect();
    let said: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        })
        .collect();
    let captioned = |text: &String| {
        let line =
            text.lines().find(|line| line.starts_with("16 videos: ")).unwrap_or_else(|| panic!("{text}"));
        line["16 videos: ".len()..].split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(said.iter().map(captioned).sum::<usize>(), 16, "{said:?}");
    let rows = rows(&program.home().join("clips/dataset.jsonl"));
    let paths: BTreeSet<&str> = rows.iter().map(|row| row["video_path"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), paths.len()), (16, 16));
    assert!(paths.iter().all(|path| Path::new(path).is_absolute() && Path::new(path).exists()));
}

#[test]
fn videos_that_are_captioned_at_once_get_the_captions_that_each_gets_alone() {
    let program = Program::new();
    let names: Vec<String> = (0..9).map(|i| format!("clips/{i}.mp4")).collect();
    clips(&program, &names);
    fs::write(program.home().join("clips/bad.mp4"), "this is no video").unwrap();
    let captions = |args: &[&str]| {
        let args = [&["caption", "clips", "--dataset", "jsonl", "--json", "--frames", "3"], args].concat();
        let run = program.run(&[&args[..], &["--max-new-tokens", "24"]].concat()).ends(5);
        let file = program.home().join("clips/dataset.jsonl");
        let of = |row: &Value| (row["video"].to_string(), row["caption"].to_string());
        let captions: BTreeMap<String, String> = rows(&file).iter().map(of).collect();
        fs::remove_file(file).unwrap();
        fs::remove_dir_all(program.home().join("clips/.specreel")).ok();
        (captions, run)
    };
    let (alone, _) = captions(&[]);
    assert_eq!(alone.len(), 9);
    let (at_once, run) = captions(&["--parallel", "4", "--verify=4"]);
    assert_eq!(at_once, alone);
    let last = run.last();
    assert_eq!((&last["captioned"], &last["failed"], &last["broken"]), (&9.into(), &1.into(), &0.into()));
    let events = events(&run.stdout);
    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((count("ready"), count("done")), (1, 9), "models are loaded once");
    let done = events.iter().filter(|event| event["event"] == "done");
    let numbers: BTreeSet<u64> = done.filter_map(|event| event["run"].as_u64()).collect();
    assert!(numbers.len() == 9 && numbers.iter().all(|number| (1..=10).contains(number)), "{numbers:?}");
    program.run(&["caption", "clips", "--parallel", "0"]).ends(2);
    program.run(&["caption", "--stdin", "--parallel", "2"]).ends(2);
}

#[test]
fn parts_merge_to_what_one_run_writes() {
    let program = Program::new();
    let names: Vec<String> = (0..9).map(|i| format!("clips/{i}.mp4")).collect();
    clips(&program, &names);
    let base = ["clips", "--dataset", "hf", "--quiet"];
    caption(&program, &base).ok();
    let mut parts = Vec::new();
    for id in 0..3 {
        let out = program.home().join(format!("clips/metadata.{}-of-3.jsonl", id + 1));
        let mut command = program.command();
        command.args(["caption"]).args(base).args(SHORT).args(["--shard", "auto"]);
        command.env("SLURM_ARRAY_TASK_ID", id.to_string());
        command.env("SLURM_ARRAY_TASK_MIN", "0").env("SLURM_ARRAY_TASK_COUNT", "3");
        crate::cli::outcome(&mut command).ok();
        if out.exists() {
            parts.push(out.to_str().unwrap().to_owned());
        }
    }
    let merged =
        [&["dataset", "merge", "clips/all.jsonl"], &parts.iter().map(String::as_str).collect::<Vec<_>>()[..]];
    assert_eq!(program.run(&merged.concat()).code, 0);
    program.run(&["dataset", "merge", "clips/one.jsonl", "clips/metadata.jsonl"]).ok();
    let text = |name: &str| fs::read_to_string(program.home().join("clips").join(name)).unwrap();
    assert_eq!(text("all.jsonl"), text("one.jsonl"));
    assert_eq!(program.run(&merged.concat()).code, 2, "an existing file needs --force");
    let stats = program.run(&["dataset", "stats", "clips/all.jsonl", "--json"]);
    assert_eq!(events(&stats.stdout)[0]["videos"], 9);
    assert_eq!(rows(&program.home().join("clips/all.jsonl"))[0]["file_name"], "0.mp4");
}

#[test]
fn every_form_has_the_prefix() {
    let program = Program::new();
    let prefix = ["--prefix", "ohwx,", "--segments", "3"];
    for sidecar in ["txt", "srt", "vtt", "chapters", "youtube", "json"] {
        caption(&program, &[&["demo", "--sidecar", sidecar, "--out-dir", sidecar], &prefix[..]].concat())
            .ok();
        let file = written(&program.home().join(sidecar)).into_values().next().unwrap();
        let times = match sidecar {
            "txt" => 1,
            // The whole and its segments.
            "json" => 3,
            _ => 2,
        };
        let times = if sidecar == "youtube" { file.lines().count() } else { times };
        assert_eq!(file.matches("ohwx, The").count(), times, "{sidecar}: {file}");
        if sidecar != "txt" {
            let run = caption(&program, &[&["demo", "--format", sidecar], &prefix[..]].concat()).ok();
            let times = times.min(2);
            assert_eq!(run.stdout.matches("ohwx, The").count(), times, "{sidecar}: {}", run.stdout);
        }
    }
}

#[test]
fn captions_go_to_the_forms_that_are_asked_for() {
    let program = Program::new();
    clips(&program, &["in/a.mp4", "in/b/c.mp4"]);
    program.file("prompts.txt", "# two\nDescribe the video.\n\nWhat moves?\n");
    let line = "in --sidecar json --out-dir out --prompt-file prompts.txt --dataset jsonl";
    caption(&program, &line.split(' ').collect::<Vec<_>>()).ok();
    let out = written(&program.home().join("out"));
    assert_eq!(out.keys().collect::<Vec<_>>(), ["a.json", "b/c.json", "dataset.jsonl"].map(Path::new));
    let json: Value = serde_json::from_str(&out[Path::new("b/c.json")]).unwrap();
    assert_eq!((&json["video"], json["captions"].as_array().unwrap().len()), (&"c.mp4".into(), 2));
    assert_eq!(json["captions"][1]["prompt"], "What moves?");
    let rows = rows(&program.home().join("out/dataset.jsonl"));
    assert_eq!((rows.len(), &rows[3]["method"], rows[3]["reason"].is_string()), (4, &"auto".into(), true));
    assert!(Path::new(rows[0]["video"].as_str().unwrap()).exists());

    let run = caption(&program, &["in", "--sidecar", "vtt", "--segments", "1", "--limit", "1"]);
    assert!(run.code == 0 && run.stderr.contains("2 videos: 1 captioned, 1 left"), "{}", run.stderr);
    assert!(
        fs::read_to_string(program.home().join("in/a.vtt"))
            .unwrap()
            .starts_with("WEBVTT\n\n00:00:00.000 --> ")
    );
    caption(&program, &["demo", "--sidecar", "chapters", "--segments", "3", "--out-dir", "chapters"]).ok();
    let chapters = written(&program.home().join("chapters")).into_values().next().unwrap();
    assert!(chapters.starts_with(";FFMETADATA1\n\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND="), "{chapters}");
    assert_eq!(chapters.matches("\ntitle=The").count(), 2, "{chapters}");
    let run = caption(&program, &["in", "--sidecar", "youtube", "--segments", "3"]).ok();
    run.said("note: 2 videos have too few chapters for YouTube");
    let lines = fs::read_to_string(program.home().join("in/a.youtube.txt")).unwrap();
    assert!(lines.starts_with("0:00 The"), "{lines}");
    caption(&program, &["in", "--sidecar", "youtube"]).ends(2).said("add --segments scenes");
    // Without files, captions are lines on stdout; events with --json.
    let run = caption(&program, &["in/*.mp4", "in/b"]).ok();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(
        matches!(lines[..], [a, c] if a.starts_with("in/a.mp4: ") && c.starts_with("c.mp4: ")),
        "{lines:?}"
    );
    let run = caption(&program, &["in", "--json"]);
    let events = events(&run.stdout);
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(
        (named("started"), named("done"), named("clip"), named("batch"), run.stderr.as_str()),
        (2, 2, 2, 1, "")
    );
    assert_eq!(events.last().unwrap()["captioned"], 2);
    // What would be done.
    let run = caption(&program, &["in", "--sidecar", "vtt", "--dry-run"]);
    assert!(run.code == 0 && run.stdout.contains("2: 1 to caption, 1 have captions"), "{}", run.stdout);
}

/// A model that ends at once: its end token is what it would write first.
#[test]
fn an_empty_caption_is_no_caption() {
    let program = Program::new();
    clips(&program, &["in/a.mp4", "in/b.mp4"]);
    let model = program.copy("tests/parity/fixtures/gqa_tied", "model");
    let target = ["--target", "model", "--max-new-tokens", "1", "--frames", "2", "--prompt", "x"];
    let run = program.run(&[&["caption", "in/a.mp4", "--json"], &target[..]].concat());
    let first = crate::cli::event(&events(&run.stdout), "done")["ids"][0].clone();
    let path = model.join("generation_config.json");
    fs::write(path, serde_json::json!({ "eos_token_id": first }).to_string()).unwrap();

    let alone = program.run(&[&["caption", "in/a.mp4"], &target[..]].concat());
    assert_eq!((alone.code, alone.stdout.as_str()), (0, ""), "{}", alone.stderr);
    alone.said("note: the model wrote nothing; change --prompt");
    let batch =
        |more: &[&str]| program.run(&[&["caption", "in", "--existing", "overwrite"], more, &target].concat());
    let run = batch(&["--sidecar", "txt"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    for part in
        ["empty: in/a.mp4", "2 videos: 0 captioned, 2 empty", "hint: the model wrote nothing about 2 videos"]
    {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let run = batch(&["--sidecar", "json", "--json"]);
    let lines = events(&run.stdout);
    let last = lines.last().unwrap();
    assert_eq!((&last["captioned"], &last["empty"]), (&0.into(), &2.into()));
    assert!(lines.iter().any(|line| line["outcome"] == "empty"), "{}", run.stdout);
    let written: Value =
        serde_json::from_str(&fs::read_to_string(program.home().join("in/a.json")).unwrap()).unwrap();
    assert_eq!(written["captions"][0]["empty"], true);
}

#[test]
fn a_program_keeps_the_models_loaded() {
    let program = Program::new();
    clips(&program, &["a.mp4"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args([&["caption", "--stdin"], &SHORT[..]].concat())
        .env("HOME", program.home())
        .current_dir(program.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"a.mp4\n\nnone.mp4\n{\"video\": \"demo:2\", \"prompt\": \"What moves?\"}\n";
    let mut lines = lines.to_vec();
    // What JSON cannot hold, and what no context window does, stops nothing.
    lines.extend(b"{\"video\": \"a.mp4\", \"prompt\": \"\\ud800\"}\n{\"video\": \"a.mp4\", \"prompt\": \"\xff\"}\n{\"vid\": 1}\n");
    for megabytes in [2, 10] {
        lines.extend(
            [&b"{\"video\": \"a.mp4\", \"prompt\": \""[..], &vec![b'a'; megabytes << 20], b"\"}\n"].concat(),
        );
    }
    lines.extend(b"{\"video\": \"a.mp4\", \"prompt\": \"What\\u0000moves?\"}\n{\"video\": \"a\\u0000.mp4\"}");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &lines).unwrap();
    let output = child.wait_with_output().unwrap();
    let rows = events(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(rows.len(), 10);
    for (row, error) in rows[3..8].iter().zip([
        "line 5: not valid JSON: ",
        "line 6: not valid JSON: ",
        "line 7: not valid JSON: missing field `video`",
        "line 8: the prompt is longer than 1 MiB",
        "line 9: it is longer than 8 MiB",
    ]) {
        assert!(row["error"].as_str().unwrap().starts_with(error) && row.to_string().len() < 1000, "{row}");
        assert_eq!((&row["class"], row["hint"].is_string()), (&"usage".into(), true));
    }
    assert_eq!((rows[8]["caption"].is_string(), &rows[8]["prompt"]), (true, &"What\0moves?".into()));
    assert!(rows[9]["error"].is_string(), "{}", rows[9]);
    assert!(
        rows[0]["caption"].is_string() && rows[1]["error"].as_str().unwrap().contains("none.mp4"),
        "{rows:?}"
    );
    assert_eq!((&rows[1]["class"], &rows[2]["prompt"]), (&"input".into(), &"What moves?".into()));
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn clips_that_can_have_no_output_stop_no_others() {
    let program = Program::new();
    clips(&program, &["in/a.mp4", "in/a.mkv", "other/b.mp4"]);
    // Two clips with one stem: the second is named, the first is captioned.
    let run = caption(&program, &["in", "--sidecar", "txt"]).ends(5);
    run.said("failed: video in/a.mp4: its sidecar in/a.txt belongs to in/a.mkv");
    assert!(program.home().join("in/a.txt").exists());
    // Clips that are not there.
    let run = caption(&program, &["no.mp4", "other/b.mp4", "--sidecar", "txt", "--out-dir", "o"]);
    assert!(run.code == 5 && program.home().join("o/other/b.txt").exists(), "{}", run.stderr);
}

/// A Slurm of its own on the loopback: an array of four over forty clips, of which one task is killed and queued again.
#[test]
fn a_slurm_array_writes_what_one_run_writes() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scale/slurm.sh");
    let has = |name: &str| Path::new("/usr/sbin").join(name).exists();
    if !(["slurmctld", "slurmd", "munged", "mungekey"].into_iter().all(has)
        && rustix::process::getuid().is_root())
    {
        eprintln!("skipped: no Slurm is installed, or the test does not run as root");
        return;
    }
    let program = Program::new();
    let names: Vec<String> = (0..40).map(|i| format!("clips/{}/{i}.mp4", i % 3)).collect();
    clips(&program, &names);
    let state = tempfile::tempdir().unwrap();
    let ran = Command::new(script)
        .args([env!("CARGO_BIN_EXE_specreel"), state.path().to_str().unwrap(), "clips/dataset.2-of-4.jsonl"])
        .args([&["clips", "--dataset", "jsonl"][..], &SHORT].concat())
        .env("HOME", program.home())
        .current_dir(program.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}\n{said}", String::from_utf8_lossy(&ran.stdout));
    // The second task was there twice, and went on where it was.
    let out = fs::read_to_string(state.path().join("out/2")).unwrap();
    assert_eq!(out.matches("part 2/4").count(), 2, "{out}");
    let parts: Vec<String> = (1..=4).map(|part| format!("clips/dataset.{part}-of-4.jsonl")).collect();
    let merged =
        [&["dataset", "merge", "clips/all.jsonl"], &parts.iter().map(String::as_str).collect::<Vec<_>>()[..]];
    program.run(&merged.concat()).said("40 rows from 4 files; 0 replaced, 0 unreadable");
    assert_eq!(caption(&program, &["clips", "--dataset", "jsonl", "--quiet"]).code, 0);
    assert_eq!(program.run(&["dataset", "merge", "clips/one.jsonl", "clips/dataset.jsonl"]).code, 0);
    let untimed = |name: &str| -> Vec<Value> {
        let mut rows = rows(&program.home().join("clips").join(name));
        rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("seconds")));
        rows
    };
    assert_eq!(untimed("all.jsonl"), untimed("one.jsonl"));
}

#[test]
fn every_second_clip_is_verified() {
    let program = Program::new();
    clips(&program, &["clips/a.mp4", "clips/b.mp4", "clips/c.mp4"]);
    let args = ["clips", "--sidecar", "txt", "--existing", "overwrite", "--verify=2"];
    caption(&program, &args).ok().said("2 videos verified: identical to autoregressive decoding");
    let last = caption(&program, &[&args[..], &["--json"]].concat()).ok().last();
    assert_eq!((&last["verified"], &last["broken"]), (&2.into(), &0.into()), "{last}");
    assert_eq!(last["differing"], Value::Array(Vec::new()));
    caption(&program, &["clips", "--verify=0"]).ends(2);
}

#[test]
fn clips_that_are_shorter_than_the_part_are_captioned_to_their_end() {
    let program = Program::new();
    fs::write(program.home().join("short.mp4"), Clip::of(25).write().bytes()).unwrap();
    fs::write(program.home().join("long.mp4"), Clip::of(100).write().bytes()).unwrap();
    caption(&program, &["long.mp4", "short.mp4", "--end", "3", "--sidecar", "txt"]).ok();
    assert!(program.home().join("short.txt").exists());
    // One that ends before the part begins has none, and of a single clip the end is a mistake.
    let args = ["long.mp4", "short.mp4", "--start", "2", "--sidecar", "txt", "--existing", "overwrite"];
    caption(&program, &args).ends(5).said("past the end");
    caption(&program, &["short.mp4", "--end", "3"]).ends(3).said("past the end");
}
