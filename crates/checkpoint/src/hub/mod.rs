//! The Hugging Face hub: finds models in the shared cache of its tools, and downloads models into it.
//!
//! This crate downloads by itself. The hub's official crate shares the cache, but version 1.0 does not resume partial files,
//! verifies neither checksums nor free disk space, ignores HF_HUB_OFFLINE, and has two hundred dependencies. Here, the file
//! list with sizes and checksums comes first, only the hub itself receives the token, and a file gets its final name after its
//! checksum is verified.

pub mod cache;
mod disk;
mod error;
mod gguf;
mod http;
mod id;
mod listing;
mod pull;
mod settings;
mod transfer;

pub use cache::{Cache, Cached, name_of};
pub use disk::free_space;
pub use error::{Available, HubError};
pub use id::ModelId;
pub use pull::{Hub, PullObserver, PullProgress, Pulled};
pub use settings::{Settings, Token};
