//! Truth tables of the scores.

use super::*;

#[test]
fn change_compares_with_earlier_frames_of_the_group() {
    // One cell, six frames; the fifth begins a group.
    let frames = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 0.0], [1.0, 0.0], [-1.0, 0.0]].concat();
    assert_eq!(change(&frames, 2, [6, 1, 1]), [3.0, 1.0, 0.0, 0.0, 2.5, 2.0]);
}

#[test]
fn a_budget_below_the_first_frames_is_spread_over_them() {
    // Sixteen frames of four equal cells: four first frames, sixteen tokens.
    let scores = change(&[1.0].repeat(64), 1, [16, 2, 2]);
    assert_eq!(crate::context::largest(&scores, 4), [0, 16, 32, 48]);
    assert_eq!(crate::context::largest(&scores, 16).into_iter().map(|token| token / 4 % 4).max(), Some(0));
}

#[test]
fn density_keeps_the_budget_and_prefers_anchors() {
    let grid = [6, 2, 3];
    let embeddings: Vec<f32> = (0..36 * 4).map(|i| ((i * 7919) as f32).sin() + 2.0).collect();
    let density = Density::of(&embeddings, 4, grid);
    assert_eq!(density.segments[0], 0);
    let mut before = Vec::new();
    for keep in [0.0, 0.1, 0.3, 0.5, 1.0] {
        let kept = density.choose(grid, keep);
        assert_eq!(kept.len(), budget(36, keep), "{keep}");
        assert!(kept.is_sorted_by(|a, b| a < b));
        assert!(before.len() <= kept.len());
        before = kept;
    }
    // Equal frames: one segment, whose anchors are the first and the fifth frame.
    let alike = Density::of(&[1.0, 0.5].repeat(36), 2, grid);
    assert_eq!(alike.segments, [0]);
    assert!(alike.choose(grid, 0.3).iter().all(|token| [0, 4].contains(&(token / 6))));
    // Frames that turn: a segment each.
    let turned: Vec<f32> =
        (0..4).flat_map(|t| if t < 2 { [1.0, 0.0] } else { [0.0, 1.0] }.repeat(2)).collect();
    let turned = Density::of(&turned, 2, [4, 1, 2]);
    assert_eq!(turned.segments, [0, 2]);
    // Whole frames: the first, and the one after the turn.
    for (keep, frames) in [(0.0, vec![]), (0.1, vec![0, 1]), (0.5, vec![0, 1, 4, 5]), (1.0, (0..8).collect())]
    {
        assert_eq!(turned.choose_frames([4, 1, 2], keep), frames, "{keep}");
    }
}

#[test]
fn a_peak_is_dense_and_far_from_denser_ones() {
    // Two clusters of different sizes, and their middles.
    let at = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let tokens = [at(0.0), at(1.0), at(2.0), at(90.0), at(91.0)].concat();
    let peaks = density_peaks(&tokens, 2);
    let two = largest(&peaks, 2);
    assert!(two[0] < 3 && two[1] >= 3, "{peaks:?}");
    assert_eq!(density_peaks(&[1.0, 0.0], 2), [0.0], "a single token has no distance");
}
