//! How tokens are drafted, verified and accepted; methods as data.

pub mod accept;
pub mod auto;
pub mod context;
pub mod draft;
pub mod generate;
pub mod method;
pub mod sampling;
pub mod schedule;
pub mod session;
pub mod tree;

mod fit;
mod gate;
mod generation;
mod overlap;
mod verify;

pub use accept::relevance::VisualStates;
pub use generate::{Finished, generate};
pub use generation::{CustomRule, GenerationConfig, GenerationInputs, PlainPasses};
pub use method::{
    Acceptance, AcceptedRows, Drafter, EntropyOver, Length, Limit, Method, MethodError, Part, Placing,
    Schedule, SelfDraftType, Shape, Stamps, StateAt, VisualContext,
};
pub use method::{closest, suggest};
pub use overlap::PrefetchedDraft;
pub use sampling::Sampler;
pub use session::Session;
pub use tree::Tree;
