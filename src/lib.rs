//! specreel captions videos on your own machine with Video-LLMs, makes them faster with speculative decoding, and shows for
//! every token how it was verified.
//!
//! The house has five floors; a memory_check may use only rooms on floors below its own.
//!
//! | floor | rooms | what they own |
//! |---|---|---|
//! | 5 | [`cli`], [`tui`] | faces: arguments and plain text; the terminal studio |
//! | 4 | [`engine`], [`train`] | the thread that owns device, models and caches; drafters made on this machine |
//! | 3 | [`speculate`] | how tokens are drafted, verified and accepted; methods as data |
//! | 2 | [`model`], [`video`], [`scenes`] | checkpoints and forward passes; files to frames; the synthetic demo world |
//! | 1 | [`record`], [`chart`] | what happened, as data: verdicts, steps, statistics, comparisons, events; pictures of numbers |
//!
//! Beside the floors stands [`assets`]: the embedded demo.

pub mod assets;
pub mod chart;
pub mod cli;
pub mod client;
pub mod engine;
pub mod model;
pub mod present;
pub mod record;
pub mod scenes;
pub mod speculate;
pub mod train;
pub mod tui;
pub mod video;
