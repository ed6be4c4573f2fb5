use super::*;
use crate::Pair;
use specreel_record::{
    StopReason, Timings, VerdictCounts,
    stats::{Equality, Tie},
};

/// A trial of this speedup over the baseline.
fn paired(trial: Trial, decode_ratio: f64) -> Trial {
    Trial { pair: Some(Pair { decode_ratio, end_to_end_ratio: decode_ratio / 2.0 }), ..trial }
}

/// A trial with so many right facts of ten.
fn trial(clip: u64, system: &str, right: usize, stats: Stats) -> Trial {
    let facts = FactCount { right, wrong: 10 - right, missing: 0, total: 10, extra: 0 };
    let (reason, text) = (StopReason::Eos, String::new());
    Trial {
        clip,
        system: system.into(),
        reason,
        text,
        facts,
        front_ms: 5.0,
        drafter_front_ms: 1.0,
        stats,
        pair: None,
        modelled: None,
    }
}

fn counts(verdicts: &[(Verdict, usize)]) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    for (verdict, n) in verdicts {
        (0..*n).for_each(|_| counts.add(*verdict));
    }
    counts
}

#[test]
fn counts_are_added_and_ratios_are_medians() {
    let stats = |steps, accepted, emitted, decode| Stats {
        steps,
        accepted,
        emitted,
        tokens_per_second: 100.0 * decode,
        ..Stats::default()
    };
    let trial = |clip, system, stats: Stats| {
        let ratio = stats.tokens_per_second / 100.0;
        paired(trial(clip, system, 10, stats), ratio)
    };
    let mut trials = vec![
        trial(1, "fast", stats(1, 9, 10, 1.0)),
        trial(2, "fast", stats(9, 9, 18, 9.0)),
        trial(3, "fast", stats(10, 2, 12, 2.0)),
        trial(1, "other", stats(100, 0, 100, 0.1)),
    ];
    let row = Summary::of("fast", "plain", &trials).unwrap();
    assert_eq!((row.clips, row.tau, row.emitted_per_step), (3, 1.0, 2.0));
    assert_eq!(
        (row.decode, row.end_to_end, row.tokens_per_second),
        (None, None, 200.0),
        "three pairs are too few"
    );
    trials.extend((4..8).map(|clip| trial(clip, "fast", stats(1, 1, 1, 2.0))));
    let row = Summary::of("fast", "plain", &trials).unwrap();
    assert_eq!(
        (row.decode, row.interval.map(|interval| interval.pairs), row.end_to_end),
        (Some(2.0), Some(7), Some(1.0))
    );
    assert_eq!((row.times.front_ms, row.times.drafter_front_ms), (5.0, 1.0));
    assert_eq!(Summary::of("absent", "plain", &trials), None);
}

#[test]
fn facts_are_kept_against_the_baseline_on_the_same_clips() {
    let plain = |clip, right| trial(clip, "plain", right, Stats::default());
    let loose = |clip, right| trial(clip, "loose", right, Stats::default());
    // The third clip was not reached by `loose`, so it does not count against it.
    let trials = [plain(1, 8), loose(1, 6), plain(2, 2), loose(2, 2), plain(3, 10)];
    let row = Summary::of("loose", "plain", &trials).unwrap();
    assert_eq!((row.retention, row.facts_share), (Some(0.8), 0.4));
    assert_eq!(Summary::of("plain", "plain", &trials).unwrap().retention, Some(1.0));
    assert_eq!(Summary::of("loose", "nobody", &trials).unwrap().retention, None);
}

#[test]
fn precision_counts_what_is_false_where_kept_counts_what_is_missing() {
    let facts = |clip, system, [right, wrong, missing, extra]: [usize; 4]| {
        let facts = FactCount { right, wrong, missing, total: right + wrong + missing, extra };
        Trial { facts, ..trial(clip, system, 0, Stats::default()) }
    };
    // Both keep half of the facts: one leaves the others out, one states them otherwise and adds figures.
    let trials = [
        facts(1, "plain", [8, 0, 0, 0]),
        facts(2, "plain", [8, 0, 0, 0]),
        facts(1, "short", [4, 0, 4, 0]),
        facts(2, "short", [4, 0, 4, 0]),
        facts(1, "wrong", [4, 4, 0, 1]),
        facts(2, "wrong", [4, 4, 0, 7]),
        facts(1, "silent", [0, 0, 8, 0]),
    ];
    let row = |name| Summary::of(name, "plain", &trials).unwrap();
    assert_eq!((row("short").retention, row("wrong").retention), (Some(0.5), Some(0.5)));
    assert_eq!((row("short").precision, row("short").false_per_caption), (Some(1.0), 0.0));
    assert_eq!((row("wrong").precision, row("wrong").false_per_caption), (Some(8.0 / 24.0), 8.0));
    assert_eq!((row("silent").precision, row("silent").facts_share), (None, 0.0));
    assert_eq!(row("wrong").spread, None, "two clips are too few");
}

