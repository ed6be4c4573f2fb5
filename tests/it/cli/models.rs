//! `specreel models`, and models by id.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::{
        Program,
        server::{File, Server},
    },
    gguf_parts::{part_name, split},
    hollow,
};

/// The files of a small random checkpoint, as on the hub.
fn files() -> Vec<File> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/gqa_tied");
    let name = |name: &'static str| File {
        name,
        bytes: fs::read(dir.join(name)).unwrap(),
        large: name.ends_with(".safetensors"),
    };
    [
        "config.json",
        "tokenizer.json",
        "generation_config.json",
        "chat_template.json",
        "preprocessor_config.json",
        "model.safetensors",
    ]
    .map(name)
    .to_vec()
}

/// Run the program with this hub and `HF_HOME` in its home.
fn run(program: &Program, address: &str, args: &[&str]) -> crate::cli::Outcome {
    let mut command = program.command();
    command.env("HF_ENDPOINT", address).env("HF_HOME", program.home().join("hf")).args(args);
    crate::cli::outcome(&mut command)
}

#[test]
fn a_misspelt_id_is_answered_with_the_nearest_published_one() {
    let program = Program::new();
    let hint = |id: &str| program.run(&["caption", "demo", "--target", id]).stderr;
    let near = hint("Qwen/Qwen2.5-VL-3B-Instuct");
    assert!(
        near.contains("hint: did you mean `Qwen/Qwen2.5-VL-3B-Instruct`? If not, download it with: "),
        "{near}"
    );
    assert!(hint("Qwen/Qwen2.5-VL-3B-Instruct").contains("hint: download it with: "));
}

#[test]
fn a_model_is_pulled_listed_inspected_and_run_by_its_id() {
    let (program, hub) = (Program::new(), Server::start(files(), Box::new(|_, _, _| {})));
    let at = |args: &[&str]| run(&program, &hub.address, args);
    let caption =
        ["caption", "demo", "--target", "me/model", "--frames", "4", "--max-new-tokens", "2", "--json"];

    let absent = at(&caption);
    assert_eq!((absent.code, absent.stdout.lines().count()), (3, 1));
    absent.said("hint: download it with: specreel models pull me/model");

    let pulled = at(&["models", "pull", "me/model"]).ok();
    let dir = pulled.stdout.trim_end();
    assert!(
        dir.starts_with(program.home().join("hf/hub/models--me--model/snapshots").to_str().unwrap()),
        "{dir}"
    );
    assert!(pulled.stderr.contains("6 files") && pulled.stderr.contains("downloaded"), "{}", pulled.stderr);

    let list = at(&["models", "--json"]).json();
    let origins: Vec<_> = list.as_array().unwrap().iter().map(|m| (&m["origin"], &m["name"])).collect();
    assert_eq!(
        origins,
        [
            (&json!("embedded"), &json!("embedded target")),
            (&json!("embedded"), &json!("embedded drafter")),
            (&json!("embedded"), &json!("embedded weak drafter")),
            (&json!("cache"), &json!("me/model")),
        ]
    );
    let found = at(&["models", "inspect", "me/model", "--json"]).ok().json();
    assert_eq!(
        (&found["name"], &found["family"], &found["problems"]),
        (&json!("model"), &json!("qwen2_5_vl"), &json!([]))
    );

    let captioned = at(&caption).ok();
    let ready: Value = captioned
        .stdout
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap())
        .find(|e| e["event"] == "ready")
        .unwrap();
    assert_eq!(ready["target"], "model");

    let again = at(&["models", "pull", "me/model", "--json"]).json();
    assert_eq!(
        (&again["fetched"], &again["files"], again["dir"].as_str()),
        (&json!(0), &json!(6), Some(dir))
    );
}

#[test]
fn models_that_cannot_be_pulled_are_refused() {
    let mut unknown = files();
    unknown[0].bytes = br#"{"model_type": "llama"}"#.to_vec();
    let (program, hub) = (Program::new(), Server::start(unknown, Box::new(|_, _, _| {})));
    for (id, code, part) in [("me/model", 3, "llama"), ("me/other", 3, "model me/other not found")] {
        let pulled = run(&program, &hub.address, &["models", "pull", id]);
        assert_eq!(pulled.code, code, "{}", pulled.stderr);
        assert!(pulled.stderr.contains(part) && pulled.stderr.contains("hint: "), "{}", pulled.stderr);
        assert_eq!(pulled.stdout, "");
    }
    // The weights were not requested.
    assert!(!hub.requests.lock().unwrap().iter().any(|r| r.path.ends_with("model.safetensors")));
}

