//! Tick by tick, by hand. End token 0; the prompt's last token is 9.

use super::*;
use crate::schedule::judge::Exact;
use specreel_record::Verdict::*;

fn machine(max_new_tokens: usize) -> Parallel {
    Parallel::new(9, Limits { max_new_tokens, ends: vec![0] })
}

/// The tasks of a tick: the target's (truncate_to, rows), the drafter's (truncate_to, feed, draft).
type Asked<'a> = (Mode, (usize, &'a [u32]), Option<(usize, &'a [u32], usize)>);

/// One tick: its tasks must be `asked`; then the drafter answers `window`, the target wants `wanted`.
#[track_caller]
fn step(machine: &mut Parallel, width: usize, asked: Asked<'_>, window: &[u32], wanted: &[u32]) -> Outcome {
    let tick = machine.tick(width).unwrap();
    let drafter = tick.drafter.as_ref().map(|task| (task.truncate_to, &task.feed[..], task.draft));
    assert_eq!((tick.stage, (tick.target.truncate_to, &tick.target.rows[..]), drafter), asked);
    assert_eq!(wanted.len(), tick.target.rows.len());
    machine.apply(tick, window.iter().map(|&id| id.into()).collect(), &mut Exact { wanted })
}

fn tokens(outcome: &Outcome) -> Vec<(u32, Verdict)> {
    outcome.tokens.iter().map(|token| (token.id, token.verdict)).collect()
}

const PRE: Mode = Mode::Pre;
const POST: Mode = Mode::Post;

#[test]
fn pre_verify_rejects() {
    let mut m = machine(10);
    let out = step(&mut m, 3, (PRE, (0, &[9]), Some((0, &[9], 3))), &[1, 2, 3], &[5]);
    assert_eq!(tokens(&out), [(5, Corrected)]);
    assert_eq!((out.judged, out.drafted, out.discarded, out.finished), (vec![1], vec![1, 2, 3], 3, None));
    // The drafter holds 9 1 2; it keeps the prompt's token only. The target has nothing to forget.
    let out = step(&mut m, 3, (PRE, (1, &[5]), Some((1, &[5], 3))), &[6, 7, 8], &[1]);
    assert_eq!((out.position, tokens(&out)), (1, vec![(1, Corrected)]));
}

#[test]
fn pre_verify_accepts_then_post_verify_accepts_all() {
    let mut m = machine(20);
    let out = step(&mut m, 3, (PRE, (0, &[9]), Some((0, &[9], 3))), &[1, 2, 3], &[1]);
    assert_eq!((tokens(&out), out.discarded), (vec![(1, Exact)], 0));
    // 3 was drafted but not fed, so the drafter is fed it now.
    let out = step(&mut m, 3, (POST, (1, &[1, 2, 3]), Some((3, &[3], 3))), &[4, 5, 6], &[2, 3, 4]);
    assert_eq!(tokens(&out), [(2, Exact), (3, Exact), (4, Exact)]);
    assert_eq!((out.position, out.judged, out.discarded), (1, vec![2, 3, 4], 0));
    let out = step(&mut m, 3, (POST, (4, &[4, 5, 6]), Some((6, &[6], 3))), &[7, 8, 1], &[5, 6, 7]);
    assert_eq!((out.accepted, m.tally().run, m.tally().ticks), (3, 7, 3));
    assert_eq!(m.tokens(), [1, 2, 3, 4, 5, 6, 7]);
}

/// A machine in post-verify with 1 emitted and 2 3 pending; the drafter holds 9 1 2.
fn post() -> Parallel {
    let mut m = machine(20);
    step(&mut m, 3, (PRE, (0, &[9]), Some((0, &[9], 3))), &[1, 2, 3], &[1]);
    m
}

const ASKED: Asked<'static> = (POST, (1, &[1, 2, 3]), Some((3, &[3], 3)));

#[test]
fn post_verify_rejects_the_first() {
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[4, 5, 6], &[8, 3, 4]);
    assert_eq!((tokens(&out), out.discarded), (vec![(8, Corrected)], 5));
    assert_eq!((m.tally().rejects, m.tally().run, m.tally().mean_run()), (1, 0, Some(1.0)));
    // Both keep 9 1.
    step(&mut m, 3, (PRE, (2, &[8]), Some((2, &[8], 3))), &[1, 1, 1], &[1]);
}

#[test]
fn post_verify_rejects_in_the_middle() {
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[4, 5, 6], &[2, 8, 4]);
    assert_eq!((tokens(&out), out.discarded), (vec![(2, Exact), (8, Corrected)], 4));
    assert_eq!(out.accepted, 1);
    step(&mut m, 3, (PRE, (3, &[8]), Some((3, &[8], 3))), &[1, 1, 1], &[1]);
}

#[test]
fn post_verify_rejects_the_first_of_the_new_window() {
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[4, 5, 6], &[2, 3, 8]);
    assert_eq!((tokens(&out), out.discarded), (vec![(2, Exact), (3, Exact), (8, Corrected)], 3));
    // The target holds 9 1 2 3, all of which are kept.
    step(&mut m, 3, (PRE, (4, &[8]), Some((4, &[8], 3))), &[1, 1, 1], &[1]);
}

#[test]
fn a_window_may_be_shorter_than_asked_for_or_of_one_token() {
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[4], &[2, 3, 4]);
    assert_eq!(tokens(&out), [(2, Exact), (3, Exact), (4, Exact)]);
    // Nothing is pending, though nothing was rejected.
    step(&mut m, 1, (PRE, (4, &[4]), Some((4, &[4], 1))), &[5], &[5]);
    step(&mut m, 2, (PRE, (5, &[5]), Some((5, &[5], 2))), &[6, 7], &[6]);
    step(&mut m, 2, (POST, (6, &[6, 7]), Some((7, &[7], 2))), &[8, 8], &[7, 8]);
}