#[test]
fn intervals_hold_their_figures_and_those_of_the_baseline_have_no_width() {
    let stats = |clip: u64| Stats { steps: 10, accepted: 20 + clip % 5, ..Stats::default() };
    let right = |clip: u64| 4 + (clip % 4) as usize;
    let trials: Vec<Trial> = (0..30)
        .flat_map(|clip| {
            let plain = Stats { steps: 10, ..Stats::default() };
            let loose = trial(clip, "loose", right(clip), stats(clip));
            [paired(trial(clip, "plain", 8, plain), 1.0), paired(loose, 1.0 + clip as f64 / 100.0)]
        })
        .collect();
    let row = Summary::of("loose", "plain", &trials).unwrap();
    let spread = row.spread.clone().unwrap();
    for (figure, interval) in [
        (row.facts_share, spread.facts_share),
        (row.retention.unwrap(), spread.retention),
        (row.precision.unwrap(), spread.precision),
        (row.false_per_caption, spread.false_per_caption),
        (row.tau, spread.tau),
        (row.decode.unwrap(), spread.decode),
        (row.end_to_end.unwrap(), spread.end_to_end),
    ] {
        let [low, high] = interval.unwrap();
        assert!(low < figure && figure < high, "{low} {figure} {high}");
    }
    // The same interval as the one that the figure is printed with.
    let known = row.interval.unwrap();
    assert_eq!(spread.decode, Some([known.low, known.high]));
    let plain = Summary::of("plain", "plain", &trials).unwrap().spread.unwrap();
    assert_eq!((plain.retention, plain.tau, plain.decode), (Some([1.0; 2]), Some([0.0; 2]), Some([1.0; 2])));
    // Without a baseline nothing is kept.
    let alone = Summary::of("loose", "nobody", &trials).unwrap().spread.unwrap();
    assert_eq!((alone.retention, alone.facts_share), (None, spread.facts_share));
}

#[test]
fn summaries_of_earlier_versions_have_neither_precision_nor_intervals() {
    let trials = [trial(1, "a", 5, Stats::default())];
    let mut json = serde_json::to_value(Summary::of("a", "a", &trials).unwrap()).unwrap();
    let fields = json.as_object_mut().unwrap();
    assert!(fields.remove("precision").is_some() && fields.remove("false_per_caption").is_some());
    let read: Summary = serde_json::from_value(json).unwrap();
    assert_eq!((read.precision, read.spread, read.facts_share), (None, None, 0.5));
}

#[test]
fn loosened_shares_are_of_all_tokens_and_by_verdict() {
    let stats = |verdicts: &[(Verdict, usize)]| {
        let verdicts = counts(verdicts);
        Stats { emitted: verdicts.total(), verdicts, ..Stats::default() }
    };
    let trials = [
        trial(1, "loose", 1, stats(&[(Verdict::Exact, 5), (Verdict::Loosened, 1)])),
        trial(2, "loose", 1, stats(&[(Verdict::Bonus, 2), (Verdict::Shifted, 2)])),
    ];
    let row = Summary::of("loose", "plain", &trials).unwrap();
    let shares: Vec<(Verdict, f64)> = row.loosened.into_iter().collect();
    assert_eq!(shares, [(Verdict::Loosened, 0.1), (Verdict::Shifted, 0.2)]);
    assert!((row.loosened_share - 0.3).abs() < 1e-12);
}

#[test]
fn the_earliest_difference_of_all_clips_is_told() {
    let stats = |first_difference: Option<usize>| Stats {
        equality: Some(Equality { equal: first_difference.is_none(), first_difference }),
        ..Stats::default()
    };
    let trials = [
        trial(1, "loose", 1, stats(Some(7))),
        trial(2, "loose", 1, stats(None)),
        trial(3, "loose", 1, stats(Some(3))),
        trial(4, "loose", 1, Stats::default()),
    ];
    let row = Summary::of("loose", "plain", &trials).unwrap();
    assert_eq!((row.equal, row.compared, row.first_difference), (1, 3, Some(3)));
}

#[test]
fn ties_are_counted_with_the_widest() {
    let stats =
        |gap: f32, near: bool| Stats { tie: Some(Tie { gap, near, ..Tie::default() }), ..Stats::default() };
    let trials = [
        trial(1, "fast", 1, stats(-0.25, true)),
        trial(2, "fast", 1, stats(0.125, true)),
        trial(3, "fast", 1, stats(3.0, false)),
    ];
    let ties = Summary::of("fast", "plain", &trials).unwrap().ties;
    assert_eq!(ties, Some(Ties { near: 2, far: 1, widest: 3.0 }));
    let none = Summary::of("fast", "plain", &[trial(1, "fast", 1, Stats::default())]).unwrap();
    assert_eq!(none.ties, None);
}

#[test]
fn times_that_were_not_measured_do_not_count() {
    let stats = |t1_ms, td_ms| Stats {
        timings: Timings { t1_ms, td_ms, draft_ms: t1_ms, ..Timings::default() },
        ..Stats::default()
    };
    let trials = [trial(1, "a", 1, stats(0.0, 0.0)), trial(2, "a", 1, stats(4.0, 0.0))];
    let times = Summary::of("a", "plain", &trials).unwrap().times;
    assert_eq!((times.t1_ms, times.td_ms, times.draft_ms), (Some(4.0), None, 2.0));
}
