//! What a GPU reaches: how fast it reads and multiplies at most, what a command costs, and how its kernels compare.
//!
//! Times are measured on the host, from a submission to its end. In each submission, a kernel runs several
//! times.

use std::time::{Duration, Instant};

use super::{
    Access, Buffer, Gpu, GpuError, Result, Rows, Stream,
    attention::{Attention, Visible},
    cache::Cache,
    matrix::load::Loader,
    products::{
        input::Scratch,
        source::{Setting, source},
    },
};
use crate::{
    KvType, TensorType,
    attention::{AttentionShape, Mask},
};

/// Invocations of the kernels that measure a rate.
const INVOCATIONS: u32 = 256 * 1024;
/// Commands of the submission that measures what one costs.
const COMMANDS: usize = 500;
/// A submission is repeated for this long, and at least [`REPEATS`] times.
const AT_LEAST: Duration = Duration::from_millis(200);
const REPEATS: usize = 5;

/// Rates that no kernel can exceed, and the costs of commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes read per second.
    pub read: f64,
    /// Bytes copied per second, each counted once.
    pub copied: f64,
    /// Fused multiply-adds of f32 per second.
    pub f32_macs: f64,
    /// Multiply-adds of 8-bit integers per second.
    pub int8_macs: f64,
    /// Seconds that a kernel takes at least, among others.
    pub command_s: f64,
    /// Seconds from a submission of one kernel until its result is read.
    pub round_trip_s: f64,
}

/// The time of one kernel, with what is recorded only for it (its inputs are quantized, its parts are put together).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    /// Median of the repetitions in seconds.
    pub seconds: f64,
    /// The fastest and the slowest.
    pub range: [f64; 2],
    /// Bytes of weights, or of keys and values, that it reads.
    pub bytes: u64,
    /// Its multiply-adds.
    pub macs: u64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes that rates of memory are measured with; weights, keys and values are repeated to as many. More than the device's
    /// caches hold.
    pub bytes: u64,
    /// Rounds of the kernels that measure multiplications.
    pub rounds: u32,
}

impl Extent {
    /// Enough for this device: for a card far more than its caches hold, little for a driver that computes on the CPU.
    pub fn of(gpu: &Gpu) -> Self {
        let limits = gpu.limits();
        let most = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        match gpu.is_software() {
            true => Self { bytes: 64 << 20, rounds: 16 },
            false => Self { bytes: (512 << 20).min(most / 256 * 256), rounds: 1024 },
        }
    }
}

/// Measure the rates. Fails if memory is missing, or the device is lost.
pub fn rates(gpu: &Gpu, extent: Extent) -> Result<Rates> {
    let mut stream = gpu.stream();
    let (from, to) = (noise(gpu, extent.bytes)?, gpu.buffer(extent.bytes)?);
    let sums = gpu.buffer(u64::from(INVOCATIONS) * 4)?;
    let groups = [INVOCATIONS / 256, 1, 1];
    let written = |text: &'static str| move || source(&[text], Setting::default());
    let multiply = [Access::Write];

    let text = include_str!("shaders/measure_read.wgsl");
    let kernel = gpu.kernel("measure reading", &written(text), &[Access::Read, Access::Write], &[])?;
    let params = [(extent.bytes / 16) as u32, INVOCATIONS, 0, 0];
    let read = timed(&mut stream, |stream| stream.dispatch(&kernel, &params, &[&from, &sums], groups))?;
    let copied = timed(&mut stream, |stream| stream.copy(&from, 0, &to, 0, extent.bytes))?;

    let text = include_str!("shaders/measure_fused.wgsl");
    let kernel = gpu.kernel("measure f32", &written(text), &multiply, &[])?;
    let params = [extent.rounds, 0.5f32.to_bits(), 0, 0];
    let fused = timed(&mut stream, |stream| stream.dispatch(&kernel, &params, &[&sums], groups))?;
    let text = include_str!("shaders/measure_packed.wgsl");
    let kernel = gpu.kernel("measure 8-bit integers", &written(text), &multiply, &[])?;
    let params = [extent.rounds, 0x0102_0304, 0, 0];
    let packed = timed(&mut stream, |stream| stream.dispatch(&kernel, &params, &[&sums], groups))?;

    let text = include_str!("shaders/measure_nothing.wgsl");
    let kernel = gpu.kernel("measure a command", &written(text), &multiply, &[])?;
    let params = [1u32, 0, 0, 0, 0, 0, 0, 0];
    let mut nothing = |count: usize| {
        timed(&mut stream, |stream| {
            (0..count).try_for_each(|_| stream.dispatch(&kernel, &params, &[&sums], [1, 1, 1]))
        })
    };
    let (one, many) = (nothing(1)?, nothing(COMMANDS)?);
    let mut trips = Vec::new();
    for _ in 0..=REPEATS {
        let begun = Instant::now();
        stream.dispatch(&kernel, &params, &[&sums], [1, 1, 1])?;
        stream.read(&sums, 0, 4)?;
        trips.push(begun.elapsed().as_secs_f64());
    }
    trips.sort_by(f64::total_cmp);

    let per_s = |count: f64, times: &[f64]| count / middle(times);
    let chains = f64::from(INVOCATIONS) * f64::from(extent.rounds);
    Ok(Rates {
        read: per_s(extent.bytes as f64, &read),
        copied: per_s(extent.bytes as f64, &copied),
        f32_macs: per_s(chains * 32.0, &fused),
        int8_macs: per_s(chains * 64.0, &packed),
        command_s: (middle(&many) - middle(&one)).max(0.0) / (COMMANDS - 1) as f64,
        round_trip_s: middle(&trips),
    })
}

