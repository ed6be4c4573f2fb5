//! A method over many clips: one row of the papers' tables.
//!
//! Counts (drafts, tokens, facts) are summed over the clips; times and ratios of times are medians over the clips, so that one
//! disturbed run does not change a row.

mod spread;

use std::collections::BTreeMap;

pub use spread::Spread;

use serde::{Deserialize, Serialize};

use crate::trial::{FactCount, Trial};
use specreel_record::{Interval, PairedRatio, Stats, Verdict, median};

/// One method over all its clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The method's name in this comparison.
    pub system: String,
    pub clips: usize,
    /// Accepted drafts per step, bonus not counted.
    pub tau: f64,
    pub emitted_per_step: f64,
    /// Decode speed, median.
    pub tokens_per_second: f64,
    /// Ratio of decode speeds, median; `None` for fewer clips than an interval takes ([`LEAST`](specreel_record::paired::LEAST)).
    pub decode: Option<f64>,
    /// Its interval; each clip is a pair.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Ratio of decode speeds on the hardware of a profile, modelled from the steps, median; `None` without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled: Option<f64>,
    /// Ratio of times from file to last token, median.
    pub end_to_end: Option<f64>,
    pub facts: FactCount,
    /// Share of the true facts stated, 0 to 1.
    pub facts_share: f64,
    /// Right facts divided by the baseline's on the same clips; `None` if the baseline has none right.
    pub retention: Option<f64>,
    /// Share of the stated facts that are true, 0 to 1; `None` if no text states any.
    #[serde(default)]
    pub precision: Option<f64>,
    /// False facts per caption: true ones contradicted, and objects that are not there.
    #[serde(default)]
    pub false_per_caption: f64,
    /// 95 % intervals; none with too few clips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Share of autoregressive decoding's tokens that a pruned target predicts, mean over clips; `None` for other methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_share: Option<f64>,
    /// Share of the decoding time that was spent waiting for processors, 0 to 1, median; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// Share of the emitted tokens that the target would not have written itself, 0 to 1.
    pub loosened_share: f64,
    pub loosened: BTreeMap<Verdict, f64>,
    /// Texts equal to the baseline's, of those that could be compared.
    pub equal: usize,
    pub compared: usize,
    /// Smallest index, from 0, of a token that differs from the baseline's, over all clips.
    pub first_difference: Option<usize>,
    /// Lossless texts that differ from the baseline's through rounding; `None` if there are none, as on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ties: Option<Ties>,
    /// Time per stage, medians.
    pub times: Times,
    /// Peak resident memory of the process up to the end of this method's last run, in bytes.
    pub peak_memory_bytes: u64,
}

/// Lossless texts that differ from the baseline's, and how close the two tokens are where they do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ties {
    pub near: usize,
    /// Those that it does not.
    pub far: usize,
    /// The largest distance, in nats.
    pub widest: f32,
}

impl Ties {
    fn of(trials: &[&Trial]) -> Option<Ties> {
        let mut ties = Ties::default();
        for tie in trials.iter().filter_map(|t| t.stats.tie.as_ref()) {
            *if tie.near { &mut ties.near } else { &mut ties.far } += 1;
            ties.widest = ties.widest.max(tie.gap.abs());
        }
        (ties.near + ties.far > 0).then_some(ties)
    }
}

/// Where a method's time goes, in milliseconds: medians over clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Before the first token, as for every method: video, the target's tower and prefill.
    pub front_ms: f64,
    /// Before the first token, for this method's drafter alone.
    pub drafter_front_ms: f64,
    pub draft_ms: f64,
    pub verify_ms: f64,
    /// Everything else between the first and the last token.
    pub other_ms: f64,
    /// One target row; `None` where it was not timed.
    pub t1_ms: Option<f64>,
    /// A verify pass over a whole draft; `None` where there was none.
    pub tk1_ms: Option<f64>,
    /// One drafter row; `None` where there was none.
    pub td_ms: Option<f64>,
}

