//! Many clips in one run: selection, order, finished clips, and output files. The command line
//! and the studio share it; it prints nothing.
//!
//! | file | |
//! |---|---|
//! | [`find`](mod@find) | files, directories, lists and patterns become [`Clip`]s |
//! | [`shard`] | the part of them that one of several machines captions |
//! | [`outputs`], `options` | the outputs that a clip still lacks ([`Need`](outputs::Need)), and writing them |
//! | `sidecar`, `table` | a file next to each clip; one file for all of them, in a trainer's form ([`rows`]) |
//! | `store` | where captions go besides files |
//! | [`edit`] | captions that a person has changed |
//! | `claim`, `ledger` | locks against a second process on the same clip, and the record of an interrupted run |
//! | `run`, `report` | the loop over the clips; its reports |
//!
//! # Interruption
//!
//! A sidecar is written to a file of another name, which then replaces it; rows are appended under a lock, and an incomplete last
//! row is cut off by the next writer. So existing outputs are complete, and a killed run resumes where it stopped. With
//! `--existing overwrite`, `append` and `prepend`, whose outputs exist before they are done, a ledger records the finished clips until the run
//! ends.
//!
//! ```
//! use specreel_batch::find;
//!
//! let dir = tempfile::tempdir()?;
//! for name in ["b.mp4", "a.mkv", "notes.txt"] {
//!     std::fs::write(dir.path().join(name), "")?;
//! }
//! let found = find(&[dir.path().to_owned()], &|_| Ok(None)).map_err(|failure| failure.error)?;
//! let names: Vec<String> = found.clips.iter().map(|clip| clip.path().display().to_string()).collect();
//! assert!(names[0].ends_with("a.mkv") && names[1].ends_with("b.mp4") && names.len() == 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claim;
mod csv;
pub mod dataset;
pub mod edit;
pub mod find;
mod ledger;
mod options;
pub mod outputs;
mod report;
pub mod rows;
mod run;
pub mod shard;
mod sidecar;
mod store;
mod table;
pub mod text;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use specreel_record::{Failure, FailureClass, Span};

pub use find::{Clip, Found, find};
pub use options::{Existing, Options};
pub use outputs::Outputs;
pub use report::{Ended, Halt, Outcome, Part, Progress, Report, Summary};
pub use rows::Kind;
pub use run::Batch;
pub use shard::Shard;
pub use sidecar::Sidecar;
pub use store::Store;
pub use text::Polish;

/// A failure of an output: a full disk is internal, anything else an unusable path.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let full = is_full(error);
    Failure::new(
        if full { FailureClass::Internal } else { FailureClass::Input },
        format!("cannot write {}: {error}", path.display()),
        if full {
            "free some space, then run the same command again to resume"
        } else {
            "make the directory writable, or choose another one with --out-dir"
        },
    )
}

/// True if the disk, or the user's quota of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A stable hash of bytes, for names of files and sets of finished clips.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}
