//! `specreel caption`: one run, or one for each piece of a video, printed as it happens.

pub(super) mod resume;

use self::resume::Kept;

use std::cell::RefCell;

use super::*;
use crate::cli::args::run::OutputArgs;
use crate::cli::output::printer::{PrintError, Printer, Style};
use specreel_client::{Sink, present::export::timed};
use specreel_engine::memory_check;
use specreel_record::{Cues, OnLoop, Span, Stage, Verification};

/// Exit code if an answer ended before it was what `--schema` or `--grammar` asks for.
pub(super) const INCOMPLETE: i32 = 5;

pub fn run(args: &mut CaptionArgs, config: &Config) -> Result<i32, End> {
    if let Some(code) = super::models::offer::first(args, config)? {
        return Ok(code);
    }
    let args = &*args;
    let CaptionArgs { videos, part, run, output, dry_run, steps, .. } = args;
    part.check()?;
    if let Some(code) = super::models::offer::missing(run, config, output.quiet || output.json)? {
        return Ok(code);
    }
    let video = match &videos[..] {
        [video] if !super::batch::is_meant(args) => video,
        _ => return super::batch::run(args, config),
    };
    let mut caption = resolve::whole_video(video, run, config)?;
    resolve::suggest_drafter(&caption.models, config, output.quiet || output.json);
    resolve::tell_unused(run, &[&caption.request.method], output.quiet || output.json);
    check_verify(args, &caption.request.method)?;
    caption.request.logprobs = logprobs(output);
    let is_watched = std::io::stderr().is_terminal() && !output.quiet && !output.json;
    caption.request.measure = output.measure.measures(is_watched);
    let limit = caption.request.max_new_tokens;
    let on_loop = caption.request.on_loop;
    let file = caption.request.video.clone();
    let shown = !(output.quiet || output.json && std::io::stdout().is_terminal());
    let search = RefCell::new(Progress::new(shown));
    // A dry run writes one event only.
    let writes = output.json && !*dry_run;
    let mut heard_s = None;
    let mut listening = |done: f64, total: f64| {
        let (done, total) = (done as u64, total as u64);
        search.borrow_mut().stage(Stage::Listen, done, total);
        if writes && heard_s.replace(done) != Some(done) {
            let kind = EventKind::Stage { stage: Stage::Listen, done, total, left_ms: None };
            // A closed stdout ends the run, which writes to it next.
            let _ = event_line(&Event::new(0, kind)).and_then(|line| io::stdout().write_all(&line));
        }
        ControlFlow::Continue(())
    };
    let mut searching = |done: f64, total: f64| {
        search.borrow_mut().looking("finding scenes", done, total);
        ControlFlow::Continue(())
    };
    let divided = part.runs(caption.request, &mut listening, &mut searching);
    search.into_inner().clear();
    let (mut requests, said) = divided.map_err(|failure| resolve::as_typed(failure, &file, video))?;
    if let Some((said, notes)) = &said {
        if writes {
            let _ = writeln!(io::stdout(), "{}", said.json(0, notes));
        } else if !output.quiet && !output.json {
            notes.iter().for_each(|note| tell!("note: {note}"));
        }
    }
    if requests.len() > 1 {
        // The next piece must not wait for the figures of this one.
        requests.iter_mut().for_each(|request| request.measure = false);
    }
    let longest = requests.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    if let Some(longest) = longest.filter(|_| !run.ignore_memory) {
        memory_check::check_request(&caption.models, longest)?;
    }
    if *dry_run {
        return super::dry_run::run(caption.models, requests, args);
    }
    let mut kept = Kept::of(output, args.resume, &caption.models)?;
    // All of them, before anything is changed.
    let done =
        requests.iter().map_while(|request| kept.take(request).transpose()).collect::<Result<Vec<_>, _>>()?;
    let session = kept.session(output)?;
    let (mut client, interrupt) = loading(caption.models, run.ignore_memory)?;
    let style =
        Style { timed: part.format.timed(), steps: *steps, ..style(output, part.cues.of(config), on_loop) };
    let mut printer =
        Printer::new(std::io::stdout().lock(), std::io::stderr(), style, Progress::new(shown), None, limit);
    printer.summarizes(part.summary.is_some());
    printer.polishes(args.batch.polish());
    let mut captions = Vec::new();
    for events in &done {
        captions.extend(with_times(&replayed(events, &mut printer)?));
    }
    let asked = part.summary.as_deref().zip(requests.first().cloned());
    let (total, requests) = (requests.len(), requests.split_off(done.len()));
    if requests.is_empty() && asked.is_none() {
        return Ok(0);
    }
    printer.save_to(session);
    runtime()?.block_on(async {
        let mut requests = requests.into_iter().peekable();
        while let Some(request) = requests.next() {
            if let Some(next) = requests.peek() {
                let next = RunRequest { run: u64::MAX, ..next.clone() };
                // What fails here fails again when it is its turn.
                let _ = client.send(specreel_engine::Command::ReadNext(Box::new(next)));
            }
            let mut log = RunLog::new(request.run);
            let verifies = args.verify.is_some();
            let code = one(&mut client, request, &mut log, verifies, &mut printer, &interrupt, GRACE).await?;
            if code != 0 {
                return Ok(code);
            }
            captions.extend(with_times(&log));
        }
        let Some((asked, first)) = asked else { return Ok(0) };
        let request = resolve::summary(asked, first, total, &captions);
        if let Some(events) = kept.take(&request)? {
            printer.save_to(None);
            return replayed(&events, &mut printer).map(|_| 0);
        }
        let mut log = RunLog::new(request.run);
        one(&mut client, request, &mut log, false, &mut printer, &interrupt, GRACE).await
    })
}

