//! What this processor reaches: how fast its memory is read, and how fast matrices in its caches are multiplied.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::{
    builder::Builder,
    linear::{MatrixProduct, QuantizedRows},
    thread_pool::ThreadPool,
};
use crate::{Result, WeightType, store::SharedValues};

/// Bytes that are read: more than caches hold.
const BYTES: usize = 1 << 30;
/// Bytes of a unit of reading.
const PART: usize = 1 << 20;
/// A matrix that fits into the second-level cache, and as many rows as make the reading of weights negligible.
const OUTPUTS: usize = 256;
const INPUTS: usize = 1024;
const ROWS: usize = 96;
/// Repetitions, of which the fastest counts, and how long they take at least.
const REPEATS: usize = 5;
const AT_LEAST: Duration = Duration::from_millis(200);

/// Rates that no pass exceeds by much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes that all threads together read per second from memory.
    pub read: f64,
    /// Multiply-adds per second of all threads together, with weights and rows in the caches of each core.
    pub macs: f64,
}

impl Rates {
    /// Measure with matrices of a weight type, for a second or two. Fails if a product does.
    pub fn measure(dtype: WeightType) -> Result<Self> {
        Ok(Self { read: BYTES as f64 / fastest(read()), macs: macs(dtype)? })
    }
}

/// Values of both signs.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

/// The shortest time of a task in seconds.
fn fastest(mut task: impl FnMut()) -> f64 {
    let (begun, mut shortest, mut times) = (Instant::now(), f64::INFINITY, 0);
    while times < REPEATS || begun.elapsed() < AT_LEAST {
        let started = Instant::now();
        task();
        shortest = shortest.min(started.elapsed().as_secs_f64());
        times += 1;
    }
    shortest
}

/// Reads all memory of a buffer once.
fn read() -> impl FnMut() {
    let mut values = SharedValues::<u64>::zeros(BYTES / size_of::<u64>());
    // Before it is written, all of it is the same page.
    values.owned().fill(1);
    move || {
        let parts: Vec<&[u64]> = values.chunks(PART / size_of::<u64>()).collect();
        ThreadPool::global().run(parts.len(), &|part| {
            black_box(parts[part].iter().fold(0, |all, value| all ^ value));
        });
    }
}

fn macs(dtype: WeightType) -> Result<f64> {
    let pool = ThreadPool::global();
    let mut builder = Builder::new(OUTPUTS, INPUTS, dtype);
    if let Err(problem) = builder.push(&values(OUTPUTS * INPUTS)) {
        crate::bail!("{problem}");
    }
    let matrix = builder.finish(None).in_panels();
    let x = values(ROWS * INPUTS);
    let mut quantized = QuantizedRows::default();
    quantized.quantize(matrix.forms(), &x, ROWS);
    // Each unit has results of its own; there are several for each thread, so that they end at the same time.
    let units = 16 * pool.members();
    let mut y = vec![0f32; units * ROWS * OUTPUTS];
    let rows = y.chunks_exact_mut(ROWS * OUTPUTS);
    let products = rows.map(|y| MatrixProduct::new(&matrix, &x, &quantized, ROWS, y));
    let products: Vec<_> = products.collect::<Result<_>>()?;
    let seconds = fastest(|| pool.run(units, &|unit| products[unit].unit(&(0..OUTPUTS))));
    Ok((units * ROWS * OUTPUTS * INPUTS) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_measured_for_floats_and_blocks() {
        for dtype in [WeightType::F32, WeightType::Q8_0, WeightType::Q4K] {
            let rates = Rates::measure(dtype).unwrap();
            assert!(rates.read.is_finite() && rates.read > 1e8, "{rates:?}");
            assert!(rates.macs.is_finite() && rates.macs > 1e8, "{rates:?}");
        }
    }
}
