//! Converted weights that are kept on disk.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::cli::{Outcome, Program, devices::software, event, events, outcome};

/// Width of the feed-forward layers: the checkpoint is large enough to be kept.
const WIDE: usize = 44_032;

/// A checkpoint of 68 MB: a fixture with wider feed-forward layers.
fn checkpoint(program: &Program) -> PathBuf {
    let dir = program.copy("tests/parity/fixtures/gqa_tied", "model");
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["intermediate_size"] = json!(WIDE);
    fs::write(&path, config.to_string()).unwrap();
    let path = dir.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut state = 1u32;
    let mut all = Vec::new();
    for (name, tensor) in tensors.tensors() {
        let (shape, data) = if name.contains(".mlp.") && !name.starts_with("visual") {
            let shape: Vec<usize> =
                tensor.shape().iter().map(|&size| if size == 96 { WIDE } else { size }).collect();
            let values = (0..shape.iter().product::<usize>()).flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 24) as f32 * 0.02 - 0.01).to_le_bytes()
            });
            (shape, values.collect())
        } else {
            (tensor.shape().to_vec(), tensor.data().to_vec())
        };
        all.push((name, tensor.dtype(), shape, data));
    }
    let views = all.iter().map(|(name, dtype, shape, data)| {
        (name.clone(), safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    dir
}

fn caption(program: &Program, target: &Path, more: &[&str], variables: &[(&str, &Path)]) -> Outcome {
    let target = target.display().to_string();
    let mut command = program.command();
    command.args([
        "caption",
        "demo",
        "--target",
        &target,
        "--max-new-tokens",
        "4",
        "--json",
        "--logprobs",
        "5",
    ]);
    command.args(["--method", "autoregressive", "--frames", "4"]).args(more);
    variables.iter().for_each(|(name, value)| {
        command.env(name, value);
    });
    outcome(&mut command).ok()
}

fn tokens(run: &Outcome) -> Vec<Value> {
    let steps = events(&run.stdout).into_iter().filter(|event| event["event"] == "step");
    let tokens: Vec<Value> = steps.flat_map(|step| step["tokens"].as_array().unwrap().clone()).collect();
    assert!(!tokens.is_empty(), "{}", run.stdout);
    tokens
}

fn log(program: &Program) -> String {
    fs::read_to_string(program.home().join(".local/state/specreel/specreel.log")).unwrap_or_default()
}

/// What the log says of the last `f`.
fn logged(program: &Program, f: impl FnOnce()) -> String {
    let before = log(program).len();
    f();
    log(program)[before..].to_owned()
}

fn kept(program: &Program) -> Vec<Value> {
    let list = program.run(&["models", "cache", "--json"]).ok().json();
    list["entries"].as_array().unwrap().clone()
}

fn file(program: &Program) -> PathBuf {
    let [entry] = &kept(program)[..] else { panic!("one file of kept weights") };
    entry["path"].as_str().unwrap().into()
}

#[test]
fn the_second_start_maps_the_weights_of_the_first() {
    let program = Program::new();
    let model = checkpoint(&program);
    assert_eq!(kept(&program), Vec::<Value>::new());
    // A file is known by its times once it is older than their resolution.
    std::thread::sleep(Duration::from_millis(2100));
    let plain = tokens(&caption(&program, &model, &["--no-weight-cache"], &[]));
    let off = program.home().join("off");
    assert_eq!(
        tokens(&caption(&program, &model, &[], &[("SPECREEL_WEIGHT_CACHE", Path::new("off"))])),
        plain
    );
    assert!(!off.exists() && kept(&program).is_empty());
    let first = logged(&program, || assert_eq!(tokens(&caption(&program, &model, &[], &[])), plain));
    assert!(first.contains("are converted, and kept in"), "{first}");
    let [entry] = &kept(&program)[..] else { panic!("one file of kept weights") };
    assert_eq!((&entry["model"], &entry["dtype"]), (&json!("model"), &json!("q8_0")));
    let second = logged(&program, || assert_eq!(tokens(&caption(&program, &model, &[], &[])), plain));
    assert!(second.contains("mapped from") && !second.contains("comparing"), "{second}");
    let third = logged(&program, || {
        caption(&program, &model, &["--dtype", "q4_0"], &[]);
    });
    assert!(third.contains("are converted, and kept in"), "{third}");

    // A copy is recognized by its contents.
    let moved = program.copy(model.to_str().unwrap(), "moved");
    let moved = logged(&program, || assert_eq!(tokens(&caption(&program, &moved, &[], &[])), plain));
    assert!(moved.contains("comparing") && moved.contains("mapped from"), "{moved}");

    // The checkpoint is rebuilt in its place.
    let checkpoints =
        || -> Vec<Value> { kept(&program).iter().map(|kept| kept["checkpoint"].clone()).collect() };
    assert_eq!(checkpoints(), ["current", "current"]);
    assert!(program.run(&["models", "cache", "clear", "--stale"]).stdout.starts_with("0 removed, "));
    let weights = model.join("model.safetensors");
    fs::rename(&weights, program.home().join("first")).unwrap();
    assert_eq!(checkpoints(), ["missing", "missing"]);
    fs::copy(program.home().join("first"), &weights).unwrap();
    assert_eq!(checkpoints(), ["changed", "changed"]);

    let list = program.run(&["models", "cache"]);
    assert!(list.stdout.contains("MODEL") && list.stdout.contains(" of 32 GB in "), "{}", list.stdout);
    assert_eq!(program.run(&["models", "cache", "verify"]).code, 0);
    program.run(&["models", "cache", "clear", "other"]).ends(3).said("no converted weights of `other`");
    let cleared = program.run(&["models", "cache", "clear", "model", "--stale"]);
    assert!(cleared.stdout.starts_with("2 removed, "), "{}", cleared.stdout);
    assert_eq!(kept(&program), Vec::<Value>::new());
}

#[test]
fn a_gpu_keeps_weights_in_its_own_layout() {
    let Some(program) = software() else { return };
    let model = checkpoint(&program);
    std::thread::sleep(Duration::from_millis(2100));
    let run = |more: &[&str]| {
        let (args, found) = ([&["--device", "gpu"], more].concat(), [("SPECREEL_GPU", Path::new(""))]);
        tokens(&caption(&program, &model, &args, &found))
    };
    let plain = run(&["--no-weight-cache"]);
    let first = logged(&program, || assert_eq!(run(&[]), plain));
    assert!(first.contains("(q8_0, gpu) are converted, and kept in"), "{first}");
    let second = logged(&program, || assert_eq!(run(&[]), plain));
    assert!(second.contains("(q8_0, gpu) mapped from") && !second.contains("no usable"), "{second}");
    assert_eq!(program.run(&["models", "cache", "verify"]).code, 0);
    // The CPU's are others.
    let cpu = logged(&program, || drop(caption(&program, &model, &[], &[])));
    assert!(cpu.contains("(q8_0) are converted, and kept in"), "{cpu}");
    assert_eq!(kept(&program).len(), 2);
}

#[test]
fn weights_that_changed_are_converted_again() {
    let program = Program::new();
    let model = checkpoint(&program);
    let before = tokens(&caption(&program, &model, &[], &[]));
    let weights = model.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let offset = header["model.layers.0.self_attn.o_proj.weight"]["data_offsets"][0].as_u64().unwrap();
    // The same size and time of modification.
    let file = File::options().write(true).open(&weights).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    for at in 0..64u64 {
        file.write_all_at(&3f32.to_le_bytes(), 8 + length as u64 + offset + 4 * at).unwrap();
    }
    file.set_modified(modified).unwrap();
    drop(file);
    let changed = tokens(&caption(&program, &model, &["--no-weight-cache"], &[]));
    assert_ne!(changed, before);
    assert_eq!(tokens(&caption(&program, &model, &[], &[])), changed);
    assert_eq!(tokens(&caption(&program, &model, &[], &[])), changed);
}

#[test]
fn files_that_cannot_be_used_are_replaced() {
    let program = Program::new();
    let model = checkpoint(&program);
    let plain = tokens(&caption(&program, &model, &[], &[]));
    let path = file(&program);
    let whole = fs::read(&path).unwrap();
    let truncated = &whole[..whole.len() - 1];
    let half = [&[0; 64], &whole[64..whole.len() / 2]].concat();
    for bad in [truncated, &half, b"", b"no weights"] {
        fs::write(&path, bad).unwrap();
        let log = logged(&program, || assert_eq!(tokens(&caption(&program, &model, &[], &[])), plain));
        assert!(log.contains("is ignored") && log.contains("are converted, and kept in"), "{log}");
        assert!(fs::read(file(&program)).unwrap() == whole, "the same file");
    }
    // Damaged weights are found when they are verified.
    let mut bytes = whole.clone();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let verified = program.run(&["models", "cache", "verify"]).ends(3);
    assert!(verified.stdout.contains("damaged") && verified.stderr.contains("hint: "), "{}", verified.stdout);
}

#[test]
fn without_a_cache_that_can_be_written_a_run_goes_on() {
    let program = Program::new();
    let model = checkpoint(&program);
    let plain = tokens(&caption(&program, &model, &["--no-weight-cache"], &[]));
    program.file("file", "");
    let below = program.home().join("file/weights");
    let run = caption(&program, &model, &[], &[("SPECREEL_WEIGHT_CACHE", &below)]);
    assert_eq!(tokens(&run), plain);
    let notes = event(&events(&run.stdout), "ready")["notes"].to_string();
    assert!(notes.contains("the converted weights of model are not kept for the next start"), "{notes}");

    fs::create_dir_all(program.home().join(".config/specreel")).unwrap();
    fs::write(program.home().join(".config/specreel/config.toml"), "weight_cache_size = 0").unwrap();
    let run = caption(&program, &model, &[], &[]);
    assert_eq!(tokens(&run), plain);
    let notes = event(&events(&run.stdout), "ready")["notes"].to_string();
    assert!(notes.contains("more than the limit of 0 B"), "{notes}");
    assert_eq!(kept(&program), Vec::<Value>::new());
}

#[test]
fn two_processes_may_convert_at_once() {
    let program = Program::new();
    let model = checkpoint(&program);
    let plain = tokens(&caption(&program, &model, &["--no-weight-cache"], &[]));
    let runs: Vec<Outcome> = std::thread::scope(|scope| {
        let run = || caption(&program, &model, &[], &[]);
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(runs.iter().all(|run| tokens(run) == plain));
    let again = logged(&program, || assert_eq!(tokens(&caption(&program, &model, &[], &[])), plain));
    assert!(again.contains("mapped from"), "{again}");
    assert_eq!(program.run(&["models", "cache", "verify"]).code, 0);
}

fn adapter(dir: &Path, module: &str, value: f32) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("adapter_config.json"), r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 2}"#).unwrap();
    let values: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), 128).flatten().collect();
    let view = |shape: [usize; 2]| {
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), &values).unwrap()
    };
    let name = |half: &str| format!("base_model.model.{module}.lora_{half}.weight");
    let tensors = [(name("A"), view([2, 64])), (name("B"), view([64, 2]))];
    fs::write(dir.join("adapter_model.safetensors"), safetensors::serialize(tensors, None).unwrap()).unwrap();
}

