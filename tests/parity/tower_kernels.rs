//! Vision towers in this crate's kernels, for all families and types.

use std::ops::ControlFlow;

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::States,
    family::VlConfig,
    family::qwen2_vl::{Generation, VisionConfig},
    processor::{Grid, Patches},
    vision::{Tower, TowerConfig, VisionError},
};
use specreel_tensor::{ComputeDevice, WeightType};

use super::{CHECKPOINTS, FAMILIES, NEWER, difference, fixture, patches, states, tensors, values};

fn load(checkpoint: &Checkpoint, config: &TowerConfig, dtype: WeightType) -> Tower {
    let device = ComputeDevice::cpu(WeightType::F32).with_tower(dtype);
    Tower::load(checkpoint, config, &device).unwrap()
}

fn tower(name: &str, dtype: WeightType) -> Tower {
    let dir = fixture(name);
    let config = VlConfig::read(&dir).unwrap().tower().unwrap();
    load(&Checkpoint::open(&dir).unwrap(), &config, dtype)
}

fn names() -> impl Iterator<Item = &'static str> {
    CHECKPOINTS.into_iter().chain(FAMILIES)
}

fn go(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Embeddings with the newline, if there is one, as the fixtures have them.
fn embed(tower: &Tower, patches: &Patches) -> States {
    let embeddings = tower.encode(patches, &mut go).unwrap();
    match tower.newline() {
        Some(newline) => States::cat(&[embeddings, newline.clone()]).unwrap(),
        None => embeddings,
    }
}

/// The smallest cosine of two rows.
fn cosine(a: &States, b: &States) -> f32 {
    let width = a.shape().1;
    let (a, b) = (values(a), values(b));
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let rows = a.chunks_exact(width).zip(b.chunks_exact(width));
    rows.map(|(a, b)| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).fold(1.0, f32::min)
}

#[test]
fn states_and_embeddings_equal_transformers() {
    for name in names() {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let patches = patches(name);
        let tower = tower(name, WeightType::F32);
        let states = tower.states(&patches, &mut go).unwrap();
        let embeds = embed(&tower, &patches);
        let (a, b) =
            (difference(&states, &expected["tower_states"]), difference(&embeds, &expected["visual_embeds"]));
        assert!(a <= 1e-4 && b <= 1e-4, "{name}: states {a:e}, embeddings {b:e}");
    }
}

#[test]
fn smaller_types_stay_close() {
    for name in names() {
        let expected = states(&tensors(&format!("{name}/fixture.safetensors"))["visual_embeds"]);
        let patches = patches(name);
        let mut sizes = Vec::new();
        for (dtype, least) in
            [(WeightType::F16, 0.999_99), (WeightType::Bf16, 0.999), (WeightType::Q8_0, 0.999)]
        {
            let tower = tower(name, dtype);
            let cosine = cosine(&embed(&tower, &patches), &expected);
            println!("{name} {}: {cosine}", dtype.name());
            assert!(cosine >= least, "{name} {}: {cosine}", dtype.name());
            sizes.push(tower.bytes());
        }
        assert!(sizes[0] == sizes[1] && sizes[2] < sizes[0], "{sizes:?}");
    }
}

/// As deep as a published tower, and a quarter as wide, with random weights.
#[test]
fn eight_bits_stay_close_in_a_deep_tower() {
    let config = serde_json::json!({
        "depth": 32, "hidden_size": 320, "intermediate_size": 852, "num_heads": 4, "out_hidden_size": 512, "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    });
    let config = TowerConfig::from(VisionConfig::from_json(&config, Generation::Qwen25).unwrap());
    let grid = Grid { t: 2, h: 8, w: 10 };
    let data = (0..160 * 1176).map(|i| (i as f32 * 0.37).sin() * 2.0).collect();
    let patches = Patches { data, grid, row: 1176 };
    let [exact, small] = [WeightType::F32, WeightType::Q8_0].map(|dtype| {
        let tower = load(&Checkpoint::random(), &config, dtype);
        embed(&tower, &patches)
    });
    let cosine = cosine(&small, &exact);
    println!("{cosine}");
    assert!(cosine >= 0.999, "{cosine}");
}

/// A temporal grid's embeddings are the same bits with any others beside it.
#[test]
fn grids_do_not_depend_on_each_other() {
    for name in ["gqa_tied", "mha_tied_bf16", "qwen2_vl", "llava_ov"].into_iter().chain(NEWER) {
        let Patches { data, grid, row } = patches(name);
        let one = &data[..grid.h * grid.w * row];
        let shifted = |k: usize| -> Vec<f32> { one.iter().map(|v| v * (1.0 - 0.1 * k as f32)).collect() };
        let of = |data: Vec<f32>, t: usize| Patches { data, grid: Grid { t, ..grid }, row };
        let grids = 7;
        let all = of((0..grids).flat_map(shifted).collect(), grids);
        for dtype in WeightType::TOWERS {
            let tower = tower(name, dtype);
            let together = tower.encode(&all, &mut go).unwrap();
            let tokens = together.rows() / grids;
            for k in 0..grids {
                let alone = tower.encode(&of(shifted(k), 1), &mut go).unwrap();
                let ours = together.narrow(k * tokens, tokens).unwrap();
                let same = values(&alone).iter().zip(values(&ours)).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name} {} grid {k}", dtype.name());
            }
        }
    }
}

#[test]
fn progress_counts_layers_and_a_break_cancels() {
    for name in ["gqa_tied", "llava_ov", "qwen3_vl", "smolvlm", "qwen3_5"] {
        let (tower, patches) = (tower(name, WeightType::Q8_0), patches(name));
        let grid = patches.grid;
        let mut steps = Vec::new();
        let mut progress = |done, total| {
            steps.push((done, total));
            ControlFlow::Continue(())
        };
        tower.encode(&patches, &mut progress).unwrap();
        let total = steps.len();
        assert!(total > 0);
        assert_eq!(steps, (1..=total).map(|done| (done, total)).collect::<Vec<_>>(), "{name}");
        let stopped = tower.encode(&patches, &mut |_, _| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(VisionError::Cancelled)));
        for grid in [Grid { t: grid.t + 1, ..grid }, Grid { h: 3, ..grid }, Grid { t: 0, ..grid }] {
            let refused = tower.encode(&Patches { grid, ..patches.clone() }, &mut go);
            assert!(matches!(refused, Err(VisionError::Patches { .. })), "{name} {grid:?}");
        }
    }
}
