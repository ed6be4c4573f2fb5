//! Logits processors: what changes a row of logits by the text so far, before temperature and what follows it.
//!
//! Each row of a verify pass has a history of its own: the prompt, the text, and the drafts on the branch above it. Target and drafter
//! rows are processed alike, so a text is the one that autoregressive decoding writes with the same processors.
//!
//! They apply in the order of their fields, which is transformers' where it has them: bias, repetition penalty, no repeated n-grams;
//! then presence and frequency penalties (vLLM), and DRY (llama.cpp). Where they would rule out all that a grammar allows, the row stays as
//! it was.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use specreel_model::{decoder::LogitRow, draft_head::DraftVocabulary};
use specreel_tensor::Result;

/// What changes logits by the text so far; the default changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Processors {
    /// Added to the logits of these ids.
    pub bias: Vec<(u32, f32)>,
    /// Above 1, the logits of ids that occur in the prompt or text are divided by it where positive, else multiplied (arXiv 1909.05858).
    pub repetition_penalty: f32,
    /// The repetition penalty counts the last so many tokens of prompt and text only; 0 = all.
    pub repetition_window: usize,
    /// No n-gram of this length that occurs in the prompt or text is written again; 0 = any may be.
    pub no_repeat_ngram: usize,
    /// Subtracted from the logits of ids that occur in the text.
    pub presence_penalty: f32,
    /// Subtracted from the logit of an id for each time it occurs in the text.
    pub frequency_penalty: f32,
    /// Against the continuation of what was written before.
    pub dry: Dry,
}

/// The DRY penalty: an id that would extend a repetition of the last `n` tokens loses `multiplier * base^(n - allowed)`, if `n` is
/// at least `allowed`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// 0 = no penalty.
    pub multiplier: f32,
    pub base: f32,
    /// Repetitions of fewer tokens cost nothing.
    pub allowed: usize,
    /// Look at the last so many tokens of prompt and text only; 0 = all.
    pub window: usize,
    /// Ids that no repetition extends over, ascending; they are never penalized.
    pub breakers: Vec<u32>,
}

impl Default for Dry {
    /// No penalty; base and length are llama.cpp's.
    fn default() -> Self {
        Self { multiplier: 0.0, base: 1.75, allowed: 2, window: 0, breakers: Vec::new() }
    }
}

impl Default for Processors {
    fn default() -> Self {
        Self {
            bias: Vec::new(),
            repetition_penalty: 1.0,
            repetition_window: 0,
            no_repeat_ngram: 0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry: Dry::default(),
        }
    }
}

impl Processors {
    /// True if no row is changed, regardless of the text.
    pub fn are_idle(&self) -> bool {
        *self == Self { dry: self.dry.clone(), repetition_window: self.repetition_window, ..Self::default() }
            && self.dry.multiplier == 0.0
    }

    /// True if the order of the ids above a row matters to it.
    fn reads_order(&self) -> bool {
        self.no_repeat_ngram > 0 || self.dry.multiplier != 0.0
    }
}

/// How often an id occurs in the prompt and text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    all: u32,
    text: u32,
}

/// Prompt and text of a generation, by which its rows are processed.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    processors: Processors,
    /// The prompt's ids, and the text's after them.
    ids: Vec<u32>,
    prompt: usize,
    counts: HashMap<u32, Count>,
}

impl History {
    /// The history at the end of a prompt; `None` if nothing is to be processed.
    pub fn new(processors: &Processors, prompt: &[u32]) -> Option<Self> {
        if processors.are_idle() {
            return None;
        }
        let mut history = Self {
            processors: processors.clone(),
            ids: Vec::new(),
            prompt: prompt.len(),
            counts: HashMap::new(),
        };
        history.advance(prompt);
        Some(history)
    }

    /// Append these ids to the text.
    pub fn advance(&mut self, ids: &[u32]) {
        for &id in ids {
            let count = self.counts.entry(id).or_default();
            count.all += 1;
            count.text += u32::from(self.ids.len() >= self.prompt);
            self.ids.push(id);
        }
    }

    /// Keep the first so many ids of the text.
    pub fn truncate(&mut self, text: usize) {
        let kept = (self.prompt + text).min(self.ids.len());
        for id in self.ids.drain(kept..) {
            if let Some(count) = self.counts.get_mut(&id) {
                count.all -= 1;
                count.text -= 1;
                if count.all == 0 {
                    self.counts.remove(&id);
                }
            }
        }
    }

    /// Whether a generation with these processors after this prompt begins with this history.
    pub(crate) fn starts_as(&self, other: &Self) -> bool {
        self.processors == other.processors && self.ids[..self.prompt] == other.ids[..other.prompt]
    }

