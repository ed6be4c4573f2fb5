//! The table of methods: every axis, kind and key, with its meaning, default, range and words.
//!
//! A row of a kind is `"name in a file" Variant { keys } => words for people`; a row of a key is its type and
//! [`required`]`(example)` or [`optional`]`(default)` with its range. The documentation of a key is also its explanation for users; everything else that is said about methods is derived ([`choices!`]).

use serde::{Deserialize, Serialize};

use super::{
    defaults::{all, half, is_one_token, is_zero, one, one_token, three_tenths, twenty},
    percent,
    table::{Axis, Field, Key, Kind, choices, optional, required},
    values::{
        AcceptedRows, EntropyOver, Length, Limit, Occurrence, Part, Placing, SelfDraftType, Stamps, StateAt,
        Unit, WindowRule, WindowSize,
    },
};
use crate::tree;
use specreel_model::draft_head::Recipe;

const KEEP: Key = required("0.1").share();
const POSITIONS: Key = optional("\"original\"");
const STAMPS: Key = optional("\"keep\"");
const SEED: Key = optional("0");
const THRESHOLD: Key = required("0.2").at_least(0.0, 12.0).step(0.1);
const CONFIDENCE: Key = optional("0.0").share().minor();
const ENTROPY: Key = optional("\"top3\"");

/// What a shape's words say of its confidence.
fn sure(confidence: f64) -> String {
    match confidence {
        0.0 => String::new(),
        least => format!(", where the drafter is at least {} sure", percent(least)),
    }
}

/// The five choices in the order of the files.
pub static AXES: [Axis; 5] =
    [Drafter::AXIS, VisualContext::AXIS, Shape::AXIS, Acceptance::AXIS, Schedule::AXIS];

choices! {
    /// What proposes tokens.
    Drafter: "drafter", "what drafts?" {
        /// No drafter: the target decodes alone.
        "none" None {} => "no drafter",
        /// The drafter that is expected to be fastest, by the times of this machine and the acceptance of
        /// earlier runs: the draft model, a draft head, the target's own layer, prompt lookup, or nothing
        /// (ours).
        "auto" Auto {} => "what pays off drafts",
        /// A smaller checkpoint of the same family.
        "model" Model {} => "draft model",
        /// The target itself, with a reduced visual context; weights are shared.
        "self" Target {
            /// Weight type of the target while it drafts: its own, or a smaller one, for which its weights are loaded once more.
            #[serde(default, skip_serializing_if = "SelfDraftType::is_own")]
            dtype: SelfDraftType = optional("\"own\""),
        } => match dtype.weights() {
            None => "target drafts for itself".to_owned(),
            Some(dtype) => format!("target in {} drafts for itself", dtype.name()),
        },
        /// The target's first layers, then its norm and head (LayerSkip); weights are shared.
        "early_exit" EarlyExit {
            /// Share of the target's layers that draft; at least one layer does.
            depth: f64 = required("0.5").above_zero(0.9),
        } => format!("target's first {} of layers draft", percent(*depth)),
        /// A trained draft head: one layer on the target's states, with the target's embeddings (Sparrow, MSD, ViSpec, HiViS, EAGLE-3), its own one (MTP), some layers that draft a block at once (DFlash), or an assistant on the target's keys and values (Gemma 4).
        "sparrow" Head {
            /// How the head was trained; with several loaded, the one of this recipe drafts.
            #[serde(default)]
            recipe: Recipe = optional("\"sparrow\""),
        } => match recipe {
            Recipe::Sparrow => "draft head on the target's states",
            Recipe::Msd => "draft head on the target's states (MSD)",
            Recipe::Vispec => "draft head on the target's states and a compressed video (ViSpec)",
            Recipe::Hivis => "draft head on the target's states (HiViS)",
            Recipe::Eagle3 => "EAGLE-3 head on states of some of the target's layers",
            Recipe::Mtp => "target's own layer for multi-token prediction (MTP)",
            Recipe::Dflash => "head that drafts a block in one pass from states of some of the target's layers (DFlash)",
            Recipe::Assistant => "assistant on the target's keys and values",
        },
        /// Prompt lookup: repeats what followed the same n-gram earlier, in the prompt or the caption.
        "lookup" Lookup {
            /// Longest n-gram that is searched for, in tokens.
            ngram: usize = required("3").range(1.0, 16.0),
            /// Shortest n-gram that is searched for, in tokens; no more than `ngram` counts.
            #[serde(default = "one_token", skip_serializing_if = "is_one_token")]
            min_ngram: usize = optional("1").range(1.0, 16.0),
            /// Which earlier occurrence of an n-gram is continued.
            #[serde(default, skip_serializing_if = "Occurrence::is_latest")]
            occurrence: Occurrence = optional("\"latest\"").minor(),
        } => {
            let least = match min_ngram.min(ngram) {
                1 => String::new(),
                least => format!("{least} to "),
            };
            format!("repeats the tokens that followed the {}last {least}{ngram} tokens earlier", occurrence.words())
        },
    }
}

