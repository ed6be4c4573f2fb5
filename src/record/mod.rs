//! What happened, as data: verdicts, steps, statistics and the one event schema.
//!
//! Nothing here knows tensors or screens. The same [`event::Event`] is the engine's message, a `--json` line, a line of a
//! saved session and the input of a replay.

pub mod event;
pub mod pareto;
pub mod stats;
pub mod step;
pub mod summary;
pub mod trial;
pub mod verdict;

pub use event::{Event, EventKind, Failure, FailureClass, Stage};
pub use stats::{Baseline, BaselineKind, Speedup, Stats, StopReason, Timings, VerdictCounts};
pub use step::{Step, Token};
pub use summary::Summary;
pub use trial::{FactCount, Trial};
pub use verdict::Verdict;
