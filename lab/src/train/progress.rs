//! Progress of a training run.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use super::board::Board;
use crate::args::train::TrainArgs;
use specreel::{
    cli::{
        config::Config,
        output::{color::plain, progress::Progress},
    },
    tell,
};
use specreel_client::{chart::Curve, present::formats::rate};
use specreel_record::{self as record, Failure};
use specreel_train::{Account, News, Point, Stage};

pub struct TrainProgress {
    json: bool,
    quiet: bool,
    recursive: bool,
    captioning: Progress,
    board: Option<Board>,
}

impl TrainProgress {
    /// JSON lines on stdout, a chart on a capable terminal, or plain lines on stderr; nothing if `quiet`.
    pub fn new(args: &TrainArgs, title: &str, recursive: bool, config: &Config) -> Result<Self, Failure> {
        let board = if args.json || args.quiet { None } else { Board::new(title, recursive, config)? };
        let captioning = Progress::new(!args.quiet && board.is_none());
        Ok(Self { json: args.json, quiet: args.quiet, recursive, captioning, board })
    }

    pub fn news(&mut self, news: &News) {
        if let Some(board) = &mut self.board {
            board.news(news);
            return;
        }
        if let News::Captioned { done, of } = news {
            self.captioning.stage(record::Stage::Generate, *done as u64, *of as u64);
            return;
        }
        self.captioning.clear();
        if self.json {
            let line = match news {
                News::Begun { steps } => json!({"run": 0, "event": "begun", "steps": steps}),
                News::Skipped { clip, why } => {
                    json!({"run": 0, "event": "skipped", "clip": clip, "why": why})
                }
                News::Learned(progress) => json!({"run": 0, "event": "progress", "value": progress}),
                News::Saved => json!({"run": 0, "event": "saved"}),
                News::Captioned { .. } => return,
            };
            // A closed stdout does not stop training.
            let _ = writeln!(io::stdout(), "{line}");
        }
        if self.quiet {
            return;
        }
        match news {
            News::Begun { steps: 0 } => tell!("training a draft head on the target's captions"),
            News::Begun { steps } => tell!("resuming after {}", self::steps(*steps)),
            News::Skipped { clip, why } => tell!("{}", skipped(clip, why)),
            News::Learned(p) => {
                let own = format!(", own outputs {:.1} %", p.point.own_agreement * 100.0);
                tell!(
                    "{:>6} {:<6} loss {:.3}  agreement {:.1} %{}  {} tokens/s  {} left",
                    p.point.step,
                    stage(p.stage),
                    p.point.loss,
                    p.point.agreement * 100.0,
                    if self.recursive { &own } else { "" },
                    rate(p.tokens_per_second),
                    time(p.seconds_left)
                );
            }
            News::Saved | News::Captioned { .. } => {}
        }
    }

    pub fn clear(&mut self) {
        self.captioning.clear();
    }

    /// Print the summary of a finished run; write the curve as text and as a file.
    pub fn finished(&self, out: &Path, account: &Account) -> io::Result<()> {
        let curve = curve(&account.curve, self.recursive);
        std::fs::write(out.join("curve.svg"), curve.svg())?;
        self.end("finished", account)?;
        if !self.quiet {
            // A single point is not a curve.
            if self.board.is_none() && account.curve.len() > 1 {
                tell!("{}", curve.text(60, 12).trim_end());
            }
            tell!("use it: specreel caption VIDEO --drafter {}", out.display());
        }
        Ok(())
    }

    pub fn stopped(&self, out: &Path, account: &Account) -> io::Result<()> {
        self.end("stopped", account)?;
        if !self.quiet {
            tell!("checkpoint saved in {}; run the same command to resume", out.display());
        }
        Ok(())
    }

    fn end(&self, how: &str, account: &Account) -> io::Result<()> {
        if self.json {
            writeln!(io::stdout(), "{}", json!({"run": 0, "event": how, "account": account}))?;
        }
        if !self.quiet {
            let skipped = match account.skipped {
                0 => String::new(),
                1 => ", 1 clip skipped".into(),
                n => format!(", {n} clips skipped"),
            };
            tell!(
                "{how} after {} ({} of text), {} tokens, {}{skipped}",
                steps(account.steps),
                account.text_steps,
                account.tokens,
                time(account.seconds)
            );
        }
        Ok(())
    }
}

/// The agreement between draft head and target over the steps.
pub(crate) fn curve(points: &[Point], recursive: bool) -> Curve {
    let line = |name: &str, value: fn(&Point) -> f64| {
        (name.to_owned(), points.iter().map(|p| (p.step as f64, value(p) * 100.0)).collect())
    };
    let mut lines = vec![line("on the target's states", |p| p.agreement)];
    if recursive {
        lines.push(line("on own outputs", |p| p.own_agreement));
    }
    Curve {
        title: "Agreement with the target while training".into(),
        x: "steps".into(),
        y: "% of tokens".into(),
        lines,
    }
}

pub(crate) fn skipped(clip: &str, why: &str) -> String {
    format!("skipped {}: {}", plain(clip), plain(why))
}

pub(crate) fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Text => "text",
        Stage::Visual => "visual",
    }
}

pub(crate) fn steps(n: usize) -> String {
    if n == 1 { "1 step".into() } else { format!("{n} steps") }
}

pub(crate) fn time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown time".into();
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_text() {
        assert_eq!((steps(1), steps(8)), ("1 step".into(), "8 steps".into()));
        assert_eq!(time(0.4), "0 s");
        assert_eq!(time(75.0), "1 min 15 s");
        assert_eq!(time(7290.0), "2 h 01 min");
        assert_eq!(time(f64::NAN), "unknown time");
    }

    #[test]
    fn the_curve_has_both_lines() {
        let point = Point { step: 10, agreement: 0.5, own_agreement: 0.25, ..Default::default() };
        assert_eq!(super::curve(&[point], false).lines.len(), 1);
        let curve = curve(&[point], true);
        assert_eq!(curve.lines[0].1, [(10.0, 50.0)]);
        assert_eq!(curve.lines[1].1, [(10.0, 25.0)]);
    }
}
