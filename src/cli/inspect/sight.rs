//! What the drafter sees of a clip, as data: which visual tokens were kept, and how all of them scored.
//!
//! A frame here is one place on the time axis of the grid. In Qwen's layout it stands for two sampled frames, in
//! LLaVA-OneVision's for one.

use crate::{
    model::ModelSpec,
    record::{EventKind, Failure, FailureClass},
    speculate::{Drafter, Method, context},
};

/// Frames that are drawn at most.
const DRAWN: usize = 64;

/// The visual tokens of a clip, and the drafter's share of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// Time stamps of the sampled frames, in seconds.
    pub times: Vec<f64>,
    /// Frames × rows × columns.
    pub grid: [usize; 3],
    /// For every visual token whether the drafter sees it.
    pub kept: Vec<bool>,
    /// The score of every visual token, where the context has scores.
    pub scores: Option<Vec<f32>>,
}

impl Sight {
    /// What a `prompt` event says; none for other events.
    pub fn of(event: &EventKind) -> Option<Sight> {
        let EventKind::Prompt { frames, grid, kept, scores, .. } = event else { return None };
        let tokens = grid.iter().product();
        let mut sees = vec![kept.is_none(); tokens];
        for &index in kept.iter().flatten() {
            if let Some(sees) = sees.get_mut(index as usize) {
                *sees = true;
            }
        }
        let scores = scores.clone().filter(|scores| scores.len() == tokens);
        Some(Sight { times: frames.clone(), grid: *grid, kept: sees, scores })
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.grid[0]
    }

    /// Sampled frames that one place on the time axis covers; the last place may cover fewer.
    pub fn frames_a_place(&self) -> usize {
        self.times.len().div_ceil(self.frames().max(1)).max(1)
    }

    /// Visual tokens of a frame.
    pub fn cells(&self) -> usize {
        self.grid[1] * self.grid[2]
    }

    /// Index of the visual token at a place.
    pub fn token(&self, frame: usize, row: usize, column: usize) -> usize {
        frame * self.cells() + row * self.grid[2] + column
    }

    /// When the first of a frame's sampled frames is shown, in seconds.
    pub fn time(&self, frame: usize) -> f64 {
        self.times.get(frame * self.frames_a_place()).or(self.times.last()).copied().unwrap_or(0.0)
    }

    /// Kept tokens of a frame.
    pub fn kept_in(&self, frame: usize) -> usize {
        self.kept.iter().skip(frame * self.cells()).take(self.cells()).filter(|kept| **kept).count()
    }

    /// Kept tokens in all.
    pub fn kept_total(&self) -> usize {
        self.kept.iter().filter(|kept| **kept).count()
    }

    /// The frames to draw: all, or evenly spaced ones where there are too many.
    pub fn drawn(&self) -> Vec<usize> {
        context::evenly(self.frames(), DRAWN)
    }

    /// Lowest and highest score; none without scores.
    pub fn range(&self) -> Option<(f32, f32)> {
        let finite = self.scores.iter().flatten().copied().filter(|score| score.is_finite());
        finite.fold(None, |range, score| {
            let (low, high) = range.unwrap_or((score, score));
            Some((low.min(score), high.max(score)))
        })
    }

    /// A token's score as a share of the way from the lowest to the highest of [`Sight::range`]; none without scores.
    pub fn heat(&self, token: usize, (low, high): (f32, f32)) -> Option<f32> {
        let score = *self.scores.as_ref()?.get(token)?;
        let heat = (f64::from(score) - f64::from(low)) / (f64::from(high) - f64::from(low));
        Some(if heat.is_finite() { heat.clamp(0.0, 1.0) as f32 } else { 0.0 })
    }
}

