//! Models whose files are laid out in other ways than Hugging Face's, and models with adapters.

use std::{fs, path::Path};

use safetensors::{
    SafeTensors,
    tensor::{Dtype, TensorView},
};
use serde_json::{Value, json};
use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_record::Failure;
use specreel_tensor::{ComputeDevice, WeightType, Weights};

use super::{ReadModel as _, VideoLlm};
use crate::{
    decoder::parts,
    testing::{copy, fixture},
    vision,
};

/// A tensor of a file.
struct Stored {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn f32(name: String, shape: &[usize], values: impl IntoIterator<Item = f32>) -> Self {
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Self { name, dtype: Dtype::F32, shape: shape.to_vec(), bytes }
    }
}

/// A copy of a fixture, whose weight file is written from the tensors of its own.
fn rewritten(name: &str, change: impl FnMut(Stored) -> Vec<Stored>) -> tempfile::TempDir {
    let dir = copy(name);
    let bytes = fs::read(dir.path().join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let stored = file.tensors().into_iter().map(|(name, view)| Stored {
        name,
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    });
    let all: Vec<Stored> = stored.flat_map(change).collect();
    write(&dir.path().join("model.safetensors"), &all);
    dir
}

fn write(path: &Path, tensors: &[Stored]) {
    let views = tensors.iter().map(|tensor| {
        (tensor.name.clone(), TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Every tensor that a model reads, with its values.
fn values(files: &ModelFiles) -> Vec<(String, Vec<f32>)> {
    let (config, checkpoint) = (files.config().unwrap(), files.checkpoint().unwrap());
    let tensors =
        parts::tensors(&config.text).into_iter().chain(vision::parts::tensors(&config.tower().unwrap()));
    tensors.map(|(name, shape)| (name.clone(), checkpoint.f32(&name, &shape).unwrap())).collect()
}

fn files_in(dir: &tempfile::TempDir) -> ModelFiles {
    ModelFiles::of_directory(dir.path())
}

/// The values of a tensor of floats.
fn widened(stored: &Stored) -> Vec<f32> {
    match stored.dtype {
        Dtype::F32 => stored.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Dtype::BF16 => {
            let wide = |bytes: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            stored.bytes.as_chunks().0.iter().map(wide).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// A tensor as mlx-vlm saves it.
fn as_mlx(mut stored: Stored, adds_to_norms: bool) -> Vec<Stored> {
    const NORMS: [&str; 5] = [
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
        "model.norm.weight",
        "q_norm.weight",
        "k_norm.weight",
    ];
    let name = stored
        .name
        .replace("model.language_model.", "language_model.model.")
        .replace("model.visual.", "vision_tower.");
    stored.name = if name.starts_with("lm_head") { format!("language_model.{name}") } else { name };
    if stored.name.contains("mtp.") {
        return Vec::new();
    }
    let size = stored.bytes.len() / stored.shape.iter().product::<usize>();
    if stored.name.ends_with("patch_embed.proj.weight") {
        let (channels, rest) = (stored.shape.remove(1), stored.shape[1..].to_vec());
        let places = stored.shape[1..].iter().product::<usize>();
        let kernel = |kernel: &[u8]| -> Vec<u8> {
            let at = |place: usize, channel: usize| &kernel[(channel * places + place) * size..][..size];
            (0..places)
                .flat_map(|place| (0..channels).flat_map(move |channel| at(place, channel).to_vec()))
                .collect()
        };
        stored.bytes = stored.bytes.chunks_exact(channels * places * size).flat_map(kernel).collect();
        assert!(rest.len() == 3 && channels == 3);
        stored.shape.push(channels);
    } else if stored.name.ends_with("conv1d.weight") {
        stored.shape.swap(1, 2);
    } else if adds_to_norms && NORMS.iter().any(|norm| stored.name.ends_with(norm)) {
        let (name, shape) = (stored.name.clone(), stored.shape.clone());
        return vec![Stored::f32(name, &shape, widened(&stored).into_iter().map(|value| value + 1.0))];
    }
    vec![stored]
}

#[test]
fn files_of_mlx_have_the_values_of_the_model_that_they_were_made_from() {
    for (name, adds_to_norms) in [("qwen3_vl", false), ("nested_bf16", false), ("qwen3_5", true)] {
        let (own, mlx) =
            (rewritten(name, |stored| vec![stored]), rewritten(name, |stored| as_mlx(stored, adds_to_norms)));
        let [own, mlx] = [&own, &mlx].map(|dir| values(&files_in(dir)));
        assert_eq!(own.len(), mlx.len());
        for ((name, own), (_, mlx)) in own.iter().zip(&mlx) {
            // A norm loses bits of its difference from 1.
            let near =
                own.iter().zip(mlx).all(|(a, b)| if adds_to_norms { (a - b).abs() < 1e-6 } else { a == b });
            assert!(near && own.len() == mlx.len(), "{name}");
        }
    }
}

#[test]
fn names_with_a_repeated_prefix_are_known_and_unknown_ones_are_not_called_damage() {
    let renamed = |name: &str, from: &str, to: &str| {
        rewritten(name, |mut stored| {
            stored.name = stored.name.replace(from, to);
            vec![stored]
        })
    };
    let (text, tower) = ("model.language_model.", "model.visual.");
    for name in ["qwen3_5", "qwen3_5_moe", "qwen3_vl"] {
        let own = values(&files_in(&rewritten(name, |stored| vec![stored])));
        for (from, to) in [
            (tower, "model.language_model.visual."),
            (tower, "model.language_model.language_model.visual."),
            (text, "model.language_model.language_model."),
            (text, "model.language_model.language_model.language_model."),
        ] {
            assert!(values(&files_in(&renamed(name, from, to))) == own, "{name}: {to}");
        }
    }
    let failure = |dir: &tempfile::TempDir| {
        let checkpoint = VideoLlm::open(&files_in(dir)).unwrap();
        let device = ComputeDevice::cpu(WeightType::Q8_0);
        Failure::from(VideoLlm::from_checkpoint(&checkpoint, &device, &mut |_, _| {}).err().unwrap())
    };
    for (from, to, similar) in
        [(tower, "seer.", "seer.blocks.0."), (text, "wrapped.text.", "wrapped.text.layers.0.")]
    {
        let Failure { error, hint, .. } = failure(&renamed("qwen3_vl", from, to));
        let hint = hint.unwrap();
        assert!(error.contains("not in the weight files of"), "{error}");
        assert!(hint.contains("the names of its family") && !hint.contains("damaged"), "{hint}");
        assert!(!hint.contains("most similar") || hint.contains(similar), "{hint}");
    }
}

const RANK: usize = 3;

/// An adapter of rank 3 and factor 2 of some modules, with names as PEFT writes them, and the sums that it makes.
fn adapter(dir: &Path, modules: &[(&str, [usize; 2])]) -> Vec<(String, Vec<f32>)> {
    fs::create_dir_all(dir).unwrap();
    let config =
        json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": ["q_proj"]});
    fs::write(dir.join("adapter_config.json"), config.to_string()).unwrap();
    let (mut tensors, mut sums) = (Vec::new(), Vec::new());
    for (module, [outputs, inputs]) in modules {
        let a: Vec<f32> = (0..RANK * inputs).map(|i| (i as f32 * 0.7).sin() * 0.1).collect();
        let b: Vec<f32> = (0..outputs * RANK).map(|i| (i as f32 * 0.3).cos() * 0.1).collect();
        let sum = |i: usize| {
            let product = |k: usize| b[i / inputs * RANK + k] * a[k * inputs + i % inputs];
            2.0 * (0..RANK).map(product).sum::<f32>()
        };
        sums.push((format!("{module}.weight"), (0..outputs * inputs).map(sum).collect()));
        let name = |half: &str| format!("base_model.model.{module}.lora_{half}.weight");
        tensors.push(Stored::f32(name("A"), &[RANK, *inputs], a));
        tensors.push(Stored::f32(name("B"), &[*outputs, RANK], b));
    }
    write(&dir.join("adapter_model.safetensors"), &tensors);
    sums
}

/// Matrices of the fixture `qwen3_vl`: of the language model and of the tower.
const MODULES: [(&str, [usize; 2]); 3] = [
    ("model.language_model.layers.1.self_attn.q_proj", [128, 64]),
    ("model.language_model.layers.0.mlp.down_proj", [64, 96]),
    ("model.visual.blocks.2.attn.qkv", [96, 32]),
];

#[test]
fn a_model_with_an_adapter_is_the_merged_model() {
    let lora = tempfile::tempdir().unwrap();
    let lora = lora.path().join("sports");
    let sums = adapter(&lora, &MODULES);
    let merged = rewritten("qwen3_vl", |stored| {
        let Some((name, sum)) = sums.iter().find(|(name, _)| *name == stored.name) else {
            return vec![stored];
        };
        let values: Vec<f32> = widened(&stored).iter().zip(sum).map(|(own, sum)| own + sum).collect();
        vec![Stored::f32(name.clone(), &stored.shape, values)]
    });
    let base = rewritten("qwen3_vl", |stored| vec![stored]);
    let adapted = files_in(&base).with_lora(Some(&lora)).unwrap();
    let (merged, alone) = (files_in(&merged), files_in(&base));
    let [merged, adapted_values, alone] = [&merged, &adapted, &alone].map(values);
    let mut changed = 0;
    for ((merged, adapted), alone) in merged.iter().zip(&adapted_values).zip(&alone) {
        let near = merged.1.iter().zip(&adapted.1).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{}", merged.0);
        changed += usize::from(adapted.1 != alone.1);
    }
    assert_eq!(changed, MODULES.len());
    let load = |files: &ModelFiles| -> Result<VideoLlm, Failure> {
        let checkpoint = VideoLlm::open(files)?;
        Ok(VideoLlm::from_checkpoint(&checkpoint, &ComputeDevice::cpu(WeightType::Q8_0), &mut |_, _| {})?)
    };
    let model = load(&adapted).unwrap();
    assert!(model.name().ends_with("+sports"), "{}", model.name());
    // Of another model: one module does not exist, one is of other sizes.
    for (modules, problem) in [
        (
            [("model.language_model.layers.9.self_attn.q_proj", [128, 64])],
            "which has no model.language_model.layers.*",
        ),
        (
            [("model.language_model.layers.1.self_attn.q_proj", [64, 64])],
            "is for [64, 64], the model has [128, 64]",
        ),
    ] {
        adapter(&lora, &modules);
        let failure = load(&adapted).err().unwrap();
        assert!(failure.error.contains(problem) && failure.hint.is_some(), "{failure:?}");
    }
}

#[test]
fn quantized_models_are_loaded_and_described() {
    // Every matrix of the language model in FP8, with one scale for all.
    let dir = rewritten("qwen3_vl", |stored| {
        if !(stored.name.contains("_proj.weight") && stored.name.contains("language_model")) {
            return vec![stored];
        }
        let stem = stored.name.trim_end_matches("weight").to_owned();
        let codes = (0..stored.shape.iter().product::<usize>()).map(|i| (i * 7 % 256) as u8);
        let bytes = codes.map(|code| if code & 127 == 127 { 0 } else { code }).collect();
        vec![
            Stored::f32(format!("{stem}weight_scale"), &[], [0.001]),
            Stored::f32(format!("{stem}input_scale"), &[], [1.0]),
            Stored { dtype: Dtype::F8_E4M3, bytes, ..stored },
        ]
    });
    let config = dir.path().join("config.json");
    let mut raw: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    raw["quantization_config"] = json!({"quant_method": "fp8", "activation_scheme": "static"});
    fs::write(&config, raw.to_string()).unwrap();
    let found = crate::inspect::Inspection::of(dir.path(), None);
    assert_eq!(found.problems, []);
    assert_eq!(found.quantization.as_deref(), Some("fp8, scales of tensors or rows"));
    assert!(found.notes.iter().any(|note| note.contains("input_scale")), "{:?}", found.notes);
    let own = crate::inspect::Inspection::of(&fixture("qwen3_vl"), None);
    assert_eq!((found.parameters, &found.memory), (own.parameters, &own.memory));
    assert!(found.shares.iter().any(|share| share.dtype == "fp8"));
    let model = VideoLlm::load(dir.path(), WeightType::Q4_0, &mut |_, _| {}).unwrap();
    assert!(model.decoder().bytes() > 0);
    // The report names a scale that is NaN.
    let bytes = fs::read(dir.path().join("model.safetensors")).unwrap();
    let at = bytes.windows(4).position(|window| window == 0.001f32.to_le_bytes()).unwrap();
    let damaged = [&bytes[..at], &f32::NAN.to_le_bytes(), &bytes[at + 4..]].concat();
    fs::write(dir.path().join("model.safetensors"), damaged).unwrap();
    let found = crate::inspect::Inspection::of(dir.path(), None);
    assert!(
        found.problems.len() == 1 && found.problems[0].error.contains("weight_scale` is NaN"),
        "{:?}",
        found.problems
    );
    assert!(Checkpoint::open(dir.path()).is_ok());
}