choices! {
    /// The visual tokens that the drafter sees. Budget of kept tokens: floor(n · keep + 1e-9).
    VisualContext: "context", "which visual tokens does the drafter see?" {
        /// All of them.
        "full" Full {} => "sees all visual tokens",
        /// As many as pay off, by the times of this machine and the acceptance of earlier runs: all, none, or those with the most
        /// attention (ours).
        "auto" Auto {} => "sees as many visual tokens as pay off",
        /// None: text-only drafting.
        "none" None {
            /// Positions of the text after the video.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees no visual tokens{}{}", positions.words(), stamps.words()),
        /// A seeded random subset.
        "random" Random {
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
            /// Seed of the choice.
            #[serde(default)]
            seed: u64 = SEED,
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} at random{}{}", percent(*keep), positions.words(), stamps.words()),
        /// Evenly spaced in the flattened order.
        "uniform" Uniform {
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} evenly spaced{}{}", percent(*keep), positions.words(), stamps.words()),
        /// Whole frames at even intervals.
        "frames" Frames {
            /// Share of the frames that is kept; at least one frame unless it is 0.
            keep: f64 = KEEP,
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} of the frames{}{}", percent(*keep), positions.words(), stamps.words()),
        /// One contiguous run in the flattened order.
        "window" Window {
            /// Which run.
            part: Part = required("\"middle\""),
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} {}{}{}", percent(*keep), part.words(), positions.words(), stamps.words()),
        /// The first and the last tokens (StreamingLLM's sinks and window).
        "streaming" Streaming {
            /// Visual tokens kept at the start.
            first: usize = required("4").at_least(0.0, 64.0).step(4.0),
            /// Visual tokens kept at the end.
            last: usize = required("32").at_least(0.0, 64.0).step(4.0),
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees the first {first} and last {last}{}{}", positions.words(), stamps.words()),
        /// Those with the most attention from the target's text, and an even spread of the rest (SpecVLM's two stages).
        "attention" Attention {
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
            /// Share of the total attention that stage one keeps, with as few tokens as possible, within the budget.
            mass: f64 = required("0.5").share().minor(),
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} by attention (mass {mass}){}{}", percent(*keep), positions.words(), stamps.words()),
        /// Those whose similarity to the text grows most through the target's layers (ParallelVLM's UV-Prune).
        "variation" Variation {
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
            /// The target's layers after which the similarity is taken (L), in models of at least twice as many.
            #[serde(default = "twenty")]
            layers: usize = optional("20").at_least(1.0, 40.0).minor(),
            /// Share of the layers after which it is taken in smaller models.
            #[serde(default = "half")]
            depth: f64 = optional("0.5").above_zero(1.0).minor(),
            /// Positions of the kept tokens.
            #[serde(default, skip_serializing_if = "Placing::is_original")]
            positions: Placing = POSITIONS,
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => format!("sees {} by variation{}{}", percent(*keep), positions.words(), stamps.words()),
        /// In each layer and key head the visual tokens with the most attention from the text (STD); the drafter is the target
        /// itself.
        "top_k_kv" TopKKv {
            /// Share of the visual tokens that each head keeps, at most.
            #[serde(default = "all")]
            keep: f64 = optional("1.0").share(),
            /// Tokens that each head keeps at most, all text of the prompt counted (STD's K + text).
            #[serde(default, skip_serializing_if = "Limit::is_none")]
            budget: Limit = optional("\"none\"").at_least(0.0, 4096.0).step(64.0),
            /// Whose keys and values accepted tokens leave in the drafter's cache.
            #[serde(default)]
            rows: AcceptedRows = optional("\"dense\""),
            /// Time stamps of frames without a kept visual token, in models that write stamps into the prompt.
            #[serde(default, skip_serializing_if = "Stamps::are_kept")]
            stamps: Stamps = STAMPS,
        } => {
            let rows = if *rows == AcceptedRows::Sparse { ", own rows" } else { "" };
            let sees = match budget {
                Limit::None(_) => percent(*keep),
                Limit::Tokens(n) if *keep >= 1.0 => format!("{n} tokens with the text"),
                Limit::Tokens(n) => format!("{}, at most {n} tokens with the text,", percent(*keep)),
            };
            format!("sees {sees} in each head{rows}{}", stamps.words())
        },
        /// Those that differ most from the same cell of an earlier frame, by their embeddings (DyCoke's temporal merging).
        "dycoke" DyCoke {
            /// Share of the visual tokens that is kept.
            keep: f64 = KEEP,
        } => format!("sees {} by change between frames", percent(*keep)),
        /// By embeddings: density peaks of every fourth frame of each segment, or the frames that differ most from the one before
        /// (FastVID).
        "fastvid" FastVid {
            /// Share of the visual tokens, or of the frames, that is kept; at least one frame unless it is 0.
            keep: f64 = KEEP,
            /// What is chosen: single tokens, or whole frames (SpecVLM's baseline).
            #[serde(default, skip_serializing_if = "Unit::is_tokens")]
            unit: Unit = optional("\"tokens\""),
        } => match unit {
            Unit::Tokens => format!("sees {} by density", percent(*keep)),
            Unit::Frames => format!("sees {} of the frames, by transitions", percent(*keep)),
        },
    }
}

choices! {
    /// The form of the proposal of one step.
    Shape: "shape", "in what form?" {
        /// A chain of at most `length` tokens.
        "chain" Chain {
            /// Most draft tokens per step (K). To decode without drafts, use the method `autoregressive`.
            length: Length = required("5").range(1.0, 64.0),
            /// Share of the steps without drafts: those where the target's attention peaks highest on one visual token (ViSkip).
            #[serde(default, skip_serializing_if = "is_zero")]
            gate: f64 = optional("0.0").share().minor(),
            /// A chain ends before a token to which the drafter gives less than this probability (llama.cpp's p-min).
            #[serde(default, skip_serializing_if = "is_zero")]
            confidence: f64 = CONFIDENCE,
        } => {
            let gated = match *gate {
                0.0 => String::new(),
                gate => format!(", none in the most visual {} of steps", percent(gate)),
            };
            format!("chain of {length}{gated}{}", sure(*confidence))
        },
        /// A tree of fixed form: each node is named by the rank of every choice on the way to it.
        "static_tree" StaticTree {
            /// Nodes such as "0", "1", "00", "01"; without any, SpecVLM's 25.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            nodes: Vec<String> = optional("[]"),
            /// A branch ends before a token to which the drafter gives less than this probability.
            #[serde(default, skip_serializing_if = "is_zero")]
            confidence: f64 = CONFIDENCE,
        } => {
            let nodes = if nodes.is_empty() { tree::SPECVLM.len() } else { nodes.len() };
            format!("tree of {nodes}{}", sure(*confidence))
        },
        /// Two chains that begin with the drafter's two best tokens (LVSpec, appendix E).
        "two_branch" TwoBranch {
            /// Draft tokens of each branch.
            length: usize = required("10").range(1.0, 32.0),
            /// A branch ends before a token to which the drafter gives less than this probability.
            #[serde(default, skip_serializing_if = "is_zero")]
            confidence: f64 = CONFIDENCE,
        } => format!("two branches of {length}{}", sure(*confidence)),
        /// The drafter's most likely continuations (EAGLE-2).
        "dynamic_tree" DynamicTree {
            /// Nodes that are verified together, the root counted.
            total: usize = required("25").range(2.0, 64.0).step(4.0),
            /// Expansions after the root's own choices: branches have up to `depth` + 1 tokens (EAGLE's count).
            depth: usize = required("5").range(1.0, 16.0),
            /// Nodes that each expansion continues, and choices of each.
            width: usize = required("8").range(1.0, 16.0),
            /// A branch ends before a token to which the drafter gives less than this probability.
            #[serde(default, skip_serializing_if = "is_zero")]
            confidence: f64 = CONFIDENCE,
        } => format!("dynamic tree {total}-{depth}-{width}{}", sure(*confidence)),
    }
}

choices! {
    /// The rule by which a draft token passes.
    Acceptance: "acceptance", "which drafts pass?" {
        /// Only the target's own tokens.
        "exact" Exact {} => "exact matches pass",
        /// min(1, p/q): keeps the target's distribution at any temperature; the same as exact when greedy.
        "sampled" Sampled {} => "passes by min(1, p/q)",
        /// A mismatch passes where the target's entropy is at least `threshold`.
        "entropy" Entropy {
            /// Least entropy of the target's distribution at which a mismatch passes, in nats.
            threshold: f32 = THRESHOLD,
            /// Probabilities that the entropy is taken over.
            #[serde(default)]
            entropy: EntropyOver = ENTROPY,
        } => format!("entropy ≥ {threshold}{}", entropy.words()),
        /// FLy: a mismatch with entropy at least `threshold`, followed by `length` - 1 exact matches.
        "window" Window {
            /// Length of the window (W), the mismatch itself counted.
            length: usize = required("4").at_least(1.0, 32.0).minor(),
            /// Least entropy of the target's distribution at which a mismatch passes, in nats.
            threshold: f32 = THRESHOLD,
            /// Probabilities that the entropy is taken over.
            #[serde(default)]
            entropy: EntropyOver = ENTROPY,
        } => format!("entropy ≥ {threshold}{}, window of {length}", entropy.words()),
        /// LVSpec: strict on visual tokens, loose on the rest.
        "visual" Visual {
            /// Share of the draft tokens that may differ, the least visually relevant ones.
            lambda: f64 = required("0.7").share().step(0.1),
            /// N of the relevance: the mean of the N largest cosine similarities.
            top_n: usize = required("10").at_least(1.0, 64.0).minor(),
            /// Also pass where the target's token occurs elsewhere among the drafts.
            #[serde(default)]
            shift_tolerant: bool = optional("false"),
            /// The target's state that is compared with the visual tokens: at the draft (LVSpec), or the one before it, which
            /// predicts it (ours).
            #[serde(default, skip_serializing_if = "StateAt::is_draft")]
            at: StateAt = optional("\"draft\""),
            /// Words that are never loosened, compared with a token's trimmed lower-case text.
            #[serde(default)]
            always_strict: Vec<String> = optional("[]"),
        } => {
            let shifts = if *shift_tolerant { ", shifts" } else { "" };
            let strict = match always_strict.len() {
                0 => String::new(),
                1 => ", 1 word always strict".into(),
                n => format!(", {n} words always strict"),
            };
            format!("visual λ {lambda}, N {top_n}{}{shifts}{strict}", at.words())
        },
        /// A mismatch passes where p(draft) ≥ rho · max p.
        "lenient" Lenient {
            /// Least probability of a draft under the target, as a share of its best token's.
            rho: f32 = required("0.2").share(),
        } => format!("lenient ρ {rho}"),
        /// A mismatch passes where p(draft) > min(epsilon, delta · exp(-H)), H being the target's entropy in nats (Medusa's typical
        /// acceptance).
        "typical" Typical {
            /// Probability under the target above which a draft always passes.
            epsilon: f32 = required("0.09").share().step(0.01),
            /// Factor of exp(-H): the smaller, the less likely drafts pass where the target is undecided.
            #[serde(default = "three_tenths")]
            delta: f32 = optional("0.3").share(),
        } => format!("typical ε {epsilon}, δ {delta}"),
        /// A mismatch passes where the Kullback-Leibler divergence of the drafter's distribution from the target's is below
        /// `threshold`.
        "divergence" Divergence {
            /// Divergence of drafter and target below which a mismatch passes, in nats.
            threshold: f32 = required("0.3").at_least(0.0, 12.0).step(0.1),
        } => format!("divergence < {threshold}"),
        /// A mismatch passes where its cost is below `limit`: the divergence of the drafter's distribution from the target's, plus
        /// `ratio` · ln(max p / p(draft)) (ours).
        "cost" Cost {
            /// Cost below which a mismatch passes, in nats.
            limit: f32 = required("0.8").at_least(0.0, 12.0).step(0.1),
            /// Weight of the log-likelihood gap relative to the divergence.
            #[serde(default = "one")]
            ratio: f32 = optional("1.0").at_least(0.0, 4.0).step(0.1).minor(),
        } => match *ratio {
            1.0 => format!("cost < {limit}"),
            ratio => format!("cost < {limit}, ratio {ratio}"),
        },
        /// Strict where the target's attention peaks on one visual token, loose on the rest: relevance is the largest attention
        /// weight on one visual token in the row that predicts the draft, mean over layers and heads.
        "glance" Glance {
            /// Share of the draft tokens that is loosened, those with the lowest attention peak.
            lambda: f64 = required("0.7").share().step(0.1),
        } => format!("glance λ {lambda}"),
        /// A mismatch passes where every one of these rules passes it.
        "all_of" AllOf {
            /// Two to four loosening rules of different kinds.
            rules: Vec<Acceptance> =
                required("[{ kind = \"lenient\", rho = 0.2 }, { kind = \"divergence\", threshold = 0.3 }]"),
        } => rules.iter().map(Acceptance::describe).collect::<Vec<_>>().join(" and "),
        /// A mismatch passes with this probability.
        "random" Random {
            /// Probability that a mismatch passes.
            probability: f64 = required("0.5").share(),
            /// Seed of the choice.
            #[serde(default)]
            seed: u64 = SEED,
        } => format!("mismatch passes {}", percent(*probability)),
    }
}

choices! {
    /// When drafting and verifying happen.
    Schedule: "schedule", "when?" {
        /// One after the other.
        "sequential" Sequential {} => "sequential",
        /// Overlapped: while the target verifies one window, the drafter writes the next (ParallelVLM on PEARL).
        "parallel" Parallel {
            /// Tokens of a window; `auto`: those with the highest expected rate, by measured times and acceptance; `ratio`: as many
            /// as the drafter writes during one pass of the target (ParallelVLM's equation 6).
            window: WindowSize = required("\"auto\"").range(1.0, 64.0),
        } => match window {
            WindowSize::Fixed(n) => format!("parallel, window of {n}"),
            WindowSize::By(WindowRule::Auto) => "parallel, window by measured times".into(),
            WindowSize::By(WindowRule::Ratio) => "parallel, window by the ratio of times".into(),
        },
    }
}
