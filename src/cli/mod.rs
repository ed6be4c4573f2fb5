//! Arguments and plain text.
