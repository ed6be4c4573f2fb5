use super::*;
use crate::fake::{FakeEngine, done, failed, prompt, request, started, step};
use specreel_record::{FailureClass, Stage};

/// Follow run 1 with a sink that records the events, and breaks at the first `prompt`.
async fn play(client: &mut Client, interrupt: &Interrupt) -> (Ending, RunLog, Vec<EventKind>) {
    let (mut log, mut seen) = (RunLog::new(1), Vec::new());
    let mut sink = |event: &Event, _: &RunLog| -> Result<ControlFlow<()>, ()> {
        seen.push(event.kind.clone());
        let enough = matches!(event.kind, EventKind::Prompt(_));
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let grace = Duration::from_millis(20);
    let ending = client.follow(request(1, "naive"), &mut log, &mut sink, interrupt, grace).await.unwrap();
    (ending, log, seen)
}

#[tokio::test]
async fn a_run_is_followed_to_its_end() {
    let events = || vec![started("naive"), step(" Hello"), done(StopReason::Eos, "Hello")];
    let (engine, mut client) = FakeEngine::answering(move |_| events());
    engine.emit(9, step(" Other"));
    let (ending, log, seen) = play(&mut client, &Interrupt::default()).await;
    assert_eq!(ending, Ending::Done(StopReason::Eos));
    assert_eq!((log.text(), seen.len()), ("Hello", 3), "events of other runs are left out");
    assert_eq!(engine.requests().len(), 1);
}

#[tokio::test]
async fn failures_of_the_run_and_of_loading_differ() {
    let (_engine, mut client) = FakeEngine::answering(|_| vec![failed(FailureClass::Input, "no")]);
    let (ending, log, _) = play(&mut client, &Interrupt::default()).await;
    assert!(matches!(ending, Ending::Failed(f) if f.error == "no"));
    assert!(log.failure().is_some());

    let (engine, mut client) = FakeEngine::silent();
    engine.emit(0, failed(FailureClass::Memory, "too large"));
    let (ending, _, seen) = play(&mut client, &Interrupt::default()).await;
    assert!(matches!(ending, Ending::NoModels(f) if f.class == FailureClass::Memory));
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn an_interrupt_before_the_request_sends_nothing() {
    let (engine, mut client) = FakeEngine::silent();
    let interrupt = Interrupt::default();
    interrupt.ask();
    let (ending, log, seen) = play(&mut client, &interrupt).await;
    assert_eq!((ending, seen.len()), (Ending::NotSent, 0));
    assert_eq!(log.state(), &RunState::Waiting);
    assert!(engine.requests().is_empty());
}

#[tokio::test]
async fn an_interrupt_ends_a_run_that_has_not_started_and_one_that_does_not_answer() {
    for answer in [vec![], vec![started("naive"), step(" Hello")]] {
        let (engine, mut client) = FakeEngine::answering(move |_| answer.clone());
        engine.ignore_cancels();
        let (interrupt, remote) = (Interrupt::default(), client.remote());
        let asking = interrupt.clone();
        let later = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            asking.ask();
            remote.cancel_current();
        });
        let (ending, log, seen) = play(&mut client, &interrupt).await;
        later.await.unwrap();
        assert_eq!(ending, Ending::Done(StopReason::Cancelled));
        assert!(log.is_over() && seen.last() == Some(&cancelled(1).kind));
        assert_eq!(engine.cancelled(), [1]);
    }
}

#[tokio::test]
async fn a_cancelled_run_answers_for_itself() {
    let (_engine, mut client) = FakeEngine::answering(|_| {
        vec![started("naive"), step(" Hello"), done(StopReason::Cancelled, "Hello")]
    });
    let (ending, log, _) = play(&mut client, &Interrupt::default()).await;
    assert_eq!((ending, log.text()), (Ending::Done(StopReason::Cancelled), "Hello"));
}

