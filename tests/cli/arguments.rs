//! Arguments that make no sense, and inputs that cannot be.

use crate::Program;

#[test]
fn values_out_of_range_are_usage_errors_that_name_the_range() {
    let program = Program::new();
    for (args, parts) in [
        (&["--temperature", "101"][..], &["--temperature", "0 to 100"][..]),
        (&["--temperature", "nan"], &["--temperature", "0 to 100"]),
        (&["--top-p", "0"], &["--top-p", "above 0, up to 1"]),
        (&["--top-p", "1.5"], &["--top-p", "above 0, up to 1"]),
        (&["--seed", "-1"], &["--seed"]),
        (&["--max-new-tokens", "0"], &["--max-new-tokens", "1..=65536"]),
        (&["--frames", "0"], &["--frames", "1..=4096"]),
        (&["--fps", "0"], &["--fps", "above 0"]),
        (&["--frames", "4", "--fps", "1"], &["--frames", "--fps"]),
        (&["--device", "tpu"], &["--device", "auto, cpu, cuda"]),
        (&["--dtype", "q9"], &["--dtype", "q4_k and q4_0"]),
        (&["--color", "sometimes"], &["--color", "auto, always, never"]),
        (&["--metod", "fly"], &["--metod", "--method"]),
        (&["--force"], &["--save"]),
    ] {
        let run = program.run(&[&["caption", "demo"], args].concat());
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("\nhint: "), "{}", run.stderr);
        for part in parts {
            assert!(run.stderr.contains(part), "{args:?} lacks {part}: {}", run.stderr);
        }
    }
}

#[test]
fn with_json_the_failure_is_also_the_last_event() {
    let program = Program::new();
    for (args, class, code) in [
        (&["caption", "no.mp4", "--json"][..], "input", 3),
        (&["caption", "demo", "--json", "--top-p", "7"], "usage", 2),
        (&["caption", "--json"], "usage", 2),
        (&["methods", "show", "nothing", "--json"], "usage", 2),
    ] {
        let run = program.run(args);
        assert_eq!(run.code, code, "{args:?}");
        let last: serde_json::Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["class"]), (&"failed".into(), &class.into()), "{args:?}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}

#[test]
fn videos_that_are_none() {
    let program = Program::new();
    std::fs::create_dir(program.home().join("folder")).unwrap();
    program.file("empty.mp4", "");
    for (video, sentence) in [
        ("no.mp4", "error: video no.mp4: no such file\nhint: check the path; `demo` is an embedded clip\n"),
        (
            "folder",
            "error: video folder: it is a directory\nhint: name a video file inside it; the studio opens folders: specreel DIR\n",
        ),
        (
            "empty.mp4",
            "error: video empty.mp4: the file is empty\nhint: was it copied or downloaded completely?\n",
        ),
    ] {
        let run = program.run(&["caption", video]);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (3, "", sentence));
    }
    let run = program.run(&["caption", "demo:999"]);
    assert!([2, 3].contains(&run.code) && run.stderr.starts_with("error: "), "{}", run.stderr);
}