#[test]
fn published_models_are_listed_with_their_drafters() {
    let program = Program::new();
    let list = program.run(&["models", "known", "--json"]).silent().json();
    let find = |id: &str| list.as_array().unwrap().iter().find(|known| known["id"] == id).unwrap();
    let large = find("Qwen/Qwen3-VL-8B-Instruct");
    assert_eq!(
        (&large["family"], &large["parameters"], &large["cached"], &large["drafters"][0]),
        (&json!("qwen3_vl"), &json!(8_767_123_696_u64), &json!(false), &json!("Qwen/Qwen3-VL-2B-Instruct"))
    );
    assert_eq!(large["gguf"][0]["id"], "Qwen/Qwen3-VL-8B-Instruct-GGUF:Q4_K_M");
    let [whole, gguf] = [&large["bytes"], &large["gguf"][0]["bytes"]].map(|n| n.as_u64().unwrap());
    assert!((17.5e9..17.6e9).contains(&(whole as f64)) && (6.1e9..6.3e9).contains(&(gguf as f64)));
    let memory: Vec<_> = large["memory"].as_array().unwrap().iter().map(|m| &m["dtype"]).collect();
    assert_eq!(memory, [&json!("q8_0"), &json!("q4_k")]);
    if let Some(available) = large["available_memory"].as_u64() {
        // Of the same machine at the same moment.
        let fits = |known: &Value| {
            let memory = known["memory"].as_array().unwrap();
            let first = memory.iter().find(|memory| memory["run"].as_u64().unwrap() <= available);
            first.map_or(json!("no"), |memory| memory["dtype"].clone())
        };
        assert!(list.as_array().unwrap().iter().all(|known| known["fits"] == fits(known)));
    }
    for newer in ["Qwen/Qwen3.6-27B", "Qwen/Qwen3.8-27B"] {
        assert!(find(newer)["drafters"].as_array().unwrap().contains(&json!("Qwen/Qwen3.5-0.8B")));
    }
    program.run(&["models", "known"]).ok().printed("\nFITS: ").printed("\nGGUF: ");
}

#[test]
fn a_published_head_is_inspected_with_its_target() {
    let program = Program::new();
    let head = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/eagle3_speculators");
    let found = program.run(&["models", "inspect", head.to_str().unwrap()]).ok();
    found.printed("gqa_untied_f16: hidden size 96, vocabulary 352, of which it drafts 96");
    found.printed("recipe eagle3");
    let head = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/dflash");
    let found = program.run(&["models", "inspect", head.to_str().unwrap()]).ok();
    found.printed("3 layers, hidden size 96, vocabulary 352");
    found.printed("5 tokens in one pass of 3 layers, from states after layers 0, 2 (0 = the first)");
    found.printed("dflash");
    let head = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/dflash2");
    let found = program.run(&["models", "inspect", head.to_str().unwrap()]).ok();
    found.printed("a selector chooses among 6 candidates of each place");
}

fn gguf(name: &'static str, source: &str) -> File {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/gguf/gqa_tied");
    File { name, bytes: fs::read(dir.join(source)).unwrap(), large: true }
}

#[test]
fn a_gguf_file_is_pulled_listed_and_run_by_its_type() {
    let program = Program::new();
    let files = vec![gguf("VL-Q8_0.gguf", "model-q8_0.gguf"), gguf("mmproj-VL-F32.gguf", "mmproj-f32.gguf")];
    let hub = Server::start(files, Box::new(|_, _, _| {}));
    let at = |args: &[&str]| run(&program, &hub.address, args);
    let caption = |target: &str| {
        let tail = ["--frames", "4", "--max-new-tokens", "2", "--json"];
        at(&[&["caption", "demo", "--target", target][..], &tail].concat())
    };
    let absent = caption("me/model:q8_0").ends(3);
    let hint = "hint: download it with: specreel models pull me/model:Q8_0";
    absent.said(hint);
    let bare = at(&["models", "pull", "me/model"]);
    assert_eq!((bare.code, bare.stdout.as_str()), (3, ""));
    bare.said("for example me/model:Q8_0");

    let pulled = at(&["models", "pull", "me/model:q8_0"]).ok();
    pulled.said("me/model:Q8_0: 2 files");
    let file = pulled.stdout.trim_end();
    assert!(file.ends_with("/VL-Q8_0.gguf") && Path::new(file).is_file(), "{file}");
    let again = at(&["models", "pull", "me/model:Q8_0", "--json"]).json();
    let mmproj = Path::new(file).with_file_name("mmproj-VL-F32.gguf");
    assert_eq!(
        (&again["fetched"], &again["file"], &again["mmproj"]),
        (&json!(0), &json!(file), &json!(mmproj))
    );

    let list = at(&["models", "--json"]).json();
    let listed = list.as_array().unwrap().last().unwrap();
    assert_eq!(
        [&listed["name"], &listed["origin"], &listed["family"], &listed["dtype"], &listed["mmproj"]],
        [&json!("me/model:Q8_0"), &json!("cache"), &json!("qwen2_5_vl"), &json!("q8_0"), &json!(mmproj)]
    );
    at(&["models", "inspect", "me/model:Q8_0"]).ok().printed("mmproj-VL-F32.gguf");
    caption("me/model:q8_0").ok().printed("\"target\":\"VL-Q8_0\"");
    caption("me/model").ends(3).said("add a type, for example me/model:Q8_0");
}

