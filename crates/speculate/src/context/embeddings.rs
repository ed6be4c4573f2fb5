//! Scores of visual tokens by their embeddings: change from frame to frame (DyCoke) and density (FastVID). Pure functions.

use super::{budget, largest};

/// Frames of one group, in which cells are compared with earlier frames' (DyCoke); every such frame is an anchor
/// (FastVID).
const GROUP: usize = 4;
/// Frames whose mean embeddings have a cosine below this belong to different segments (FastVID).
const SAME_SEGMENT: f32 = 0.9;
/// Neighbors that a token's density is taken over (FastVID).
const NEIGHBORS: usize = 4;

/// How much each visual token differs from the same cell of an earlier frame of its group of four: 1 − cosine of the embeddings
/// (rows of `width`). The second frame is compared with the first, the fourth with the third, the third with the first; first
/// frames have nothing before them and differ most (from 2 to 3, so that any number of them is spread evenly: DyCoke keeps them
/// all, which a smaller budget does not allow).
pub fn change(embeddings: &[f32], width: usize, grid: [usize; 3]) -> Vec<f32> {
    let units = units(embeddings, width);
    let [frames, rows, columns] = grid;
    let cells = rows * columns;
    let mut scores = Vec::with_capacity(frames * cells);
    for frame in 0..frames {
        let reference = match frame % GROUP {
            0 => None,
            2 => Some(frame - 2),
            _ => Some(frame - 1),
        };
        for cell in 0..cells {
            let token =
                |frame: usize| units.get((frame * cells + cell) * width..(frame * cells + cell + 1) * width);
            let cosine = reference.and_then(|r| Some(dot(token(frame)?, token(r)?)));
            let first = frame / GROUP * cells + cell;
            scores.push(cosine.map_or_else(|| 3.0 - spread(first), |cosine| 1.0 - cosine));
        }
    }
    scores
}

/// From 0 to 1: any first few of these are about even (van der Corput's sequence).
fn spread(n: usize) -> f32 {
    (n as u32).reverse_bits() as f32 / u32::MAX as f32
}

/// Visual tokens by density.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Density {
    /// For each token its density within its frame, times the distance to the nearest denser one.
    pub peaks: Vec<f32>,
    /// How much each frame resembles the one before: the cosine of their mean embeddings, and -1 for the first.
    pub transitions: Vec<f32>,
    /// The first frames of the segments, ascending, beginning with 0.
    pub segments: Vec<usize>,
}

impl Density {
    /// The density of embeddings (rows of `width`).
    pub fn of(embeddings: &[f32], width: usize, grid: [usize; 3]) -> Self {
        let cells = grid[1] * grid[2];
        if cells == 0 || grid[0] == 0 {
            return Self::default();
        }
        let units = units(embeddings, width);
        let (mut peaks, mut transitions, mut before) = (Vec::new(), Vec::new(), None::<Vec<f32>>);
        for tokens in units.chunks_exact(cells * width) {
            peaks.extend(density_peaks(tokens, width));
            let mut mean = vec![0f32; width];
            for token in tokens.chunks_exact(width) {
                mean.iter_mut().zip(token).for_each(|(sum, v)| *sum += v);
            }
            let mean = self::units(&mean, width);
            transitions.push(before.map_or(-1.0, |before| dot(&before, &mean)));
            before = Some(mean);
        }
        let segments = (0..transitions.len()).filter(|&frame| transitions[frame] < SAME_SEGMENT).collect();
        Self { peaks, transitions, segments }
    }

    /// The tokens of the frames that resemble the one before least, ascending.
    pub fn choose_frames(&self, grid: [usize; 3], keep: f64) -> Vec<usize> {
        let [frames, rows, columns] = grid;
        let cells = rows * columns;
        let wanted = if keep > 0.0 { budget(frames, keep).max(1) } else { 0 };
        let change: Vec<f32> = self.transitions.iter().map(|cosine| -cosine).collect();
        let chosen = largest(&change, wanted.min(frames));
        chosen.into_iter().flat_map(|frame| frame * cells..(frame + 1) * cells).collect()
    }

    /// The kept tokens, ascending: each segment has a share of the budget by its frames, spent on its anchor frames (every
    /// fourth) first, by peaks.
    pub fn choose(&self, grid: [usize; 3], keep: f64) -> Vec<usize> {
        let [frames, rows, columns] = grid;
        let cells = rows * columns;
        let total = budget(frames * cells, keep);
        let mut kept = Vec::with_capacity(total);
        for (index, &first) in self.segments.iter().enumerate() {
            let end = self.segments.get(index + 1).copied().unwrap_or(frames);
            // Shares are differences of a running total, so that they add up to the budget.
            let share = total * end / frames - total * first / frames;
            let scores: Vec<f32> = (first * cells..end * cells)
                .map(|token| {
                    let anchor = (token / cells - first).is_multiple_of(GROUP);
                    // A peak is at most 2: anchors come first.
                    self.peaks.get(token).copied().unwrap_or(0.0) + if anchor { 4.0 } else { 0.0 }
                })
                .collect();
            kept.extend(largest(&scores, share).into_iter().map(|token| first * cells + token));
        }
        kept
    }
}

/// Density peaks of one frame's unit vectors: density is exp(−mean squared distance to the nearest neighbors), from 0 to 1; the
/// distance is that to the nearest denser token, the largest of all for the densest.
fn density_peaks(tokens: &[f32], width: usize) -> Vec<f32> {
    let all: Vec<&[f32]> = tokens.chunks_exact(width).collect();
    // Unit vectors are at most 2 apart.
    let apart = |a: &[f32], b: &[f32]| (2.0 - 2.0 * dot(a, b)).max(0.0).sqrt();
    let distances: Vec<Vec<f32>> = all.iter().map(|a| all.iter().map(|b| apart(a, b)).collect()).collect();
    let density: Vec<f32> = distances
        .iter()
        .enumerate()
        .map(|(own, row)| {
            let mut others: Vec<f32> =
                row.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, d)| d * d).collect();
            others.sort_by(f32::total_cmp);
            others.truncate(NEIGHBORS);
            (-others.iter().sum::<f32>() / others.len().max(1) as f32).exp()
        })
        .collect();
    let denser = |a: usize, b: usize| density[a] > density[b] || density[a] == density[b] && a < b;
    (0..all.len())
        .map(|own| {
            let nearest = (0..all.len())
                .filter(|&other| denser(other, own))
                .map(|other| distances[own][other])
                .min_by(f32::total_cmp);
            let farthest = || distances[own].iter().copied().max_by(f32::total_cmp).unwrap_or(0.0);
            density[own] * nearest.unwrap_or_else(farthest)
        })
        .collect()
}

/// Rows scaled to length 1; zeros stay.
fn units(rows: &[f32], width: usize) -> Vec<f32> {
    let mut units = rows.to_vec();
    for row in units.chunks_exact_mut(width.max(1)) {
        let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|v| *v /= length);
        }
    }
    units
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
