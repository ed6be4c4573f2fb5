//! When drafting and verifying happen.
//!
//! Here is the parallel schedule of ParallelVLM, which it takes from PEARL: the target verifies one window of drafts while the
//! drafter writes the next. [`Parallel`] decides; it is a state machine without threads, clocks or tensors. [`workers`] runs it
//! on two threads. [`Judge`] decides which drafts pass, [`WindowLength`] how many are drafted at a time; [`Tally`] counts.

mod cached;
pub mod judge;
pub mod parallel;
pub mod tally;
pub mod tick;
pub mod window;
pub mod workers;

#[cfg(test)]
mod scripted;

pub use judge::{Case, DraftToken, Exact, Judge, Sampled};
pub use parallel::{Limits, Parallel};
pub use tally::Tally;
pub use tick::{DrafterTask, Emitted, Mode, Outcome, TargetTask, Tick};
pub use window::WindowLength;
