//! Facts about logits against a sorted row in f64.

use super::*;
use crate::gpu::testing::{gpu_or_skip, noise};

/// Rows of `width` logits; beyond `vocab` they are larger than all that count.
fn rows(seed: usize, rows: usize, vocab: usize, width: usize, scale: f32) -> Vec<f32> {
    let mut values = noise(seed, rows * width);
    for row in values.chunks_mut(width) {
        row[..vocab].iter_mut().for_each(|v| *v *= scale);
        row[vocab..].fill(1e30);
    }
    values
}

/// Ids by descending logit, the lowest first where tied.
fn sorted(row: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    order.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
    order
}

fn log_sum(row: &[f32]) -> f64 {
    let max = row.iter().copied().fold(f32::MIN, f32::max);
    row.iter().map(|v| (f64::from(*v) - f64::from(max)).exp()).sum::<f64>().ln() + f64::from(max)
}

fn facts(stream: &mut Stream, x: &Rows, vocab: usize, scratch: &mut Scratch) -> Vec<Facts> {
    extract(stream, x, vocab, Wanted::default(), scratch).unwrap().facts
}

#[test]
fn facts_are_those_of_a_sorted_row() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    for (vocab, width, scale) in [
        (1, 1, 5.0),
        (2, 4, 5.0),
        (257, 320, 1e4),
        (4097, 4100, 20.0),
        (151_936, 152_064, 20.0),
        (151_936, 151_936, 0.01),
        (300_000, 300_032, 5.0),
    ] {
        let count = 3;
        let values = rows(vocab, count, vocab, width, scale);
        let x = Rows::upload(&gpu, &values, width).unwrap();
        let got = facts(&mut stream, &x, vocab, &mut scratch);
        for (row, got) in values.chunks(width).zip(&got) {
            let row = &row[..vocab];
            let order = sorted(row);
            assert_eq!((got.argmax, got.max), (order[0], row[order[0] as usize]), "{vocab}");
            let top = [0, 1, 2].map(|i| order.get(i).map_or(f32::NEG_INFINITY, |id| row[*id as usize]));
            assert_eq!(got.top3, top, "{vocab}");
            let want = log_sum(row);
            assert!((f64::from(got.log_sum) - want).abs() < 1e-6 * want.abs().max(1.0), "{got:?} {want}");
            let entropy: f64 =
                row.iter().map(|v| f64::from(*v) - want).map(|log_p| -log_p.exp() * log_p).sum();
            assert!((f64::from(got.entropy) - entropy).abs() < 1e-4, "{got:?} {entropy}");
        }
        // A row on its own gives the same bits.
        let last = Rows::upload(&gpu, &values[2 * width..], width).unwrap();
        assert_eq!(facts(&mut stream, &last, vocab, &mut scratch)[0], got[2]);
    }
    assert!(facts(&mut stream, &Rows::default(), 4, &mut scratch).is_empty());
}

#[test]
fn ties_go_to_the_lowest_id() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    for ids in [vec![5000, 9000, 4095], vec![8191, 255, 256], vec![0, 9999], vec![7, 8, 9], vec![]] {
        let mut row = vec![-1e4f32; 10_000];
        ids.iter().for_each(|id| row[*id] = 1e4);
        let x = Rows::upload(&gpu, &row, row.len()).unwrap();
        let order = sorted(&row);
        let got = facts(&mut stream, &x, row.len(), &mut scratch)[0];
        assert_eq!(got.argmax, order[0]);
        assert_eq!(got.top3, [0, 1, 2].map(|i| row[order[i] as usize]));
        let largest = largest(&mut stream, &x, row.len(), 6, &mut scratch).unwrap();
        assert_eq!(largest[0].iter().map(|found| found.0).collect::<Vec<u32>>(), order[..6]);
    }
}

#[test]
fn the_largest_are_those_of_a_sorted_row() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    for (vocab, width, count) in [
        (1, 3, 5),
        (63, 64, 64),
        (1000, 1000, 1),
        (1024, 1030, 64),
        (1025, 1030, 10),
        (20_000, 20_032, 33),
        (151_936, 152_064, 64),
    ] {
        for levels in [7.0, 1e6] {
            // Few different values, so that ties are common.
            let values: Vec<f32> = rows(count, 2, vocab, width, 1.0)
                .into_iter()
                .map(|v| if v > 1.0 { v } else { (v * levels).round() })
                .collect();
            let x = Rows::upload(&gpu, &values, width).unwrap();
            let got = largest(&mut stream, &x, vocab, count, &mut scratch).unwrap();
            for (row, got) in values.chunks(width).zip(got) {
                let want = sorted(&row[..vocab]).into_iter().take(count).map(|id| (id, row[id as usize]));
                assert_eq!(got, want.collect::<Vec<_>>(), "{vocab} {count} {levels}");
            }
        }
    }
    let x = Rows::upload(&gpu, &[1.0; 100], 100).unwrap();
    assert!(largest(&mut stream, &x, 100, MOST + 1, &mut scratch).is_err());
    assert_eq!(largest(&mut stream, &x, 100, 0, &mut scratch).unwrap(), [vec![]]);
}

#[test]
fn everything_is_extracted_at_once() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, mut scratch) = (gpu.stream(), Scratch::default());
    let values = rows(1, 3, 5000, 5024, 9.0);
    let x = Rows::upload(&gpu, &values, 5024).unwrap();
    let at = [[0, 17], [2, 4999], [1, 0], [2, 4999]];
    let alone = Extract {
        facts: facts(&mut stream, &x, 5000, &mut scratch),
        top: largest(&mut stream, &x, 5000, 10, &mut scratch).unwrap(),
        picked: at.map(|[row, id]| values[(row * 5024 + id) as usize]).to_vec(),
        values: values.clone(),
    };
    let before = stream.traffic().submissions;
    let wanted = Wanted { top: 10, at: &at, all: true };
    assert_eq!(extract(&mut stream, &x, 5000, wanted, &mut scratch).unwrap(), alone);
    assert_eq!(stream.traffic().submissions, before + 1);
    let only_facts = extract(&mut stream, &x, 5000, Wanted::default(), &mut scratch).unwrap();
    let top = vec![Vec::new(); 3];
    assert_eq!(only_facts, Extract { facts: alone.facts, top, ..Extract::default() });
    for outside in [[3, 0], [0, 5024]] {
        let wanted = Wanted { at: &[outside], ..Wanted::default() };
        assert!(extract(&mut stream, &x, 5000, wanted, &mut scratch).is_err());
    }
}
