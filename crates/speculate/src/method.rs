//! A method is five choices: drafter, context, shape, acceptance, schedule.
//!
//! Methods are data: presets are TOML files in `assets/methods` (embedded in the program), users' own are files of the same
//! form, and `--set axis.key=value` changes one value of either. [`Method::validate`] refuses what cannot work, naming the
//! two choices that clash and what to pick instead; [`Method::lossless`] says whether the output is exactly the output of
//! autoregressive decoding (in distribution, where sampling).
//!
//! `axes` is the one table of axes, kinds and keys with their types, defaults, ranges, steps and words; `table` derives everything
//! else from it. `parse` reads methods, `preset` holds the embedded ones, `check` refuses combinations that cannot work.

mod axes;
mod check;
mod defaults;
mod error;
mod needs;
mod parse;
mod preset;
mod rule;
pub mod sets;
mod short;
mod table;
mod values;

pub use axes::{AXES, Acceptance, Drafter, Schedule, Shape, VisualContext};
pub use error::{MethodError, Origin, Problem, closest, suggest};
pub use rule::{RelevanceNeeds, RuleNeeds};
pub use short::with_axis;
pub use table::{Axis, Key, Kind, Range, Value};
pub use values::{
    AcceptedRows, Auto, EntropyOver, Length, Limit, Occurrence, Part, Placing, SelfDraftType, Stamps,
    StateAt, Unit, WindowRule, WindowSize,
};

use serde::{Deserialize, Serialize};

use super::{auto, tree};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Short name: lower case, digits, hyphens.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub about: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// What proposes tokens.
    pub drafter: Drafter,
    /// What the drafter sees.
    pub context: VisualContext,
    /// In what form tokens are proposed.
    pub shape: Shape,
    pub acceptance: Acceptance,
    /// When drafting and verifying happen.
    pub schedule: Schedule,
}

impl Default for Method {
    /// The preset `autoregressive`: the target alone, which every other method is compared with.
    fn default() -> Self {
        Self {
            name: "autoregressive".into(),
            about: "The target alone, one token per pass: the baseline of every speedup".into(),
            paper: None,
            drafter: Drafter::None {},
            context: VisualContext::None { positions: Placing::default(), stamps: Stamps::default() },
            shape: Shape::Chain { length: Length::Fixed(1), gate: 0.0, confidence: 0.0 },
            acceptance: Acceptance::Exact {},
            schedule: Schedule::Sequential {},
        }
    }
}

impl Method {
    /// The five choices in one line, for example
    /// `draft model · sees 10 % evenly spaced · chain of 5 · exact matches pass · sequential`.
    pub fn describe(&self) -> String {
        let words = [
            self.drafter.describe(),
            self.context.describe(),
            self.shape.describe(),
            self.acceptance.describe(),
            self.schedule.describe(),
        ];
        words.join(" · ")
    }

    /// The kind of each axis, in the order of [`AXES`].
    pub fn kinds(&self) -> [&'static str; 5] {
        [
            self.drafter.kind(),
            self.context.kind(),
            self.shape.kind(),
            self.acceptance.kind(),
            self.schedule.kind(),
        ]
    }

    /// All keys of the five choices that are numbers, with their values: those that are rarely adjusted last, otherwise acceptance
    /// first, then shape, context, drafter and schedule. Under the parallel schedule a gate is none of them: it has to be 0.
    pub fn numbers(&self) -> Vec<(&'static Axis, &'static Key, f64)> {
        let [drafter, context, shape, acceptance, schedule] = &AXES;
        let all = [
            (acceptance, self.acceptance.numbers()),
            (shape, self.shape.numbers()),
            (context, self.context.numbers()),
            (drafter, self.drafter.numbers()),
            (schedule, self.schedule.numbers()),
        ];
        let with_axis = |(axis, numbers): (&'static Axis, Vec<(&'static Key, f64)>)| {
            numbers.into_iter().map(move |(key, value)| (axis, key, value))
        };
        let parallel = matches!(self.schedule, Schedule::Parallel { .. });
        let is_fixed = |axis: &Axis, key: &Key| parallel && (axis.name, key.name) == ("shape", "gate");
        let mut numbers: Vec<_> = all.into_iter().flat_map(with_axis).collect();
        numbers.retain(|(axis, key, _)| !is_fixed(axis, key));
        numbers.sort_by_key(|(_, key, _)| key.minor);
        numbers
    }

    /// True if the target decodes alone: the baseline of all other methods.
    pub fn is_autoregressive(&self) -> bool {
        !self.drafts()
    }

    /// True with speculation.
    pub fn drafts(&self) -> bool {
        self.drafter != (Drafter::None {})
    }

    /// Drafts of a full step; `None` without a drafter, and where the number changes from step to step.
    pub fn draft_length(&self) -> Option<usize> {
        if !self.drafts() {
            return None;
        }
        match (&self.shape, &self.schedule) {
            (_, Schedule::Parallel { window: WindowSize::Fixed(n) }) => Some(*n),
            (_, Schedule::Parallel { .. }) => None,
            (shape, Schedule::Sequential {}) => shape.drafts(),
        }
    }
}

