//! What is known of a library of videos: captions and speech with their times, in one SQLite file that can be searched.
//!
//! | file | |
//! |---|---|
//! | `schema` | the tables, and opening a file that has them |
//! | [`index`](Index) | what is in the file, and writing to it: a [`Store`](specreel_batch::Store) of a batch |
//! | `file` | what identifies a video, wherever it lies |
//! | `meaning` | what captions are about, as vectors of the captioning model, and what is nearest to one |
//! | [`query`](Query), `search` | the words that are looked for, and the moments that have them |
//! | [`lists`] | found moments as lists for players |
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
