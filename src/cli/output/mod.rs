//! What is printed and written: captions, tables, progress, errors, files.

pub mod color;
pub mod new_file;
pub mod printer;
pub mod progress;
pub mod report;
pub mod session;
pub mod steps;
pub mod style;
pub mod suggest;
pub mod terminal;
