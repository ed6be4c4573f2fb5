//! What happened, as data: verdicts, steps, statistics, comparisons and the one event schema.
//!
//! Nothing here knows tensors or screens. The same [`event::Event`] is the engine's message, a `--json` line, a line of a
//! saved run and the input of a replay.
//!
//! [`RunLog`] is the only fold of events: text, merged verdicts, notes, statistics.
//!
//! ```
//! use specreel_record::{Event, RunLog};
//!
//! let line = r#"{"run":1,"event":"step","index":0,"drafted":[5,9,4],"drafted_text":[" A"," red"," disc"],"judged":3,
//!     "accepted":2,"tokens":[{"id":5,"text":" A","verdict":"exact","target_id":5},
//!     {"id":9,"text":" red","verdict":"exact","target_id":9},{"id":8,"text":" circle","verdict":"corrected","target_id":8}],
//!     "draft_ms":1.2,"verify_ms":3.4,"other_ms":0.1}"#;
//! let mut log = RunLog::new(1);
//! log.apply(&serde_json::from_str::<Event>(line)?);
//! assert_eq!(log.shown(), "A red circle");
//! assert_eq!(log.token_count(), 3);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod comparison;
pub mod difference;
mod estimate;
mod event;
pub mod log;
mod median;
mod pace;
pub mod paired;
pub mod pareto;
mod pieces;
pub mod sampling;
pub mod session;
pub mod span;
pub mod speedup;
pub mod stats;
mod step;
#[doc(hidden)]
pub mod testing;
mod traffic;
pub mod units;
mod verdict;
mod verification;

pub use comparison::{Comparison, Figures, Row, RowState};
pub use difference::{Change, Edit, difference};
pub use estimate::{Basis, Estimate};
pub use event::{
    Chosen, Draft, Event, EventKind, Expected, Failure, FailureClass, LoadedParts, PromptSeen, Ready, Stage,
    Started, panic_words,
};
pub use log::{RunLog, RunState};
pub use median::median;
pub use pace::Pace;
pub use paired::PairedRatio;
pub use pieces::Pieces;
pub use session::{Session, SessionError};
pub use span::{Cues, Segment, Span, ToolCall, ToolCalls, Turn, clock};
pub use speedup::{Baseline, BaselineKind, Interval, Limits, Measured, Speedup};
pub use stats::{OnLoop, Stats, StopReason, Timings, VerdictCounts};
pub use step::{Busy, Step, Switched, Token};
pub use traffic::Traffic;
pub use verdict::Verdict;
pub use verification::{Promise, Verification};