#[test]
fn a_split_model_is_pulled_listed_and_run_by_its_type() {
    let program = Program::new();
    let whole = gguf("", "model-f16.gguf").bytes;
    let part = |(number, bytes): (usize, Vec<u8>)| File {
        name: format!("F16/{}", part_name("VL-F16", number, 2)).leak(),
        bytes,
        large: true,
    };
    let mut files: Vec<File> = (1..).zip(split(&whole, 2)).map(part).collect();
    files.push(gguf("mmproj-VL-F32.gguf", "mmproj-f32.gguf"));
    let hub = Server::start(files, Box::new(|_, _, _| {}));
    let at = |args: &[&str]| run(&program, &hub.address, args);
    at(&["models", "pull", "me/model:Q8_0"]).ends(3).said("available: F16 (");
    let pulled = at(&["models", "pull", "me/model:f16"]).ok();
    pulled.said("me/model:F16: 3 files");
    let file = pulled.stdout.trim_end();
    let list = at(&["models", "--json"]).json();
    let listed: Vec<&Value> = list.as_array().unwrap().iter().filter(|m| m["origin"] == "cache").collect();
    let snapshot = Path::new(file).ancestors().nth(2).unwrap();
    assert_eq!(
        listed.iter().map(|m| (&m["name"], &m["dir"], &m["mmproj"])).collect::<Vec<_>>(),
        [(&json!("me/model:F16"), &json!(file), &json!(snapshot.join("mmproj-VL-F32.gguf")))]
    );
    let inspected = at(&["models", "inspect", "me/model:F16", "--json"]).ok().json();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let bytes: u64 =
        fs::read_dir(snapshot.join("F16")).unwrap().map(|entry| size(&entry.unwrap().path())).sum();
    assert_eq!(inspected["bytes"], json!(bytes + size(&snapshot.join("mmproj-VL-F32.gguf"))));
    assert_eq!((&inspected["problems"], &inspected["name"]), (&json!([]), &json!("VL-F16")));
    let tail = ["--frames", "4", "--max-new-tokens", "2", "--json"];
    at(&[&["caption", "demo", "--target", "me/model:f16"][..], &tail].concat()).ok();
    // A part that is gone is downloaded again.
    fs::remove_file(file.replace("00001-of", "00002-of")).unwrap();
    at(&["models", "inspect", file])
        .ends(3)
        .printed("download the rest with: specreel models pull me/model:F16");
    let absent = at(&["caption", "demo", "--target", "me/model:f16"]).ends(3);
    absent.said("hint: download it with: specreel models pull me/model:F16");
    at(&["models", "pull", "me/model:F16"]).ok().said("already up to date");
    at(&["models", "inspect", "me/model:F16"]).ok();
}

#[test]
fn a_repository_without_mmproj_says_what_is_missing() {
    let program = Program::new();
    let hub = Server::start(vec![gguf("VL-Q4_0.gguf", "model-q4_0.gguf")], Box::new(|_, _, _| {}));
    let pulled = run(&program, &hub.address, &["models", "pull", "me/model:Q4_0"]).ok();
    pulled.said("note: me/model has no mmproj file");
    let list = run(&program, &hub.address, &["models"]).stdout;
    assert!(list.contains("me/model:Q4_0") && list.contains("it has no vision tower"), "{list}");
}

