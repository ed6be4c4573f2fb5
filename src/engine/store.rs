//! What outlives a run: decoded clips with their visual embeddings, and prefilled contexts.
//!
//! A new method on the same clip and prompt starts from the kept context: its target prefill is the expensive part, and it
//! does not depend on the method. Few are kept; the one used longest ago goes first.

use std::{path::PathBuf, time::SystemTime};

use candle_core::Tensor;

use crate::{
    model::{
        decoder::Sequence,
        family::Prompt,
        processor::{Patches, layout::VisualGrid},
        sparrow::{Sparrow, TextStates},
    },
    record::{Baseline, Span},
    speculate::{
        Drafter, GenerationConfig, GenerationInputs, Method, Placing, PrefetchedDraft, Sampler, VisualStates,
        context::{Selection, Signals},
        draft::Head,
    },
    video::Sampling,
};

/// Clips kept.
const CLIPS: usize = 3;
/// Contexts kept.
const CONTEXTS: usize = 4;
/// Drafter contexts kept with each context.
const DRAFTER_CONTEXTS: usize = 4;

/// A few values by key, most recently used first.
pub struct Recent<K, V> {
    items: Vec<(K, V)>,
    room: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    /// Room for `room` values.
    pub fn new(room: usize) -> Self {
        Self { items: Vec::new(), room }
    }

    /// Move the value of a key to the front, if it is there.
    pub fn touch(&mut self, key: &K) -> Option<&mut V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        self.items[..=at].rotate_right(1);
        self.items.first_mut().map(|(_, v)| v)
    }

    /// The most recently used value that will do.
    pub fn find(&self, mut will_do: impl FnMut(&K, &V) -> bool) -> Option<&V> {
        self.items.iter().find(|(k, v)| will_do(k, v)).map(|(_, v)| v)
    }

    /// Take the value of a key out.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        Some(self.items.remove(at).1)
    }

    /// Put a value in front, in place of an older one of the same key; the last one goes where there is no room.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.items.retain(|(k, _)| *k != key);
        self.items.insert(0, (key, value));
        self.items.truncate(self.room);
        &mut self.items[0].1
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// One file as it was when it was read: a changed file is another clip.
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
    /// Which frames.
    pub sampling: Sampling,
    /// At which size.
    pub max_pixels: Option<usize>,
}

/// A sampled clip.
pub struct Clip {
    /// Time stamps of the sampled frames, in seconds.
    pub timestamps_s: Vec<f64>,
    /// Frames per second as sampled.
    pub sample_fps: f64,
    /// The patches that both towers read.
    pub patches: Patches,
    /// The visual tokens.
    pub grid: VisualGrid,
    /// What to know about the file: that it is damaged or cut short.
    pub notes: Vec<String>,
    /// Time of decoding, in milliseconds.
    pub decode_ms: f64,
    /// The target's visual embeddings, once encoded, and the time that took.
    pub target: Option<(Tensor, f64)>,
    /// The drafter's.
    pub drafter: Option<(Tensor, f64)>,
}

/// What a drafter's context depends on, beside clip and prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterKey {
    /// Who drafts.
    pub drafter: Drafter,
    /// The visual tokens it sees; none = all.
    pub kept: Option<Vec<usize>>,
    /// Those by layer and key head, where they differ.
    pub by_head: Option<Vec<Vec<usize>>>,
    /// Their positions.
    pub placing: Placing,
}

impl DrafterKey {
    /// The key of a method with this choice of tokens.
    pub fn new(method: &Method, selection: &Selection) -> Self {
        Self {
            drafter: method.drafter.clone(),
            kept: selection.kept.clone(),
            by_head: selection.by_head.clone(),
            placing: method.context.placing(),
        }
    }
}

/// A drafter's prefilled sequence and what it cost, in milliseconds.
pub struct DrafterContext {
    /// Holds the prompt, as far as the drafter sees it, without its last token.
    pub sequence: Sequence,
    /// Time of the prefill, without that of an opening.
    pub prefill_ms: f64,
    /// Its first window, where it was drafted beside the target's prefill and not used yet; the sequence then holds what was
    /// fed for it, too.
    pub opening: Option<PrefetchedDraft>,
}

impl DrafterContext {
    /// The opening for a generation under these rules. One that was made under others is undone.
    pub fn open(&mut self, rules: &GenerationConfig<'_>) -> Option<PrefetchedDraft> {
        let opening = self.opening.take()?;
        if opening.fits(rules) {
            return Some(opening);
        }
        self.sequence.truncate(opening.base());
        None
    }
}

/// The ids of an autoregressive run, to compare with.
pub struct Reference {
    /// How it sampled.
    pub sampler: Sampler,
    /// Its limit.
    pub max_new_tokens: usize,
    /// What it wrote.
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
    /// What methods asked to know about the prefill.
    pub signals: Signals,
    /// Time of the prefill, in milliseconds.
    pub prefill_ms: f64,
    /// Drafter contexts.
    pub drafters: Recent<DrafterKey, DrafterContext>,
    /// Autoregressive speed on this context, once known.
    pub baseline: Option<Baseline>,
    /// Median time of one target row, once known, in milliseconds.
    pub t1_ms: f64,
    /// An autoregressive run on this context.
    pub reference: Option<Reference>,
}

impl Prefill {
    /// A context fresh from its prefill.
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
            baseline: None,
            t1_ms: 0.0,
            reference: None,
        }
    }

    /// What a generation borrows; `layer` is the drafter where it goes on from the target's states.
    pub fn parts<'a>(
        &'a mut self,
        drafter: Option<&'a mut Sequence>,
        layer: Option<&'a Sparrow>,
    ) -> GenerationInputs<'a> {
        let root = self.prompt.ids.len().saturating_sub(1);
        GenerationInputs {
            target: &mut self.target,
            drafter,
            head: layer.map(|layer| Head::new(layer, self.states.before(root))),
            visual: &self.visual,
            spans: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            opening: None,
        }
    }
}

/// All that is kept.
pub struct PrefixCache {
    /// Sampled clips.
    pub clips: Recent<ClipKey, Clip>,
    /// Prefilled contexts by clip and prompt.
    pub contexts: Recent<(ClipKey, String), Prefill>,
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self { clips: Recent::new(CLIPS), contexts: Recent::new(CONTEXTS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let mut recent = Recent::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        assert_eq!(recent.touch(&"a"), Some(&mut 1));
        recent.insert("c", 3);
        assert_eq!(recent.touch(&"b"), None);
        assert_eq!(recent.touch(&"a"), Some(&mut 1));
        recent.insert("a", 9);
        assert_eq!((recent.len(), recent.touch(&"a")), (2, Some(&mut 9)));
    }
}
