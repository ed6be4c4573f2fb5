//! `specreel caption`: one run, printed as it happens.
//!
//! The engine has its own thread; here one loop waits for its events and for interrupts. The first Ctrl-C cancels the run
//! and what was written stays; the second ends the process at once.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    End, EnginePort, INTERRUPTED, Ports,
    args::{OutputArgs, RunArgs},
    config::Config,
    interrupt::Interrupt,
    printer::{Flow, PrintError, Printer, Style},
    progress::Progress,
    report, resolve,
    session::SessionFile,
    terminal,
};
use crate::{
    engine::Command,
    record::{Event, EventKind, Failure, FailureClass, Stats, StopReason},
};

/// How long a cancelled run may take to say that it is done.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Caption a video.
pub fn run(
    video: &Path,
    run: &RunArgs,
    output: &OutputArgs,
    config: &Config,
    ports: &Ports,
) -> Result<i32, End> {
    let mut caption = resolve::caption(video, run, config)?;
    resolve::suggest_drafter(&caption.models, config, output.quiet || output.json);
    caption.request.logprobs = output.logprobs as usize;
    if output.logprobs > 0 && !output.json && output.save.is_none() && !output.quiet {
        eprintln!("hint: --logprobs shows in --json and --save");
    }
    let session = output.save.as_deref().map(|path| SessionFile::create(path, output.force)).transpose()?;
    let interrupt = Interrupt::default();
    let (engine, events) = (ports.engine)()?;
    let id = caption.request.run;
    let cancelling = Arc::clone(&engine);
    interrupt.listen(move || cancelling.cancel(id))?;

    let out_terminal = std::io::stdout().is_terminal();
    let style = Style {
        json: output.json,
        color: terminal::color_stdout(output.color) && !output.json,
        color_talk: terminal::color_stderr(output.color),
        quiet: output.quiet,
        terminal: out_terminal,
    };
    let lines_on_screen = output.json && out_terminal;
    let shown = !output.quiet && !lines_on_screen;
    let printer = Printer::new(
        std::io::stdout().lock(),
        std::io::stderr(),
        style,
        Progress::new(shown),
        session,
        caption.request.max_new_tokens,
    );
    if run.ignore_memory {
        engine.send(Command::IgnoreMemory)?;
    }
    engine.send(Command::Load(caption.models))?;
    engine.send(Command::Run(Box::new(caption.request)))?;
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(follow(
        events,
        engine.as_ref(),
        id,
        printer,
        &interrupt,
        GRACE,
    ))
}

/// Print events until the run ends, and give the exit code.
///
/// # Errors
/// The output cannot be written, or the run failed.
pub async fn follow<O: Write, E: Write>(
    mut events: mpsc::Receiver<Event>,
    engine: &dyn EnginePort,
    run: u64,
    mut printer: Printer<O, E>,
    interrupt: &Interrupt,
    grace: Duration,
) -> Result<i32, End> {
    let mut started = false;
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            // Before the run has started (models are loading) nobody answers to a cancel, and nothing is lost.
            () = interrupt.waited(if started { grace } else { Duration::ZERO }) => Some(cancelled(run)),
        };
        let Some(event) = event else {
            printer.close().map_err(ended)?;
            return Err(End::Failed(silence()));
        };
        if event.run != run && event.run != 0 {
            continue;
        }
        started |= event.run == run;
        match printer.event(&event) {
            Ok(Flow::Go) => {}
            Ok(Flow::Done(StopReason::Cancelled)) => return Ok(INTERRUPTED),
            Ok(Flow::Done(_)) => return Ok(0),
            // The event itself is the last line of --json already.
            Ok(Flow::Failed(failure)) => return Err(End::Reported(report::failure(&failure, false))),
            Err(error) => {
                engine.cancel(run);
                return Err(ended(error));
            }
        }
    }
}

pub(super) fn ended(error: PrintError) -> End {
    match error {
        PrintError::Io(e) => e.into(),
        PrintError::Session(failure) => End::Failed(failure),
    }
}

/// The failure of an engine that is gone.
pub(super) fn silence() -> Failure {
    Failure {
        class: FailureClass::Internal,
        error: "the engine ended without an answer".into(),
        hint: Some("its log file may say why: see specreel doctor".into()),
    }
}

/// What a run that had not started would have said.
pub(super) fn cancelled(run: u64) -> Event {
    Event::new(
        run,
        EventKind::Done {
            reason: StopReason::Cancelled,
            text: String::new(),
            ids: vec![],
            stats: Box::new(Stats::default()),
        },
    )
}

#[cfg(test)]
#[path = "caption_tests.rs"]
mod tests;
