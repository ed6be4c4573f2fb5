use super::*;
use crate::cli::output::progress::Progress;
use specreel_client::fake::{self, FakeEngine, done, failed};
use specreel_record::{EventKind, FailureClass, RunState};

struct Played {
    ending: Result<Ending, End>,
    runs: Vec<RunLog>,
    sent: Vec<u64>,
}

/// Two passes over three methods; a run that is answered with nothing makes the engine stop.
fn play(answer: fn(u64) -> Vec<EventKind>, interrupt: &Interrupt) -> Played {
    let (engine, mut client) = FakeEngine::answering(move |request| answer(request.run));
    let requests: Vec<RunRequest> = (1..)
        .zip(["autoregressive", "naive", "lvspec"].repeat(2))
        .map(|(run, name)| {
            if answer(run).is_empty() {
                engine.stop_at(run);
            }
            fake::request(run, name)
        })
        .collect();
    let mut runs: Vec<RunLog> =
        requests.iter().map(|r| RunLog::planned(r.run, &r.method.name, true)).collect();
    let mut reporter = Reporter {
        out: Some(std::io::sink()),
        talk: None::<std::io::Sink>,
        progress: Progress::new(false),
        session: None,
        limit: 8,
        noted: Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let grace = Duration::from_millis(20);
    let ending = runtime.block_on(all(&mut client, requests, &mut runs, &mut reporter, interrupt, grace));
    let sent = engine.requests().iter().map(|request| request.run).collect();
    Played { ending, runs, sent }
}

fn whole(_: u64) -> Vec<EventKind> {
    vec![done(StopReason::Eos, "A disc")]
}

#[test]
fn a_failure_costs_only_its_own_method() {
    let answer = |run| if run == 2 { vec![failed(FailureClass::Memory, "too large")] } else { whole(run) };
    let played = play(answer, &Interrupt::default());
    assert_eq!(played.ending.unwrap(), Ending::Whole);
    assert_eq!(played.sent, [1, 2, 3, 4, 6], "a method that failed is not tried again");
    let states: Vec<bool> = played.runs.iter().map(RunLog::is_finished).collect();
    assert_eq!(states, [true, false, true, true, false, true]);
    assert_eq!(played.runs[1].failure().map(|f| f.error.as_str()), Some("too large"));
}

#[test]
fn a_cancelled_run_ends_the_comparison_and_keeps_the_runs_before() {
    let answer = |run| vec![done(if run == 3 { StopReason::Cancelled } else { StopReason::Eos }, "A disc")];
    let played = play(answer, &Interrupt::default());
    assert_eq!(played.ending.unwrap(), Ending::Interrupted);
    assert_eq!(played.sent, [1, 2, 3]);
    assert!(played.runs[1].is_finished() && *played.runs[3].state() == RunState::Waiting);
}

#[test]
fn an_interrupt_between_runs_starts_no_other() {
    let interrupt = Interrupt::default();
    interrupt.ask();
    let played = play(whole, &interrupt);
    assert_eq!(played.ending.unwrap(), Ending::Interrupted);
    assert!(played.sent.is_empty());
}

#[test]
fn an_engine_that_stops_leaves_the_finished_runs() {
    let played = play(|run| if run < 3 { whole(run) } else { Vec::new() }, &Interrupt::default());
    assert!(matches!(played.ending, Ok(Ending::Broken(f)) if f.class == FailureClass::Internal));
    assert!(played.runs[0].is_finished() && played.runs[1].is_finished());
}
