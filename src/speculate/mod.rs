//! How tokens are drafted, verified and accepted; methods as data.

pub mod method;

pub use method::{Acceptance, Context, Drafter, EntropyOver, Method, MethodError, Schedule, Shape};
