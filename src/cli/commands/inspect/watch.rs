//! Follows a run until its `prompt` event lists the drafter's visual tokens; then the run is cancelled, as no caption is wanted.

use std::convert::Infallible;

use super::*;
use specreel_client::Interrupt;

#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    pub prompt: Event,
    pub log: RunLog,
}

/// Run a request until its `prompt` event. `None` if interrupted before that.
pub async fn watch(
    client: &mut Client,
    request: RunRequest,
    progress: &mut Progress,
    interrupt: &Interrupt,
    grace: Duration,
) -> Result<Option<Watched>, Failure> {
    let (mut prompt, mut log) = (None, RunLog::new(request.run));
    let mut sink = |event: &Event, _: &RunLog| -> Result<ControlFlow<()>, Infallible> {
        Ok(match &event.kind {
            EventKind::Stage { stage, done, total, left_ms } if prompt.is_none() => {
                progress.stage_with(*stage, *done, *total, *left_ms);
                ControlFlow::Continue(())
            }
            EventKind::Prompt(_) => {
                progress.clear();
                prompt = Some(event.clone());
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
    };
    let Ok(ending) = client.follow(request, &mut log, &mut sink, interrupt, grace).await;
    match (prompt, ending) {
        // The run has said all that is wanted, however it ended.
        (Some(prompt), _) => Ok(Some(Watched { prompt, log })),
        (None, Ending::Failed(failure) | Ending::NoModels(failure) | Ending::Lost(failure)) => Err(failure),
        (None, Ending::Done(_) | Ending::NotSent) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_client::{
        cancelled,
        fake::{self, FakeEngine, failed, prompt, started},
    };
    use specreel_record::FailureClass;

    /// Watch run 1, which is answered with these events; after them the engine stops.
    async fn watched(kinds: Vec<EventKind>) -> (Result<Option<Watched>, Failure>, Vec<u64>) {
        let (engine, mut client) = FakeEngine::silent();
        kinds.into_iter().for_each(|kind| engine.emit(1, kind));
        engine.stop();
        let (mut progress, interrupt) = (Progress::new(false), Interrupt::default());
        let grace = Duration::from_millis(20);
        let request = fake::request(1, "naive");
        let seen = watch(&mut client, request, &mut progress, &interrupt, grace).await;
        (seen, engine.cancelled())
    }

    #[tokio::test]
    async fn the_prompt_is_enough_and_the_rest_is_cancelled() {
        for end in [vec![cancelled(1).kind], vec![failed(FailureClass::Input, "no")], vec![]] {
            let (seen, cancelled) = watched([vec![started("naive"), prompt()], end].concat()).await;
            let seen = seen.unwrap().unwrap();
            let drafter = seen.log.started().unwrap().drafter.as_deref();
            assert_eq!((&seen.prompt, drafter), (&Event::new(1, prompt()), Some("small")));
            assert_eq!(cancelled, [1]);
        }
    }

    #[tokio::test]
    async fn a_run_without_a_prompt_is_a_failure_or_an_interrupt() {
        assert_eq!(watched(vec![failed(FailureClass::Input, "no")]).await.0.unwrap_err().error, "no");
        assert_eq!(watched(vec![]).await.0.unwrap_err().class, FailureClass::Internal);
        assert_eq!(watched(vec![cancelled(1).kind]).await.0, Ok(None));
    }
}
