use std::collections::BTreeMap;

use super::{
    super::{Curve, Point},
    *,
};
use specreel_record::Token;

fn flat(ms: f64) -> Cost {
    line(ms, 0.0, 0.0)
}

/// `ms`, and more for each further row and for each slot.
fn line(ms: f64, row: f64, slot: f64) -> Cost {
    let at = |rows: f64, slots: f64| Point { slots, rows, ms: ms + row * (rows - 1.0) + slot * slots };
    Cost::Measured(Curve::new(&[at(1.0, 0.0), at(11.0, 0.0), at(1.0, 100.0), at(11.0, 100.0)]).unwrap())
}

fn profile(target: Cost, drafter: Cost) -> Profile {
    Profile {
        name: "test".into(),
        about: String::new(),
        two_devices: false,
        step_ms: Some(0.0),
        grow_ms: 0.0,
        prefill_ms: None,
        visual: None,
        text: None,
        target,
        drafter: Some(drafter),
        heads: BTreeMap::new(),
    }
}

/// A step of a chain: `accepted` of `drafted` pass, and the target's own token follows.
fn chain(drafted: usize, accepted: usize) -> Step {
    let last = if accepted < drafted { Verdict::Corrected } else { Verdict::Bonus };
    let verdicts = std::iter::repeat_n(Verdict::Exact, accepted).chain([last]);
    Step {
        drafted: vec![7; drafted],
        judged: drafted,
        accepted,
        tokens: verdicts.map(|verdict| Token::new(7, "a", verdict)).collect(),
        other_ms: 5.0,
        ..Step::default()
    }
}

fn work(drafting: Drafting, steps: &[Step]) -> Workload<'_> {
    Workload {
        drafting,
        window: None,
        grown: None,
        text: 10,
        visual: 90,
        drafter_sees: 1.0,
        target_sees: 1.0,
        steps,
        drafted: 0,
        ended: false,
    }
}

#[test]
fn a_chain_pays_a_pass_for_each_draft_and_one_for_all_of_them() {
    // 3 drafts of 1 ms and a pass of 10 ms that is the same for all rows: 3 tokens in 13 ms instead of 30.
    let steps = [chain(3, 2), chain(3, 2)];
    let modelled = profile(flat(10.0), flat(1.0)).charge(&work(Drafting::Model, &steps)).unwrap();
    assert_eq!(
        (modelled.tokens, modelled.draft_ms, modelled.verify_ms, modelled.other_ms),
        (6, 6.0, 20.0, 0.0)
    );
    assert_eq!(modelled.speedup(), 60.0 / 26.0);
    assert!((modelled.tokens_per_second() - 6000.0 / 26.0).abs() < 1e-9);
}

#[test]
fn rows_cost_what_the_profile_says() {
    let steps = [chain(3, 3), chain(3, 0)];
    let rows = profile(line(10.0, 1.0, 0.0), line(1.0, 0.5, 0.0));
    let modelled = rows.charge(&work(Drafting::Model, &steps)).unwrap();
    // Each pass has 4 rows. After the first step, two tokens are read at once: the last draft and the root.
    assert_eq!((modelled.verify_ms, modelled.draft_ms), (26.0, 3.0 + 3.5));
}

#[test]
fn slots_are_the_prompt_that_each_model_sees_and_the_text_so_far() {
    let steps = [chain(1, 0), chain(1, 0)];
    let slots = profile(line(10.0, 0.0, 0.1), line(1.0, 0.0, 0.01));
    let all = slots.charge(&work(Drafting::Model, &steps)).unwrap();
    assert!((all.verify_ms - (20.0 + 0.1 * (100.0 + 101.0))).abs() < 1e-9, "{all:?}");
    assert!((all.plain_ms - all.verify_ms).abs() < 1e-9, "{all:?}");
    let tenth = slots.charge(&Workload { drafter_sees: 0.1, ..work(Drafting::Model, &steps) }).unwrap();
    assert!((tenth.draft_ms - (2.0 + 0.01 * (19.0 + 20.0))).abs() < 1e-9, "{tenth:?}");
    let pruned = Workload { target_sees: 0.1, ..work(Drafting::Nothing, &steps) };
    let pruned = slots.charge(&pruned).unwrap();
    assert!((pruned.verify_ms - (20.0 + 0.1 * (19.0 + 20.0))).abs() < 1e-9, "{pruned:?}");
    // Another prompt than the recorded one.
    let longer = Profile { visual: Some(990), text: Some(10), ..slots };
    let longer = longer.charge(&Workload { drafter_sees: 0.0, ..work(Drafting::Model, &steps) }).unwrap();
    assert!((longer.verify_ms - (20.0 + 0.1 * (1000.0 + 1001.0))).abs() < 1e-9, "{longer:?}");
    assert!((longer.draft_ms - (2.0 + 0.01 * (10.0 + 11.0))).abs() < 1e-9, "{longer:?}");
}

#[test]
fn a_tree_pays_a_pass_for_each_level() {
    // 0 and 1 after the root, 2 and 3 after 0, 4 after 1, 5 after 2.
    let parents = vec![None, None, Some(0), Some(0), Some(1), Some(2)];
    let tree = Step { drafted: vec![7; 6], parents, path: vec![0], ..chain(6, 1) };
    assert_eq!(passes(&tree, 1, None), [1, 2, 1]);
    assert_eq!(longest(&tree), 3);
    assert_eq!(passes(&tree, 2, Some((4, 8))), [2, 8, 8, 8]);
    assert_eq!(passes(&chain(4, 2), 1, None), [1, 1, 1, 1]);
    let rows = profile(line(10.0, 1.0, 0.0), line(1.0, 0.5, 0.0));
    let steps = [tree];
    let modelled = rows.charge(&work(Drafting::Model, &steps)).unwrap();
    assert_eq!((modelled.draft_ms, modelled.verify_ms), (1.0 + 1.5 + 1.0, 16.0));
}