/// Refuse a method for which nothing of the video is chosen.
///
/// # Errors
/// That (class usage), with what to pick instead.
pub fn has_eyes(method: &Method, models: &ModelSpec) -> Result<(), Failure> {
    let what = match method.drafter {
        Drafter::None {} => "has no drafter, so there is nothing to see through its eyes",
        Drafter::Lookup { .. } => "drafts by looking words up and sees nothing of the video",
        _ => return Ok(()),
    };
    let hint = if models.drafter.is_some() {
        "pick one whose drafter sees the video: --method specvlm, parallelvlm or std (with scores), sd-uniform or naive"
    } else {
        "pick one that drafts with the target itself, --method specvlm-self or std, or add --drafter DIR"
    };
    Err(Failure {
        class: FailureClass::Usage,
        error: format!("method `{}` {what}", method.name),
        hint: Some(hint.into()),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Three frames of 2 x 2: scores 0 to 11, the last two of each frame kept.
    pub fn sight() -> Sight {
        Sight {
            times: vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5],
            grid: [3, 2, 2],
            kept: (0..12).map(|i| i % 4 >= 2).collect(),
            scores: Some((0..12).map(|i| i as f32).collect()),
        }
    }

    fn prompt(kept: Option<Vec<u32>>, scores: Option<Vec<f32>>) -> EventKind {
        EventKind::Prompt {
            frames: vec![0.0, 0.5, 1.0, 1.5],
            grid: [2, 1, 2],
            visual_tokens: 4,
            prompt_ids: vec![1, 2],
            kept,
            scores,
            reused: false,
            notes: vec![],
        }
    }

    #[test]
    fn events_say_all_none_or_some() {
        let of = |kept| Sight::of(&prompt(kept, None)).unwrap();
        assert_eq!(of(None).kept, [true; 4]);
        assert_eq!(of(Some(vec![])).kept, [false; 4]);
        let some = of(Some(vec![1, 2, 99]));
        assert_eq!(some.kept, [false, true, true, false]);
        assert_eq!((some.kept_in(0), some.kept_in(1), some.kept_total()), (1, 1, 2));
        assert_eq!((some.range(), some.heat(0, (0.0, 1.0))), (None, None));
        assert!(Sight::of(&EventKind::Failed(has_eyes_of("autoregressive").unwrap_err())).is_none());
        assert_eq!(Sight::of(&prompt(None, Some(vec![1.0]))).unwrap().scores, None);
    }

    #[test]
    fn places_and_times() {
        let sight = sight();
        assert_eq!((sight.token(2, 1, 0), sight.cells(), sight.frames()), (10, 4, 3));
        assert_eq!((sight.time(0), sight.time(1), sight.time(9)), (0.0, 1.0, 2.5));
        assert_eq!(sight.drawn(), [0, 1, 2]);
        let long = Sight { grid: [1000, 1, 1], ..sight };
        assert_eq!((long.drawn().len(), long.drawn()[0], long.drawn()[63]), (64, 0, 999));
    }

    #[test]
    fn heat_goes_from_the_lowest_to_the_highest() {
        let sight = sight();
        let heat = |sight: &Sight, token| sight.heat(token, sight.range().unwrap()).unwrap();
        assert_eq!(sight.range(), Some((0.0, 11.0)));
        assert_eq!((heat(&sight, 0), heat(&sight, 11)), (0.0, 1.0));
        let flat = Sight { scores: Some(vec![3.0; 12]), ..sight.clone() };
        assert_eq!(heat(&flat, 5), 0.0);
        let odd = Sight { scores: Some([vec![f32::NAN, 1.0], vec![2.0; 10]].concat()), ..sight };
        assert_eq!((odd.range(), heat(&odd, 0), heat(&odd, 2)), (Some((1.0, 2.0)), 0.0, 1.0));
    }

    fn has_eyes_of(name: &str) -> Result<(), Failure> {
        has_eyes(
            &Method::preset(name).unwrap(),
            &ModelSpec {
                target: "t".into(),
                drafter: None,
                heads: Vec::new(),
                device: Default::default(),
                drafter_device: None,
                dtype: Default::default(),
                rope: Default::default(),
            },
        )
    }

    #[test]
    fn methods_without_eyes_are_refused_and_those_in_the_hints_have_some() {
        for name in ["autoregressive", "lookup"] {
            let failure = has_eyes_of(name).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage);
            assert!(failure.error.contains(name) && failure.hint.is_some());
        }
        for name in ["specvlm", "parallelvlm", "std", "sd-uniform", "naive", "specvlm-self"] {
            assert!(has_eyes_of(name).is_ok(), "{name}");
        }
    }
}
