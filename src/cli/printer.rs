//! Events to text: the caption on stdout as it is written, talk on stderr, or events as JSON lines.
//!
//! A [`Printer`] knows no engine and no terminal; it is given sinks and told what they can do, so that every word of it can
//! be tested.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::{color, progress::Progress, session::SessionFile, stats_text::statistics, user_methods};
use crate::record::{
    Event, EventKind, Failure, Segment, Span, Stage, Stats, Step, StopReason, Subtitles, Token, Verdict,
    subtitles::{cues, stamp},
};

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Events as JSON lines instead of text.
    pub json: bool,
    /// Verdict styles on stdout.
    pub color: bool,
    /// Verdict styles on stderr.
    pub color_talk: bool,
    /// No talk.
    pub quiet: bool,
    /// stdout is a terminal: no control characters, no progress while the caption is written.
    pub terminal: bool,
    /// Captions as subtitles, each when it is whole.
    pub subtitles: Option<Subtitles>,
}

/// Whether the run goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// More events are to come.
    Go,
    /// The run is done; with its reason.
    Done(StopReason),
    /// It failed; the failure has been written to stdout with `json`, but not yet to stderr.
    Failed(Failure),
}

/// What stopped the printing.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// A sink failed; a closed pipe is among these.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The session file failed.
    #[error("{}", .0.error)]
    Session(Failure),
}

/// Prints the events of one run, or of the runs of a video's pieces one after another.
pub struct Printer<O, E> {
    out: O,
    talk: E,
    style: Style,
    progress: Progress,
    session: Option<SessionFile>,
    /// Least strict verdict of tokens whose text has not appeared yet.
    pending: Option<Verdict>,
    /// Style that is switched on in `out`.
    painted: &'static str,
    wrote: bool,
    ends_line: bool,
    lossless: bool,
    limit: usize,
    /// What the run is about.
    span: Option<Span>,
    segment: Option<Segment>,
    /// The account of all pieces so far.
    pieces: Stats,
    /// A piece ended at the limit.
    limited: bool,
    /// Cues written; none before the head.
    cues: Option<usize>,
    /// Notes that were told.
    noted: Vec<String>,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// A printer to these sinks. `limit` is the number of tokens at which the run stops, 0 where that is not known.
    pub fn new(
        out: O,
        talk: E,
        style: Style,
        progress: Progress,
        session: Option<SessionFile>,
        limit: usize,
    ) -> Self {
        Self {
            out,
            talk,
            style,
            progress,
            session,
            pending: None,
            painted: "",
            wrote: false,
            ends_line: true,
            lossless: true,
            limit,
            span: None,
            segment: None,
            pieces: Stats::default(),
            limited: false,
            cues: None,
            noted: Vec::new(),
        }
    }

