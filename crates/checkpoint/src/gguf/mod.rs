//! Models as GGUF files: a language model, whole or in parts, and its vision tower in a file of its own (mmproj), as llama.cpp
//! writes them.
//!
//! Files are mapped, and blocks are used as they are. Metadata is untrusted: every count, length, type and offset is checked
//! before it is used. The values of a directory's JSON files are derived from the metadata; the rest are constants
//! of the published families (see `family`).

pub mod architecture;
mod family;
mod file;
pub mod file_names;
mod gemma4;
mod header;
mod metadata;
mod minicpmv4_6;
mod model;
mod names;
mod origin;
mod parts;
mod published;
mod qwen2_vl;
mod qwen3_5;
mod qwen3_vl;
mod reader;
mod smolvlm;
mod tensor_type;
mod vocabulary;

pub use file::{GgufFile, GgufTensor};
pub use header::TypeShare;
pub use metadata::Metadata;
pub use model::{GgufModel, towers_of};
pub(super) use names::{FileValues, NamedTensor, RowLayout};
pub use vocabulary::{Pieces, Vocabulary};

/// The first bytes of every file.
pub const MAGIC: &[u8; 4] = b"GGUF";
