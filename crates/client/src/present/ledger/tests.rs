use super::*;
use specreel_record::{
    EventKind, Switched,
    testing::{drafted, run},
};

fn step(drafts: &[&str], tokens: &[(&str, Verdict)]) -> Step {
    Step { draft_ms: 1.5, verify_ms: 12.0, ..drafted(drafts, tokens) }
}

/// 0 and 1 at the root, 2 and 3 below 0, 4 below 1.
fn tree(accepted: &[usize], tokens: &[(&str, Verdict)]) -> Step {
    Step {
        parents: vec![None, None, Some(0), Some(0), Some(1)],
        path: accepted.to_vec(),
        ..step(&["The", " A", " video", " clip", " film"], tokens)
    }
}

fn log(steps: Vec<Step>) -> RunLog {
    run(1, steps.into_iter().map(EventKind::Step))
}

fn words(step: Step) -> (String, String, String) {
    let row = rows(&log(vec![step]), 0..1).remove(0);
    (plain(&row.pieces), row.counts(), row.reason)
}

fn is(step: Step, text: &str, counts: &str, reason: &str) {
    assert_eq!(words(step), (text.into(), counts.into(), reason.into()));
}

use Verdict::{Bonus, Corrected, Exact, Forced, Loosened, Plain};

#[test]
fn a_reject_strikes_the_rest_of_the_draft_and_names_the_target_s_token() {
    is(
        step(&["The", " video", " is", " made"], &[("The", Exact), (" clip", Corrected)]),
        "The ~~video is made~~ → clip",
        "1/4",
        "rejected after 1 of 4 drafts",
    );
    is(step(&[" a", " b"], &[(" c", Corrected)]), "~~a b~~ → c", "0/2", "first draft rejected");
}

#[test]
fn a_draft_that_ended_early_says_why() {
    let unsure = |step: Step| Step { unsure: Some(0.41), ..step };
    let all = "all drafts accepted · unsure: 41 %";
    is(unsure(step(&["A"], &[("A", Exact), (" b", Bonus)])), "A + b", "1/1", all);
    is(unsure(step(&[], &[("A", Plain)])), "A", "–", "no draft · unsure: 41 %");
}

#[test]
fn marks_tell_the_rejected_draft_from_those_behind_it() {
    let row = rows(&log(vec![step(&["A", " b", " c"], &[("A", Exact), (" d", Corrected)])]), 0..1).remove(0);
    let marks: Vec<_> = row.pieces.iter().map(|piece| (piece.text.as_str(), piece.mark)).collect();
    assert_eq!(
        marks,
        [
            ("A", Mark::Token(Exact)),
            (" ", Mark::Between),
            ("b", Mark::Rejected),
            (" c", Mark::Discarded),
            (" → ", Mark::Between),
            ("d", Mark::Token(Corrected)),
        ]
    );
}

#[test]
fn what_the_grammar_forces_is_not_counted() {
    let drafts = ["{", "\"a", "\": ", "1", "2"];
    let some =
        step(&drafts, &[("{", Forced), ("\"a", Forced), ("\": ", Forced), ("1", Exact), ("}", Corrected)]);
    let forced = vec![0, 1, 2];
    is(Step { forced, ..some }, "{\"a\": 1 ~~2~~ → }", "1/2", "rejected after 1 of 2 drafts");
    let all = step(&drafts[..2], &[("{", Forced), ("\"a", Forced), ("\"", Bonus)]);
    let reason = "no draft: the grammar leaves no choice";
    is(Step { forced: vec![0, 1], ..all }, "{\"a + \"", "–", reason);
}

#[test]
fn steps_without_a_reject() {
    is(
        step(&["A", " red"], &[("A", Exact), (" red", Exact), (" ball", Bonus)]),
        "A red + ball",
        "2/2",
        "all drafts accepted",
    );
    // The parallel schedule has no token of the target's own after a full accept.
    is(step(&["A", " red"], &[("A", Exact), (" red", Exact)]), "A red", "2/2", "all drafts accepted");
    is(step(&[], &[(" ball", Plain)]), "ball", "–", "no draft");
    let gated = Step { gate: Some(0.25), ..step(&[], &[(" ball", Plain)]) };
    is(gated, "ball", "–", "no draft: the target's attention peaks on one visual token (0.250)");
    is(step(&[" .", "<end>"], &[(" .", Exact)]), ". <end>", "1/2", "end of the caption");
}