#[test]
fn an_empty_window_leaves_the_token_to_the_target() {
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[], &[2, 3, 4]);
    assert_eq!(tokens(&out), [(2, Exact), (3, Exact), (4, Bonus)]);
    assert_eq!((out.accepted, out.judged, out.discarded), (2, vec![2, 3], 0));
    assert_eq!((m.tally().rejects, m.tally().run), (0, 3));
    // The drafter was not fed 3; it still holds 9 1 2.
    let out = step(&mut m, 3, (PRE, (4, &[4]), Some((3, &[3, 4], 3))), &[], &[5]);
    assert_eq!(tokens(&out), [(5, Bonus)]);
    step(&mut m, 3, (PRE, (5, &[5]), Some((3, &[3, 4, 5], 3))), &[6, 6, 6], &[6]);
}

#[test]
fn an_end_token_closes_the_window() {
    let mut m = machine(20);
    step(&mut m, 4, (PRE, (0, &[9]), Some((0, &[9], 4))), &[1, 2, 0], &[1]);
    // Nothing can follow the end, so nothing is drafted, and its row is not computed.
    let out = step(&mut m, 4, (POST, (1, &[1, 2]), None), &[], &[2, 0]);
    assert_eq!((tokens(&out), out.finished), (vec![(2, Exact)], Some(StopReason::Eos)));
    assert_eq!((out.judged, out.discarded), (vec![2, 0], 0));
    assert_eq!(m.tick(4), None);
    assert_eq!(m.tokens(), [1, 2]);
}

#[test]
fn a_drafted_end_token_may_be_rejected() {
    let mut m = machine(20);
    step(&mut m, 4, (PRE, (0, &[9]), Some((0, &[9], 4))), &[1, 2, 0], &[1]);
    let out = step(&mut m, 4, (POST, (1, &[1, 2]), None), &[], &[2, 3]);
    assert_eq!((tokens(&out), out.finished), (vec![(2, Exact), (3, Corrected)], None));
    step(&mut m, 4, (PRE, (3, &[3]), Some((3, &[3], 4))), &[4, 4, 4, 4], &[4]);
}

#[test]
fn an_end_token_may_come_first_or_from_the_target() {
    let mut m = machine(20);
    let out = step(&mut m, 4, (PRE, (0, &[9]), Some((0, &[9], 4))), &[0], &[0]);
    assert_eq!((tokens(&out), out.finished), (vec![], Some(StopReason::Eos)));
    let mut m = post();
    let out = step(&mut m, 3, ASKED, &[4, 5, 6], &[2, 0, 4]);
    assert_eq!((tokens(&out), out.finished), (vec![(2, Exact)], Some(StopReason::Eos)));
    assert_eq!((out.discarded, m.tally().rejects), (4, 1));
}

#[test]
fn the_asked_length_cuts_windows_and_rows() {
    let mut m = machine(4);
    step(&mut m, 3, (PRE, (0, &[9]), Some((0, &[9], 3))), &[1, 2, 3], &[1]);
    // One more is wanted after 2 3.
    let out = step(&mut m, 3, (POST, (1, &[1, 2, 3]), Some((3, &[3], 1))), &[4], &[2, 3, 4]);
    assert_eq!((out.tokens.len(), out.finished), (3, Some(StopReason::Length)));
    assert_eq!((m.tick(3), m.tokens()), (None, &[1, 2, 3, 4][..]));

    let mut m = machine(3);
    step(&mut m, 5, (PRE, (0, &[9]), Some((0, &[9], 3))), &[1, 2, 3], &[1]);
    // The pending drafts are all that is wanted: no drafting, no row for the last.
    let out = step(&mut m, 5, (POST, (1, &[1, 2]), None), &[], &[2, 8]);
    assert_eq!((tokens(&out), out.finished), (vec![(2, Exact), (8, Corrected)], Some(StopReason::Length)));
}

#[test]
fn a_window_longer_than_asked_for_is_cut_and_its_cache_known() {
    let mut m = machine(20);
    let out = step(&mut m, 2, (PRE, (0, &[9]), Some((0, &[9], 2))), &[1, 2, 3, 4], &[1]);
    assert_eq!((out.drafted, out.discarded), (vec![1, 2, 3, 4], 2));
    // The drafter holds 9 1 2 3 and must draft after 9 1 2.
    step(&mut m, 2, (POST, (1, &[1, 2]), Some((2, &[2], 2))), &[3, 4], &[2, 3]);
}

/// Fig. 8 of the paper, window 3: "The video uses Parallel|VLM for speedup".
#[test]
fn the_papers_example() {
    let (the, video, uses, parallel, vlm, method, with, for_, a, speedup) = (1, 2, 3, 4, 5, 6, 7, 8, 10, 11);
    let mut m = machine(20);
    step(&mut m, 3, (PRE, (0, &[9]), Some((0, &[9], 3))), &[the, video, uses], &[the]);
    step(
        &mut m,
        3,
        (POST, (1, &[the, video, uses]), Some((3, &[uses], 3))),
        &[parallel, vlm, method],
        &[video, uses, parallel],
    );
    step(
        &mut m,
        3,
        (POST, (4, &[parallel, vlm, method]), Some((6, &[method], 3))),
        &[with, 12, 12],
        &[vlm, for_, 12],
    );
    step(&mut m, 3, (PRE, (6, &[for_]), Some((6, &[for_], 3))), &[a, 12, 12], &[speedup]);
    assert_eq!(m.tokens(), [the, video, uses, parallel, vlm, for_, speedup]);
    // "The maximum adaptive draft length here is 5."
    assert_eq!((m.tally().longest_run, m.tally().rejects), (5, 2));
}
