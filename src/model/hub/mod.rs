//! The Hugging Face hub: models found in the cache that all its tools share, and fetched into it.
//!
//! The transfer is our own. The hub's official crate shares the cache, but (in 1.0) it goes on from no broken file, checks no
//! sum and no room on the disk, knows no HF_HUB_OFFLINE, and brings two hundred crates of its own. What is fetched here is
//! listed with sizes and checksums first, redirected hosts get no token, and a file has its name only once its sum is right.

pub mod cache;
mod disk;
mod error;
mod http;
mod id;
mod listing;
mod pull;
mod settings;
mod transfer;

pub use cache::{Cache, Cached, name_of};
pub use disk::free_space;
pub use error::HubError;
pub use id::ModelId;
pub use pull::{Hub, Progress, Pulled, Watch};
pub use settings::{Settings, Token};
