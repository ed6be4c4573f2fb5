use std::ops::Range;

use super::*;
use crate::testing::{self, done, ended, failure, prompt, ready, started, step};

fn log(kinds: impl IntoIterator<Item = EventKind>) -> RunLog {
    testing::run(1, kinds)
}

fn chunks(log: &RunLog) -> Vec<(&str, Verdict, Range<usize>)> {
    log.chunks().iter().map(|c| (c.text.as_str(), c.verdict, c.tokens.clone())).collect()
}

#[test]
fn a_character_of_several_tokens_takes_the_least_strict_verdict() {
    use Verdict::*;
    let tokens = [(" ", Plain), (" A", Exact), ("", Shifted), ("", Exact), ("é", Corrected), ("s", Exact)];
    let whole = log([step(&tokens)]);
    assert_eq!(chunks(&whole), [("A", Exact, 1..2), ("é", Shifted, 2..5), ("s", Exact, 5..6)]);
    assert_eq!(whole.chunks()[1].deciding, Some(2));
    // Where the steps are cut makes no difference.
    for cut in 0..=tokens.len() {
        let parts = log([step(&tokens[..cut]), step(&tokens[cut..])]);
        assert_eq!(parts.chunks(), whole.chunks(), "cut at {cut}");
    }
}

#[test]
fn each_event_says_what_it_added() {
    let mut log = RunLog::new(1);
    let event = Event::new(1, step(&[("A", Verdict::Exact), (" b", Verdict::Bonus)]));
    assert_eq!(log.apply(&event).chunks, 0..2);
    assert_eq!(log.apply(&event).chunks, 2..4);
    assert_eq!(log.apply(&Event::new(2, step(&[("x", Verdict::Exact)]))).chunks, 4..4, "another run's event");
    assert_eq!((log.token_count(), log.stats().emitted), (4, 4));
}

#[test]
fn bytes_without_a_character_appear_at_the_end() {
    use Verdict::*;
    let ended = log([
        step(&[("A", Exact), ("", Loosened)]),
        ended(StopReason::Length, " A\u{fffd}", &[], Stats::default()),
    ]);
    assert_eq!(chunks(&ended), [("A", Exact, 0..1), ("\u{fffd}", Loosened, 1..2)]);
    let silent = log([done(" A b")]);
    assert_eq!(chunks(&silent), [("A b", Plain, 0..0)]);
    assert_eq!(silent.chunks()[0].deciding, None);
}

#[test]
fn notes_of_models_and_video_are_kept_once() {
    let mut log = RunLog::new(1);
    assert_eq!(log.apply(&Event::new(0, ready(&["a", "b"]))).notes, 0..2);
    assert_eq!(log.apply(&Event::new(0, ready(&["b", "c"]))).notes, 2..3);
    assert_eq!((log.notes().len(), log.state()), (3, &RunState::Waiting));
}

#[test]
fn nothing_changes_after_the_end() {
    let mut ended = log([ended(StopReason::Cancelled, "", &[], Stats::default())]);
    assert!(!ended.is_finished() && ended.is_over() && ended.failure().is_none());
    ended.apply(&Event::new(1, EventKind::Failed(failure())));
    ended.cut_off();
    assert_eq!(ended.state(), &RunState::Done(StopReason::Cancelled));
    let failed = log([EventKind::Failed(failure())]);
    assert_eq!((failed.failure(), failed.is_finished()), (Some(&failure()), false));
    let mut torn = log([step(&[("A", Verdict::Exact)])]);
    torn.cut_off();
    assert_eq!(torn.state(), &RunState::CutOff);
}

#[test]
fn only_a_finished_run_is_verified() {
    let verified = |log: RunLog| testing::fed(log, [testing::verified(&[1, 2], &[1, 3])]);
    assert_eq!(verified(log([testing::started()])).verification(), None);
    assert_eq!(verified(log([EventKind::Failed(failure())])).verification(), None);
    let log = verified(log([done("A b")]));
    let found = log.verification().unwrap();
    assert_eq!((found.tokens, found.plain_tokens, found.equality.first_difference), (2, 2, Some(1)));
    assert_eq!(log.stats().equality.as_ref(), Some(&found.equality), "tables agree");
    let json = serde_json::to_string(&Event::new(1, testing::verified(&[1, 2], &[1, 3]))).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&json).unwrap().kind, testing::verified(&[1, 2], &[1, 3]));
}

#[test]
fn nearest_visual_tokens_of_a_steps_last_token_come_with_the_next_step() {
    let EventKind::Step(mut first) = step(&[("A", Verdict::Exact), ("b", Verdict::Corrected)]) else {
        panic!()
    };
    first.tokens[0].nearest_visual = vec![(4, 0.5)];
    let mut second = first.clone();
    second.root_nearest_visual = vec![(7, 0.9)];
    let log = log([EventKind::Step(first), EventKind::Step(second)]);
    assert_eq!((log.nearest_visual(0), log.nearest_visual(1)), (&[(4, 0.5)][..], &[(7, 0.9)][..]));
    assert!(log.nearest_visual(3).is_empty() && log.nearest_visual(99).is_empty());
    assert_eq!((log.token(3).unwrap().at, log.token(4).is_none()), (1, true));
}

