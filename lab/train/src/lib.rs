//! Training of draft heads: a decoder layer that drafts from its target's states ([`specreel_model::draft_head`]).
//!
//! The target captions the clips itself, and its tokens and states are the only training data. A text stage uses the text rows
//! alone; the visual stage that follows puts visual rows before them (IVSB). Each step adds passes on the head's own outputs
//! (MTP). An EAGLE-3 head learns to continue from its own outputs as it does when drafting, a DFlash head to draft blocks; both have
//! one stage. See `docs/draft-heads.md`.
//!
//! ```
//! use specreel_model::draft_head::Recipe;
//! use specreel_train::Options;
//!
//! let sparrow = Options::of(Recipe::Sparrow);
//! // The learning rate rises during the warm-up.
//! assert!(sparrow.rate(1, 0.0) < sparrow.rate(sparrow.warm_up, 0.0));
//! ```

mod adamw;
mod begin;
mod blocks;
mod clips;
mod eagle;
mod error;
mod head;
mod layer;
mod options;
mod run;
mod sample;
mod store;
mod teacher;

pub use adamw::{AdamW, Rule};
pub use blocks::{BlockOptions, Blocks, TrainedBlocks};
pub use clips::{Clips, Pixels};
pub use eagle::{Rows, TrainedEagle};
pub use error::TrainError;
pub use layer::{Losses, TrainedLayer};
pub use options::Options;
pub use run::{Job, News, Outcome, Progress, train};
pub use sample::{Batch, Break, Sample};
pub use store::{Account, Point, Stage, Store};
pub use teacher::Teacher;
