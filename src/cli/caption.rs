//! `specreel caption`: one run, or one for each piece of a video, printed as it happens.
//!
//! The engine has its own thread; here one loop waits for its events and for interrupts. The first Ctrl-C cancels the run
//! and what was written stays; the second ends the process at once.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    End, EnginePort, Ports,
    args::CaptionArgs,
    config::Config,
    interrupt::Interrupt,
    interrupted, memory_check,
    printer::{Flow, PrintError, Printer, Style},
    progress::Progress,
    report, resolve, runtime,
    session::SessionFile,
    terminal,
};
use crate::{
    engine::{Command, RunRequest},
    record::{Event, EventKind, Failure, FailureClass, Stats, StopReason},
};

/// How long a cancelled run may take to say that it is done.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Caption a video.
pub fn run(args: &CaptionArgs, config: &Config, ports: &Ports) -> Result<i32, End> {
    let CaptionArgs { video, part, run, output } = args;
    part.span.check()?;
    let mut caption = resolve::wanted(video, run, config)?;
    resolve::suggest_drafter(&caption.models, config, output.quiet || output.json);
    resolve::tell_unused(run, &[&caption.request.method], output.quiet || output.json);
    caption.request.logprobs = output.logprobs as usize;
    if output.logprobs > 0 && !output.json && output.save.is_none() && !output.quiet {
        tell!("hint: --logprobs shows in --json and --save");
    }
    let limit = caption.request.max_new_tokens;
    let file = caption.request.video.clone();
    let requests = part.runs(caption.request).map_err(|failure| resolve::as_typed(failure, &file, video))?;
    let longest = requests.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    if let Some(longest) = longest {
        memory_check::check(&caption.models, longest, run.ignore_memory)?;
    }
    let session = output.save.as_deref().map(|path| SessionFile::create(path, output.force)).transpose()?;
    let interrupt = Interrupt::default();
    let (engine, mut events) = (ports.engine)()?;
    let current = Arc::new(AtomicU64::new(requests.first().map_or(1, |request| request.run)));
    let (cancelling, running) = (Arc::clone(&engine), Arc::clone(&current));
    interrupt.listen(move || cancelling.cancel(running.load(Ordering::SeqCst)))?;

    let out_terminal = std::io::stdout().is_terminal();
    let style = Style {
        json: output.json,
        color: terminal::color_stdout(output.color) && !output.json,
        color_talk: terminal::color_stderr(output.color),
        quiet: output.quiet,
        terminal: out_terminal,
        subtitles: part.format.subtitles(),
    };
    let lines_on_screen = output.json && out_terminal;
    let shown = !output.quiet && !lines_on_screen;
    let mut printer = Printer::new(
        std::io::stdout().lock(),
        std::io::stderr(),
        style,
        Progress::new(shown),
        session,
        limit,
    );
    if run.ignore_memory {
        engine.send(Command::IgnoreMemory)?;
    }
    engine.send(Command::Load(caption.models))?;
    let runtime = runtime()?;
    runtime.block_on(async {
        for request in requests {
            let id = request.run;
            current.store(id, Ordering::SeqCst);
            // Between two pieces nobody is there to be cancelled; before the first, the models may still be waited for.
            if interrupt.asked() && request.segment.is_some_and(|s| s.index > 0) {
                printer.close().map_err(ended)?;
                return Ok(interrupted());
            }
            engine.send(Command::Run(Box::new(request)))?;
            let code = follow(&mut events, engine.as_ref(), id, &mut printer, &interrupt, GRACE).await?;
            if code != 0 {
                return Ok(code);
            }
        }
        Ok(0)
    })
}

/// The length of what a run looks at; 0 where that is the whole video, which then is the only run.
fn seconds(request: &RunRequest) -> f64 {
    request.span.map_or(0.0, |span| span.seconds())
}

/// Print events until the run ends, and give the exit code.
///
/// # Errors
/// The output cannot be written, or the run failed.
pub async fn follow<O: Write, E: Write>(
    events: &mut mpsc::Receiver<Event>,
    engine: &dyn EnginePort,
    run: u64,
    printer: &mut Printer<O, E>,
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
            Ok(Flow::Done(StopReason::Cancelled)) => return Ok(interrupted()),
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
