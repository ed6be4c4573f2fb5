//! What is said about a batch: a progress line, or lines; failures as they happen; a summary; JSON lines.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Map;

use super::*;
use crate::cli::args::run::OutputArgs;
use specreel_batch::{Ended, Outcome, Progress, Report, Sidecar, Summary, text::one_line};
use specreel_client::present::{estimate, formats::plural};
use specreel_record::{Cues, PromptSeen, Ready};

/// Interval of progress lines without a terminal.
const EVERY: Duration = Duration::from_secs(10);

pub struct Reporter {
    json: bool,
    quiet: bool,
    /// Captions have no file: they go to stdout.
    prints: bool,
    bar: Option<ProgressBar>,
    told: Option<Instant>,
    /// The files next to the videos, and how captions become cues in them.
    sidecar: Option<(Sidecar, Cues)>,
    /// Files of which viewers should know something.
    noted: u64,
    /// Notes on the models that were printed.
    notes: Vec<String>,
}

impl Reporter {
    /// A reporter; `prints` if captions are not written to files.
    pub fn new(output: &OutputArgs, prints: bool, sidecar: Option<(Sidecar, Cues)>) -> Self {
        let quiet = output.quiet || output.json;
        let bar = (!quiet && !ProgressDrawTarget::stderr().is_hidden()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.set_message("loading models");
            bar
        });
        Self { json: output.json, quiet, prints, bar, told: None, sidecar, noted: 0, notes: Vec::new() }
    }

    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A directory that could not be searched.
    pub fn unreadable(&mut self, path: &Path, failure: &Failure) -> io::Result<()> {
        self.above("failed", &failure.error);
        if self.json {
            let line = json!({ "run": 0, "event": "clip", "video": path.to_string_lossy(), "outcome": "failed",
                "error": failure.error, "hint": failure.hint });
            return put(&line);
        }
        Ok(())
    }

    pub fn summary(&mut self, summary: &Summary, unreadable: usize) -> io::Result<()> {
        let progress = &summary.progress;
        let failed = progress.failed + unreadable;
        if self.json {
            let stats = &progress.stats;
            let mut line = json!({
                "run": 0, "event": "batch", "total": progress.total, "captioned": progress.captioned,
                "empty": progress.empty, "skipped": progress.skipped, "busy": progress.busy, "failed": failed,
                "seconds": seconds(progress.elapsed), "tau": stats.tau, "tokens_per_second": stats.tokens_per_second,
                "interrupted": summary.interrupted, "limited": summary.limited,
            });
            if progress.incomplete > 0 {
                line["incomplete"] = progress.incomplete.into();
            }
            if progress.verified > 0 {
                line["verified"] = progress.verified.into();
                line["differing"] =
                    progress.differing.iter().map(|differing| differing.video.to_string_lossy()).collect();
                line["broken"] = progress.broken().into();
            }
            return put(&line);
        }
        if self.quiet {
            return Ok(());
        }
        tell!("{}", progress.counts(failed));
        if progress.written() > 0 {
            tell!("{}", progress.speeds());
        }
        if progress.verified > 0 {
            tell!("{}", progress.verifications());
        }
        if summary.interrupted {
            tell!("interrupted: run the same command again to resume");
        }
        if progress.empty > 0 {
            tell!(
                "hint: the model wrote nothing about {}: change --prompt, or give it more --frames, with --existing overwrite",
                plural(progress.empty as u64, "video")
            );
        }
        if progress.incomplete > 0 {
            tell!(
                "hint: the answer about {} is incomplete: raise --max-new-tokens, with --existing overwrite",
                plural(progress.incomplete as u64, "video")
            );
        }
        match self.sidecar {
            _ if self.noted == 0 => {}
            Some((Sidecar::Youtube, _)) => tell!(
                "note: {} too few chapters for YouTube, which wants at least three of 10 seconds or more",
                if self.noted == 1 { "1 video has".into() } else { format!("{} videos have", self.noted) }
            ),
            _ => tell!(
                "note: captions of {} are too long to read in time: use longer --segments, or ask for shorter captions in --prompt",
                plural(self.noted, "subtitle file")
            ),
        }
        if failed > 0 {
            tell!("hint: --retry-failed tries videos again that failed and have not changed");
        }
        Ok(())
    }

    /// Say something about a clip above the progress line.
    fn above(&self, what: &str, words: &str) {
        let say = || tell!("{what}: {}", color::plain(words));
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.quiet || progress.written() + progress.failed == 0 {
            return;
        }
        let left =
            progress.left().map(|left| format!(", {} left", estimate::left(left.as_secs_f64() * 1000.0)));
        let line = format!(
            "{}/{} videos, {} failed{}{}",
            progress.over(),
            progress.total,
            progress.failed,
            left.unwrap_or_default(),
            if progress.written() > 0 { format!("; {}", progress.speeds()) } else { String::new() },
        );
        match &self.bar {
            Some(bar) => bar.set_message(line),
            None if self.told.is_none_or(|told| told.elapsed() >= EVERY) => {
                self.told = Some(Instant::now());
                tell!("{line}");
            }
            None => {}
        }
    }
}

