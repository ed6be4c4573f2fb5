//! The engine thread: owns device, models and caches; takes commands and sends events.
//!
//! A run goes through these stages, each a method of `run::Runner` in a file of its own:
//!
//! 1. `validate`: the method against the models, sampling, prompt; then, as soon as the video is open, the prompt's length and
//!    the memory. Nothing is computed or evicted before.
//! 2. `clip`: decode the sampled frames. Before that, `estimate` reports what the run takes, from `rates` that `pace` computes of
//!    finished stages, or that `probe` measures.
//! 3. `prefill`: the target reads video and prompt, or what follows a prefix that it has read before (`reuse`).
//! 4. `drafter`: the drafter's visual tokens are selected, and it reads its share of the prompt.
//! 5. `generate`: draft, verify, report; before that, `baseline` times a few autoregressive steps.
//!
//! Then, while no other command waits, `measure` repeats parts of the run to measure its speed; `contention` tells how much of
//! the time went into waiting for processors that other programs used.
//!
//! While a run is active, `ahead` may decode the clip of the next one.
//!
//! What the first four leave is kept in the [`PrefixCache`](prefix_cache::PrefixCache) and is bounded in bytes.

mod ahead;
mod cache;
mod command;
mod events;
mod measure;
pub mod memory;
mod models;
mod stages;
#[cfg(test)]
mod testing;
mod thread;
mod timing;

pub use command::{Command, RunRequest, TextSampling, Turn};
pub use models::{
    memory_check,
    sampling::{clip_facts, frames},
};
pub use thread::{Engine, EngineHandle};
