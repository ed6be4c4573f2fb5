//! `specreel replay`: play a saved run at its original speed or another.

use std::io::Read;

use super::caption::{ended, style};
use super::*;
use crate::cli::args::replay::ReplayArgs;
use crate::cli::args::run::OutputArgs;
use crate::cli::output::printer::{Flow, Printer, Style};
use specreel_client::present::player::Player;
use specreel_record::session::{RecordedEvent, SessionError};
use specreel_record::{OnLoop, Pace, Session, Started};

/// Maximum bytes of a session that are read from stdin.
const MAX_STDIN: u64 = 1 << 30;

pub fn run(args: &ReplayArgs) -> Result<i32, End> {
    let (session, invalid) = read(&args.file)?;
    if !args.quiet {
        if let Some((line, problem)) = invalid.first() {
            let more = match invalid.len() {
                1 => String::new(),
                2 => "; 1 more line is skipped".to_owned(),
                n => format!("; {} more lines are skipped", n - 1),
            };
            let file = args.file.display();
            tell!("warning: {file}: line {line} is skipped ({}){more}", color::plain(problem));
        }
        if session.torn {
            tell!("note: the last line of the file is incomplete and is skipped");
        }
    }
    let mut runs = session.runs();
    if runs.is_empty() {
        return Err(End::Failed(Failure::input(
            format!("saved run {}: no runs in it", args.file.display()),
            "the program that wrote it was stopped before its first run",
        )));
    }
    if let Some(run) = args.run {
        if !runs.contains(&run) {
            let known = runs.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(End::Failed(Failure::usage(
                format!("saved run {}: no run {run} in it", args.file.display()),
                format!("expected one of: {known}"),
            )));
        }
        runs = vec![run];
    }
    let spanned =
        |l: &RecordedEvent| matches!(l.event.kind, EventKind::Started(Started { span: Some(_), .. }));
    if args.format.timed().is_some() && !session.lines.iter().any(spanned) {
        return Err(End::Failed(Failure::usage(
            format!("saved run {} does not say which part of its video was captioned", args.file.display()),
            "formats with times need runs made with --segments, --start or --end",
        )));
    }
    let speed = match (args.pace, args.speed) {
        (Some(Pace::Auto), _) => 1.0,
        (Some(Pace::Off), _) => 0.0,
        (Some(Pace::Speed(speed)), _) | (None, Some(speed)) => speed,
        (None, None) if args.json => 0.0,
        (None, None) => 1.0,
    };
    let times = session.times();
    let interrupt = listen(|| {})?;
    let runtime = runtime()?;
    let terminal = std::io::stdout().is_terminal();
    let output =
        OutputArgs { json: args.json, color: args.color, quiet: args.quiet, ..OutputArgs::default() };
    let is_withdrawn = |line: &RecordedEvent| matches!(line.event.kind, EventKind::Retry { .. });
    let on_loop = if session.lines.iter().any(is_withdrawn) { OnLoop::Retry } else { OnLoop::Keep };
    let style = style(&output, args.cues.cues.unwrap_or_default(), on_loop);
    let style = Style { timed: args.format.timed(), steps: args.steps, ..style };
    let progress = Progress::new(!(args.quiet || args.json && terminal) && speed > 0.0);
    let (out, talk) = (std::io::stdout().lock(), std::io::stderr());
    let mut printer = Printer::new(out, talk, style, progress, None, 0);
    let sums_up =
        |l: &RecordedEvent| matches!(l.event.kind, EventKind::Started(Started { summary_of: Some(_), .. }));
    printer.summarizes(session.lines.iter().any(sums_up));
    let mut code = 0;
    for (i, run) in runs.iter().enumerate() {
        let lines = session.lines.iter().zip(&times);
        // Events of loading models precede the first run.
        let own: Vec<_> =
            lines.filter(|(l, _)| l.event.run == *run || (i == 0 && l.event.run == 0)).collect();
        if i > 0 && !args.json && !args.quiet && !own.iter().any(|(line, _)| is_piece(&line.event)) {
            tell!("");
        }
        let speeds = Speeds { stages: speed, steps: speed * slowed(args.pace, *run, &own) };
        printer.measures(own.iter().any(|(line, _)| is_speed(&line.event)));
        code = code.max(runtime.block_on(play(&mut printer, *run, own.into_iter(), speeds, &interrupt))?);
        if interrupt.asked() {
            return Ok(interrupted());
        }
    }
    printer.end().map_err(ended)?;
    Ok(code)
}

/// The readable events of a saved run, or of stdin (`-`), and its invalid lines.
fn read(file: &Path) -> Result<(Session, Vec<(usize, String)>), Failure> {
    let bytes = match file == Path::new("-") {
        true => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MAX_STDIN).read_to_end(&mut bytes);
            read.map_err(|source| SessionError::Read { file: "stdin".into(), source })?;
            bytes
        }
        false => Session::bytes(file)?,
    };
    Ok(Session::salvage(&bytes, file)?)
}

fn is_piece(event: &Event) -> bool {
    matches!(event.kind, EventKind::Started(Started { segment: Some(_), .. }))
}

fn is_speed(event: &Event) -> bool {
    matches!(event.kind, EventKind::Speed { .. })
}

#[derive(Clone, Copy)]
struct Speeds {
    stages: f64,
    steps: f64,
}

/// What the speed of a run's steps is multiplied with.
fn slowed(pace: Option<Pace>, run: u64, lines: &[(&RecordedEvent, &f64)]) -> f64 {
    if pace != Some(Pace::Auto) {
        return 1.0;
    }
    let events = lines.iter().map(|(line, at)| (**at, line.event.clone())).collect();
    Player::recorded(RunLog::new(run), Pace::Auto, events).rate()
}

/// Print one run at these speeds; the exit code is the run's own, but a cancelled run is a success here.
async fn play<O: Write, E: Write>(
    printer: &mut Printer<O, E>,
    run: u64,
    lines: impl Iterator<Item = (&RecordedEvent, &f64)>,
    speeds: Speeds,
    interrupt: &Interrupt,
) -> Result<i32, End> {
    let (mut before, mut log) = (None, RunLog::new(run));
    for (line, at) in lines {
        let wait = before.replace(*at).map_or(0.0, |before| at - before);
        let steps = log.steps().len();
        log.apply(&line.event);
        let speed = if log.steps().len() > steps { speeds.steps } else { speeds.stages };
        // Nothing is shown while a speed is measured, or the run is verified.
        let is_shown = !is_speed(&line.event) && !matches!(line.event.kind, EventKind::Verified(_));
        if speed > 0.0 && wait > 0.0 && is_shown {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(wait / speed / 1000.0)) => {}
                () = interrupt.waited(Duration::ZERO) => {}
            }
        }
        if interrupt.asked() {
            printer.end().map_err(ended)?;
            return Ok(interrupted());
        }
        match printer.event(&line.event).map_err(ended)? {
            Flow::Go => {}
            // Its speed may follow.
            Flow::Done(reason) if reason.is_end() => {}
            Flow::Done(_) => return Ok(0),
            Flow::Failed(failure) => return Ok(report::failure(&failure, false)),
        }
    }
    printer.close().map_err(ended)?;
    printer.report().map_err(ended)?;
    Ok(0)
}
