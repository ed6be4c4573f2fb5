//! The runs of a comparison, one after another on one engine.

use super::{reporter::Reporter, *};
use crate::cli::commands::caption;
use specreel_client::{self as client, Interrupt};

#[derive(Debug, PartialEq)]
pub enum Ending {
    /// Every run finished or failed by itself.
    Whole,
    /// Interrupted; the runs before that are complete.
    Interrupted,
    /// The engine stopped; the runs before that are complete.
    Broken(Failure),
}

/// Send each request when the previous run has ended, and record its events. A method that failed is not tried again.
pub async fn all<O: Write, E: Write>(
    client: &mut Client,
    requests: Vec<RunRequest>,
    runs: &mut [RunLog],
    reporter: &mut Reporter<O, E>,
    interrupt: &Interrupt,
    grace: Duration,
) -> Result<Ending, End> {
    let total = requests.len();
    let measured: Vec<u64> = requests.iter().filter(|r| r.is_measured()).map(|r| r.run).collect();
    for (at, request) in requests.into_iter().enumerate() {
        let name = runs[at].name();
        if runs.iter().any(|run| run.name() == name && run.failure().is_some()) {
            continue;
        }
        let log = &mut runs[at];
        let mut sink = |event: &Event, log: &RunLog| {
            reporter.event(event, log, (at + 1, total))?;
            Ok(ControlFlow::Continue(()))
        };
        match client.follow(request, log, &mut sink, interrupt, grace).await.map_err(caption::ended)? {
            client::Ending::Done(reason) if reason.is_end() => {}
            client::Ending::Failed(_) => {}
            client::Ending::Done(_) | client::Ending::NotSent => return Ok(Ending::Interrupted),
            // With --json the event itself is the last line already.
            client::Ending::NoModels(failure) => return Err(End::Reported(report::failure(&failure, false))),
            client::Ending::Lost(failure) => {
                reporter.close().map_err(caption::ended)?;
                return Ok(Ending::Broken(failure));
            }
        }
    }
    reporter.measuring();
    let (mut logs, _): (Vec<_>, Vec<_>) = (runs.iter_mut()).partition(|run| measured.contains(&run.run()));
    let mut sink = |event: &Event, log: &RunLog| {
        reporter.event(event, log, (total, total))?;
        Ok(ControlFlow::Continue(()))
    };
    client.settle(&mut logs, &mut sink, interrupt, grace).await.map_err(caption::ended)?;
    reporter.close().map_err(caption::ended)?;
    Ok(Ending::Whole)
}

#[cfg(test)]
mod tests;
