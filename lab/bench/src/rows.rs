//! T(rows): the time of a pass by its number of rows, which decides whether speculation pays.
//!
//! Verifying K draft tokens is a pass of K + 1 rows. If it costs little more than a pass of one row (bound by reading the
//! weights), verification is nearly free; if it costs K + 1 times as much (bound by arithmetic), no lossless method can win.
//! [`time`] measures it, [`Work`] relates it to memory bandwidth and arithmetic throughput.

use std::time::{Duration, Instant};

use super::*;
use specreel_model::{
    config::TextConfig,
    decoder::{Sequence, States, Taps},
    draft_head::DraftHead,
    mac_count,
};
use specreel_record::median;
use specreel_tensor::Result;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Rounds that are run but not measured.
    pub warm_up: usize,
    /// Measured rounds; each times every number of rows once, so that all see the same disturbances.
    pub rounds: usize,
    /// No new round begins after this time, but at least one is measured.
    pub at_most: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self { warm_up: 3, rounds: 60, at_most: Duration::from_secs(30) }
    }
}

/// Times of passes over one context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Prefill of the context, in milliseconds: once, from a cold start.
    pub fill_ms: f64,
    /// Passes, in the requested order.
    pub passes: Vec<PassTime>,
}

/// Median time of one pass and of the logits of all its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassTime {
    pub rows: usize,
    /// Median, in milliseconds.
    pub ms: f64,
    /// Of a mixture of experts: how many experts of a layer some row took, on average over its layers.
    pub experts: Option<f64>,
}

/// Time passes of each number of rows over a context of `slots` tokens, and the prefill of that context. With a draft head, its
/// projection is part of each pass. `None` if `progress` (rounds done, rounds in total) breaks. Fails if a tensor operation
/// fails.
pub fn time(
    decoder: &Arc<Decoder>,
    layer: Option<&DraftHead>,
    slots: usize,
    rows: &[usize],
    effort: Effort,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<Times>> {
    let most = rows.iter().copied().max().unwrap_or(0);
    let vocab = decoder.config().vocab.max(1);
    let ids: Vec<u32> = (0..slots.max(most)).map(|i| (i % vocab.min(200)) as u32).collect();
    let mut sequence = Sequence::new(decoder.clone(), slots + most);
    let width = decoder.config().hidden;
    let states = vec![0.5; decoder.chunk().max(most) * width];
    let feed = |sequence: &mut Sequence, ids: &[u32]| match layer {
        None => sequence.feed(ids, &Taps::default()),
        Some(layer) => {
            let before = States::new(states[..ids.len() * width].to_vec(), width)?;
            let input = layer.fuse_for(sequence, ids, &before)?;
            sequence.feed_input(&input, &Taps::default())
        }
    };
    let all = effort.warm_up + effort.rounds.max(1);
    let begun = Instant::now();
    for chunk in ids[..slots].chunks(decoder.chunk()) {
        if progress(0, all).is_break() {
            return Ok(None);
        }
        feed(&mut sequence, chunk)?;
        // Work queued on an accelerator must neither pile up nor be left out of the time.
        sequence.synchronize()?;
    }
    let fill_ms = begun.elapsed().as_secs_f64() * 1e3;
    let mut times = vec![Vec::new(); rows.len()];
    let mut experts = vec![None; rows.len()];
    let begun = Instant::now();
    for round in 0..all {
        if round > effort.warm_up && begun.elapsed() > effort.at_most {
            break;
        }
        for ((times, experts), &rows) in times.iter_mut().zip(&mut experts).zip(rows) {
            if progress(round, all).is_break() {
                return Ok(None);
            }
            let started = Instant::now();
            let pass = feed(&mut sequence, &ids[..rows])?;
            sequence.logits(&pass.states)?;
            sequence.synchronize()?;
            let ms = started.elapsed().as_secs_f64() * 1e3;
            sequence.truncate(slots);
            let read = &pass.experts_read;
            *experts = (!read.is_empty()).then(|| read.iter().sum::<usize>() as f64 / read.len() as f64);
            if round >= effort.warm_up {
                times.push(ms);
            }
        }
    }
    let medians = times.into_iter().map(|times| median(times).unwrap_or_default());
    let passes = rows.iter().zip(medians).zip(experts);
    let passes = passes.map(|((&rows, ms), experts)| PassTime { rows, ms, experts }).collect();
    Ok(Some(Times { fill_ms, passes }))
}

/// The memory traffic and arithmetic of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes of the matrices that the pass reads, each once.
    pub weight_bytes: usize,
    /// Bytes of keys and values, each read once.
    pub cache_bytes: usize,
    /// Multiply-adds.
    pub macs: u64,
}

