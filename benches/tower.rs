//! Vision towers at real size: time of a pair of frames by weight type, against candle's tensors, and what it is spent on.
//!
//! `cargo bench --bench tower [-- [--side PIXELS] [--grids N] [--rounds N] [--layers N] [--types TYPE,…]]` runs the tower of
//! Qwen2.5-VL with random weights over square frames, the types in turn, and prints the median of the rounds. `--layers` cuts the tower; times
//! are then those of the cut one.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "only its entry point is used")]
mod engine;

use std::{ops::ControlFlow, time::Instant};

use candle_core::{Device, Tensor};
use specreel::model::{
    ComputeDevice, WeightType,
    checkpoint::Checkpoint,
    family::qwen2_vl::{Generation, VisionConfig},
    processor::{Grid, Patches},
    vision::{Tower, TowerConfig},
};

/// Qwen2.5-VL-3B's `vision_config`.
const PUBLISHED: &str = r#"{
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
    "out_hidden_size": 2048, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2
}"#;

fn main() {
    engine::main(|| bench().map_err(|e| e.to_string()));
}

/// The value of an option on the command line.
fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

fn number(name: &str, default: usize) -> usize {
    option(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let (side, grids, rounds) = (number("--side", 448) / 28 * 2, number("--grids", 1), number("--rounds", 3));
    let mut config = VisionConfig::from_json(&serde_json::from_str(PUBLISHED)?, Generation::Qwen25)?;
    config.depth = number("--layers", config.depth);
    config.full_attention.truncate(config.depth);
    let macs = macs(&config, side * side) * grids as f64;
    let config = TowerConfig::from(config);
    let grid = Grid { t: grids, h: side, w: side };
    let data = Tensor::randn(0f32, 1.0, grids * side * side * 1176, &Device::Cpu)?.to_vec1()?;
    let patches = Patches { data, grid, row: 1176 };
    let types = option("--types").unwrap_or_else(|| "tensors,f32,bf16,f16,q8_0".into());
    let checkpoint = Checkpoint::random();
    let mut towers = Vec::new();
    for name in types.split(',') {
        let device = match name {
            "tensors" => ComputeDevice::tensors(Device::Cpu, name, WeightType::F32),
            dtype => ComputeDevice::cpu(WeightType::F32).with_tower(dtype.parse()?),
        };
        let start = Instant::now();
        towers.push((name, Tower::load(&checkpoint, &config, &device)?, Vec::new(), None));
        eprintln!("{name}: loaded in {:.1} s", start.elapsed().as_secs_f64());
    }
    for _ in 0..rounds {
        for (_, tower, times, result) in &mut towers {
            let start = Instant::now();
            let embeddings = tower.encode(&patches, &mut |_, _| ControlFlow::Continue(()))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            *result = Some(embeddings.to_vec2()?);
        }
    }
    println!("{grids} x 2 frames of {0} x {0} pixels, {1:.0} GMAC", side * 14, macs / 1e9);
    println!("type           ms   GMAC/s   smallest cosine to the first");
    let first = towers.first().and_then(|t| t.3.clone()).unwrap_or_default();
    for (name, _, times, result) in &mut towers {
        times.sort_by(f64::total_cmp);
        let ms = times[times.len() / 2];
        let cosine = result.iter().flatten().zip(&first).map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        println!("{name:<10} {ms:>8.0} {:>8.1}   {cosine:.6}", macs / ms / 1e6);
    }
    Ok(())
}

/// Multiply-adds of one temporal grid of so many patches.
fn macs(config: &VisionConfig, patches: usize) -> f64 {
    let (d, merged) = (config.hidden, config.hidden * config.merge * config.merge);
    let cell = config.merge * config.merge;
    let window = (config.window * config.window * cell).min(patches);
    let attention: usize =
        config.full_attention.iter().map(|full| 2 * d * if *full { patches } else { window }).sum();
    let layers = config.depth * (4 * d * d + 3 * d * config.ffn);
    let merger = merged * (merged + config.out) / cell;
    (patches * (config.row() * d + layers + attention + merger)) as f64
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