impl Drafter {
    /// The target itself, in its own weights.
    pub const SELF: Drafter = Drafter::Target { dtype: SelfDraftType::Own };

    /// True if it is a decoder, which has to prefill the prompt.
    pub fn reads(&self) -> bool {
        !matches!(self, Drafter::None {} | Drafter::Auto {} | Drafter::Lookup { .. })
    }
}

impl VisualContext {
    /// The context that stands for one of the [`SHARES`](auto::SHARES) of `auto`: all, none, or SpecVLM's choice.
    pub fn of_share(share: f64) -> Self {
        let (positions, stamps) = Default::default();
        match share {
            share if share >= 1.0 => VisualContext::Full {},
            share if share <= 0.0 => VisualContext::None { positions, stamps },
            keep => VisualContext::Attention { keep, mass: 0.5, positions, stamps },
        }
    }

    /// The share whose [`of_share`](Self::of_share) it is.
    pub fn share(&self) -> Option<f64> {
        auto::SHARES.into_iter().find(|share| *self == Self::of_share(*share))
    }

    /// True if it says which part of the visual tokens is kept.
    pub fn is_reduced(&self) -> bool {
        !matches!(self, VisualContext::Full {} | VisualContext::Auto {} | VisualContext::None { .. })
    }

    /// Which positions the kept tokens have.
    pub fn placing(&self) -> Placing {
        match self {
            VisualContext::Full {}
            | VisualContext::Auto {}
            | VisualContext::TopKKv { .. }
            | VisualContext::DyCoke { .. }
            | VisualContext::FastVid { .. } => Placing::Original,
            VisualContext::None { positions, .. }
            | VisualContext::Random { positions, .. }
            | VisualContext::Uniform { positions, .. }
            | VisualContext::Frames { positions, .. }
            | VisualContext::Window { positions, .. }
            | VisualContext::Streaming { positions, .. }
            | VisualContext::Attention { positions, .. }
            | VisualContext::Variation { positions, .. } => *positions,
        }
    }

    /// What happens to the time stamps of temporal grids of which no visual token is kept.
    pub fn stamps(&self) -> Stamps {
        match self {
            VisualContext::Full {}
            | VisualContext::Auto {}
            | VisualContext::DyCoke { .. }
            | VisualContext::FastVid { .. } => Stamps::Keep,
            VisualContext::None { stamps, .. }
            | VisualContext::Random { stamps, .. }
            | VisualContext::Uniform { stamps, .. }
            | VisualContext::Frames { stamps, .. }
            | VisualContext::Window { stamps, .. }
            | VisualContext::Streaming { stamps, .. }
            | VisualContext::Attention { stamps, .. }
            | VisualContext::Variation { stamps, .. }
            | VisualContext::TopKKv { stamps, .. } => *stamps,
        }
    }
}

impl Shape {
    /// Share of the steps without drafts, those where the target's attention peaks highest on one visual token.
    pub fn gate(&self) -> f64 {
        match self {
            Shape::Chain { gate, .. } => *gate,
            _ => 0.0,
        }
    }

    /// The least probability under the drafter of a token that is drafted.
    pub fn confidence(&self) -> f64 {
        match self {
            Shape::Chain { confidence, .. }
            | Shape::StaticTree { confidence, .. }
            | Shape::TwoBranch { confidence, .. }
            | Shape::DynamicTree { confidence, .. } => *confidence,
        }
    }

    /// Drafts of a full step; `None` where the number changes from step to step.
    pub fn drafts(&self) -> Option<usize> {
        match self {
            Shape::Chain { length: Length::Fixed(length), .. } => Some(*length),
            Shape::Chain { length: Length::Auto(_), .. } => None,
            Shape::StaticTree { nodes, .. } if nodes.is_empty() => Some(tree::SPECVLM.len()),
            Shape::StaticTree { nodes, .. } => Some(nodes.len()),
            Shape::TwoBranch { length, .. } => Some(2 * length),
            Shape::DynamicTree { total, .. } => Some(total.saturating_sub(1)),
        }
    }

    /// Most drafts that one branch can have.
    pub fn longest(&self) -> usize {
        match self {
            Shape::Chain { length: Length::Fixed(length), .. } | Shape::TwoBranch { length, .. } => *length,
            Shape::Chain { length: Length::Auto(_), .. } => auto::LONGEST,
            Shape::StaticTree { nodes, .. } if nodes.is_empty() => 5,
            Shape::StaticTree { nodes, .. } => nodes.iter().map(String::len).max().unwrap_or(0),
            // The first level are the root's own choices.
            Shape::DynamicTree { depth, .. } => depth + 1,
        }
    }
}

impl Acceptance {
    /// Words that are never loosened.
    pub fn always_strict(&self) -> &[String] {
        match self {
            Acceptance::Visual { always_strict, .. } => always_strict,
            Acceptance::AllOf { rules } => rules
                .iter()
                .map(Acceptance::always_strict)
                .find(|words| !words.is_empty())
                .unwrap_or_default(),
            _ => &[],
        }
    }
}

/// 0.1 as `10 %`, 0.125 as `12.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod table_tests;
