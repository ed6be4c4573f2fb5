//! What outlives a run: decoded clips with their visual embeddings, and prefilled contexts.
//!
//! A new method on the same clip and prompt starts from the kept context: its target prefill is the expensive part, and it does
//! not depend on the method.
//!
//! The cache is bounded in bytes. Its budget is half of the memory that is available once the models are loaded
//! ([`PrefixCache::with_memory`]), or [`DEFAULT_BUDGET`] if the system does not report it. Before a run is prefilled, entries
//! are evicted until its estimated size fits both the budget and the memory available at that moment; after it, until the
//! exact sizes fit. Clips without a context go first, then the least recently used context. The entry of the current run is
//! never evicted, whatever its size.

use std::{path::PathBuf, time::SystemTime};

use super::{command::Reading, events::internal};
use specreel_model::{
    decoder::{Sequence, States},
    draft_head::{DraftHead, TextStates},
    family::{ClipFacts, Prompt},
    processor::Patches,
};
use specreel_record::{Failure, Span};
use specreel_speculate::{
    Drafter, GenerationConfig, GenerationInputs, Method, Placing, PrefetchedDraft, Sampler, VisualStates,
    context::{Selection, Signals},
    draft::DraftHeadState,
};
use specreel_video::Sampling;

/// Budget of the cache in bytes, if the available memory is not known (accelerators, macOS).
pub const DEFAULT_BUDGET: u64 = 2 << 30;
/// Most contexts kept, however small.
const MAX_CONTEXTS: usize = 8;
/// Most clips kept without a context.
const IDLE_CLIPS: usize = 2;
/// Drafter contexts kept with each context.
const DRAFTER_CONTEXTS: usize = 8;

/// Values by key, most recently used first.
pub struct Recent<K, V> {
    items: Vec<(K, V)>,
    capacity: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    /// At most `capacity` values.
    pub fn new(capacity: usize) -> Self {
        Self { items: Vec::new(), capacity }
    }

    /// Move the value of a key to the front, if it is there.
    pub fn touch(&mut self, key: &K) -> Option<&mut V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        self.items[..=at].rotate_right(1);
        self.items.first_mut().map(|(_, v)| v)
    }

    /// The most recently used value that fits.
    pub fn find(&self, mut fits: impl FnMut(&K, &V) -> bool) -> Option<&V> {
        self.items.iter().find(|(k, v)| fits(k, v)).map(|(_, v)| v)
    }

    /// Take the value of a key out.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        Some(self.items.remove(at).1)
    }

    /// Take the least recently used value that may be evicted.
    fn take_oldest(&mut self, mut may: impl FnMut(&K) -> bool) -> Option<V> {
        let at = self.items.iter().rposition(|(k, _)| may(k))?;
        Some(self.items.remove(at).1)
    }

    /// Put a value in front, replacing an older one of the same key. Beyond the capacity, the last one is dropped.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.items.retain(|(k, _)| *k != key);
        self.items.insert(0, (key, value));
        self.items.truncate(self.capacity);
        &mut self.items[0].1
    }

    /// Keys, most recently used first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.items.iter().map(|(k, _)| k)
    }

    /// Values, likewise.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.items.iter().map(|(_, v)| v)
    }
}

/// A file as it was when it was read, and how it was sampled. A changed file is another clip.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipKey {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: Option<SystemTime>,
    /// Which part of it.
    pub span: Option<Span>,
    /// Which frames were sampled.
    pub sampling: Sampling,
    /// Upper limit of pixels per frame.
    pub max_pixels: Option<usize>,
    /// Upper limit of visual tokens.
    pub max_visual_tokens: Option<usize>,
}

/// A sampled clip.
pub struct Clip {
    /// Time stamps of the sampled frames in the whole video, in seconds.
    pub timestamps_s: Vec<f64>,
    /// What its prompts are made of.
    pub facts: ClipFacts,
    /// The patches that the target's tower reads.
    pub patches: Patches,
    /// The same for the drafter, if it cuts frames into others.
    pub recut: Option<(ClipFacts, Patches)>,
    /// What users should know about the file: that it is damaged or cut short.
    pub notes: Vec<String>,
    /// What a limit of visual tokens changed.
    pub thinned: Option<String>,
    /// Time of decoding, in milliseconds.
    pub decode_ms: f64,
    /// The target's visual embeddings, once encoded, and the time that took.
    pub target: Option<(States, f64)>,
    /// The drafter's.
    pub drafter: Option<(States, f64)>,
}

