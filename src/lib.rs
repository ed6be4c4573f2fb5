//! specreel captions videos locally with Video-LLMs, speeds them up with speculative decoding, and shows for every token how it
//! was verified.
//!
//! The modules are arranged in floors; a module uses only modules on floors below its own.
//!
//! | floor | modules | contents |
//! |---|---|---|
//! | 6 | [`cli`], [`tui`] | the command line; the terminal studio |
//! | 5 | [`client`], [`present`], [`train`] | one way to use the engine; one way to show results; training of draft heads |
//! | 4 | [`engine`] | the thread that owns device, models and caches |
//! | 3 | [`speculate`] | how tokens are drafted, verified and accepted; methods as data |
//! | 2 | [`model`], [`video`], [`scenes`] | checkpoints and forward passes; files to frames; synthetic clips with known facts |
//! | 1 | [`record`], [`chart`] | verdicts, steps, statistics, events and their only fold; charts |
//!
//! [`assets`] holds the embedded demo and presets.

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
