//! How a run is printed.

use specreel_client::present::export::{Outline, Subtitles};
use specreel_record::Cues;

/// A format of captions with times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Each cue as soon as it is complete.
    Subtitles(Subtitles),
    /// All at the end.
    Outline(Outline),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Events as JSON lines instead of text.
    pub json: bool,
    /// Verdict styles on stdout.
    pub color: bool,
    /// Verdict styles on stderr.
    pub color_talk: bool,
    pub quiet: bool,
    /// stdout is a terminal: no control characters, no progress while the caption is written.
    pub terminal: bool,
    /// Columns of the terminal at stdout, for whole words on its lines; none leaves the caption as it is.
    pub columns: Option<usize>,
    /// The same for the messages on stderr.
    pub columns_talk: Option<usize>,
    /// Captions with their times instead of text.
    pub timed: Option<Timed>,
    pub cues: Cues,
    /// Each step as a line on stderr.
    pub steps: bool,
    /// The text may be withdrawn: it is written at its end.
    pub late: bool,
}
