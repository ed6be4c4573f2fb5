//! Clips that are captioned together, as `specreel caption` does it: what becomes of each of them, and the captions.

use std::{ops::Range, path::Path};

use super::sampling::SamplingChoice;
use crate::tui::picker::cycle;
use specreel_batch::{self as batch, Existing, Progress, Sidecar, rows::Caption};
use specreel_record::Cues;
use specreel_speculate::Method;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClipState {
    Waiting,
    Running,
    Done,
    /// The models wrote nothing.
    Empty,
    Skipped,
    /// Another process captions it.
    Busy,
    Failed(String),
}

#[derive(Clone, Debug)]
pub(crate) struct BatchClip {
    pub title: String,
    pub clip: batch::Clip,
    pub state: ClipState,
    pub run: u64,
    /// What is written about it, if that is known.
    pub caption: Option<Caption>,
}

impl BatchClip {
    pub fn new(title: &str, clip: batch::Clip) -> Self {
        Self { title: title.to_owned(), clip, state: ClipState::Waiting, run: 0, caption: None }
    }

    fn is_over(&self) -> bool {
        !matches!(self.state, ClipState::Waiting | ClipState::Running)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Chosen,
    Waiting,
    Running,
    Cancelling,
    /// It is complete, was cancelled, or cannot continue.
    Ended,
}

#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub clips: Vec<BatchClip>,
    pub cursor: usize,
    pub phase: Phase,
    pub prompt: String,
    pub method: Method,
    pub sampling: SamplingChoice,
    pub runs: Range<u64>,
    pub progress: Progress,
    pub retries: bool,
    pub problem: Option<String>,
}

impl Batch {
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Running | Phase::Cancelling)
    }

    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Cancelling)
    }

    pub fn selected(&self) -> Option<&BatchClip> {
        self.clips.get(self.cursor)
    }

    pub fn over(&self) -> usize {
        self.clips.iter().filter(|clip| clip.is_over()).count()
    }

    pub fn failed(&self) -> usize {
        self.clips.iter().filter(|clip| matches!(clip.state, ClipState::Failed(_))).count()
    }

    pub fn clip_mut(&mut self, video: &Path) -> Option<&mut BatchClip> {
        self.clips.iter_mut().find(|clip| clip.clip.path() == video)
    }

    pub fn counts(&self) -> Progress {
        let count = |is: fn(&ClipState) -> bool| self.clips.iter().filter(|clip| is(&clip.state)).count();
        Progress {
            total: self.clips.len(),
            captioned: count(|state| *state == ClipState::Done),
            empty: count(|state| *state == ClipState::Empty),
            skipped: count(|state| *state == ClipState::Skipped),
            busy: count(|state| *state == ClipState::Busy),
            failed: self.failed(),
            ..self.progress.clone()
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Batches {
    pub last: Option<Batch>,
    pub sidecar: Option<Sidecar>,
    pub existing: Existing,
    /// How captions become cues of subtitles, also in exports.
    pub cues: Cues,
}

impl Batches {
    pub fn new(sidecar: Option<Sidecar>, existing: Existing, cues: Cues) -> Self {
        Self { last: None, sidecar, existing, cues }
    }

    /// The one that was started and has not ended.
    pub fn active(&self) -> Option<&Batch> {
        self.last.as_ref().filter(|batch| batch.is_active())
    }

    pub fn has_engine(&self) -> bool {
        self.last.as_ref().is_some_and(Batch::is_running)
    }

    pub fn next_sidecar(&mut self) {
        // Chapters need segments, which a batch of the studio has not.
        let files = [Sidecar::Txt, Sidecar::Json, Sidecar::Srt, Sidecar::Vtt].map(Some);
        self.sidecar = cycle(&[&files[..], &[None]].concat(), self.sidecar, 1);
        // Only text can be extended.
        if self.sidecar != Some(Sidecar::Txt) && self.existing != Existing::Overwrite {
            self.existing = Existing::Skip;
        }
    }

    pub fn next_existing(&mut self) {
        self.existing = match (self.existing, self.sidecar) {
            (Existing::Skip, _) => Existing::Overwrite,
            (Existing::Overwrite, Some(Sidecar::Txt)) => Existing::Append,
            (Existing::Append, Some(Sidecar::Txt)) => Existing::Prepend,
            _ => Existing::Skip,
        };
    }
}
