//! The signals of a prefill by which visual tokens are chosen.

use super::{AtLayer, Density};

/// The attention of the text after the video to the visual tokens, in the target's layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attention {
    /// For each layer, key head and visual token the attention weights, summed over the rows of text and the group's heads.
    pub by_head: Vec<f32>,
    /// Divisor of a sum over layers and key heads: layers × heads × rows.
    pub weight: f32,
    pub tokens: usize,
    /// Number of the prompt's other tokens.
    pub text: usize,
}

impl Attention {
    /// For each visual token the mean weight over layers, heads and rows (SpecVLM).
    pub fn scores(&self) -> Vec<f32> {
        let mut scores = vec![0f32; self.tokens];
        for head in self.by_head.chunks_exact(self.tokens.max(1)) {
            scores.iter_mut().zip(head).for_each(|(score, weight)| *score += weight);
        }
        scores.iter_mut().for_each(|score| *score /= self.weight.max(1.0));
        scores
    }
}

/// The signals of one context; only those that some method needed are set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Attention from the text to the visual tokens.
    pub attention: Option<Attention>,
    /// By layer: the growth of each visual token's similarity to the text.
    pub variations: Vec<(AtLayer, Vec<f32>)>,
    /// Each visual token's change since an earlier frame.
    pub change: Option<Vec<f32>>,
    pub density: Option<Density>,
}

impl Signals {
    pub fn bytes(&self) -> usize {
        let variations = self.variations.iter().map(|(_, scores)| size_of_val(&scores[..]));
        let of_embeddings = [self.change.as_deref(), self.density.as_ref().map(|d| &d.peaks[..])];
        variations.sum::<usize>()
            + of_embeddings.into_iter().flatten().map(size_of_val).sum::<usize>()
            + self.attention.as_ref().map_or(0, |a| size_of_val(&a.by_head[..]))
    }

    /// The variation up to this layer.
    pub fn variation(&self, at: AtLayer) -> Option<&[f32]> {
        self.variations.iter().find(|(other, _)| *other == at).map(|(_, scores)| scores.as_slice())
    }
}

/// ParallelVLM's similarity to the text: for each visual token the sum over text tokens of the cosine between their states.
///
/// `states` are rows of `width`; `is_visual(row)` and `is_text(row)` classify them.
pub fn likeness(
    states: &[f32],
    width: usize,
    is_visual: impl Fn(usize) -> bool,
    is_text: impl Fn(usize) -> bool,
) -> Vec<f32> {
    let unit = |row: &[f32]| {
        let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        row.iter().map(|v| v * scale).collect::<Vec<f32>>()
    };
    // The sum of cosines with many vectors is the product with the sum of their unit vectors.
    let mut text = vec![0f32; width];
    for (_, state) in states.chunks_exact(width).enumerate().filter(|(row, _)| is_text(*row)) {
        text.iter_mut().zip(unit(state)).for_each(|(sum, v)| *sum += v);
    }
    states
        .chunks_exact(width)
        .enumerate()
        .filter(|(row, _)| is_visual(*row))
        .map(|(_, state)| unit(state).iter().zip(&text).map(|(a, b)| a * b).sum())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_means_over_everything() {
        let attention = Attention { by_head: vec![1.0, 2.0, 3.0, 0.0], weight: 4.0, tokens: 2, text: 1 };
        assert_eq!(attention.scores(), [1.0, 0.5]);
    }

    #[test]
    fn likeness_is_a_sum_of_cosines() {
        let states = [3.0, 0.0, 0.0, 2.0, 1.0, 1.0, 0.0, 0.0];
        let got = likeness(&states, 2, |row| row >= 2, |row| row < 2);
        assert!((got[0] - 2f32.sqrt()).abs() < 1e-6);
        assert_eq!(got[1], 0.0);
        // A row may be neither.
        assert!((likeness(&states, 2, |row| row == 2, |row| row == 0)[0] - 0.5f32.sqrt()).abs() < 1e-6);
    }
}
