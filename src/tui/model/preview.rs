//! The preview of the selected clip: its clock, and the frames that it needs.

use std::path::{Path, PathBuf};

use super::{Model, library::Entry, run::Run};
use crate::tui::{clock::Clock, config::FrameRequest};
use specreel_video::sampling;

const FRAMES: usize = 40;
const MAX: (u32, u32) = (512, 384);
/// More frames than this are not shown as tiles.
const MAX_TILES: usize = 256;
const TILE: (u32, u32) = (128, 128);
/// Longer clips play faster, so that a preview takes no longer than this.
const PATIENCE_MS: f64 = 12_000.0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Preview {
    pub path: PathBuf,
    pub clock: Clock,
}

impl Preview {
    /// Paused at the clip's beginning.
    pub fn new(path: &Path, seconds: Option<f64>) -> Self {
        let mut preview = Self { path: path.into(), clock: Clock::new(0.0) };
        preview.clock.playing = false;
        preview.set_length(seconds);
        preview
    }

    pub fn set_length(&mut self, seconds: Option<f64>) {
        let seconds = seconds.filter(|s| s.is_finite()).unwrap_or(0.0);
        if self.clock.length == 0.0 {
            self.clock.length = 1e3 * seconds.max(0.0);
            while self.clock.length > PATIENCE_MS * self.clock.speed && self.clock.speed < 16.0 {
                self.clock.change_speed(true);
            }
        }
    }
}

pub(crate) fn strip(path: &Path) -> FrameRequest {
    FrameRequest { path: path.into(), count: FRAMES, max: MAX }
}

/// The thumbnail below the library's list.
pub(crate) fn thumbnail(path: &Path) -> FrameRequest {
    FrameRequest { count: 1, ..strip(path) }
}

/// The frames that a run samples, for heat maps; `None` if there are too many or too few to show.
pub(crate) fn tiles(run: &Run) -> Option<FrameRequest> {
    let n = run.log.prompt()?.frames.len();
    (2..=MAX_TILES).contains(&n).then(|| FrameRequest {
        path: run.subject.video.clone(),
        count: n,
        max: TILE,
    })
}

/// The times of the frames that a run would sample; none while the clip's properties are unknown.
pub(crate) fn sampled(model: &Model, entry: &Entry) -> Option<Vec<f64>> {
    let facts = entry.facts()?;
    let plan =
        sampling::plan(facts.frames?, facts.fps?, &model.config.rule, model.config.request.sampling).ok()?;
    Some(plan.timestamps_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_clips_play_faster() {
        let speed = |seconds| Preview::new(Path::new("a"), Some(seconds)).clock.speed;
        assert_eq!([speed(6.0), speed(12.0), speed(60.0), speed(9000.0)], [1.0, 1.0, 8.0, 16.0]);
        let mut unknown = Preview::new(Path::new("a"), None);
        assert!((unknown.clock.length, unknown.clock.playing) == (0.0, false));
        unknown.set_length(Some(30.0));
        assert_eq!((unknown.clock.length, unknown.clock.speed), (30_000.0, 4.0));
    }
}
