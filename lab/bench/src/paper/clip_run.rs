//! What one run on one clip leaves, and the figures that follow from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    catalog::Row,
    figure::{Figure, Part},
    measures::Measure,
};
use crate::{FactCount, Trial};
use specreel_record::Timings;

/// What a run on one clip leaves for the tables; a line of the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClipRun {
    pub(crate) clip: u64,
    pub(crate) run: String,
    /// Which draw of what the method leaves to chance, from 0.
    #[serde(skip_serializing_if = "is_first")]
    pub(crate) draw: u64,
    pub(crate) accepted: Vec<u32>,
    pub(crate) drafted: u64,
    pub(crate) emitted: u64,
    /// Emitted tokens that the target would not have written itself.
    pub(crate) loosened: u64,
    /// Passes that rejected a draft, where drafting and verifying overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejects: Option<u64>,
    /// Of a pruned target: the share of its text that the whole target would have written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text_share: Option<f64>,
    /// Decode speed divided by autoregressive decoding's on the clip.
    #[serde(alias = "decode", skip_serializing_if = "Option::is_none")]
    pub(crate) decode_ratio: Option<f64>,
    /// The same from file to last token.
    #[serde(alias = "end_to_end", skip_serializing_if = "Option::is_none")]
    pub(crate) end_to_end_ratio: Option<f64>,
    /// By profile: what autoregressive decoding of as many tokens and this run take, modelled from the steps.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) modelled: BTreeMap<String, Times>,
    /// The visual tokens that the drafter, or a pruned target, saw; `None` if all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<Vec<u32>>,
    pub(crate) facts: FactCount,
    pub(crate) plain_right: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) equal: Option<bool>,
    /// Times, in milliseconds. Work reused from an earlier run on the clip is 0.
    pub(crate) timings: Timings,
    /// Time before the first token of the drafter alone, reused work included.
    pub(crate) drafter_front_ms: f64,
    /// Time before the first token that all methods share.
    pub(crate) front_ms: f64,
}

/// Modelled times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub(crate) plain_ms: f64,
    pub(crate) total_ms: f64,
}

fn is_first(draw: &u64) -> bool {
    *draw == 0
}

impl ClipRun {
    /// A trial, which draw it is, what else its run left, and the right facts of its baseline.
    pub fn of(
        trial: &Trial,
        draw: u64,
        accepted: Vec<u32>,
        kept: Option<Vec<u32>>,
        modelled: BTreeMap<String, Times>,
        plain_right: usize,
    ) -> ClipRun {
        let stats = &trial.stats;
        ClipRun {
            clip: trial.clip,
            run: trial.system.clone(),
            draw,
            accepted,
            drafted: stats.drafted,
            emitted: stats.emitted,
            loosened: stats.verdicts.loosened(),
            rejects: stats.rejects,
            text_share: stats.accepted_share,
            decode_ratio: trial.pair.map(|pair| pair.decode_ratio),
            end_to_end_ratio: trial.pair.map(|pair| pair.end_to_end_ratio),
            modelled,
            kept,
            facts: trial.facts,
            plain_right,
            equal: stats.equality.as_ref().map(|e| e.equal),
            timings: stats.timings.clone(),
            drafter_front_ms: trial.drafter_front_ms,
            front_ms: trial.front_ms,
        }
    }

    fn accepted(&self) -> f64 {
        f64::from(self.accepted.iter().sum::<u32>())
    }
}

impl Measure {
    /// The figure of a row over the clips of a run, of each its draws, modelled under this profile; `None` if the row's method lacks
    /// the figure.
    pub fn of(self, row: &Row, profile: Option<&str>, runs: &[Vec<&ClipRun>]) -> Option<Figure> {
        let own = |draws: &Vec<&ClipRun>| -> Vec<Part> {
            draws.iter().filter_map(|run| self.part(row, profile, run)).collect()
        };
        let parts: Vec<Vec<Part>> = runs.iter().map(own).collect();
        Figure::of_draws(&parts)
    }

    fn part(self, row: &Row, profile: Option<&str>, run: &ClipRun) -> Option<Part> {
        let (t, steps) = (&run.timings, run.accepted.len() as f64);
        let speculative = run.drafted > 0;
        let timed = |ms: f64| (ms > 0.0).then_some(Part::Value(ms));
        match self {
            Measure::Tau => {
                let (accepted, steps) = row.chosen(&run.accepted)?;
                speculative.then_some(Part::Ratio(accepted, steps))
            }
            // Each of the first steps emits one token more than it accepts.
            Measure::TauBonus if row.step.or(row.first_steps).is_some() => {
                let (accepted, steps) = row.chosen(&run.accepted)?;
                speculative.then_some(Part::Ratio(accepted + steps, steps))
            }
            Measure::TauBonus => speculative.then_some(Part::Ratio(run.emitted as f64, steps)),
            // A run without a reject adds its drafts and no reject: it is longer than was seen, not as long as a step.
            Measure::MeanRun if row.overlaps() => {
                run.rejects.filter(|_| speculative).map(|n| Part::Ratio(run.accepted(), n as f64))
            }
            Measure::MeanRun => speculative.then_some(Part::Ratio(run.emitted as f64, steps)),
            Measure::TextShare => {
                let tokens = run.emitted as f64;
                // The same text is what the whole target would have written.
                let same = (run.equal == Some(true)).then_some(1.0);
                run.text_share.or(same).map(|share| Part::Ratio(share * tokens, tokens))
            }
            Measure::AcceptedShare => speculative.then(|| Part::Ratio(run.accepted(), run.drafted as f64)),
            Measure::FailureRate => {
                let drafted = run.drafted as f64;
                speculative.then(|| Part::Ratio(drafted - run.accepted(), drafted))
            }
            Measure::Speedup => run.decode_ratio.map(Part::Value),
            Measure::EndToEnd => run.end_to_end_ratio.map(Part::Value),
            // Pooled: a clip counts by its time, as in a speedup of all clips one after another.
            Measure::Modelled => {
                run.modelled.get(profile?).map(|times| Part::Ratio(times.plain_ms, times.total_ms))
            }
            Measure::Replayed => None,
            Measure::Kept => Some(Part::Ratio(run.facts.right as f64, run.plain_right as f64)),
            Measure::Precision => Some(Part::Ratio(run.facts.right as f64, run.facts.said() as f64)),
            Measure::CostRatio => (t.td_ms > 0.0 && t.t1_ms > 0.0).then(|| Part::Value(t.t1_ms / t.td_ms)),
            Measure::RelevanceShare => Some(Part::Ratio(t.relevance_ms, t.generate_ms())),
            Measure::TargetPrefillMs => timed(run.front_ms),
            Measure::TargetDecodeMs => timed(t.verify_ms),
            Measure::DrafterPrefillMs => timed(run.drafter_front_ms).filter(|_| speculative),
            Measure::DrafterDecodeMs => timed(t.draft_ms).filter(|_| speculative),
            Measure::PruningMs => timed(t.select_ms),
            Measure::LatencyMs => timed(run.front_ms + run.drafter_front_ms + t.generate_ms()),
        }
    }
}

#[cfg(test)]
mod tests;
