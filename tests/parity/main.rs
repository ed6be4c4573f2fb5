//! Parity.
mod decoder;
