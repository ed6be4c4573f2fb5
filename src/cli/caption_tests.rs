use std::sync::Mutex;

use super::*;
use crate::record::{Step, Token, Verdict};

/// Answers a cancel with `done`, or not.
struct Scripted {
    answers: bool,
    events: Mutex<mpsc::Sender<Event>>,
    cancels: Mutex<Vec<u64>>,
}

impl EnginePort for Scripted {
    fn send(&self, _: Command) -> Result<(), Failure> {
        Ok(())
    }

    fn cancel(&self, run: u64) {
        self.cancels.lock().unwrap().push(run);
        if self.answers {
            let _ = self.events.lock().unwrap().try_send(cancelled(run));
        }
    }
}

fn engine(answers: bool) -> (Scripted, mpsc::Receiver<Event>) {
    let (events, receiver) = mpsc::channel(16);
    (Scripted { answers, events: Mutex::new(events), cancels: Mutex::default() }, receiver)
}

fn send(engine: &Scripted, kind: EventKind) {
    engine.events.lock().unwrap().try_send(Event::new(1, kind)).unwrap();
}

fn step(text: &str) -> EventKind {
    let token = Token::new(7, text, Verdict::Exact);
    EventKind::Step(Step {
        index: 0,
        drafted: vec![7],
        parents: vec![],
        path: vec![],
        drafted_text: vec![],
        judged: 1,
        accepted: 1,
        tokens: vec![token],
        root_looks: Vec::new(),
        draft_ms: 1.0,
        verify_ms: 1.0,
        other_ms: 0.0,
    })
}

fn play(
    engine: &Scripted,
    mut receiver: mpsc::Receiver<Event>,
    interrupt: &Interrupt,
    json: bool,
) -> (Result<i32, End>, String) {
    let mut out = Vec::new();
    let style = Style { json, ..Style::default() };
    let mut printer = Printer::new(&mut out, std::io::sink(), style, Progress::new(false), None, 8);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let grace = Duration::from_millis(20);
    let end = runtime.block_on(follow(&mut receiver, engine, 1, &mut printer, interrupt, grace));
    drop(printer);
    (end, String::from_utf8(out).unwrap())
}

#[test]
fn a_run_to_the_end_is_zero() {
    let (engine, receiver) = engine(true);
    send(&engine, step(" Hello"));
    let done = EventKind::Done {
        reason: StopReason::Eos,
        text: "Hello".into(),
        ids: vec![7],
        stats: Box::default(),
    };
    send(&engine, done);
    let (end, out) = play(&engine, receiver, &Interrupt::default(), false);
    assert_eq!((end.unwrap(), out.as_str()), (0, "Hello\n"));
}

#[test]
fn an_interrupt_keeps_what_is_there() {
    let (engine, receiver) = engine(true);
    send(&engine, step(" Hello"));
    let interrupt = Interrupt::default();
    interrupt.ask();
    engine.cancel(1);
    let (end, out) = play(&engine, receiver, &interrupt, false);
    assert_eq!((end.unwrap(), out.as_str()), (interrupted(), "Hello\n"));
}

#[test]
fn an_engine_that_does_not_answer_is_left_after_a_while() {
    let (engine, receiver) = engine(false);
    send(&engine, step(" Hello"));
    let interrupt = Interrupt::default();
    interrupt.ask();
    let (end, out) = play(&engine, receiver, &interrupt, true);
    assert_eq!(end.unwrap(), interrupted());
    let last: Event = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last, cancelled(1));
}

#[test]
fn a_failure_has_its_exit_code_and_is_the_last_event() {
    let (engine, receiver) = engine(true);
    send(
        &engine,
        EventKind::Failed(Failure { class: FailureClass::Memory, error: "too large".into(), hint: None }),
    );
    let (end, out) = play(&engine, receiver, &Interrupt::default(), true);
    assert!(matches!(end, Err(End::Reported(4))));
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn an_engine_that_vanishes_is_our_fault() {
    let (engine, receiver) = engine(true);
    let (events, _) = mpsc::channel(1);
    *engine.events.lock().unwrap() = events;
    let (end, _) = play(&engine, receiver, &Interrupt::default(), false);
    assert!(matches!(end, Err(End::Failed(f)) if f.class == FailureClass::Internal));
}

#[test]
fn events_of_other_runs_are_not_printed() {
    let (engine, receiver) = engine(true);
    engine.events.lock().unwrap().try_send(Event::new(9, step(" Other"))).unwrap();
    send(
        &engine,
        EventKind::Done { reason: StopReason::Eos, text: String::new(), ids: vec![], stats: Box::default() },
    );
    let (end, out) = play(&engine, receiver, &Interrupt::default(), false);
    assert_eq!((end.unwrap(), out.as_str()), (0, ""));
}
