//! Drafters that take over from each other within a text change no token, and draft as if they had read it from the beginning.

use std::{cell::RefCell, collections::BTreeMap};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use specreel_model::{draft_head::Recipe, grammar::Constraint};
use specreel_record::{Step, StopReason};
use specreel_speculate::{
    Acceptance, Drafter, Length, Method, Occurrence, Sampler, Shape, VisualContext,
    auto::{CLASSES, Calibration, DraftCost},
};
use specreel_tensor::WeightType;

use super::{
    FAMILIES, GREEDY, context, method,
    support::{Bench, Written},
};

const LENGTH: usize = 3;

fn drafting(drafter: Drafter, sees: &str) -> Method {
    method(drafter, context(sees), LENGTH, Acceptance::Exact {})
}

fn head(recipe: Recipe, sees: &str) -> Method {
    drafting(Drafter::Head { recipe }, sees)
}

fn lookup() -> Method {
    drafting(Drafter::Lookup { ngram: 2, min_ngram: 1, occurrence: Occurrence::Latest }, "none")
}

/// All that may take over.
fn reserves() -> Vec<Method> {
    vec![
        drafting(Drafter::Model {}, "none"),
        lookup(),
        head(Recipe::Sparrow, "none"),
        drafting(Drafter::Model {}, "full"),
        head(Recipe::Msd, "full"),
        head(Recipe::Hivis, "none"),
        head(Recipe::Vispec, "full"),
    ]
}

/// Who drafts: each in turn, or at random.
fn orders(count: usize, seed: u64) -> [Box<dyn Fn(usize) -> usize>; 2] {
    let rng = RefCell::new(ChaCha8Rng::seed_from_u64(seed));
    [Box::new(move |step| step % count), Box::new(move |_| rng.borrow_mut().random_range(0..count))]
}

/// The drafts of each step, by how many tokens there were before.
pub(super) fn drafts(steps: &[Step], by: impl Fn(usize) -> bool) -> BTreeMap<usize, Vec<u32>> {
    let (mut before, mut drafts) = (0, BTreeMap::new());
    for step in steps {
        if by(step.index) && !step.drafted.is_empty() {
            drafts.insert(before, step.drafted.clone());
        }
        before += step.tokens.len();
    }
    drafts
}

fn taking_turns(
    bench: &mut Bench,
    all: &[Method],
    sampler: Sampler,
    order: &dyn Fn(usize) -> usize,
) -> Written {
    bench.write_in_turns(&all.iter().collect::<Vec<_>>(), Some(order), sampler, 40)
}

