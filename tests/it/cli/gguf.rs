//! GGUF files on the command line: captions, and what is wrong with files.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
};

use crate::{
    cli::{Outcome, Program, event, events, fixture, lab_methods, with_clip},
    gguf_parts::{part_name, split},
};

fn caption(program: &Program, models: &[&str]) -> Outcome {
    let caption = [
        "caption",
        "clip.mkv",
        "--json",
        "--logprobs",
        "3",
        "--max-new-tokens",
        "20",
        "--sampling",
        "greedy",
    ];
    program.run(&[&caption[..], models].concat())
}

#[test]
fn a_file_writes_what_its_directory_writes() {
    let program = with_clip();
    for (file, dir, dtype) in [
        ("gguf/gqa_tied/model-f32.gguf", "gqa_tied", "f32"),
        ("gguf/qwen2_vl/model-f16.gguf", "qwen2_vl", "f16"),
    ] {
        let file = fixture(file);
        // GGUF files have the family's pixel limits; the limits of the directory are left out.
        let dir = program.copy(&format!("tests/parity/fixtures/{dir}"), dir);
        let _ = fs::remove_file(dir.join("video_preprocessor_config.json"));
        let dir = dir.display().to_string();
        let same = ["--max-pixels", "25088", "--tower-dtype", "f32"];
        let run = |models: &[&str]| {
            let run = caption(&program, &[models, &same].concat()).silent();
            events(&run.stdout)
        };
        let theirs = run(&["--target", &dir, "--dtype", dtype]);
        let ours = run(&["--target", &file]);
        assert_eq!(event(&ours, "ready")["dtype"], dtype);
        assert_eq!(event(&ours, "done")["ids"], event(&theirs, "done")["ids"]);
        let tokens = |events: &[serde_json::Value]| {
            let steps = events.iter().filter(|event| event["event"] == "step");
            steps.map(|step| step["tokens"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(tokens(&ours), tokens(&theirs));
    }
}

/// A directory in the home with a tower and a language model in three parts; the path of each part.
fn parts(program: &Program, name: &str) -> Vec<String> {
    let tower = folder(program, name, &[("mmproj.gguf", "gqa_tied/mmproj-f32.gguf")]);
    let whole = fs::read(fixture("gguf/gqa_tied/model-f32.gguf")).unwrap();
    let write = |(number, bytes): (usize, Vec<u8>)| {
        let path = Path::new(&tower).with_file_name(part_name("m-F32", number, 3));
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    (1..).zip(split(&whole, 3)).map(write).collect()
}

#[test]
fn a_split_model_writes_what_its_file_writes() {
    let program = with_clip();
    let parts = parts(&program, "split");
    let run = |target: &str| events(&caption(&program, &["--target", target]).silent().stdout);
    let whole = run(&fixture("gguf/gqa_tied/model-f32.gguf"));
    let split = run(&parts[1]);
    assert_eq!(event(&split, "done")["ids"], event(&whole, "done")["ids"]);
    assert_eq!(event(&split, "ready")["target"], "m-F32");
    fs::remove_file(&parts[1]).unwrap();
    for part in [&parts[0], &parts[2]] {
        let run = caption(&program, &["--target", part]).ends(3);
        run.said("1 of the 3 parts of this model is missing: m-F32-00002-of-00003.gguf");
        run.said("hint: put all parts into one directory, under their published names");
    }
}

#[test]
fn files_and_directories_draft_for_each_other() {
    let program = with_clip();
    let (file, dir, small) = (
        fixture("gguf/gqa_tied/model-q8_0.gguf"),
        fixture("gqa_tied"),
        fixture("gguf/gqa_tied/model-q4_0.gguf"),
    );
    let mmproj = fixture("gguf/gqa_tied/mmproj-f32.gguf");
    for (target, drafter, more) in [
        (&file, &small, &["--mmproj", &mmproj, "--drafter-mmproj", &mmproj][..]),
        (&file, &dir, &[]),
        (&dir, &small, &[]),
    ] {
        let run = |method: &str| {
            let models = ["--target", target, "--drafter", drafter, "--method", method];
            let run = caption(&program, &[&models[..], more].concat()).ok();
            event(&events(&run.stdout), "done")["ids"].clone()
        };
        assert_eq!(run("naive"), run("autoregressive"));
    }
}

/// What drafts in fewer bits, or from fewer ids, drafts something else and changes no text.
#[test]
fn a_drafter_is_converted_and_drafts_from_fewer_ids() {
    let program = with_clip();
    let file = fixture("gguf/gqa_tied/model-q8_0.gguf");
    let run = |method: &str, more: &[&str]| {
        let models = ["--target", &file, "--drafter", &file, "--method", method];
        events(&caption(&program, &[&models[..], more].concat()).ok().stdout)
    };
    let ids = |events: &[serde_json::Value]| event(events, "done")["ids"].clone();
    let plain = ids(&run("autoregressive", &[]));
    for (more, dtype) in [
        (&["--drafter-dtype", "q4_0"][..], "q8_0, drafter q4_0"),
        (&["--drafter-vocabulary", "256"], "q8_0"),
        (&["--drafter-dtype", "q4_0", "--drafter-vocabulary", "256"], "q8_0, drafter q4_0"),
    ] {
        for method in ["naive", "naive-tree", "parallelvlm"] {
            let all = run(method, more);
            assert_eq!(
                (event(&all, "ready")["dtype"].as_str(), ids(&all)),
                (Some(dtype), plain.clone()),
                "{method}"
            );
        }
    }
    let twin = run(&lab_methods("twin"), &[]);
    assert_eq!(ids(&twin), plain);
    assert!(event(&twin, "done")["stats"]["accepted"].as_u64().unwrap() > 0);
}

/// A directory in the home with copies of fixtures, as (name, fixture).
fn folder(program: &Program, name: &str, files: &[(&str, &str)]) -> String {
    let dir = program.home().join(name);
    fs::create_dir(&dir).unwrap();
    for (name, source) in files {
        fs::copy(fixture(&format!("gguf/{source}")), dir.join(name)).unwrap();
    }
    dir.join(files[0].0).display().to_string()
}

#[test]
fn a_file_that_gets_shorter_ends_the_run_and_not_the_program() {
    let program = with_clip();
    let parts = parts(&program, "own");
    let (model, last) = (&parts[0], &parts[2]);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_specreel"))
        .args(["caption", "--stdin", "--target", model, "--max-new-tokens", "5"])
        .env("HOME", program.home())
        .current_dir(program.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ask, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut answers = answers.lines();
    let mut answer = |prompt: &str| -> serde_json::Value {
        writeln!(ask, "{}", serde_json::json!({ "video": "clip.mkv", "prompt": prompt })).unwrap();
        serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap()
    };
    assert!(answer("What moves?")["caption"].is_string());
    let file = fs::File::options().write(true).open(last).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    for prompt in ["What stands still?", "What else?"] {
        let answer = answer(prompt);
        assert_eq!(answer["class"], "input", "{answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.ends_with("00003-of-00003.gguf: the file got shorter while it was used"), "{error}");
    }
    drop(ask);
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_vision_tower_is_chosen_by_its_name() {
    let program = with_clip();
    let (text, tower) = ("gqa_tied/model-q8_0.gguf", "gqa_tied/mmproj-f32.gguf");
    // The one of the other model does not fit.
    let of_two = folder(
        &program,
        "flat",
        &[
            ("me_a_m-Q8_0.gguf", text),
            ("me_a_mmproj-model-f32.gguf", tower),
            ("me_b_mmproj-model-f32.gguf", "mix/mmproj-f32.gguf"),
        ],
    );
    let of_types = folder(
        &program,
        "types",
        &[("m.gguf", text), ("mmproj-F32.gguf", tower), ("mmproj-Q8_0.gguf", tower)],
    );
    // A whole model may have the name of a part.
    let like_a_part = folder(&program, "part", &[("m-00002-of-00003.gguf", text), ("mmproj.gguf", tower)]);
    for model in [of_two, of_types, like_a_part] {
        caption(&program, &["--target", &model]).ok();
    }
}

#[test]
fn what_is_wrong_with_files_is_said() {
    let program = with_clip();
    let (text, tower) = ("gqa_tied/model-q8_0.gguf", "gqa_tied/mmproj-f32.gguf");
    let alone = folder(&program, "alone", &[("m.gguf", text)]);
    let two =
        folder(&program, "two", &[("m.gguf", text), ("MMPROJ-a.gguf", tower), ("x-mmproj.GGUF", tower)]);
    let other = folder(&program, "other", &[("m.gguf", text), ("mmproj.gguf", "mix/mmproj-f32.gguf")]);
    let foreign =
        folder(&program, "foreign", &[("m.gguf", text), ("mmproj.gguf", "smolvlm/mmproj-bf16.gguf")]);
    let older = folder(&program, "older", &[("m.gguf", "gqa_tied/model-f16.gguf"), ("mmproj.gguf", tower)]);
    let change = |path: &str, from: &[u8], to: &[u8]| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(path, bytes).unwrap();
    };
    let changed = |name: &str, file: &str, from: &[u8], to: &[u8]| {
        let model = folder(&program, name, &[("m.gguf", text), ("mmproj.gguf", tower)]);
        change(&Path::new(&model).with_file_name(file).display().to_string(), from, to);
        model
    };
    let llama = changed("llama", "m.gguf", b"qwen2vl", b"llama-4");
    let projector = changed("projector", "mmproj.gguf", b"qwen2.5vl_merger", b"pixtral_or_other");
    let lying = changed("lying", "m.gguf", b"GGUF\x03\0\0\0", b"GGUF\x03\0\0\0\xff\xff\xff\xff");
    let swapped = changed("swapped", "m.gguf", b"GGUF\x03\0\0\0", b"GGUF\0\0\0\x03");
    let pre = changed("pre", "m.gguf", b"\x05\0\0\0\0\0\0\0qwen2", b"\x05\0\0\0\0\0\0\0llama");
    let short = folder(&program, "short", &[("m.gguf", text), ("mmproj.gguf", tower)]);
    let whole = fs::read(&short).unwrap();
    fs::write(&short, &whole[..whole.len() / 2]).unwrap();
    let no_file = program.file("no.gguf", b"text");
    let mmproj = fixture(&format!("gguf/{tower}"));
    let (model, dir) = (fixture(&format!("gguf/{text}")), fixture("gqa_tied"));
    let same_model = "the mmproj file of the same model";
    let architecture = "unsupported architecture `llama-4`, expected one of: qwen2vl (Qwen2-VL, Qwen2.5-VL)";
    let several = "its directory has several mmproj files: MMPROJ-a.gguf, x-mmproj.GGUF";
    let tokenizer = "unsupported `tokenizer.ggml.pre` `llama`, expected one of: qwen2";
    let targets = [
        (&alone, "no mmproj*.gguf in its directory", "pass it with --mmproj"),
        (&two, several, "choose one with --mmproj"),
        (&other, "its embeddings are 256 wide", same_model),
        (&mmproj, "is a vision tower (mmproj), not a language model", "--mmproj"),
        (&llama, architecture, "supported model"),
        (&projector, "unsupported projector type `pixtral_or_other`", "the same model"),
        (
            &foreign,
            "its projector type is `idefics3` (SmolVLM2), expected one of: qwen2vl_merger",
            same_model,
        ),
        (&lying, "claims 4294967295 tensors", "download the file again"),
        (&swapped, "big-endian", "little-endian"),
        (&pre, tokenizer, "a supported model"),
        (&short, "truncated", "download the file again"),
        (&no_file, "not a GGUF file", "a directory in Hugging Face layout"),
    ];
    let targets = targets.map(|(target, error, hint)| (vec!["--target", target.as_str()], 3, error, hint));
    let (of_target, of_drafter) =
        ("--mmproj: the target is not a GGUF file", "--drafter-mmproj: the drafter is not a GGUF file");
    let others = [
        (vec!["--target", &alone, "--mmproj", &alone], 3, "not a vision tower", same_model),
        (vec!["--target", &older, "--dtype", "q4_k"], 2, "the weight type q4_k does not apply", "omit it"),
        (vec!["--target", &dir, "--mmproj", &mmproj], 2, of_target, "omit it"),
        (vec!["--target", &model, "--drafter-mmproj", &mmproj], 2, of_drafter, "omit it"),
    ];
    for (arguments, code, error, hint) in targets.into_iter().chain(others) {
        let run = caption(&program, &arguments);
        assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
        let (first, last) =
            run.stderr.trim_end().rsplit_once("hint: ").unwrap_or_else(|| panic!("{}", run.stderr));
        assert!(first.starts_with("error: ") && first.contains(error), "expected {error}: {}", run.stderr);
        assert!(last.contains(hint), "expected {hint}: {}", run.stderr);
    }
    // The type that the file has may be requested.
    caption(&program, &["--target", &older, "--dtype", "f16"]).ok();
}

/// Everything at once: that there is no vision tower, and each type that is not supported, with its tensors.
#[test]
fn types_and_a_missing_tower_are_reported_together() {
    let program = with_clip();
    let text = "gqa_tied/model-q8_0.gguf";
    let changed = |name: &str, files: &[(&str, &str)]| {
        let model = folder(&program, name, files);
        let mut bytes = fs::read(&model).unwrap();
        for (tensor, kind) in
            [("blk.0.attn_q.weight", 35u8), ("blk.0.attn_k.weight", 35), ("blk.0.ffn_up.weight", 34)]
        {
            let at = bytes.windows(tensor.len()).position(|part| part == tensor.as_bytes()).unwrap();
            // After its name come the number of dimensions and two of them.
            bytes[at + tensor.len() + 20] = kind;
        }
        fs::write(&model, bytes).unwrap();
        model
    };
    let types = "unsupported tensor types: TQ2_0 (2 tensors: blk.*.attn_k.weight, blk.*.attn_q.weight), TQ1_0 \
                 (1 tensor: blk.*.ffn_up.weight)";
    let whole = changed("whole", &[("m-Q4_K_M.gguf", text), ("mmproj.gguf", "gqa_tied/mmproj-f32.gguf")]);
    let run = caption(&program, &["--target", &whole]).ends(3);
    run.said(types);
    run.said("hint: use the Q8_0 file of this model, often named m-Q8_0.gguf");
    let alone = changed("alone", &[("m-Q4_K_M.gguf", text)]);
    let run = caption(&program, &["--target", &alone]);
    run.said("--drafter-mmproj for a drafter); use the Q8_0 file");
    assert!(run.stderr.find("it has no vision tower").unwrap() < run.stderr.find(types).unwrap());
    let run = program.run(&["models", "inspect", &alone, "--json"]);
    let problems = run.json()["problems"].clone();
    let errors: Vec<_> = problems.as_array().unwrap().iter().map(|p| p["error"].as_str().unwrap()).collect();
    assert!(
        errors.len() == 2 && errors[0].contains("no vision tower") && errors[1].contains(types),
        "{errors:?}"
    );
    let shown = program.run(&["models", "inspect", &alone]).ends(3);
    assert!(shown.stdout.contains(" × q8_0 (") && shown.stdout.contains("2 × tq2_0 ("), "{}", shown.stdout);
}

/// The layer for multi-token prediction in a target's own file drafts without `--drafter`, and changes no token.
#[test]
fn a_file_drafts_with_its_layer_for_multi_token_prediction() {
    let program = with_clip();
    let file = fixture("gguf/qwen3_5/model-bf16.gguf");
    let run = |method: &str| {
        let run = caption(&program, &["--target", &file, "--method", method, "--device", "cpu"]).silent();
        events(&run.stdout)
    };
    let (plain, fast) = (run("autoregressive"), run("mtp"));
    assert_eq!(event(&fast, "done")["ids"], event(&plain, "done")["ids"]);
    let drafted =
        fast.iter().filter(|event| event["event"] == "step" && event["drafted"] != serde_json::json!([]));
    assert!(drafted.count() > 2, "it drafts");
    // A model without such a layer says so before it is loaded.
    let other = fixture("gguf/gqa_tied/model-f32.gguf");
    let refused = caption(&program, &["--target", &other, "--method", "mtp"]).ends(2);
    refused.said("own layer for multi-token prediction, but model-f32 has none");
}
