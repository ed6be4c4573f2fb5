//! Deliberately damaged directories: always a message, never a panic, never more memory than the files justify.

use std::{fs, ops::ControlFlow, path::Path, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};
use specreel_checkpoint::ModelFiles;
use specreel_model::{
    family::{ClipFacts, VideoLlm},
    inspect::Inspection,
};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::{ComputeDevice, WeightType};
use tempfile::TempDir;

use crate::{counting::peak, fixture};

const TEXTS: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.json",
    "preprocessor_config.json",
    "model.safetensors.index.json",
];

/// Memory limit of loading these small checkpoints of half a megabyte; a tokenizer becomes many small strings.
const MOST: usize = 96 << 20;

/// Memory limit with a hostile template: a text repeated to 100 MB, in memory twice.
const MOST_OF_TEMPLATES: usize = 256 << 20;

fn copy(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "fixture.safetensors" {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    dir
}

/// Inspect a directory, load it and build a prompt; false if inspection found problems.
fn survives(dir: &Path) -> bool {
    let ((problems, loaded, prompted), most) = peak(|| {
        let problems = Inspection::of(dir, None).problems;
        let loaded = VideoLlm::load(dir, WeightType::Auto, &mut |_, _| {});
        let prompted = loaded
            .as_ref()
            .ok()
            .map(|model| model.prompt("What?", &ClipFacts::steady(model_grid(), 2, 2.0)).map(|_| ()));
        (problems, loaded.map(|_| ()).map_err(Failure::from), prompted.map(|p| p.map_err(Failure::from)))
    });
    let allowed = if dir.join("chat_template.jinja").exists() { MOST_OF_TEMPLATES } else { MOST };
    assert!(most < allowed, "{most} bytes");
    let failures = [loaded.as_ref().err(), prompted.as_ref().and_then(|p| p.as_ref().err())];
    for failure in failures.into_iter().flatten() {
        assert_eq!(failure.class, FailureClass::Input, "{failure:?}");
        assert!(!failure.error.is_empty() && failure.hint.is_some(), "{failure:?}");
    }
    match (loaded, prompted) {
        (Err(failure), _) => {
            assert!(!problems.is_empty(), "inspection found nothing, but: {}", failure.error)
        }
        (Ok(()), Some(Ok(()))) => {
            assert!(problems.is_empty(), "it can be used, but inspection found: {problems:?}")
        }
        _ => {}
    }
    problems.is_empty()
}

fn model_grid() -> specreel_model::processor::layout::VisualGrid {
    let grid = specreel_model::processor::layout::Grid { t: 1, h: 4, w: 4 };
    specreel_model::processor::layout::VisualGrid::from_patches(grid, 2).unwrap()
}

/// Pointers to all values of a JSON value.
fn places(value: &Value, at: String, all: &mut Vec<String>) {
    all.push(at.clone());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            places(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
        }),
        Value::Array(items) => {
            items.iter().enumerate().take(4).for_each(|(i, v)| places(v, format!("{at}/{i}"), all))
        }
        _ => {}
    }
}

fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(1)),
        Just(json!(3)),
        Just(json!(65_535)),
        Just(json!(1u64 << 40)),
        Just(json!(u64::MAX)),
        Just(json!(1e308)),
        Just(json!(0.5)),
        Just(json!("")),
        Just(json!("../../etc/passwd")),
        Just(json!("{{ x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[1, 2], "a"]])),
        Just(json!(true)),
        any::<u32>().prop_map(|n| json!(n)),
        "\\PC{0,12}".prop_map(|s| json!(s)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_value_anywhere_in_a_configuration(file in 0usize..TEXTS.len(), place in any::<prop::sample::Index>(), value in odd()) {
        let dir = copy("sharded_untied");
        edit(&dir.path().join(TEXTS[file]), |json| put(json, place, value));
        survives(dir.path());
    }

    #[test]
    fn any_bytes_anywhere_in_a_text(file in 0usize..TEXTS.len(), place in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..4), cut in any::<bool>()) {
        let dir = copy("sharded_untied");
        let path = dir.path().join(TEXTS[file]);
        let mut text = fs::read(&path).unwrap();
        let at = place.index(text.len());
        let end = if cut { text.len() } else { (at + bytes.len()).min(text.len()) };
        text.splice(at..end, bytes);
        fs::write(&path, text).unwrap();
        survives(dir.path());
    }

    #[test]
    fn any_bytes_anywhere_in_a_weight_header(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let dir = copy("gqa_tied");
        let path = dir.path().join("model.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[place.index(8 + header)] = byte;
        fs::write(&path, bytes).unwrap();
        survives(dir.path());
    }

    #[test]
    fn any_value_anywhere_in_a_weight_header(place in any::<prop::sample::Index>(), value in odd()) {
        let dir = copy("gqa_tied");
        let path = dir.path().join("model.safetensors");
        edit_header(&path, |json| put(json, place, value));
        survives(dir.path());
    }
}

/// Replace the value at some place.
fn put(json: &mut Value, place: prop::sample::Index, value: Value) {
    let mut all = Vec::new();
    places(json, String::new(), &mut all);
    *json.pointer_mut(&all[place.index(all.len())]).unwrap() = value;
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

fn edit_header(path: &Path, change: impl FnOnce(&mut Value)) {
    edit_header_text(path, |text| {
        let mut json = serde_json::from_str(text).unwrap();
        change(&mut json);
        json.to_string()
    });
}

fn edit_header_text(path: &Path, change: impl FnOnce(&str) -> String) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut text = change(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let out = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &bytes[8 + length..]].concat();
    fs::write(path, out).unwrap();
}

fn problems_of(name: &str, damage: impl FnOnce(&Path)) -> String {
    let dir = copy(name);
    damage(dir.path());
    assert!(!survives(dir.path()), "it was loaded");
    let problems = Inspection::of(dir.path(), None).problems;
    problems.into_iter().map(|p| p.error).collect::<Vec<_>>().join("\n")
}

#[test]
fn undamaged_copies_survive() {
    for name in ["gqa_tied", "sharded_untied", "nested_bf16", "gqa_untied_f16"] {
        assert!(survives(copy(name).path()), "{name}");
    }
}

#[test]
fn what_is_missing_or_misshapen_is_named() {
    type Damage<'a> = &'a dyn Fn(&Path);
    const DOWN: &str = "model.layers.0.mlp.down_proj.weight";
    let weights = |dir: &Path| dir.join("model.safetensors");
    let cases: [(Damage<'_>, &str); 6] = [
        (&|dir| fs::remove_file(dir.join("config.json")).unwrap(), "config.json"),
        (&|dir| edit(&dir.join("config.json"), |json| json["model_type"] = json!("mystery")), "mystery"),
        (&|dir| fs::remove_file(dir.join("tokenizer.json")).unwrap(), "tokenizer.json"),
        (
            &|dir| fs::File::options().write(true).open(weights(dir)).unwrap().set_len(100_000).unwrap(),
            "model.safetensors",
        ),
        // Still a valid file: the bytes belong to another tensor.
        (
            &|dir| edit_header_text(&weights(dir), |text| text.replace("model.norm.weight", "other")),
            "model.norm.weight",
        ),
        (
            &|dir| edit_header(&weights(dir), |json| json[DOWN]["shape"].as_array_mut().unwrap().reverse()),
            DOWN,
        ),
    ];
    for (damage, part) in cases {
        let text = problems_of("gqa_tied", damage);
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_claimed_terabyte_is_not_allocated() {
    let text = problems_of("gqa_tied", |dir| {
        edit_header(&dir.join("model.safetensors"), |json| {
            let end = json["model.norm.weight"]["data_offsets"][0].as_u64().unwrap() + (1 << 40);
            json["model.norm.weight"] =
                json!({ "dtype": "F32", "shape": [1u64 << 38], "data_offsets": [end - (1 << 40), end] });
        });
    });
    assert!(text.contains("model.safetensors"), "{text}");
    // Such a claim in the configuration.
    let text = problems_of("gqa_tied", |dir| {
        edit(&dir.join("config.json"), |json| {
            json["intermediate_size"] = json!(1 << 20);
            json["vocab_size"] = json!(1 << 22);
        });
    });
    assert!(text.contains("embed_tokens"), "{text}");
}

#[test]
fn duplicate_names_and_overlapping_tensors() {
    let text = problems_of("gqa_tied", |dir| {
        edit_header_text(&dir.join("model.safetensors"), |text| {
            let json: Value = serde_json::from_str(text).unwrap();
            text.replacen('{', &format!("{{\"model.norm.weight\":{},", json["model.norm.weight"]), 1)
        });
    });
    assert!(text.contains("`model.norm.weight` twice"), "{text}");
    let text = problems_of("gqa_tied", |dir| {
        edit_header(&dir.join("model.safetensors"), |json| {
            json["model.norm.weight"]["data_offsets"] =
                json["model.layers.0.input_layernorm.weight"]["data_offsets"].clone();
        });
    });
    assert!(text.contains("cannot be at bytes"), "{text}");
}

#[test]
fn an_index_stays_in_its_directory() {
    for name in ["../model-00001-of-00003.safetensors", "/etc/passwd", "a/b", "..", ""] {
        let text = problems_of("sharded_untied", |dir| {
            let path = dir.join("model.safetensors.index.json");
            edit(&path, |json| json["weight_map"]["model.norm.weight"] = json!(name));
        });
        assert!(text.contains("is not the name of a file in this directory"), "{name}: {text}");
    }
}

#[cfg(unix)]
#[test]
fn cyclic_links_devices_and_directories() {
    use std::os::unix::fs::symlink;
    let names = "config.json tokenizer.json model.safetensors preprocessor_config.json chat_template.json";
    for name in names.split(' ') {
        let path = |dir: &Path| {
            let path = dir.join(name);
            fs::remove_file(&path).unwrap();
            path
        };
        let circle = problems_of("gqa_tied", |dir| symlink(name, path(dir)).unwrap());
        let device = problems_of("gqa_tied", |dir| symlink("/dev/zero", path(dir)).unwrap());
        let directory = problems_of("gqa_tied", |dir| fs::create_dir(path(dir)).unwrap());
        for text in [circle, device, directory] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
    // The directory itself.
    let dir = tempfile::tempdir().unwrap();
    symlink("circle", dir.path().join("circle")).unwrap();
    assert!(!survives(&dir.path().join("circle")));
}

#[test]
fn runaway_templates() {
    for template in [
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'x' * 100000000 }}",
        "{{ 'x' * 99999999999999 }}",
        "{% for i in range(99999) %}{{ messages }}{% endfor %}",
        "{% if %}",
        "{{ messages[0] }}",
        "",
    ] {
        let text = problems_of("gqa_tied", |dir| {
            fs::remove_file(dir.join("chat_template.json")).unwrap();
            fs::write(dir.join("chat_template.jinja"), template).unwrap();
        });
        assert!(text.contains("template"), "{template}: {text}");
    }
}

/// Weights are read from the file, not from a mapping, which would kill the process with SIGBUS.
#[test]
fn a_file_that_shrinks_while_it_is_loaded() {
    for name in ["gqa_tied", "nested_bf16"] {
        let dir = copy(name);
        let path = dir.path().join("model.safetensors");
        let truncate = {
            let path = path.clone();
            move |done, _| {
                if done == 3 {
                    fs::File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
                }
                ControlFlow::Continue(())
            }
        };
        let checkpoint = VideoLlm::open(&ModelFiles::open(dir.path(), None).unwrap())
            .unwrap()
            .with_progress(Arc::new(truncate));
        let device = ComputeDevice::cpu(WeightType::Auto);
        let error = VideoLlm::from_checkpoint(&checkpoint, &device, &mut |_, _| {}).err().unwrap();
        let failure = Failure::from(error);
        assert_eq!(failure.class, FailureClass::Input, "{name}: {failure:?}");
        let expected = format!("{}: the file changed while it was read", path.display());
        assert!(failure.error.contains(&expected), "{name}: {failure:?}");
        // The same directory is refused from then on.
        assert!(VideoLlm::open(&ModelFiles::open(dir.path(), None).unwrap()).is_err(), "{name}");
    }
}