#[test]
fn files_of_other_programs_are_listed() {
    let program = Program::new();
    let llama = program.home().join("llama");
    let studio = program.home().join(".lmstudio/models/me/VL-GGUF");
    for (folder, files) in [
        (
            &llama,
            vec![
                gguf("me_VL_VL-Q8_0.gguf", "model-q8_0.gguf"),
                gguf("me_VL_mmproj-VL-F32.gguf", "mmproj-f32.gguf"),
                gguf("you_Other_mmproj-Other-F16.gguf", "mmproj-f32.gguf"),
            ],
        ),
        (&studio, vec![gguf("VL-F16.gguf", "model-f16.gguf"), gguf("mmproj-VL-F32.gguf", "mmproj-f32.gguf")]),
    ] {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|file| fs::write(folder.join(file.name), &file.bytes).unwrap());
    }
    fs::write(llama.join("me_Broken_Q8_0.gguf"), b"GGUF").unwrap();
    let mut command = program.command();
    let list = crate::cli::outcome(command.env("LLAMA_CACHE", &llama).args(["models", "--json"])).ok().json();
    let list: Vec<&Value> = list.as_array().unwrap().iter().filter(|m| m["origin"] != "embedded").collect();
    let names: Vec<_> = list.iter().map(|m| (&m["name"], &m["origin"], &m["dtype"])).collect();
    let (broken, vl) = (json!(llama.join("me_Broken_Q8_0.gguf")), json!(llama.join("me_VL_VL-Q8_0.gguf")));
    let f16 = json!(studio.join("VL-F16.gguf"));
    assert_eq!(
        names,
        [
            (&broken, &json!("llama_cpp"), &Value::Null),
            (&vl, &json!("llama_cpp"), &json!("q8_0")),
            (&f16, &json!("lm_studio"), &json!("f16")),
        ]
    );
    assert!(list[0]["error"].as_str().unwrap().contains("not a valid GGUF file"), "{}", list[0]);
    // Of the towers in one folder, the one of the same repository.
    assert_eq!(list[1]["mmproj"], json!(llama.join("me_VL_mmproj-VL-F32.gguf")));
}

#[test]
fn inspecting_lists_what_tensors_become_in_a_weight_type() {
    let program = Program::new();
    program.copy("assets/demo/target", "target");
    program.copy("tests/parity/fixtures/gguf/gqa_tied", "gguf");
    let found = program.run(&["models", "inspect", "target", "--dtype", "q4_0", "--json"]).ok().json();
    let head = json!({
        "tensor": "LM head", "count": 1, "outputs": 768, "inputs": 320, "dtype": "q8_0",
        "reason": "kept higher; rows of 320 are not a multiple of 256"
    });
    let conversion = &found["conversion"];
    assert_eq!((&conversion["dtype"], &conversion["tensors"][0]), (&json!("q4_0"), &head));
    let of_a_file = program.run(&["models", "inspect", "gguf/model-q4_0.gguf", "--dtype", "q4_0"]).ends(3);
    of_a_file.said("gguf/model-q4_0.gguf is a GGUF file, whose types are used as they are");
    of_a_file.said("hint: omit --dtype");
}

#[test]
fn a_missing_drafter_is_suggested() {
    let program = Program::new();
    let models = program.home().join("models");
    for name in ["target", "drafter"] {
        program.copy(&format!("assets/demo/{name}"), &format!("models/{name}"));
    }
    fs::create_dir_all(program.home().join(".config/specreel")).unwrap();
    fs::write(
        program.home().join(".config/specreel/config.toml"),
        format!("models = [{:?}]", models.display().to_string()),
    )
    .unwrap();
    let drafter = models.join("drafter").display().to_string();
    let found = program.run(&["models", "inspect", "models/target"]).ok();
    found.printed("compatible drafters");
    found.printed(&drafter);
    let run = program.run(&["caption", "demo", "--target", "models/target", "--max-new-tokens", "2"]).ok();
    run.said(&format!("add --drafter {drafter}"));
    // No model fits the drafter as target.
    let run = program.run(&["caption", "demo", "--target", "models/drafter", "--max-new-tokens", "2"]);
    assert!(!run.stderr.contains("add --drafter"), "{}", run.stderr);
}

#[test]
fn models_that_do_not_fit_into_memory_are_refused_before_loading() {
    let program = Program::new();
    let dir = program.home().join("72b");
    hollow::write(&dir, "qwen2.5-vl-72b");
    let run = program.run(&["caption", "demo", "--target", "72b", "--dtype", "f32"]);
    assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{}", run.stderr);
    // 71.5 billion parameters in matrices of four bytes each, and the embedding table in two.
    run.said("72b in f32 needs about 289 GB");
    assert!(run.stderr.contains("are available") && run.stderr.contains("--ignore-memory"), "{}", run.stderr);
    program.run(&["models", "inspect", "72b"]).printed("73 B language model");
    // With --ignore-memory, damaged weights are the error.
    let weights = fs::OpenOptions::new().write(true).open(dir.join("model.safetensors")).unwrap();
    weights.set_len(weights.metadata().unwrap().len() - 2).unwrap();
    program.run(&["caption", "demo", "--target", "72b", "--dtype", "f32", "--ignore-memory"]).ends(3);
}
