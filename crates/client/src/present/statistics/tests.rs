use super::*;
use specreel_record::{
    EventKind, Figures,
    testing::{self, done, fed, prompt, run, speedup, started, step},
};

fn cells(row: Row) -> Vec<String> {
    let comparison = Comparison { baseline: "autoregressive".into(), rows: vec![row] };
    let measures = Measures::of_row(&comparison, &comparison.rows[0]);
    COMPARISON.iter().map(|column| (column.cell)(&measures)).collect()
}

fn row(method: &str, state: RowState, figures: Option<Figures>) -> Row {
    Row { method: method.into(), lossless: method != "lvspec", state, runs: vec![], figures, failure: None }
}

fn figures(first_difference: Option<usize>) -> Figures {
    Figures {
        run: 1,
        interval: Some(Interval { low: 1.25, high: 1.33, pairs: 12 }),
        contention: None,
        emitted: 9,
        tokens_per_second: 38.26,
        decode_speedup: Some(1.294),
        end_to_end_speedup: Some(0.5),
        tau: Some(2.0),
        emitted_per_step: Some(3.0),
        loosened_share: Some(0.125),
        equality: Some(Equality { equal: first_difference.is_none(), first_difference }),
    }
}

#[test]
fn a_row_in_words() {
    assert_eq!(
        cells(row("lvspec", RowState::Done, Some(figures(Some(12))))),
        [
            "lvspec",
            "lossy",
            "2.00",
            "3.00",
            "12.5 %",
            "38.3",
            "1.29x (1.25–1.33)",
            "≈ 0.50x",
            "differs at token 13"
        ]
    );
    assert_eq!(cells(row("naive", RowState::Done, Some(figures(None))))[8], "identical");
    assert_eq!(cells(row("autoregressive", RowState::Done, Some(figures(None))))[8], "baseline");
}

#[test]
fn a_row_without_figures_says_why() {
    for (state, word) in [
        (RowState::Waiting, "not run"),
        (RowState::Cancelled, "interrupted"),
        (RowState::Failed, "failed"),
        (RowState::Done, "–"),
    ] {
        let cells = cells(row("naive", state, None));
        assert_eq!((cells[2].as_str(), cells[8].as_str()), ("–", word));
    }
}

#[test]
fn what_is_unknown_of_a_run_is_a_dash() {
    let plain = Measures::of_stats("plain", true, &Stats::default());
    assert_eq!(((TAU.cell)(&plain), (SPEED.cell)(&plain)), ("–".into(), "–".into()));
}

#[test]
fn a_speedup_names_its_baseline() {
    let mut stats = Stats { emitted: 2, judged: 3, tokens_per_second: 20.0, ..Stats::default() };
    stats.timings.verify_ms = 100.0;
    assert_eq!(statistics(&stats)[1], ("speedup", "not measured".into()));
    stats.speedup = Some(speedup(2.0, 10.0));
    let rows = statistics(&stats);
    assert_eq!(
        rows[0],
        (
            "decoding",
            "2 tokens in 0 target passes · 0 of 3 drafts accepted · 0.00 per step (tau 0.00) · 20.0 tokens/s"
                .into()
        )
    );
    assert_eq!(
        rows[1],
        ("speedup", "2.0x (1.9–2.1) decoding · 1x end to end · against plain (12 pairs)".into())
    );
    assert_eq!(rows[2].0, "time");
}

/// Twice as fast, and yet longer from the file on: the same line says why.
#[test]
fn a_speedup_end_to_end_below_one_is_explained() {
    let told = |decode, seen| {
        let speedup = Some(Speedup { end_to_end: 0.8, ..speedup(decode, 10.0) });
        statistics(&Stats { drafter_visual_tokens: seen, speedup, ..Stats::default() })[1].1.clone()
    };
    assert!(
        told(2.0, 9).contains("≈ 0.80x end to end: the drafter also reads the video"),
        "{}",
        told(2.0, 9)
    );
    assert!(told(2.0, 0).contains("end to end: the drafter also reads the prompt"));
    assert!(told(0.8, 9).contains("≈ 0.80x end to end · against"), "decoding itself is slower");
    let comparison = |figures| Comparison {
        baseline: "a".into(),
        rows: vec![row("naive", RowState::Done, Some(figures))],
    };
    let notes = |figures| comparison_notes(&comparison(figures), false).join(" ");
    let short = figures(None);
    assert!(notes(short.clone()).contains("End to end is below 1x where the drafter also reads the video"));
    assert!(!notes(Figures { end_to_end_speedup: Some(1.1), ..short }).contains("End to end is below"));
}

#[test]
fn a_busy_machine_is_named() {
    let told = |contention, of_speedup| {
        let speedup = Some(Speedup { contention: of_speedup, ..speedup(2.0, 10.0) });
        let rows = statistics(&Stats { contention, speedup, ..Stats::default() });
        rows.into_iter().find(|(name, _)| *name == "machine").map(|(_, words)| words)
    };
    assert_eq!((told(None, None), told(Some(0.09), None)), (None, None));
    let words = "busy with other programs: decoding waited 43 % of the time for a processor";
    assert_eq!(
        (told(Some(0.43), None).as_deref(), told(None, Some(0.43)).as_deref()),
        (Some(words), Some(words))
    );
    let mut row = row("naive", RowState::Done, Some(Figures { contention: Some(0.43), ..figures(None) }));
    row.runs = vec![1];
    let comparison = Comparison { baseline: "autoregressive".into(), rows: vec![row] };
    assert!(comparison_notes(&comparison, false).contains(&format!("The machine was {words}.")));
}

