//! Videos as people have them, seen from outside: every file here is made on the spot.

mod containers;
mod decoding;
mod extracting;
mod following;
pub mod make;
mod pictures;
mod probing;
mod refusing;
mod scenes;
