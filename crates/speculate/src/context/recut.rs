//! Kept visual tokens of a target, translated for a drafter that cuts frames into other cells.

/// For each temporal grid the same share of the drafter's cells, and at least one where the target keeps one: those that
/// overlap the kept area of the frame most, the first of equals. `kept` are visual tokens of `from` in ascending order, as is the
/// result of `to`; both are time × rows × columns, and equally long.
pub fn onto(kept: &[usize], from: [usize; 3], to: [usize; 3]) -> Vec<usize> {
    if from == to {
        return kept.to_vec();
    }
    let (cells, others) = (from[1] * from[2], to[1] * to[2]);
    let mut chosen = Vec::new();
    for run in kept.chunk_by(|a, b| a / cells.max(1) == b / cells.max(1)) {
        let frame = run[0] / cells.max(1);
        let area = |other: usize| -> usize {
            let overlap = |token: &usize| {
                let (own, other) = (token % cells, [other / to[2], other % to[2]]);
                shared(own / from[2], from[1], other[0], to[1])
                    * shared(own % from[2], from[2], other[1], to[2])
            };
            run.iter().map(overlap).sum()
        };
        let mut by_area: Vec<(usize, usize)> = (0..others).map(|other| (other, area(other))).collect();
        by_area.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        // Rounded to the nearest.
        let count = (2 * run.len() * others + cells) / (2 * cells);
        let mut best: Vec<usize> = by_area
            .iter()
            .take(count.clamp(1, others.max(1)))
            .map(|(other, _)| frame * others + other)
            .collect();
        best.sort_unstable();
        chosen.extend(best);
    }
    chosen
}

/// The length that part `a` of `of_a` and part `b` of `of_b` of one line have in common, in units of `1 / (of_a · of_b)`.
fn shared(a: usize, of_a: usize, b: usize, of_b: usize) -> usize {
    ((a + 1) * of_b).min((b + 1) * of_a).saturating_sub((a * of_b).max(b * of_a))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn truth_table() {
        let (three, two) = ([1, 3, 3], [1, 2, 2]);
        for (kept, expected) in [
            (&[][..], &[][..]),
            // A corner; a center is shared by all four.
            (&[0], &[0]),
            (&[8], &[3]),
            (&[4], &[0]),
            // The upper row, the left column, both diagonally opposite corners.
            (&[0, 1, 2], &[0]),
            (&[0, 1, 2, 3, 5], &[0, 1]),
            (&[0, 3, 6, 7, 1], &[0, 2]),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[0, 1, 2, 3]),
        ] {
            let mut kept = kept.to_vec();
            kept.sort_unstable();
            assert_eq!(onto(&kept, three, two), expected, "{kept:?}");
        }
        // The lower right of four is the last of nine, and half of its neighbors.
        assert_eq!(onto(&[3], two, three), [5, 8]);
    }

    proptest! {
        #[test]
        fn shares_stay_and_what_is_whole_stays_whole(
            frames in 1usize..4, from in (1usize..6, 1usize..6), to in (1usize..6, 1usize..6),
            picks in prop::collection::vec(any::<bool>(), 100),
        ) {
            let (from, to) = ([frames, from.0, from.1], [frames, to.0, to.1]);
            let (cells, others) = (from[1] * from[2], to[1] * to[2]);
            let kept: Vec<usize> = (0..frames * cells).filter(|token| picks[*token]).collect();
            let chosen = onto(&kept, from, to);
            prop_assert!(chosen.is_sorted_by(|a, b| a < b));
            for frame in 0..frames {
                let of = |tokens: &[usize], size: usize| tokens.iter().filter(|t| **t / size == frame).count();
                let (had, has) = (of(&kept, cells), of(&chosen, others));
                prop_assert_eq!(had == 0, has == 0);
                if had == cells {
                    prop_assert_eq!(has, others);
                }
                let share = (had * others) as f64 / cells as f64;
                prop_assert!(has <= others && (has as f64 - share).abs() <= 1.0);
            }
            prop_assert_eq!(onto(&kept, from, from), kept);
        }
    }
}
