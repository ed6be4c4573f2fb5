//! What the drafter sees of a clip, as data: which visual tokens are kept, and the scores of all.
//!
//! A frame here is one position on the time axis of the grid: two sampled frames with Qwen, one with LLaVA-OneVision and
//! SmolVLM2.

use super::*;
use specreel_client::present::heat;
use specreel_record::PromptSeen;
use specreel_speculate::{Drafter, context};

/// Maximum number of frames that are drawn.
const DRAWN: usize = 64;

/// The visual tokens of a clip, and the drafter's share of them.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterView {
    pub times: Vec<f64>,
    pub grid: [usize; 3],
    /// For every visual token whether the drafter sees it.
    pub kept: Vec<bool>,
    /// The score of every visual token, if the context has scores.
    pub scores: Option<Vec<f32>>,
    /// Number of frames whose time stamps the drafter does not read.
    pub dropped_stamps: usize,
}

impl DrafterView {
    pub fn of(prompt: &PromptSeen) -> DrafterView {
        let kept: Vec<bool> = heat::kept(prompt).into_iter().map(|value| value > 0.0).collect();
        let scores = prompt.scores.clone().filter(|scores| scores.len() == kept.len());
        let dropped_stamps = prompt.dropped_stamps.len();
        DrafterView { times: prompt.frames.clone(), grid: prompt.grid, kept, scores, dropped_stamps }
    }

    pub fn frames(&self) -> usize {
        self.grid[0]
    }

    /// Sampled frames per position on the time axis; the last position may have fewer.
    pub fn frames_a_place(&self) -> usize {
        self.times.len().div_ceil(self.frames().max(1)).max(1)
    }

    pub fn cells(&self) -> usize {
        self.grid[1] * self.grid[2]
    }

    pub fn token(&self, frame: usize, row: usize, column: usize) -> usize {
        frame * self.cells() + row * self.grid[2] + column
    }

    /// Time of the first of a frame's sampled frames, in seconds.
    pub fn time(&self, frame: usize) -> f64 {
        self.times.get(frame * self.frames_a_place()).or(self.times.last()).copied().unwrap_or(0.0)
    }

    pub fn kept_in(&self, frame: usize) -> usize {
        self.kept.iter().skip(frame * self.cells()).take(self.cells()).filter(|kept| **kept).count()
    }

    pub fn kept_total(&self) -> usize {
        self.kept.iter().filter(|kept| **kept).count()
    }

    /// The frames to draw: all, or evenly spaced ones if there are too many.
    pub fn drawn(&self) -> Vec<usize> {
        context::evenly(self.frames(), DRAWN)
    }

    /// Lowest and highest score; `None` without scores.
    pub fn range(&self) -> Option<(f32, f32)> {
        heat::range(self.scores.as_ref()?)
    }

    /// The scores as values from 0 (lowest) to 1 (highest); `None` without scores.
    pub fn heat(&self) -> Option<Vec<f32>> {
        self.scores.as_ref().map(|scores| heat::normalise(scores))
    }
}

/// Refuse a method whose drafter does not use the video. Fails if it does not (class usage); the hint names other methods.
pub fn check_method(method: &Method, models: &ModelSpec) -> Result<(), Failure> {
    let Some(blind) = blind(&method.drafter) else { return Ok(()) };
    Err(Failure::usage(format!("method `{}` {blind}", method.name), others(models)))
}

/// Why a drafter does not use the video; none if it does, or is not chosen yet.
pub fn blind(drafter: &Drafter) -> Option<&'static str> {
    match drafter {
        Drafter::None {} => Some("has no drafter"),
        Drafter::Lookup { .. } => Some("does not use the video: prompt lookup drafts from text alone"),
        _ => None,
    }
}

/// Which methods have drafters that see the video.
pub fn others(models: &ModelSpec) -> &'static str {
    if models.drafter.is_some() {
        "use a method whose drafter sees the video: --method specvlm, parallelvlm or std (with scores), or naive"
    } else {
        "use a method that drafts with the target itself, --method specvlm-self or std, or add --drafter DIR"
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use specreel_record::FailureClass;

    /// Three frames of 2 x 2: scores 0 to 11, the last two of each frame kept.
    pub fn view() -> DrafterView {
        DrafterView {
            times: vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5],
            grid: [3, 2, 2],
            kept: (0..12).map(|i| i % 4 >= 2).collect(),
            scores: Some((0..12).map(|i| i as f32).collect()),
            dropped_stamps: 0,
        }
    }

    #[test]
    fn a_prompt_keeps_all_none_or_some() {
        let prompt = |kept, scores| PromptSeen {
            frames: vec![0.0, 0.5, 1.0, 1.5],
            grid: [2, 1, 2],
            kept,
            scores,
            ..PromptSeen::default()
        };
        let of = |kept| DrafterView::of(&prompt(kept, None));
        assert_eq!(of(None).kept, [true; 4]);
        assert_eq!(of(Some(vec![])).kept, [false; 4]);
        let some = of(Some(vec![1, 2, 99]));
        assert_eq!(some.kept, [false, true, true, false]);
        assert_eq!((some.kept_in(0), some.kept_in(1), some.kept_total()), (1, 1, 2));
        assert_eq!((some.range(), some.heat()), (None, None));
        assert_eq!(DrafterView::of(&prompt(None, Some(vec![1.0]))).scores, None);
    }

    #[test]
    fn positions_and_times() {
        let view = view();
        assert_eq!((view.token(2, 1, 0), view.cells(), view.frames()), (10, 4, 3));
        assert_eq!((view.time(0), view.time(1), view.time(9)), (0.0, 1.0, 2.5));
        assert_eq!(view.drawn(), [0, 1, 2]);
        let long = DrafterView { grid: [1000, 1, 1], ..view };
        assert_eq!((long.drawn().len(), long.drawn()[0], long.drawn()[63]), (64, 0, 999));
    }

    #[test]
    fn heat_goes_from_the_lowest_to_the_highest() {
        let view = view();
        let heat = view.heat().unwrap();
        assert_eq!((view.range(), heat[0], heat[11]), (Some((0.0, 11.0)), 0.0, 1.0));
    }

    fn check(name: &str) -> Result<(), Failure> {
        check_method(
            &Method::preset(name).unwrap(),
            &ModelSpec { target: "t".into(), ..ModelSpec::default() },
        )
    }

    #[test]
    fn methods_that_ignore_the_video_are_refused_and_those_in_the_hints_pass() {
        for name in ["autoregressive", "lookup"] {
            let failure = check(name).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage);
            assert!(failure.error.contains(name) && failure.hint.is_some());
        }
        for name in ["specvlm", "parallelvlm", "std", "naive", "specvlm-self"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }
}