/// A clip, and what the target reads with it.
pub type ContextKey = (ClipKey, Reading);

/// What a drafter's context depends on beside clip and prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterKey {
    /// Who drafts.
    pub drafter: Drafter,
    /// The visual tokens it sees; none = all.
    pub kept: Option<Vec<usize>>,
    /// The same by layer and key head, where they differ.
    pub by_head: Option<Vec<Vec<usize>>>,
    /// Temporal grids whose time stamps it does not read.
    pub dropped_stamps: Vec<usize>,
    /// The positions of what it reads.
    pub placing: Placing,
}

impl DrafterKey {
    /// The key of a method with this selection of tokens.
    pub fn new(method: &Method, selection: &Selection) -> Self {
        Self {
            drafter: method.drafter.clone(),
            kept: selection.kept.clone(),
            by_head: selection.by_head.clone(),
            dropped_stamps: selection.dropped_stamps.clone(),
            placing: method.context.placing(),
        }
    }
}

/// A drafter's prefilled sequence.
pub struct DrafterContext {
    /// The drafter's share of the prompt, without its last token.
    pub sequence: Sequence,
    /// Time of the prefill in milliseconds, without that of a prefetched draft.
    pub prefill_ms: f64,
    /// Its first window, if it was drafted during the target's prefill and is not used yet; the sequence then holds the rows fed
    /// for it, too.
    pub prefetched: Option<PrefetchedDraft>,
    /// What sums up the visual tokens, for a draft head with an adaptor; else empty.
    pub seen: Vec<f32>,
}

impl DrafterContext {
    /// Take the prefetched draft for a generation of this configuration. One of another configuration is undone.
    pub fn take_prefetched(&mut self, config: &GenerationConfig<'_>) -> Option<PrefetchedDraft> {
        let draft = self.prefetched.take()?;
        if draft.fits(config) {
            return Some(draft);
        }
        self.sequence.truncate(draft.base());
        None
    }
}

/// The ids of an autoregressive run, to compare others with.
pub struct Reference {
    /// How it sampled.
    pub sampler: Sampler,
    /// Its token limit.
    pub max_new_tokens: usize,
    /// Its ids.
    pub ids: Vec<u32>,
}

/// A clip and a prompt, prefilled by the target.
pub struct Prefill {
    /// The prompt as laid out.
    pub prompt: Prompt,
    /// The target's sequence: the prompt without its last token.
    pub target: Sequence,
    /// The target's final states at the visual tokens.
    pub visual: VisualStates,
    /// The target's final states before each text row.
    pub states: TextStates,
    /// Signals of the prefill that methods have asked for.
    pub signals: Signals,
    /// Time of the prefill, in milliseconds.
    pub prefill_ms: f64,
    /// Drafter contexts.
    pub drafters: Recent<DrafterKey, DrafterContext>,
    /// Median time of one target row, once known, in milliseconds.
    pub t1_ms: f64,
    /// The visual tokens that the target read in all layers, ascending, if a method pruned them; none = all.
    pub kept: Option<Vec<usize>>,
    /// An autoregressive run on this context.
    pub reference: Option<Reference>,
}

impl Prefill {
    /// A context without drafters.
    pub fn new(
        prompt: Prompt,
        target: Sequence,
        visual: VisualStates,
        states: TextStates,
        prefill_ms: f64,
    ) -> Self {
        Self {
            prompt,
            target,
            visual,
            states,
            signals: Signals::default(),
            prefill_ms,
            drafters: Recent::new(DRAFTER_CONTEXTS),
            t1_ms: 0.0,
            kept: None,
            reference: None,
        }
    }

    /// What a generation borrows; `head` is the draft head, if the method drafts with one.
    pub fn inputs<'a>(
        &'a mut self,
        drafter: Option<&'a mut DrafterContext>,
        head: Option<&'a DraftHead>,
    ) -> GenerationInputs<'a> {
        let root = self.prompt.ids.len().saturating_sub(1);
        let (drafter, seen) = drafter.map(|drafter| (&mut drafter.sequence, &drafter.seen[..])).unzip();
        GenerationInputs {
            target: &mut self.target,
            drafter,
            head: head.map(|head| {
                let state = DraftHeadState::new(head, self.states.before_root(root, head));
                state.seeing(seen.unwrap_or_default())
            }),
            visual: &self.visual,
            spans: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            prefetched: None,
        }
    }
}

