//! Sampled judging keeps the target's distribution: chi-square over all texts of a tiny vocabulary.

use std::collections::BTreeMap;

use rand::RngExt;

use super::*;
use crate::{
    sampling::{Purpose, Sampler, draw},
    schedule::{judge::Sampled, scripted::hash},
};

const VOCAB: u64 = 4;
const END: u32 = 0;
const LENGTH: usize = 3;
const RUNS: u64 = 20_000;

/// A distribution that depends on the whole text. Salt 0 is the target, 1 the drafter.
fn model(salt: u64, text: &[u32]) -> Vec<f32> {
    let weights: Vec<f32> = (0..VOCAB).map(|i| 1.0 + (hash(5, salt * VOCAB + i, text) % 8) as f32).collect();
    let sum: f32 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// Replaces from p where it ought to from the residual.
struct Careless<'a>(Sampled<'a>);

impl Judge<Vec<f32>> for Careless<'_> {
    fn accept(&mut self, case: &Case<'_, Vec<f32>>) -> Vec<Verdict> {
        self.0.accept(case)
    }

    fn replacement(&mut self, case: &Case<'_, Vec<f32>>, row: usize) -> u32 {
        draw(&self.0.rows[row], self.0.sampler.rng(case.position + row, Purpose::Token).random())
    }
}

/// Where a window ends before its length.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Never,
    /// Before a draft where the drafter's largest probability is below a third.
    Unsure,
    /// Before a draft whose own probability is: wrong, as it depends on what was drawn.
    Unlikely,
}

#[derive(Clone, Copy)]
struct Way {
    width: usize,
    ends: Ends,
    careless: bool,
}

const PLAIN: Way = Way { width: 2, ends: Ends::Never, careless: false };

fn decode(seed: u64, Way { width, ends, careless }: Way) -> Vec<u32> {
    let sampler = Sampler { temperature: 1.0, seed, ..Sampler::GREEDY };
    let mut machine = Parallel::new(9, Limits { max_new_tokens: LENGTH, ends: vec![END] });
    while let Some(tick) = machine.tick(width) {
        let mut text = vec![9];
        text.extend(machine.tokens());
        let mut rows = vec![model(0, &text)];
        for &id in &tick.target.rows[1..] {
            text.push(id);
            rows.push(model(0, &text));
        }
        let mut window = Vec::new();
        if let Some(task) = &tick.drafter {
            for position in task.position..task.position + task.draft {
                let evidence = model(1, &text);
                let id = draw(&evidence, sampler.rng(position, Purpose::Draft).random());
                let sure = match ends {
                    Ends::Never => 1.0,
                    Ends::Unsure => evidence.iter().copied().fold(0.0, f32::max),
                    Ends::Unlikely => evidence[id as usize],
                };
                if sure < 1.0 / 3.0 {
                    break;
                }
                text.push(id);
                window.push(DraftToken { id, evidence });
                if id == END {
                    break;
                }
            }
        }
        let judge = Sampled { rows: &rows, sampler };
        match careless {
            false => machine.apply(tick, window, &mut { judge }),
            true => machine.apply(tick, window, &mut Careless(judge)),
        };
    }
    machine.tokens().to_vec()
}

/// The probability of every possible text, an end token left out.
fn expected(text: &mut Vec<u32>, probability: f64, all: &mut BTreeMap<Vec<u32>, f64>) {
    if text.len() == LENGTH + 1 {
        all.insert(text[1..].to_vec(), probability);
        return;
    }
    for (id, p) in model(0, text).into_iter().enumerate() {
        let probability = probability * f64::from(p);
        if id as u32 == END {
            all.insert(text[1..].to_vec(), probability);
        } else {
            text.push(id as u32);
            expected(text, probability, all);
            text.pop();
        }
    }
}

/// The statistic, and the value that it passes once in ten thousand times (Wilson and Hilferty).
fn chi_square(way: Way) -> (f64, f64) {
    let mut all = BTreeMap::new();
    expected(&mut vec![9], 1.0, &mut all);
    assert!((all.values().sum::<f64>() - 1.0).abs() < 1e-5);
    let mut seen: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    (0..RUNS).for_each(|seed| *seen.entry(decode(seed, way)).or_default() += 1.0);
    assert!(seen.keys().all(|text| all.contains_key(text)));
    let square = |(text, p): (&Vec<u32>, &f64)| {
        let want = p * RUNS as f64;
        (seen.get(text).copied().unwrap_or(0.0) - want).powi(2) / want
    };
    let freedom = (all.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    (all.iter().map(square).sum(), freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3))
}

#[test]
fn the_output_has_the_targets_distribution() {
    for width in [1, 2, 3] {
        for ends in [Ends::Never, Ends::Unsure] {
            let (got, limit) = chi_square(Way { width, ends, ..PLAIN });
            assert!(got < limit, "window {width}: {got} against {limit}");
        }
    }
}

#[test]
fn the_test_would_notice_a_missing_residual_and_a_choice_by_what_was_drawn() {
    for way in [Way { careless: true, ..PLAIN }, Way { ends: Ends::Unlikely, ..PLAIN }] {
        let (got, limit) = chi_square(way);
        assert!(got > 2.0 * limit, "{got} against {limit}");
    }
}

#[test]
fn a_seed_gives_one_text_whatever_the_window() {
    for (seed, ends) in (0..500).flat_map(|seed| [(seed, Ends::Never), (seed, Ends::Unsure)]) {
        let of = |width| decode(seed, Way { width, ends, ..PLAIN });
        assert!([2, 3, 5].iter().all(|&width| of(width) == of(1)));
    }
}
