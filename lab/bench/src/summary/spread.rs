//! How far figures over some clips would vary with other clips.

use serde::{Deserialize, Serialize};

use crate::{bootstrap::ratio_interval, trial::Trial};
use specreel_record::{PairedRatio, paired::LEAST};

const ROUNDS: usize = 2000;
/// Share of the resamplings that an interval covers.
const CONFIDENCE: f64 = 0.95;

/// 95 % intervals, from lower to upper end: of sums by bootstrap over clips, of the median speedup by the inverted sign test.
/// `None` where the figure itself is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Of the share of the true facts stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts_share: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_per_caption: Option<[f64; 2]>,
    /// Of the accepted drafts per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<[f64; 2]>,
    /// Of the median speedup of decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<[f64; 2]>,
    /// Of the median speedup from file to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<[f64; 2]>,
}

/// A ratio's parts on one clip: the trial's own, and the baseline's trial.
type Part<'a> = &'a dyn Fn(&Trial, Option<&Trial>) -> (usize, usize);

impl Spread {
    /// Of these trials, each a clip with the baseline's trial on it; `None` for fewer clips than [`LEAST`].
    pub(super) fn of(trials: &[(&Trial, Option<&Trial>)]) -> Option<Spread> {
        if trials.len() < LEAST {
            return None;
        }
        // A clip is drawn as a whole: its facts and its steps belong together.
        let interval = |part: Part<'_>| {
            let parts: Vec<(f64, f64)> = trials
                .iter()
                .map(|(own, baseline)| part(own, *baseline))
                .map(|(above, below)| (above as f64, below as f64))
                .collect();
            ratio_interval(&parts, CONFIDENCE, ROUNDS, 0).map(|(low, high)| [low, high])
        };
        let paired = |ratio: fn(&Trial) -> Option<f64>| {
            let ratios: Vec<f64> = trials.iter().filter_map(|(own, _)| ratio(own)).collect();
            PairedRatio::of(&ratios).map(|ratio| [ratio.low, ratio.high])
        };
        Some(Spread {
            facts_share: interval(&|own, _| (own.facts.right, own.facts.total)),
            retention: interval(&|own, baseline| (own.facts.right, baseline.map_or(0, |t| t.facts.right))),
            precision: interval(&|own, _| (own.facts.right, own.facts.said())),
            false_per_caption: interval(&|own, _| (own.facts.false_facts(), 1)),
            tau: interval(&|own, _| (own.stats.accepted as usize, own.stats.steps as usize)),
            decode: paired(|trial| Some(trial.pair?.decode_ratio)),
            end_to_end: paired(|trial| Some(trial.pair?.end_to_end_ratio)),
        })
    }
}
