//! Long prompts on the CPU: the time of a prefill, attention's part in it, the time of a pass after it, and what rolling back
//! costs.
//!
//! `cargo bench -p specreel-lab --bench long [-- SHAPE… SLOTS… f32 f16 q8_0]`; by default `qwen2.5-vl-3b` after 1,000, 4,000 and 10,000 slots, with
//! all types of keys and values. The model has one period of the shape's layers (four), a small vocabulary and random weights in
//! q8_0; what is printed is the time in all layers of the shape, without the output matrix.
//!
//! `cargo bench -p specreel-lab --bench long -- attention [SHAPE] [SLOTS…] [f32 f16 q8_0]`, by default `qwen3-vl-2b` after 1,000 to 100,000 slots:
//! attention alone, in one layer on random keys and values. For the last chunk of a prompt of that length the multiply-adds per second;
//! for one row after it the time, and the time that it takes to read as many bytes as its keys and values have, in turn.
//!
//! `cargo bench -p specreel-lab --bench long -- rollback [SHAPE…]`, by default `qwen3.5-0.8b` and `qwen3.5-4b`: two sequences of whole models in turn
//! verify six rows a step after 1,000 slots. One keeps half of them, so that its next step replays three rows and settles the
//! state before it; the other one keeps all.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "no engine runs here")]
mod engine;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    config::TextConfig,
    decoder::{Decoder, Sequence, Taps},
    mac_count, shapes,
};
use specreel_record::median;
use specreel_tensor::{
    ComputeDevice, Importance, KvType, WeightType,
    attention::{AttentionShape, Mask},
    cache::DeviceCache,
    cpu::thread_pool::ThreadPool,
    fused::FusedMatrix,
    ops::{CpuOps, DecoderOps, Input, Out, PassSpec},
    states::States,
};

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
    let (mut names, mut lengths, mut kinds, mut part) = (Vec::new(), Vec::new(), Vec::new(), None);
    // cargo adds options.
    for arg in std::env::args().skip(1).filter(|arg| !arg.starts_with("--")) {
        if ["attention", "rollback"].contains(&arg.as_str()) {
            part = Some(arg);
        } else if shapes::names().contains(&arg.as_str()) {
            names.push(arg);
        } else if let Ok(slots) = arg.parse() {
            lengths.push(slots);
        } else {
            kinds.push(arg.parse()?);
        }
    }
    let named = |default: &[&str]| match names.is_empty() {
        true => default.iter().map(|name| (*name).to_owned()).collect(),
        false => names.clone(),
    };
    if part.as_deref() == Some("rollback") {
        for name in named(&["qwen3.5-0.8b", "qwen3.5-4b"]) {
            println!("{name}: {}", rollback(&shape(&name)?)?);
        }
        return Ok(());
    }
    if kinds.is_empty() {
        kinds = KvType::ALL.to_vec();
    }
    if part.is_some() {
        if lengths.is_empty() {
            lengths = vec![1000, 2000, 4000, 8000, 16_000, 32_000, 50_000, 100_000];
        }
        lengths.sort_unstable();
        for name in named(&["qwen3-vl-2b"]) {
            for &kind in &kinds {
                attention(&name, &shape(&name)?, kind, &lengths)?;
            }
        }
        return Ok(());
    }
    if lengths.is_empty() {
        lengths = vec![1000, 4000, 10_000];
    }
    for name in named(&["qwen2.5-vl-3b"]) {
        let mut config = shape(&name)?;
        let scale = config.layers as f64 / PERIOD as f64;
        (config.layers, config.vocab) = (PERIOD, 1024);
        for &kind in &kinds {
            let decoder = load(&config, kind)?;
            for &slots in &lengths {
                print!("{name}, {slots:>6} slots, {:>4}: ", kind.name());
                println!("{}", measure(&decoder, slots, scale)?);
            }
        }
    }
    Ok(())
}

fn shape(name: &str) -> Outcome<TextConfig> {
    Ok(shapes::find(name).ok_or_else(|| format!("unknown shape `{name}`"))?)
}

fn load(config: &TextConfig, kind: KvType) -> Outcome<Arc<Decoder>> {
    let device = ComputeDevice::cpu(WeightType::Q8_0).with_kv_type(kind).map_err(|f| f.error)?;
    Ok(Arc::new(Decoder::load(&Checkpoint::random(), config, &device, &mut |_, _| {})?))
}

fn ids(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 7 % 1024).collect()
}

