//! Videos as people have them, seen from outside: every file here is made on the spot.

mod decoding;
mod following;
pub mod make;
mod probing;
mod refusing;
mod scenes;
