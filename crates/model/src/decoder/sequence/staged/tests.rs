//! Stages against passes over all rows, whose mask hides what later layers have dropped.

use super::*;
use crate::{family::VideoLlm, testing};
use specreel_tensor::WeightType;

fn decoder(fixture: &str) -> Arc<Decoder> {
    VideoLlm::load(&testing::fixture(fixture), WeightType::F32, &mut |_, _| {}).unwrap().decoder().clone()
}

fn go_on(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A row after layer 1 sees the kept rows before it, and itself.
fn mask(rows: usize, kept: &[usize]) -> Mask {
    let path = |row: usize| kept.iter().copied().filter(|&k| k < row).chain([row]).collect();
    Mask::Paths { shared: 0, paths: (0..rows).map(path).collect() }
}

#[test]
fn later_layers_see_what_is_kept() {
    let decoder = decoder("gqa_tied");
    let (layers, rows) = (decoder.config().layers, 9);
    assert!(layers > 1);
    let ids: Vec<u32> = (3..3 + rows as u32).collect();
    let positions = Positions::text(0, rows);
    let embeddings = decoder.embed(&ids).unwrap();
    // The last three are text that follows the prompt of six rows, of which two are dropped.
    let (prompt, kept) = (6, [0, 2, 5]);

    let mut staged =
        Staged::new(decoder.clone(), embeddings.narrow(0, prompt).unwrap(), positions.slice(0..prompt), 8);
    assert!(staged.run_to(1, &mut go_on).unwrap());
    staged.keep(&kept).unwrap();
    let mut found = Vec::new();
    let mut collect = |_: usize, states: &[f32]| found.extend_from_slice(states);
    let mut sequence = staged.finish(prompt as u32, &mut collect, &mut go_on).unwrap().unwrap();
    assert_eq!(sequence.len(), kept.len());
    let after = sequence.feed(&ids[prompt..], &Taps::default()).unwrap().states.to_vec().unwrap();

    let mut below = Sequence::new(decoder.clone(), rows);
    let states = below.prefill_below(&embeddings, &positions, 1, &mut go_on).unwrap().unwrap();
    let seen: Vec<usize> = kept.iter().copied().chain(prompt..rows).collect();
    let mut cache = decoder.cache(rows);
    let taps = Taps { layers: Some(1..layers), ..Taps::default() };
    let mut workspace = Workspace::default();
    let all = decoder
        .forward(&states, &positions, &mask(rows, &seen), &mut cache, &taps, &mut workspace)
        .unwrap()
        .states;
    let expected = |rows: &[usize]| all.select(rows).unwrap().to_vec().unwrap();
    let close =
        |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(close(&found, &expected(&kept)));
    assert!(close(&after, &expected(&[6, 7, 8])));
    // Without dropping anything the text differs.
    let whole = below.prefill_above(&states, &positions, 1, 9, &mut |_, _| {}, &mut go_on);
    assert!(whole.unwrap());
    let mut plain = Vec::new();
    let mut sequence = Sequence::new(decoder.clone(), rows);
    sequence.prefill(&embeddings, &positions, 9, &mut |_, s| plain.extend_from_slice(s), &mut go_on).unwrap();
    assert!(!close(&plain[plain.len() - after.len()..], &after));
}

#[test]
fn rows_do_not_depend_on_how_they_are_fed() {
    let decoder = decoder("gqa_tied");
    let (ids, more) = ([5u32, 9, 4, 8, 7, 3], [6u32, 2, 11]);
    let read = || {
        let embeddings = decoder.embed(&ids).unwrap();
        let mut staged = Staged::new(decoder.clone(), embeddings, Positions::text(0, ids.len()), 8);
        assert!(staged.run_to(1, &mut go_on).unwrap());
        // Rating text rows again leaves no trace.
        let spans = VisualSpans::from(1..4);
        let rated = [&ids[4..], &more[..1]].concat();
        let weights = staged.attention(&rated, &Positions::text(4, 3), 2, &spans).unwrap();
        assert_eq!(weights.iter().map(Vec::len).collect::<Vec<_>>(), [3; 3]);
        assert!(weights.iter().all(|row| row.iter().all(|w| *w > 0.0) && row.iter().sum::<f32>() < 1.0));
        staged.keep(&[0, 3, 4, 5]).unwrap();
        staged.finish(6, &mut |_, _| {}, &mut go_on).unwrap().unwrap()
    };
    let bits =
        |states: &States| -> Vec<u32> { states.to_vec().unwrap().iter().map(|v| v.to_bits()).collect() };
    let mut at_once = read();
    let together = bits(&at_once.feed(&more, &Taps::default()).unwrap().states);
    let mut one_by_one = read();
    let single: Vec<u32> =
        more.iter().flat_map(|id| bits(&one_by_one.feed(&[*id], &Taps::default()).unwrap().states)).collect();
    assert_eq!(together, single);
    // Dropped slots are gone in every stage.
    let base = at_once.len() - more.len();
    at_once.truncate(base);
    assert_eq!(bits(&at_once.feed(&more, &Taps::default()).unwrap().states), together);
    // A branch that is kept of a tree is the chain of its tokens.
    at_once.truncate(base);
    let tree = [more[0], 13, more[1]];
    let paths = vec![vec![0], vec![0, 1], vec![0, 2]];
    at_once.feed_tree(&tree, base, &[0, 1, 1], paths, &Taps::default()).unwrap();
    at_once.keep(base, &[0, 2]);
    let last = bits(&at_once.feed(&more[2..], &Taps::default()).unwrap().states);
    assert_eq!(last, together[together.len() - last.len()..]);
}

/// DeepStack levels of dropped rows are dropped with them.
#[test]
fn everything_kept_is_a_plain_prefill() {
    for fixture in ["gqa_tied", "qwen3_vl"] {
        let decoder = decoder(fixture);
        let (hidden, deep) = (decoder.width(), decoder.config().deepstack);
        let width = hidden * (1 + deep);
        let values: Vec<f32> = (0..7 * width).map(|i| ((i * 31) as f32).sin() * 0.1).collect();
        let embeddings = States::new(values, width).unwrap();
        let positions = Positions::text(0, 7);
        let mut plain = Vec::new();
        let mut sequence = Sequence::new(decoder.clone(), 9);
        sequence
            .prefill(&embeddings, &positions, 7, &mut |_, s| plain.extend_from_slice(s), &mut go_on)
            .unwrap();
        let expected = sequence.feed(&[4, 5], &Taps::default()).unwrap().states.to_vec().unwrap();
        let mut staged = Staged::new(decoder.clone(), embeddings, positions, 2);
        for layer in 1..decoder.config().layers {
            assert!(staged.run_to(layer, &mut go_on).unwrap());
            staged.keep(&(0..7).collect::<Vec<_>>()).unwrap();
        }
        let mut found = Vec::new();
        let mut sequence =
            staged.finish(7, &mut |_, s| found.extend_from_slice(s), &mut go_on).unwrap().unwrap();
        assert_eq!(found, plain, "{fixture}");
        let after = sequence.feed(&[4, 5], &Taps::default()).unwrap().states.to_vec().unwrap();
        assert_eq!(after, expected, "{fixture}");
    }
}