/// The product of `rows` rows with `outputs × inputs` weights of a type. Fails if the inputs are not whole blocks of the type, memory
/// is missing, or the device is lost.
pub fn product(
    gpu: &Gpu,
    extent: Extent,
    kind: TensorType,
    [outputs, inputs]: [usize; 2],
    rows: usize,
) -> Result<KernelTime> {
    let (block, name) = (kind.block(), kind.name());
    if !inputs.is_multiple_of(block) {
        return Err(GpuError::Invalid(format!(
            "{inputs} inputs in {name}: a multiple of {block} is expected"
        )));
    }
    let limit = gpu.limits().max_storage_buffer_binding_size;
    let make = || -> Result<_> {
        let matrix = Loader::new(gpu, &[(kind, outputs)], inputs, limit)?.finish(None)?;
        for array in matrix.pieces.iter().flat_map(|piece| &piece.arrays) {
            gpu.write(array, 0, &bytes(array.bytes()))?;
        }
        Ok(matrix)
    };
    let first = make()?;
    let copies = (extent.bytes / first.bytes().max(1)).clamp(1, 32) as usize;
    let mut all = vec![first];
    for _ in 1..copies {
        all.push(make()?);
    }
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let x = Rows::upload(gpu, &super::noise::noise(1, rows * inputs), inputs)?;
    let mut y = Rows::default();
    let times = timed(&mut stream, |stream| {
        all.iter().try_for_each(|matrix| matrix.forward(stream, &x, rows, &mut y, &mut scratch))
    })?;
    Ok(KernelTime::new(&times, copies, all[0].bytes(), (outputs * inputs * rows) as u64))
}

/// Attention of the last `rows` of `slots` tokens to a cache of a type. Fails as [`product`], and for a shape that no kernel
/// computes.
pub fn attention(
    gpu: &Gpu,
    extent: Extent,
    shape: AttentionShape,
    kind: KvType,
    slots: usize,
    rows: usize,
) -> Result<KernelTime> {
    let AttentionShape { heads, kv_heads, head_dim } = shape;
    let layer = (slots * kv_heads * 2 * kind.head_bytes(head_dim)) as u64;
    let layers = (extent.bytes / layer.max(1)).clamp(1, 32) as usize;
    let mut stream = gpu.stream();
    let mut attention = Attention::new(gpu, shape, kind)?;
    let mut cache = Cache::new(gpu, layers, kv_heads, head_dim, slots + rows, kind);
    cache.prepare(&mut stream, slots + rows)?;
    for layer in 0..layers {
        let layer = cache.layer(layer)?;
        for array in [&layer.keys, &layer.values] {
            gpu.write(array, 0, &bytes(array.bytes()))?;
        }
    }
    attention.begin(&mut stream, Visible::new(&Mask::Causal, slots - rows.min(slots), rows))?;
    let width = (heads + 2 * kv_heads) * head_dim;
    let qkv = Rows::upload(gpu, &super::noise::noise(2, rows * width), width)?;
    let mut out = Rows::default();
    let times = timed(&mut stream, |stream| {
        (0..layers).try_for_each(|layer| attention.attend(stream, &qkv, &cache, layer, &mut out, None))
    })?;
    Ok(KernelTime::new(&times, layers, layer, (2 * rows * slots * heads * head_dim) as u64))
}

impl KernelTime {
    /// Of a kernel that ran `count` times in each of these times.
    fn new(times: &[f64], count: usize, bytes: u64, macs: u64) -> Self {
        let each = |seconds: f64| seconds / count as f64;
        let range = [times[0], times[times.len() - 1]].map(each);
        Self { seconds: each(middle(times)), range, bytes, macs }
    }
}

/// Seconds of what `record` records, submitted alone: once to warm up, then repeatedly; ascending, at least one.
fn timed(stream: &mut Stream, mut record: impl FnMut(&mut Stream) -> Result<()>) -> Result<Vec<f64>> {
    record(stream)?;
    stream.wait()?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.len() < REPEATS || (begun.elapsed() < AT_LEAST && times.len() < 100) {
        let begun = Instant::now();
        record(stream)?;
        stream.wait()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The median of ascending times.
fn middle(times: &[f64]) -> f64 {
    times[times.len() / 2]
}

fn noise(gpu: &Gpu, count: u64) -> Result<Buffer> {
    let buffer = gpu.buffer(count)?;
    gpu.write(&buffer, 0, &bytes(count))?;
    Ok(buffer)
}

/// Bytes that look random and are small positive numbers, whichever type is read.
fn bytes(count: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9u32;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        0x20 | (state >> 8) as u8 & 0x1f
    };
    (0..count).map(byte).collect()
}

#[cfg(test)]
mod tests;
