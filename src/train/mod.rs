//! Training of drafters on this machine: a layer that goes on from its target's states ([`crate::model::draft_head`]).
//!
//! The target captions clips itself; its tokens and states are all that is learned from, so no data set is needed. First a text
//! stage on the text rows alone, then a visual stage with visual rows before them (IVSB), each step with passes on own outputs
//! (MTP). See `docs/sparrow.md`.

mod adamw;
mod clips;
mod error;
mod layer;
mod options;
mod run;
mod sample;
mod store;
mod teacher;

pub use adamw::{AdamW, Rule};
pub use clips::{Clips, Pixels};
pub use error::TrainError;
pub use layer::{Losses, TrainedLayer};
pub use options::Options;
pub use run::{Job, News, Outcome, Progress, train};
pub use sample::{Batch, Break, Sample};
pub use store::{Account, Point, Stage, Store};
pub use teacher::Teacher;