#[tokio::test]
async fn a_sink_that_has_enough_cancels_the_run() {
    for answers in [true, false] {
        let (engine, mut client) = FakeEngine::answering(|_| vec![started("naive"), prompt()]);
        if !answers {
            engine.ignore_cancels();
        }
        let (ending, log, _) = play(&mut client, &Interrupt::default()).await;
        assert_eq!(ending, Ending::Done(StopReason::Cancelled));
        assert!(log.prompt().is_some());
        assert_eq!(engine.cancelled(), [1]);
    }
}

#[tokio::test]
async fn a_sink_that_fails_cancels_the_run() {
    let (engine, mut client) = FakeEngine::answering(|_| vec![started("naive")]);
    let mut sink = |_: &Event, _: &RunLog| Err::<ControlFlow<()>, &str>("disk full");
    let (mut log, interrupt) = (RunLog::new(1), Interrupt::default());
    let outcome = client.follow(request(1, "naive"), &mut log, &mut sink, &interrupt, GRACE).await;
    assert_eq!((outcome, engine.cancelled()), (Err("disk full"), vec![1]));
}

#[tokio::test]
async fn an_engine_that_stops_or_takes_nothing_is_reported() {
    let (engine, mut client) = FakeEngine::silent();
    engine.stop();
    let (ending, log, _) = play(&mut client, &Interrupt::default()).await;
    assert!(matches!(ending, Ending::Lost(f) if f.class == FailureClass::Internal));
    assert_eq!(log.state(), &RunState::Waiting);

    let (engine, mut client) = FakeEngine::silent();
    engine.refuse_commands();
    let (ending, ..) = play(&mut client, &Interrupt::default()).await;
    assert!(matches!(ending, Ending::Lost(f) if f.error.contains("full")));
}

#[tokio::test]
async fn loading_ends_with_ready_a_failure_or_an_interrupt() {
    let spec = || ModelSpec { target: "t".into(), ..ModelSpec::default() };
    let (engine, mut client) = FakeEngine::silent();
    engine.emit(0, EventKind::Stage { stage: Stage::Load, done: 1, total: 2, left_ms: None });
    engine.emit(0, specreel_record::testing::ready(&["n"]));
    let (mut progress, interrupt) = (0, Interrupt::default());
    let loaded = client.load_and_wait(spec(), true, &mut |_| progress += 1, &interrupt).await;
    assert_eq!((loaded.unwrap().unwrap().target.as_str(), progress), ("big", 2));
    assert!(matches!(engine.commands()[..], [Command::IgnoreMemory, Command::Load(_)]));

    engine.emit(0, failed(FailureClass::Input, "no"));
    assert_eq!(client.load_and_wait(spec(), false, &mut |_| {}, &interrupt).await.unwrap_err().error, "no");
    interrupt.ask();
    assert_eq!(client.load_and_wait(spec(), false, &mut |_| {}, &interrupt).await, Ok(None));
    engine.stop();
    assert!(client.load_and_wait(spec(), false, &mut |_| {}, &Interrupt::default()).await.is_err());
}

#[tokio::test]
async fn a_verification_passes_on_only_what_it_found() {
    let found = || specreel_record::testing::verified(&[1], &[1]);
    for (verified, reason) in [(true, StopReason::Eos), (false, StopReason::Cancelled)] {
        let (engine, mut client) = FakeEngine::answering(move |_| {
            let last = verified.then(found).into_iter().chain([done(reason, "Hello")]);
            [started("autoregressive"), step(" Hello")].into_iter().chain(last).collect()
        });
        let mut log = specreel_record::testing::run(1, [started("naive"), done(StopReason::Eos, "Hello")]);
        let mut seen = Vec::new();
        let mut sink = |event: &Event, _: &RunLog| -> Result<ControlFlow<()>, ()> {
            seen.push((event.run, event.kind.clone()));
            Ok(ControlFlow::Continue(()))
        };
        let request = request(1, "naive");
        let ending = client.verify(&request, &mut log, &mut sink, &Interrupt::default(), GRACE).await;
        assert_eq!(ending, Ok(Ending::Done(reason)));
        assert_eq!(seen, Vec::from_iter(verified.then(|| (1, found()))));
        assert_eq!(log.verification().is_some(), verified);
        assert!(engine.requests()[0].method.is_autoregressive());
    }
}
