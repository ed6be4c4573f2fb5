//! Which visual tokens the drafter sees: pure functions from counts to indices.

use rand::{SeedableRng, seq::index};
use rand_chacha::ChaCha8Rng;

mod attention;
mod draft_head;
mod embeddings;
mod prepare;
mod pruner;
mod recut;
mod signals;
mod stamps;

pub use draft_head::{HeadInput, HeadPrefill};
pub use embeddings::{Density, change};
pub use prepare::{PrefillInput, Preparation, layers_of};
pub use pruner::{PartialReading, PrunedPrompt, Pruner};
pub use signals::{Attention, Signals};

use super::method::{Limit, Part, Stamps, Unit, VisualContext};

/// The number of tokens a keep ratio leaves of `n`: floor(n · keep + 1e-9), so that 0.1 of 1000 is 100.
pub fn budget(n: usize, keep: f64) -> usize {
    ((n as f64 * keep + 1e-9).floor() as usize).min(n)
}

/// The signals that a context needs from the target's prefill.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContextNeeds {
    /// Attention from the text to the visual tokens.
    pub attention: bool,
    /// The layer after which similarity to the text is taken.
    pub variation: Option<AtLayer>,
    /// Change of the embeddings from frame to frame.
    pub change: bool,
    pub(crate) density: bool,
}

/// A layer of the target, as methods name it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtLayer {
    /// Number of layers below, in models of at least twice as many.
    pub layers: usize,
    /// Share of the layers that are below in smaller models.
    pub depth: f64,
}

impl AtLayer {
    /// The number of layers below it in a model of `all` layers: at least one, at most all.
    pub fn of(self, all: usize) -> usize {
        match self.layers <= all / 2 {
            true => self.layers.max(1),
            false => ((all as f64 * self.depth).round() as usize).clamp(1, all.max(1)),
        }
    }
}

impl ContextNeeds {
    pub fn of(context: &VisualContext) -> Self {
        match context {
            VisualContext::Attention { .. } | VisualContext::TopKKv { .. } => {
                Self { attention: true, ..Self::default() }
            }
            VisualContext::Variation { layers, depth, .. } => {
                let at = AtLayer { layers: *layers, depth: *depth };
                Self { variation: Some(at), ..Self::default() }
            }
            VisualContext::DyCoke { .. } => Self { change: true, ..Self::default() },
            VisualContext::FastVid { .. } => Self { density: true, ..Self::default() },
            _ => Self::default(),
        }
    }
}

/// The drafter's share of the visual tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Kept tokens, ascending, as indices into the flattened order (time, row, column); `None` = all of them. Where heads keep
    /// their own, the union over heads.
    pub kept: Option<Vec<usize>>,
    /// The score of every visual token, if the context has scores.
    pub scores: Option<Vec<f32>>,
    /// Kept tokens by layer and key head, if they differ.
    pub by_head: Option<Vec<Vec<usize>>>,
    /// Temporal grids (ascending) whose time stamps the drafter does not read.
    pub dropped_stamps: Vec<usize>,
}

impl Selection {
    /// The same of a drafter that cuts frames into other cells: `from` and `to` are time × rows × columns.
    pub fn onto(&self, from: [usize; 3], to: [usize; 3]) -> Self {
        Self {
            kept: self.kept.as_ref().map(|kept| recut::onto(kept, from, to)),
            dropped_stamps: self.dropped_stamps.clone(),
            ..Self::default()
        }
    }
}

/// The drafter's visual tokens, and the time stamps that go with those it does not see. `grid` is time × rows × columns of the
/// visual tokens. A missing signal counts as zero everywhere.
pub fn select(context: &VisualContext, grid: [usize; 3], signals: &Signals) -> Selection {
    let tokens = tokens(context, grid, signals);
    let dropped_stamps = match (context.stamps(), &tokens.kept) {
        (Stamps::Drop, Some(kept)) => stamps::unseen(kept, grid),
        _ => Vec::new(),
    };
    Selection { dropped_stamps, ..tokens }
}

