//! Against autoregressive decoding of scripted models, with caches simulated.

use proptest::prelude::*;

use super::*;
use crate::schedule::{
    scripted::{ENDS, Script, ScriptedDrafter, ScriptedTarget, hash},
    workers::{DrafterWorker, TargetWorker},
};

const ROOT: u32 = 7;

fn limits(max_new_tokens: usize) -> Limits {
    Limits { max_new_tokens, ends: (0..ENDS).collect() }
}

/// Decode with all invariants checked after every tick.
fn decode(
    target: &mut ScriptedTarget,
    drafter: &mut ScriptedDrafter,
    most: usize,
    window: impl Fn(usize) -> usize,
) -> Parallel {
    let mut machine: Parallel = Parallel::new(ROOT, limits(most));
    let mut emitted: Vec<u32> = Vec::new();
    for step in 0.. {
        let Some(tick) = machine.tick(window(step)) else { break };
        // Both caches stay within the text that may be written.
        assert!(tick.target.truncate_to + tick.target.rows.len() <= most);
        assert_eq!(tick.target.truncate_to, emitted.len(), "the rows begin with the root");
        assert!(
            tick.drafter.as_ref().is_none_or(|task| {
                task.position + task.draft <= most && task.draft <= window(step).max(1)
            })
        );
        // Requesting a tick does not change it.
        assert_eq!(machine.tick(window(step)), Some(tick));
        let tick = machine.tick(window(step)).unwrap();

        target.verify(&tick.target).unwrap();
        let drafts = tick.drafter.as_ref().map_or_else(Vec::new, |task| drafter.draft(task).unwrap());
        let outcome = machine.apply(tick, drafts, target);

        assert_eq!(machine.target.ids(), target.cache);
        assert_eq!(machine.drafter.ids(), drafter.cache);
        assert_eq!(outcome.position, emitted.len());
        assert!(!outcome.tokens.is_empty() || outcome.finished == Some(StopReason::Eos));
        for (i, token) in outcome.tokens.iter().enumerate() {
            assert_eq!(target.ruled.get(&(outcome.position + i)), Some(&token.id), "emitted, never judged");
            assert_eq!(token.verdict.is_accepted_draft(), i < outcome.accepted);
        }
        emitted.extend(outcome.tokens.iter().map(|token| token.id));
        assert_eq!(machine.tokens(), emitted);
        assert_eq!(machine.finished(), outcome.finished);

        let tally = machine.tally();
        let held = tally.accepted + tally.discarded + machine.pending.len() as u64;
        // An accepted end token is neither in the output nor thrown away.
        let end = u64::from(outcome.finished == Some(StopReason::Eos));
        assert!(tally.drafted == held || tally.drafted == held + end);
    }
    machine
}

prop_compose! {
    fn script()(seed: u64, words in 1u32..6, agreement in prop::sample::select(vec![0u64, 20, 50, 80, 95, 100]),
        ending in prop::sample::select(vec![0u64, 0, 2, 10, 40])) -> Script
    {
        Script { seed, words, agreement, ending }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_output_is_that_of_autoregressive_decoding(script in script(), most in 0usize..60, window in 1usize..=12) {
        let mut drafter = ScriptedDrafter::new(&script);
        let machine = decode(&mut ScriptedTarget::new(&script), &mut drafter, most, |_| window);
        let (want, stop) = script.autoregressive(ROOT, most);
        prop_assert_eq!(machine.tokens(), want);
        prop_assert_eq!(machine.finished(), Some(stop));
    }

    #[test]
    fn windows_may_change_and_drafters_may_misbehave(
        script in script(), most in 0usize..60, seed: u64, unruly: bool, unknown in prop::option::of(ENDS..ENDS + 6),
    ) {
        let mut drafter = ScriptedDrafter { unknown, unruly, ..ScriptedDrafter::new(&script) };
        let window = |step: usize| (hash(seed, step as u64, &[]) % 13) as usize;
        let machine = decode(&mut ScriptedTarget::new(&script), &mut drafter, most, window);
        let (want, stop) = script.autoregressive(ROOT, most);
        prop_assert_eq!(machine.tokens(), want);
        prop_assert_eq!(machine.finished(), Some(stop));
    }
}

#[test]
fn a_drafter_that_always_agrees_is_never_rolled_back() {
    let script = Script { seed: 1, words: 5, agreement: 100, ending: 0 };
    let mut drafter = ScriptedDrafter::new(&script);
    let machine = decode(&mut ScriptedTarget::new(&script), &mut drafter, 50, |_| 5);
    // One token in the first tick, five in each that follows, four that are left.
    assert_eq!(machine.tally().ticks, 11);
    assert_eq!(machine.tally().longest_run, 50);
    assert_eq!((machine.tally().rejects, machine.tally().discarded), (0, 0));
    assert_eq!(machine.tally().mean_run(), None);
}

#[test]
fn a_drafter_that_never_agrees_costs_no_token() {
    let script = Script { seed: 3, words: 1000, agreement: 0, ending: 0 };
    let mut drafter = ScriptedDrafter::new(&script);
    let machine = decode(&mut ScriptedTarget::new(&script), &mut drafter, 20, |_| 4);
    assert_eq!(machine.tally().ticks, 20);
    assert_eq!(machine.tally().mean_run(), Some(0.0));
    assert_eq!(machine.tally().tau(), 0.0);
    // The last windows are cut to what is still wanted: 3, 2, 1.
    assert_eq!(machine.tally().discarded, 17 * 4 + 3 + 2 + 1);
}

#[test]
fn nothing_is_done_where_nothing_is_wanted() {
    let machine: Parallel = Parallel::new(ROOT, limits(0));
    assert_eq!(machine.tick(3), None);
    assert_eq!(machine.finished(), Some(StopReason::Length));
}
