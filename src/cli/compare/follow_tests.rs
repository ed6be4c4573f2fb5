use std::sync::Mutex;

use super::*;
use crate::{
    cli::progress::Progress,
    record::{FailureClass, RunState, Stage},
    speculate::Method,
};

/// Answers every run by a script: a kind for the run, or nothing at all.
struct Scripted {
    answer: fn(u64) -> Option<EventKind>,
    events: Mutex<Option<mpsc::Sender<Event>>>,
    sent: Mutex<Vec<u64>>,
    cancelled: Mutex<Vec<u64>>,
}

impl EnginePort for Scripted {
    fn send(&self, command: Command) -> Result<(), Failure> {
        let Command::Run(request) = command else { panic!("{command:?}") };
        self.sent.lock().unwrap().push(request.run);
        match (self.answer)(request.run) {
            Some(kind) => self.tell(request.run, kind),
            // Gone.
            None => drop(self.events.lock().unwrap().take()),
        }
        Ok(())
    }

    fn cancel(&self, run: u64) {
        self.cancelled.lock().unwrap().push(run);
    }
}

impl Scripted {
    fn tell(&self, run: u64, kind: EventKind) {
        let events = self.events.lock().unwrap();
        events.as_ref().unwrap().try_send(Event::new(run, kind)).unwrap();
    }
}

fn done(reason: StopReason) -> EventKind {
    EventKind::Done { reason, text: "A disc".into(), ids: vec![1], stats: Box::default() }
}

fn failure() -> Failure {
    Failure { class: FailureClass::Memory, error: "too large".into(), hint: None }
}

struct Played {
    ending: Result<Ending, End>,
    runs: Vec<RunRecord>,
    out: String,
    sent: Vec<u64>,
    current: u64,
}

/// Two passes over three methods.
fn play(answer: fn(u64) -> Option<EventKind>, interrupt: &Interrupt) -> Played {
    let (sender, events) = mpsc::channel(64);
    let engine = Scripted {
        answer,
        events: Mutex::new(Some(sender)),
        sent: Mutex::default(),
        cancelled: Mutex::default(),
    };
    let requests: Vec<RunRequest> = (1..)
        .zip(["autoregressive", "naive", "lvspec"].repeat(2))
        .map(|(run, name)| RunRequest {
            span: None,
            segment: None,
            before: Vec::new(),
            run,
            video: "v.mp4".into(),
            prompt: "p".into(),
            method: Method::preset(name).unwrap(),
            sampling: crate::video::Sampling::Auto,
            max_pixels: None,
            max_new_tokens: 8,
            text: Default::default(),
            logprobs: 0,
        })
        .collect();
    let mut runs: Vec<RunRecord> =
        requests.iter().map(|r| RunRecord::new(r.run, &r.method.name, true)).collect();
    let mut out = Vec::new();
    let current = AtomicU64::new(1);
    let reporter = Reporter {
        out: Some(&mut out),
        talk: None::<std::io::Sink>,
        progress: Progress::new(false),
        session: None,
        limit: 8,
        written: 0,
        noted: Vec::new(),
    };
    let grace = Duration::from_millis(20);
    let mut follower = Follower { events, engine: &engine, reporter, interrupt, current: &current, grace };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ending = runtime.block_on(follower.all(requests, &mut runs));
    drop(follower);
    Played {
        ending,
        runs,
        out: String::from_utf8(out).unwrap(),
        sent: engine.sent.into_inner().unwrap(),
        current: current.into_inner(),
    }
}

#[test]
fn all_runs_are_sent_in_turn_and_told() {
    let played = play(|_| Some(done(StopReason::Eos)), &Interrupt::default());
    assert_eq!(played.ending.unwrap(), Ending::Whole);
    assert_eq!((played.sent, played.current), (vec![1, 2, 3, 4, 5, 6], 6));
    assert!(played.runs.iter().all(RunRecord::is_finished));
    assert_eq!(played.out.lines().count(), 6);
}

#[test]
fn a_failure_costs_only_its_own_method() {
    let answer = |run| Some(if run == 2 { EventKind::Failed(failure()) } else { done(StopReason::Eos) });
    let played = play(answer, &Interrupt::default());
    assert_eq!(played.ending.unwrap(), Ending::Whole);
    assert_eq!(played.sent, [1, 2, 3, 4, 6], "what failed is not tried again");
    let states: Vec<bool> = played.runs.iter().map(RunRecord::is_finished).collect();
    assert_eq!(states, [true, false, true, true, false, true]);
    assert_eq!(played.runs[1].failure(), Some(&failure()));
}

#[test]
fn a_cancelled_run_ends_the_comparison_and_keeps_what_was_before() {
    let answer = |run| Some(done(if run == 3 { StopReason::Cancelled } else { StopReason::Eos }));
    let played = play(answer, &Interrupt::default());
    assert_eq!(played.ending.unwrap(), Ending::Interrupted);
    assert_eq!(played.sent, [1, 2, 3]);
    assert!(played.runs[1].is_finished() && played.runs[3].state == RunState::Waiting);
}

#[test]
fn an_interrupt_between_runs_starts_no_other() {
    let interrupt = Interrupt::default();
    interrupt.ask();
    let played = play(|_| Some(done(StopReason::Eos)), &interrupt);
    assert_eq!(played.ending.unwrap(), Ending::Interrupted);
    assert!(played.sent.is_empty());
}

#[test]
fn an_engine_that_does_not_answer_is_left_after_a_while() {
    let interrupt = Interrupt::default();
    let asking = interrupt.clone();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        asking.ask();
    });
    let silent = |_| Some(EventKind::Stage { stage: Stage::Decode, done: 0, total: 1 });
    let played = play(silent, &interrupt);
    waiting.join().unwrap();
    assert_eq!(played.ending.unwrap(), Ending::Interrupted);
    assert_eq!(played.runs[0].state, RunState::Done(StopReason::Cancelled));
    assert!(played.out.ends_with("}\n") && played.out.contains("\"cancelled\""), "{}", played.out);
}

#[test]
fn an_engine_that_vanishes_leaves_what_is_finished() {
    let played = play(|run| (run < 3).then(|| done(StopReason::Eos)), &Interrupt::default());
    assert!(matches!(played.ending, Ok(Ending::Broken(f)) if f.class == FailureClass::Internal));
    assert!(played.runs[0].is_finished() && played.runs[1].is_finished());
}