#[test]
fn drafters_that_alternate_write_what_the_target_writes() {
    let warm = Sampler { temperature: 0.8, top_p: 0.9, seed: 5, ..Sampler::GREEDY };
    let firsts = [
        lookup(),
        drafting(Drafter::Model {}, "uniform keep=0.5"),
        head(Recipe::Sparrow, "none"),
        head(Recipe::Eagle3, "full"),
        head(Recipe::Mtp, "full"),
        head(Recipe::Dflash, "full"),
    ];
    let (mut accepted, mut rejected) = (0, 0);
    for (turn, family) in FAMILIES.iter().enumerate() {
        let dtype = if turn % 2 == 0 { WeightType::F32 } else { WeightType::Q8_0 };
        let mut bench = Bench::new(family[0], family[(turn + 1) % 2], dtype, turn as u64);
        for (at, first) in firsts.iter().enumerate() {
            let sampler = if at % 3 == 2 { warm } else { GREEDY };
            let plain = bench.plain(sampler, 40);
            let mut all: Vec<Method> = [vec![first.clone()], reserves()].concat();
            // A fixed tree, which every drafter but a chain's draws.
            if at == 1 {
                all[0].shape = Shape::StaticTree {
                    nodes: vec!["0".into(), "1".into(), "00".into(), "10".into()],
                    confidence: 0.0,
                };
            }
            for order in orders(all.len(), at as u64) {
                let written = taking_turns(&mut bench, &all, sampler, &order);
                written.equals(&plain, format!("{family:?} {:?}", first.drafter));
                accepted += written.accepted;
                rejected += written.judged - written.accepted;
            }
        }
    }
    assert!(accepted > 50 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

/// A drafter that knows the target has every draft accepted, and an untrained head drafts the same after the
/// same text, regardless of which drafter came before.
#[test]
fn what_takes_over_drafts_as_if_it_had_drafted_from_the_beginning() {
    let mut compared = 0;
    for (family, seed) in FAMILIES.iter().zip(1..) {
        let mut bench = Bench::new(family[0], family[0], WeightType::F32, seed);
        let all = [vec![lookup()], reserves()].concat();
        for (at, own) in all.iter().enumerate().skip(1) {
            let alone = drafts(&bench.write(own, GREEDY, 40).steps, |_| true);
            for order in orders(all.len(), 7 + at as u64) {
                let who = RefCell::new(Vec::new());
                let noted = |step| {
                    who.borrow_mut().push(order(step));
                    who.borrow()[step]
                };
                let written = taking_turns(&mut bench, &all, GREEDY, &noted);
                let who = who.borrow();
                // An early one still drafts when its turn comes again.
                let turns = written.steps.iter().filter(|step| who[step.index] == at);
                let drafted = turns.clone().filter(|step| !step.drafted.is_empty()).count();
                assert!(
                    own.drafter == lookup().drafter || drafted + 1 >= turns.count(),
                    "{family:?} {:?}",
                    own.drafter
                );
                for (before, drafted) in drafts(&written.steps, |step| who[step] == at) {
                    let Some(expected) = alone.get(&before) else { continue };
                    assert_eq!(&drafted, expected, "{family:?} {:?} after {before} tokens", own.drafter);
                    compared += 1;
                }
                let knows = own.drafter == (Drafter::Model {}) && own.context == (VisualContext::Full {});
                for step in written.steps.iter().filter(|step| knows && who[step.index] == at) {
                    // A drafted end is right, but no token of the text.
                    let is_last = step.index + 1 == written.steps.len();
                    let ends = is_last && written.finished == Some(StopReason::Eos);
                    let right = step.accepted + usize::from(ends && step.accepted < step.judged);
                    assert_eq!(right, step.judged, "{family:?}, step {}", step.index);
                }
            }
        }
    }
    assert!(compared >= 60, "{compared} compared");
}

/// Where few drafts pass and rows cost little, the first step drafts other choices beside the first one; the
/// later steps depend on this machine's clock, but the text is the same.
#[test]
fn other_choices_and_turns_change_no_token() {
    let calibration = Calibration::of([0.4; CLASSES], [1.0; CLASSES]).unwrap();
    let cost = DraftCost { disagreement: Some(1.0), calibration, ..DraftCost::usual([0.0, 0.2], 0.4) };
    let (mut beside, mut texts) = (0, 0);
    for (turn, family) in FAMILIES.iter().enumerate().step_by(3) {
        let mut bench = Bench::new(family[0], family[turn % 2], WeightType::F32, turn as u64);
        let plain = bench.plain(GREEDY, 40);
        bench.cost = Some(cost);
        for first in [drafting(Drafter::Model {}, "full"), head(Recipe::Sparrow, "none")] {
            let shape = Shape::Chain { length: Length::AUTO, gate: 0.0, confidence: 0.0 };
            let all = [vec![Method { shape, ..first }], reserves()].concat();
            let written = bench.write_in_turns(&all.iter().collect::<Vec<_>>(), None, GREEDY, 40);
            written.equals(&plain, format!("{family:?} {:?}", all[0].drafter));
            beside += usize::from(!written.steps[0].parents.is_empty());
            texts += 1;
        }
        bench.cost = None;
    }
    // A drafter that is sure of its first choice has no other.
    assert!(2 * beside > texts, "{beside} of {texts}");
}

#[test]
fn what_a_grammar_forces_is_read_by_all() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    let properties = json!({ "colour": { "enum": ["red", "green"] }, "moves": { "type": "boolean" } });
    bench.constrain(&Constraint::JsonSchema {
        schema: json!({ "type": "object", "properties": properties, "required": ["colour", "moves"], "additionalProperties": false }),
    });
    let plain = bench.plain(GREEDY, 40);
    let all = [vec![head(Recipe::Sparrow, "none")], reserves()].concat();
    for order in orders(all.len(), 3) {
        taking_turns(&mut bench, &all, GREEDY, &order).equals(&plain, "constrained");
    }
}
