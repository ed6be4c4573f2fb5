//! The engine's run, watched until it says what the drafter sees; then it is cancelled, for no caption is wanted.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::{
    cli::{EnginePort, caption, interrupt::Interrupt, progress::Progress},
    record::{Event, EventKind, Failure},
};

/// What the run said.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// Its `prompt` event.
    pub prompt: Event,
    /// Name of the drafter.
    pub drafter: String,
}

/// Watch a run that was sent to the engine. None if it was interrupted before it said anything.
///
/// # Errors
/// The run failed, the models cannot be loaded, or the engine is gone.
pub async fn watch(
    events: &mut mpsc::Receiver<Event>,
    engine: &dyn EnginePort,
    run: u64,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Option<Watched>, Failure> {
    let (mut started, mut drafter, mut found) = (false, String::new(), None);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            // Before the run has started (models are loading) nobody answers to a cancel, and nothing is lost.
            () = interrupt.waited(if started { caption::GRACE } else { Duration::ZERO }) => return Ok(found),
            // All is known; that the engine comes to rest is only good manners.
            () = tokio::time::sleep(caption::GRACE), if found.is_some() => return Ok(found),
        };
        let Some(event) = event else {
            return if found.is_some() { Ok(found) } else { Err(caption::silence()) };
        };
        if event.run != run && event.run != 0 {
            continue;
        }
        started |= event.run == run;
        match &event.kind {
            EventKind::Stage { stage, done, total } if found.is_none() => {
                progress.stage(*stage, *done, *total);
            }
            EventKind::Started { drafter: Some(name), .. } => drafter.clone_from(name),
            EventKind::Prompt { .. } => {
                found = Some(Watched { prompt: event, drafter: std::mem::take(&mut drafter) });
                progress.clear();
                engine.cancel(run);
            }
            EventKind::Failed(failure) if found.is_none() => return Err(failure.clone()),
            EventKind::Done { .. } | EventKind::Failed(_) => return Ok(found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{engine::Command, record::FailureClass};

    /// Notes what is cancelled.
    #[derive(Default)]
    struct Scripted(Mutex<Vec<u64>>);

    impl EnginePort for Scripted {
        fn send(&self, _: Command) -> Result<(), Failure> {
            Ok(())
        }

        fn cancel(&self, run: u64) {
            self.0.lock().unwrap().push(run);
        }
    }

    fn prompt() -> EventKind {
        EventKind::Prompt {
            frames: vec![0.0],
            grid: [1, 1, 1],
            visual_tokens: 1,
            prompt_ids: vec![],
            kept: None,
            scores: None,
            reused: false,
            notes: vec![],
        }
    }

    fn failed() -> EventKind {
        EventKind::Failed(Failure { class: FailureClass::Input, error: "no".into(), hint: None })
    }

    /// The events of run 1, then silence or an interrupt.
    async fn watched(
        kinds: Vec<EventKind>,
        interrupted: bool,
    ) -> (Result<Option<Watched>, Failure>, Vec<u64>) {
        let (sender, mut events) = mpsc::channel(16);
        for kind in kinds {
            sender.try_send(Event::new(1, kind)).unwrap();
        }
        let (engine, interrupt) = (Scripted::default(), Interrupt::default());
        if interrupted {
            interrupt.ask();
        } else {
            drop(sender);
        }
        let seen = watch(&mut events, &engine, 1, &mut Progress::new(false), &interrupt).await;
        (seen, engine.0.into_inner().unwrap())
    }

    #[tokio::test]
    async fn the_prompt_is_enough_and_the_rest_is_cancelled() {
        for end in [vec![caption::cancelled(1).kind], vec![failed()], vec![]] {
            let (seen, cancelled) = watched([vec![prompt()], end].concat(), false).await;
            assert_eq!(seen.unwrap().unwrap().prompt, Event::new(1, prompt()));
            assert_eq!(cancelled, [1]);
        }
    }

    #[tokio::test]
    async fn what_comes_instead_of_the_prompt_is_told() {
        assert_eq!(watched(vec![failed()], false).await.0.unwrap_err().error, "no");
        assert_eq!(watched(vec![], false).await.0.unwrap_err(), caption::silence());
        assert_eq!(watched(vec![], true).await.0, Ok(None));
        assert_eq!(watched(vec![caption::cancelled(1).kind], false).await.0, Ok(None));
    }
}
