//! Vision towers at real size: time of a temporal grid by weight type, against candle's tensors, and what it is spent on.
//!
//! `cargo bench -p specreel-lab --bench tower [-- [--shape NAME] [--side PIXELS] [--grids N] [--rounds N] [--layers N] [--types TYPE,…]]` runs the
//! tower of a known shape (qwen2.5-vl-3b) with random weights over square frames, the types in turn, and prints the median of the
//! rounds. `--layers` cuts the tower; times then belong to the cut one.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "only its entry point is used")]
mod engine;

use std::{ops::ControlFlow, time::Instant};

use candle_core::{Device, Tensor};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    family::VlConfig,
    processor::{Grid, Patches},
    shapes,
    vision::Tower,
};
use specreel_tensor::{ComputeDevice, WeightType};

fn main() {
    engine::main(|| bench().map_err(|e| e.to_string()));
}

fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

fn number(name: &str, default: usize) -> usize {
    option(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let shape = option("--shape").unwrap_or_else(|| "qwen2.5-vl-3b".into());
    let mut raw = shapes::config(&shape).ok_or("unknown shape")?.raw;
    if let Some(layers) = option("--layers").and_then(|layers| layers.parse().ok()) {
        cut(&mut raw["vision_config"], layers);
    }
    let config = VlConfig::resolve(raw)?.tower()?;
    let frames = config.frames();
    let factor = frames.patch * frames.merge;
    let pixels = frames.fixed.map_or(number("--side", 448) / factor * factor, |size| size.height);
    let (grids, rounds) = (number("--grids", 1), number("--rounds", 3));
    let side = pixels / frames.patch;
    let grid = Grid { t: grids, h: side, w: side };
    let macs = config.mac_count(grid).total().total();
    let data = Tensor::randn(0f32, 1.0, grids * side * side * frames.row(), &Device::Cpu)?.to_vec1()?;
    let patches = Patches { data, grid, row: frames.row() };
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
    let together = frames.temporal;
    println!("{shape}: {grids} x {together} frames of {pixels} x {pixels} pixels, {:.0} GMAC", macs / 1e9);
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

/// The first layers of a tower, with the entries of its lists of layers that are among them.
fn cut(vision: &mut serde_json::Value, layers: usize) {
    for key in ["depth", "num_hidden_layers"] {
        if vision.get(key).is_some() {
            vision[key] = layers.into();
        }
    }
    for key in ["fullatt_block_indexes", "deepstack_visual_indexes"] {
        if let Some(blocks) = vision.get_mut(key).and_then(serde_json::Value::as_array_mut) {
            blocks.retain(|block| block.as_u64().is_some_and(|block| block < layers as u64));
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
