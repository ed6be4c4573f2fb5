//! Which recurrent states a sequence keeps, so that it can be rolled back: the same bookkeeping for every device.
//!
//! Keys and values are rolled back by forgetting slots. A recurrent state has seen all rows before it and cannot forget, so a
//! device keeps a few states ([`Bank`]s) and a log of the additions of the rows after the settled one: row by row the normed key,
//! the update, the decay and the row under the convolution. Any logged slot is restored by replaying its rows onto the settled
//! state, in the arithmetic of the first time, so that the result is the same bit for bit.
//!
//! A pass settles the state before it as soon as rows were rolled back, since decoding never returns to before a verified token.
//! Slots that a sequence does return to, the end of a prompt and the last rows before it, are marked.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicU64, Ordering},
};

/// A pass of more rows than this is not logged: a part of a prompt, whose end is kept instead.
pub const LOGGED: usize = 32;
/// Logged rows from which the state is settled without a rollback.
const FULL: usize = 64;
/// Slots that can be marked.
const MARKS: usize = 2;

/// A state that a device keeps for every layer, with the rows under the convolution that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bank {
    /// The state at which the log begins.
    Settled,
    /// The state after the last row.
    Current,
    /// A state that was marked.
    Mark(usize),
}

impl Bank {
    /// Number of banks.
    pub(crate) const COUNT: usize = 2 + MARKS;

    pub fn index(self) -> usize {
        match self {
            Bank::Settled => 0,
            Bank::Current => 1,
            Bank::Mark(number) => 2 + number,
        }
    }
}

/// The states of one sequence in all layers with linear attention; the [module docs](self) describe the banks.
pub trait RecurrentStates: Send + Sized {
    fn bytes(&self) -> usize;

    /// Copy the states of a bank, in all layers. On an accelerator an error is reported by the next pass.
    fn copy(&mut self, from: Bank, to: Bank);

    /// The states of the first `layers` layers, or of all if there are fewer, copied. On an accelerator an error is reported by the
    /// next pass.
    fn first_layers(&self, layers: usize) -> Self;

    /// Copy the log and these banks of a sequence of the same model; the other banks hold what it has there, or nothing of use. On
    /// an accelerator an error is reported by the next pass.
    fn take(&mut self, other: &Self, _banks: &[Bank]) {
        *self = other.first_layers(usize::MAX);
    }
}

/// What a pass does to the recurrent states of every layer.
///
/// It starts with the state of a bank and replays logged rows onto it; that is the state before the pass. Every row continues from
/// the state of the row before it, or replays its ancestors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePlan {
    /// The bank to start with; `None` for the state of an empty sequence, all zeros.
    pub from: Option<Bank>,
    /// Places in the log of the rows between that state and the pass.
    pub replayed: Vec<usize>,
    /// Store the state before the pass as settled.
    pub(crate) settles: bool,
    /// For each row of a tree, the places of its ancestors after the state before the pass; `None` for a chain.
    pub ancestors: Option<Vec<Vec<usize>>>,
    /// Places in the log of the new rows; `None` if they are not logged.
    pub places: Option<Vec<usize>>,
    /// Store the state after the last row as current.
    pub ends: bool,
}

impl StatePlan {
    /// Places that the log must have.
    pub fn log(&self) -> usize {
        self.places.iter().flatten().map(|place| place + 1).max().unwrap_or(0)
    }
}

/// A pass through the states of one layer.
#[derive(Debug)]
pub struct RecurrentPass<'a, S> {
    /// What it does to them.
    pub plan: &'a StatePlan,
    /// The states of all layers with linear attention.
    pub states: &'a mut S,
    /// The layer's number among these.
    pub layer: usize,
}

