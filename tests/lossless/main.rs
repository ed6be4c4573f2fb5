//! Exact acceptance emits, bit for bit, what autoregressive decoding emits; sampled acceptance draws from its distribution.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use specreel::{
    model::WeightType,
    speculate::{Acceptance, Context, Drafter, Method, Sampler, Shape},
};
use support::{Bench, Written};

const MODELS: [&str; 4] = ["gqa_tied", "mha_tied_bf16", "nested_bf16", "sharded_untied"];

fn method(drafter: Drafter, context: Context, length: usize, acceptance: Acceptance) -> Method {
    let mut method = Method::preset("naive").unwrap();
    method.drafter = drafter;
    method.context = context;
    method.shape = Shape::Chain { length };
    method.acceptance = acceptance;
    method.validate().unwrap();
    method
}

/// Every combination of model, drafter, weights, clip, context, K and sampling writes the same ids with the same
/// probabilities, to the last bit.
#[test]
fn exact_acceptance_is_autoregressive_decoding() {
    let greedy = Sampler { temperature: 0.0, top_p: 1.0, seed: 0 };
    let warm = Sampler { temperature: 0.8, top_p: 0.9, seed: 5 };
    let contexts = [
        Context::Full {},
        Context::None {},
        Context::Random { keep: 0.3, seed: 3 },
        Context::Uniform { keep: 0.5 },
        Context::Frames { keep: 0.5 },
    ];
    let (mut combinations, mut accepted, mut rejected) = (0, 0, 0);
    for (m, model) in MODELS.iter().enumerate() {
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            for clip in 0..2 {
                let small = MODELS[(m + 1 + clip) % MODELS.len()];
                let mut bench = Bench::new(model, small, dtype, clip as u64);
                for (c, context) in contexts.iter().enumerate() {
                    for drafter in [Drafter::Model {}, Drafter::Target {}] {
                        let length = [1, 2, 3, 5, 10, 30][(c + combinations) % 6];
                        let sampler = if combinations % 4 == 3 { warm } else { greedy };
                        let speculative =
                            method(drafter.clone(), context.clone(), length, Acceptance::Exact {});
                        let plain = bench.write(&Method::preset("autoregressive").unwrap(), sampler, 40);
                        let fast = bench.write(&speculative, sampler, 40);
                        assert_eq!(fast.ids, plain.ids, "{model} {dtype:?} {speculative:?}");
                        assert_eq!(fast.bits, plain.bits, "{model} {dtype:?} {speculative:?}");
                        assert_eq!(fast.finished, plain.finished);
                        accepted += fast.accepted;
                        rejected += fast.judged - fast.accepted;
                        combinations += 1;
                    }
                }
            }
        }
    }
    assert!(combinations >= 160, "{combinations}");
    assert!(
        accepted > 500 && rejected > 500,
        "both paths are walked: {accepted} accepted, {rejected} rejected"
    );
}

#[test]
fn every_length_of_chain_is_lossless_and_never_overshoots() {
    let greedy = Sampler { temperature: 0.0, top_p: 1.0, seed: 0 };
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::Q8_0, 9);
    for limit in [0, 1, 2, 3, 7, 23] {
        let plain = bench.write(&Method::preset("autoregressive").unwrap(), greedy, limit);
        for length in 1..=12 {
            for drafter in [Drafter::Model {}, Drafter::Target {}] {
                let fast = bench.write(
                    &method(drafter, Context::Uniform { keep: 0.4 }, length, Acceptance::Exact {}),
                    greedy,
                    limit,
                );
                assert_eq!(fast.ids, plain.ids);
                assert!(fast.ids.len() <= limit);
            }
        }
    }
}

/// Two tokens of a restricted vocabulary: the joint counts of sampled acceptance against the target's own probabilities.
#[test]
fn sampled_acceptance_keeps_the_distribution() {
    const VOCAB: usize = 6;
    const RUNS: usize = 4000;
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 1);
    bench.restrict(VOCAB);
    let sampled = method(Drafter::Target {}, Context::None {}, 2, Acceptance::Sampled {});
    for temperature in [0.7f32, 1.5] {
        let sampler = |seed| Sampler { temperature, top_p: 1.0, seed };
        let expected = bench.joint(sampler(0));
        let mut counts = vec![0f64; VOCAB * VOCAB];
        let mut accepted = 0;
        for seed in 0..RUNS as u64 {
            let Written { ids, accepted: a, .. } = bench.write(&sampled, sampler(seed), 2);
            counts[ids[0] as usize * VOCAB + ids[1] as usize] += 1.0;
            accepted += a;
        }
        let chi: f64 = counts
            .iter()
            .zip(&expected)
            .map(|(n, p)| {
                let want = p * RUNS as f64;
                (n - want).powi(2) / want.max(1e-9)
            })
            .sum();
        // 35 degrees of freedom: 78 is passed by chance once in 40,000.
        assert!(chi < 78.0, "temperature {temperature}: chi-square {chi}");
        assert!(accepted > RUNS / 4, "drafts are accepted: {accepted}");
    }
}

#[test]
fn loose_rules_accept_at_least_what_exact_accepts_and_keep_the_account() {
    let greedy = Sampler { temperature: 0.0, top_p: 1.0, seed: 0 };
    let mut bench = Bench::new("sharded_untied", "gqa_tied", WeightType::Q8_0, 4);
    let exact = bench.write(&Method::preset("naive").unwrap(), greedy, 40);
    for name in ["fly", "fly-entropy", "lenient", "lvspec", "lvspec-self", "random-loose"] {
        let loose = bench.write(&Method::preset(name).unwrap(), greedy, 40);
        assert!(loose.ids.len() <= 40, "{name}");
        assert!(loose.accepted <= loose.judged, "{name}");
        if name == "lvspec" {
            assert!(
                loose.accepted > exact.accepted,
                "lambda 0.7 loosens: {} {}",
                loose.accepted,
                exact.accepted
            );
        }
    }
}