impl Work {
    /// The work of a pass of `rows` rows, and of their logits, over a context of `slots` tokens.
    pub fn of(decoder: &Decoder, slots: usize, rows: usize) -> Work {
        Work {
            weight_bytes: decoder.pass_bytes(rows),
            cache_bytes: decoder.cache_bytes(slots + rows),
            macs: macs(decoder.config(), slots, rows),
        }
    }

    /// Memory read, in GB/s, if the pass takes `ms`.
    pub fn gigabytes_per_second(&self, ms: f64) -> f64 {
        (self.weight_bytes + self.cache_bytes) as f64 / (ms * 1e6)
    }

    /// Throughput in 10⁹ multiply-adds per second, if the pass takes `ms`.
    pub fn gigamacs_per_second(&self, ms: f64) -> f64 {
        self.macs as f64 / (ms * 1e6)
    }
}

/// Multiply-adds of matrices, head and attention; norms and rotations are negligible.
fn macs(c: &TextConfig, slots: usize, rows: usize) -> u64 {
    (mac_count::prompt(c, slots, rows).total() + rows as f64 * mac_count::logits(c)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::{family::VideoLlm, shapes};
    use specreel_tensor::WeightType;

    fn config() -> TextConfig {
        TextConfig {
            hidden: 4,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            head_dim: 2,
            intermediate: 8,
            vocab: 10,
            ..shapes::find("tiny").unwrap()
        }
    }

    #[test]
    fn work_equals_a_count_by_hand() {
        // A layer: q, k, v 4 x 8, output 4 x 4, three of 4 x 8; head 4 x 10.
        let row = 2 * (32 + 16 + 96) + 40;
        // A row that sees n slots: 2 layers, scores and values, 4 wide.
        assert_eq!(macs(&config(), 0, 1), row + 2 * 2 * 4);
        assert_eq!(macs(&config(), 5, 3), 3 * row + 2 * 2 * 4 * (6 + 7 + 8));
        let work = Work { weight_bytes: 900_000, cache_bytes: 100_000, macs: 3_000_000 };
        assert_eq!((work.gigabytes_per_second(0.5), work.gigamacs_per_second(0.5)), (2.0, 6.0));
    }

    fn decoder() -> Arc<Decoder> {
        let dir =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parity/fixtures/gqa_tied");
        VideoLlm::load(&dir, WeightType::Q8_0, &mut |_, _| {}).unwrap().decoder().clone()
    }

    const SHORT: Effort = Effort { warm_up: 1, rounds: 2, at_most: Duration::ZERO };

    #[test]
    fn every_number_of_rows_is_timed_in_order() {
        let decoder = decoder();
        let mut rounds = Vec::new();
        let times = time(&decoder, None, 5, &[3, 1, 40], SHORT, &mut |done, _| {
            rounds.push(done);
            ControlFlow::Continue(())
        });
        let Times { fill_ms, passes: times } = times.unwrap().unwrap();
        assert!(fill_ms > 0.0);
        assert_eq!(times.iter().map(|t| t.rows).collect::<Vec<_>>(), [3, 1, 40]);
        assert!(times.iter().all(|t| t.ms > 0.0));
        // The context, the warm-up and one measured round: the time limit allows no more.
        assert_eq!(rounds, [0, 0, 0, 0, 1, 1, 1]);
        let work = Work::of(&decoder, 5, 1);
        let c = decoder.config();
        assert_eq!(work.cache_bytes, c.layers * 2 * c.kv_heads * c.head_dim * 6 * size_of::<f32>());
        assert!(work.weight_bytes > 0 && work.weight_bytes < decoder.bytes());
    }

    #[test]
    fn progress_can_stop_it() {
        let mut calls = 0;
        let times = time(&decoder(), None, 300, &[1], SHORT, &mut |_, _| {
            calls += 1;
            if calls > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((times.unwrap(), calls), (None, 3));
    }
}
