use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::{Checkpoint, ModelFiles};
use specreel_tensor::{Weights, cpu::table::Values};

/// A file of tensors of f32, whose values count up in eighths.
fn write(path: &Path, tensors: &[(&str, &[usize])]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let start = data.len();
        let values = (0..shape.iter().product::<usize>()).map(|i| value(name, i));
        data.extend(values.flat_map(f32::to_le_bytes));
        header.insert(
            (*name).into(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = Value::Object(header).to_string();
    fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
}

fn value(name: &str, index: usize) -> f32 {
    ((index * 5 + name.len()) % 17) as f32 / 8.0 - 1.0
}

fn values(name: &str, count: usize) -> Vec<f32> {
    (0..count).map(|i| value(name, i)).collect()
}

const MATRIX: &str = "model.language_model.layers.0.self_attn.q_proj";
const TABLE: &str = "model.language_model.embed_tokens";

/// A model with a matrix `[4, 6]`, a table `[8, 6]`, a norm and a bias; and an adapter with these settings and tensors.
fn model(settings: Value, tensors: &[(&str, &[usize])]) -> (tempfile::TempDir, ModelFiles) {
    let dir = tempfile::tempdir().unwrap();
    let lora = dir.path().join("sports");
    fs::create_dir(&lora).unwrap();
    let names = [MATRIX, TABLE].map(|module| format!("{module}.weight"));
    let bias = format!("{MATRIX}.bias");
    let own: [(&str, &[usize]); 4] = [
        (&names[0], &[4, 6]),
        (&names[1], &[8, 6]),
        (&bias, &[4]),
        ("model.language_model.norm.weight", &[6]),
    ];
    write(&dir.path().join("model.safetensors"), &own);
    let mut config =
        json!({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "base_model_name_or_path": "me/vl"});
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    fs::write(lora.join("adapter_config.json"), config.to_string()).unwrap();
    write(&lora.join(WEIGHTS), tensors);
    let files = ModelFiles::of_directory(dir.path()).with_lora(Some(&lora)).unwrap();
    (dir, files)
}

fn tensors() -> impl Iterator<Item = (String, Vec<usize>)> {
    let model = [
        ("model.layers.0.self_attn.q_proj.weight", vec![4, 6]),
        ("model.layers.0.self_attn.q_proj.bias", vec![4]),
        ("model.embed_tokens.weight", vec![8, 6]),
        ("model.norm.weight", vec![6]),
    ];
    model.into_iter().map(|(name, shape)| (name.to_owned(), shape))
}

#[test]
fn a_matrix_is_the_sum_of_its_own_and_the_scaled_product() {
    let (a, b) = (format!("{PREFIX}{MATRIX}.lora_A.weight"), format!("{PREFIX}{MATRIX}.lora_B.weight"));
    let (dir, files) = model(json!({}), &[(&a, &[2, 6]), (&b, &[4, 2])]);
    let checkpoint = files.checkpoint().unwrap();
    checkpoint.check_adapter(tensors()).unwrap();
    let name = "model.layers.0.self_attn.q_proj.weight";
    let (w, a, b) = (values(&format!("{MATRIX}.weight"), 24), values(&a, 12), values(&b, 8));
    let sum =
        |row: usize, column: usize| (0..2).map(|k| 1.5 * b[row * 2 + k] * a[k * 6 + column]).sum::<f32>();
    let expected: Vec<f32> = (0..24).map(|i| w[i] + sum(i / 6, i % 6)).collect();
    // All values and products are short binary fractions.
    assert_eq!(checkpoint.f32(name, &[4, 6]).unwrap(), expected);
    let hash = checkpoint.rows_parallel(name, [4, 6], &|_, _| Ok(())).unwrap();
    assert_eq!(checkpoint.hash(name).unwrap(), Some(hash));
    let strong = |alpha: f64| {
        let config = json!({"r": 2, "lora_alpha": alpha}).to_string();
        fs::write(dir.path().join("sports/adapter_config.json"), config).unwrap();
        ModelFiles::of_directory(dir.path()).with_lora(Some(&dir.path().join("sports"))).unwrap()
    };
    let error = strong(1e300).checkpoint().unwrap().f32(name, &[4, 6]).unwrap_err().to_string();
    assert!(error.contains("with the adapter"), "{error}");
    let alone = Checkpoint::open(dir.path()).unwrap();
    assert_eq!(alone.f32(name, &[4, 6]).unwrap(), w);
    assert_ne!(alone.hash(name).unwrap(), Some(hash));
    assert_eq!(alone.tensors().count(), checkpoint.tensors().count());
    assert!(files.name().ends_with("+sports"), "{}", files.name());
}

#[test]
fn a_table_takes_the_transposed_product_and_whole_tensors_take_the_place_of_the_models() {
    let part = |name: &str| format!("{PREFIX}{name}");
    let names = ["lora_embedding_A", "lora_embedding_B"].map(|ending| part(&format!("{TABLE}.{ending}")));
    let norm = part("model.language_model.norm.modules_to_save.default.weight");
    let bias = part(&format!("{MATRIX}.base_layer.bias"));
    let (_dir, files) =
        model(json!({}), &[(&names[0], &[2, 8]), (&names[1], &[6, 2]), (&norm, &[6]), (&bias, &[4])]);
    let checkpoint = files.checkpoint().unwrap();
    checkpoint.check_adapter(tensors()).unwrap();
    let (w, a, b) = (values(&format!("{TABLE}.weight"), 48), values(&names[0], 16), values(&names[1], 12));
    let sum =
        |row: usize, column: usize| (0..2).map(|k| 1.5 * b[column * 2 + k] * a[k * 8 + row]).sum::<f32>();
    let expected: Vec<f32> = (0..48).map(|i| w[i] + sum(i / 6, i % 6)).collect();
    let (Values::F32(table), _) = checkpoint.native("model.embed_tokens.weight", [8, 6]).unwrap() else {
        panic!("expected f32")
    };
    assert_eq!(table[..], expected);
    assert_eq!(checkpoint.f32("model.norm.weight", &[6]).unwrap(), values(&norm, 6));
    assert_eq!(checkpoint.f32("model.layers.0.self_attn.q_proj.bias", &[4]).unwrap(), values(&bias, 4));
}

#[test]
fn adapters_of_other_models_are_refused_with_all_their_tensors() {
    let name = |module: &str, half: &str| format!("{PREFIX}{module}.{half}.weight");
    let other =
        ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "visual.blocks.0.attn.qkv"];
    let names: Vec<[String; 2]> =
        other.iter().map(|module| ["lora_A", "lora_B"].map(|half| name(module, half))).collect();
    let all: Vec<(&str, &[usize])> =
        names.iter().flat_map(|[a, b]| [(a.as_str(), &[2, 6][..]), (b.as_str(), &[4, 2][..])]).collect();
    let check = |tensors: &[(&str, &[usize])]| {
        let (_dir, files) = model(json!({}), tensors);
        let error = files.checkpoint().unwrap().check_adapter(self::tensors()).unwrap_err();
        specreel_record::Failure::from(error)
    };
    let failure = check(&all);
    let unknown = "has no model.layers.*.self_attn.q_proj, visual.blocks.*.attn.qkv";
    assert!(
        failure.error.contains("sports: the adapter is not of ") && failure.error.ends_with(unknown),
        "{failure:?}"
    );
    assert!(failure.hint.unwrap().contains("me/vl"));
    let wide = [(all[0].0, &[2, 8][..]), (all[1].0, &[4, 2][..])];
    let failure = check(&wide);
    assert!(failure.error.ends_with("q_proj is for [4, 8], the model has [4, 6]"), "{failure:?}");
    let norm = format!("{PREFIX}model.norm.weight");
    assert!(check(&[(&norm, &[7])]).error.ends_with("model.norm.weight has shape [7], the model has [6]"));
}

#[test]
fn incomplete_and_unknown_adapters_are_refused_before_loading() {
    let [a, b] = ["lora_A", "lora_B"].map(|half| format!("{PREFIX}{MATRIX}.{half}.weight"));
    let magnitude = format!("{PREFIX}{MATRIX}.lora_magnitude_vector");
    for (settings, tensors, problem) in [
        (json!({}), &[(a.as_str(), &[2, 6][..])][..], "has not both of lora_A and lora_B"),
        (json!({"r": 3}), &[(&a, &[2, 6]), (&b, &[4, 2])], "expected the rank 3"),
        (json!({}), &[(&a, &[2, 6]), (&b, &[4, 3])], "expected the rank 2"),
        (json!({}), &[(&magnitude, &[4])], "DoRA"),
        (json!({}), &[], "no tensors"),
        (json!({"use_dora": true}), &[(&a, &[2, 6]), (&b, &[4, 2])], "`use_dora` is not supported"),
        (json!({"lora_alpha": "much"}), &[], "not the settings of a LoRA"),
    ] {
        let (_dir, files) = model(settings, tensors);
        let error = files.checkpoint().err().unwrap().to_string();
        assert!(error.contains("sports") && error.contains(problem), "{error}");
    }
    let (dir, _) = model(json!({}), &[]);
    let files =
        |lora: &str| ModelFiles::of_directory(dir.path()).with_lora(Some(&dir.path().join(lora))).unwrap();
    let failure = specreel_record::Failure::from(files("none").checkpoint().err().unwrap());
    assert!(failure.error.contains("none/adapter_config.json") && failure.hint.unwrap().contains("PEFT"));
    fs::rename(dir.path().join("sports").join(WEIGHTS), dir.path().join("sports/adapter_model.bin")).unwrap();
    let failure = specreel_record::Failure::from(files("sports").checkpoint().err().unwrap());
    assert!(
        failure.error.ends_with("only adapter_model.bin")
            && failure.hint.unwrap().contains("save_pretrained")
    );
}
