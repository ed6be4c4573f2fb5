//! What is said while the runs go on: events as JSON lines, progress and one line a run on stderr, the session file.

use std::io::{self, Write};

use crate::{
    cli::{color, printer::PrintError, progress::Progress, session::SessionFile, user_methods},
    record::{Event, EventKind, Stage},
};

/// Tells the events of several runs.
pub struct Reporter<O, E> {
    /// Takes JSON lines; none where stdout is for the table.
    pub out: Option<O>,
    /// Takes the talk; none to be quiet.
    pub talk: Option<E>,
    /// The progress line.
    pub progress: Progress,
    /// Keeps the events.
    pub session: Option<SessionFile>,
    /// Tokens at which a run stops.
    pub limit: usize,
    /// Tokens of the running run.
    pub written: u64,
    /// Notes that were told.
    pub noted: Vec<String>,
}

impl<O: Write, E: Write> Reporter<O, E> {
    /// Tell one event of the run at this place of so many.
    ///
    /// # Errors
    /// A sink or the session file failed.
    pub fn event(&mut self, event: &Event, place: (usize, usize)) -> Result<(), PrintError> {
        if let Some(session) = &mut self.session {
            session.append(event).map_err(PrintError::Session)?;
        }
        if let Some(out) = &mut self.out {
            let mut line = serde_json::to_vec(event).map_err(io::Error::from)?;
            line.push(b'\n');
            // One write a line, at once: whoever reads a pipe wants whole events as they happen.
            out.write_all(&line)?;
            out.flush()?;
        }
        match &event.kind {
            EventKind::Started { method, lossless, target, drafter, device, dtype, .. } => {
                let name = user_methods::label_of(method);
                let mark = if *lossless { "lossless" } else { "lossy" };
                let with = drafter.as_ref().map(|d| format!(" with {d}")).unwrap_or_default();
                let (at, total) = place;
                self.say(&format!("[{at}/{total}] {name} ({mark}): {target}{with} on {device}, {dtype}\n"));
                self.written = 0;
            }
            EventKind::Stage { stage, done, total } => self.progress.stage(*stage, *done, *total),
            EventKind::Step(step) => {
                self.written += step.tokens.len() as u64;
                self.progress.stage(Stage::Generate, self.written, self.limit as u64);
            }
            EventKind::Done { .. } | EventKind::Failed(_) => self.close()?,
            EventKind::Ready { notes, .. } | EventKind::Prompt { notes, .. } => {
                for note in notes {
                    if !self.noted.contains(note) {
                        self.say(&format!("note: {note}\n"));
                        self.noted.push(note.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Take the progress line away and secure what was kept.
    ///
    /// # Errors
    /// As [`Reporter::event`].
    pub fn close(&mut self) -> Result<(), PrintError> {
        self.progress.clear();
        match &mut self.session {
            Some(session) => session.finish().map_err(PrintError::Session),
            None => Ok(()),
        }
    }

    /// Nobody listening is no reason to stop.
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
    use crate::record::StopReason;

    fn started(lossless: bool, drafter: Option<&str>) -> Event {
        Event::new(
            2,
            EventKind::Started {
                method: serde_json::json!({"name": "some"}),
                lossless,
                target: "big".into(),
                drafter: drafter.map(Into::into),
                device: "cpu".into(),
                dtype: "q8_0".into(),
                video: "v.mp4".into(),
                prompt: "p".into(),
                before: vec![],
                span: None,
                segment: None,
            },
        )
    }

    fn tell(events: &[Event], json: bool, talk: bool) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut reporter = Reporter {
            out: json.then_some(&mut out),
            talk: talk.then_some(&mut err),
            progress: Progress::new(false),
            session: None,
            limit: 8,
            written: 0,
            noted: Vec::new(),
        };
        for event in events {
            reporter.event(event, (2, 5)).unwrap();
        }
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn every_run_has_one_line_of_talk() {
        let events = [
            started(false, Some("small")),
            Event::new(
                2,
                EventKind::Done {
                    reason: StopReason::Eos,
                    text: "A".into(),
                    ids: vec![1],
                    stats: Box::default(),
                },
            ),
            started(true, None),
        ];
        let (out, talk) = tell(&events, false, true);
        assert_eq!(out, "");
        assert_eq!(
            talk,
            "[2/5] some (lossy): big with small on cpu, q8_0\n[2/5] some (lossless): big on cpu, q8_0\n"
        );
    }

    #[test]
    fn json_has_the_events_as_they_are() {
        let events = [started(true, None)];
        let (out, talk) = tell(&events, true, false);
        assert_eq!((serde_json::from_str::<Event>(&out).unwrap(), talk.as_str()), (events[0].clone(), ""));
    }
}
