//! Facts about rows of logits that stay on a GPU: a few numbers of each row come back.

pub(crate) mod largest;

pub use self::largest::{MOST, largest};
use super::{Access, GpuError, Result, Rows, Stream, rows::filled};

/// Logits of a workgroup, as in `shaders/facts.wgsl`.
const BLOCK: usize = 4096;
/// Words of a row's facts.
const WORDS: usize = 8;

/// Facts about one row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The most likely id (lowest where tied).
    pub argmax: u32,
    /// Logit of that id.
    pub max: f32,
    /// log Σ exp(logit).
    pub log_sum: f32,
    /// The three largest logits, descending; negative infinity where there are fewer.
    pub top3: [f32; 3],
    /// Entropy of the distribution, in nats.
    pub entropy: f32,
}

/// Buffers of the functions of this module, kept between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    parts: Rows,
    facts: Rows,
    pub(super) sorted: [Rows; 2],
    small: Rows,
}

/// A kernel's source, and what both kernels of facts know of the three largest values.
fn with_top3(source: &str) -> String {
    [source, include_str!("shaders/top3.wgsl")].concat()
}

/// Record the facts of all rows of `logits`, of which the first `vocab` count.
fn record_facts(
    stream: &mut Stream,
    logits: &Rows,
    vocab: usize,
    parts: &mut Rows,
    facts: &mut Rows,
) -> Result<()> {
    use Access::{Read, Write};
    let gpu = stream.gpu().clone();
    let (rows, vocab) = (logits.rows(), vocab.min(logits.width()));
    let blocks = vocab.div_ceil(BLOCK).max(1);
    let first =
        gpu.kernel("facts", &|| with_top3(include_str!("shaders/facts.wgsl")), &[Read, Write], &[])?;
    let second = gpu.kernel(
        "facts of a row",
        &|| with_top3(include_str!("shaders/facts_row.wgsl")),
        &[Read, Write],
        &[],
    )?;
    let parts = parts.reserve(&gpu, rows * blocks, WORDS)?;
    let facts = facts.reserve(&gpu, rows, WORDS)?;
    let params = [vocab as u32, logits.width() as u32, blocks as u32, 0];
    stream.dispatch(&first, &params, &[filled(logits)?, parts], [blocks as u32, rows as u32, 1])?;
    stream.dispatch(&second, &[blocks as u32, 0, 0, 0], &[parts, facts], [rows as u32, 1, 1])
}

/// The values to read from all rows, besides their facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// How many of the largest logits of each row, at most [`MOST`].
    pub top: usize,
    /// Single logits, as pairs of row and column.
    pub at: &'a [[u32; 2]],
    /// All values, padding included.
    pub all: bool,
}

/// What [`extract`] reads.
#[derive(Debug, Default, PartialEq)]
pub struct Extract {
    /// Facts about each row; empty if no logit counts.
    pub facts: Vec<Facts>,
    /// The largest logits of each row with their ids.
    pub top: Vec<Vec<(u32, f32)>>,
    /// The single logits.
    pub picked: Vec<f32>,
    /// All values, row by row; empty unless they were wanted.
    pub values: Vec<f32>,
}

/// Facts about every row of `logits`, of which the first `vocab` count, and what else is wanted. Waits once for all.
///
/// # Errors
/// If a single logit does not exist, memory is missing, or the device is lost.
pub fn extract(
    stream: &mut Stream,
    logits: &Rows,
    vocab: usize,
    wanted: Wanted<'_>,
    scratch: &mut Scratch,
) -> Result<Extract> {
    let (rows, Wanted { top, at, all }) = (logits.rows(), wanted);
    if rows == 0 || vocab == 0 {
        return Ok(Extract { top: vec![Vec::new(); rows], ..Extract::default() });
    }
    let Scratch { parts, facts, .. } = scratch;
    record_facts(stream, logits, vocab, parts, facts)?;
    if top > 0 {
        largest::record(stream, logits, vocab, top, &mut scratch.sorted)?;
    }
    if !at.is_empty() {
        record_picks(stream, logits, at, &mut scratch.small)?;
    }
    let mut ranges = vec![(filled(&scratch.facts)?, 0, (rows * WORDS * 4) as u64)];
    if top > 0 {
        ranges.push((filled(&scratch.sorted[1])?, 0, (rows * top * 8) as u64));
    }
    if !at.is_empty() {
        ranges.push((filled(&scratch.small)?, 0, at.len() as u64 * 4));
    }
    if all {
        ranges.push((filled(logits)?, 0, (rows * logits.width() * 4) as u64));
    }
    let mut read = stream.read_all(&ranges)?.into_iter();
    let mut next = |is_read: bool| if is_read { read.next().unwrap_or_default() } else { Vec::new() };
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&next(true));
    let facts = words.chunks_exact(WORDS).map(|words| Facts::from_words(words, vocab)).collect();
    let largest = match top {
        0 => vec![Vec::new(); rows],
        _ => largest::pairs(&bytemuck::pod_collect_to_vec(&next(true)), top),
    };
    let picked = bytemuck::pod_collect_to_vec(&next(!at.is_empty()));
    Ok(Extract { facts, top: largest, picked, values: bytemuck::pod_collect_to_vec(&next(all)) })
}

impl Facts {
    fn from_words(words: &[u32], vocab: usize) -> Self {
        let value = |i: usize| f32::from_bits(words[i]);
        let top = |i: usize| if i < vocab { value(i) } else { f32::NEG_INFINITY };
        let log = f64::from(value(4)).ln();
        Self {
            argmax: if vocab == 0 { 0 } else { words[3] },
            max: top(0),
            log_sum: (f64::from(top(0)) + log) as f32,
            top3: [top(0), top(1), top(2)],
            entropy: if vocab == 0 { 0.0 } else { (log - f64::from(value(5)) / f64::from(value(4))) as f32 },
        }
    }
}

/// Record single values: `x[row][column]` for each pair of `at`. Fails if a value does not exist, or memory is missing.
fn record_picks(stream: &mut Stream, x: &Rows, at: &[[u32; 2]], out: &mut Rows) -> Result<()> {
    use Access::{Read, Write};
    if at.iter().any(|[row, column]| *row as usize >= x.rows() || *column as usize >= x.width()) {
        return Err(GpuError::Invalid("a value outside of the rows is asked for".into()));
    }
    let gpu = stream.gpu().clone();
    let kernel =
        gpu.kernel("pick", &|| include_str!("shaders/pick.wgsl").into(), &[Read, Read, Write], &[])?;
    let picks = gpu.upload(bytemuck::cast_slice(at))?;
    let out = out.reserve(&gpu, 1, at.len())?;
    let params = [at.len() as u32, x.width() as u32, 0, 0];
    stream.dispatch(&kernel, &params, &[filled(x)?, &picks, out], [at.len().div_ceil(64) as u32, 1, 1])
}

#[cfg(test)]
mod tests;
