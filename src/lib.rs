//! specreel captions videos on the local machine with Video-LLMs, speeds that up with speculative decoding, and shows for
//! every token how it was verified.
//!
//! This package is the program: [`cli`] is the command line and [`tui`] the studio, which have [`look`] in common. They build on the crates of the
//! workspace, which other programs can use; `docs/architecture.md` describes them.

pub mod cli;
pub mod look;
pub mod tui;
