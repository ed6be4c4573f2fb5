//! The cache of one sequence: keys and values of the layers with full attention, states of those with linear attention.

use std::ops::Range;

use specreel_tensor::Result;

use super::Mask;
use specreel_tensor::{
    cache::DeviceCache,
    ops::Ops,
    recurrent::{Plan, RecurrentStates, Track},
};

/// The cache of one sequence on a device.
pub struct HybridCache<D: Ops> {
    /// Of the layers with full attention.
    pub(super) attention: D::Cache,
    recurrence: Option<Recurrence<D::Recurrent>>,
}

/// The states of the layers with linear attention.
struct Recurrence<R> {
    track: Track,
    /// Rows that the states have seen, minus slots: some slots of a longer cache were gathered, or slots of others appended.
    ahead: isize,
    states: R,
}

/// What a pass does to the recurrent states.
pub(super) struct Recurring {
    pub(super) plan: Plan,
    /// The row before which the pass begins, or the paths of its tree.
    base: usize,
    rows: usize,
}

impl<D: Ops> HybridCache<D> {
    /// A cache of layers with full attention only.
    pub fn new(attention: D::Cache) -> Self {
        Self { attention, recurrence: None }
    }

    /// The same with the states of layers with linear attention.
    pub(super) fn with_states(self, states: D::Recurrent) -> Self {
        Self { recurrence: Some(Recurrence { track: Track::default(), ahead: 0, states }), ..self }
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.attention.len()
    }

    /// Number of layers with full attention, key heads and values of a head.
    pub(super) fn layout(&self) -> [usize; 3] {
        self.attention.layout()
    }

    /// Allocated bytes.
    pub(super) fn bytes(&self) -> usize {
        self.attention.bytes() + self.recurrence.as_ref().map_or(0, |found| found.states.bytes())
    }

    /// See [`super::Cache::growth`].
    pub(super) fn growth(&self, more: usize) -> usize {
        self.attention.growth(more)
    }

    /// See [`super::Cache::truncate`].
    pub(super) fn truncate(&mut self, len: usize) {
        self.attention.truncate(len);
        if let Some(found) = &mut self.recurrence {
            found.track.truncate(found.row(len));
        }
    }

    /// See [`super::Cache::keep`].
    pub(super) fn keep(&mut self, base: usize, rows: &[usize]) {
        self.attention.keep(base, rows);
        if let Some(found) = &mut self.recurrence {
            found.track.keep(found.row(base), rows);
        }
    }

    /// See [`super::Cache::owed`].
    pub(super) fn owed(&self) -> usize {
        let rows = |found: &Recurrence<D::Recurrent>| found.row(self.len()).saturating_sub(found.track.len());
        self.recurrence.as_ref().map_or(0, rows)
    }

    /// See [`super::Cache::mark`].
    pub(super) fn mark(&mut self) {
        if let Some(found) = &mut self.recurrence
            && let Some((from, to)) = found.track.mark()
        {
            found.states.copy(from, to);
        }
    }

    /// The cache of the first layers: `attention` of them with full attention, `linear` with linear attention.
    pub(super) fn first_layers(&self, attention: usize, linear: usize) -> Self {
        let recurrence = self.recurrence.as_ref().map(|found| found.first_layers(linear, 0));
        Self { attention: self.attention.first_layers(attention), recurrence }
    }

    /// See [`super::Cache::gather`].
    pub(super) fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        let recurrence = self
            .recurrence
            .as_ref()
            .map(|found| found.first_layers(usize::MAX, self.len() as isize - len as isize));
        Self { attention: self.attention.gather(len, capacity, kept), recurrence }
    }

    /// See [`super::Cache::append`].
    pub(super) fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()> {
        if let Some(theirs) = &other.recurrence {
            let (from_start, end) = (self.len() == 0 && range.start == 0, range.end);
            if !from_start && (end != other.len() || other.owed() > 0) {
                specreel_tensor::bail!(
                    "cannot append slots up to {end} of {}: their recurrent states are not kept",
                    other.len()
                );
            }
            self.attention.append(&other.attention, range)?;
            let own = match &mut self.recurrence {
                Some(own) => {
                    own.take(theirs);
                    own
                }
                none => none.insert(theirs.first_layers(usize::MAX, 0)),
            };
            if from_start {
                own.track.truncate(theirs.row(end));
            } else {
                own.ahead = own.track.len() as isize - self.attention.len() as isize;
            }
            return Ok(());
        }
        self.attention.append(&other.attention, range)
    }

    /// Plan a pass.
    /// Errors: if a tree branches off where the recurrent state is not kept.
    pub(super) fn plan(&self, rows: usize, mask: &Mask) -> Result<Option<Recurring>> {
        let Some(found) = &self.recurrence else { return Ok(None) };
        if self.owed() > 0 {
            specreel_tensor::bail!("the recurrent state after slot {} is not kept", self.len());
        }
        let (base, paths) = match mask {
            Mask::Causal => (found.track.len(), None),
            Mask::Paths { shared, paths } => (found.row(*shared), Some(&paths[..])),
        };
        match found.track.plan(rows, base, paths) {
            Some(plan) => Ok(Some(Recurring { plan, base, rows })),
            None => specreel_tensor::bail!("the recurrent state after slot {base} is not kept"),
        }
    }

    pub(super) fn states(&mut self) -> Option<&mut D::Recurrent> {
        self.recurrence.as_mut().map(|found| &mut found.states)
    }

    /// Count the rows of a pass.
    pub(super) fn advance(&mut self, recurring: Option<&Recurring>) {
        if let (Some(found), Some(Recurring { plan, base, rows })) = (&mut self.recurrence, recurring)
            && let Some((from, to)) = found.track.advance(*rows, *base, plan)
        {
            found.states.copy(from, to);
        }
    }
}

impl<R: RecurrentStates> Recurrence<R> {
    /// The row of a slot.
    fn row(&self, slot: usize) -> usize {
        slot.saturating_add_signed(self.ahead)
    }

    /// Become a copy of `other`.
    fn take(&mut self, other: &Self) {
        self.states.take(&other.states, &other.track.banks_unlike(&self.track));
        (self.track, self.ahead) = (other.track.clone(), other.ahead);
    }

    fn first_layers(&self, layers: usize, ahead: isize) -> Self {
        Self {
            track: self.track.clone(),
            ahead: self.ahead + ahead,
            states: self.states.first_layers(layers),
        }
    }
}