fn tokens(context: &VisualContext, grid: [usize; 3], signals: &Signals) -> Selection {
    let n: usize = grid.iter().product();
    let plain = |kept: Vec<usize>| Selection { kept: Some(kept), ..Selection::default() };
    match *context {
        // Until its share is known, it may be all.
        VisualContext::Full {} | VisualContext::Auto {} => Selection::default(),
        VisualContext::None { .. } => plain(Vec::new()),
        VisualContext::Random { keep, seed, .. } => {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut kept = index::sample(&mut rng, n, budget(n, keep)).into_vec();
            kept.sort_unstable();
            plain(kept)
        }
        VisualContext::Uniform { keep, .. } => plain(evenly(n, budget(n, keep))),
        VisualContext::Frames { keep, .. } => {
            let [frames, rows, columns] = grid;
            let cells = rows * columns;
            let wanted = if keep > 0.0 { budget(frames, keep).max(1) } else { 0 };
            let frames = evenly(frames, wanted.min(frames));
            plain(frames.into_iter().flat_map(|f| f * cells..(f + 1) * cells).collect())
        }
        VisualContext::Window { part, keep, .. } => {
            let kept = budget(n, keep);
            let start = match part {
                Part::Front => 0,
                Part::Middle => (n - kept) / 2,
                Part::End => n - kept,
            };
            plain((start..start + kept).collect())
        }
        VisualContext::Streaming { first, last, .. } => {
            let first = first.min(n);
            plain((0..first).chain(n.saturating_sub(last).max(first)..n).collect())
        }
        VisualContext::Attention { keep, mass, .. } => {
            let scores = signals.attention.as_ref().map_or_else(|| vec![0.0; n], Attention::scores);
            let kept = attention::two_stage(&scores, budget(n, keep), mass);
            Selection { kept: Some(kept), scores: Some(scores), ..Selection::default() }
        }
        VisualContext::Variation { keep, layers, depth, .. } => {
            let at = AtLayer { layers, depth };
            let scores = signals.variation(at).map_or_else(|| vec![0.0; n], <[f32]>::to_vec);
            let kept = largest(&scores, budget(n, keep));
            Selection { kept: Some(kept), scores: Some(scores), ..Selection::default() }
        }
        VisualContext::DyCoke { keep } => scored(signals.change.clone(), n, keep),
        VisualContext::FastVid { keep, unit } => match (&signals.density, unit) {
            (Some(density), Unit::Frames) => plain(density.choose_frames(grid, keep)),
            (Some(density), Unit::Tokens) => {
                let (kept, scores) = (Some(density.choose(grid, keep)), Some(density.peaks.clone()));
                Selection { kept, scores, ..Selection::default() }
            }
            (None, _) => scored(None, n, keep),
        },
        VisualContext::TopKKv { keep, budget: limit, .. } => {
            let Some(seen) = &signals.attention else { return Selection::default() };
            let count = within(budget(n, keep), limit, seen.text);
            let by_head: Vec<Vec<usize>> =
                seen.by_head.chunks_exact(n.max(1)).map(|head| largest(head, count)).collect();
            let mut kept: Vec<usize> = by_head.iter().flatten().copied().collect();
            kept.sort_unstable();
            kept.dedup();
            let scores = Some(seen.scores());
            Selection { kept: Some(kept), scores, by_head: Some(by_head), ..Selection::default() }
        }
    }
}

/// The tokens with the highest scores.
fn scored(scores: Option<Vec<f32>>, n: usize, keep: f64) -> Selection {
    let scores = scores.unwrap_or_else(|| vec![0.0; n]);
    let kept = Some(largest(&scores, budget(n, keep)));
    Selection { kept, scores: Some(scores), ..Selection::default() }
}

/// STD's K: as many of `count` visual tokens as a budget of `text` tokens and visual ones together leaves.
fn within(count: usize, limit: Limit, text: usize) -> usize {
    match limit {
        Limit::Tokens(all) => count.min(all.saturating_sub(text)),
        Limit::None(_) => count,
    }
}

/// The `count` indices of the largest values (the earlier first where tied), ascending.
pub fn largest(values: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order.truncate(count);
    order.sort_unstable();
    order
}

