//! One step: one draft and one verify pass, and the tokens that came out of it.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// One emitted token and how it was verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// The token's id in the target's vocabulary.
    pub id: u32,
    /// Text that this token completes; empty until its bytes form characters.
    pub text: String,
    /// Why the token is in the output.
    pub verdict: Verdict,
    /// True for thoughts before the answer, and for the token that ends them: they are not part of the caption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thinking: bool,
    /// The target's own most likely token at this position.
    pub target_id: u32,
    /// Visual relevance: mean of the N largest cosine similarities to the visual tokens' final states (LVSpec eq. 8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<f32>,
    /// Rank of the relevance within the step, 0 = least visual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance_rank: Option<u32>,
    /// The largest attention weight on one visual token in the target's row before, mean over layers and heads (glance).
    #[serde(rename = "gaze", default, skip_serializing_if = "Option::is_none")]
    pub attention_peak: Option<f32>,
    /// KL(target, drafter) here, in nats (divergence).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<f32>,
    /// Entropy of the target's distribution here, in nats, over the top three probabilities or all (the method says which).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy: Option<f32>,
    /// Probability of this token under the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f32>,
    /// Probability of this token under the drafter, where it was drafted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter_probability: Option<f32>,
    /// The target's most likely tokens with natural-log probabilities, best first (`--logprobs K`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<(u32, f32)>,
    /// Their texts (same length as `logprobs`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprob_texts: Vec<String>,
    /// The drafter's most likely tokens here, where it drafted one, with natural-log probabilities, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafter_logprobs: Vec<(u32, f32)>,
    /// Their texts (same length as `drafter_logprobs`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafter_texts: Vec<String>,
    /// Text of the target's own token here, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_text: Option<String>,
    /// The visual tokens whose final states resemble this token's most, with the cosine similarities, best first
    /// (`--logprobs K`). For accepted drafts; a step's last token gets them with the next step ([`Step::root_nearest_visual`]).
    #[serde(rename = "looks", default, skip_serializing_if = "Vec::is_empty")]
    pub nearest_visual: Vec<(u32, f32)>,
}

impl Token {
    /// A token that the target chose itself, without further data.
    pub fn new(id: u32, text: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            id,
            text: text.into(),
            verdict,
            thinking: false,
            target_id: id,
            relevance: None,
            relevance_rank: None,
            attention_peak: None,
            divergence: None,
            entropy: None,
            probability: None,
            drafter_probability: None,
            logprobs: Vec::new(),
            logprob_texts: Vec::new(),
            drafter_logprobs: Vec::new(),
            drafter_texts: Vec::new(),
            target_text: None,
            nearest_visual: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the step, from 0.
    pub index: usize,
    /// Every drafted id, accepted or not, in draft order.
    pub drafted: Vec<u32>,
    /// Where a tree was drafted: for each drafted id the place of the one before it, none = the root. Empty for a chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Option<usize>>,
    /// Where a tree was drafted: the places of the accepted drafts, in order. In a chain the first ones are accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<usize>,
    /// The places of drafts where the grammar of the answer leaves no choice. They are certain, and not counted as drafts in
    /// statistics; those at the beginning cost the drafter nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<usize>,
    /// The drafts' texts one by one (for the inspector; same length as `drafted`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafted_text: Vec<String>,
    /// How many drafts the verify pass judged.
    pub judged: usize,
    /// How many of them passed.
    pub accepted: usize,
    /// The tokens emitted by this step: the accepted drafts, then the target's own token where there is one.
    pub tokens: Vec<Token>,
    /// Bytes at the end of their text that are not part of the caption, since a stop text begins before them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beyond_stop: usize,
    /// As [`Token::nearest_visual`], for the token before this step's first one.
    #[serde(rename = "root_looks", default, skip_serializing_if = "Vec::is_empty")]
    pub root_nearest_visual: Vec<(u32, f32)>,
    /// Time spent drafting, in milliseconds.
    pub draft_ms: f64,
    /// Time of the target's pass, in milliseconds.
    pub verify_ms: f64,
    /// Everything else in the step (judging, relevance, bookkeeping), in milliseconds.
    #[serde(default)]
    pub other_ms: f64,
    /// Milliseconds of one pass of the target alone, just before this step. See [`Pace`](super::paired::Pace).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_ms: Option<f64>,
    /// Why a step has no drafts, where the method's gate was closed: the target's largest attention weight on one visual token in
    /// the row that wrote the token before this step's first one, mean over layers and heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<f32>,
    /// What the drafter gave the token before which it stopped, as it was too unsure of it to draft it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsure: Option<f32>,
    /// Who drafted, in words, where the run may change from one drafter to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter: Option<String>,
    /// In the first step after another drafter took over: which, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<Box<Switched>>,
    /// Where drafter and target worked side by side: when each was at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Busy>,
}

/// A change of the drafter within a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switched {
    /// Tokens that had been emitted before.
    pub after: usize,
    /// The drafter until then, in words.
    pub from: String,
    /// The drafter from then on.
    pub to: String,
    /// The chance that a draft of the earlier one passes, as it was in this run.
    pub passing: f64,
    /// The same of the later one, as expected.
    pub expected: f64,
    /// The expected times of the rest of the text, in milliseconds: without the change, and with it.
    pub rest_ms: [f64; 2],
}

impl Switched {
    /// The change and its reason in a sentence.
    pub fn words(&self) -> String {
        let Self { after, from, to, passing, expected, rest_ms: [without, with] } = self;
        let [passing, expected] = [passing, expected].map(|share| 100.0 * share);
        format!(
            "switched from {from} to {to} after {after} tokens: the rest should take {:.2} s instead of {:.2} s, with {expected:.0} % \
             of the drafts passing instead of {passing:.0} %",
            with / 1e3,
            without / 1e3
        )
    }
}

/// When both models were at work in a step: begin and end, in milliseconds from the step's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    pub target: [f64; 2],
    /// The drafter; begin and end are the same if it drafted nothing.
    pub drafter: [f64; 2],
}

impl Busy {
    /// Time in which both were at work, in milliseconds.
    pub fn both_ms(&self) -> f64 {
        (self.target[1].min(self.drafter[1]) - self.target[0].max(self.drafter[0])).max(0.0)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Step {
    /// Time of the whole step, in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.other_ms
    }

    /// Keep so many of its first tokens.
    pub fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
        self.accepted = self.tokens.iter().filter(|token| token.verdict.is_accepted_draft()).count();
    }

    /// How many drafts were judged, those not counted that the grammar forced.
    pub fn judged_freely(&self) -> usize {
        self.judged.saturating_sub(self.forced.len())
    }

    /// How many drafts were accepted, those not counted that the grammar forced.
    pub fn accepted_freely(&self) -> usize {
        self.accepted - self.forced_tokens().min(self.accepted)
    }

    /// How many of the emitted tokens the grammar forced.
    pub fn forced_tokens(&self) -> usize {
        self.tokens.iter().filter(|token| token.verdict == Verdict::Forced).count()
    }

    /// How many drafts at the beginning the grammar forced: the drafter did not write them.
    pub fn forced_first(&self) -> usize {
        self.forced.iter().enumerate().take_while(|(place, at)| place == *at).count()
    }
}
