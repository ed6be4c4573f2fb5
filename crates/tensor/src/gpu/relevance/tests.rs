//! Similarities against plain cosines in f64.

use super::*;
use crate::gpu::testing::{gpu_or_skip, noise};

fn cosines(seen: &[f32], state: &[f32]) -> Vec<f64> {
    let length = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let cosine = |v: &[f32]| {
        let dot: f64 = v.iter().zip(state).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        if dot == 0.0 { 0.0 } else { dot / length(v) / length(state) }
    };
    seen.chunks(state.len()).map(cosine).collect()
}

#[test]
fn the_nearest_have_the_largest_cosines() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    for (tokens, width, top_n) in
        [(1, 5, 1), (15, 8, 10), (41, 33, 3), (2000, 100, 10), (90, 16, 80), (7, 16, 99)]
    {
        let mut seen = noise(1, tokens * width);
        seen.iter_mut().for_each(|v| *v *= 7.0);
        if tokens > 5 {
            seen[5 * width..6 * width].fill(0.0);
        }
        let mut states = noise(2, 6 * width);
        states[4 * width..5 * width].fill(0.0);
        let visual = Rows::upload(&gpu, &seen, width).unwrap();
        let rows = Rows::upload(&gpu, &states, width).unwrap();
        let mut resident = VisualStates::new(&gpu, width);
        assert!(resident.nearest(&mut stream, &rows, 3).unwrap().iter().all(Vec::is_empty));
        // In two parts, as a prompt's passes give them.
        let cut = tokens / 3;
        resident.append(&mut stream, &visual, 0..cut).unwrap();
        resident.append(&mut stream, &visual, cut..tokens).unwrap();
        assert_eq!(resident.bytes(), tokens * width * 4);
        let nearest = resident.nearest(&mut stream, &rows, top_n).unwrap();
        for (r, state) in states.chunks(width).enumerate() {
            let cosines = cosines(&seen, state);
            let mut order: Vec<usize> = (0..tokens).collect();
            order.sort_by(|a, b| cosines[*b].total_cmp(&cosines[*a]).then(a.cmp(b)));
            let n = top_n.min(tokens);
            assert_eq!(nearest[r].len(), n, "{tokens} {top_n}");
            for (found, at) in nearest[r].iter().zip(&order) {
                assert!((f64::from(found.1) - cosines[*at]).abs() < 1e-6);
                assert!((cosines[found.0 as usize] - cosines[*at]).abs() < 1e-6);
            }
        }
        // A row on its own gives the same bits.
        let alone = Rows::upload(&gpu, &states[5 * width..], width).unwrap();
        assert_eq!(resident.nearest(&mut stream, &alone, top_n).unwrap()[0], nearest[5]);
        assert!(resident.nearest(&mut stream, &Rows::upload(&gpu, &[1.0; 4], 4).unwrap(), 1).is_err());
    }
}

#[test]
fn similarity_does_not_depend_on_scale() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    let seen = noise(3, 70 * 12);
    let states = Rows::upload(&gpu, &noise(4, 24), 12).unwrap();
    let mut run = |scale: f32| {
        let scaled: Vec<f32> = seen.iter().map(|v| v * scale).collect();
        let mut resident = VisualStates::new(&gpu, 12);
        let rows = Rows::upload(&gpu, &scaled, 12).unwrap();
        resident.append(&mut stream, &rows, 0..70).unwrap();
        resident.nearest(&mut stream, &states, 3).unwrap().concat()
    };
    for ((token, a), (other, b)) in run(1.0).into_iter().zip(run(1000.0)) {
        assert!(token == other && (a - b).abs() < 1e-6);
    }
}
