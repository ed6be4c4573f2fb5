//! The types of the keys that are neither numbers nor flags, and what each type takes in a file.

use serde::{Deserialize, Serialize};

use super::{
    Acceptance,
    table::{Field, Value},
};
use specreel_model::draft_head::Recipe;
use specreel_tensor::WeightType;

/// Positions of the kept visual tokens for the drafter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// Positions in the whole video.
    #[default]
    Original,
    /// Renumbered without gaps, like text (SpecVLM's code).
    Compact,
}

impl Placing {
    pub(super) fn is_original(&self) -> bool {
        *self == Placing::Original
    }

    /// The suffix of a context's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Placing::Original => "",
            Placing::Compact => ", renumbered",
        }
    }
}

/// Time stamps of temporal grids of which the drafter sees no visual token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// The drafter reads them, as it reads all text.
    #[default]
    Keep,
    /// They go with their visual tokens.
    Drop,
}

impl Stamps {
    pub(super) fn are_kept(&self) -> bool {
        *self == Stamps::Keep
    }

    /// The suffix of a context's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Stamps::Keep => "",
            Stamps::Drop => ", unused stamps dropped",
        }
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

impl Part {
    pub(super) fn words(self) -> &'static str {
        match self {
            Part::Front => "at the front",
            Part::Middle => "in the middle",
            Part::End => "at the end",
        }
    }
}

/// Which of the earlier occurrences of an n-gram prompt lookup continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// The last one.
    #[default]
    Latest,
    /// The first one (vLLM).
    First,
    /// The one that most others agree with, token by token; the last of these.
    Frequent,
}

impl Occurrence {
    pub(super) fn is_latest(&self) -> bool {
        *self == Occurrence::Latest
    }

    /// A part of the drafter's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Occurrence::Latest => "",
            Occurrence::First => "first occurrence of the ",
            Occurrence::Frequent => "most frequent occurrence of the ",
        }
    }
}

/// What a context chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    #[default]
    Tokens,
    Frames,
}

impl Unit {
    pub(super) fn is_tokens(&self) -> bool {
        *self == Unit::Tokens
    }
}

/// Whose keys and values the drafter's cache keeps for accepted tokens, where drafter and target are one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedRows {
    /// From the verify pass, which saw everything.
    #[default]
    Dense,
    /// Those that the drafter wrote itself.
    Sparse,
}

/// The probabilities that an entropy is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntropyOver {
    /// The three largest probabilities, not renormalized (FLy's code).
    #[default]
    Top3,
    Full,
}

impl EntropyOver {
    /// The suffix of a rule's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            EntropyOver::Top3 => "",
            EntropyOver::Full => " (full)",
        }
    }
}

/// The target's state by which a draft's visual relevance is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateAt {
    /// The state at the draft's own row (LVSpec).
    #[default]
    Draft,
    /// The state of the row that predicts the draft: the one at the token before it.
    Before,
}

impl StateAt {
    pub(super) fn is_draft(&self) -> bool {
        *self == StateAt::Draft
    }

    /// The suffix of a rule's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            StateAt::Draft => "",
            StateAt::Before => ", state before",
        }
    }
}

/// Most tokens of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Length {
    /// This many.
    Fixed(usize),
    /// As many as pay off, by measured times and acceptance.
    Auto(Auto),
}

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

/// Tokens of a window of the parallel schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WindowSize {
    /// This many.
    Fixed(usize),
    /// Chosen while it runs.
    By(WindowRule),
}

/// How a window is chosen while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowRule {
    /// The highest expected rate, by measured times and acceptance.
    Auto,
    /// As many tokens as the drafter writes during one pass of the target (ParallelVLM's equation 6).
    Ratio,
}

/// Weight type of a target that drafts for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum SelfDraftType {
    /// The target's own weights, shared.
    #[default]
    Own,
    /// Another type than f32.
    Of(WeightType),
}

impl SelfDraftType {
    const NAMES: [&str; WeightType::ALL.len()] = {
        // f32 comes first, and is not a type of a self-draft.
        let (mut names, mut i) = (["own"; WeightType::ALL.len()], 1);
        while i < names.len() {
            names[i] = WeightType::ALL[i].name();
            i += 1;
        }
        names
    };

    /// The weight type of the copy that drafts; `None` for the target's own weights.
    pub fn weights(self) -> Option<WeightType> {
        if let SelfDraftType::Of(dtype) = self { Some(dtype) } else { None }
    }

    pub(super) fn is_own(&self) -> bool {
        *self == SelfDraftType::Own
    }
}

impl From<SelfDraftType> for &'static str {
    fn from(dtype: SelfDraftType) -> Self {
        dtype.weights().map_or("own", WeightType::name)
    }
}

impl TryFrom<String> for SelfDraftType {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Self::NAMES.iter().position(|known| *known == name);
        match found.ok_or_else(|| format!("expected one of: {}", Self::NAMES.join(", ")))? {
            0 => Ok(Self::Own),
            other => Ok(Self::Of(WeightType::ALL[other])),
        }
    }
}

/// Most tokens of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// This many.
    Tokens(usize),
    /// Any number.
    None(Unlimited),
}

/// The word `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlimited {
    None,
}

impl Default for Limit {
    fn default() -> Self {
        Self::NONE
    }
}

impl Limit {
    /// Without a limit.
    pub const NONE: Limit = Limit::None(Unlimited::None);

    pub(super) fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

macro_rules! fields {
    ($($type:ty = $value:expr $(, $number:expr)?;)+) => {
        $(impl Field for $type {
            const VALUE: Value = $value;
            $(fn number(&self) -> Option<f64> {
                let number: fn(&Self) -> Option<f64> = $number;
                number(self)
            })?
        })+
    };
}

fields! {
    f64 = Value::Number, |n| Some(*n);
    // With as few digits as identify it among numbers of 32 bits, as it was written.
    f32 = Value::Number, |n| n.to_string().parse().ok();
    usize = Value::Count, |n| Some(*n as f64);
    u64 = Value::Count;
    bool = Value::Flag;
    Vec<String> = Value::Words;
    Vec<Acceptance> = Value::Choices;
    Length = Value::CountOr(&["auto"]), |length| match length {
        Length::Fixed(n) => Some(*n as f64),
        Length::Auto(_) => None,
    };
    WindowSize = Value::CountOr(&["auto", "ratio"]), |size| match size {
        WindowSize::Fixed(n) => Some(*n as f64),
        WindowSize::By(_) => None,
    };
    Limit = Value::CountOr(&["none"]), |limit| match limit {
        Limit::Tokens(n) => Some(*n as f64),
        Limit::None(_) => None,
    };
    Placing = Value::Word(&["original", "compact"]);
    Stamps = Value::Word(&["keep", "drop"]);
    Part = Value::Word(&["front", "middle", "end"]);
    Occurrence = Value::Word(&["latest", "first", "frequent"]);
    AcceptedRows = Value::Word(&["dense", "sparse"]);
    Unit = Value::Word(&["tokens", "frames"]);
    EntropyOver = Value::Word(&["top3", "full"]);
    StateAt = Value::Word(&["draft", "before"]);
    SelfDraftType = Value::Word(&SelfDraftType::NAMES);
    Recipe = Value::Word(&["sparrow", "msd", "vispec", "hivis", "eagle3", "mtp", "dflash", "assistant"]);
}
