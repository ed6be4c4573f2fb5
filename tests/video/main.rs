//! Videos as people have them, seen from outside: every file here is made on the spot.

#![expect(clippy::unwrap_used, reason = "a test that cannot make its file should fail")]

mod decoding;
mod make;
mod probing;
mod refusing;
