//! Which visual tokens a pruned target keeps.

use serde::{Deserialize, Serialize};

use specreel_speculate::{
    Unit,
    context::{Density, PartialReading, Pruner, budget, change, largest},
    method::Problem,
};
use specreel_tensor::Result;

/// How a target is pruned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum TargetPruner {
    /// After layer `layer`, or in models of fewer layers after all but the last, those with the most attention from the prompt's last
    /// token.
    FastV {
        /// Share of the visual tokens that is kept.
        keep: f64,
        #[serde(default = "two")]
        layer: usize,
    },
    /// After each quarter of the layers, those with the most attention from the prompt's last token (PyramidDrop).
    PDrop {
        /// Share of the remaining visual tokens that is kept each time, three times in all.
        keep: f64,
    },
    /// As FastV, by the text rows that attend to the video most.
    SparseVlm {
        keep: f64,
        #[serde(default = "two")]
        layer: usize,
    },
    /// Before the first layer, those that differ most from the same cell of an earlier frame (DyCoke's temporal merging).
    DyCoke { keep: f64 },
    /// Before the first layer, density peaks of every fourth frame of each segment, or whole frames.
    FastVid {
        keep: f64,
        #[serde(default)]
        unit: Unit,
    },
}

fn two() -> usize {
    2
}

impl TargetPruner {
    /// Share of the visual tokens that is kept, each time where it is done several times.
    pub fn keep(&self) -> f64 {
        match *self {
            Self::FastV { keep, .. }
            | Self::PDrop { keep }
            | Self::SparseVlm { keep, .. }
            | Self::DyCoke { keep }
            | Self::FastVid { keep, .. } => keep,
        }
    }

    /// What is wrong with its numbers, if anything is.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let range = |key: &str, found: String, range: &str, hint: &str| {
            Some(Problem::Range { key: key.into(), found, range: range.into(), hint: hint.into() })
        };
        match self {
            _ if !(0.0..=1.0).contains(&self.keep()) => {
                let hint = "keep: share of the visual tokens that is kept (for example 0.1)";
                range("pruner.keep", self.keep().to_string(), "0 to 1", hint)
            }
            Self::FastV { layer: 0, .. } | Self::SparseVlm { layer: 0, .. } => {
                let hint = "layer: layers that read all visual tokens (for example 2)";
                range("pruner.layer", "0".into(), "at least 1", hint)
            }
            _ => None,
        }
    }
}

impl Pruner for TargetPruner {
    fn describe(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn cuts(&self, layers: usize) -> Vec<usize> {
        match *self {
            Self::FastV { layer, .. } | Self::SparseVlm { layer, .. } => {
                if layers > 1 {
                    vec![layer.clamp(1, layers - 1)]
                } else {
                    Vec::new()
                }
            }
            Self::PDrop { .. } => {
                let mut at: Vec<usize> = (1..4).map(|quarter| layers * quarter / 4).collect();
                at.dedup();
                at.retain(|&layer| layer > 0 && layer < layers);
                at
            }
            Self::DyCoke { .. } | Self::FastVid { .. } => vec![0],
        }
    }

    fn keep(&self, _: usize, read: &mut PartialReading<'_>) -> Result<Vec<usize>> {
        let keep = self.keep();
        let scores = match self {
            Self::FastV { .. } | Self::PDrop { .. } => read.attention_of_last()?,
            Self::SparseVlm { .. } => rated(&read.attention_of_text()?),
            Self::DyCoke { .. } => {
                let (embeddings, width) = read.embeddings()?;
                change(&embeddings, width, read.grid())
            }
            Self::FastVid { unit, .. } => {
                let (embeddings, width) = read.embeddings()?;
                let density = Density::of(&embeddings, width, read.grid());
                return Ok(match unit {
                    Unit::Tokens => density.choose(read.grid(), keep),
                    Unit::Frames => density.choose_frames(read.grid(), keep),
                });
            }
        };
        Ok(largest(&scores, budget(read.tokens().len(), keep)))
    }
}

/// The attention of the rows that attend to the video at least as much as `rows` (weights on all tokens) do on average, summed
/// (SparseVLM's text raters).
fn rated(rows: &[Vec<f32>]) -> Vec<f32> {
    let mass: Vec<f32> = rows.iter().map(|row| row.iter().sum()).collect();
    let mean = mass.iter().sum::<f32>() / mass.len().max(1) as f32;
    let mut scores = vec![0f32; rows.first().map_or(0, Vec::len)];
    // A sum of equal values may be rounded up.
    for (row, _) in rows.iter().zip(&mass).filter(|(_, mass)| **mass >= mean * (1.0 - 1e-6)) {
        scores.iter_mut().zip(row).for_each(|(score, weight)| *score += weight);
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raters_are_those_that_look() {
        let rows = [vec![0.5, 0.1, 0.0], vec![0.0, 0.1, 0.0], vec![0.1, 0.0, 0.4]];
        // Masses .6, .1, .5 with a mean of .4: the second row does not rate.
        assert_eq!(rated(&rows), [0.6, 0.1, 0.4]);
        assert!(rated(&vec![vec![0.1; 3]; 3]).iter().all(|&score| score > 0.29), "equal rows all rate");
        assert!(rated(&[]).is_empty());
    }

    #[test]
    fn cuts_are_inside_of_the_model() {
        for pruner in
            [TargetPruner::FastV { keep: 0.5, layer: 2 }, TargetPruner::SparseVlm { keep: 0.5, layer: 2 }]
        {
            assert_eq!([1, 2, 3, 28].map(|layers| pruner.cuts(layers)), [vec![], vec![1], vec![2], vec![2]]);
        }
        let pdrop = TargetPruner::PDrop { keep: 0.5 };
        assert_eq!(
            [1, 2, 4, 6, 32].map(|layers| pdrop.cuts(layers)),
            [vec![], vec![1], vec![1, 2, 3], vec![1, 3, 4], vec![8, 16, 24]]
        );
        assert_eq!(TargetPruner::DyCoke { keep: 0.5 }.cuts(28), [0]);
    }
}