/// The states that one sequence keeps, by the number of rows that they have seen.
#[derive(Clone, Debug)]
pub struct Track {
    /// Rows that the sequence has read.
    len: usize,
    /// Rows that the settled state has seen, 0 for zeros; `None` if that bank holds nothing of use.
    settled: Option<usize>,
    /// Places of the rows from the settled one on.
    log: Vec<usize>,
    /// Rows that the current state has seen.
    current: Option<usize>,
    /// Rows that the marked states have seen, and when they were marked or used last.
    marks: [Option<(usize, u64)>; MARKS],
    /// Rows after which the state is to be marked by the next pass: no bank holds it, but it follows from the log.
    pending: Option<usize>,
    /// Rows were rolled back, so the remaining ones are final.
    rolled_back: bool,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            len: 0,
            settled: Some(0),
            log: Vec::new(),
            current: None,
            marks: [None; MARKS],
            pending: None,
            rolled_back: false,
        }
    }
}

impl Track {
    /// Rows that the sequence has read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The banks in use, except those that hold the same marked state for `other`.
    pub fn banks_unlike(&self, other: &Self) -> Vec<Bank> {
        let settled = self.settled.filter(|rows| *rows > 0).map(|_| Bank::Settled);
        let current = self.current.map(|_| Bank::Current);
        let differs =
            |number: &usize| self.marks[*number].is_some() && self.marks[*number] != other.marks[*number];
        settled.into_iter().chain(current).chain((0..MARKS).filter(differs).map(Bank::Mark)).collect()
    }

    /// The rows whose states the log restores: from the settled one to the last logged one.
    fn logged(&self) -> Option<RangeInclusive<usize>> {
        self.settled.map(|first| first..=first + self.log.len())
    }

    /// The largest number of rows up to `len` after which the state can be restored.
    pub fn reach(&self, len: usize) -> usize {
        let len = len.min(self.len);
        let logged =
            self.logged().filter(|logged| *logged.start() <= len).map(|logged| len.min(*logged.end()));
        let marks = self.marks.iter().flatten().map(|mark| mark.0);
        marks.chain(self.current).filter(|rows| *rows <= len).chain(logged).max().unwrap_or(0)
    }

    /// Drop all rows from `len` on, and as many more as cannot be restored. Returns the number of rows left.
    pub fn truncate(&mut self, len: usize) -> usize {
        if len >= self.len {
            return self.len;
        }
        self.rolled_back = true;
        self.len = self.reach(len);
        match self.settled {
            _ if self.len == 0 => (self.settled, self.log) = (Some(0), Vec::new()),
            Some(settled) if settled <= self.len => self.log.truncate(self.len - settled),
            _ => (self.settled, self.log) = (None, Vec::new()),
        }
        let len = self.len;
        self.current = self.current.filter(|rows| *rows <= len);
        self.pending = self.pending.filter(|rows| *rows <= len);
        for mark in &mut self.marks {
            *mark = mark.filter(|(rows, _)| *rows <= len);
        }
        len
    }

    /// Of the rows from `base` on, keep `base + rows[0], base + rows[1], …` (ascending), a path of a tree. Returns the number of
    /// rows left: fewer if some that move are not logged.
    pub fn keep(&mut self, base: usize, rows: &[usize]) -> usize {
        let fixed = rows.iter().enumerate().take_while(|(at, row)| at == *row).count();
        let moved = &rows[fixed..];
        let place = |row: &usize| self.log.get((base + row).checked_sub(self.settled?)?).copied();
        let places: Option<Vec<usize>> = moved.iter().map(place).collect();
        match places {
            Some(places) if !places.is_empty() && self.settled.is_some_and(|at| at <= base + fixed) => {
                self.truncate(base + fixed);
                self.log.extend(places);
                self.len += moved.len();
                self.len
            }
            _ => self.truncate(base + fixed),
        }
    }

    /// The bank with the state after the last row, if it is in one.
    fn standing(&self) -> Option<Bank> {
        if self.current == Some(self.len) {
            return Some(Bank::Current);
        }
        let here = |mark: &Option<(usize, u64)>| mark.is_some_and(|(rows, _)| rows == self.len);
        self.marks.iter().position(here).map(Bank::Mark)
    }