#[test]
fn the_weights_with_an_adapter_are_kept_apart() {
    const MODULE: &str = "model.layers.0.self_attn.o_proj";
    let program = Program::new();
    let (model, lora) = (checkpoint(&program), program.home().join("sports"));
    let lora = lora.display().to_string();
    adapter(Path::new(&lora), MODULE, 0.5);
    std::thread::sleep(Duration::from_millis(2100));
    let plain = tokens(&caption(&program, &model, &[], &[]));
    let run = caption(&program, &model, &["--lora", &lora], &[]);
    let adapted = tokens(&run);
    assert_ne!(adapted, plain);
    assert_eq!(event(&events(&run.stdout), "ready")["target"], json!("model+sports"));
    let second =
        logged(&program, || assert_eq!(tokens(&caption(&program, &model, &["--lora", &lora], &[])), adapted));
    assert!(second.contains("mapped from") && !second.contains("comparing"), "{second}");
    assert_eq!(tokens(&caption(&program, &model, &[], &[])), plain);
    let mut names: Vec<Value> = kept(&program).iter().map(|kept| kept["model"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["model", "model+sports"]);

    // Another strength, another file.
    let config = Path::new(&lora).join("adapter_config.json");
    fs::write(config, r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 1}"#).unwrap();
    let weaker = tokens(&caption(&program, &model, &["--lora", &lora], &[]));
    assert!(weaker != adapted && weaker != plain);
    // Other values, the same strength.
    adapter(Path::new(&lora), MODULE, -0.25);
    let other = tokens(&caption(&program, &model, &["--lora", &lora], &[]));
    assert!(other != adapted && other != weaker);
    let state = |name: &str| {
        let kept = kept(&program);
        let mut states =
            kept.iter().filter(|kept| kept["model"] == json!(name)).map(|kept| kept["checkpoint"].clone());
        states.any(|state| state == json!("changed"))
    };
    assert!(state("model+sports") && !state("model"));
}

#[test]
fn adapters_that_do_not_fit_are_refused_with_a_way_out() {
    let program = Program::new();
    let fixture = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name).display().to_string()
    };
    let lora = program.home().join("sports").display().to_string();
    adapter(Path::new(&lora), "model.layers.7.self_attn.o_proj", 0.5);
    let (model, file) = (fixture("gqa_tied"), fixture("gguf/gqa_tied/model-q8_0.gguf"));
    for (target, lora, error, hint) in [
        (&model, &lora, "which has no model.layers.*.self_attn.o_proj", "omit --lora"),
        (&model, &model, "adapter_config.json", "adapter_model.safetensors of PEFT"),
        (&file, &lora, "--lora: ", "as a directory in Hugging Face layout"),
    ] {
        let run = program.run(&["caption", "demo", "--target", target, "--lora", lora]).ends(3);
        run.said(error).said(hint);
    }
}
