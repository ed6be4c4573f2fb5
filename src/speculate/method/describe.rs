//! Methods in words.

use super::{
    Acceptance, AcceptedRows, Drafter, EntropyOver, Length, Method, Part, Placing, Schedule, Shape,
    VisualContext,
};
use crate::{
    model::draft_head::Recipe,
    speculate::{auto, tree},
};

impl Method {
    /// The five choices in one line, for example
    /// `small model drafts · sees 10 % evenly spaced · chain of 5 · exact matches pass · sequential`.
    pub fn describe(&self) -> String {
        self.choices().map(|(_, words)| words).join(" · ")
    }

    /// The five choices as (axis, words), in order.
    pub fn choices(&self) -> [(&'static str, String); 5] {
        [
            ("drafter", self.drafter.describe()),
            ("context", self.context.describe()),
            ("shape", self.shape.describe()),
            ("acceptance", self.acceptance.describe()),
            ("schedule", self.schedule.describe()),
        ]
    }
}

impl Method {
    /// Drafts of a full step; none without a drafter, and where the number changes from step to step.
    pub fn draft_length(&self) -> Option<usize> {
        if matches!(self.drafter, Drafter::None {}) {
            return None;
        }
        match (&self.shape, &self.schedule) {
            (_, Schedule::Parallel { window: Length::Fixed(n) }) => Some(*n),
            (_, Schedule::Parallel { .. }) => None,
            (shape, Schedule::Sequential {}) => shape.drafts(),
        }
    }
}

impl Drafter {
    /// True if it is a decoder that has to have read the prompt.
    pub fn reads(&self) -> bool {
        !matches!(self, Drafter::None {} | Drafter::Lookup { .. })
    }

    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Drafter::None {} => "none",
            Drafter::Model {} => "model",
            Drafter::Target {} => "self",
            Drafter::EarlyExit { .. } => "early_exit",
            Drafter::Sparrow { .. } => "sparrow",
            Drafter::Lookup { .. } => "lookup",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Drafter::None {} => "no drafter".into(),
            Drafter::Model {} => "small model drafts".into(),
            Drafter::Target {} => "target drafts for itself".into(),
            Drafter::EarlyExit { depth } => format!("target's first {} of layers draft", percent(*depth)),
            Drafter::Sparrow { recipe: Recipe::Sparrow } => "a layer drafts from the target's states".into(),
            Drafter::Sparrow { recipe: Recipe::Msd } => {
                "a layer drafts from the target's states (MSD)".into()
            }
            Drafter::Lookup { ngram } => format!("repeats what followed the last {ngram} tokens before"),
        }
    }
}

impl VisualContext {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            VisualContext::Full {} => "full",
            VisualContext::None { .. } => "none",
            VisualContext::Random { .. } => "random",
            VisualContext::Uniform { .. } => "uniform",
            VisualContext::Frames { .. } => "frames",
            VisualContext::Window { .. } => "window",
            VisualContext::Streaming { .. } => "streaming",
            VisualContext::Attention { .. } => "attention",
            VisualContext::Variation { .. } => "variation",
            VisualContext::TopKKv { .. } => "top_k_kv",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        let words = match self {
            VisualContext::Full {} => "sees all visual tokens".into(),
            VisualContext::None { .. } => "sees no visual tokens".into(),
            VisualContext::Random { keep, .. } => format!("sees {} at random", percent(*keep)),
            VisualContext::Uniform { keep, .. } => format!("sees {} evenly spaced", percent(*keep)),
            VisualContext::Frames { keep, .. } => format!("sees {} of the frames", percent(*keep)),
            VisualContext::Window { part, keep, .. } => {
                let part = match part {
                    Part::Front => "at the front",
                    Part::Middle => "in the middle",
                    Part::End => "at the end",
                };
                format!("sees {} {part}", percent(*keep))
            }
            VisualContext::Streaming { first, last, .. } => format!("sees the first {first} and last {last}"),
            VisualContext::Attention { keep, mass, .. } => {
                format!("sees {} by attention (mass {mass})", percent(*keep))
            }
            VisualContext::Variation { keep, .. } => format!("sees {} by variation", percent(*keep)),
            VisualContext::TopKKv { keep, rows } => {
                let rows = if *rows == AcceptedRows::Sparse { ", its own rows" } else { "" };
                format!("sees {} in each head{rows}", percent(*keep))
            }
        };
        match self.placing() {
            Placing::Original => words,
            Placing::Compact => words + ", renumbered",
        }
    }
}

impl Shape {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Shape::Chain { .. } => "chain",
            Shape::StaticTree { .. } => "static_tree",
            Shape::TwoBranch { .. } => "two_branch",
            Shape::DynamicTree { .. } => "dynamic_tree",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Shape::Chain { length } => format!("chain of {length}"),
            Shape::StaticTree { nodes } => {
                let count = if nodes.is_empty() { tree::SPECVLM.len() } else { nodes.len() };
                format!("tree of {count}")
            }
            Shape::TwoBranch { length } => format!("two branches of {length}"),
            Shape::DynamicTree { total, depth, width } => format!("dynamic tree {total}-{depth}-{width}"),
        }
    }
}