#[test]
fn a_change_of_the_drafter_is_named() {
    let switched = Switched { to: "prompt lookup".into(), ..Switched::default() };
    let other =
        Step { switched: Some(Box::new(switched)), ..step(&["A"], &[("A", Exact), (" ball", Bonus)]) };
    is(other, "A + ball", "1/1", "all drafts accepted · from here on drafted by: prompt lookup");
}

#[test]
fn loosened_tokens_name_what_the_target_wanted() {
    let mut loose = step(&["A", " disc", " and"], &[("A", Exact), (" disc", Loosened), (".", Corrected)]);
    loose.tokens[1].target_text = Some(" ball".into());
    is(loose, "A disc ~~and~~ → .", "2/3", "rejected after 2 of 3 drafts · loosened “disc” for “ball”");
}

#[test]
fn a_tree_shows_the_accepted_branch_and_the_alternatives_where_it_ends() {
    is(
        tree(&[0], &[("The", Exact), (" scene", Corrected)]),
        "The ~~video|clip~~ → scene",
        "1/5",
        "3 of 3 leaves rejected",
    );
    is(
        tree(&[0, 3], &[("The", Exact), (" clip", Exact), (" shows", Bonus)]),
        "The clip + shows",
        "2/5",
        "2 of 3 leaves rejected",
    );
    is(tree(&[], &[("In", Corrected)]), "~~The|A~~ → In", "0/5", "3 of 3 leaves rejected");
}

#[test]
fn drafts_without_recorded_text_are_still_struck() {
    let mut old = step(&["a", "b"], &[("c", Corrected)]);
    old.drafted_text.clear();
    is(old, "~~…~~ → c", "0/2", "first draft rejected");
}

#[test]
fn foreign_text_stays_on_its_line() {
    is(
        step(&["a\n", "\u{1b}[2Jb"], &[("a\n", Exact), ("", Corrected)]),
        "a⏎ ~~b~~ → ·bytes·",
        "1/2",
        "rejected after 1 of 2 drafts",
    );
}

#[test]
fn rows_know_their_tokens() {
    let log = log(vec![
        step(&["A", " b"], &[("A", Exact), (" c", Corrected)]),
        step(&[" x"], &[]),
        step(&[" d"], &[(" d", Exact), (" e", Bonus)]),
        step(&[" f"], &[(" f", Loosened)]),
    ]);
    let tokens: Vec<_> = rows(&log, 1..9).into_iter().map(|row| (row.number, row.tokens)).collect();
    assert_eq!(tokens, [(2, 2..2), (3, 2..4), (4, 4..5)]);
    assert_eq!([0, 1, 2, 4, 5].map(|token| step_of(&log, token)), [Some(0), Some(0), Some(2), Some(3), None]);
    assert_eq!([0, 1, 2, 3, 4].map(|step| token_of(&log, step)), [Some(1), None, Some(2), Some(4), None]);
    assert_eq!(
        [None, Some(1), Some(4)].map(|token| next_notable(&log, token)),
        [Some(1), Some(4), None],
        "corrected and loosened tokens"
    );
    assert_eq!([0, 1, 4].map(|token| previous_notable(&log, token)), [None, None, Some(1)]);
}

#[test]
fn a_cut_row_keeps_the_target_s_token_and_fits() {
    let long = step(
        &["A", " small", " green", " 日本", " falls", " down", " slowly"],
        &[("A", Exact), (" small", Exact), (" green", Loosened), (" 日本", Exact), (" moves", Corrected)],
    );
    let row = rows(&log(vec![long]), 0..1).remove(0);
    let cut = |columns| plain(&fit(&row.pieces, columns));
    assert_eq!(cut(99), "A small green 日本 ~~falls down slowly~~ → moves");
    assert_eq!(cut(32), "…green 日本 ~~falls down …~~ → moves");
    assert_eq!(cut(8), " → moves");
    for columns in 0..60 {
        let pieces = fit(&row.pieces, columns);
        assert!(width(&pieces) <= columns, "{columns}: {pieces:?}");
        assert!(columns < 8 || plain(&pieces).ends_with(" → moves"), "{columns}: {pieces:?}");
    }
}