    /// Mark the last row, in place of the oldest mark. Returns the banks to copy from and to; `None` if the row is marked already,
    /// or will be by the next pass, which replays what leads to it.
    pub fn mark(&mut self) -> Option<(Bank, Bank)> {
        let len = self.len;
        if let Some(mark) = self.marks.iter_mut().flatten().find(|mark| mark.0 == len) {
            mark.1 = now();
            return None;
        }
        let settled = (len > 0 && self.settled == Some(len)).then_some(Bank::Settled);
        match self.standing().or(settled) {
            Some(from) => Some((from, self.oldest_mark(len)?)),
            None => {
                self.pending = (len > 0).then_some(len);
                None
            }
        }
    }

    /// The bank of the oldest mark, which now marks `rows` rows.
    fn oldest_mark(&mut self, rows: usize) -> Option<Bank> {
        let oldest = (0..MARKS).min_by_key(|&number| self.marks[number].map_or(0, |mark| mark.1))?;
        self.marks[oldest] = Some((rows, now()));
        Some(Bank::Mark(oldest))
    }

    /// What a pass of `rows` does, which [`Track::advance`] then counts. `base` is the row at which a tree's paths begin, for a
    /// chain the last one. `None` if the state at `base` cannot be restored.
    pub fn plan(&self, rows: usize, base: usize, paths: Option<&[Vec<usize>]>) -> Option<StatePlan> {
        let standing = if base == self.len { self.standing() } else { None };
        let logged = self.logged().filter(|logged| logged.contains(&base));
        let before = logged.as_ref().map_or(0, |logged| base - logged.start());
        let (from, replayed) = match (standing, &logged) {
            (Some(bank), _) => (Some(bank), Vec::new()),
            (None, Some(logged)) => {
                ((*logged.start() > 0).then_some(Bank::Settled), self.log[..before].to_vec())
            }
            (None, None) => return None,
        };
        let long = paths.is_none() && rows > LOGGED;
        let full = paths.is_none() && self.log.len() + rows > FULL;
        let wanted = self.rolled_back || self.pending == Some(base);
        let settles = logged.is_none() || before > 0 && (wanted || full || long);
        let places: Option<Vec<usize>> = (!long).then(|| {
            let used = if logged.is_some() { &self.log[..] } else { &[] };
            (0..).filter(|place| !used.contains(place)).take(rows).collect()
        });
        let ancestors = |places: &Vec<usize>| {
            let place = |at: &usize| match (base + at).checked_sub(self.len) {
                Some(row) => places.get(row).copied(),
                None => self.log.get(before + at).copied(),
            };
            let of = |path: &Vec<usize>| path.iter().rev().skip(1).rev().map(place).collect();
            paths.unwrap_or_default().iter().map(of).collect::<Option<Vec<Vec<usize>>>>()
        };
        let ancestors = match (paths, &places) {
            (Some(_), Some(places)) => Some(ancestors(places)?),
            _ => None,
        };
        Some(StatePlan { from, replayed, settles, ancestors, places, ends: paths.is_none() })
    }

    /// Count the rows of a planned pass. Returns the banks to copy from and to, if a mark waited for it.
    pub fn advance(&mut self, rows: usize, base: usize, plan: &StatePlan) -> Option<(Bank, Bank)> {
        if plan.settles {
            let before = self.settled.and_then(|settled| base.checked_sub(settled));
            let before = before.filter(|before| *before <= self.log.len());
            self.log = before.map_or_else(Vec::new, |before| self.log.split_off(before));
            self.settled = Some(base);
        }
        self.len += rows;
        match &plan.places {
            Some(places) => self.log.extend(places),
            // The log has a gap after the settled state, which the current one bridges.
            None => self.log.clear(),
        }
        if plan.ends {
            self.current = Some(self.len);
        }
        self.rolled_back = false;
        let marked = self.pending.take_if(|rows| plan.settles && *rows == base)?;
        Some((Bank::Settled, self.oldest_mark(marked)?))
    }
}

/// A number that no other mark of the process has: marks of two sequences that are equal are copies of one state.
fn now() -> u64 {
    static MARKED: AtomicU64 = AtomicU64::new(1);
    MARKED.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
