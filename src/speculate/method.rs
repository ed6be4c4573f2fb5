//! A method is five choices: drafter, context, shape, acceptance, schedule.
//!
//! Methods are data: presets are TOML files in `assets/methods` (embedded in the program), users' own are files of the same
//! form, and `--set axis.key=value` changes one value of either. [`Method::validate`] refuses what cannot work, naming the
//! two choices that clash and what to pick instead; [`Method::lossless`] says whether the output is exactly that of
//! autoregressive decoding (in distribution, where sampling).
//!
//! The data stands here; reading it is `parse`, the presets are `preset`, what is refused is `check`, and the words for
//! people are `describe`. `schema` is the one list of what may be written in a file.

mod check;
mod describe;
mod error;
mod parse;
mod preset;
mod schema;

pub use error::{MethodError, Origin, Problem, suggest};
pub use schema::{AXES, Axis, Key, Kind, Value};

use serde::{Deserialize, Serialize};

use crate::model::draft_head::Recipe;

/// Who proposes tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Drafter {
    /// Nobody: the target decodes alone.
    None {},
    /// A smaller checkpoint of the same family.
    Model {},
    /// The target itself, with a reduced visual context; weights are shared.
    #[serde(rename = "self")]
    Target {},
    /// The target's first layers, then its norm and head (LayerSkip); weights are shared.
    EarlyExit {
        /// Share of the layers that run, above 0, below 1; at least one does.
        depth: f64,
    },
    /// One layer that goes on from the target's states, with the target's embeddings and head (Sparrow).
    Sparrow {
        /// How it was trained: with several loaded, the one of this recipe drafts.
        #[serde(default)]
        recipe: Recipe,
    },
    /// Nobody thinks: what followed the last words where they occurred before, in the prompt or the caption.
    Lookup {
        /// Longest run of tokens that is looked for.
        ngram: usize,
    },
}

/// Which positions the kept visual tokens have for the drafter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// Those that they have in the whole video.
    #[default]
    Original,
    /// Numbered anew without gaps, like text (SpecVLM's code).
    Compact,
}

impl Placing {
    fn is_original(&self) -> bool {
        *self == Placing::Original
    }
}

/// A part of the flattened order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The first tokens.
    Front,
    /// Those around the middle.
    Middle,
    /// The last.
    End,
}

/// Whose keys and values stand in the drafter's cache for accepted tokens, where drafter and target are one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedRows {
    /// Those of the verify pass, which saw everything.
    #[default]
    Dense,
    /// Those that the drafter wrote itself.
    Sparse,
}

