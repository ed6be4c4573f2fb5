//! The offer to download models that a run names.

use std::{fs, path::Path};

use super::{
    server::{File, Server},
    start::clips,
    terminal::Terminal,
};

/// A small random checkpoint and the same as GGUF file, as on the hub.
pub fn files() -> Vec<File> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures");
    let file = |name: &'static str, source: &str| File {
        name,
        bytes: fs::read(fixtures.join(source)).unwrap(),
        large: name.ends_with(".safetensors") || name.ends_with(".gguf"),
    };
    vec![
        file("config.json", "gqa_tied/config.json"),
        file("tokenizer.json", "gqa_tied/tokenizer.json"),
        file("generation_config.json", "gqa_tied/generation_config.json"),
        file("chat_template.json", "gqa_tied/chat_template.json"),
        file("preprocessor_config.json", "gqa_tied/preprocessor_config.json"),
        file("model.safetensors", "gqa_tied/model.safetensors"),
        file("VL-Q8_0.gguf", "gguf/gqa_tied/model-q8_0.gguf"),
        file("mmproj-VL-F32.gguf", "gguf/gqa_tied/mmproj-f32.gguf"),
    ]
}

pub fn hub_variables<'a>(hub: &'a Server, cache: &'a Path) -> [(&'static str, &'a str); 4] {
    [
        ("HF_ENDPOINT", hub.address.as_str()),
        ("HF_HOME", cache.to_str().unwrap()),
        ("HF_HUB_OFFLINE", "0"),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
    ]
}

fn start(hub: &Server, cache: &Path, args: &[&str]) -> Terminal {
    let tail = ["--frames", "4", "--max-new-tokens", "2"];
    Terminal::start_with(100, 30, &[args, &tail].concat(), &hub_variables(hub, cache))
}

/// How often the weights were requested.
fn weights(hub: &Server) -> usize {
    hub.asked("/model.safetensors").len() + hub.asked("/VL-Q8_0.gguf").len()
}

#[test]
fn missing_models_are_downloaded_after_one_question() {
    let (hub, cache) = (Server::start(files(), Box::new(|_, _, _| {})), tempfile::tempdir().unwrap());
    let both = ["caption", "demo", "--target", "me/model", "--drafter", "me/model:Q8_0"];
    let mut t = start(&hub, cache.path(), &both);
    t.wait("Download me/model (");
    t.wait("free)? [Y/n]");
    assert!(t.text().contains(") and me/model:Q8_0 ("), "{}", t.text());
    assert_eq!(weights(&hub), 0, "nothing is downloaded before the answer");
    t.keys("\r");
    assert_eq!(t.exit_code(), 0, "{}", t.text());
    assert!(t.text().contains("auto (lossless):"), "{}", t.text());
    assert_eq!(weights(&hub), 2);

    // What is there is used without a question.
    let mut t = start(&hub, cache.path(), &both);
    assert_eq!(t.exit_code(), 0, "{}", t.text());
    assert!(!t.text().contains("Download"), "{}", t.text());
    assert_eq!(weights(&hub), 2);
}

#[test]
fn a_real_model_is_offered_for_a_video_of_ones_own() {
    let (hub, cache) = (Server::start(files(), Box::new(|_, _, _| {})), tempfile::tempdir().unwrap());
    let clip = clips().join("star.mp4");
    let own = ["caption", clip.to_str().unwrap()];
    let mut t = start(&hub, cache.path(), &own);
    t.wait("only know moving colored shapes. Download");
    t.wait("/SmolVLM2-");
    t.keys("n\r");
    assert_eq!(t.exit_code(), 0, "{}", t.text());
    assert!(t.text().contains("auto (lossless): demo-target on cpu"), "{}", t.text());
    assert!(hub.asked("").is_empty(), "nothing is asked of the hub before the answer");
    // Not where the models are named.
    let mut t = start(&hub, cache.path(), &[&own[..], &["--target", "demo-target"]].concat());
    assert_eq!(t.exit_code(), 0, "{}", t.text());
    assert!(!t.text().contains("[Y/n]"), "{}", t.text());
}

#[test]
fn a_download_that_is_declined_ends_with_the_command() {
    let (hub, cache) = (Server::start(files(), Box::new(|_, _, _| {})), tempfile::tempdir().unwrap());
    for command in ["caption", "compare"] {
        let mut t = start(&hub, cache.path(), &[command, "demo", "--target", "me/model"]);
        t.wait("[Y/n]");
        t.keys("n\r");
        assert_eq!(t.exit_code(), 3, "{}", t.text());
        assert!(t.text().contains("specreel models pull me/model"), "{}", t.text());
    }
    for more in ["--quiet", "--json"] {
        let mut t = start(&hub, cache.path(), &["caption", "demo", "--target", "me/model", more]);
        assert_eq!(t.exit_code(), 3, "{}", t.text());
        assert!(!t.text().contains("[Y/n]"), "{}", t.text());
    }
    let mut t = start(&hub, cache.path(), &["caption", "demo", "--target", "me/other"]);
    assert_eq!(t.exit_code(), 3, "{}", t.text());
    assert!(t.text().contains("model me/other not found"), "{}", t.text());
    // An id that is not there, but near to one that is published.
    let near = "Qwen/Qwen2.5-VL-3B-Instuct";
    let mut t = start(&hub, cache.path(), &["caption", "demo", "--target", near]);
    assert_eq!(t.exit_code(), 3, "{}", t.text());
    assert!(t.text().contains("did you mean `Qwen/Qwen2.5-VL-3B-Instruct`?"), "{}", t.text());
    assert_eq!(weights(&hub), 0);
}