    /// Print one event.
    ///
    /// # Errors
    /// A sink or the session file failed.
    pub fn event(&mut self, event: &Event) -> Result<Flow, PrintError> {
        if let Some(session) = &mut self.session {
            session.append(event).map_err(PrintError::Session)?;
        }
        if self.style.json {
            let mut line = serde_json::to_vec(event).map_err(io::Error::from)?;
            line.push(b'\n');
            // One write a line, at once: whoever reads a pipe wants whole events as they happen.
            self.out.write_all(&line)?;
            self.out.flush()?;
        }
        match &event.kind {
            EventKind::Prompt { notes, .. } | EventKind::Ready { notes, .. } => {
                for note in notes {
                    // The pieces of a video share what is wrong with it.
                    if !self.noted.contains(note) {
                        self.say(&color::plain(&format!("note: {note}\n")))?;
                        self.noted.push(note.clone());
                    }
                }
                Ok(Flow::Go)
            }
            EventKind::Started {
                method,
                lossless,
                target,
                drafter,
                device,
                dtype,
                before,
                span,
                segment,
                ..
            } => {
                self.lossless = *lossless;
                (self.span, self.segment) = (*span, *segment);
                (self.wrote, self.pending) = (false, None);
                self.begin()?;
                // The pieces of a video are all run in one way.
                if segment.is_some_and(|segment| segment.index > 0) {
                    return Ok(Flow::Go);
                }
                let name = user_methods::label_of(method);
                let mark = if *lossless { "lossless" } else { "lossy" };
                let models = match drafter {
                    Some(drafter) => format!("{target} with {drafter}"),
                    None => target.clone(),
                };
                self.say(&format!("{name} ({mark}): {models} on {device}, {dtype}\n"))?;
                for turn in before {
                    self.say(&color::plain(&format!("> {}\n{}\n", turn.prompt.trim(), turn.answer.trim())))?;
                }
                Ok(Flow::Go)
            }
            EventKind::Stage { stage, done, total } => {
                let streams = self.style.subtitles.is_none() && (self.style.terminal || self.style.json);
                if *stage != Stage::Generate || !streams {
                    self.progress.piece(self.segment);
                    self.progress.stage(*stage, *done, *total);
                }
                Ok(Flow::Go)
            }
            EventKind::Step(step) => self.step(step).map(|()| Flow::Go),
            EventKind::Done { reason, stats, text, .. } => {
                self.done(*reason, stats, text).map(|()| Flow::Done(*reason))
            }
            EventKind::Failed(failure) => {
                self.close()?;
                Ok(Flow::Failed(failure.clone()))
            }
        }
    }

