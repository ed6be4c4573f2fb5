//! What was fed to a sequence, so that it can be fed again.

use std::ops::Range;

use specreel_tensor::Result;

use super::{Input, Positions, States};

/// The rows of all slots, and their positions.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    rows: Vec<Fed>,
    positions: [Vec<u32>; 3],
    /// The blocks of rows that were no ids.
    blocks: Vec<States>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fed {
    Id(u32),
    Row { block: usize, row: usize },
}

/// Rows to feed.
pub(super) enum Again {
    Ids(Vec<u32>),
    Rows(States),
}

impl Again {
    pub(super) fn input(&self) -> Input<'_> {
        match self {
            Self::Ids(ids) => Input::Ids(ids),
            Self::Rows(rows) => Input::States(rows),
        }
    }
}

impl History {
    pub(super) fn bytes(&self) -> usize {
        let of = |block: &States| block.shape().0 * block.shape().1 * size_of::<f32>();
        self.blocks.iter().map(of).sum()
    }

    /// Record the rows that are fed next.
    pub(super) fn record(&mut self, input: Input<'_>, positions: &Positions) {
        match input {
            Input::Ids(ids) => self.rows.extend(ids.iter().copied().map(Fed::Id)),
            Input::States(states) => return self.record_rows(states, positions),
        }
        self.record_positions(positions);
    }

    /// As [`History::record`], for rows.
    pub(super) fn record_rows(&mut self, states: &States, positions: &Positions) {
        let block = self.blocks.len();
        self.blocks.push(states.clone());
        self.rows.extend((0..states.rows()).map(|row| Fed::Row { block, row }));
        self.record_positions(positions);
    }

    fn record_positions(&mut self, positions: &Positions) {
        for (axis, more) in self.positions.iter_mut().zip(&positions.axes) {
            axis.extend(more);
        }
    }

    /// Forget all slots from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
        self.positions.iter_mut().for_each(|axis| axis.truncate(len));
        let used = self.rows.iter().rev().find_map(|fed| match fed {
            Fed::Row { block, .. } => Some(block + 1),
            Fed::Id(_) => None,
        });
        self.blocks.truncate(used.unwrap_or(0));
    }

    /// Of the slots from `base` on, keep `base + rows[0], …`.
    pub(super) fn keep(&mut self, base: usize, rows: &[usize]) {
        for (to, row) in rows.iter().enumerate() {
            self.rows.swap(base + to, base + row);
            self.positions.iter_mut().for_each(|axis| axis.swap(base + to, base + row));
        }
        self.truncate(base + rows.len());
    }

    /// The rows of some slots from the first on, as many as were fed in the same form, with their positions.
    pub(super) fn rows(&self, slots: Range<usize>) -> Result<(Again, Positions)> {
        let all = self.rows.get(slots.clone()).unwrap_or_default();
        let again = match all.first() {
            Some(&Fed::Row { block, row: first }) => {
                let alike = |(at, fed): &(usize, &Fed)| **fed == Fed::Row { block, row: first + at };
                let count = all.iter().enumerate().take_while(alike).count();
                Again::Rows(self.blocks[block].narrow(first, count)?)
            }
            _ => {
                let ids = all.iter().map_while(|fed| match fed {
                    Fed::Id(id) => Some(*id),
                    Fed::Row { .. } => None,
                });
                Again::Ids(ids.collect())
            }
        };
        let count = again.input().rows();
        if count == 0 {
            specreel_tensor::bail!("the slots {slots:?} were not recorded");
        }
        let part = slots.start..slots.start + count;
        let axes = self.positions.each_ref().map(|axis| axis[part.clone()].to_vec());
        Ok((again, Positions { axes }))
    }
}
