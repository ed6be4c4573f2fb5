//! Hyperparameters of a training run.

use serde::{Deserialize, Serialize};

use super::BlockOptions;
use specreel_model::{
    config::TextConfig,
    draft_head::{Eagle3Config, Recipe, VisualRows},
};

/// Everything that determines the result besides the target and the clips. A run can be resumed only with the same options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub recipe: Recipe,
    /// Inputs at the rows of visual tokens in the visual stage: [`VisualRows::Middle`] is IVSB.
    pub visual_rows: VisualRows,
    /// Share of the clips whose visual rows are hidden in the visual stage, so that the head learns to draft without them (VATA;
    /// *ours*, the paper hides them only at inference). 0 hides none.
    pub hidden: f64,
    /// Passes on the head's own outputs after the first pass (MTP; of EAGLE-3, the training-time test); Sparrow's paper uses one.
    pub recursions: usize,
    /// Share of the clips used by the text stage.
    pub text_share: f64,
    pub prompt: String,
    /// Longest caption, in tokens.
    pub max_new_tokens: usize,
    /// Epochs over each captioned clip.
    pub epochs: usize,
    /// Clips per step.
    pub batch: usize,
    /// Captioned clips kept in memory (one round).
    pub keep: usize,
    pub learning_rate: f64,
    /// Final learning rate, as a share of the peak.
    pub last_rate: f64,
    pub warm_up: usize,
    /// AdamW's decay rates of the moments.
    pub betas: [f64; 2],
    pub weight_decay: f64,
    /// Gradients are clipped to ± this value.
    pub clip: f64,
    /// Weight of the state loss (smooth L1).
    pub state_weight: f64,
    /// Weight of the token loss (cross-entropy with the target's distribution).
    pub token_weight: f64,
    /// Width of the uniform noise on the target's states for texts of 512 tokens; shorter texts get more (EAGLE).
    pub noise: f64,
    /// Of a DFlash head, which has none of the recursions and stages, no visual rows and no state loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockOptions>,
    /// End the schedule after this many minutes. Such runs are not reproducible.
    pub minutes: Option<f64>,
    pub seed: u64,
}

impl Options {
    /// The defaults of a recipe. Losses, optimizer and noise are EAGLE's, on which the other recipes build. There is no training of
    /// [`Recipe::Mtp`] layers and [`Recipe::Assistant`]s; their defaults are MSD's. EAGLE-3 and DFlash have one stage, and their papers' defaults.
    pub fn of(recipe: Recipe) -> Self {
        let (visual_rows, hidden, recursions) = match recipe {
            Recipe::Sparrow => (VisualRows::Middle, 0.5, 1),
            Recipe::Msd | Recipe::Mtp | Recipe::Dflash | Recipe::Assistant => {
                (VisualRows::Embeddings, 0.0, 0)
            }
            Recipe::Eagle3 => (VisualRows::Embeddings, 0.0, 6),
            Recipe::Vispec => (VisualRows::Embeddings, 0.0, 1),
            Recipe::Hivis => (VisualRows::Embeddings, 1.0, 2),
        };
        let blocks = (recipe == Recipe::Dflash).then(BlockOptions::default);
        let (text_share, learning_rate, noise) = match recipe {
            Recipe::Dflash => (0.0, 6e-4, 0.0),
            Recipe::Eagle3 => (0.0, 5e-5, 0.0),
            _ => (0.5, 3e-5, 0.2),
        };
        Self {
            recipe,
            visual_rows,
            hidden,
            recursions,
            text_share,
            prompt: "Describe the video in detail.".into(),
            max_new_tokens: 256,
            epochs: 20,
            batch: 16,
            keep: 256,
            learning_rate,
            last_rate: 0.05,
            warm_up: 200,
            betas: [0.9, 0.95],
            weight_decay: 0.01,
            clip: 0.5,
            state_weight: 1.0,
            token_weight: 0.1,
            noise,
            blocks,
            minutes: None,
            seed: 0,
        }
    }

    /// Layers of the target whose states the head reads; none if it reads the final states alone.
    pub fn target_layers(&self, target: &TextConfig) -> Vec<usize> {
        match (&self.blocks, self.recipe) {
            (Some(blocks), _) => blocks.target_layers(target),
            (None, Recipe::Eagle3) => Eagle3Config::like(target).layers.unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The first option that differs, as (name, own value, other value).
    pub fn difference(&self, other: &Options) -> Option<(String, String, String)> {
        let (ours, theirs) = (serde_json::to_value(self).ok()?, serde_json::to_value(other).ok()?);
        let ours = ours.as_object()?;
        ours.iter()
            .find(|(key, value)| theirs.get(key.as_str()) != Some(value))
            .map(|(key, value)| (key.replace('_', "-"), value.to_string(), theirs[key.as_str()].to_string()))
    }

    /// The learning rate after `step` steps at `progress` (0 to 1): linear warm-up, then linear decay.
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
