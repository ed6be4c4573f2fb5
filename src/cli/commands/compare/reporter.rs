//! What `compare` reports during its runs: events as JSON lines, progress on stderr, the saved runs.
//!
//! A terminal gets one progress line for all runs, which disappears, and a line with the models. A file or a pipe gets a line
//! for each method, but not for each of its repetitions.

use super::*;
use crate::cli::output::printer::PrintError;
use specreel_client::present::statistics::headline;
use specreel_record::{Stage, Started};

pub struct Reporter<O, E> {
    /// For JSON lines; `None` if stdout is for the table.
    pub out: Option<O>,
    /// For messages; `None` if quiet.
    pub talk: Option<E>,
    pub progress: Progress,
    pub session: Option<OutputFile>,
    pub limit: usize,
    /// Notes and lines that have been printed.
    pub noted: Vec<String>,
}

impl<O: Write, E: Write> Reporter<O, E> {
    /// Report an event, which `log` contains; its run is number `place.0` of `place.1`.
    pub fn event(&mut self, event: &Event, log: &RunLog, place: (usize, usize)) -> Result<(), PrintError> {
        if let Some(session) = &mut self.session {
            session.append(&event_line(event)?).map_err(PrintError::Session)?;
        }
        if let Some(out) = &mut self.out {
            // One write per line, without delay: a reader of the pipe gets whole events as they happen.
            out.write_all(&event_line(event)?)?;
            out.flush()?;
        }
        for note in log.notes() {
            // The runs share their video and models.
            self.say_once("note: ", &format!("{note}\n"));
        }
        match &event.kind {
            EventKind::Started(Started { method, .. }) => {
                let (at, total) = place;
                let name = user_methods::label_of(method);
                if self.progress.is_shown() {
                    self.progress.label(&format!("[{at}/{total}] {}", color::plain(&name)));
                    if let Some(started) =
                        log.started().filter(|s| s.drafter.is_some() && !s.is_self_drafting())
                    {
                        self.say_once("", &format!("{}\n", started.models()));
                    }
                } else {
                    self.say_once(&format!("[{at}/{total}] "), &format!("{}\n", headline(&name, log)));
                }
            }
            EventKind::Stage { stage, done, total, left_ms } => {
                self.progress.stage_with(*stage, *done, *total, *left_ms);
            }
            EventKind::Step(_) => {
                self.progress.stage(Stage::Generate, log.token_count() as u64, self.limit as u64);
            }
            _ if event.ends_run() => self.close()?,
            _ => {}
        }
        Ok(())
    }

    pub fn measuring(&mut self) {
        self.progress.after_runs("measuring the speedups");
    }

    /// Remove the progress line and flush the file of saved runs.
    pub fn close(&mut self) -> Result<(), PrintError> {
        self.progress.clear();
        match &mut self.session {
            Some(session) => session.finish().map_err(PrintError::Session),
            None => Ok(()),
        }
    }

    /// [`Reporter::say`] these words, unless they have been said after another mark.
    fn say_once(&mut self, mark: &str, text: &str) {
        if !self.noted.iter().any(|said| said == text) {
            self.say(&format!("{mark}{text}"));
            self.noted.push(text.to_owned());
        }
    }

    /// Write to stderr. A closed stderr does not stop the runs.
    fn say(&mut self, text: &str) {
        if let Some(talk) = &mut self.talk {
            self.progress.clear();
            let _ = talk.write_all(color::plain(text).as_bytes());
            let _ = talk.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::testing::{done, ready, started, started_plain};

    fn report(kinds: &[EventKind], json: bool, talk: bool) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut reporter = Reporter {
            out: json.then_some(&mut out),
            talk: talk.then_some(&mut err),
            progress: Progress::new(false),
            session: None,
            limit: 8,
            noted: Vec::new(),
        };
        let mut log = RunLog::new(2);
        for kind in kinds {
            let event = Event::new(2, kind.clone());
            log.apply(&event);
            reporter.event(&event, &log, (2, 5)).unwrap();
            if log.is_over() {
                log = RunLog::new(2);
            }
        }
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn every_method_has_one_line_and_a_note_is_printed_once() {
        let note = ready(&["slow"]);
        let first = [note.clone(), started(), done("A"), note, started_plain(), done("A")];
        let again = [started(), done("A"), started_plain()];
        let (out, talk) = report(&[&first[..], &again].concat(), false, true);
        assert_eq!(out, "");
        assert_eq!(
            talk,
            "note: slow\n[2/5] lvspec (lossy): big with small on cpu, q8_0\n[2/5] plain (lossless): big on cpu, q8_0\n"
        );
    }
}
