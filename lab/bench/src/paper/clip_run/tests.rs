use super::*;

fn row() -> Row {
    toml::from_str("label = \"row\"").unwrap()
}

fn run() -> ClipRun {
    ClipRun {
        accepted: vec![4, 2, 0, 5],
        drafted: 20,
        emitted: 15,
        decode_ratio: Some(1.5),
        end_to_end_ratio: Some(1.1),
        facts: FactCount { right: 6, wrong: 1, missing: 3, total: 10, extra: 1 },
        plain_right: 8,
        timings: Timings {
            draft_ms: 2.0,
            verify_ms: 5.0,
            other_ms: 1.0,
            relevance_ms: 0.4,
            t1_ms: 0.6,
            td_ms: 0.2,
            ..Timings::default()
        },
        drafter_front_ms: 7.0,
        front_ms: 30.0,
        ..ClipRun::default()
    }
}

fn value(measure: Measure, row: &Row, run: &ClipRun) -> Option<f64> {
    measure.of(row, None, &[vec![run], Vec::new()]).map(|figure| (figure.value * 1e6).round() / 1e6)
}

#[test]
fn every_figure_comes_from_a_run() {
    for (measure, expected) in [
        (Measure::Tau, 2.75),
        (Measure::TauBonus, 3.75),
        (Measure::MeanRun, 3.75),
        (Measure::AcceptedShare, 0.55),
        (Measure::FailureRate, 0.45),
        (Measure::Speedup, 1.5),
        (Measure::EndToEnd, 1.1),
        (Measure::Kept, 0.75),
        (Measure::Precision, 0.75),
        (Measure::CostRatio, 3.0),
        (Measure::RelevanceShare, 0.05),
        (Measure::TargetPrefillMs, 30.0),
        (Measure::TargetDecodeMs, 5.0),
        (Measure::DrafterPrefillMs, 7.0),
        (Measure::DrafterDecodeMs, 2.0),
        (Measure::LatencyMs, 45.0),
    ] {
        assert_eq!(value(measure, &row(), &run()), Some(expected), "{measure:?}");
    }
    assert_eq!(value(Measure::PruningMs, &row(), &run()), None);
}

#[test]
fn steps_are_picked_by_number() {
    let at = |step| Row { step: Some(step), ..row() };
    assert_eq!(value(Measure::Tau, &at(3), &run()), Some(5.0));
    assert_eq!(value(Measure::Tau, &at(4), &run()), None);
    let first = |n| Row { first_steps: Some(n), ..row() };
    assert_eq!(value(Measure::TauBonus, &first(2), &run()), Some(4.0));
    assert_eq!(value(Measure::Tau, &first(2), &run()), Some(3.0));
    assert_eq!(value(Measure::Tau, &first(10), &run()), Some(2.75));
}

#[test]
fn overlapped_runs_count_between_rejects_and_plain_decoding_has_no_drafts() {
    let overlapped: Row = toml::from_str("label = \"row\"\nmethod = \"parallelvlm\"").unwrap();
    let m = |runs: &[ClipRun]| {
        let runs: Vec<Vec<&ClipRun>> = runs.iter().map(|run| vec![run]).collect();
        Measure::MeanRun.of(&overlapped, None, &runs).map(|figure| figure.value)
    };
    let of = |rejects| ClipRun { rejects, ..run() };
    assert_eq!(m(&[of(Some(2))]), Some(5.5));
    // A clip without a reject is longer than its drafts, not as long as a step.
    assert_eq!(m(&[of(Some(2)), of(Some(0))]), Some(11.0));
    assert_eq!(
        (m(&[of(Some(0))]), m(&[of(None)])),
        (None, None),
        "it is not known, and nothing else stands for it"
    );
    assert_eq!(value(Measure::TextShare, &row(), &ClipRun { text_share: Some(0.8), ..run() }), Some(0.8));
    let plain = ClipRun { drafted: 0, accepted: vec![0; 15], ..run() };
    for measure in [Measure::Tau, Measure::TauBonus, Measure::MeanRun, Measure::AcceptedShare] {
        assert_eq!(value(measure, &row(), &plain), None, "{measure:?}");
    }
    assert_eq!(value(Measure::Speedup, &row(), &plain), Some(1.5));
}

#[test]
fn a_run_is_read_back_from_its_line() {
    let line = serde_json::to_string(&run()).unwrap();
    assert_eq!(serde_json::from_str::<ClipRun>(&line).unwrap(), run());
}

#[test]
fn draws_of_a_clip_add_up_and_modelled_time_is_pooled() {
    let tau = |accepted: u32| ClipRun { accepted: vec![accepted; 2], ..run() };
    let (few, many) = (tau(1), tau(4));
    let figure = Measure::Tau.of(&row(), None, &[vec![&few, &many], vec![&few, &few]]).unwrap();
    assert_eq!(figure.value, 1.75);
    let timed = |plain_ms: f64, total_ms: f64| ClipRun {
        modelled: [("gpu".to_owned(), Times { plain_ms, total_ms })].into(),
        ..run()
    };
    // The long clip counts by its time: 220 ms in place of 120, not the mean of 2 and 1.8.
    let (short, long) = (timed(20.0, 10.0), timed(200.0, 110.0));
    let of = |profile| Measure::Modelled.of(&row(), Some(profile), &[vec![&short], vec![&long]]);
    assert!((of("gpu").unwrap().value - 220.0 / 120.0).abs() < 1e-12);
    assert_eq!(of("other"), None);
}
