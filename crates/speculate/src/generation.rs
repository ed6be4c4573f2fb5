//! The configuration, the inputs and the outcome of a generation.

use super::{
    accept::{Row, relevance::VisualStates},
    auto::Contender,
    draft::DraftHeadState,
    drafters::{Drafted, Reserve},
    method::{Method, Schedule},
    processors::History,
    sampling::Sampler,
    schedule::{DraftToken, Tally},
    tree::Tree,
};
use specreel_model::{
    decoder::{AttentionProbe, Sequence, Taps},
    grammar::{Constraint, Grammar},
};
use specreel_record::{StopReason, Verdict};
use specreel_tensor::VisualSpans;

/// Everything but the prompt that determines the text.
#[derive(Clone, Copy)]
pub struct GenerationConfig<'a> {
    pub method: &'a Method,
    /// How tokens are drawn.
    pub sampler: Sampler,
    /// Prompt and text by which the rows of target and drafter are processed, at the end of the prompt; `None` leaves them as they are.
    pub history: Option<&'a History>,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Logits from here on are padding: the target's real vocabulary. A drafter's table may be narrower; it never drafts
    /// ids beyond its own.
    pub vocab: usize,
    pub ends: &'a [u32],
    /// Special tokens, which prompt lookup never repeats (`draft::Lookup`).
    pub special: &'a [u32],
    /// True for tokens that are never loosened, in addition to the end tokens: special tokens, words that must stay strict.
    pub protected: &'a dyn Fn(u32) -> bool,
    /// Texts that were written before for other clips, in which prompt lookup searches too; ids beyond the vocabulary separate them.
    pub earlier: &'a [u32],
    /// What the text has to be: target and drafter write only what it allows.
    pub grammar: Option<&'a Grammar>,
    /// How many of the target's most likely tokens to report.
    pub logprobs: usize,
    /// Time of one target row in milliseconds, where known: an automatic length starts from it.
    pub row_ms: Option<f64>,
    /// The method's drafter, where it was chosen among others: what was expected of it.
    pub chosen: Option<&'a Contender>,
    /// When to time the target alone between the steps. Not under the parallel schedule, whose drafter would slow the pass.
    pub plain_passes: PlainPasses,
    /// Receives the drafts of every step that has any, before the target verifies them.
    pub on_draft: Option<&'a dyn Fn(&Tree)>,
}

impl<'a> GenerationConfig<'a> {
    /// The text alone: nothing ends it, is special, protected or reported.
    pub fn new(method: &'a Method, sampler: Sampler, max_new_tokens: usize, vocab: usize) -> Self {
        Self {
            method,
            sampler,
            history: None,
            max_new_tokens,
            vocab,
            ends: &[],
            special: &[],
            protected: &|_| false,
            earlier: &[],
            grammar: None,
            logprobs: 0,
            row_ms: None,
            chosen: None,
            plain_passes: PlainPasses::Never,
            on_draft: None,
        }
    }
}

/// When a generation times a pass of the target alone ([`Step::plain_ms`](specreel_record::Step::plain_ms)). Such a pass leaves
/// the sequences as they were, so it changes no token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PlainPasses {
    #[default]
    Never,
    /// As long as they take at most this share of the time of the steps so far (0 to 1).
    Share(f64),
    EveryStep,
}

/// For each draft of a branch the verdict, if it passes.
pub type CustomRule<'a> = dyn Fn(&[Row]) -> Vec<Option<Verdict>> + 'a;

/// What a measurement decides in place of the method, under the sequential schedule.
#[derive(Clone, Copy, Default)]
pub struct Hooks<'a> {
    /// Who drafts in each step, in place of what pays off: 0 is the method's drafter, 1 the first of the reserves.
    pub turns: Option<&'a dyn Fn(usize) -> usize>,
    /// Judges in place of the method's acceptance, whose signals are still computed.
    pub rule: Option<&'a CustomRule<'a>>,
}