    /// The head of a file of subtitles, the times of a piece.
    fn begin(&mut self) -> io::Result<()> {
        match (self.style.subtitles, self.segment, self.span) {
            _ if self.style.json => {}
            (Some(subtitles), ..) if self.cues.is_none() => {
                self.cues = Some(0);
                self.out.write_all(subtitles.head().as_bytes())?;
                self.out.flush()?;
            }
            (None, Some(_), Some(span)) => {
                self.progress.clear();
                write!(self.out, "{} ", stamp(span))?;
                self.out.flush()?;
                self.ends_line = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// A caption as cues.
    fn cues(&mut self, text: &str) -> io::Result<()> {
        let (Some(subtitles), Some(span)) = (self.style.subtitles, self.span) else { return Ok(()) };
        let mut number = self.cues.unwrap_or_default();
        self.progress.clear();
        for cue in cues(span, text) {
            number += 1;
            self.out.write_all(subtitles.cue(number, &cue).as_bytes())?;
        }
        self.cues = Some(number);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), PrintError> {
        if self.style.json || self.style.subtitles.is_some() {
            return Ok(());
        }
        if self.style.terminal {
            self.progress.clear();
        }
        for token in &step.tokens {
            self.token(token)?;
        }
        self.out.flush()?;
        Ok(())
    }

    fn token(&mut self, token: &Token) -> io::Result<()> {
        // A chunk of text that several tokens make together belongs to the least strict of them.
        let verdict = self.pending.map_or(token.verdict, |p| p.max(token.verdict));
        if token.text.is_empty() {
            self.pending = Some(verdict);
            return Ok(());
        }
        self.pending = None;
        let styled = self.style.color || self.style.terminal;
        let text = if styled { color::plain(&token.text) } else { token.text.as_str().into() };
        // A caption is one text: the space before its first word belongs to the prompt's end.
        let text = if self.wrote { &text } else { text.trim_start() };
        if text.is_empty() {
            return Ok(());
        }
        if self.style.color {
            self.paint(color::sgr(verdict))?;
        }
        self.out.write_all(text.as_bytes())?;
        self.wrote = true;
        self.ends_line = text.ends_with('\n');
        Ok(())
    }

    fn paint(&mut self, sgr: &'static str) -> io::Result<()> {
        if sgr == self.painted {
            return Ok(());
        }
        if !self.painted.is_empty() {
            self.out.write_all(b"\x1b[0m")?;
        }
        if !sgr.is_empty() {
            write!(self.out, "\x1b[{sgr}m")?;
        }
        self.painted = sgr;
        Ok(())
    }

    fn done(&mut self, reason: StopReason, stats: &Stats, text: &str) -> Result<(), PrintError> {
        if self.style.subtitles.is_some() && reason != StopReason::Cancelled {
            // What was cut off in its middle is no caption of its span.
            self.cues(text)?;
        }
        if !self.style.json && self.style.subtitles.is_none() && !self.wrote {
            // No step brought text (a run of nothing but an incomplete character): the whole text is the caption.
            let text = if self.style.color || self.style.terminal { color::plain(text) } else { text.into() };
            self.out.write_all(text.as_bytes())?;
            self.wrote = !text.is_empty();
            self.ends_line = if text.is_empty() { self.ends_line } else { text.ends_with('\n') };
        }
        self.close()?;
        if stats.emitted == 0 && reason == StopReason::Cancelled && self.pieces.emitted == 0 {
            self.say("interrupted\n")?;
            return Ok(());
        }
        let (stats, reason) = match self.segment {
            Some(segment) => {
                self.pieces.add_run(stats);
                self.limited |= reason == StopReason::Length;
                if segment.index + 1 < segment.count && reason != StopReason::Cancelled {
                    return Ok(());
                }
                let limited = self.limited && reason == StopReason::Eos;
                (&self.pieces.clone(), if limited { StopReason::Length } else { reason })
            }
            None => (stats, reason),
        };
        let mut account = String::new();
        if let Some(segment) = self.segment {
            let done = segment.index + usize::from(reason != StopReason::Cancelled);
            let _ = writeln!(account, "pieces    {done} of {}", segment.count);
        }
        if self.style.terminal && !self.style.json && self.wrote {
            // On a screen the caption and what is said about it stand apart.
            account.insert(0, '\n');
        }
        account += &self.legend(stats);
        account += &statistics(reason, stats, self.limit);
        self.say(&account)?;
        Ok(())
    }

    /// End the caption's line and the session.
    ///
    /// # Errors
    /// As [`Printer::event`].
    pub fn close(&mut self) -> Result<(), PrintError> {
        self.progress.clear();
        if !self.style.json {
            self.paint("")?;
            if !self.ends_line {
                self.out.write_all(b"\n")?;
                self.ends_line = true;
            }
        }
        self.out.flush()?;
        if let Some(session) = &mut self.session {
            session.finish().map_err(PrintError::Session)?;
        }
        Ok(())
    }

    /// Verdicts that occurred, with counts, in their own styles.
    fn legend(&self, stats: &Stats) -> String {
        let one = |(verdict, count): (Verdict, u64)| {
            if self.style.color_talk {
                format!("{} {count}", color::paint(verdict, verdict.name()))
            } else if self.style.color {
                format!("{verdict} {count} ({})", color::look(verdict))
            } else {
                format!("{verdict} {count}")
            }
        };
        let parts: Vec<String> = stats.verdicts.iter().map(one).collect();
        if parts.is_empty() {
            return String::new();
        }
        let mark = match (self.lossless, stats.loosened_share()) {
            (true, _) => String::new(),
            (false, 0.0) => " (lossy, but nothing was loosened)".to_owned(),
            (false, share) => format!(" (lossy: {:.0} % differ from the target's choice)", share * 100.0),
        };
        format!("verdicts  {}{mark}\n", parts.join(" · "))
    }

    /// Write to stderr unless told to be quiet. Nobody listening is no reason to stop.
    fn say(&mut self, text: &str) -> io::Result<()> {
        if !self.style.quiet && !self.style.json && !text.is_empty() {
            self.progress.clear();
            let _ = self.talk.write_all(text.as_bytes());
            let _ = self.talk.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "printer_tests.rs"]
mod tests;
