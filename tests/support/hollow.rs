//! Checkpoints of real sizes without their bytes: a configuration, and a sparse file of weights that reads as zeros.

use std::{fs, io::Write as _, path::Path};

use serde_json::{Map, Value, json};
use specreel_model::{decoder, family::VlConfig, shapes, vision};

/// Write a checkpoint with the language model of a Qwen2.5-VL `shape` and a tiny tower into a new directory.
pub fn write(dir: &Path, shape: &str) {
    fs::create_dir_all(dir).unwrap();
    let fixture = Path::new(crate::REPOSITORY).join("tests/parity/fixtures/gqa_tied");
    for name in ["tokenizer.json", "generation_config.json", "chat_template.json", "preprocessor_config.json"]
    {
        fs::copy(fixture.join(name), dir.join(name)).unwrap();
    }
    let text = shapes::find(shape).unwrap();
    let mut config: Value = serde_json::from_slice(&fs::read(fixture.join("config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("hidden_size", text.hidden),
        ("num_hidden_layers", text.layers),
        ("num_attention_heads", text.heads),
        ("num_key_value_heads", text.kv_heads),
        ("intermediate_size", text.intermediate),
        ("vocab_size", text.vocab),
    ] {
        config[key] = json!(value);
    }
    config["rope_scaling"]["mrope_section"] = json!(text.mrope_section);
    config["tie_word_embeddings"] = json!(text.tied);
    config["vision_config"]["out_hidden_size"] = json!(text.hidden);
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let tower = VlConfig::read(dir).unwrap().tower().unwrap();
    let tensors = decoder::parts::tensors(&text).into_iter().chain(vision::parts::tensors(&tower));
    let (mut header, mut at) = (Map::new(), 0u64);
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().map(|&n| n as u64).product::<u64>();
        header.insert(name, json!({ "dtype": "BF16", "shape": shape, "data_offsets": [at, end] }));
        at = end;
    }
    let mut text = Value::from(header).to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut file = fs::File::create(dir.join("model.safetensors")).unwrap();
    file.write_all(&(text.len() as u64).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_len(8 + text.len() as u64 + at).unwrap();
}