#[test]
fn every_drafter_has_its_price() {
    let steps = [chain(2, 1)];
    let mut known = profile(flat(10.0), flat(1.0));
    let draft_ms = |profile: &Profile, drafting| Some(profile.charge(&work(drafting, &steps))?.draft_ms);
    assert_eq!(draft_ms(&known, Drafting::Nothing), Some(0.0));
    assert_eq!(draft_ms(&known, Drafting::Free), Some(0.0));
    assert_eq!(draft_ms(&known, Drafting::Target { share: 0.5, weights: 1.0 }), Some(10.0));
    assert_eq!(draft_ms(&known, Drafting::Target { share: 1.0, weights: 0.3 }), None);
    assert_eq!(draft_ms(&known, Drafting::Head("sparrow".into())), None);
    known.heads.insert(String::new(), flat(0.5));
    assert_eq!(draft_ms(&known, Drafting::Head("sparrow".into())), Some(1.0));
    known.heads.insert("sparrow".into(), flat(0.25));
    assert_eq!(draft_ms(&known, Drafting::Head("sparrow".into())), Some(0.5));
    known.drafter = None;
    assert_eq!(draft_ms(&known, Drafting::Model), None);
}

#[test]
fn a_drafter_that_was_measured_with_one_row_takes_the_targets_ratios() {
    let one = Cost::Measured(Curve::new(&[Point { slots: 0.0, rows: 1.0, ms: 2.0 }]).unwrap());
    let known = profile(line(10.0, 1.0, 0.0), one);
    assert_eq!(known.draft_ms(&Drafting::Model, 6.0, 0.0), Some(3.0));
}

#[test]
fn the_host_takes_what_was_recorded_or_what_the_profile_says() {
    let steps = [chain(1, 1), chain(1, 1)];
    let recorded = Profile { step_ms: None, ..profile(flat(10.0), flat(1.0)) };
    assert_eq!(recorded.charge(&work(Drafting::Model, &steps)).unwrap().other_ms, 10.0);
    let own = Profile { step_ms: Some(2.0), ..recorded };
    let modelled = own.charge(&work(Drafting::Model, &steps)).unwrap();
    assert_eq!((modelled.other_ms, modelled.plain_ms), (4.0, 48.0));
}

#[test]
fn growing_a_dynamic_tree_takes_the_host_longer() {
    let known = Profile { grow_ms: 4.0, ..profile(flat(10.0), flat(1.0)) };
    let steps = [chain(2, 1), chain(0, 0)];
    let work = work(Drafting::Model, &steps);
    assert_eq!(known.charge(&work).unwrap().other_ms, 0.0);
    // Not in the step without drafts, and not in autoregressive decoding.
    let grown = known.charge(&Workload { grown: Some((2, 8)), ..work }).unwrap();
    assert_eq!((grown.other_ms, grown.plain_ms), (4.0, 30.0));
}

#[test]
fn a_run_without_tokens_has_no_speed() {
    let known = profile(flat(10.0), flat(1.0));
    assert_eq!(known.charge(&work(Drafting::Nothing, &[])), None);
    let end = [Step::default()];
    assert_eq!(known.charge(&work(Drafting::Nothing, &end)), None);
}

#[test]
fn a_pass_that_finds_the_end_emits_nothing() {
    let steps = [chain(0, 0), chain(0, 0), Step::default()];
    let known = profile(flat(10.0), flat(1.0));
    let modelled = known.charge(&Workload { ended: true, ..work(Drafting::Nothing, &steps) }).unwrap();
    assert_eq!((modelled.tokens, modelled.verify_ms, modelled.speedup()), (2, 30.0, 1.0));
}

#[test]
fn on_two_devices_the_slower_of_both_counts() {
    // Twelve tokens that all pass; a window of 10 ms / 2 ms.
    let steps: Vec<Step> =
        (0..4).map(|_| Step { tokens: chain(3, 3).tokens[..3].to_vec(), ..chain(3, 3) }).collect();
    let one = profile(flat(10.0), flat(2.0));
    let two = Profile { two_devices: true, ..one.clone() };
    let parallel = Workload { window: Some(Window::Auto), drafted: 20, ..work(Drafting::Model, &steps) };
    // 1 + 5 + 5 + 1 tokens; all drafting is hidden.
    let modelled = two.charge(&parallel).unwrap();
    assert_eq!((modelled.verify_ms, modelled.draft_ms), (40.0, 0.0));
    // On one device the window is the run's, 20 drafts in 4 steps, and nothing is hidden: 12 drafts.
    let modelled = one.charge(&parallel).unwrap();
    assert_eq!((modelled.verify_ms, modelled.draft_ms), (40.0, 24.0));
    // A drafter that needs longer than the target: 8 drafts of a window during a pass of 10 ms.
    let fixed = Workload { window: Some(Window::Fixed(8)), ..parallel };
    let modelled = two.charge(&fixed).unwrap();
    assert_eq!((modelled.verify_ms, modelled.draft_ms), (30.0, 6.0));
}
