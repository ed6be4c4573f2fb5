//! How tokens are drafted, verified and accepted; methods as data.

pub mod accept;
pub mod context;
pub mod draft;
pub mod method;
pub mod sampling;
pub mod schedule;
pub mod session;

pub use accept::relevance::VisualStates;
pub use method::{Acceptance, Context, Drafter, EntropyOver, Method, MethodError, Schedule, Shape};
pub use sampling::Sampler;
pub use session::{Rules, Session};
