use super::*;
use specreel_client::fake::{self, FakeEngine, done, started, step};
use specreel_record::FailureClass;

const GRACE: Duration = Duration::from_millis(20);

/// Print run 1 of a scripted engine.
fn play(client: &mut Client, interrupt: &Interrupt, json: bool) -> (Result<i32, End>, String) {
    play_and(client, interrupt, json, false)
}

fn play_and(
    client: &mut Client,
    interrupt: &Interrupt,
    json: bool,
    verifies: bool,
) -> (Result<i32, End>, String) {
    let mut out = Vec::new();
    let style = Style { json, ..Style::default() };
    let mut printer = Printer::new(&mut out, std::io::sink(), style, Progress::new(false), None, 8);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let request = fake::request(1, "naive");
    let end =
        runtime.block_on(one(client, request, &mut RunLog::new(1), verifies, &mut printer, interrupt, GRACE));
    drop(printer);
    (end, String::from_utf8(out).unwrap())
}

#[test]
fn a_stopped_engine_is_an_internal_error() {
    let (engine, mut client) = FakeEngine::silent();
    engine.stop();
    let (end, _) = play(&mut client, &Interrupt::default(), false);
    assert!(matches!(end, Err(End::Failed(f)) if f.class == FailureClass::Internal));
}

#[test]
fn an_interrupt_before_the_run_prints_nothing() {
    let (engine, mut client) = FakeEngine::silent();
    let interrupt = Interrupt::default();
    interrupt.ask();
    let (end, out) = play(&mut client, &interrupt, false);
    assert_eq!((end.unwrap(), out.as_str()), (interrupted(), ""));
    assert!(engine.requests().is_empty());
}

#[test]
fn a_broken_promise_is_an_internal_error() {
    use specreel_record::{Promise, Verification, testing::verified};
    let lossy = |kind| match kind {
        EventKind::Verified(found) => {
            EventKind::Verified(Verification { promises: Promise::Nothing, ..found })
        }
        other => other,
    };
    let cancelled = done(StopReason::Cancelled, "");
    let table = [
        (vec![verified(&[1], &[1]), done(StopReason::Eos, "A")], 0, true),
        (vec![verified(&[1], &[2]), done(StopReason::Eos, "A")], 1, true),
        (vec![lossy(verified(&[1], &[2])), done(StopReason::Eos, "A")], 0, true),
        (vec![cancelled], interrupted(), false),
    ];
    for (answer, code, is_found) in table {
        let (_engine, mut client) = FakeEngine::answering(move |request| match request.verifies {
            Some(_) => [started("plain"), step(" unseen")].into_iter().chain(answer.clone()).collect(),
            None => vec![started("naive"), step(" Hello"), done(StopReason::Eos, "Hello")],
        });
        let (end, out) = play_and(&mut client, &Interrupt::default(), true, true);
        assert_eq!(end.unwrap(), code, "{out}");
        let events: Vec<Event> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_verified = |event: &&Event| matches!(event.kind, EventKind::Verified(_));
        assert_eq!(events.iter().filter(is_verified).count(), usize::from(is_found));
        assert!(events.iter().all(|event| event.run == 1) && !out.contains("unseen"), "{out}");
    }
}
