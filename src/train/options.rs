//! What a training is told.

use serde::{Deserialize, Serialize};

use crate::model::draft_head::{Recipe, VisualRows};

/// Everything that decides what comes out, beside the target and the clips. A training goes on only with the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// How the layer is to be used.
    pub recipe: Recipe,
    /// What stands at the rows of visual tokens in the visual stage: [`VisualRows::Middle`] is IVSB.
    pub visual_rows: VisualRows,
    /// Whether the layer is to draft without looking: in the visual stage the visual rows are hidden from this share of the
    /// clips (VATA; *ours*, the paper hides them only afterwards). 0 = it always looks.
    pub hidden: f64,
    /// Passes on own outputs after the first one (MTP); the paper makes one.
    pub recursions: usize,
    /// Share of the clips that the text stage takes.
    pub text_share: f64,
    /// What the target is asked about each clip.
    pub prompt: String,
    /// Longest caption.
    pub max_new_tokens: usize,
    /// Times that each captioned clip is learned from.
    pub epochs: usize,
    /// Clips in a step.
    pub batch: usize,
    /// Captioned clips in memory.
    pub keep: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// The learning rate's last value, as a share of the highest.
    pub last_rate: f64,
    /// Steps until the learning rate is reached.
    pub warm_up: usize,
    /// AdamW's.
    pub betas: [f64; 2],
    /// AdamW's.
    pub weight_decay: f64,
    /// Gradients are cut at plus and minus this.
    pub clip: f64,
    /// Weight of the distance of states (smooth L1).
    pub state_weight: f64,
    /// Weight of the cross-entropy with the target's distribution.
    pub token_weight: f64,
    /// Width of the uniform noise on the target's states, for texts of 512 tokens; shorter texts get more (EAGLE).
    pub noise: f64,
    /// End by the clock: the schedule is over after this many minutes. Two such trainings are never the same.
    pub minutes: Option<f64>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Options {
    /// The defaults of a recipe: losses, optimiser and noise are EAGLE's, on which Sparrow and MSD stand.
    pub fn of(recipe: Recipe) -> Self {
        let sparrow = recipe == Recipe::Sparrow;
        Self {
            recipe,
            visual_rows: if sparrow { VisualRows::Middle } else { VisualRows::Embeddings },
            hidden: if sparrow { 0.5 } else { 0.0 },
            recursions: usize::from(sparrow),
            text_share: 0.5,
            prompt: "Describe the video in detail.".into(),
            max_new_tokens: 256,
            epochs: 20,
            batch: 16,
            keep: 256,
            learning_rate: 3e-5,
            last_rate: 0.05,
            warm_up: 200,
            betas: [0.9, 0.95],
            weight_decay: 0.01,
            clip: 0.5,
            state_weight: 1.0,
            token_weight: 0.1,
            noise: 0.2,
            minutes: None,
            seed: 0,
        }
    }

    /// The first value in which two differ, as (name, here, there).
    pub fn difference(&self, other: &Options) -> Option<(String, String, String)> {
        let (ours, theirs) = (serde_json::to_value(self).ok()?, serde_json::to_value(other).ok()?);
        let ours = ours.as_object()?;
        ours.iter()
            .find(|(key, value)| theirs.get(key.as_str()) != Some(value))
            .map(|(key, value)| (key.replace('_', "-"), value.to_string(), theirs[key.as_str()].to_string()))
    }

    /// The learning rate after `step` steps and `progress` (0 to 1) of the way: up in a line, then down in a line.
    pub fn rate(&self, step: usize, progress: f64) -> f64 {
        let warm = ((step + 1) as f64 / self.warm_up.max(1) as f64).min(1.0);
        let left = 1.0 - progress.clamp(0.0, 1.0);
        self.learning_rate * warm * (self.last_rate + (1.0 - self.last_rate) * left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_goes_up_and_down() {
        let options =
            Options { learning_rate: 1.0, warm_up: 10, last_rate: 0.1, ..Options::of(Recipe::Sparrow) };
        assert_eq!(options.rate(0, 0.0), 0.1);
        assert_eq!(options.rate(9, 0.0), 1.0);
        assert!((options.rate(500, 0.5) - 0.55).abs() < 1e-12);
        assert!((options.rate(999, 1.0) - 0.1).abs() < 1e-12);
        assert!((options.rate(999, 7.0) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn the_first_difference_is_named() {
        let ours = Options::of(Recipe::Sparrow);
        assert_eq!(ours.difference(&ours.clone()), None);
        let other = Options { batch: 4, ..ours.clone() };
        assert_eq!(ours.difference(&other), Some(("batch".into(), "16".into(), "4".into())));
    }
}
