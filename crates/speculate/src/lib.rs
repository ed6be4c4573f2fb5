//! Speculative decoding of Video-LLMs: how tokens are drafted, verified and accepted, with methods as data.
//!
//! A [`Method`] is five choices: a drafter, its visual tokens, the shape of its drafts, the rule by which they pass, and the
//! schedule. [`generate()`] runs one under a [`GenerationConfig`] on the sequences of [`GenerationInputs`] and reports every
//! step. On the way of a step:
//!
//! 1. [`context`] has chosen and read the drafter's part of the video, before the first step.
//! 2. [`draft`] proposes a [`Tree`] of tokens after the last one.
//! 3. The target reads all of them in one pass; [`sampling`] has its choices at a temperature, the same for the same position
//!    for any drafts.
//! 4. [`accept`] judges the drafts: pure functions from rows of signals to verdicts. Which signals a rule needs it says itself
//!    ([`accept::RuleNeeds`]); only those are computed.
//!
//! [`Session`] makes the steps one after the other; [`schedule`] lets drafter and target work side by side, as a machine without
//! models that is tested by itself. [`auto`] chooses drafters and
//! lengths by measured times.
//!
//! What [`Method::lossless`] calls lossless writes the text of autoregressive decoding: token for token when greedy or when drafts
//! pass exactly, in distribution when drafts are sampled.
//!
//! ```
//! use specreel_speculate::{Acceptance, Method, Sampler, accept, sampling::Purpose};
//!
//! for name in ["naive", "lvspec"] {
//!     let method = Method::preset(name)?;
//!     println!("{name}: {}, lossless: {}", method.describe(), method.lossless());
//! }
//!
//! // Three drafts, of which the target would have written two.
//! let rows = [(5, 5), (6, 6), (8, 7)].map(|(draft, wanted)| accept::Row { draft, wanted, ..Default::default() });
//! let mut rng = Sampler { temperature: 0.0, ..Sampler::GREEDY }.rng(0, Purpose::Accept);
//! let verdicts = accept::judge(&Acceptance::Exact {}, &rows, &mut rng);
//! assert_eq!(accept::accepted(&verdicts), 2);
//! # Ok::<(), specreel_speculate::MethodError>(())
//! ```

pub mod accept;
pub mod auto;
pub mod context;
pub mod draft;
pub mod generate;
pub mod method;
pub mod processors;
pub mod sampling;
pub mod schedule;
pub mod session;
pub mod tree;

mod confidence;
mod controls;
mod drafters;
mod fit;
mod gate;
mod generation;
mod overlap;
mod verify;

pub use accept::relevance::VisualStates;
pub use controls::{ControlError, SamplingBase, SamplingControls, TextSampling};
pub use drafters::{Drafted, DrafterInputs, Reserve};
pub use generate::{generate, generate_with};
pub use generation::{
    CustomRule, Finished, GenerationConfig, GenerationInputs, Hooks, PlainPasses, PrefetchedDraft,
};
pub use method::{
    Acceptance, AcceptedRows, Drafter, EntropyOver, Length, Limit, Method, MethodError, Occurrence, Part,
    Placing, Schedule, SelfDraftType, Shape, Stamps, StateAt, Unit, VisualContext, WindowRule, WindowSize,
};
pub use method::{closest, suggest};
pub use sampling::Sampler;
pub use session::Session;
pub use tree::Tree;
