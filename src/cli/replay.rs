//! `specreel replay`: a saved session once more, as it was written, or as fast as wanted.

use std::{
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use super::{
    End,
    args::ColorChoice,
    caption::ended,
    color,
    interrupt::Interrupt,
    interrupted,
    part::Format,
    printer::{Flow, Printer, Style},
    progress::Progress,
    report, runtime, terminal,
};
use crate::record::{
    Event, EventKind, Failure, FailureClass, Session, StopReason,
    session::{RecordedEvent, SessionError},
};

/// A session on stdin is read up to here, in bytes.
const MAX_STDIN: u64 = 1 << 30;

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The session: a file that the studio, --save or --json has written; `-` reads stdin
    pub file: PathBuf,
    /// So many times as fast as it was; 0 is all at once [default: 1; with --json 0]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// Only the run of this number, where the file has several
    #[arg(long, value_name = "N")]
    pub run: Option<u64>,
    /// What to print: text, or subtitles of what says which part of the video it is about
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "json")]
    pub format: Format,
    /// Print the events instead, one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Colour tokens by verdict
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// No progress, legend or statistics on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|s| (0.0..=1e6).contains(s));
    speed.ok_or_else(|| "it must be a number from 0 to 1000000".into())
}

/// Replay a session.
pub fn run(args: &ReplayArgs) -> Result<i32, End> {
    let (session, spoilt) = read(&args.file)?;
    if !args.quiet {
        if let Some((line, problem)) = spoilt.first() {
            let more = if spoilt.len() > 1 {
                format!(", and so are {} more", spoilt.len() - 1)
            } else {
                String::new()
            };
            tell!(
                "warning: {}: line {line} is left out ({}){more}",
                args.file.display(),
                color::plain(problem)
            );
        }
        if session.torn {
            tell!("note: the file ends in the middle of a line: its writer was ended there");
        }
    }
    let mut runs = session.runs();
    if runs.is_empty() {
        return Err(End::Failed(Failure {
            class: FailureClass::Input,
            error: format!("session {}: there is no run in it", args.file.display()),
            hint: Some("its writer was ended before the run began".into()),
        }));
    }
    if let Some(run) = args.run {
        if !runs.contains(&run) {
            let known = runs.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(End::Failed(Failure {
                class: FailureClass::Usage,
                error: format!("session {} has no run {run}", args.file.display()),
                hint: Some(format!("its runs are {known}")),
            }));
        }
        runs = vec![run];
    }
    let spanned = |l: &RecordedEvent| matches!(l.event.kind, EventKind::Started { span: Some(_), .. });
    if args.format.subtitles().is_some() && !session.lines.iter().any(spanned) {
        return Err(End::Failed(Failure {
            class: FailureClass::Usage,
            error: format!(
                "session {} does not say which part of its video it is about",
                args.file.display()
            ),
            hint: Some("subtitles are made of runs with --segments, --start or --end".into()),
        }));
    }
    let speed = args.speed.unwrap_or(if args.json { 0.0 } else { 1.0 });
    let times = session.times();
    let interrupt = Interrupt::default();
    interrupt.listen(|| {})?;
    let runtime = runtime()?;
    let terminal = std::io::stdout().is_terminal();
    let style = Style {
        json: args.json,
        color: terminal::color_stdout(args.color) && !args.json,
        color_talk: terminal::color_stderr(args.color),
        quiet: args.quiet,
        terminal,
        subtitles: args.format.subtitles(),
    };
    let progress = Progress::new(!(args.quiet || args.json && terminal) && speed > 0.0);
    let (out, talk) = (std::io::stdout().lock(), std::io::stderr());
    let mut printer = Printer::new(out, talk, style, progress, None, 0);
    let mut code = 0;
    for (i, run) in runs.iter().enumerate() {
        let lines = session.lines.iter().zip(&times);
        // What was loaded stands before the first run.
        let own: Vec<_> =
            lines.filter(|(l, _)| l.event.run == *run || (i == 0 && l.event.run == 0)).collect();
        if i > 0 && !args.json && !args.quiet && !own.iter().any(|(line, _)| is_piece(&line.event)) {
            tell!("");
        }
        code = code.max(runtime.block_on(play(&mut printer, own.into_iter(), speed, &interrupt))?);
        if interrupt.asked() {
            return Ok(interrupted());
        }
    }
    Ok(code)
}

/// What can be read of a session file, or of stdin (`-`), and the lines that cannot.
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

/// True for the beginning of a run on a piece of a video.
fn is_piece(event: &Event) -> bool {
    matches!(event.kind, EventKind::Started { segment: Some(_), .. })
}

/// Print one run at this speed; its exit code is that of the run itself, a cancelled one is a success here.
async fn play<O: Write, E: Write>(
    printer: &mut Printer<O, E>,
    lines: impl Iterator<Item = (&RecordedEvent, &f64)>,
    speed: f64,
    interrupt: &Interrupt,
) -> Result<i32, End> {
    let mut before = None;
    for (line, at) in lines {
        let wait = before.replace(*at).map_or(0.0, |before| at - before);
        if speed > 0.0 && wait > 0.0 {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(wait / speed / 1000.0)) => {}
                () = interrupt.waited(Duration::ZERO) => {}
            }
        }
        if interrupt.asked() {
            printer.close().map_err(ended)?;
            return Ok(interrupted());
        }
        match printer.event(&line.event).map_err(ended)? {
            Flow::Go => {}
            Flow::Done(StopReason::Eos | StopReason::Length | StopReason::Cancelled) => return Ok(0),
            Flow::Failed(failure) => return Ok(report::failure(&failure, false)),
        }
    }
    printer.close().map_err(ended)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!((speed("0"), speed("2.5")), (Ok(0.0), Ok(2.5)));
        for bad in ["-1", "nan", "inf", "fast", ""] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
