//! The terminal studio.
