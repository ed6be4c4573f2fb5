//! Linear attention on the CPU: what rolling back costs, and how the time of a row grows with the context.
//!
//! `cargo bench --bench linear [-- rollback|growth] [SHAPE…]`, random weights in q8_0. By default both, over `qwen3.5-0.8b` and
//! `qwen3.5-4b`, and the growth of Qwen3-VL 2B and 4B beside them.
//!
//! * `rollback`: two sequences in turn verify six rows a step after 1,000 slots. One keeps half of them, so that its next step
//!   replays three rows and settles the state before it; the other one keeps all.
//! * `growth`: passes after 1,000, 10,000 and 50,000 slots in a model of one period of layers (four) and a small vocabulary; what
//!   is printed is the time in all layers of the shape, without the output matrix.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "no engine runs here")]
mod engine;

use std::{sync::Arc, time::Instant};

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    config::TextConfig,
    decoder::{Decoder, Sequence, Taps},
    shapes,
};
use specreel_record::median;
use specreel_tensor::{ComputeDevice, WeightType};

/// Layers after which the kinds of layers repeat.
const PERIOD: usize = 4;
/// Passes of each kind.
const ROUNDS: usize = 60;
/// Rows of a step, and how many of them stay after a rollback.
const STEP: [usize; 2] = [6, 3];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    engine::main(|| bench().map_err(|e| e.to_string()));
}

fn bench() -> Outcome<()> {
    // cargo adds options.
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let (kinds, names): (Vec<&str>, Vec<&str>) =
        args.iter().map(String::as_str).partition(|a| ["rollback", "growth"].contains(a));
    let wanted = |kind: &str| kinds.is_empty() || kinds.contains(&kind);
    let names = |default: &[&'static str]| if names.is_empty() { default.to_vec() } else { names.clone() };
    if wanted("rollback") {
        for name in names(&["qwen3.5-0.8b", "qwen3.5-4b"]) {
            println!("{name}: {}", rollback(shape(name)?)?);
        }
    }
    if wanted("growth") {
        for name in names(&["qwen3.5-0.8b", "qwen3-vl-2b", "qwen3.5-4b", "qwen3-vl-4b"]) {
            println!("{name}: {}", growth(shape(name)?)?);
        }
    }
    Ok(())
}

fn shape(name: &str) -> Outcome<TextConfig> {
    Ok(shapes::find(name).ok_or_else(|| format!("unknown shape `{name}`"))?)
}

fn load(config: &TextConfig) -> Outcome<Arc<Decoder>> {
    let device = ComputeDevice::cpu(WeightType::Q8_0);
    Ok(Arc::new(Decoder::load(&Checkpoint::random(), config, &device, &mut |_, _| {})?))
}

fn ids(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 7 % 1024).collect()
}

/// A sequence that has read so many tokens, with room for some more.
fn read(decoder: &Arc<Decoder>, slots: usize) -> Outcome<Sequence> {
    let mut sequence = Sequence::new(decoder.clone(), slots + 1024);
    for chunk in ids(slots).chunks(decoder.chunk()) {
        sequence.feed(chunk, &Taps::default())?;
    }
    sequence.mark();
    Ok(sequence)
}

/// Milliseconds of one pass and its logits.
fn pass(sequence: &mut Sequence, rows: usize) -> Outcome<f64> {
    let started = Instant::now();
    let pass = sequence.feed(&ids(rows), &Taps::default())?;
    std::hint::black_box(sequence.logits(&pass.states)?);
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn rollback(config: TextConfig) -> Outcome<String> {
    const SLOTS: usize = 1000;
    let decoder = load(&config)?;
    let mut sequences = [read(&decoder, SLOTS)?, read(&decoder, SLOTS)?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (kind, sequence) in sequences.iter_mut().enumerate() {
            let ms = pass(sequence, STEP[0])?;
            // The first step after the return to the mark has nothing to replay.
            if round % 10 > 0 {
                times[kind].push(ms);
            }
            let len = sequence.len();
            match (round % 10 == 9, kind) {
                (true, _) => sequence.truncate(SLOTS),
                (false, 0) => sequence.truncate(len - STEP[0] + STEP[1]),
                _ => {}
            }
        }
    }
    let mut shares: Vec<f64> =
        times[0].iter().zip(&times[1]).map(|(back, on)| (back - on) / back * 100.0).collect();
    shares.sort_by(f64::total_cmp);
    let quarter = |part: usize| shares[shares.len() * part / 4];
    let [back, on] = times.map(|times| median(times).unwrap_or_default());
    Ok(format!(
        "a step of {} rows {back:.1} ms after a rollback, {on:.1} ms without one; the rollback is {:.1} % of its step \
         (quartiles {:.1} to {:.1} %)",
        STEP[0],
        quarter(2),
        quarter(1),
        quarter(3)
    ))
}

fn growth(mut config: TextConfig) -> Outcome<String> {
    let scale = config.layers as f64 / PERIOD as f64;
    (config.layers, config.vocab) = (PERIOD, 1024);
    let decoder = load(&config)?;
    let mut words = Vec::new();
    for slots in [1000, 10_000, 50_000] {
        let started = Instant::now();
        let mut sequence = read(&decoder, slots)?;
        let prompt = started.elapsed().as_secs_f64();
        let mut line = format!("{slots} slots: prompt {:.1} s", prompt * scale);
        for rows in [1, 6, 11] {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                times.push(pass(&mut sequence, rows)?);
                sequence.truncate(slots);
            }
            line += &format!(", {rows} rows {:.1} ms", median(times).unwrap_or_default() * scale);
        }
        words.push(line + &format!(", cache {:.0} MB", sequence.bytes() as f64 * scale / 1e6));
    }
    Ok(words.join("; "))
}