/// Which visual tokens the drafter sees. Budget of kept tokens: floor(n · keep + 1e-9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum VisualContext {
    /// All of them.
    Full {},
    /// None: text-only drafting.
    None {
        /// Positions of the text after the video.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// A seeded random subset.
    Random {
        /// Share kept, 0 to 1.
        keep: f64,
        /// Seed of the choice.
        #[serde(default)]
        seed: u64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// Evenly spaced in the flattened order.
    Uniform {
        /// Share kept, 0 to 1.
        keep: f64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// Whole frames at even intervals.
    Frames {
        /// Share of frames kept, 0 to 1; at least one frame where any token is kept.
        keep: f64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// One run of neighbours in the flattened order.
    Window {
        /// Which run.
        part: Part,
        /// Share kept, 0 to 1.
        keep: f64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// The first and the last tokens (StreamingLLM's sinks and window).
    Streaming {
        /// Tokens kept at the start.
        first: usize,
        /// Tokens kept at the end.
        last: usize,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// Those that the target's text looks at, and an even spread of the rest (SpecVLM's two stages).
    Attention {
        /// Share kept, 0 to 1.
        keep: f64,
        /// Stage one keeps the fewest tokens that hold this share of all attention, as far as the budget goes.
        mass: f64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// Those whose likeness to the text grows most through the target's layers (ParallelVLM's UV-Prune).
    Variation {
        /// Share kept, 0 to 1.
        keep: f64,
        /// Share of the target's layers after which likeness is taken, above 0, up to 1.
        #[serde(default = "half")]
        depth: f64,
        /// Positions of the kept tokens.
        #[serde(default, skip_serializing_if = "Placing::is_original")]
        positions: Placing,
    },
    /// In each layer and key head the visual tokens that the text looks at most (STD); the drafter is the target itself.
    TopKKv {
        /// Share kept in each head, 0 to 1.
        keep: f64,
        /// Whose rows accepted tokens leave.
        #[serde(default)]
        rows: AcceptedRows,
    },
}

fn one() -> f32 {
    1.0
}

fn half() -> f64 {
    0.5
}

impl VisualContext {
    /// Which positions the kept tokens have.
    pub fn placing(&self) -> Placing {
        match self {
            VisualContext::Full {} | VisualContext::TopKKv { .. } => Placing::Original,
            VisualContext::None { positions }
            | VisualContext::Random { positions, .. }
            | VisualContext::Uniform { positions, .. }
            | VisualContext::Frames { positions, .. }
            | VisualContext::Window { positions, .. }
            | VisualContext::Streaming { positions, .. }
            | VisualContext::Attention { positions, .. }
            | VisualContext::Variation { positions, .. } => *positions,
        }
    }
}

/// How many tokens a chain has at most, or a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Length {
    /// This many.
    Fixed(usize),
    /// As many as pay off, by measured times and acceptance.
    Auto(Auto),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// As written.
    Auto,
}

impl Length {
    /// Chosen while it runs.
    pub const AUTO: Length = Length::Auto(Auto::Auto);
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Length::Fixed(n) => write!(f, "{n}"),
            Length::Auto(_) => f.write_str("automatic length"),
        }
    }
}

/// What is proposed in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// A chain of at most `length` tokens.
    Chain {
        /// K, at least 1, or `auto`.
        length: Length,
    },
    /// A tree of fixed form: nodes named by the rank of each choice on the way to them.
    StaticTree {
        /// Such as "0", "1", "00", "01"; without, SpecVLM's 25 nodes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<String>,
    },
    /// Two chains that begin with the drafter's two best tokens (LVSpec, appendix E).
    TwoBranch {
        /// Tokens of each, at least 1.
        length: usize,
    },
    /// The drafter's most likely continuations (EAGLE-2).
    DynamicTree {
        /// Nodes that are kept, the root counted.
        total: usize,
        /// Levels that are drafted.
        depth: usize,
        /// Nodes that are expanded on each level, and choices of each.
        width: usize,
    },
}

/// Which probabilities the entropy is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntropyOver {
    /// The three largest probabilities, not renormalised (FLy's code).
    #[default]
    Top3,
    /// The whole distribution.
    Full,
}

/// Which proposals pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Acceptance {
    /// Only what the target itself would write.
    Exact {},
    /// min(1, p/q): keeps the target's distribution at any temperature; the same as exact when greedy.
    Sampled {},
    /// A match, or the target's entropy is at least `threshold` nats.
    Entropy {
        /// In nats.
        threshold: f32,
        /// Over which probabilities.
        #[serde(default)]
        entropy: EntropyOver,
    },
    /// FLy: a mismatch with entropy at least `threshold`, followed by `length` - 1 exact matches.
    Window {
        /// W, counting the mismatch itself; at least 1.
        length: usize,
        /// In nats.
        threshold: f32,
        /// Over which probabilities.
        #[serde(default)]
        entropy: EntropyOver,
    },
    /// LVSpec: strict on visual tokens, loose on the rest.
    Visual {
        /// Share of the drafted tokens that is loosened, 0 to 1.
        lambda: f64,
        /// N of the relevance: mean of the N largest cosine similarities.
        top_n: usize,
        /// Also pass where the target's token occurs elsewhere among the drafts.
        #[serde(default)]
        shift_tolerant: bool,
        /// Words that are never loosened (compared with the token's trimmed lower-case text).
        #[serde(default)]
        always_strict: Vec<String>,
    },
    /// A mismatch passes where p(draft) >= rho · max p.
    Lenient {
        /// 0 to 1.
        rho: f32,
    },
    /// A mismatch passes where the Kullback-Leibler divergence of the drafter's distribution from the target's is below
    /// `threshold` nats.
    Divergence {
        /// In nats.
        threshold: f32,
    },
    /// A mismatch passes where what it may cost is below `limit` nats: how far the drafter's distribution is from the target's
    /// (Kullback-Leibler), plus `ratio` times how much less likely the draft is to the target than its best token (ours).
    Cost {
        /// In nats.
        limit: f32,
        /// Weight of the second part, 0 or more.
        #[serde(default = "one")]
        ratio: f32,
    },
    /// Strict where the target stares at one visual token, loose on the rest: relevance is the largest attention weight on one
    /// visual token in the row that predicts the draft, mean over layers and heads.
    Glance {
        /// Share of the drafted tokens that is loosened, 0 to 1.
        lambda: f64,
    },
    /// A mismatch passes where every one of these rules passes it.
    AllOf {
        /// The rules, two or more.
        rules: Vec<Acceptance>,
    },
    /// A mismatch passes with this probability.
    Random {
        /// 0 to 1.
        probability: f64,
        /// Seed of the choice.
        #[serde(default)]
        seed: u64,
    },
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

/// When drafting and verifying happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// One after the other.
    Sequential {},
    /// Side by side: while the target verifies one window, the drafter writes the next (ParallelVLM on PEARL).
    Parallel {
        /// Tokens of a window, or `auto`: as many as the drafter writes while the target makes one pass.
        window: Length,
    },
}

/// A decoding method.
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
    /// Who proposes.
    pub drafter: Drafter,
    /// What the drafter sees.
    pub context: VisualContext,
    /// What is proposed.
    pub shape: Shape,
    /// What passes.
    pub acceptance: Acceptance,
    /// When.
    pub schedule: Schedule,
}
