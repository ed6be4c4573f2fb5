//! The figures of the papers' tables: their names, and how they are written.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Accepted drafts per step, bonus not counted.
    Tau,
    /// Emitted tokens per step: the bonus counted.
    TauBonus,
    /// Accepted drafts over rejects under the parallel schedule, those after the last reject included; emitted tokens per step
    /// under the sequential one (M of ParallelVLM).
    MeanRun,
    /// The share of a pruned target's text that the whole target would have written, token by token (A of ParallelVLM).
    TextShare,
    /// Accepted over drafted.
    AcceptedShare,
    /// Drafted and not accepted, over drafted.
    FailureRate,
    Speedup,
    /// Speedup from file to last token.
    EndToEnd,
    /// Decode speedup on other hardware, modelled from the steps.
    Modelled,
    /// A speedup of the paper as the cost model gives it at the paper's own acceptance: no figure of a run.
    Replayed,
    /// Right facts divided by autoregressive decoding's.
    Kept,
    /// Right facts over all facts stated.
    Precision,
    /// Time of a target row divided by the time of a drafter row.
    CostRatio,
    /// Computing visual relevance, over decoding time.
    RelevanceShare,
    /// Time of the target's video, tower and prefill.
    TargetPrefillMs,
    /// Time of the target's passes after the prefill.
    TargetDecodeMs,
    /// Time of the drafter's tower and prefill, selection included.
    DrafterPrefillMs,
    /// Time of drafting.
    DrafterDecodeMs,
    /// Time of choosing visual tokens.
    PruningMs,
    /// Time from file to last token.
    LatencyMs,
}

impl Measure {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Tau => "tau",
            Measure::TauBonus => "per step",
            Measure::MeanRun => "M",
            Measure::TextShare => "A",
            Measure::AcceptedShare => "accepted",
            Measure::FailureRate => "failures",
            Measure::Speedup => "decode",
            Measure::EndToEnd => "end to end",
            Measure::Modelled => "modelled",
            Measure::Replayed => "at the paper's acceptance",
            Measure::Kept => "kept",
            Measure::Precision => "precision",
            Measure::CostRatio => "c",
            Measure::RelevanceShare => "relevance",
            Measure::TargetPrefillMs => "target prefill",
            Measure::TargetDecodeMs => "target decode",
            Measure::DrafterPrefillMs => "drafter prefill",
            Measure::DrafterDecodeMs => "drafter decode",
            Measure::PruningMs => "pruning",
            Measure::LatencyMs => "latency",
        }
    }

    /// The figure of the papers that it is compared with: a modelled speedup with the paper's.
    pub(crate) fn of_paper(self) -> Measure {
        if self == Measure::Modelled { Measure::Speedup } else { self }
    }

    /// Its name in data.
    pub(crate) fn key(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
    }

    /// True if two rows that a paper reports differ by no more than its figures vary: 2.5 points of accuracy, else 2 %.
    pub(crate) fn is_tie(self, upper: f64, lower: f64) -> bool {
        let between = (upper - lower).abs();
        match self {
            Measure::Kept | Measure::TextShare => between <= 0.025,
            _ => between <= 0.02 * upper.abs().max(lower.abs()),
        }
    }

    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Measure::Speedup | Measure::EndToEnd | Measure::Modelled | Measure::Replayed => {
                format!("{value:.2}x")
            }
            Measure::TextShare
            | Measure::AcceptedShare
            | Measure::FailureRate
            | Measure::Kept
            | Measure::Precision
            | Measure::RelevanceShare => format!("{:.1} %", value * 100.0),
            Measure::TargetPrefillMs
            | Measure::TargetDecodeMs
            | Measure::DrafterPrefillMs
            | Measure::DrafterDecodeMs
            | Measure::PruningMs
            | Measure::LatencyMs
                if value >= 1000.0 =>
            {
                format!("{:.2} s", value / 1000.0)
            }
            Measure::TargetPrefillMs
            | Measure::TargetDecodeMs
            | Measure::DrafterPrefillMs
            | Measure::DrafterDecodeMs
            | Measure::PruningMs
            | Measure::LatencyMs => format!("{value:.2} ms"),
            Measure::Tau | Measure::TauBonus | Measure::MeanRun | Measure::CostRatio => format!("{value:.2}"),
        }
    }
}
