//! What an engine's worker does: one run after another.

use std::{convert::Infallible, ops::ControlFlow, sync::Arc, time::Instant};

use tokio::sync::mpsc;

use super::{Job, PROGRESS, Pool};
use specreel_client::{Client, Ending, GRACE, Interrupt};
use specreel_record::{Event, EventKind, Failure, FailureClass, RunLog};

pub(super) async fn work(pool: Arc<Pool>, number: usize, mut client: Client, mut jobs: mpsc::Receiver<Job>) {
    // Runs are cancelled one by one.
    let interrupt = Interrupt::default();
    while let Some(Job { request, events, video, .. }) = jobs.recv().await {
        let (run, began) = (request.run, Instant::now());
        if let Some(model) = pool.to_load(number) {
            let mut on = |_: &EventKind| ();
            let outcome = tokio::select! {
                outcome = pool.models.load(model, &mut client, &mut on, &interrupt) => outcome,
                () = pool.ending.cancelled() => return,
            };
            pool.loaded(number, outcome.as_ref().is_ok_and(Option::is_some).then_some(model));
            if let Err(failure) = outcome {
                tracing::error!(number, error = failure.error, "a model cannot be loaded");
                // What is wrong with the engine does not end with this run.
                let is_lost = failure.class == FailureClass::Internal;
                let failed = Event::new(run, EventKind::Failed(unloaded(&pool, model, &failure)));
                pool.feed.publish(&failed);
                let _ = events.try_send(failed);
                pool.finish(number, began, is_lost);
                if is_lost {
                    return;
                }
                continue;
            }
        }
        // Its client may have gone meanwhile.
        if events.is_closed() {
            pool.finish(number, began, false);
            continue;
        }
        let mut log = RunLog::new(run);
        let mut pass_on = |event: &Event, _: &RunLog| {
            let event = video.shown(event);
            forward(&events, &event);
            pool.feed.publish(&event);
            Ok::<_, Infallible>(ControlFlow::Continue(()))
        };
        let Ok(ending) = client.follow(request, &mut log, &mut pass_on, &interrupt, GRACE).await;
        let lost = match ending {
            Ending::Done(_) | Ending::Failed(_) | Ending::NotSent => None,
            Ending::NoModels(failure) | Ending::Lost(failure) => Some(failure),
        };
        if let Some(failure) = &lost {
            tracing::error!(number, error = failure.error, "an engine has stopped");
            let failed = Event::new(run, EventKind::Failed(video.named(failure.clone())));
            pool.feed.publish(&failed);
            let _ = events.try_send(failed);
        }
        // A reader that sees the end finds the engine idle.
        pool.finish(number, began, lost.is_some());
        drop(events);
        if lost.is_some() {
            return;
        }
    }
}

/// The failure of a run whose model cannot be loaded. Where its files are concerns no client.
fn unloaded(pool: &Pool, model: usize, failure: &Failure) -> Failure {
    let id = pool.models.all()[model].id();
    let (class, error, hint) = match failure.class {
        FailureClass::Memory => (
            FailureClass::Memory,
            format!("the model `{id}` does not fit into memory"),
            "choose a smaller one",
        ),
        _ => {
            let error = format!("the model `{id}` cannot be loaded");
            (FailureClass::Internal, error, "the log of the server says why")
        }
    };
    Failure { class, error, hint: Some(hint.into()) }
}

/// Pass an event on without waiting. Progress is dropped where the reader is slow; all others fit. A reader that has gone has
/// cancelled the run.
fn forward(events: &mpsc::Sender<Event>, event: &Event) {
    let may_be_dropped = matches!(event.kind, EventKind::Stage { .. } | EventKind::Draft(_));
    let reserved = events.max_capacity() - PROGRESS / 2;
    if !may_be_dropped || events.capacity() >= reserved {
        let _ = events.try_send(event.clone());
    }
}