impl Shape {
    /// Drafts of a full step; none where the number changes from step to step.
    pub fn drafts(&self) -> Option<usize> {
        match self {
            Shape::Chain { length: Length::Fixed(length) } => Some(*length),
            Shape::Chain { length: Length::Auto(_) } => None,
            Shape::StaticTree { nodes } if nodes.is_empty() => Some(tree::SPECVLM.len()),
            Shape::StaticTree { nodes } => Some(nodes.len()),
            Shape::TwoBranch { length } => Some(2 * length),
            Shape::DynamicTree { total, .. } => Some(total.saturating_sub(1)),
        }
    }

    /// Most drafts that one branch can have.
    pub fn longest(&self) -> usize {
        match self {
            Shape::Chain { length: Length::Fixed(length) } | Shape::TwoBranch { length } => *length,
            Shape::Chain { length: Length::Auto(_) } => auto::LONGEST,
            Shape::StaticTree { nodes } if nodes.is_empty() => 5,
            Shape::StaticTree { nodes } => nodes.iter().map(String::len).max().unwrap_or(0),
            Shape::DynamicTree { depth, .. } => *depth,
        }
    }
}

impl Acceptance {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Acceptance::Exact {} => "exact",
            Acceptance::Sampled {} => "sampled",
            Acceptance::Entropy { .. } => "entropy",
            Acceptance::Window { .. } => "window",
            Acceptance::Visual { .. } => "visual",
            Acceptance::Lenient { .. } => "lenient",
            Acceptance::Divergence { .. } => "divergence",
            Acceptance::Cost { .. } => "cost",
            Acceptance::Glance { .. } => "glance",
            Acceptance::AllOf { .. } => "all_of",
            Acceptance::Random { .. } => "random",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Acceptance::Exact {} => "exact matches pass".into(),
            Acceptance::Sampled {} => "passes by min(1, p/q)".into(),
            Acceptance::Entropy { threshold, entropy } => format!("entropy ≥ {threshold}{}", over(*entropy)),
            Acceptance::Window { length, threshold, entropy } => {
                format!("entropy ≥ {threshold}{}, window of {length}", over(*entropy))
            }
            Acceptance::Visual { lambda, top_n, shift_tolerant, always_strict } => {
                let shifts = if *shift_tolerant { ", shifts" } else { "" };
                let strict = match always_strict.len() {
                    0 => String::new(),
                    1 => ", 1 word always strict".into(),
                    n => format!(", {n} words always strict"),
                };
                format!("visual λ {lambda}, N {top_n}{shifts}{strict}")
            }
            Acceptance::Lenient { rho } => format!("lenient ρ {rho}"),
            Acceptance::Divergence { threshold } => format!("divergence < {threshold}"),
            Acceptance::Cost { limit, ratio } if *ratio == 1.0 => format!("cost < {limit}"),
            Acceptance::Cost { limit, ratio } => format!("cost < {limit}, ratio {ratio}"),
            Acceptance::Glance { lambda } => format!("glance λ {lambda}"),
            Acceptance::AllOf { rules } => {
                rules.iter().map(Acceptance::describe).collect::<Vec<_>>().join(" and ")
            }
            Acceptance::Random { probability, .. } => format!("mismatch passes {}", percent(*probability)),
        }
    }
}

impl Schedule {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Schedule::Sequential {} => "sequential",
            Schedule::Parallel { .. } => "parallel",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Schedule::Sequential {} => "sequential".into(),
            Schedule::Parallel { window: Length::Fixed(n) } => format!("parallel, window of {n}"),
            Schedule::Parallel { window: Length::Auto(_) } => "parallel, window by measured times".into(),
        }
    }
}

fn over(entropy: EntropyOver) -> &'static str {
    match entropy {
        EntropyOver::Top3 => "",
        EntropyOver::Full => " (full)",
    }
}

/// 0.1 as `10 %`, 0.125 as `12.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_five() {
        let lvspec = Method::preset("lvspec").unwrap();
        assert_eq!(
            lvspec.describe(),
            "small model drafts · sees 10 % evenly spaced · chain of 10 · visual λ 0.7, N 10, shifts · sequential"
        );
        assert_eq!(
            Method::preset("fly").unwrap().describe(),
            "small model drafts · sees 10 % evenly spaced · chain of 10 · entropy ≥ 0.2, window of 4 · sequential"
        );
        assert_eq!(percent(0.125), "12.5 %");
    }

    #[test]
    fn the_kinds_are_those_of_the_files() {
        for m in Method::presets() {
            let json = serde_json::to_value(m).unwrap();
            assert_eq!(json["drafter"]["kind"], m.drafter.kind());
            assert_eq!(json["context"]["kind"], m.context.kind());
            assert_eq!(json["shape"]["kind"], m.shape.kind());
            assert_eq!(json["acceptance"]["kind"], m.acceptance.kind());
            assert_eq!(json["schedule"]["kind"], m.schedule.kind());
        }
    }
}