impl Clip {
    /// Bytes of patches and embeddings.
    pub fn bytes(&self) -> u64 {
        let bytes = |rows: &Option<(States, f64)>| rows.as_ref().map_or(0, |(rows, _)| rows.bytes());
        let recut = self.recut.as_ref().map_or(0, |(_, patches)| size_of_val(&patches.data[..]));
        (size_of_val(&self.patches.data[..]) + recut + bytes(&self.target) + bytes(&self.drafter)) as u64
    }
}

impl Prefill {
    /// Bytes of keys and values, states and signals, drafters included.
    pub fn bytes(&self) -> u64 {
        let drafters: usize = self.drafters.values().map(|drafter| drafter.sequence.bytes()).sum();
        let own = self.target.bytes() + self.visual.bytes() + self.states.bytes() + self.signals.bytes();
        let kept = self.kept.as_ref().map_or(0, |kept| size_of_val(&kept[..]));
        (own + drafters + kept + size_of_val(&self.prompt.ids[..])) as u64
    }
}

/// All that is kept.
pub struct PrefixCache {
    /// Sampled clips.
    pub clips: Recent<ClipKey, Clip>,
    /// Prefilled contexts.
    pub contexts: Recent<ContextKey, Prefill>,
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
    pub fn with_memory(available: Option<u64>) -> Self {
        Self::new(available.map_or(DEFAULT_BUDGET, |bytes| bytes / 2))
    }

    /// Bytes of everything kept.
    pub fn bytes(&self) -> u64 {
        self.clips.values().map(Clip::bytes).sum::<u64>()
            + self.contexts.values().map(Prefill::bytes).sum::<u64>()
    }

    /// The clip and the context of a key.
    ///
    /// # Errors
    /// They are not kept (class internal).
    pub fn entry(&mut self, key: &ContextKey) -> Result<(&mut Clip, &mut Prefill), Failure> {
        let Self { clips, contexts, .. } = self;
        let entry = clips.touch(&key.0).zip(contexts.touch(key));
        entry.ok_or_else(|| internal("the context of the current run is not kept".into()))
    }

    /// Evict until one more context of `wanted` bytes fits the limits and `enough` says that the machine has them, or until
    /// nothing but the clip in use is left.
    pub fn make_room(&mut self, wanted: u64, clip: &ClipKey, enough: &dyn Fn(u64) -> bool) {
        while self.evict_idle(clip, IDLE_CLIPS) {}
        while self.contexts.items.len() >= MAX_CONTEXTS
            || self.bytes().saturating_add(wanted) > self.budget
            || !enough(wanted)
        {
            if !self.evict(clip, None) {
                return;
            }
        }
    }

    /// Evict other contexts until the one of this key may grow by `wanted` bytes, as [`PrefixCache::make_room`] does for one more.
    pub fn make_room_in(&mut self, key: &ContextKey, wanted: u64, enough: &dyn Fn(u64) -> bool) {
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
    pub fn abandon(&mut self) {
        if let Some(key) = self.writing.take() {
            self.contexts.take(&key);
        }
    }
}

/// A kept context over the same clip that shares a prefix with this prompt, at least up to the video's end; and the length of
/// the common prefix, without the prompt's last token.
pub(super) fn kept_prefix<'a>(
    contexts: &'a Recent<ContextKey, Prefill>,
    key: &ClipKey,
    prompt: &Prompt,
) -> Option<(&'a Prefill, usize)> {
    let common = |context: &Prefill| {
        let same = context.prompt.ids.iter().zip(&prompt.ids).take_while(|(a, b)| a == b).count();
        same.min(prompt.ids.len() - 1).min(context.target.len())
    };
    let fits = |(clip, _): &ContextKey, context: &Prefill| {
        let kept = &context.prompt;
        let same_video = (&kept.visual, kept.newline) == (&prompt.visual, prompt.newline);
        // A target that left out a part of the video has nothing to share.
        clip == key && context.kept.is_none() && same_video && common(context) >= prompt.video_end()
    };
    contexts.find(fits).map(|context| (context, common(context)))
}

#[cfg(test)]
#[path = "prefix_cache_tests.rs"]
mod tests;
