//! The progress line on stderr; nothing if stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::record::{Segment, Stage};

/// One line that shows the current stage.
pub struct Progress {
    bar: Option<ProgressBar>,
    stage: Option<Stage>,
    piece: Option<Segment>,
}

impl Progress {
    /// A line on stderr, if `shown` and stderr is a terminal.
    pub fn new(shown: bool) -> Self {
        Self {
            bar: shown.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())),
            stage: None,
            piece: None,
        }
    }

    /// Set the piece of the video that the following stages are about.
    pub fn piece(&mut self, piece: Option<Segment>) {
        if self.piece != piece {
            (self.piece, self.stage) = (piece, None);
        }
    }

    /// Set stage and progress; a total of 0 is unknown.
    pub fn stage(&mut self, stage: Stage, done: u64, total: u64) {
        let Some(bar) = &self.bar else { return };
        let template = if total > 0 {
            "{spinner} {msg} {bar:24} {pos}/{len} {elapsed}"
        } else {
            "{spinner} {msg} {elapsed}"
        };
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
            bar.set_message(match self.piece {
                Some(piece) => format!("piece {} of {}: {}", piece.index + 1, piece.count, stage.doing()),
                None => stage.doing().to_owned(),
            });
            bar.enable_steady_tick(Duration::from_millis(120));
        }
    }

    /// Set what is being done once the runs are over.
    pub fn after_runs(&mut self, doing: &'static str) {
        self.stage(Stage::Generate, 0, 0);
        if let Some(bar) = &self.bar {
            bar.set_message(doing);
        }
    }

    /// Remove the line, so that others can write.
    pub fn clear(&mut self) {
        if let Some(bar) = &self.bar
            && self.stage.take().is_some()
        {
            bar.disable_steady_tick();
            bar.finish_and_clear();
            bar.reset();
        }
    }
}
