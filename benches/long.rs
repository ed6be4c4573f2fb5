//! Long prompts on the CPU: the time of a prefill, attention's part in it, and the time of a pass after it.
//!
//! `cargo bench --bench long [-- SLOTS… f32 f16 q8_0]`; 1,000, 4,000 and 10,000 slots and all types of keys and values by
//! default. The model has the shape of
//! Qwen2.5-VL-3B's language model with two layers and random weights in q8_0; what is printed for all 36 layers is that of the
//! two times 18.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "no engine runs here")]
mod engine;

use std::{sync::Arc, time::Instant};

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Decoder, Sequence, Taps},
    mac_count, shapes,
};
use specreel_record::median;
use specreel_tensor::{ComputeDevice, KvType, WeightType};

/// Layers of the model that is measured, and of the model that it stands for.
const LAYERS: [usize; 2] = [2, 36];
/// Passes of each number of rows after the prompt.
const ROUNDS: usize = 15;

fn main() {
    engine::main(|| bench().map_err(|e| e.to_string()));
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut lengths: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if lengths.is_empty() {
        lengths = vec![1000, 4000, 10_000];
    }
    let mut kinds: Vec<KvType> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if kinds.is_empty() {
        kinds = KvType::ALL.to_vec();
    }
    let mut config = shapes::find("qwen2.5-vl-3b").ok_or("no such shape")?;
    (config.layers, config.vocab) = (LAYERS[0], 1024);
    let load = |kind| -> Result<Arc<Decoder>, Box<dyn std::error::Error>> {
        let device = ComputeDevice::cpu(WeightType::Q8_0).with_kv_type(kind).map_err(|f| f.error)?;
        Ok(Arc::new(Decoder::load(&Checkpoint::random(), &config, &device, &mut |_, _| {})?))
    };
    let decoders = kinds
        .iter()
        .map(|&kind| Ok((kind, load(kind)?)))
        .collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    for &slots in &lengths {
        for (kind, decoder) in &decoders {
            print!("{slots:>6} slots, {:>4}: ", kind.name());
            println!("{}", measure(decoder, slots)?);
        }
    }
    Ok(())
}

/// Prefill and passes over so many slots, in words.
fn measure(decoder: &Arc<Decoder>, slots: usize) -> specreel_tensor::Result<String> {
    let (config, scale) = (decoder.config(), LAYERS[1] as f64 / LAYERS[0] as f64);
    let mut sequence = Sequence::new(decoder.clone(), slots + 64);
    let ids: Vec<u32> = (0..slots as u32).map(|i| i * 7 % 1024).collect();
    // The first chunk hardly attends: its time is that of the products.
    let first = &ids[..decoder.chunk().min(slots)];
    let mut firsts = Vec::new();
    for _ in 0..9 {
        let started = Instant::now();
        sequence.feed(first, &Taps::default())?;
        firsts.push(started.elapsed().as_secs_f64());
        sequence.truncate(0);
    }
    let products = median(firsts).unwrap_or_default() * slots as f64 / first.len() as f64;
    let started = Instant::now();
    for chunk in ids.chunks(decoder.chunk()) {
        sequence.feed(chunk, &Taps::default())?;
    }
    let whole = started.elapsed().as_secs_f64();
    let attention = (whole - products).max(0.0);
    let macs = mac_count::prompt(config, 0, slots).attention;
    let mut words = format!(
        "prefill {:.1} s, attention {:.1} s ({:.0} %, {:.0} GMAC/s)",
        whole * scale,
        attention * scale,
        attention / whole * 100.0,
        macs / attention / 1e9,
    );
    for rows in [1, 6, 11] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            sequence.feed(&ids[..rows], &Taps::default())?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            sequence.truncate(slots);
        }
        words += &format!(", {rows} rows {:.1} ms", median(times).unwrap_or_default() * scale);
    }
    Ok(words + &format!(", cache {:.0} MB", sequence.bytes() as f64 * scale / 1e6))
}
