//! Assistants, which attend to the keys and values of targets of the family of Gemma 4.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use specreel_model::{draft_head::Recipe, grammar::Constraint};
use specreel_speculate::{
    Acceptance, Drafter, Length, Method, Occurrence, Sampler, Shape, VisualContext, processors::Processors,
};
use specreel_tensor::{KvType, WeightType};

use super::{GREEDY, are_lossless, processed, random_methods::pick, support::Bench};

const TARGETS: [&str; 2] = ["gemma4", "gemma4_plain"];

fn assistant(shape: Shape, acceptance: Acceptance) -> Method {
    let drafter = Drafter::Head { recipe: Recipe::Assistant };
    let base = Method::preset("naive").unwrap();
    let method = Method { drafter, context: VisualContext::Full {}, shape, acceptance, ..base };
    method.validate().unwrap();
    method
}

fn shapes() -> Vec<Shape> {
    let nodes = ["0", "1", "00", "01", "10", "000", "100"].map(String::from).to_vec();
    vec![
        Shape::Chain { length: Length::Fixed(1), gate: 0.0, confidence: 0.0 },
        Shape::Chain { length: Length::Fixed(4), gate: 0.0, confidence: 0.3 },
        Shape::Chain { length: Length::Fixed(8), gate: 0.4, confidence: 0.0 },
        Shape::Chain { length: Length::AUTO, gate: 0.0, confidence: 0.0 },
        Shape::StaticTree { nodes: vec![], confidence: 0.0 },
        Shape::StaticTree { nodes, confidence: 0.0 },
        Shape::TwoBranch { length: 6, confidence: 0.0 },
        Shape::DynamicTree { total: 12, depth: 4, width: 3, confidence: 0.0 },
    ]
}

#[test]
fn assistants_are_lossless_in_every_type_and_shape() {
    let warm = Sampler { temperature: 0.9, top_p: 0.9, seed: 5, ..Sampler::GREEDY };
    let (mut accepted, mut rejected) = (0, 0);
    for (at, target) in TARGETS.into_iter().enumerate() {
        for (turn, dtype) in
            [WeightType::F32, WeightType::Q8_0, WeightType::Q4K, WeightType::Q4_0].into_iter().enumerate()
        {
            // Every second one has clusters.
            let seed = (at + turn) as u64;
            let kv_type = KvType::ALL[turn % 3];
            let mut bench = Bench::with_kv_type(target, TARGETS[1 - at], dtype, kv_type, seed);
            for sampler in [GREEDY, warm] {
                let methods = shapes().into_iter().map(|shape| assistant(shape, Acceptance::Exact {}));
                let drafts = are_lossless(&mut bench, sampler, 40, methods);
                (accepted, rejected) = (accepted + drafts[0], rejected + drafts[1]);
            }
        }
    }
    assert!(accepted > 60 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn assistants_are_lossless_under_grammars_and_processors() {
    let mut rng = ChaCha8Rng::seed_from_u64(62);
    for (seed, target) in TARGETS.into_iter().enumerate() {
        let mut bench = Bench::new(target, TARGETS[1 - seed], WeightType::Q8_0, seed as u64);
        for turn in 0..4 {
            if turn == 2 {
                let schema = json!({ "type": "array", "items": { "type": "integer" } });
                bench.constrain(&Constraint::JsonSchema { schema });
            }
            bench.processors = match turn % 2 {
                0 => Processors::default(),
                _ => processed::processors(&mut rng, bench.vocabulary()),
            };
            let temperature = pick(&mut rng, &[0.0, 0.7]);
            let sampler = Sampler { temperature, seed: rng.random(), ..Sampler::GREEDY };
            let methods = shapes().into_iter().map(|shape| assistant(shape, Acceptance::Exact {}));
            are_lossless(&mut bench, sampler, 24, methods);
        }
    }
}

/// What an assistant drafts depends on the text before it alone, not on who drafted that.
#[test]
fn assistants_take_turns_with_others() {
    let chain = |drafter, context| Method {
        drafter,
        context,
        ..assistant(
            Shape::Chain { length: Length::Fixed(3), gate: 0.0, confidence: 0.0 },
            Acceptance::Exact {},
        )
    };
    let none = || super::context("none");
    let all = [
        chain(Drafter::Head { recipe: Recipe::Assistant }, VisualContext::Full {}),
        chain(Drafter::Lookup { ngram: 2, min_ngram: 1, occurrence: Occurrence::Latest }, none()),
        chain(Drafter::Head { recipe: Recipe::Sparrow }, none()),
        chain(Drafter::Model {}, none()),
    ];
    for (seed, target) in TARGETS.into_iter().enumerate() {
        let mut bench = Bench::new(target, TARGETS[1 - seed], WeightType::F32, seed as u64);
        let plain = bench.plain(GREEDY, 40);
        let own = super::turns::drafts(&bench.write(&all[0], GREEDY, 40).steps, |_| true);
        let mut compared = 0;
        // It drafts first, and it takes over.
        for first in 0..all.len() {
            let mut order: Vec<&Method> = all.iter().collect();
            order.rotate_left(first);
            let at = (all.len() - first) % all.len();
            let who = |step: usize| step % all.len();
            let written = bench.write_in_turns(&order, Some(&who), GREEDY, 40);
            written.equals(&plain, format!("{target} from {first} on"));
            for (before, drafted) in super::turns::drafts(&written.steps, |step| who(step) == at) {
                let Some(expected) = own.get(&before) else { continue };
                assert_eq!(&drafted, expected, "{target} after {before} tokens");
                compared += 1;
            }
        }
        assert!(compared > 8, "{compared}");
    }
}

#[test]
fn sampled_acceptance_draws_from_an_assistant() {
    let shape = Shape::Chain { length: Length::Fixed(3), gate: 0.0, confidence: 0.0 };
    let sampled = assistant(shape, Acceptance::Sampled {});
    let mut bench = Bench::new(TARGETS[0], TARGETS[1], WeightType::F32, 0);
    bench.restrict(6);
    super::keeps_the_distribution(&mut bench, &sampled, (8.0, 0.7), 3);
}
