//! Logits that stay on a GPU until their needed values are known.

use std::{
    cell::OnceCell,
    sync::{Arc, Mutex},
};

use super::{LogitNeeds, LogitRow, RowFacts, RowSummary};
use crate::gpu::{
    Result, Rows, lock,
    logits::{self, Extract, Facts, MOST, Scratch, Wanted},
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

    /// Call `f` with the requested values of each row, of which the first `vocab` logits count: submits and waits once. Facts are the
    /// device's, so that a probability has the same bits regardless of what else is read of its row.
    ///
    /// # Errors
    /// If the device is lost, or memory is missing.
    pub fn extract<T>(
        &self,
        needs: &LogitNeeds,
        vocab: usize,
        f: impl FnOnce(Vec<LogitRow<'_>>) -> T,
    ) -> Result<T> {
        let stream: &SharedStream = self.rows.stream();
        let (count, width) = self.rows.shape();
        let (memory, _) = self.rows.place_for(stream)?;
        let rows = Rows::of(memory.clone(), count, width);
        let mut scratch = lock(&self.scratch);
        if needs.whole || needs.top > MOST {
            let all = Wanted { all: true, ..Wanted::default() };
            let Extract { facts, values, .. } =
                logits::extract(&mut stream.lock(), &rows, vocab, all, &mut scratch)?;
            let mut facts = facts.into_iter().map(RowFacts::from);
            let row = |row: usize| {
                let values = values.get(row * width..row * width + vocab).unwrap_or_default();
                LogitRow::Whole(values.into(), facts.next().map(OnceCell::from).unwrap_or_default())
            };
            return Ok(f((0..count).map(row).collect()));
        }
        let exists = |id: &&u32| (**id as usize) < vocab;
        let at = (0u32..).zip(&needs.ids).take(count);
        let at: Vec<[u32; 2]> =
            at.flat_map(|(row, ids)| ids.iter().filter(exists).map(move |&id| [row, id])).collect();
        let wanted = Wanted { top: needs.top, at: &at, all: false };
        let Extract { facts, top, picked, .. } =
            logits::extract(&mut stream.lock(), &rows, vocab, wanted, &mut scratch)?;
        let mut picked = picked.into_iter();
        let summary = |(row, (facts, top)): (usize, (Facts, _))| {
            let ids = needs.ids.get(row).map_or(&[][..], Vec::as_slice);
            let known = ids.iter().map(|&id| {
                let outside = f32::NEG_INFINITY;
                (id, if exists(&&id) { picked.next().unwrap_or(outside) } else { outside })
            });
            LogitRow::Summary(RowSummary { known: known.collect(), facts: facts.into(), top })
        };
        Ok(f(facts.into_iter().zip(top).enumerate().map(summary).collect()))
    }
}
