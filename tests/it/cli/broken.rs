//! Unusual videos, and damaged models: these end with exit code 3, an error and a hint, never with a panic.

use std::{fs, path::Path};

use ffmpeg_next::format::Pixel;
use serde_json::{Value, json};

use crate::cli::{Outcome, Program, make::Clip, outcome};

fn refused(run: &Outcome, part: &str) {
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert_eq!(run.stdout, "");
    let error =
        run.stderr.lines().find(|l| l.starts_with("error: ")).unwrap_or_else(|| panic!("{}", run.stderr));
    assert!(error.to_lowercase().contains(part), "lacks {part}: {error}");
    assert!(run.stderr.contains("\nhint: ") || run.stderr.starts_with("hint: "), "{}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
}

/// Small and unusual, but valid.
#[test]
fn unusual_videos() {
    let program = Program::new();
    let one = Clip::of(1).write().bytes();
    let whole = Clip::of(30).write();
    program.file("one-frame.mp4", one);
    program.file("one-pixel.mkv", Clip::lossless(2, 1, 1, Pixel::YUV444P).write().bytes());
    program.file("faststart-cut.mp4", Clip { faststart: true, ..Clip::of(60) }.write().cut(0.7).bytes());
    program.file("no extension", whole.bytes());
    for name in ["one-frame.mp4", "one-pixel.mkv", "faststart-cut.mp4", "no extension"] {
        let done = program.run(&["caption", name, "--json", "--max-new-tokens", "2"]).silent().last();
        assert_eq!(done["event"], "done", "{name}");
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// Change the header of a safetensors file.
fn edit_header(path: &Path, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    change(header.as_object_mut().unwrap());
    let mut text = header.to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out.extend(&bytes[8 + length..]);
    fs::write(path, out).unwrap();
}

fn change_weights(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn caption(program: &Program) -> Outcome {
    program.run(&["caption", "demo", "--target", "m", "--method", "autoregressive", "--max-new-tokens", "2"])
}

/// One damaged copy of the target.
fn damaged(damage: impl FnOnce(&Path), part: &str) {
    let program = Program::new();
    damage(&program.copy("assets/demo/target", "m"));
    refused(&caption(&program), part);
}

#[test]
fn an_intact_copy_works() {
    let program = Program::new();
    program.copy("assets/demo/target", "m");
    caption(&program).ok();
}

#[test]
fn damaged_copies_of_the_target_are_refused() {
    let edit_config = |dir: &Path, change: &dyn Fn(&mut Value)| edit(&dir.join("config.json"), change);
    let edit_tensors = |dir: &Path, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        edit_header(&dir.join("model.safetensors"), change);
    };
    let (norm, down) = ("model.norm.weight", "model.layers.0.mlp.down_proj.weight");
    damaged(|dir| fs::remove_file(dir.join("config.json")).unwrap(), "config.json");
    damaged(|dir| fs::write(dir.join("config.json"), "{").unwrap(), "config.json");
    let mystery = |config: &mut Value| {
        config["model_type"] = json!("mystery");
        config["architectures"] = json!(["MysteryForConditionalGeneration"]);
    };
    damaged(|dir| edit_config(dir, &mystery), "mystery");
    damaged(|dir| fs::remove_file(dir.join("tokenizer.json")).unwrap(), "tokenizer.json");
    damaged(|dir| change_weights(dir, |bytes| bytes.truncate(bytes.len() / 2)), "model.safetensors");
    // Bits of the header.
    for byte in [2, 6, 8, 40] {
        damaged(|dir| change_weights(dir, |bytes| bytes[byte] ^= 0x80), "model.safetensors");
    }
    let rename = |header: &mut serde_json::Map<String, Value>| {
        let tensor = header.remove(norm).unwrap();
        // Still a valid file: its bytes belong to another tensor.
        header.insert("other".into(), tensor);
    };
    damaged(|dir| edit_tensors(dir, &rename), norm);
    let turn = |header: &mut serde_json::Map<String, Value>| {
        header[down]["shape"].as_array_mut().unwrap().reverse();
    };
    damaged(|dir| edit_tensors(dir, &turn), down);
}

/// There is no checksum: the run may print nonsense or fail, but it must exit normally.
#[test]
fn with_flipped_bits_in_the_weights() {
    let program = Program::new();
    let path = program.copy("assets/demo/target", "m").join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for share in [0.3, 0.6, 0.9] {
        let mut bytes = whole.clone();
        let at = (bytes.len() as f64 * share) as usize;
        // As bf16 or f32 these are not numbers at all.
        bytes[at..at + 4096].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let run = caption(&program);
        assert!([0, 3].contains(&run.code), "{share}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

#[test]
fn with_another_tokenizer_in_the_drafter() {
    let program = Program::new();
    let drafter = program.copy("assets/demo/drafter", "d");
    edit(&drafter.join("tokenizer.json"), |tokenizer| {
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        let names: Vec<String> = vocabulary.keys().take(2).cloned().collect();
        let (a, b) = (vocabulary[&names[0]].clone(), vocabulary[&names[1]].clone());
        vocabulary.insert(names[0].clone(), b);
        vocabulary.insert(names[1].clone(), a);
    });
    refused(&program.run(&["caption", "demo", "--drafter", "d"]), "cannot draft for");
}

#[test]
fn a_prompt_longer_than_the_context() {
    let program = Program::new();
    let args = ["caption", "demo", "--prompt", "-"];
    let run = outcome(program.command().args(args).write_stdin("why ".repeat(200_000)));
    assert!([2, 3].contains(&run.code) && !run.stderr.contains("panicked"), "{}", run.stderr);
    run.said("error: ");
}