/// `count` of `0..n`, evenly spaced, first and last included: linspace(0, n - 1, count), truncated.
pub fn evenly(n: usize, count: usize) -> Vec<usize> {
    match count.min(n) {
        0 => Vec::new(),
        1 => vec![0],
        count => (0..count).map(|i| i * (n - 1) / (count - 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context as a method has it: the kind, then keys with values.
    fn context(words: &str) -> VisualContext {
        let (kind, keys) = words.split_once(' ').unwrap_or((words, ""));
        toml::from_str(&format!("kind = '{kind}'\n{}", keys.replace(' ', "\n"))).unwrap()
    }

    fn kept(words: &str, grid: [usize; 3]) -> Option<Vec<usize>> {
        select(&context(words), grid, &Signals::default()).kept
    }

    #[test]
    fn budgets_do_not_fall_into_the_floating_point_gap() {
        assert_eq!(budget(1000, 0.1), 100);
        assert_eq!(budget(1000, 1.0 - 0.9), 100);
        assert_eq!(budget(64, 0.1), 6);
        assert_eq!(budget(5, 1.0), 5);
        assert_eq!(budget(5, 0.0), 0);
    }

    #[test]
    fn a_layer_is_a_number_in_deep_models_and_a_share_in_others() {
        for (layers, depth, all, want) in [
            // The paper's 20 in its targets, of 80 and of 64 layers.
            (20, 0.5, 80, 20),
            (20, 0.5, 64, 20),
            (20, 0.5, 40, 20),
            (20, 0.5, 39, 20),
            (20, 0.5, 36, 18),
            (20, 0.5, 28, 14),
            (20, 0.5, 6, 3),
            (20, 0.5, 1, 1),
            (20, 0.01, 6, 1),
            (20, 1.0, 6, 6),
            (2, 1.0, 6, 2),
            (3, 1.0, 6, 3),
            (4, 1.0, 6, 6),
            (usize::MAX, 0.25, 64, 16),
        ] {
            assert_eq!(AtLayer { layers, depth }.of(all), want, "{layers}, {depth} of {all}");
        }
    }

    #[test]
    fn evenly_is_linspace_truncated() {
        assert_eq!(evenly(8, 3), [0, 3, 7]);
        assert_eq!(evenly(5, 5), [0, 1, 2, 3, 4]);
        assert_eq!(evenly(5, 1), [0]);
        assert!(evenly(5, 0).is_empty() && evenly(0, 3).is_empty());
    }

    #[test]
    fn every_context_gives_ascending_indices_within_the_budget() {
        for grid in [[1, 1, 1], [4, 4, 4], [3, 5, 7]] {
            let n: usize = grid.iter().product();
            for keep in [0.0, 0.1, 0.37, 1.0] {
                let attention = Attention {
                    by_head: (0..2 * n).map(|i| (i as f32).sin()).collect(),
                    weight: 1.0,
                    tokens: n,
                    text: 3,
                };
                let signals = Signals { attention: Some(attention), ..Signals::default() };
                for words in [
                    "random keep=K seed=7",
                    "uniform keep=K",
                    "frames keep=K",
                    "window keep=K part='front'",
                    "window keep=K part='middle'",
                    "window keep=K part='end'",
                    "attention keep=K mass=0.5",
                    "variation keep=K layers=20 depth=0.5",
                ] {
                    let context = context(&words.replace('K', &format!("{keep:?}")));
                    let kept = select(&context, grid, &signals).kept.unwrap();
                    assert!(kept.windows(2).all(|w| w[0] < w[1]), "{context:?} {grid:?} {kept:?}");
                    assert!(kept.iter().all(|&i| i < n));
                    if !matches!(context, VisualContext::Frames { .. }) {
                        assert_eq!(kept.len(), budget(n, keep));
                    }
                    if keep == 1.0 {
                        assert_eq!(kept.len(), n);
                    }
                }
            }
        }
        assert_eq!((kept("full", [2, 2, 2]), kept("none", [2, 2, 2])), (None, Some(vec![])));
    }

    #[test]
    fn windows_and_streams_keep_their_ends() {
        let window = |part: &str| kept(&format!("window keep=0.5 part='{part}'"), [1, 2, 4]).unwrap();
        assert_eq!(window("front"), [0, 1, 2, 3]);
        assert_eq!(window("middle"), [2, 3, 4, 5]);
        assert_eq!(window("end"), [4, 5, 6, 7]);
        let stream = |first: usize, last: usize| {
            kept(&format!("streaming first={first} last={last}"), [1, 2, 4]).unwrap()
        };
        assert_eq!(stream(2, 3), [0, 1, 5, 6, 7]);
        assert_eq!(stream(6, 6), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(stream(99, 0).len(), 8);
        assert!(stream(0, 0).is_empty());
    }

    #[test]
    fn every_head_keeps_its_own() {
        let by_head = vec![0.1, 0.9, 0.3, 0.0, 0.5, 0.1, 0.1, 0.6];
        let signals = Signals {
            attention: Some(Attention { by_head, weight: 1.0, tokens: 4, text: 10 }),
            ..Signals::default()
        };
        let selected = |words: &str| select(&context(words), [1, 2, 2], &signals);
        let selection = selected("top_k_kv keep=0.5 rows='dense'");
        assert_eq!(selection.by_head.unwrap(), [vec![1, 2], vec![0, 3]]);
        assert_eq!(selection.kept.unwrap(), [0, 1, 2, 3]);
        for (all, want) in [(0, 0), (10, 0), (11, 1), (12, 2), (99, 2)] {
            let by_head = selected(&format!("top_k_kv keep=0.5 budget={all} rows='dense'")).by_head.unwrap();
            assert!(by_head.iter().all(|head| head.len() == want), "{all}: {by_head:?}");
        }
        let whole = selected("top_k_kv keep=1.0 budget=1024 rows='dense'");
        assert_eq!(whole.by_head.unwrap(), [[0, 1, 2, 3], [0, 1, 2, 3]]);
        assert_eq!(largest(&[1.0, 2.0, 2.0, 0.0], 2), [1, 2]);
    }

    #[test]
    fn frames_are_whole_and_random_is_seeded() {
        let frames = kept("frames keep=0.5", [4, 2, 2]).unwrap();
        assert_eq!(frames, [0, 1, 2, 3, 12, 13, 14, 15]);
        let of = |seed: u64| kept(&format!("random keep=0.3 seed={seed}"), [4, 4, 4]);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