/// How many likely tokens are reported. Prints a hint if no output has them.
pub(super) fn logprobs(output: &OutputArgs) -> usize {
    if output.logprobs > 0 && !output.json && output.save.is_none() && !output.quiet {
        tell!("hint: --logprobs needs --json or --save");
    }
    output.logprobs as usize
}

/// Captions as text, without their steps.
pub(super) fn style(output: &OutputArgs, cues: Cues, on_loop: OnLoop) -> Style {
    let terminal = std::io::stdout().is_terminal();
    Style {
        json: output.json,
        color: terminal::color_stdout(output.color) && !output.json,
        color_talk: terminal::color_stderr(output.color),
        quiet: output.quiet,
        terminal,
        columns: terminal::columns(),
        columns_talk: terminal::columns_stderr(),
        timed: None,
        cues,
        steps: false,
        // A line of a terminal stays; a file has only what counts.
        late: on_loop == OnLoop::Retry && !terminal,
    }
}

/// The caption of a part, or its events, with times.
fn with_times(log: &RunLog) -> Vec<(Span, String)> {
    let span = log.started().and_then(|started| started.span);
    span.map(|span| timed(span, log.text())).unwrap_or_default()
}

/// Print the events of a run that was saved.
fn replayed<O: Write, E: Write>(events: &[Event], printer: &mut Printer<O, E>) -> Result<RunLog, End> {
    let mut log = RunLog::new(events.first().map_or(0, |event| event.run));
    for event in events {
        log.apply(event);
        printer.event(event).map_err(ended)?;
    }
    printer.report().map_err(ended)?;
    Ok(log)
}

/// Refuse to compare autoregressive decoding with itself.
pub(crate) fn check_verify(args: &CaptionArgs, method: &Method) -> Result<(), Failure> {
    match args.verify.filter(|_| method.is_autoregressive()) {
        None => Ok(()),
        Some(_) => Err(Failure::usage(
            format!("--verify compares with autoregressive decoding, which the method {} is", method.name),
            "select another method with --method",
        )),
    }
}

/// The length of the part that a run captions; 0 if it is the whole video, which then is the only run.
fn seconds(request: &RunRequest) -> f64 {
    request.span.map_or(0.0, |span| span.seconds())
}

/// Print one run, and return the exit code.
pub(super) async fn one<O: Write, E: Write>(
    client: &mut Client,
    request: RunRequest,
    log: &mut RunLog,
    verifies: bool,
    printer: &mut Printer<O, E>,
    interrupt: &Interrupt,
    grace: Duration,
) -> Result<i32, End> {
    let is_measured = request.is_measured();
    printer.measures(is_measured);
    let asked = request.clone();
    match client.follow(request, log, printer, interrupt, grace).await.map_err(ended)? {
        Ending::Done(reason) if reason.is_end() => {
            if is_measured {
                client.settle(&mut [log], printer, interrupt, grace).await.map_err(ended)?;
            }
            printer.report().map_err(ended)?;
            let code = match verifies {
                true => verify(client, &asked, log, printer, interrupt, grace).await?,
                false => 0,
            };
            let is_cut = reason == StopReason::Loop || log.stats().complete == Some(false);
            Ok(if code == 0 && is_cut { INCOMPLETE } else { code })
        }
        other => unfinished(other, printer),
    }
}

/// Compare a finished run with autoregressive decoding, and return the exit code.
async fn verify<O: Write, E: Write>(
    client: &mut Client,
    request: &RunRequest,
    log: &mut RunLog,
    printer: &mut Printer<O, E>,
    interrupt: &Interrupt,
    grace: Duration,
) -> Result<i32, End> {
    printer.verifies();
    match client.verify(request, log, printer, interrupt, grace).await.map_err(ended)? {
        Ending::Done(reason) if reason.is_end() => {
            let is_broken = log.verification().is_some_and(Verification::is_broken);
            Ok(if is_broken { FailureClass::Internal.exit_code() } else { 0 })
        }
        other => unfinished(other, printer),
    }
}

/// The exit code of a run that has not come to its end.
fn unfinished<O: Write, E: Write>(ending: Ending, printer: &mut Printer<O, E>) -> Result<i32, End> {
    match ending {
        Ending::Done(_) => {
            printer.close().map_err(ended)?;
            Ok(interrupted())
        }
        // With --json the event itself is the last line already.
        Ending::Failed(failure) | Ending::NoModels(failure) => {
            Err(End::Reported(report::failure(&failure, false)))
        }
        Ending::NotSent => {
            printer.end().map_err(ended)?;
            Ok(interrupted())
        }
        Ending::Lost(failure) => {
            printer.end().map_err(ended)?;
            Err(End::Failed(failure))
        }
    }
}

impl<O: Write, E: Write> Sink for Printer<O, E> {
    type Error = PrintError;

    fn event(&mut self, event: &Event, _: &RunLog) -> Result<ControlFlow<()>, PrintError> {
        Printer::event(self, event)?;
        Ok(ControlFlow::Continue(()))
    }
}

pub(crate) fn ended(error: PrintError) -> End {
    match error {
        PrintError::Io(e) => e.into(),
        PrintError::Session(failure) => End::Failed(failure),
    }
}

#[cfg(test)]
mod tests;
