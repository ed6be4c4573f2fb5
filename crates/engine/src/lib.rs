//! The engine thread: owns device, models and caches; takes commands and sends events.
//!
//! [`Engine::start`] gives a handle that sends [`Command`]s, and the receiver of all events. A [`RunRequest`] says what to
//! caption and how; every event carries its number.
//!
//! ```
//! use specreel_engine::{Command, Engine, RunRequest};
//! use specreel_model::ModelSpec;
//! use specreel_record::EventKind;
//!
//! let demo = specreel_demo::demo(None)?;
//! let (engine, mut events) = Engine::start()?;
//! engine.send(Command::Load(ModelSpec { target: demo.target, ..ModelSpec::default() }))?;
//! engine.send(Command::Run(Box::new(RunRequest {
//!     video: demo.clips[0].path.clone(),
//!     prompt: "Describe the video in detail.".into(),
//!     max_new_tokens: 12,
//!     ..RunRequest::default()
//! })))?;
//! let mut caption = String::new();
//! while let Some(event) = events.blocking_recv() {
//!     match event.kind {
//!         EventKind::Step(step) => caption.extend(step.tokens.into_iter().map(|token| token.text)),
//!         EventKind::Done { text, .. } => {
//!             assert_eq!(caption, text);
//!             break;
//!         }
//!         EventKind::Failed(failure) => return Err(failure),
//!         _ => {}
//!     }
//! }
//! assert!(!caption.is_empty());
//! # Ok::<(), specreel_record::Failure>(())
//! ```
//!
//! A run goes through these `stages`, each a method of its `Runner` in a file of its own:
//!
//! 1. `validate`: the method against the models, sampling, prompt; then, as soon as the video is open, the prompt's length and
//!    the memory. Nothing is computed or evicted before.
//! 2. `clip`: decode the sampled frames. Before that, the run's estimate is reported.
//! 3. `prefill`: the target reads video and prompt, or what follows a prefix that it has read before (`reuse`), or a part of
//!    the visual tokens (`pruned`).
//! 4. `draft`: the drafter's visual tokens are selected, and it reads its share of the prompt.
//! 5. `generate`: draft, verify, report; before that, `baseline` times a few autoregressive steps.
//!
//! Then, while no other command waits, `measure` repeats parts of the run to measure its speed. While a run is active,
//! `next_clip` may decode the clip of the next one.
//!
//! Engines can share their models ([`Engine::start_together`]): then passes of different runs are computed together.
//!
//! The `loader` can load other models while a run continues; they replace the loaded ones when it ends.
//!
//! An `observer` sees what runs do; only tests have one.
//!
//! The stages use `models`, which are loaded once; the `cache` of clips and contexts, bounded in bytes; and on
//! `timing`, which knows the speeds of finished stages. The `planner` makes of these and of the request the plan that the stages after
//! `clip` follow.

mod cache;
mod command;
mod events;
mod loader;
mod loop_guard;
mod measure;
mod models;
mod needs;
mod next_clip;
mod observer;
mod planner;
mod stages;
mod stop_text;
#[cfg(test)]
mod testing;
mod thread;
mod timing;

pub use command::{Command, Constraint, MeaningRequest, Meanings, RunRequest, Turn, Verifies};
pub use models::{memory_check, sampling::clip_facts};
pub use needs::has_drafter;
pub use planner::{Advice, Advisor, Evidence, Expectation, measure_speeds};
pub use stop_text::StopText;
pub use thread::{Engine, EngineHandle};
