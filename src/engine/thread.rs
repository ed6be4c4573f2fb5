//! The engine's thread and the handle to it.