impl Report for Reporter {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.json {
            return io::stdout().write_all(&event_line(event)?);
        }
        if let EventKind::Ready(Ready { notes, .. }) | EventKind::Prompt(PromptSeen { notes, .. }) =
            &event.kind
            && !self.quiet
        {
            // Of notes that all clips have, one is enough; those on single files would drown the rest.
            for note in notes.iter().filter(|_| event.run <= 1) {
                if !self.notes.contains(note) {
                    self.notes.push(note.clone());
                    self.above("note", note);
                }
            }
        }
        Ok(())
    }

    fn clip(&mut self, ended: &Ended<'_>, progress: &Progress) -> io::Result<()> {
        let Ended { clip, run, outcome } = ended;
        let path = clip.path();
        if let Some(differing) = progress.differing.last().filter(|differing| differing.video == path)
            && (differing.is_broken || !self.quiet)
        {
            let what = if differing.is_broken { "error" } else { "differs" };
            self.above(what, &format!("{}: {}", shown(&path), differing.words));
        }
        match outcome {
            Outcome::Failed(failure) => self.above("failed", &failure.error),
            Outcome::Empty(_) if !self.quiet => self.above("empty", &shown(&path)),
            _ => {}
        }
        if let Outcome::Captioned(captions) | Outcome::Empty(captions) = outcome {
            let note = self.sidecar.and_then(|(sidecar, cues)| sidecar.note(captions, cues));
            self.noted += u64::from(note.is_some());
            if self.prints && !self.json {
                for caption in captions {
                    let line =
                        format!("{}: {}\n", shown(&clip.relative), one_line(&color::plain(&caption.text)));
                    io::stdout().write_all(line.as_bytes())?;
                }
            }
        }
        if self.json {
            let mut line = Map::new();
            line.insert("run".into(), (*run).into());
            line.insert("event".into(), "clip".into());
            line.insert("video".into(), path.to_string_lossy().into());
            let (outcome, error, hint) = match outcome {
                Outcome::Captioned(_) => ("captioned", None, None),
                Outcome::Empty(_) => ("empty", None, None),
                Outcome::Skipped => ("skipped", None, None),
                Outcome::Busy => ("busy", None, None),
                Outcome::Failed(failure) => ("failed", Some(failure.error.clone()), failure.hint.clone()),
                Outcome::FailedBefore(error) => ("failed_before", Some(error.clone()), None),
            };
            line.insert("outcome".into(), outcome.into());
            line.extend(error.map(|error| ("error".to_owned(), error.into())));
            line.extend(hint.map(|hint| ("hint".to_owned(), hint.into())));
            line.insert("over".into(), progress.over().into());
            line.insert("total".into(), progress.total.into());
            return put(&Value::Object(line));
        }
        self.progress(progress);
        Ok(())
    }
}

fn put(line: &Value) -> io::Result<()> {
    io::stdout().write_all(format!("{line}\n").as_bytes())
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
