//! The index of a video library: captions and speech with their times, in one SQLite file that can be
//! searched.
//!
//! | file | |
//! |---|---|
//! | `schema` | the tables, and opening an index |
//! | [`index`](Index) | reading and writing an index, which is a [`Store`](specreel_batch::Store) for batches |
//! | `file` | identifies videos, even if they were moved |
//! | `meaning` | meanings of captions, as vectors of the captioning model, and the search for the nearest |
//! | [`query`](Query), `search` | parses a search, and finds the moments that match |
//! | [`lists`] | found moments as playlists |
//!
//! # Interruption
//!
//! The captions of a video are written in one transaction. A process that is killed leaves all of them or none; the next one
//! continues with the videos that have none. Several processes may write to one file at the same time.

mod file;
mod index;
pub mod lists;
mod meaning;
mod query;
mod schema;
mod search;

pub use index::{Import, Index, IndexFile, Totals};
pub use query::{Query, QueryError};
