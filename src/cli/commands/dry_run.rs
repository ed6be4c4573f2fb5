//! `specreel caption --dry-run`: time and memory of a run, without running it.

use super::*;

/// Columns of the names of values.
const NAMES: usize = 10;

/// Load the models, and print the estimate of each request.
pub fn run(models: ModelSpec, requests: Vec<RunRequest>, args: &CaptionArgs) -> Result<i32, End> {
    let (json, quiet) = (args.output.json, args.output.quiet);
    let (mut client, interrupt) = loading(models, args.run.ignore_memory)?;
    let mut progress = Progress::new(!quiet && !json);
    let runtime = runtime()?;
    let mut out = std::io::stdout().lock();
    let (mut estimates, mut notes) = (Vec::new(), Vec::new());
    for request in requests {
        let mut log = RunLog::new(request.run);
        let mut sink = |event: &Event, _: &RunLog| -> std::io::Result<ControlFlow<()>> {
            match &event.kind {
                EventKind::Stage { stage, done, total, .. } => progress.stage(*stage, *done, *total),
                EventKind::Estimate(_) | EventKind::Failed(_) if json => {
                    out.write_all(&event_line(event)?)?
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        };
        let request = RunRequest { estimate_only: true, measure: false, ..request };
        let following = client.follow(request, &mut log, &mut sink, &interrupt, GRACE);
        let ending = runtime.block_on(following)?;
        progress.clear();
        match (ending, log.estimate()) {
            (Ending::Failed(failure) | Ending::NoModels(failure), _) => {
                return Err(End::Reported(report::failure(&failure, false)));
            }
            (Ending::Lost(failure), _) => return Err(End::Failed(failure)),
            (Ending::Done(_), Some(found)) if !interrupt.asked() => estimates.push(found.clone()),
            _ => return Ok(interrupted()),
        }
        for note in log.notes() {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    if !json {
        if !quiet {
            notes.iter().for_each(|note| tell!("note: {}", color::plain(note)));
        }
        for (name, value) in estimate::rows(&estimates) {
            writeln!(out, "{name:<NAMES$}{value}")?;
        }
    }
    out.flush()?;
    Ok(0)
}
