//! The studio without a terminal: its looks as pictures with styles, whole sittings over a scripted engine, and keys that
//! nobody would press.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod looks;
mod pictures;
mod script;
mod sittings;
