//! Logits, and what acceptance needs of them: whole rows where the CPU has them or a method asks for them, else the few values
//! that a device extracts.

#[cfg_attr(not(feature = "gpu"), path = "logits/absent.rs")]
mod on_gpu;

use std::{borrow::Cow, cell::OnceCell};

use crate::{Error, Result, candle::states::CandleRows, cpu::kernels, states::HostRows};

pub use on_gpu::GpuLogits;

#[derive(Clone, Debug, PartialEq)]
pub struct RowFacts {
    /// The most likely id (lowest where tied).
    pub argmax: u32,
    /// Logit of that id.
    pub max: f32,
    /// log Σ exp(logit).
    pub log_sum: f32,
    /// The three largest logits, descending.
    pub top3: [f32; 3],
}

impl RowFacts {
    /// Facts about `logits`. An empty row is a row of one impossible token.
    pub fn of(logits: &[f32]) -> Self {
        let top3 = kernels::largest3(logits);
        let argmax = kernels::position(logits, top3[0]).unwrap_or(0) as u32;
        let max = top3[0];
        let sum = kernels::sum_exp(logits, max);
        Self { argmax, max, log_sum: max + sum.ln() as f32, top3 }
    }

    /// Natural-log probability of a logit of this row.
    pub fn log_probability(&self, logit: f32) -> f32 {
        logit - self.log_sum
    }

    /// Entropy over the three largest probabilities, not renormalized, in nats (FLy's code).
    pub fn entropy_top3(&self) -> f32 {
        self.top3
            .iter()
            .filter(|l| l.is_finite())
            .map(|l| {
                let log_p = l - self.log_sum;
                -log_p.exp() * log_p
            })
            .sum()
    }
}

/// The id of the largest logit, the lowest where tied.
pub fn argmax(logits: &[f32]) -> u32 {
    kernels::position(logits, kernels::largest3(logits)[0]).unwrap_or(0) as u32
}

/// The logit of an id; minus infinity outside of the vocabulary.
fn logit(logits: &[f32], id: u32) -> f32 {
    logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY)
}

/// The `count` largest logits with their ids, best first, lowest id first where tied.
fn largest(logits: &[f32], count: usize) -> Vec<(u32, f32)> {
    let count = count.min(logits.len());
    if count == 0 {
        return Vec::new();
    }
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let by = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if count < order.len() {
        order.select_nth_unstable_by(count - 1, by);
        order.truncate(count);
    }
    order.sort_unstable_by(by);
    order.into_iter().map(|id| (id, logits[id as usize])).collect()
}

/// The `count` most likely ids of a whole row with natural-log probabilities, best first, lowest id first where tied.
pub fn top_log_probabilities(logits: &[f32], facts: &RowFacts, count: usize) -> Vec<(u32, f32)> {
    largest(logits, count).into_iter().map(|(id, logit)| (id, facts.log_probability(logit))).collect()
}

/// What is needed of rows of logits. A device may give more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogitNeeds {
    /// Only the first logits count: a checkpoint's table is padded beyond its tokenizer's ids.
    pub vocab: usize,
    /// All values.
    pub whole: bool,
    /// The number of most likely ids.
    pub top: usize,
    /// For each row, ids whose logits are needed; empty if none are.
    pub ids: Vec<Vec<u32>>,
}

/// The extract of one row that a device computed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSummary {
    pub facts: RowFacts,
    /// The most likely ids with their logits, best first, lowest id first where tied.
    pub top: Vec<(u32, f32)>,
    /// The logits of the requested ids.
    pub known: Vec<(u32, f32)>,
}

/// One row of logits without its padding.
#[derive(Debug)]
pub enum LogitRow<'a> {
    /// All values; facts are computed on first use.
    Whole(Cow<'a, [f32]>, OnceCell<RowFacts>),
    /// What was requested.
    Summary(RowSummary),
}

impl<'a> LogitRow<'a> {
    /// A row of which all values are known.
    pub fn whole(logits: &'a [f32]) -> Self {
        Self::Whole(logits.into(), OnceCell::new())
    }

    pub fn facts(&self) -> &RowFacts {
        match self {
            Self::Whole(logits, facts) => facts.get_or_init(|| RowFacts::of(logits)),
            Self::Summary(summary) => &summary.facts,
        }
    }

    /// The most likely id (lowest where tied).
    pub fn argmax(&self) -> u32 {
        match self {
            Self::Whole(logits, _) => argmax(logits),
            Self::Summary(summary) => summary.facts.argmax,
        }
    }

    /// The logit of an id; minus infinity outside of the vocabulary. Fails if the row is a summary for which the id was not
    /// requested.
    pub fn logit(&self, id: u32) -> Result<f32> {
        match self {
            Self::Whole(logits, _) => Ok(logit(logits, id)),
            Self::Summary(summary) if id == summary.facts.argmax => Ok(summary.facts.max),
            Self::Summary(summary) => {
                let known = summary.known.iter().chain(&summary.top).find(|known| known.0 == id);
                let unknown = || Error::Message(format!("the logit of id {id} was not requested"));
                known.map(|known| known.1).ok_or_else(unknown)
            }
        }
    }