#[test]
fn a_log_of_run_0_follows_the_next_run() {
    let mut log = RunLog::new(0);
    log.apply(&Event::new(0, ready(&["a"])));
    log.apply(&Event::new(7, testing::started()));
    log.apply(&Event::new(8, done("other")));
    assert_eq!((log.run(), log.state(), log.notes().len()), (7, &RunState::Running, 1));
}

#[test]
fn a_planned_run_keeps_its_name() {
    let planned = testing::fed(RunLog::planned(1, "mine", true), [testing::started()]);
    assert_eq!((planned.name(), planned.is_lossless()), ("mine", false));
    assert_eq!(
        (log([testing::started()]).name(), RunLog::planned(1, "mine", false).is_lossless()),
        ("lvspec", false)
    );
    assert_eq!(planned.started().unwrap().models(), "big with small on cpu, q8_0");
}

#[test]
fn thoughts_are_no_part_of_the_caption() {
    let EventKind::Step(mut first) = step(&[
        (" The", Verdict::Exact),
        (" video", Verdict::Exact),
        ("</think>", Verdict::Corrected),
        ("\n\n", Verdict::Bonus),
    ]) else {
        panic!()
    };
    first.tokens[..3].iter_mut().for_each(|token| token.thinking = true);
    let second = step(&[(" A", Verdict::Exact), (" ball", Verdict::Exact)]);
    let whole = log([testing::started(), EventKind::Step(first), second, done("A ball.")]);
    let thought: Vec<&str> = whole.thinking().iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(thought, ["The", " video", "</think>"]);
    assert_eq!((whole.shown().as_str(), whole.text()), ("A ball.", "A ball."));
    // Numbers of tokens count them all.
    assert_eq!((whole.token_count(), whole.thinking()[2].tokens.clone()), (6, 2..3));
    assert_eq!(whole.chunks()[0].tokens, 4..5);
    let half = whole.rewound(1);
    assert_eq!((half.thinking(), half.shown().as_str()), (whole.thinking(), ""));
    // Saved runs without the mark read as before.
    let token = serde_json::json!({"id": 1, "text": "a", "verdict": "exact", "target_id": 1});
    assert!(!serde_json::from_value::<Token>(token.clone()).unwrap().thinking);
    assert_eq!(serde_json::to_value(Token::new(1, "a", Verdict::Exact)).unwrap(), token);
}

#[test]
fn a_caption_that_a_stop_text_ended_ends_before_it() {
    use Verdict::*;
    let steps = || [step(&[(" A", Exact), (" red", Exact)]), step(&[(" ba", Exact), ("ll", Corrected)])];
    let text = |log: &RunLog| log.chunks().iter().map(|chunk| chunk.text.clone()).collect::<Vec<_>>();
    for (caption, left) in [
        (" A red b", &["A", " red", " b"][..]),
        (" A red", &["A", " red"]),
        (" A", &["A"]),
        ("", &[]),
        // Not what the tokens wrote: nothing is known of where it ends.
        ("Other", &["A", " red", " ba", "ll"]),
    ] {
        let end = ended(StopReason::Stop, caption, &[1, 2, 3, 4], Stats::default());
        let log = log(steps().into_iter().chain([end]));
        assert_eq!(text(&log), left, "{caption}");
        assert!(log.is_finished() && log.token_count() == 4);
    }
    // What is gone was not added.
    let mut log = log(steps());
    let end = Event::new(1, ended(StopReason::Stop, " A", &[], Stats::default()));
    assert_eq!(log.apply(&end).chunks, 1..1);
}

#[test]
fn a_withdrawn_text_is_forgotten_and_told() {
    let retry = EventKind::Retry {
        tokens: 1,
        sampling: Box::new(serde_json::json!({"dry_multiplier": 0.8})),
        note: "again".into(),
    };
    let log = log([
        started(),
        prompt(None),
        step(&[(" no", Verdict::Exact)]),
        retry,
        step(&[(" yes", Verdict::Exact)]),
        done(" yes"),
    ]);
    let fresh = self::log([started(), prompt(None), step(&[(" yes", Verdict::Exact)]), done(" yes")]);
    assert_eq!((log.shown(), log.steps(), log.stats()), (fresh.shown(), fresh.steps(), fresh.stats()));
    assert_eq!(log.notes(), ["again"]);
    assert_eq!(log.started().unwrap().sampling.as_deref().unwrap()["dry_multiplier"], 0.8);
}

#[test]
fn what_is_beyond_a_stop_text_is_never_shown() {
    let EventKind::Step(mut last) = step(&[(" red", Verdict::Exact), (" circle", Verdict::Bonus)]) else {
        panic!()
    };
    last.beyond_stop = 9;
    let log = log([started(), step(&[(" A", Verdict::Exact)]), EventKind::Step(last)]);
    assert_eq!(log.shown(), "A r");
    assert_eq!(log.tokens().count(), 3, "its tokens are there");
}
