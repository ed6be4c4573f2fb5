//! A prefilled target context and the drafter contexts that belong to it.

use specreel_model::{
    decoder::Sequence,
    draft_head::{DraftHead, TextStates},
    family::Prompt,
};
use specreel_record::OnLoop;
use specreel_speculate::{
    Drafter, DrafterInputs, GenerationConfig, GenerationInputs, Method, Placing, PrefetchedDraft,
    TextSampling, VisualStates,
    context::{Selection, Signals},
    draft::DraftHeadState,
};

use super::{ClipKey, Recent};
use crate::command::{Constraint, Reading};

const DRAFTER_CONTEXTS: usize = 8;

/// A clip and the text that the target reads with it.
pub(crate) type ContextKey = (ClipKey, Reading);

/// What a drafter's context depends on, besides clip and prompt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DrafterKey {
    pub drafter: Drafter,
    /// The visual tokens it sees; `None` = all.
    pub kept: Option<Vec<usize>>,
    /// The same by layer and key head, where they differ.
    pub by_head: Option<Vec<Vec<usize>>>,
    /// Temporal grids whose time stamps it does not read.
    pub dropped_stamps: Vec<usize>,
    /// The positions of the rows that it reads.
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

pub(crate) struct DrafterContext {
    /// The drafter's share of the prompt, without its last token.
    pub sequence: Sequence,
    /// Milliseconds of the prefill, excluding a prefetched draft.
    pub prefill_ms: f64,
    /// The first window, if it was drafted during the target's prefill and has not been used yet. The sequence then also holds
    /// the rows fed for it.
    pub prefetched: Option<PrefetchedDraft>,
    /// What sums up the visual tokens, for a draft head with an adaptor; else empty.
    pub seen: Vec<f32>,
}

impl DrafterContext {
    /// Take the prefetched draft for a generation of this configuration. One of another configuration is undone.
    pub(crate) fn take_prefetched(&mut self, config: &GenerationConfig<'_>) -> Option<PrefetchedDraft> {
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
    pub sampling: TextSampling,
    pub max_new_tokens: usize,
    pub stop: Vec<String>,
    pub on_loop: OnLoop,
    /// What it had to be.
    pub constraint: Option<Constraint>,
    pub ids: Vec<u32>,
}

/// A clip and a prompt, prefilled by the target.
pub struct Prefill {
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
    pub drafters: Recent<DrafterKey, DrafterContext>,
    /// Median time of one target row, once known, in milliseconds.
    pub t1_ms: f64,
    /// The visual tokens that the target read in all layers, ascending, if a method pruned them; `None` = all.
    pub kept: Option<Vec<usize>>,
    /// An autoregressive run on this context.
    pub reference: Option<Reference>,
}

/// A prompt that the target has read.
#[derive(Clone, Copy)]
pub(crate) struct ReadPrompt<'a> {
    pub prompt: &'a Prompt,
    pub states: &'a TextStates,
}

impl<'a> ReadPrompt<'a> {
    /// What a drafter with this sequence drafts with; `head` if it is a draft head, with what it has `seen`.
    pub fn drafter(
        self,
        sequence: &'a mut Sequence,
        seen: &[f32],
        head: Option<&'a DraftHead>,
    ) -> DrafterInputs<'a> {
        let root = self.prompt.ids.len().saturating_sub(1);
        let state = |head| DraftHeadState::new(head, self.states.before_root(root, head)).seeing(seen);
        DrafterInputs { sequence: Some(sequence), head: head.map(state) }
    }
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

    /// What a generation borrows, and what a drafter reads that takes over; `head` is the draft head, if the method drafts with one.
    pub fn inputs<'a>(
        &'a mut self,
        drafter: Option<&'a mut DrafterContext>,
        head: Option<&'a DraftHead>,
    ) -> (GenerationInputs<'a>, ReadPrompt<'a>) {
        let read = ReadPrompt { prompt: &self.prompt, states: &self.states };
        let DrafterInputs { sequence, head } = drafter
            .map(|drafter| read.drafter(&mut drafter.sequence, &drafter.seen, head))
            .unwrap_or_default();
        let inputs = GenerationInputs {
            target: &mut self.target,
            drafter: sequence,
            head,
            visual: &self.visual,
            spans: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            reserves: Vec::new(),
            prefetched: None,
        };
        (inputs, read)
    }

    /// Bytes of keys and values, states and signals, drafters included.
    pub fn bytes(&self) -> u64 {
        let drafters: usize = self.drafters.values().map(|drafter| drafter.sequence.bytes()).sum();
        let own = self.target.bytes() + self.visual.bytes() + self.states.bytes() + self.signals.bytes();
        let kept = self.kept.as_ref().map_or(0, |kept| size_of_val(&kept[..]));
        (own + drafters + kept + size_of_val(&self.prompt.ids[..])) as u64
    }
}

/// A kept context over the same clip that shares a prefix with this prompt, at least up to the video's end; and the length of
/// the common prefix, without the prompt's last token.
pub(crate) fn kept_prefix<'a>(
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