    /// The `count` most likely ids with natural-log probabilities, best first, lowest id first where tied. At most as many as
    /// were requested.
    pub fn top(&self, count: usize) -> Vec<(u32, f32)> {
        match self {
            Self::Whole(..) if count == 0 => Vec::new(),
            Self::Whole(logits, _) => top_log_probabilities(logits, self.facts(), count),
            Self::Summary(summary) => {
                let top = summary.top.iter().take(count);
                top.map(|&(id, logit)| (id, summary.facts.log_probability(logit))).collect()
            }
        }
    }

    /// The row without the values that were not requested, in memory of its own.
    pub fn extract(self, needs: &LogitNeeds, row: usize) -> LogitRow<'static> {
        let (logits, facts) = match self {
            Self::Whole(logits, facts) => (logits, facts),
            Self::Summary(summary) => return LogitRow::Summary(summary),
        };
        if needs.whole {
            return LogitRow::Whole(logits.into_owned().into(), facts);
        }
        let ids = needs.ids.get(row).map_or(&[][..], Vec::as_slice);
        LogitRow::Summary(RowSummary {
            facts: facts.into_inner().unwrap_or_else(|| RowFacts::of(&logits)),
            top: largest(&logits, needs.top),
            known: ids.iter().map(|&id| (id, logit(&logits, id))).collect(),
        })
    }

    /// All values. Fails if they were not requested.
    pub fn values(&self) -> Result<&[f32]> {
        match self {
            Self::Whole(logits, _) => Ok(logits),
            Self::Summary(_) => Err(Error::Message("the logits of a row were not requested".into())),
        }
    }
}

/// The first `vocab` logits of each row of `width`.
fn whole_rows(logits: &[f32], width: usize, vocab: usize) -> Vec<LogitRow<'_>> {
    logits.chunks_exact(width.max(1)).map(|row| LogitRow::whole(&row[..vocab])).collect()
}

/// Logits of some rows, `rows × vocab`, on the device that computed them.
#[derive(Clone, Debug)]
pub enum Logits {
    /// On the CPU.
    Host(HostRows),
    /// On a GPU through wgpu.
    Gpu(GpuLogits),
    /// On an accelerator in candle's tensors.
    Candle(CandleRows),
}

impl Logits {
    /// Number of rows, and of logits of a row, padding included.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::Host(rows) => rows.shape(),
            Self::Gpu(logits) => logits.shape(),
            Self::Candle(rows) => rows.shape(),
        }
    }

    /// The rows `start..start + count`, which share the values. Fails if there are fewer rows, or they are on a GPU through wgpu.
    pub fn narrow(&self, start: usize, count: usize) -> Result<Self> {
        if start.saturating_add(count) > self.shape().0 {
            crate::bail!("no rows {start}+{count} of {} rows of logits", self.shape().0);
        }
        match self {
            Self::Host(rows) => Ok(Self::Host(rows.narrow(start, count))),
            Self::Candle(rows) => rows.narrow(start, count).map(Self::Candle),
            Self::Gpu(_) => crate::bail!("rows of logits are taken on the CPU only"),
        }
    }

    /// `cap · tanh(logit / cap)` of all logits. Fails if they are on an accelerator.
    pub fn capped(self, cap: f32) -> Result<Self> {
        match self {
            Self::Host(rows) => {
                let values = rows.values().iter().map(|logit| cap * (logit / cap).tanh()).collect();
                HostRows::new(values, rows.shape().1).map(Self::Host)
            }
            Self::Gpu(_) | Self::Candle(_) => crate::bail!("logits are bounded on the CPU only"),
        }
    }

    /// Call `f` with the requested values of all rows.
    pub fn read<T>(&self, needs: &LogitNeeds, f: impl FnOnce(Vec<LogitRow<'_>>) -> T) -> Result<T> {
        let width = self.shape().1;
        let vocab = needs.vocab.min(width);
        match self {
            Self::Host(rows) => Ok(f(whole_rows(rows.values(), width, vocab))),
            Self::Gpu(logits) => Ok(logits.extract(needs, vocab, f)?),
            Self::Candle(rows) => rows.with_values(|values| f(whole_rows(values, width, vocab))),
        }
    }

    /// All logits in host memory, row by row, padding included.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        match self {
            Self::Host(rows) => Ok(rows.values().to_vec()),
            Self::Gpu(logits) => Ok(logits.read()?),
            Self::Candle(rows) => rows.with_values(<[f32]>::to_vec),
        }
    }

    /// All rows in host memory, padding included.
    pub fn to_vec2(&self) -> Result<Vec<Vec<f32>>> {
        let width = self.shape().1.max(1);
        Ok(self.to_vec()?.chunks_exact(width).map(<[f32]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests;
