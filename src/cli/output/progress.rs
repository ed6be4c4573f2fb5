//! The progress line on stderr; nothing if stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use specreel_client::present::estimate;
use specreel_record::{Segment, Stage};

/// Less time left is not shown, in milliseconds.
const LEFT_MS: f64 = 1000.0;

pub struct Progress {
    shown: bool,
    /// The line on the screen. A bar that was cleared would draw itself again when it is reused, so each line has its own.
    bar: Option<ProgressBar>,
    stage: Option<Stage>,
    piece: Option<Segment>,
    label: String,
}

impl Progress {
    pub fn new(shown: bool) -> Self {
        let shown = shown && !ProgressDrawTarget::stderr().is_hidden();
        Self { shown, bar: None, stage: None, piece: None, label: String::new() }
    }

    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Set the prefix of the following stages, such as `[2/5] naive`; may be empty.
    pub fn label(&mut self, label: &str) {
        if self.label != label {
            (self.label, self.stage) = (label.to_owned(), None);
        }
    }

    pub fn piece(&mut self, piece: Option<Segment>) {
        if self.piece != piece {
            (self.piece, self.stage) = (piece, None);
        }
    }

    pub fn stage(&mut self, stage: Stage, done: u64, total: u64) {
        self.stage_with(stage, done, total, None);
    }

    /// As [`Progress::stage`], with the time left of the stage, if that is known.
    pub fn stage_with(&mut self, stage: Stage, done: u64, total: u64, left_ms: Option<f64>) {
        if !self.shown {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let left = left_ms.filter(|ms| *ms >= LEFT_MS);
        let template = match (total, left) {
            (0, _) => "{spinner} {msg} {elapsed}",
            (_, None) => "{spinner} {msg} {bar:24} {pos}/{len} {elapsed}",
            (_, Some(_)) => "{spinner} {msg} {bar:24} {pos}/{len} {elapsed} ({prefix} left)",
        };
        bar.set_prefix(left.map(estimate::left).unwrap_or_default());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // Both at once, so that a position is never shown with the length of another stage.
        bar.update(|state| {
            state.set_len(total);
            state.set_pos(done);
        });
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            let piece = self.piece.map(|p| format!("segment {p}: "));
            let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
            bar.set_message(label + &piece.unwrap_or_default() + stage.doing());
        }
    }

    /// Show how many seconds of a video were gone through, of how many, and what for.
    pub fn looking(&mut self, doing: &'static str, done: f64, total: f64) {
        self.stage(Stage::Decode, done as u64, total as u64);
        if let Some(bar) = &self.bar {
            bar.set_message(doing);
        }
    }

    /// Set the work that follows the runs.
    pub fn after_runs(&mut self, doing: &'static str) {
        self.stage(Stage::Generate, 0, 0);
        if let Some(bar) = &self.bar {
            bar.set_message(doing);
        }
    }

    pub fn clear(&mut self) {
        self.stage = None;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