#[test]
fn models_that_are_none() {
    let program = Program::new();
    let clip = program.file("clip.mp4", "x");
    let run = program.run(&["caption", &clip, "--target", "no/model"]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.starts_with(
        "error: --target: target model no/model: no such directory, and no such model in the cache\nhint: specreel models pull no/model"
    ));
    let run = program.run(&["caption", &clip, "--target", "clip.mp4"]);
    assert!(run.stderr.contains("it is a file, not a directory"), "{}", run.stderr);
    std::fs::create_dir(program.home().join("m")).unwrap();
    let run = program.run(&["caption", &clip, "--target", "m", "--method", "fly"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("method `fly` drafts with a small model"), "{}", run.stderr);
}

#[test]
fn methods_that_cannot_be() {
    let program = Program::new();
    let clip = program.file("clip.mp4", "x");
    std::fs::create_dir(program.home().join("m")).unwrap();
    let run =
        |args: &[&str]| program.run(&[&["caption", &clip, "--target", "m", "--drafter", "m"], args].concat());
    for (args, code, sentence) in [
        (
            &["--set", "shape.length=0"][..],
            2,
            "error: --set shape.length=0: `shape.length` is 0, but must be 1 to 64\n",
        ),
        (
            &["--method", "lvspec", "--set", "acceptance.lambda=2"],
            2,
            "error: --set acceptance.lambda=2: `acceptance.lambda` is 2, but must be 0 to 1\n",
        ),
        (
            &["--method", "lvspce"],
            2,
            "error: --method: unknown method `lvspce`\nhint: did you mean `lvspec`?",
        ),
        (&["--method", "no.toml"], 3, "error: --method: cannot read method file no.toml: "),
        (
            &["--method", "lvspec", "--set", "drafter.kind=none"],
            2,
            "error: --set drafter.kind=none: `drafter = none` and `acceptance = visual` clash",
        ),
    ] {
        let run = run(args);
        assert_eq!(run.code, code, "{}", run.stderr);
        assert!(run.stderr.starts_with(sentence), "{}", run.stderr);
    }
}

#[test]
fn prompts_that_are_none() {
    let program = Program::new();
    let clip = program.file("clip.mp4", "x");
    std::fs::create_dir(program.home().join("m")).unwrap();
    let run = program.run(&["caption", &clip, "--target", "m", "--prompt", "  "]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("error: --prompt: the prompt is empty\n"), "{}", run.stderr);
    let assert = program
        .command()
        .args(["caption", &clip, "--target", "m", "--prompt", "-"])
        .write_stdin("\n")
        .assert();
    assert.code(2).stderr(predicates::str::starts_with("error: --prompt: the prompt is empty\n"));
}

#[test]
fn a_session_is_not_overwritten_unasked() {
    let program = Program::new();
    let clip = program.file("clip.mp4", "x");
    std::fs::create_dir(program.home().join("m")).unwrap();
    program.file("run.jsonl", "old");
    let run = program.run(&["caption", &clip, "--target", "m", "--save", "run.jsonl"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("error: run.jsonl already exists\nhint: "), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(program.home().join("run.jsonl")).unwrap(), "old");
}

#[test]
fn without_a_terminal_the_studio_wants_a_video() {
    let run = Program::new().run(&[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("hint: run it in a terminal, or name a video: specreel caption demo\n"));
}

#[test]
fn a_configuration_file_with_a_mistake_is_named() {
    let program = Program::new();
    let dir = program.home().join(".config/specreel");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "metod = \"fly\"\n").unwrap();
    let run = program.run(&["caption", "demo"]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.contains("config.toml") && run.stderr.contains("metod"), "{}", run.stderr);
}

#[test]
fn what_was_meant_is_told() {
    let program = Program::new();
    program.file("s1.mp4", "x");
    for (args, error, hint) in [
        (&["captoin", "demo"][..], "no subcommand and no video `captoin`", "did you mean `caption`?"),
        (&["captoin"], "no subcommand and no video `captoin`", "did you mean `caption`?"),
        (
            &["--method", "lvspec", "caption", "demo"],
            "`caption` stands behind",
            "specreel caption demo --method lvspec",
        ),
        (&["--theme", "nope", "methods"], "`methods` stands behind", "write the subcommand first"),
        (&["s1.mp4", "--json"], "--json has no meaning for the studio", "specreel caption s1.mp4 --json"),
        (&["caption", "demo", "--segments", "0"], "--segments", "hint: see specreel caption --help"),
        (
            &["scenes", "render", "--seed", "-1", "x.mp4"],
            "a whole number from 0",
            "specreel scenes render --help",
        ),
        (&["caption", "demo", "--seed", "-1"], "a whole number from 0", "specreel caption --help"),
        (&["caption", "demo", "--force"], "\n  --save <FILE>\n", "caption --force --save <FILE> <VIDEO>"),
        (&["scenes", "score", "s1.mp4"], "which scene", "--seed N or --facts FILE; or --lines"),
        (&["inspect", "demo", "--png", "a.jpg"], "--png writes a PNG file", "--png a.png"),
        (
            &["bench", "--suite", "step", "--temperature", "1"],
            "--temperature cannot be used with --suite step",
            "remove it",
        ),
    ] {
        let run = program.run(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        for part in [error, hint] {
            assert!(run.stderr.contains(part), "{args:?} lacks {part}: {}", run.stderr);
        }
        assert!(!run.stderr.contains("specreel <COMMAND>"), "{}", run.stderr);
    }
}
