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

pub use error::{MethodError, Origin, Problem};
pub use schema::{AXES, Axis, Key, Kind, Value};

use serde::{Deserialize, Serialize};

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
}

/// Which visual tokens the drafter sees. Budget of kept tokens: floor(n · keep + 1e-9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Context {
    /// All of them.
    Full {},
    /// None: text-only drafting.
    None {},
    /// A seeded random subset.
    Random {
        /// Share kept, 0 to 1.
        keep: f64,
        /// Seed of the choice.
        #[serde(default)]
        seed: u64,
    },
    /// Evenly spaced in the flattened order.
    Uniform {
        /// Share kept, 0 to 1.
        keep: f64,
    },
    /// Whole frames at even intervals.
    Frames {
        /// Share of frames kept, 0 to 1; at least one frame where any token is kept.
        keep: f64,
    },
}

/// What is proposed in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// A chain of at most `length` tokens.
    Chain {
        /// K, at least 1.
        length: usize,
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
    /// A mismatch passes with this probability.
    Random {
        /// 0 to 1.
        probability: f64,
        /// Seed of the choice.
        #[serde(default)]
        seed: u64,
    },
}

/// When drafting and verifying happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// One after the other.
    Sequential {},
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
    pub context: Context,
    /// What is proposed.
    pub shape: Shape,
    /// What passes.
    pub acceptance: Acceptance,
    /// When.
    pub schedule: Schedule,
}
