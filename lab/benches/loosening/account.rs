//! What one rule cost and gave, clip by clip and in all.

use serde::Serialize;
use specreel_bench::bootstrap::ratio_interval;
use specreel_scenes::{
    facts::{self, Facts},
    words::meaningful,
};

use crate::{kept::Written, words::Words};

/// Rounds of the bootstrap.
const ROUNDS: usize = 2000;

/// One rule on one clip.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OnClip {
    pub seed: u64,
    pub steps: usize,
    pub accepted: usize,
    pub emitted: usize,
    /// True facts stated, stated otherwise, left out; figures that are not there.
    pub right: usize,
    pub wrong: usize,
    pub missing: usize,
    pub extra: usize,
    /// Tokens that passed against the target's wish.
    pub loosened: usize,
    /// Words that carry facts.
    pub telling: usize,
    /// Loosened tokens that made a word say something else.
    pub changed: usize,
}

impl OnClip {
    pub fn of(seed: u64, written: &Written, text: &str, truth: &Facts, words: &Words) -> Self {
        let score = facts::score(truth, text);
        let ids = &written.ids;
        let changes =
            |&i: &usize| words.meaning(&ids[..i], ids[i], &ids[i + 1..], written.wanted[i]).changes();
        let loosened: Vec<usize> = (0..ids.len()).filter(|&i| written.loosened[i]).collect();
        Self {
            seed,
            steps: written.steps,
            accepted: written.accepted,
            emitted: ids.len(),
            right: score.right,
            wrong: score.wrong,
            missing: score.missing,
            extra: score.extra,
            telling: meaningful(text).count(),
            changed: loosened.iter().copied().filter(changes).count(),
            loosened: loosened.len(),
        }
    }
}

/// What a rule comes to over some clips. Shares are from 0 to 1; none where there is nothing to share.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Accepted drafts per step.
    pub tau: f64,
    pub emitted_per_step: f64,
    /// True facts stated.
    pub facts: f64,
    /// Right facts divided by exact acceptance's on the same clips, and where 95 % of other clips would put it.
    pub retention: f64,
    pub interval: Option<(f64, f64)>,
    /// True facts over all facts stated; a figure that is not there is one false fact.
    pub precision: f64,
    pub precision_interval: Option<(f64, f64)>,
    /// Tau over the oracle's.
    pub of_oracle: f64,
    /// Tokens that passed against the target's wish, of all.
    pub loosened: f64,
    /// Words that carry a fact and were made to say something else, of all that carry one.
    pub changed: f64,
}

impl Figures {
    /// Over the clips that `which` picks by number.
    pub fn of(own: &[OnClip], exact: &[OnClip], oracle: &[OnClip], which: &dyn Fn(usize) -> bool) -> Self {
        let sum = |clips: &[OnClip], field: fn(&OnClip) -> usize| {
            let chosen = clips.iter().enumerate().filter(|(i, _)| which(*i));
            chosen.map(|(_, clip)| field(clip)).sum::<usize>() as f64
        };
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let tau = |clips| ratio(sum(clips, |c| c.accepted), sum(clips, |c| c.steps));
        let pairs: Vec<(f64, f64)> = own
            .iter()
            .zip(exact)
            .enumerate()
            .filter(|(i, _)| which(*i))
            .map(|(_, (own, exact))| (own.right as f64, exact.right as f64))
            .collect();
        let said = |c: &OnClip| c.right + c.wrong + c.extra;
        let stated: Vec<(f64, f64)> = own
            .iter()
            .enumerate()
            .filter(|(i, _)| which(*i))
            .map(|(_, own)| (own.right as f64, said(own) as f64))
            .collect();
        let emitted = sum(own, |c| c.emitted);
        Self {
            tau: tau(own),
            emitted_per_step: ratio(emitted, sum(own, |c| c.steps)),
            facts: ratio(sum(own, |c| c.right), sum(own, |c| c.right + c.wrong + c.missing)),
            retention: ratio(sum(own, |c| c.right), sum(exact, |c| c.right)),
            interval: ratio_interval(&pairs, 0.95, ROUNDS, 0),
            precision: ratio(sum(own, |c| c.right), stated.iter().map(|(_, said)| said).sum()),
            precision_interval: ratio_interval(&stated, 0.95, ROUNDS, 0),
            of_oracle: ratio(tau(own), tau(oracle)),
            loosened: ratio(sum(own, |c| c.loosened), emitted),
            changed: ratio(sum(own, |c| c.changed), sum(own, |c| c.telling)),
        }
    }
}
