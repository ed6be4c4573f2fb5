//! What a batch reports: what became of each clip, and how far it is.

use std::time::Duration;

use super::{rows::Caption, *};
use specreel_client::present::{formats, statistics};
use specreel_record::{Event, Stats, Verification};
use specreel_video::Division;

/// Which part of each clip is captioned, and in what pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Where it begins, in seconds.
    pub start: Option<f64>,
    pub end: Option<f64>,
    pub segments: Option<Division>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Captioned(Vec<Caption>),
    /// The models wrote nothing: its captions are written, and empty.
    Empty(Vec<Caption>),
    Skipped,
    /// Another process captions it.
    Busy,
    /// It has none.
    Failed(Failure),
    /// It failed in an earlier run, for this reason, and was not tried again.
    FailedBefore(String),
}

#[derive(Clone, Debug)]
pub struct Ended<'a> {
    pub clip: &'a Clip,
    /// The run of its last caption; 0 if there was none.
    pub run: u64,
    pub outcome: &'a Outcome,
}

/// How far a batch is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub total: usize,
    pub captioned: usize,
    /// Clips of which the models wrote nothing.
    pub empty: usize,
    /// Captioned clips of which an answer is incomplete.
    pub incomplete: usize,
    /// Clips that had captions before.
    pub skipped: usize,
    /// Clips that other processes caption.
    pub busy: usize,
    /// Clips that failed, in this run or in an earlier one.
    pub failed: usize,
    pub stats: Stats,
    /// Clips whose captions were compared with autoregressive decoding.
    pub verified: usize,
    /// Those whose captions differ from it.
    pub differing: Vec<Differing>,
    /// Time since the first clip was begun.
    pub elapsed: Duration,
}

/// A clip whose caption differs from autoregressive decoding.
#[derive(Clone, Debug, PartialEq)]
pub struct Differing {
    pub video: PathBuf,
    /// Where, and whether it was to be expected.
    pub words: String,
    /// The method promised that it does not.
    pub is_broken: bool,
}

impl Progress {
    pub fn over(&self) -> usize {
        self.written() + self.skipped + self.busy + self.failed
    }

    /// Clips that the models have seen to the end.
    pub fn written(&self) -> usize {
        self.captioned + self.empty
    }

    /// Seconds such a clip took; none before the first one.
    pub fn seconds_a_clip(&self) -> Option<f64> {
        (self.written() > 0).then(|| self.elapsed.as_secs_f64() / self.written() as f64)
    }

    /// Time left, if all other clips have to be captioned; none before the first one.
    pub fn left(&self) -> Option<Duration> {
        let seconds = self.seconds_a_clip()? * (self.total - self.over().min(self.total)) as f64;
        Some(Duration::from_secs_f64(seconds))
    }

    /// Count a clip whose runs were verified.
    pub(crate) fn verify(&mut self, clip: &Clip, found: &[Verification]) {
        self.verified += usize::from(!found.is_empty());
        let differs = |found: &&Verification| !found.equality.equal;
        let first = found.iter().find(|found| found.is_broken()).or_else(|| found.iter().find(differs));
        self.differing.extend(first.map(|found| Differing {
            video: clip.path(),
            words: statistics::verification(found),
            is_broken: found.is_broken(),
        }));
    }

    /// Clips that differ although the method promised that they do not.
    pub fn broken(&self) -> usize {
        self.differing.iter().filter(|differing| differing.is_broken).count()
    }

    /// `4 videos verified: identical to autoregressive decoding`; empty if none was.
    pub fn verifications(&self) -> String {
        let clips = formats::plural(self.verified as u64, "video");
        match (self.verified, self.differing.len()) {
            (0, _) => String::new(),
            (_, 0) => format!("{clips} verified: identical to autoregressive decoding"),
            (_, n) => format!(
                "{clips} verified: {n} differ{} from autoregressive decoding",
                if n == 1 { "s" } else { "" }
            ),
        }
    }

    /// `40 videos: 32 captioned, 3 had captions, 5 failed`; `failed` may count more than clips.
    pub fn counts(&self, failed: usize) -> String {
        let mut parts = vec![format!("{} captioned", self.captioned)];
        let mut add = |n: usize, what: &str| {
            if n > 0 {
                parts.push(format!("{n} {what}"));
            }
        };
        add(self.empty, "empty");
        add(self.skipped, "had captions");
        add(self.busy, "captioned by another process");
        add(failed, "failed");
        add(self.total - self.over().min(self.total), "left");
        format!("{}: {}", formats::plural(self.total as u64, "video"), parts.join(", "))
    }

    /// `1.3 s a video, tau 2.31, 812 tokens/s`.
    pub fn speeds(&self) -> String {
        let each = self
            .seconds_a_clip()
            .map_or(String::new(), |seconds| format!("{} a video, ", formats::duration(seconds * 1000.0)));
        let Stats { tau, tokens_per_second, .. } = &self.stats;
        format!("{each}tau {tau:.2}, {} tokens/s", formats::rate(*tokens_per_second))
    }
}

/// How a batch ended.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub progress: Progress,
    /// It was interrupted before the last clip.
    pub interrupted: bool,
    /// Clips were left because of the limit.
    pub limited: bool,
}

/// Why a batch cannot continue.
#[derive(Debug)]
pub enum Halt {
    /// What it reports cannot be written.
    Io(io::Error),
    /// The models, the engine or the disk.
    Failed(Failure),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Receives a batch's progress.
pub trait Report {
    /// An event of a run. Fails if it cannot be reported; the batch ends.
    fn event(&mut self, _event: &Event) -> io::Result<()> {
        Ok(())
    }

    /// A clip is over. Fails if it cannot be reported; the batch ends.
    fn clip(&mut self, _ended: &Ended<'_>, _progress: &Progress) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_name_what_there_is() {
        let mut progress = Progress { total: 1, captioned: 1, ..Progress::default() };
        assert_eq!(progress.counts(0), "1 video: 1 captioned");
        progress = Progress { total: 40, captioned: 28, empty: 2, skipped: 3, failed: 2, ..progress };
        assert_eq!(progress.counts(3), "40 videos: 28 captioned, 2 empty, 3 had captions, 3 failed, 5 left");
        progress.elapsed = Duration::from_secs(60);
        assert_eq!(progress.left(), Some(Duration::from_secs(10)));
    }
}