impl Summary {
    /// The row of `system` in a pile of trials, with `baseline` as the system to keep up with. `None` where it has no trial.
    pub fn of(system: &str, baseline: &str, trials: &[Trial]) -> Option<Summary> {
        let own: Vec<&Trial> = trials.iter().filter(|t| t.system == system).collect();
        if own.is_empty() {
            return None;
        }
        let reference = |clip| trials.iter().find(|t| t.system == baseline && t.clip == clip);
        let sum = |field: fn(&Stats) -> u64| own.iter().map(|t| field(&t.stats)).sum::<u64>() as f64;
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (steps, emitted) = (sum(|s| s.steps), sum(|s| s.emitted));
        let mut facts = FactCount::default();
        let mut to_keep = 0;
        let mut loosened: BTreeMap<Verdict, f64> = BTreeMap::new();
        for trial in &own {
            facts.add(&trial.facts);
            to_keep += reference(trial.clip).map_or(0, |t| t.facts.right);
            for (verdict, count) in trial.stats.verdicts.iter().filter(|(v, _)| !v.is_strict()) {
                *loosened.entry(verdict).or_default() += ratio(count as f64, emitted);
            }
        }
        let decode: Vec<f64> = own.iter().filter_map(|t| Some(t.pair?.decode_ratio)).collect();
        let ratio_of_clips = match system == baseline {
            true => Some(PairedRatio { middle: 1.0, low: 1.0, high: 1.0, pairs: decode.len() }),
            false => PairedRatio::of(&decode),
        };
        let equalities = || own.iter().filter_map(|t| t.stats.equality.as_ref());
        Some(Summary {
            system: system.into(),
            clips: own.len(),
            tau: ratio(sum(|s| s.accepted), steps),
            emitted_per_step: ratio(emitted, steps),
            tokens_per_second: median(own.iter().map(|t| t.stats.tokens_per_second)).unwrap_or_default(),
            decode: ratio_of_clips.map(|ratio| ratio.middle),
            interval: ratio_of_clips.map(Interval::from),
            modelled: median(own.iter().filter_map(|t| t.modelled)),
            end_to_end: ratio_of_clips
                .and_then(|_| median(own.iter().filter_map(|t| Some(t.pair?.end_to_end_ratio)))),
            facts,
            facts_share: facts.share(),
            retention: (to_keep > 0).then(|| facts.right as f64 / to_keep as f64),
            precision: facts.precision(),
            false_per_caption: ratio(facts.false_facts() as f64, own.len() as f64),
            spread: Spread::of(&own.iter().map(|own| (*own, reference(own.clip))).collect::<Vec<_>>()),
            accepted_share: mean(own.iter().filter_map(|t| t.stats.accepted_share)),
            contention: median(own.iter().filter_map(|t| t.stats.contention)),
            // From zero: the sum of nothing would be a negative one.
            loosened_share: loosened.values().fold(0.0, |sum, share| sum + share),
            loosened,
            equal: equalities().filter(|e| e.equal).count(),
            compared: equalities().count(),
            first_difference: equalities().filter_map(|e| e.first_difference).min(),
            ties: Ties::of(&own),
            times: Times::of(&own),
            peak_memory_bytes: own.iter().map(|t| t.stats.peak_memory_bytes).max().unwrap_or_default(),
        })
    }
}

impl Times {
    fn of(trials: &[&Trial]) -> Times {
        let middle = |field: fn(&Trial) -> f64| median(trials.iter().map(|t| field(t))).unwrap_or_default();
        // A time of 0 was not measured.
        let timed = |field: fn(&Trial) -> f64| median(trials.iter().map(|t| field(t)).filter(|ms| *ms > 0.0));
        Times {
            front_ms: middle(|t| t.front_ms),
            drafter_front_ms: middle(|t| t.drafter_front_ms),
            draft_ms: middle(|t| t.stats.timings.draft_ms),
            verify_ms: middle(|t| t.stats.timings.verify_ms),
            other_ms: middle(|t| t.stats.timings.other_ms),
            t1_ms: timed(|t| t.stats.timings.t1_ms),
            tk1_ms: timed(|t| t.stats.timings.tk1_ms),
            td_ms: timed(|t| t.stats.timings.td_ms),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests;