    /// The row that predicts what follows the text and these drafts. `own` are the ids of the row, if they
    /// are not the target's `vocab`; the result always has the target's ids.
    /// Errors: the row lacks values ([`LogitNeeds::whole`](specreel_model::decoder::LogitNeeds::whole)).
    pub fn process(
        &self,
        row: &LogitRow<'_>,
        own: Option<&DraftVocabulary>,
        vocab: usize,
        drafts: &[u32],
    ) -> Result<LogitRow<'static>> {
        let before = whole(row, own, vocab)?;
        let mut logits = before.to_vec();
        self.apply(&mut logits, drafts);
        let none_left = logits.iter().all(|logit| *logit == f32::NEG_INFINITY);
        let logits = if none_left { before.into_owned() } else { logits };
        Ok(LogitRow::Whole(logits.into(), std::cell::OnceCell::new()))
    }

    /// Process the logits, by id, of what follows the text and these drafts.
    pub fn apply(&self, logits: &mut [f32], drafts: &[u32]) {
        let Processors { bias, presence_penalty, frequency_penalty, .. } = &self.processors;
        for (id, bias) in bias {
            change(logits, *id, |logit| logit + bias);
        }
        self.penalize_repetition(logits, drafts);
        let all = if self.processors.reads_order() { [&self.ids, drafts].concat() } else { Vec::new() };
        if self.processors.no_repeat_ngram > 0 {
            for id in ngram_ends(&all, self.processors.no_repeat_ngram) {
                change(logits, id, |_| f32::NEG_INFINITY);
            }
        }
        if *presence_penalty != 0.0 || *frequency_penalty != 0.0 {
            for (id, count) in self.text_counts(drafts) {
                change(logits, id, |logit| logit - presence_penalty - frequency_penalty * count as f32);
            }
        }
        if self.processors.dry.multiplier != 0.0 {
            self.processors.dry.apply(logits, &all);
        }
    }

    fn penalize_repetition(&self, logits: &mut [f32], drafts: &[u32]) {
        let Processors { repetition_penalty: penalty, repetition_window: window, .. } = self.processors;
        if penalty == 1.0 {
            return;
        }
        let penalize = |logit: f32| if logit > 0.0 { logit / penalty } else { logit * penalty };
        if window > 0 {
            let last = drafts.iter().rev().chain(self.ids.iter().rev()).take(window);
            let last: HashSet<u32> = last.copied().collect();
            last.into_iter().for_each(|id| change(logits, id, penalize));
            return;
        }
        for id in self.counts.keys() {
            change(logits, *id, penalize);
        }
        for (at, id) in drafts.iter().enumerate() {
            if !self.counts.contains_key(id) && !drafts[..at].contains(id) {
                change(logits, *id, penalize);
            }
        }
    }

    /// The ids of text and drafts with their counts.
    fn text_counts(&self, drafts: &[u32]) -> HashMap<u32, u32> {
        let text = self.counts.iter().filter(|(_, count)| count.text > 0);
        let mut counts: HashMap<u32, u32> = text.map(|(id, count)| (*id, count.text)).collect();
        for id in drafts {
            *counts.entry(*id).or_default() += 1;
        }
        counts
    }
}

/// The logits of the target's ids in a row; a head with fewer ids gives the others no chance.
pub(crate) fn whole<'r>(
    row: &'r LogitRow<'_>,
    own: Option<&DraftVocabulary>,
    vocab: usize,
) -> Result<Cow<'r, [f32]>> {
    let values = row.values()?;
    Ok(own.map_or_else(|| values.into(), |own| own.spread(values, vocab).into()))
}

fn change(logits: &mut [f32], id: u32, to: impl FnOnce(f32) -> f32) {
    if let Some(logit) = logits.get_mut(id as usize) {
        *logit = to(*logit);
    }
}

/// The ids that would end an n-gram that already occurs in `ids`.
fn ngram_ends(ids: &[u32], n: usize) -> impl Iterator<Item = u32> + '_ {
    let last = ids.len().checked_sub(n - 1).map_or(&[][..], |from| &ids[from..]);
    ids.windows(n).filter(move |ngram| ngram[..n - 1] == *last).map(move |ngram| ngram[n - 1])
}

impl Dry {
    /// The exponent beyond which the power is no number any more, as llama.cpp limits it.
    fn most_exponent(&self) -> usize {
        if self.base > 1.000_001 { (f32::MAX.ln() / self.base.ln()) as usize } else { i32::MAX as usize }
    }

    /// Penalize the ids that would extend a repetition at the end of `ids`.
    fn apply(&self, logits: &mut [f32], ids: &[u32]) {
        let from = if self.window > 0 { ids.len().saturating_sub(self.window) } else { 0 };
        let is_breaker = |id: &u32| self.breakers.binary_search(id).is_ok();
        let backward: Vec<u32> = ids[from..].iter().rev().copied().collect();
        let most = backward.iter().position(is_breaker).unwrap_or(backward.len());
        let mut longest: HashMap<u32, usize> = HashMap::new();
        for (at, matching) in prefix_matches(&backward).into_iter().enumerate().skip(1) {
            let (next, length) = (backward[at - 1], matching.min(most));
            if length >= self.allowed.max(1) && !is_breaker(&next) {
                let known = longest.entry(next).or_default();
                *known = length.max(*known);
            }
        }
        for (id, length) in longest {
            let power = self.base.powi((length - self.allowed).min(self.most_exponent()) as i32);
            let penalty = (self.multiplier * power).min(f32::MAX);
            change(logits, id, |logit| logit - penalty);
        }
    }
}

/// For each place of `ids` how many ids from there on are those from the beginning on (the Z function).
fn prefix_matches(ids: &[u32]) -> Vec<usize> {
    let mut matches = vec![ids.len(); ids.len()];
    // The match that reaches furthest: from `left`, up to `right`.
    let (mut left, mut right) = (0, 0);
    for at in 1..ids.len() {
        let mut length = if at < right { matches[at - left].min(right - at) } else { 0 };
        while at + length < ids.len() && ids[length] == ids[at + length] {
            length += 1;
        }
        matches[at] = length;
        if at + length > right {
            (left, right) = (at, at + length);
        }
    }
    matches
}

#[cfg(test)]
#[path = "processors_tests.rs"]
mod tests;
