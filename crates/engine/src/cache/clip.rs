//! A decoded clip.

use std::{path::PathBuf, time::SystemTime};

use specreel_model::{decoder::States, family::ClipFacts, processor::Patches};
use specreel_record::Span;
use specreel_video::Sampling;

/// A file as it was when it was read, and how it was sampled. A changed file is another clip.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClipKey {
    pub path: PathBuf,
    pub bytes: u64,
    /// When it was last written.
    pub modified: Option<SystemTime>,
    pub span: Option<Span>,
    pub sampling: Sampling,
    /// Upper limit of pixels per frame.
    pub max_pixels: Option<usize>,
    /// Upper limit of visual tokens.
    pub max_visual_tokens: Option<usize>,
}

pub struct Clip {
    /// Time stamps of the sampled frames in the whole video, in seconds.
    pub timestamps_s: Vec<f64>,
    /// What its prompts are made of.
    pub facts: ClipFacts,
    /// The patches that the target's tower reads.
    pub patches: Patches,
    /// The same for the drafter, if it cuts frames into others.
    pub(crate) recut: Option<(ClipFacts, Patches)>,
    /// What users should know about the file: that it is damaged or cut short.
    pub notes: Vec<String>,
    /// What a limit of visual tokens changed.
    pub thinned: Option<String>,
    /// Time of decoding, in milliseconds.
    pub(crate) decode_ms: f64,
    /// The target's visual embeddings, once encoded, and the time that took.
    pub target: Option<(States, f64)>,
    pub drafter: Option<(States, f64)>,
}

impl Clip {
    /// Bytes of patches and embeddings.
    pub fn bytes(&self) -> u64 {
        let bytes = |rows: &Option<(States, f64)>| rows.as_ref().map_or(0, |(rows, _)| rows.bytes());
        let recut = self.recut.as_ref().map_or(0, |(_, patches)| size_of_val(&patches.data[..]));
        (size_of_val(&self.patches.data[..]) + recut + bytes(&self.target) + bytes(&self.drafter)) as u64
    }
}