/// The sequences of a generation, each holding the prompt without its last token.
pub struct GenerationInputs<'a> {
    pub target: &'a mut Sequence,
    /// The drafter's, if it is a decoder.
    pub drafter: Option<&'a mut Sequence>,
    /// The target's states for the drafter, if it is a draft head.
    pub head: Option<DraftHeadState<'a>>,
    /// The target's final states at the visual tokens.
    pub visual: &'a VisualStates,
    /// The slots of the visual tokens in the target's cache.
    pub spans: VisualSpans,
    /// The prompt's ids; the last is the first root.
    pub prompt: &'a [u32],
    /// Drafters that may take over (sequential schedule).
    pub reserves: Vec<Reserve<'a>>,
    /// The drafter's first window, if it was drafted during the target's prefill (parallel schedule).
    pub prefetched: Option<PrefetchedDraft>,
}

impl GenerationConfig<'_> {
    /// True where drafts are drawn from the drafter's distribution and judged by min(1, p/q).
    pub(super) fn draws_drafts(&self) -> bool {
        self.method.draws_drafts(&self.sampler)
    }

    /// True where whole rows of logits are changed before a token is chosen.
    pub(super) fn restricts_rows(&self) -> bool {
        self.grammar.is_some() || self.history.is_some()
    }
}

impl<'a> GenerationInputs<'a> {
    pub fn root(&self) -> u32 {
        self.prompt.last().copied().unwrap_or_default()
    }

    /// The taps of a verify pass: the states that a draft head reads; `peaks` asks for its attention peaks on the visual tokens.
    pub(super) fn taps(&self, peaks: bool) -> Taps {
        let probe = peaks.then(|| AttentionProbe { spans: self.spans.clone(), by_head: false });
        let after_layers = self.head.as_ref().map_or_else(Vec::new, |head| head.layer().taps().to_vec());
        Taps { probe, after_layers, ..Taps::default() }
    }
}

/// The drafter's side of a draft token.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) probability: f32,
    /// The distribution that it was drawn from; empty for greedy drafts.
    pub(crate) distribution: Vec<f32>,
}

impl AsRef<[f32]> for Evidence {
    fn as_ref(&self) -> &[f32] {
        &self.distribution
    }
}

/// A first window that was drafted while the target was still in its prefill (ParallelVLM's first stage). The drafter's
/// sequence holds the rows that were fed for it, after the prompt.
#[derive(Debug)]
pub struct PrefetchedDraft {
    pub(crate) sampler: Sampler,
    /// True if its drafts were drawn and have distributions.
    pub(crate) drawn: bool,
    pub(crate) constraint: Option<Constraint>,
    pub(crate) history: Option<History>,
    pub(crate) forced: u64,
    pub(crate) base: usize,
    pub(crate) window: Vec<DraftToken<Evidence>>,
    pub(crate) ms: f64,
}

impl PrefetchedDraft {
    /// True if a generation with this configuration may begin with it, as it would draft the same.
    pub fn fits(&self, config: &GenerationConfig<'_>) -> bool {
        matches!(config.method.schedule, Schedule::Parallel { .. })
            && self.sampler == config.sampler
            && self.drawn == config.draws_drafts()
            && self.constraint.as_ref() == config.grammar.map(Grammar::constraint)
            && match (&self.history, config.history) {
                (Some(own), Some(other)) => own.starts_as(other),
                (own, other) => own.is_none() && other.is_none(),
            }
    }

    /// Drafting time, in milliseconds.
    pub fn ms(&self) -> f64 {
        self.ms
    }

    /// Slots of the drafter's sequence that are the prompt's.
    pub fn base(&self) -> usize {
        self.base
    }
}

/// How a generation ended, and its measurements.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Why it ended; `None` if `on` stopped it.
    pub reason: Option<StopReason>,
    /// Time spent on visual relevance, in milliseconds.
    pub relevance_ms: f64,
    /// Time of a further row of the target's pass relative to one alone, if an automatic length has measured it.
    pub further: Option<f64>,
    /// What the drafter did, and each of those that might have taken over.
    pub drafters: Vec<Drafted>,
    /// Counts of the parallel schedule.
    pub tally: Option<Tally>,
    /// Drafts of the parallel schedule that the grammar forced.
    pub forced: u64,
}
