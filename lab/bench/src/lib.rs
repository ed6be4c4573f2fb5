//! Measuring: the gain and the cost of speculative decoding.
//!
//! | module | measures |
//! |---|---|
//! | [`rows`] | passes of a decoder by their number of rows: T(rows) |
//! | [`clip_time`] | a clip in the shape of a known model with random weights, from patches to tokens |
//! | [`step`], [`clip`] | the suites that run them: `step` over several contexts and models, `clip` on a clip sampled as its family does |
//! | [`device`] | the kernels of a GPU, compared with the most that it reads and multiplies |
//! | [`scenes`] | methods ([`methods`], [`plan`]) on clips with known facts, or on videos ([`videos`]): speed and accuracy |
//! | [`quality`] | weight types, and types of keys and values: how far a model's predictions are from those in f32 |
//! | [`detection`] | how well a value or a decision separates cases |
//! | [`paper`] | the tables of papers next to ours, and whether the order of their rows agrees |
//!
//! A suite takes plain options and gives its results to a [`Reporter`]: as data, and as tables of text without styles. Suites that
//! caption run on the engine of a [`Client`](specreel_client::Client), one run after another ([`runs`]).
//!
//! Whether verification is nearly free is the ratio of two passes:
//!
//! ```
//! use std::{ops::ControlFlow, sync::Arc, time::Duration};
//!
//! use specreel_bench::rows::{self, Effort};
//! use specreel_checkpoint::Checkpoint;
//! use specreel_model::{decoder::Decoder, shapes};
//! use specreel_tensor::{ComputeDevice, WeightType};
//!
//! let config = shapes::find("tiny").ok_or("unknown shape")?;
//! let device = ComputeDevice::cpu(WeightType::Q8_0);
//! let decoder = Arc::new(Decoder::load(&Checkpoint::random(), &config, &device, &mut |_, _| {})?);
//! let effort = Effort { warm_up: 1, rounds: 3, at_most: Duration::from_millis(100) };
//! let times = rows::time(&decoder, None, 16, &[1, 4], effort, &mut |_, _| ControlFlow::Continue(()))?;
//! let times = times.ok_or("interrupted")?;
//! println!("T(4) is {:.2} T(1)", times.passes[1].ms / times.passes[0].ms);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bootstrap;
pub mod chart;
pub mod clip;
pub mod clip_time;
mod clips;
pub mod detection;
pub mod device;
mod figure;
mod fronts;
pub mod methods;
mod modelled;
pub mod paper;
mod picture;
pub mod plan;
pub mod quality;
mod report;
pub mod rows;
pub mod runs;
pub mod scenes;
pub mod step;
pub mod summary;
mod sweep;
mod tables;
pub mod trial;
pub mod videos;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use serde::Serialize;

use specreel_client::{Interrupt, present::text::clean};
use specreel_model::{ModelSpec, decoder::Decoder};
use specreel_modelled::profile::Profile;
use specreel_record::{Failure, FailureClass, Stage};
use specreel_speculate::Method;
use specreel_tensor::ComputeDevice;

pub use summary::Summary;
pub use trial::{FactCount, Pair, Trial};

/// Name of the method that all others are measured against.
pub const BASELINE: &str = "autoregressive";

/// Name of the chart (SVG) of suite `scenes`.
pub const CHART: &str = "chart";

/// Receives a benchmark's reports.
pub trait Reporter {
    /// Why a benchmark ends early: it failed, or its results cannot be written.
    type Error: From<Failure>;

    /// Progress of a stage; a total of 0 is unknown.
    fn stage(&mut self, stage: Stage, done: u64, total: u64);

    /// The stages are over: results follow.
    fn ended(&mut self);

    /// Something to know about the results, in one line.
    fn note(&mut self, note: &str);

    /// A result as data, with the name of its kind. Fails if it cannot be written.
    fn line<T: Serialize>(&mut self, event: &str, body: &T) -> Result<(), Self::Error>;

    /// The width of tables in columns; `None` without a limit.
    fn columns(&self) -> Option<usize>;

    /// Tables for people. Fails if they cannot be written.
    fn table(&mut self, text: &str) -> Result<(), Self::Error>;

    /// Whether [`Reporter::file`] does anything with this name.
    fn wants_file(&self, name: &str) -> bool;

    /// The results as a file: the chart of [`scenes`] ([`CHART`]), the pages of [`paper`] ([`paper::pages::names`]). Fails if it
    /// cannot be written.
    fn file(&mut self, name: &str, text: &str) -> Result<(), Self::Error>;
}
