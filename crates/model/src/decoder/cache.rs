//! The cache of one sequence: keys and values of the layers with full attention, states of those with linear attention.

use std::ops::Range;

use super::{Cache, Mask, dispatch::SequenceCache};
use crate::config::TextConfig;
use specreel_tensor::{
    Result,
    cache::DeviceCache,
    ops::DecoderOps,
    recurrent::{RecurrentStates, StatePlan, Track},
};

pub(super) struct HybridCache<D: DecoderOps> {
    /// Of the layers with full attention.
    pub(super) attention: D::Cache,
    /// Of the layers that attend within a window; as many slots.
    pub(super) sliding: Option<D::Cache>,
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
    pub(super) plan: StatePlan,
    /// The row before which the pass begins, or the paths of its tree.
    base: usize,
    rows: usize,
}

impl<D: DecoderOps> HybridCache<D> {
    /// A cache of layers with full attention only.
    pub(super) fn new(attention: D::Cache) -> Self {
        Self { attention, sliding: None, recurrence: None }
    }

    /// The same with keys and values of layers that attend within a window.
    pub(super) fn with_sliding(self, sliding: D::Cache) -> Self {
        Self { sliding: Some(sliding), ..self }
    }

    /// The same with the states of layers with linear attention.
    pub(super) fn with_states(self, states: D::Recurrent) -> Self {
        Self { recurrence: Some(Recurrence { track: Track::default(), ahead: 0, states }), ..self }
    }

    /// The keys and values of layers that attend within a window, or of those that see all slots.
    pub(super) fn of(&self, sliding: bool) -> &D::Cache {
        self.sliding.as_ref().filter(|_| sliding).unwrap_or(&self.attention)
    }

    /// As [`HybridCache::of`], to be changed.
    pub(super) fn of_mut(&mut self, sliding: bool) -> &mut D::Cache {
        self.sliding.as_mut().filter(|_| sliding).unwrap_or(&mut self.attention)
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

impl<D: DecoderOps> SequenceCache for HybridCache<D> {
    fn len(&self) -> usize {
        self.attention.len()
    }

    fn layout(&self) -> [usize; 3] {
        self.attention.layout()
    }

    fn bytes(&self) -> usize {
        let sliding = self.sliding.as_ref().map_or(0, DeviceCache::bytes);
        self.attention.bytes() + sliding + self.recurrence.as_ref().map_or(0, |found| found.states.bytes())
    }

    fn growth(&self, more: usize) -> usize {
        self.attention.growth(more) + self.sliding.as_ref().map_or(0, |sliding| sliding.growth(more))
    }

    fn truncate(&mut self, len: usize) {
        self.attention.truncate(len);
        self.sliding.iter_mut().for_each(|sliding| sliding.truncate(len));
        if let Some(found) = &mut self.recurrence {
            found.track.truncate(found.row(len));
        }
    }

    fn keep(&mut self, base: usize, rows: &[usize]) {
        let end = rows.last().map_or(base, |row| base + row + 1);
        let valid = end <= self.len() && rows.is_sorted_by(|a, b| a < b);
        assert!(valid, "cannot keep the slots {rows:?} after {base} of {}", self.len());
        self.attention.keep(base, rows);
        self.sliding.iter_mut().for_each(|sliding| sliding.keep(base, rows));
        if let Some(found) = &mut self.recurrence {
            found.track.keep(found.row(base), rows);
        }
    }

    fn owed(&self) -> usize {
        let rows = |found: &Recurrence<D::Recurrent>| found.row(self.len()).saturating_sub(found.track.len());
        self.recurrence.as_ref().map_or(0, rows)
    }

    fn mark(&mut self) {
        if let Some(found) = &mut self.recurrence
            && let Some((from, to)) = found.track.mark()
        {
            found.states.copy(from, to);
        }
    }

    fn first_layers(&self, config: &TextConfig) -> Cache {
        let attention = config.attention_layers();
        let linear = config.layers.saturating_sub(attention);
        let recurrence = self.recurrence.as_ref().map(|found| found.first_layers(linear, 0));
        let sliding = self.sliding.as_ref().map(|sliding| sliding.first_layers(config.sliding_layers()));
        Cache::new(Self { attention: self.attention.first_layers(attention), sliding, recurrence })
    }

    fn gather<'a>(&self, len: usize, capacity: usize, kept: &dyn Fn(usize, usize) -> &'a [usize]) -> Cache {
        // Before the cache is locked, as a GPU's is while its slots are copied.
        let used = self.len();
        let kept = |layer, head| {
            let slots = kept(layer, head);
            let valid = slots.len() == len && slots.iter().all(|&slot| slot < used);
            assert!(valid, "cannot gather the slots of layer {layer}, head {head}");
            slots
        };
        let recurrence = (self.recurrence.as_ref())
            .map(|found| found.first_layers(usize::MAX, used as isize - len as isize));
        // The lists are for the layers that see all slots: others keep the slots of the first of them.
        let sliding = self.sliding.as_ref().map(|sliding| sliding.gather(len, capacity, |_, _| kept(0, 0)));
        Cache::new(Self { attention: self.attention.gather(len, capacity, kept), sliding, recurrence })
    }

    fn append(&mut self, other: &Cache, range: Range<usize>) -> Result<()> {
        if self.layout() != other.layout() {
            specreel_tensor::bail!(
                "the caches are of different models: {:?}, {:?}",
                self.layout(),
                other.layout()
            );
        }
        if range.start > range.end || range.end > other.len() {
            specreel_tensor::bail!("cannot append the slots {range:?} of a cache of {} slots", other.len());
        }
        let Some(other) = other.on::<Self>() else {
            specreel_tensor::bail!("the caches are on different devices")
        };
        if let (Some(own), Some(theirs)) = (&mut self.sliding, &other.sliding) {
            own.append(theirs, range.clone())?;
        }
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
}

impl<R: RecurrentStates> Recurrence<R> {
    fn row(&self, slot: usize) -> usize {
        slot.saturating_add_signed(self.ahead)
    }

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
