//! Logits that stay on a GPU until it is known what is needed of them.

use std::sync::{Arc, Mutex};

use super::{LogitNeeds, LogitRow, RowFacts, RowSummary};
use crate::gpu::{
    Result, Rows,
    context::lock,
    logits::{self, Facts, MOST, Scratch},
    states::{GpuRows, SharedStream},
};

/// Logits of some rows on a GPU. Cloning shares them.
#[derive(Clone, Debug)]
pub struct GpuLogits {
    rows: GpuRows,
    scratch: Arc<Mutex<Scratch>>,
}

impl From<Facts> for RowFacts {
    fn from(facts: Facts) -> Self {
        let Facts { argmax, max, log_sum, top3, .. } = facts;
        Self { argmax, max, log_sum, top3 }
    }
}

impl GpuLogits {
    /// Logits, and buffers to extract from them.
    pub fn new(rows: GpuRows, scratch: &Arc<Mutex<Scratch>>) -> Self {
        Self { rows, scratch: scratch.clone() }
    }

    /// Number of rows, and of logits of a row.
    pub fn shape(&self) -> (usize, usize) {
        self.rows.shape()
    }

    /// All values, row by row: submits and waits.
    pub fn read(&self) -> Result<Vec<f32>> {
        self.rows.read()
    }

    /// What is needed of each row, of which the first `vocab` logits count: submits and waits once. None if that takes all values.
    pub fn extract(&self, needs: &LogitNeeds, vocab: usize) -> Result<Option<Vec<LogitRow<'static>>>> {
        if needs.whole || needs.top > MOST {
            return Ok(None);
        }
        let stream: &SharedStream = self.rows.stream();
        let (count, width) = self.rows.shape();
        let (memory, _) = self.rows.place_for(stream)?;
        let rows = Rows::of(memory.clone(), count, width);
        let exists = |id: &&u32| (**id as usize) < vocab;
        let at = (0u32..).zip(&needs.ids).take(count);
        let at: Vec<[u32; 2]> =
            at.flat_map(|(row, ids)| ids.iter().filter(exists).map(move |&id| [row, id])).collect();
        let mut scratch = lock(&self.scratch);
        let (facts, top, picked) =
            logits::extract(&mut stream.lock(), &rows, vocab, needs.top, &at, &mut scratch)?;
        let mut picked = picked.into_iter();
        let summary = |(row, (facts, top)): (usize, (Facts, _))| {
            let ids = needs.ids.get(row).map_or(&[][..], Vec::as_slice);
            let known = ids.iter().map(|&id| {
                let outside = f32::NEG_INFINITY;
                (id, if exists(&&id) { picked.next().unwrap_or(outside) } else { outside })
            });
            LogitRow::Summary(RowSummary { known: known.collect(), facts: facts.into(), top })
        };
        Ok(Some(facts.into_iter().zip(top).enumerate().map(summary).collect()))
    }
}
