//! Events to text: the caption on stdout as it is written, messages on stderr, or events as JSON lines.
//!
//! A [`Printer`] knows no engine and no terminal: it writes to the sinks that it is given, in the style that they support.

mod report;
mod speech;

use std::io::{self, Write};

pub use super::style::{Style, Timed};
use super::{color, new_file::OutputFile, progress::Progress, session::event_line, steps::Steps};
use specreel_batch::{Polish, text::prefixed};
use specreel_client::present::export::subtitles::{Cue, Cutter, stamp};
use specreel_client::present::export::{Subtitles, timed};
use specreel_client::present::wrap::{Wrapper, hang};
use specreel_client::present::{estimate, statistics::headline, verdicts::Role};
use specreel_client::user_methods;
use specreel_record::{
    Event, EventKind, Failure, RunLog, Segment, Span, Stage, Started, Stats, StopReason, Verdict,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// It is active: more events will come.
    Go,
    Done(StopReason),
    /// It failed; the failure has been written to stdout with `json`, but not yet to stderr.
    Failed(Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{}", .0.error)]
    Session(Failure),
}

const NAMES: usize = 10;

/// Prints the events of one run, or of the runs on a video's pieces one after another.
pub struct Printer<O, E> {
    out: O,
    talk: E,
    style: Style,
    progress: Progress,
    session: Option<OutputFile>,
    /// The current run, after those on earlier pieces of the same video; of a stream, only after the first.
    runs: Vec<RunLog>,
    /// How many pieces of the stream are not among them, and their statistics.
    dropped: (usize, Stats),
    /// The style that is switched on in `out`.
    painted: String,
    ends_line: bool,
    wrapper: Wrapper<Verdict>,
    stamp: Option<String>,
    limit: usize,
    /// The speed of the current run is measured after it: its statistics wait for that.
    measures: bool,
    /// Statistics that are still to be printed, and how the run ended.
    due: Option<StopReason>,
    /// Number of cues written; none before the file's header.
    cues: Option<usize>,
    cutter: Cutter,
    /// Captions that are written at the end, and the summary of all.
    outline: Vec<(Span, String)>,
    summary: Option<String>,
    /// A summary follows the pieces.
    summarizes: bool,
    /// What is changed in captions with times.
    polish: Polish,
    steps: Steps,
    /// The current run's caption has been held back, and is not written yet.
    held: bool,
    /// Notes that wait for the end of the caption.
    later: Vec<String>,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// A printer to these sinks. `limit` is the maximum number of tokens of a run, 0 if unknown.
    pub fn new(
        out: O,
        talk: E,
        style: Style,
        progress: Progress,
        session: Option<OutputFile>,
        limit: usize,
    ) -> Self {
        Self {
            out,
            talk,
            style,
            progress,
            session,
            runs: vec![RunLog::new(0)],
            dropped: Default::default(),
            painted: String::new(),
            ends_line: true,
            wrapper: Wrapper::new(style.columns),
            stamp: None,
            limit,
            measures: false,
            due: None,
            cues: None,
            cutter: Cutter::new(style.cues),
            outline: Vec::new(),
            summary: None,
            summarizes: false,
            polish: Polish::default(),
            steps: Steps::new(style.color_talk, style.columns_talk),
            held: false,
            later: Vec::new(),
        }
    }

    /// Save the following events in this file.
    pub fn save_to(&mut self, session: Option<OutputFile>) {
        self.session = session;
    }

    pub fn event(&mut self, event: &Event) -> Result<Flow, PrintError> {
        if matches!(event.kind, EventKind::Retry { .. }) {
            self.withdraw()?;
        }
        if let Some(session) = &mut self.session {
            session.append(&event_line(event)?).map_err(PrintError::Session)?;
        }
        if self.style.json {
            // One write per line, without delay: a reader of the pipe gets whole events as they happen.
            self.out.write_all(&event_line(event)?)?;
            self.out.flush()?;
        }
        if event.run != 0 && self.run().run() != 0 && event.run != self.run().run() {
            self.runs.push(RunLog::new(event.run));
        }
        let current = self.runs.len() - 1;
        let added = self.runs[current].apply(event);
        for note in added.notes {
            let note = &self.runs[current].notes()[note];
            // The pieces of a video share their notes.
            if self.runs[..current].iter().any(|run| run.notes().contains(note)) {
                continue;
            }
            let line = color::plain(&format!("note: {note}\n")).into_owned();
            match (self.ends_line, self.segment()) {
                (true, _) => self.say(&line)?,
                // It would tear the caption apart.
                (false, None) => self.later.push(line),
                // Details of one piece of many.
                (false, Some(_)) => {}
            }
        }
        if self.holds() {
            self.held |= !added.chunks.is_empty();
        } else if !self.style.json && self.style.timed.is_none() {
            self.chunks(added.chunks)?;
        }
        if self.style.steps && !self.style.json {
            let lines = self.steps.lines(&self.runs[current]);
            self.tell(&lines);
        }
        match &event.kind {
            EventKind::Started(Started { method, .. }) => {
                self.started(&user_methods::label_of(method))?;
                Ok(Flow::Go)
            }
            EventKind::Estimate(estimate) => {
                // Of a video's pieces, the first one says it.
                let line = estimate::line(estimate).filter(|_| current == 0 && self.progress.is_shown());
                self.say(&line.map(|line| line + "\n").unwrap_or_default())?;
                Ok(Flow::Go)
            }
            EventKind::Stage { stage, done, total, left_ms } => {
                // Thoughts are not printed, so the progress shows that the run continues.
                let thinks = self.run().chunks().is_empty() && !self.run().thinking().is_empty();
                let streams =
                    self.style.timed.is_none() && (self.style.json || (self.style.terminal && !thinks));
                if *stage != Stage::Generate || !streams {
                    self.progress.piece(self.segment());
                    self.progress.stage_with(*stage, *done, *total, *left_ms);
                }
                Ok(Flow::Go)
            }
            EventKind::Done { reason, .. } => {
                self.done(*reason)?;
                Ok(Flow::Done(*reason))
            }
            EventKind::Failed(failure) => {
                self.end()?;
                Ok(Flow::Failed(failure.clone()))
            }
            EventKind::Verified(found) => {
                self.verified(found)?;
                Ok(Flow::Go)
            }
            EventKind::Edited { text } => {
                self.say(&color::plain(&format!("note: edited later: {}\n", text.trim())))?;
                Ok(Flow::Go)
            }
            _ => Ok(Flow::Go),
        }
    }

    fn run(&self) -> &RunLog {
        &self.runs[self.runs.len() - 1]
    }

    fn span(&self) -> Option<Span> {
        self.run().started()?.span
    }

    fn segment(&self) -> Option<Segment> {
        self.run().started()?.segment
    }

    fn started(&mut self, name: &str) -> Result<(), PrintError> {
        // Earlier runs only matter if they are pieces of the same video.
        let group = self.segment().map(|segment| segment.first);
        let before = self.runs.iter().rev().nth(1).and_then(RunLog::started);
        if group.is_none() || before.is_none_or(|before| before.segment.map(|s| s.first) != group) {
            self.runs.drain(..self.runs.len() - 1);
            self.end_cues()?;
            if self.is_summary() {
                if self.style.timed.is_none() && !self.style.json {
                    self.out.write_all(b"\n")?;
                }
            } else {
                self.end_outline()?;
            }
        }
        // A stream may have any number of pieces.
        if self.segment().is_some_and(|segment| segment.count == 0) && self.runs.len() > 2 {
            let before = self.runs.remove(1);
            self.dropped.0 += 1;
            self.dropped.1.add_run(before.stats());
        }
        self.begin()?;
        // All pieces of a video run with the same models and method.
        if self.runs.len() > 1 {
            return Ok(());
        }
        let mut text = headline(name, self.run()) + "\n";
        for turn in self.run().started().into_iter().flat_map(|started| &started.before) {
            text += &format!("> {}\n{}\n", turn.prompt.trim(), turn.answer.trim());
        }
        self.say(&color::plain(&text))?;
        Ok(())
    }

    /// The header of a subtitle file, the times of a piece.
    fn begin(&mut self) -> io::Result<()> {
        match (self.style.timed, self.segment(), self.span()) {
            _ if self.style.json => {}
            (Some(Timed::Subtitles(subtitles)), ..) if self.cues.is_none() => {
                self.cues = Some(0);
                self.out.write_all(subtitles.head().as_bytes())?;
                self.out.flush()?;
            }
            // Written with the first words: until then the line belongs to the progress.
            (None, Some(_), Some(span)) => self.stamp = Some(stamp(span) + " "),
            _ => {}
        }
        Ok(())
    }

    /// The times of a piece, if they are not on its line yet.
    fn stamp(&mut self) -> io::Result<()> {
        let Some(stamp) = self.stamp.take() else { return Ok(()) };
        self.progress.clear();
        self.out.write_all(stamp.as_bytes())?;
        self.wrapper.skip(stamp.len());
        self.ends_line = false;
        Ok(())
    }

    /// The caption, or its events, with times: cues as far as their times are certain.
    fn caption_timed(&mut self) -> io::Result<()> {
        let (Some(format), Some(span)) = (self.style.timed, self.span()) else { return Ok(()) };
        let text = self.run().text();
        if self.is_summary() {
            self.summary = Some(text.to_owned());
            return Ok(());
        }
        let prefix = self.polish.prefix.as_deref();
        let events = timed(span, &self.polish.cleaned(text).text);
        let events = events.into_iter().map(|(span, text)| (span, prefixed(prefix, text)));
        let events: Vec<_> = events.collect();
        match format {
            Timed::Subtitles(subtitles) => {
                for (span, text) in events {
                    let cues = self.cutter.push(span, &text);
                    self.write_cues(subtitles, &cues)?;
                }
            }
            Timed::Outline(_) => self.outline.extend(events),
        }
        Ok(())
    }

    fn is_summary(&self) -> bool {
        self.run().started().is_some_and(|started| started.summary_of.is_some())
    }

    fn end_cues(&mut self) -> io::Result<()> {
        let mut cutter = std::mem::replace(&mut self.cutter, Cutter::new(self.style.cues));
        if let Some(Timed::Subtitles(subtitles)) = self.style.timed {
            self.write_cues(subtitles, &cutter.finish())?;
        }
        let note = cutter.note().map(|note| format!("note: {note}\n"));
        self.say(&note.unwrap_or_default())
    }

    /// Write the captions that are written at the end.
    fn end_outline(&mut self) -> io::Result<()> {
        let (captions, summary) = (std::mem::take(&mut self.outline), self.summary.take());
        let Some(Timed::Outline(format)) = self.style.timed.filter(|_| !captions.is_empty()) else {
            return Ok(());
        };
        self.progress.clear();
        self.out.write_all(format.file(&captions, summary.as_deref()).as_bytes())?;
        self.out.flush()?;
        let note = format.note(&captions).map(|note| format!("note: {note}\n"));
        self.say(&note.unwrap_or_default())
    }

    fn write_cues(&mut self, subtitles: Subtitles, cues: &[Cue]) -> io::Result<()> {
        if cues.is_empty() {
            return Ok(());
        }
        let mut number = self.cues.unwrap_or_default();
        self.progress.clear();
        for cue in cues {
            number += 1;
            self.out.write_all(subtitles.cue(number, cue).as_bytes())?;
        }
        self.cues = Some(number);
        Ok(())
    }

    fn chunks(&mut self, which: std::ops::Range<usize>) -> io::Result<()> {
        if which.is_empty() {
            return Ok(());
        }
        if self.style.terminal {
            self.progress.clear();
        }
        self.stamp()?;
        for at in which {
            let chunk = &self.run().chunks()[at];
            let (verdict, raw) = (chunk.verdict, chunk.text.clone());
            let text = if self.style.color || self.style.terminal {
                color::plain(&raw)
            } else {
                raw.as_str().into()
            };
            if !text.is_empty() {
                self.ends_line = text.ends_with('\n');
            }
            let ready = self.wrapper.push(verdict, &text);
            self.pieces(ready)?;
        }
        self.out.flush()
    }

    fn pieces(&mut self, pieces: Vec<(Verdict, String)>) -> io::Result<()> {
        for (verdict, text) in pieces {
            if self.style.color {
                self.paint(&Role::of(verdict).look().sgr(true))?;
            }
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// True if the caption is written at the end: it may be withdrawn, or the lines of its steps would tear it apart. That stdout is no
    /// terminal does not help those: `| tee` shows both on one screen, `2>&1` writes them to one file.
    fn holds(&self) -> bool {
        (self.style.steps || self.style.late) && !self.style.json && self.style.timed.is_none()
    }

    /// What was written of the caption does not count: end its line, if it is on one.
    fn withdraw(&mut self) -> io::Result<()> {
        self.held = false;
        if self.style.json || self.ends_line {
            return Ok(());
        }
        let rest = self.wrapper.finish();
        self.pieces(rest)?;
        self.paint("")?;
        self.out.write_all(b"\n")?;
        self.out.flush()?;
        self.ends_line = true;
        self.wrapper = Wrapper::new(self.style.columns);
        self.begin()
    }

    /// Write a caption that was held back.
    fn release(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        if self.style.terminal {
            self.out.write_all(b"\n")?;
        }
        self.chunks(0..self.run().chunks().len())
    }

    fn paint(&mut self, sgr: &str) -> io::Result<()> {
        if sgr == self.painted {
            return Ok(());
        }
        if !self.painted.is_empty() {
            self.out.write_all(b"\x1b[0m")?;
        }
        if !sgr.is_empty() {
            write!(self.out, "\x1b[{sgr}m")?;
        }
        sgr.clone_into(&mut self.painted);
        Ok(())
    }

    fn done(&mut self, reason: StopReason) -> Result<(), PrintError> {
        if !self.style.json && reason != StopReason::Cancelled {
            // A cancelled run gives no cue: its caption is incomplete.
            self.caption_timed()?;
            if !self.held {
                self.stamp()?;
            }
        }
        match self.segment() {
            Some(piece) if reason != StopReason::Cancelled && (piece.continues() || self.summarizes) => {
                self.close()?
            }
            _ => self.end()?,
        }
        self.due = Some(reason);
        if self.measures && reason != StopReason::Cancelled {
            self.progress.after_runs("measuring the speedup");
            return Ok(());
        }
        self.report()
    }

    /// Expect that the speed of the next run is measured: its statistics wait for [`Printer::report`].
    pub fn measures(&mut self, measures: bool) {
        self.measures = measures;
    }

    /// Expect a verification of the run that has ended.
    pub fn verifies(&mut self) {
        self.progress.after_runs("decoding again without drafts");
    }

    /// Expect a run that sums up the pieces after them.
    pub fn summarizes(&mut self, summarizes: bool) {
        self.summarizes = summarizes;
    }

    /// Change captions with times like this before they are written.
    pub fn polishes(&mut self, polish: Polish) {
        self.polish = polish;
    }

    /// What happened to the stream that the pieces are parts of: a line of JSON, or a note.
    pub fn news(&mut self, json: &serde_json::Value, note: &str) -> Result<(), PrintError> {
        if self.style.json {
            writeln!(self.out, "{json}")?;
            self.out.flush()?;
        }
        self.note(note)
    }

    /// Say something about the video.
    pub fn note(&mut self, note: &str) -> Result<(), PrintError> {
        Ok(self.say(&color::plain(&format!("note: {note}\n")))?)
    }

    /// End the output: no piece of the video follows.
    pub fn end(&mut self) -> Result<(), PrintError> {
        self.end_cues()?;
        self.end_outline()?;
        self.close()
    }

    pub fn close(&mut self) -> Result<(), PrintError> {
        self.progress.clear();
        self.release()?;
        if !self.style.json {
            let rest = self.wrapper.finish();
            self.pieces(rest)?;
            self.paint("")?;
            if !self.ends_line {
                self.out.write_all(b"\n")?;
                self.ends_line = true;
            }
        }
        self.out.flush()?;
        for note in std::mem::take(&mut self.later) {
            self.say(&note)?;
        }
        if let Some(session) = &mut self.session {
            session.finish().map_err(PrintError::Session)?;
        }
        Ok(())
    }

    /// Write to stderr, unless quiet. A closed stderr does not stop the run.
    fn say(&mut self, text: &str) -> io::Result<()> {
        if !self.style.quiet && !self.style.json {
            self.tell(text);
        }
        Ok(())
    }

    fn tell(&mut self, text: &str) {
        if !text.is_empty() {
            self.progress.clear();
            let text = hang(text, self.style.columns_talk, 0);
            let _ = self.talk.write_all(text.as_bytes());
            let _ = self.talk.flush();
        }
    }
}

#[cfg(test)]
mod tests;
