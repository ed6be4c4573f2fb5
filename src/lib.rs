//! specreel captions videos on the local machine with Video-LLMs, speeds that up with speculative decoding, and shows for
//! every token how it was verified.
//!
//! A module may use only modules on floors below its own:
//!
//! | floor | modules | own |
//! |---|---|---|
//! | 7 | [`cli`], [`tui`] | the faces: arguments and plain text; the terminal studio |
//! | 6 | [`batch`] | many clips: which of them, in what order, and what is written about each |
//! | 5 | [`client`], [`present`], [`train`] | the one way to use an engine; the one way to present a run; training of draft heads |
//! | 4 | [`engine`] | the thread that owns device, models and caches |
//! | 3 | [`speculate`] | drafting, verifying and accepting tokens; methods as data |
//! | 2 | [`model`], [`video`], [`scenes`] | checkpoints and forward passes; files to frames; the synthetic demo world |
//! | 1 | [`record`] | what happened, as data: verdicts, steps, statistics, events, and their fold |
//!
//! [`chart`] (plots) and [`assets`] (the embedded demo) are leaves beside the floors. `docs/architecture.md` explains more.

pub mod assets;
pub mod batch;
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
