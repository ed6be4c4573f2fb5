//! Time stamps in the prompt: which of them the drafter reads.

use specreel_model::family::Prompt;

/// The temporal grids without a kept visual token. `kept` are visual tokens in ascending order, `grid` is time × rows × columns.
pub(crate) fn unseen(kept: &[usize], [frames, rows, columns]: [usize; 3]) -> Vec<usize> {
    let (cells, mut kept) = (rows * columns, kept.iter().peekable());
    let is_unseen = |frame: &usize| {
        let mut seen = false;
        while kept.next_if(|token| **token < (frame + 1) * cells).is_some() {
            seen = true;
        }
        !seen
    };
    (0..frames).filter(is_unseen).collect()
}

/// Leave the time stamps of these temporal grids (ascending) out of ascending prompt rows.
pub fn without(mut rows: Vec<usize>, prompt: &Prompt, dropped: &[usize]) -> Vec<usize> {
    let ranges: Vec<_> = dropped.iter().filter_map(|grid| prompt.stamps.get(*grid)).flatten().collect();
    rows.retain(|row| {
        let after = ranges.partition_point(|range| range.end <= *row);
        !ranges.get(after).is_some_and(|range| range.contains(row))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::processor::layout::{VisualGrid, VisualRope};
    use specreel_tensor::VisualSpans;

    #[test]
    fn unseen_grids_truth_table() {
        let grid = [4, 1, 3];
        for (kept, expected) in [
            (&[][..], &[0, 1, 2, 3][..]),
            (&[0], &[1, 2, 3]),
            (&[2], &[1, 2, 3]),
            (&[3], &[0, 2, 3]),
            (&[11], &[0, 1, 2]),
            (&[0, 1, 2], &[1, 2, 3]),
            (&[2, 3, 8, 9], &[]),
            (&[1, 10], &[1, 2]),
            (&[0, 3, 6, 9], &[]),
        ] {
            assert_eq!(unseen(kept, grid), expected, "{kept:?}");
        }
        assert!(unseen(&(0..12).collect::<Vec<_>>(), grid).is_empty());
        assert!(unseen(&[], [0, 1, 3]).is_empty());
    }

    #[test]
    fn only_the_stamps_of_dropped_grids_are_left_out() {
        // Text, then three times a stamp of two rows, a mark, two visual tokens, a mark; then text.
        let stamped = [5, 7, 7, 8, 9, 8, 7, 7, 8, 9, 8, 7, 7, 8, 9, 8, 6];
        let grid = VisualGrid { t: 3, h: 1, w: 2 };
        let mut prompt = Prompt::lay_out(&stamped, 9, grid, 1, false, VisualRope::Sequential).unwrap();
        assert_eq!(prompt.visual, VisualSpans::new([4..6, 10..12, 16..18], 20).unwrap());
        let all: Vec<usize> = (0..19).collect();
        assert_eq!(without(all.clone(), &prompt, &[0, 1, 2]), all, "without stamps there is nothing to drop");
        prompt.stamps = [1, 7, 13].map(|at| vec![at..at + 3, at + 5..at + 6]).to_vec();
        assert_eq!(without(all.clone(), &prompt, &[]), all);
        let kept = prompt.visual.rows_keeping(&[1, 4], 19);
        let rows = without(kept, &prompt, &unseen(&[1, 4], [3, 1, 2]));
        assert_eq!(rows, [0, 1, 2, 3, 5, 6, 13, 14, 15, 16, 18]);
        assert_eq!(without(all, &prompt, &[0, 1, 2]), [0, 4, 5, 10, 11, 16, 17]);
    }
}
