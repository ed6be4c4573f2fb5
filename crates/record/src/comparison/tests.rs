use super::*;
use crate::{
    EventKind, Speedup, Started, Stats, Timings,
    testing::{about, ended, failure, fed, speedup, started_plain},
};

/// A run that ends with these tokens after so many milliseconds.
fn run(run: u64, method: &str, ids: &[u32], ms: f64, reason: StopReason) -> RunLog {
    let emitted = ids.len() as u64;
    let stats = Stats {
        emitted,
        tau: 2.0,
        emitted_per_step: 3.0,
        tokens_per_second: emitted as f64 * 1000.0 / ms,
        timings: Timings { verify_ms: ms, ..Timings::default() },
        ..Stats::default()
    };
    let begin = match method {
        "plain" => started_plain(),
        _ => EventKind::Started(Started { lossless: method != "lvspec", ..about() }),
    };
    fed(RunLog::planned(run, method, true), [begin, ended(reason, "", ids, stats)])
}

fn finished(number: u64, method: &str, ids: &[u32], ms: f64) -> RunLog {
    run(number, method, ids, ms, StopReason::Eos)
}

fn failed(run: u64, method: &str) -> RunLog {
    fed(RunLog::planned(run, method, true), [EventKind::Failed(failure())])
}

#[test]
fn a_row_has_its_figures_against_the_measured_baseline() {
    let mut plain = finished(1, "plain", &[1, 2, 3, 4], 40.0);
    plain.stats_mut().timings.prefill_target_ms = 60.0;
    let mut loose = finished(2, "lvspec", &[1, 2, 9, 4], 20.0);
    loose.stats_mut().timings.prefill_drafter_ms = 20.0;
    let comparison = Comparison::of(&[plain, loose], "plain");
    assert_eq!(comparison.baseline, "plain");
    let [plain, loose] = &comparison.rows[..] else { panic!("{comparison:?}") };
    let figures = plain.figures.as_ref().unwrap();
    assert_eq!((figures.decode_speedup, figures.end_to_end_speedup), (Some(1.0), Some(1.0)));
    assert_eq!((figures.tau, &figures.equality), (None, &None));
    let figures = loose.figures.as_ref().unwrap();
    assert_eq!(figures.tokens_per_second, 200.0);
    assert_eq!(
        (figures.decode_speedup, figures.interval, figures.end_to_end_speedup),
        (None, None, None),
        "one run each"
    );
    assert_eq!((figures.tau, figures.emitted_per_step), (Some(2.0), Some(3.0)));
    assert_eq!(figures.equality, Some(Equality { equal: false, first_difference: Some(2) }));
    assert!(plain.lossless && !loose.lossless);
}

/// The single runs say 100 and 200 tokens per second. Measured in pairs, the baseline has 80 and the method 1.5 times as many.
#[test]
fn speeds_come_from_the_same_measurement_as_the_speedup() {
    let mut plain = finished(1, "plain", &[1, 2, 3, 4], 40.0);
    plain.stats_mut().timings.prefill_target_ms = 60.0;
    let mut fast = finished(2, "naive", &[1, 2, 3, 4], 20.0);
    fast.stats_mut().timings.prefill_drafter_ms = 20.0;
    fast.stats_mut().speedup = Some(Speedup { contention: Some(0.4), ..speedup(1.5, 80.0) });
    let comparison = Comparison::of(&[plain, fast], "plain");
    let figures: Vec<&Figures> = comparison.rows.iter().map(|row| row.figures.as_ref().unwrap()).collect();
    assert_eq!([0, 1].map(|at| figures[at].tokens_per_second), [80.0, 120.0]);
    assert_eq!([0, 1].map(|at| figures[at].decode_speedup), [Some(1.0), Some(1.5)]);
    let (plain_ms, own_ms) = (50.0, 4.0 * 1000.0 / 120.0);
    let end_to_end = figures[1].end_to_end_speedup.unwrap();
    assert!((end_to_end - (60.0 + plain_ms) / (60.0 + 20.0 + own_ms)).abs() < 1e-9, "{end_to_end}");
    assert_eq!(figures[1].contention, Some(0.4));
}

/// `auto` found a drafter only in its second run. All figures of the row come from the measured run.
#[test]
fn a_row_never_mixes_runs() {
    let plain = finished(1, "plain", &[1, 2, 3, 4], 40.0);
    let mut runs =
        vec![plain, finished(2, "auto", &[1, 2, 3, 4], 39.0), finished(3, "auto", &[1, 2, 3, 4], 20.0)];
    runs[1].stats_mut().tau = 0.1;
    runs[2].stats_mut().speedup = Some(speedup(1.5, 80.0));
    let figures = |runs: &[RunLog]| Comparison::of(runs, "plain").rows[1].figures.clone().unwrap();
    let Figures { run, tau, decode_speedup, .. } = figures(&runs);
    assert_eq!((run, tau, decode_speedup), (3, Some(2.0), Some(1.5)));
    runs[2].stats_mut().speedup = None;
    let Figures { run, tau, decode_speedup, .. } = figures(&runs);
    assert_eq!(
        (run, tau, decode_speedup),
        (2, Some(0.1), None),
        "the slower of the two, without a measurement"
    );
}

