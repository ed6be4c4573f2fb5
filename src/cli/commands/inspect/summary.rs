//! Figures of the drafter's share of a clip; the last line of `--json`.

use super::{drafter_view::DrafterView, *};

/// Maximum number of cells that are listed.
const BEST: usize = 5;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub run: u64,
    pub event: &'static str,
    pub method: String,
    pub drafter: String,
    pub context: String,
    /// Visual tokens as frames × rows × columns.
    pub grid: [usize; 3],
    pub visual_tokens: usize,
    pub kept: usize,
    pub kept_share: f64,
    pub kept_per_frame: Vec<usize>,
    /// Frames whose time stamps the drafter does not read, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_stamps: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    pub least: f32,
    pub most: f32,
    /// The kept tokens' share of the sum of all scores, 0 to 1; `None` if a score is negative.
    pub kept_mass: Option<f64>,
    pub kept_mean: Option<f64>,
    /// Mean of the dropped tokens; `None` if there are none.
    pub dropped_mean: Option<f64>,
    pub best: Vec<Best>,
}

/// A visual token with a high score. Indices count from 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    pub index: usize,
    pub frame: usize,
    pub row: usize,
    pub column: usize,
    pub time_s: f64,
    pub score: f32,
    pub kept: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    pub file: String,
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    pub cell: u32,
    pub frames: Vec<Drawn>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    pub frame: usize,
    pub time_s: f64,
    /// Left edge of its first cell.
    pub x: u32,
    /// Upper edge of its first cell.
    pub y: u32,
}

impl Summary {
    pub fn of(run: u64, method: &str, drafter: &str, context: String, view: &DrafterView) -> Summary {
        let (tokens, kept) = (view.kept.len(), view.kept_total());
        Summary {
            run,
            event: "inspection",
            method: method.into(),
            drafter: drafter.into(),
            context,
            grid: view.grid,
            visual_tokens: tokens,
            kept,
            kept_share: kept as f64 / tokens.max(1) as f64,
            kept_per_frame: (0..view.frames()).map(|frame| view.kept_in(frame)).collect(),
            dropped_stamps: Some(view.dropped_stamps).filter(|dropped| *dropped > 0),
            scores: Scores::of(view),
            picture: None,
        }
    }
}

impl Scores {
    fn of(view: &DrafterView) -> Option<Scores> {
        let (least, most) = view.range()?;
        let scores = view.scores.as_ref()?;
        let (mut sums, mut counts) = ([0.0; 2], [0usize; 2]);
        for (&score, &kept) in scores.iter().zip(&view.kept) {
            sums[usize::from(kept)] += f64::from(score);
            counts[usize::from(kept)] += 1;
        }
        let mean = |side: usize| (counts[side] > 0).then(|| sums[side] / counts[side] as f64);
        let all = sums[0] + sums[1];
        Some(Scores {
            least,
            most,
            kept_mass: (least >= 0.0 && all > 0.0).then(|| sums[1] / all),
            kept_mean: mean(1),
            dropped_mean: mean(0),
            best: best(view, scores),
        })
    }
}

/// The highest scores; of equal ones, the earlier first.
fn best(view: &DrafterView, scores: &[f32]) -> Vec<Best> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| scores[i].is_finite()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let cells = view.cells().max(1);
    order
        .into_iter()
        .take(BEST)
        .map(|index| Best {
            index,
            frame: index / cells,
            row: index % cells / view.grid[2],
            column: index % view.grid[2],
            time_s: view.time(index / cells),
            score: scores[index],
            kept: view.kept[index],
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::{super::drafter_view::tests::view, *};

    pub fn summary(view: &DrafterView) -> Summary {
        Summary::of(1, "some", "small", "sees 50 % by attention".into(), view)
    }

    #[test]
    fn counts_and_shares() {
        let summary = summary(&view());
        assert_eq!((summary.visual_tokens, summary.kept, summary.kept_share), (12, 6, 0.5));
        assert_eq!(summary.kept_per_frame, [2, 2, 2]);
        let scores = summary.scores.unwrap();
        assert_eq!((scores.least, scores.most), (0.0, 11.0));
        assert_eq!(scores.kept_mass, Some(39.0 / 66.0));
        assert_eq!((scores.kept_mean, scores.dropped_mean), (Some(6.5), Some(4.5)));
    }

    #[test]
    fn the_best_are_in_order_with_their_positions() {
        let best = summary(&view()).scores.unwrap().best;
        assert_eq!(best.iter().map(|b| b.index).collect::<Vec<_>>(), [11, 10, 9, 8, 7]);
        let fourth = &best[3];
        assert_eq!((fourth.frame, fourth.row, fourth.column), (2, 0, 0));
        assert_eq!((fourth.time_s, fourth.score, fourth.kept), (2.0, 8.0, false));
    }

    #[test]
    fn negative_scores_have_no_shares() {
        let mut view = view();
        view.scores = Some((0..12).map(|i| i as f32 - 3.0).collect());
        let scores = summary(&view).scores.unwrap();
        assert_eq!((scores.kept_mass, scores.kept_mean), (None, Some(3.5)));
        view.scores = Some(vec![0.0; 12]);
        view.kept = vec![true; 12];
        let scores = summary(&view).scores.unwrap();
        assert_eq!((scores.kept_mass, scores.kept_mean, scores.dropped_mean), (None, Some(0.0), None));
        assert_eq!(summary(&DrafterView { scores: None, ..view }).scores, None);
    }
}