/// Read so many tokens, chunk by chunk; the seconds that it takes.
fn read(sequence: &mut Sequence, tokens: usize) -> Outcome<f64> {
    let started = Instant::now();
    for chunk in ids(tokens).chunks(sequence.decoder().chunk()) {
        sequence.feed(chunk, &Taps::default())?;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Milliseconds of one pass and its logits.
fn pass(sequence: &mut Sequence, rows: usize) -> Outcome<f64> {
    let started = Instant::now();
    let pass = sequence.feed(&ids(rows), &Taps::default())?;
    std::hint::black_box(sequence.logits(&pass.states)?);
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Prefill and passes over so many slots, in words.
fn measure(decoder: &Arc<Decoder>, slots: usize, scale: f64) -> Outcome<String> {
    let mut sequence = Sequence::new(decoder.clone(), slots + 64);
    // The first chunk hardly attends: its time is spent in the products.
    let first = decoder.chunk().min(slots);
    let mut firsts = Vec::new();
    for _ in 0..9 {
        firsts.push(read(&mut sequence, first)?);
        sequence.truncate(0);
    }
    let products = median(firsts).unwrap_or_default() * slots as f64 / first as f64;
    let whole = read(&mut sequence, slots)?;
    sequence.mark();
    let attention = (whole - products).max(0.0);
    let macs = mac_count::prompt(decoder.config(), 0, slots).attention;
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
            times.push(pass(&mut sequence, rows)?);
            sequence.truncate(slots);
        }
        words += &format!(", {rows} rows {:.1} ms", median(times).unwrap_or_default() * scale);
    }
    Ok(words + &format!(", cache {:.0} MB", sequence.bytes() as f64 * scale / 1e6))
}

/// What a step takes longer after a rollback, in words.
fn rollback(config: &TextConfig) -> Outcome<String> {
    const SLOTS: usize = 1000;
    let decoder = load(config, KvType::Auto)?;
    let mut sequences = [0, 1].map(|_| Sequence::new(decoder.clone(), SLOTS + 1024));
    for sequence in &mut sequences {
        read(sequence, SLOTS)?;
        sequence.mark();
    }
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

/// Seconds of the median of some calls.
fn seconds(calls: usize, call: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..calls {
        let started = Instant::now();
        call()?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(median(times).unwrap_or_default())
}

/// Attention after so many slots (ascending), in one layer; prints a line for each.
fn attention(name: &str, config: &TextConfig, kind: KvType, lengths: &[usize]) -> Outcome<()> {
    let (heads, kv_heads, d) = (config.heads, config.kv_heads, config.head_dim);
    let shape = AttentionShape { heads, kv_heads, head_dim: d };
    let (width, ops) = ((heads + 2 * kv_heads) * d, CpuOps::new(WeightType::F32, kind));
    // Loading rows takes an embedding table, which these rows do not need.
    let tensors = vec![("table".to_owned(), 1)];
    let head = FusedMatrix { tensors, inputs: 32, bias: false, importance: Importance::Usual };
    let (table, _) = ops.embeddings("table", &head, true, &Checkpoint::random())?;
    let (mut work, mut qkv, mut out) = Default::default();
    let mut cache = ops.cache(1, shape, *lengths.last().ok_or("no slots")?);
    let (chunk, mut seed) = (ops.chunk(), 1u64);
    let buffer = vec![1u64; cache.bytes() / 8];
    for &slots in lengths {
        let mut store = |rows: usize, qkv: &mut _, cache: &mut _| -> Outcome<PassSpec<'static>> {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            };
            let rows_of = States::new((0..rows * width).map(|_| 2.0 * next()).collect(), width)?;
            let (cos, sin) = (vec![1.0; rows * d / 2], vec![0.0; rows * d / 2]);
            let mask = &Mask::Causal;
            let pass =
                PassSpec { first: 0, rows, layers: 1, shape, cos, sin, mask, window: None, probe: None };
            ops.begin(&mut work, &pass, cache)?;
            ops.load(&mut work, &table, Input::States(&rows_of), qkv)?;
            ops.store(&mut work, &pass, qkv, None, cache, 0)?;
            Ok(pass)
        };
        while cache.len() + chunk < slots {
            let rows = chunk.min(slots - chunk - cache.len());
            store(rows, &mut qkv, &mut cache)?;
            cache.advance(rows);
        }
        let rows = chunk.min(slots - cache.len());
        let passes = [store(rows, &mut qkv, &mut cache)?];
        let mut work = Default::default();
        let mut attend = |pass: &PassSpec<'_>, qkv: &_, cache: &_| {
            let (passes, out) = (std::slice::from_ref(pass), Out { rows: &mut out, next: None });
            Ok(ops.attend(&mut work, passes, qkv, &|_| cache, 0, out)?)
        };
        let prompt = seconds(5, &mut || attend(&passes[0], &qkv, &cache))?;
        cache.advance(rows);
        let pairs = (cache.len() as f64 - (rows as f64 - 1.0) / 2.0) * rows as f64;
        let rate = pairs * (2 * heads * d) as f64 / prompt / 1e9;
        let pass = store(1, &mut qkv, &mut cache)?;
        let (bytes, reads) = (cache.bytes() / cache.capacity() * slots, 11);
        let (mut row, mut read) = (Vec::new(), Vec::new());
        for _ in 0..reads {
            row.push(seconds(1, &mut || attend(&pass, &qkv, &cache))?);
            read.push(seconds(1, &mut || {
                sum(&buffer[..bytes / 8]);
                Ok(())
            })?);
        }
        let [row, read] = [row, read].map(|times| median(times).unwrap_or_default());
        println!(
            "{name}, {slots:>6} slots, {:>4}: prompt {rate:.0} GMAC/s, one row {:.3} ms, {:.2} of reading {:.1} MB ({:.1} GB/s); \
             cache {:.0} MB in all layers",
            kind.name(),
            row * 1e3,
            row / read,
            bytes as f64 / 1e6,
            bytes as f64 / read / 1e9,
            (bytes * config.attention_layers()) as f64 / 1e6,
        );
    }
    Ok(())
}

/// Read all values on all threads.
fn sum(values: &[u64]) {
    let (pool, total) = (ThreadPool::global(), AtomicU64::new(0));
    let parts = 8 * pool.members();
    let length = values.len().div_ceil(parts);
    pool.run(parts, &|part| {
        let sum =
            values.chunks(length).nth(part).into_iter().flatten().fold(0u64, |sum, v| sum.wrapping_add(*v));
        total.fetch_add(sum, Ordering::Relaxed);
    });
    std::hint::black_box(total);
}
