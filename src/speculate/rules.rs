//! What a generation needs beside its method: the models' sequences and the rules of the text.

use super::{
    accept::{Needs, Row, relevance::VisualStates},
    draft::{Draft, Head, Lookup, ModelDrafter},
    method::{AcceptedRows, Drafter, Method, VisualContext},
    overlap::PrefetchedDraft,
    sampling::Sampler,
};
use crate::{
    model::{
        VisualSpans,
        decoder::{AttentionProbe, Sequence, Taps},
    },
    record::Verdict,
};

/// What a session needs to know about the text.
#[derive(Clone, Copy)]
pub struct GenerationConfig<'a> {
    /// The method.
    pub method: &'a Method,
    /// Temperature, nucleus, seed.
    pub sampler: Sampler,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Logits from here on are padding: the target's real vocabulary. A drafter's table may be narrower; what it has no place for,
    /// it never drafts.
    pub vocab: usize,
    /// End tokens.
    pub ends: &'a [u32],
    /// Special tokens: a text repeats none of them ([`Lookup`]).
    pub special: &'a [u32],
    /// True for tokens that are never loosened beside the end tokens: special tokens, words that must stay strict.
    pub protected: &'a dyn Fn(u32) -> bool,
    /// How many of the target's most likely tokens to report.
    pub logprobs: usize,
    /// Time of one target row in milliseconds, where known: an automatic length starts from it.
    pub row_ms: Option<f64>,
    /// A rule of the caller's own in place of the method's acceptance (whose signals are computed all the same): for each draft
    /// of a branch why it passes, if it does. Measurements use it; see `benches/`.
    pub rule: Option<&'a OwnRule<'a>>,
}

/// See [`GenerationConfig::rule`].
pub type OwnRule<'a> = dyn Fn(&[Row]) -> Vec<Option<Verdict>> + 'a;

/// The sequences of a generation, each holding the prompt without its last token.
pub struct GenerationInputs<'a> {
    /// The target's.
    pub target: &'a mut Sequence,
    /// The drafter's, where it is a decoder.
    pub drafter: Option<&'a mut Sequence>,
    /// What that decoder goes on from, where it is a layer that drafts from the target's states.
    pub head: Option<Head<'a>>,
    /// The target's final states at the visual tokens.
    pub visual: &'a VisualStates,
    /// The slots of the visual tokens in the target's cache.
    pub spans: VisualSpans,
    /// The prompt's ids; the last is the first root.
    pub prompt: &'a [u32],
    /// The drafter's first window, where it was drafted beside the target's prefill (parallel schedule).
    pub opening: Option<PrefetchedDraft>,
}

impl<'a> GenerationInputs<'a> {
    /// The first root.
    pub fn root(&self) -> u32 {
        self.prompt.last().copied().unwrap_or_default()
    }

    /// What a verify pass has to tap for this rule.
    pub(super) fn taps(&self, needs: Needs) -> Taps {
        let probe = needs.gaze.then(|| AttentionProbe { spans: self.spans.clone(), by_head: false });
        Taps { probe, ..Taps::default() }
    }
}

/// The drafter that a method asks for, if any.
pub(super) fn drafter<'a>(
    method: &Method,
    sequence: Option<&'a mut Sequence>,
    head: Option<Head<'a>>,
    prompt: &[u32],
) -> Option<Box<dyn Draft + 'a>> {
    if let Drafter::Lookup { ngram } = method.drafter {
        return Some(Box::new(Lookup::new(prompt.to_vec(), ngram)));
    }
    let dense = matches!(method.context, VisualContext::TopKKv { rows: AcceptedRows::Dense, .. });
    let root = prompt.last().copied().unwrap_or_default();
    sequence.map(|sequence| {
        Box::new(ModelDrafter::new(sequence, root, dense).with_head(head)) as Box<dyn Draft + 'a>
    })
}