/// Six runs each are also pairs, and limited by the counts: 4 tokens and the end token in 4 passes.
#[test]
fn repeated_runs_are_pairs_within_the_limits() {
    let mut runs: Vec<RunLog> = Vec::new();
    for pair in 0..6 {
        let mut fast = finished(2 * pair + 2, "naive", &[1, 2, 3, 4], 30.0);
        (fast.stats_mut().steps, fast.stats_mut().judged, fast.stats_mut().accepted) = (4, 4, 1);
        runs.extend([finished(2 * pair + 1, "plain", &[1, 2, 3, 4], 40.0), fast]);
    }
    let decode = |runs: &[RunLog]| {
        let figures = Comparison::of(runs, "plain").rows[1].figures.clone().unwrap();
        (figures.decode_speedup, figures.interval.map(|interval| interval.pairs))
    };
    // 40 / 30 is more than 5 / 4.
    assert_eq!(decode(&runs), (None, None));
    runs.iter_mut().filter(|run| run.name() == "naive").for_each(|run| run.stats_mut().steps = 3);
    let (ratio, pairs) = decode(&runs);
    assert!(ratio.is_some_and(|ratio| (ratio - 40.0 / 30.0).abs() < 1e-9) && pairs == Some(6), "{ratio:?}");
    assert_eq!(decode(&runs[..10]), (None, None), "too few");
}

#[test]
fn a_row_has_the_figures_of_the_run_of_median_speed() {
    let speeds = [30.0, 10.0, 20.0];
    let runs: Vec<RunLog> = (1..).zip(speeds).map(|(run, ms)| finished(run, "plain", &[1, 2], ms)).collect();
    let comparison = Comparison::of(&runs, "plain");
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(comparison.rows[0].runs, [1, 2, 3]);
    assert_eq!(comparison.rows[0].figures.as_ref().unwrap().run, 3);
    assert_eq!(comparison.run(&comparison.rows[0], &runs).unwrap().run(), 3);
    let comparison = Comparison::of(&runs[..2], "plain");
    assert_eq!(comparison.rows[0].figures.as_ref().unwrap().run, 1, "the slower of two");
}

#[test]
fn a_failed_method_keeps_its_place_and_its_reason() {
    let runs = [finished(1, "plain", &[1], 10.0), failed(2, "naive"), finished(3, "lvspec", &[1], 5.0)];
    let comparison = Comparison::of(&runs, "plain");
    let names: Vec<&str> = comparison.rows.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(names, ["plain", "naive", "lvspec"]);
    assert_eq!(comparison.rows[1].state, RowState::Failed);
    assert_eq!(comparison.rows[1].failure.as_ref().unwrap().error, "too large");
    assert!(comparison.rows[1].figures.is_none() && comparison.rows[2].figures.is_some());
}

#[test]
fn a_cancelled_or_waiting_method_has_no_figures() {
    let cancelled = run(2, "naive", &[1], 10.0, StopReason::Cancelled);
    let runs = [finished(1, "plain", &[1], 10.0), cancelled, RunLog::planned(3, "lvspec", false)];
    let comparison = Comparison::of(&runs, "plain");
    let states: Vec<RowState> = comparison.rows.iter().map(|row| row.state).collect();
    assert_eq!(states, [RowState::Done, RowState::Cancelled, RowState::Waiting]);
    assert!(comparison.rows[1].figures.is_none());
    // Cancelled in its second run, a method has the figures of its first.
    let later = run(4, "plain", &[1], 10.0, StopReason::Cancelled);
    let comparison = Comparison::of(&[runs[0].clone(), later], "plain");
    assert_eq!((comparison.rows[0].state, &comparison.rows[0].runs[..]), (RowState::Done, &[1][..]));
}

#[test]
fn without_a_baseline_there_are_no_speedups() {
    let runs = [failed(1, "plain"), finished(2, "naive", &[1, 2], 10.0)];
    let comparison = Comparison::of(&runs, "plain");
    let figures = comparison.rows[1].figures.as_ref().unwrap();
    assert_eq!((figures.decode_speedup, figures.end_to_end_speedup, &figures.equality), (None, None, &None));
    assert!(comparison.has_figures() && !Comparison::of(&runs[..1], "plain").has_figures());
}

#[test]
fn the_figures_of_a_row_are_flat_json() {
    let runs = [finished(1, "plain", &[1], 10.0), failed(2, "naive")];
    let json = serde_json::to_value(Comparison::of(&runs, "plain")).unwrap();
    assert_eq!(json["rows"][0]["tokens_per_second"], 100.0);
    assert_eq!((&json["rows"][0]["state"], &json["rows"][1]["state"]), (&"done".into(), &"failed".into()));
    assert_eq!(json["rows"][1]["failure"]["class"], "memory");
    assert!(json["rows"][1].get("tokens_per_second").is_none());
}