#[test]
fn traffic_is_shown_where_there_was_any() {
    let mut stats = Stats { emitted: 2, tokens_per_second: 20.0, ..Stats::default() };
    assert!(statistics(&stats).iter().all(|(name, _)| *name != "gpu"));
    stats.traffic = Some(Traffic { up: 2_000_000, down: 3_000, submissions: 1, dispatches: 40 });
    let row = ("gpu", "2.0 MB sent · 3.0 kB read · 1 submission of 40 kernels".to_owned());
    assert_eq!(statistics(&stats).last(), Some(&row));
}

#[test]
fn an_account_has_what_is_known() {
    let log = run(1, [started(), prompt(None), step(&[("A", Verdict::Exact), (" b", Verdict::Loosened)])]);
    let rows = account(&Pieces::of([&log]));
    let text: Vec<String> = rows.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(
        text[..6],
        [
            "video: v.mp4",
            "models: big with small on cpu, q8_0",
            "input: 4 frames, 4 visual tokens",
            "verdicts: exact 1 · loosened 1",
            "loosened: 50.0 % of the tokens differ from the target's choice",
            "decoding: 2 tokens in 1 target pass · 2 of 2 drafts accepted · 2.00 per step (tau 2.00) · 20.0 tokens/s",
        ]
    );
    assert!(account(&Pieces::default()).is_empty());
}

#[test]
fn notes_say_what_the_figures_are() {
    let finished = |n| fed(RunLog::planned(n, "plain", true), [done("A")]);
    assert_eq!(comparison_notes(&Comparison::of(&[finished(1)], "plain"), false).len(), 1);
    let waiting = RunLog::planned(3, "plain", true);
    let comparison = Comparison::of(&[finished(1), finished(2), waiting.clone()], "plain");
    let all = comparison_notes(&comparison, true).join(" ");
    for part in ["against plain", "out of 2", "sampling"] {
        assert!(all.contains(part), "{all}");
    }
    let comparison = Comparison::of(&[waiting], "plain");
    assert_eq!(comparison_notes(&comparison, false), ["No speedups: plain did not finish."]);
}

#[test]
fn ties_say_how_close_the_tokens_are() {
    let near = Tie { at: 3, plain: " red".into(), other: " blue".into(), gap: -0.03125, near: true };
    assert_eq!(tie(&near), "a near-tie: \" red\" and \" blue\" are 0.031 nats apart");
    assert!(tie(&Tie { near: false, ..near }).starts_with("not a near-tie, please report this"));
}

#[test]
fn a_verification_says_whether_a_difference_was_to_be_expected() {
    use Promise::{Distribution, Nothing, Tokens};
    let plain = [1, 2, 3];
    let says = |ids: &[u32], promises, gap, near, words: &str| {
        let EventKind::Verified(mut found) = testing::verified(ids, &plain) else { panic!() };
        found.promises = promises;
        if let Some(tie) = &mut found.difference {
            (tie.gap, tie.near) = (gap, near);
        }
        assert_eq!(verification(&found), words, "{ids:?}");
    };
    let identical = "identical, 3 of 3 tokens";
    says(&plain, Tokens, 0.0, false, identical);
    let unpromised = format!("{identical}; the method is lossy and does not promise this");
    says(&plain, Nothing, 0.0, false, &unpromised);

    let differs = |margin: &str, why: &str| {
        let place = "differs at token 2 of 3: \" blue\", autoregressive decoding has \" red\"";
        format!("{place}; the target's margin is {margin} nats; {why}")
    };
    let lossy = "expected: the method is lossy";
    says(&[1, 9, 3], Nothing, 0.25, false, &differs("0.250", lossy));
    let report = "please report this: the method is lossless";
    says(&[1, 9, 3], Tokens, 0.25, false, &differs("0.250", report));
    let rounds = "expected: this device rounds passes of several rows differently";
    says(&[1, 9, 3], Tokens, 0.001, true, &differs("0.001", rounds));
    let by_chance = "differs at token 1 of 1: \" blue\", autoregressive decoding has \" red\"; \
                     the target finds it more likely by 0.500 nats; \
                     expected: drafts are accepted by chance, which keeps the distribution, not the text";
    says(&[9], Distribution, -0.5, false, by_chance);

    for (ids, place) in [
        (&[][..], "ends after 0 tokens, where autoregressive decoding continues with \" red\""),
        (&[1, 2], "ends after 2 tokens, where autoregressive decoding continues with \" red\""),
        (
            &[1, 2, 3, 4],
            "continues at token 4 with \" blue\", where autoregressive decoding ends with \" red\"",
        ),
    ] {
        let words = format!("{place}; the target's margin is 2.000 nats; {lossy}");
        says(ids, Nothing, 2.0, false, &words);
    }
}

#[test]
fn files_say_that_a_run_was_verified() {
    let log = testing::run(1, [testing::started(), testing::done("A"), testing::verified(&[1], &[1])]);
    let rows = account(&Pieces::of(std::slice::from_ref(&log)));
    assert!(rows.contains(&("verified", "identical, 1 of 1 tokens".into())), "{rows:?}");
}
