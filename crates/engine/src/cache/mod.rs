//! What outlives a run: decoded clips with their visual embeddings, and prefilled contexts.
//!
//! A new method on the same clip and prompt starts from the kept context: its target prefill is the expensive part, and it does
//! not depend on the method.
//!
//! The cache is bounded in bytes. Its budget is half of the memory that is available once the models are loaded
//! ([`PrefixCache::with_memory`]), or [`DEFAULT_BUDGET`] if the system does not report it. Before a prefill, entries are
//! evicted until its estimated size fits both the budget and the memory available at that moment; after it, until the exact
//! sizes fit. Clips without a context go first, then the least recently used context. The entry of the current run is
//! never evicted, regardless of its size.

mod clip;
mod context;
mod recent;

pub(crate) use self::{
    clip::{Clip, ClipKey},
    context::{ContextKey, DrafterContext, DrafterKey, Prefill, ReadPrompt, Reference, kept_prefix},
    recent::Recent,
};
use crate::events::internal;
use specreel_record::Failure;

/// Budget of the cache in bytes, if the available memory is not known (accelerators, macOS).
pub(crate) const DEFAULT_BUDGET: u64 = 2 << 30;
/// Slots of a context that a verify pass may need beyond the longest caption.
pub(crate) const KV_HEADROOM: usize = 96;

/// Most contexts kept, however small.
const MAX_CONTEXTS: usize = 8;
/// Most clips kept without a context.
const IDLE_CLIPS: usize = 2;

pub(crate) struct PrefixCache {
    pub clips: Recent<ClipKey, Clip>,
    pub(crate) contexts: Recent<ContextKey, Prefill>,
    /// The context that a run is changing in place.
    pub writing: Option<ContextKey>,
    budget: u64,
}

impl PrefixCache {
    /// An empty cache of this budget in bytes.
    pub fn new(budget: u64) -> Self {
        Self { clips: Recent::new(usize::MAX), contexts: Recent::new(usize::MAX), writing: None, budget }
    }

    /// An empty cache whose budget is half of this memory, in bytes; [`DEFAULT_BUDGET`] if it is not known.
    pub(crate) fn with_memory(available: Option<u64>) -> Self {
        Self::new(available.map_or(DEFAULT_BUDGET, |bytes| bytes / 2))
    }

    /// Bytes of everything kept.
    pub fn bytes(&self) -> u64 {
        self.clips.values().map(Clip::bytes).sum::<u64>()
            + self.contexts.values().map(Prefill::bytes).sum::<u64>()
    }

    /// The clip and the context of a key. Fails if they are not kept (class internal).
    pub fn entry(&mut self, key: &ContextKey) -> Result<(&mut Clip, &mut Prefill), Failure> {
        let Self { clips, contexts, .. } = self;
        let entry = clips.touch(&key.0).zip(contexts.touch(key));
        entry.ok_or_else(|| internal("the context of the current run is not kept".into()))
    }

    /// Evict until one more context of `wanted` bytes fits the limits and `enough` says that the machine has them, or until
    /// nothing but the clip in use is left.
    pub(crate) fn make_room(&mut self, wanted: u64, clip: &ClipKey, enough: &dyn Fn(u64) -> bool) {
        while self.evict_idle(clip, IDLE_CLIPS) {}
        while self.contexts.len() >= MAX_CONTEXTS
            || self.bytes().saturating_add(wanted) > self.budget
            || !enough(wanted)
        {
            if !self.evict(clip, None) {
                return;
            }
        }
    }

    /// Evict other contexts until the one of this key may grow by `wanted` bytes, as [`PrefixCache::make_room`] does for one more.
    pub(crate) fn make_room_in(&mut self, key: &ContextKey, wanted: u64, enough: &dyn Fn(u64) -> bool) {
        while (self.bytes().saturating_add(wanted) > self.budget || !enough(wanted))
            && self.evict(&key.0, Some(key))
        {}
    }

    /// Evict until the cache fits its budget; the entry of this key stays.
    pub fn trim(&mut self, key: &ContextKey) {
        while self.bytes() > self.budget && self.evict(&key.0, Some(key)) {}
    }

    /// Evict something that is not in use: clips without a context first, then the least recently used context.
    fn evict(&mut self, clip: &ClipKey, context: Option<&ContextKey>) -> bool {
        self.evict_idle(clip, 0) || self.contexts.take_oldest(|key| Some(key) != context).is_some()
    }

    /// Evict the least recently used clip without a context, if there are more than `most`.
    fn evict_idle(&mut self, clip: &ClipKey, most: usize) -> bool {
        let Self { clips, contexts, .. } = self;
        let idle = |key: &ClipKey| key != clip && contexts.keys().all(|(used, _)| used != key);
        clips.keys().filter(|key| idle(key)).count() > most && clips.take_oldest(idle).is_some()
    }

    /// Drop the context that a failed run was changing: it may be half-written.
    pub(crate) fn abandon(&mut self) {
        if let Some(key) = self.writing.take() {
            self.contexts.take(&key);
        }
    }
}

#[cfg(test)]
mod tests;
