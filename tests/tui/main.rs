//! The studio without a terminal: pictures of its screens with styles, whole flows over a scripted engine, random keys.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod flows;
mod looks;
mod pictures;
mod script;
mod watch;
