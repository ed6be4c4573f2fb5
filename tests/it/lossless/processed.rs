//! Logits processors, by which each row depends on the text above it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use specreel_model::grammar::Constraint;
use specreel_record::StopReason;
use specreel_speculate::{
    Acceptance, Method, Sampler, Schedule, WindowSize,
    processors::{Dry, Processors},
};
use specreel_tensor::WeightType;

use super::{
    random_methods::{draws, method, pick},
    structured::PAIRS,
    support::Bench,
};

const LIMIT: usize = 24;

pub(super) fn processors(rng: &mut ChaCha8Rng, vocabulary: usize) -> Processors {
    let id = |rng: &mut ChaCha8Rng| rng.random_range(0..vocabulary as u32);
    let bias =
        (0..pick(rng, &[0, 0, 3])).map(|_| (id(rng), pick(rng, &[5.0, -5.0, f32::NEG_INFINITY]))).collect();
    let breakers = vec![pick(rng, &[3, 7, 11])];
    Processors {
        bias,
        repetition_penalty: pick(rng, &[1.0, 1.05, 1.5]),
        repetition_window: pick(rng, &[0, 0, 4]),
        no_repeat_ngram: pick(rng, &[0, 0, 1, 2, 3]),
        presence_penalty: pick(rng, &[0.0, 0.0, 1.5, -0.5]),
        frequency_penalty: pick(rng, &[0.0, 0.0, 0.5]),
        dry: Dry {
            multiplier: pick(rng, &[0.0, 0.8]),
            allowed: pick(rng, &[1, 2]),
            breakers,
            ..Dry::default()
        },
    }
}

#[test]
fn random_methods_are_lossless_whatever_processes_their_rows() {
    let mut rng = ChaCha8Rng::seed_from_u64(60);
    let (mut equal, mut repeated, mut changed) = (0, 0, 0);
    for (seed, (target, small, dtype)) in PAIRS.into_iter().enumerate() {
        let mut bench = Bench::new(target, small, dtype, seed as u64);
        for turn in 0..6 {
            // Some under a grammar as well.
            if turn == 4 {
                bench.constrain(&Constraint::JsonSchema {
                    schema: json!({ "type": "array", "items": { "type": "integer" } }),
                });
            }
            bench.processors = Processors::default();
            let untouched = bench.plain(Sampler::GREEDY, LIMIT);
            bench.processors = processors(&mut rng, bench.vocabulary());
            let temperature = pick(&mut rng, &[0.0, 0.0, 0.7, 3.0]);
            let (top_k, min_p) = (pick(&mut rng, &[0, 5]), pick(&mut rng, &[0.0, 0.05]));
            let sampler = Sampler { temperature, top_k, min_p, seed: 3, ..Sampler::GREEDY };
            let plain = bench.plain(sampler, LIMIT);
            changed += usize::from(temperature == 0.0 && plain.ids != untouched.ids);
            for _ in 0..8 {
                let method = method(&mut rng);
                let what = || format!("{target} {sampler:?}\n{}", method.to_toml());
                let written = bench.write(&method, sampler, LIMIT);
                if method.lossless() && !draws(&method, sampler) {
                    written.equals(&plain, what());
                    equal += 1;
                } else {
                    assert!(written.ids.len() <= LIMIT && written.finished != Some(StopReason::Cancelled));
                    repeated += 1;
                }
            }
        }
    }
    assert!(
        equal > 150 && repeated > 60 && changed > 10,
        "{equal} equal, {repeated} others, {changed} changed"
    );
}

/// Drafts that are drawn and judged by min(1, p/q) leave the distribution of processed rows as it is.
#[test]
fn drawn_drafts_keep_the_distribution_of_processed_rows() {
    let choices = ["red", "green", "grey"];
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    bench.constrain(&Constraint::JsonSchema {
        schema: json!({ "type": "array", "items": { "enum": choices }, "minItems": 2, "maxItems": 2 }),
    });
    bench.processors = Processors { presence_penalty: 1.0, repetition_penalty: 1.3, ..Processors::default() };
    let naive = Method::preset("naive").unwrap();
    let drawn = Method { acceptance: Acceptance::Sampled {}, ..naive };
    let parallel = Method { schedule: Schedule::Parallel { window: WindowSize::Fixed(2) }, ..drawn.clone() };
    let counts = |bench: &mut Bench, method: &Method| {
        let mut counts = [0f64; 9];
        for seed in 0..900 {
            let sampler = Sampler { temperature: 2.0, top_k: 40, min_p: 0.001, seed, ..Sampler::GREEDY };
            let ids = bench.write(method, sampler, 40).ids;
            let text = bench.tokenizer().decode(&ids);
            let words: Vec<String> = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            let at = |word: &String| choices.iter().position(|choice| choice == word).unwrap();
            counts[3 * at(&words[0]) + at(&words[1])] += 1.0;
        }
        counts
    };
    let plain = counts(&mut bench, &Method::preset("autoregressive").unwrap());
    for method in [drawn, parallel] {
        let other = counts(&mut bench, &method);
        // Two samples of one distribution: chi-square with eight degrees of freedom, beyond 32 once in ten thousand times.
        let chi: f64 = plain.iter().zip(other).map(|(a, b)| (a - b).powi(2) / (a + b).max(1.0)).sum();
        assert!(chi < 32.0, "{plain:?} {other:?}");
    }
}
