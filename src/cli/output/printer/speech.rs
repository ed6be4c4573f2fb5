//! Output while a speech model listens, before the run that it listens for.

use super::*;

impl<O: Write, E: Write> Printer<O, E> {
    /// Show how many seconds were listened to for a run, of how many.
    pub fn listening(&mut self, run: u64, done: u64, total: u64) {
        if self.style.json {
            let kind = EventKind::Stage { stage: Stage::Listen, done, total, left_ms: None };
            // A closed output ends the run, which writes to it next.
            let _ = event_line(&Event::new(run, kind)).and_then(|line| self.out.write_all(&line));
        }
        self.progress.stage(Stage::Listen, done, total);
    }

    /// Say what is known of the speech of the next run: an event, or its notes.
    pub fn heard(&mut self, json: &serde_json::Value, notes: &[String]) -> Result<(), PrintError> {
        self.progress.clear();
        if self.style.json {
            writeln!(self.out, "{json}")?;
            self.out.flush()?;
            return Ok(());
        }
        notes.iter().try_for_each(|note| self.note(note))
    }
}
