//! An answer as it grows: events of a run become text, tokens and a report.

use crate::api::{
    CachedTokens, Logprob, PieceReport, PromptReport, ReasoningTokens, Report, RowReport, RunReport,
    TokenReport, TopLogprob, Usage,
};
use specreel_client::present::ledger::{self, Mark};
use specreel_client::present::{reason::reason, statistics::account, verdicts::Role};
use specreel_record::{Event, EventKind, Failure, Pieces, RunLog, RunState, StopReason, Token};

/// The log-probability of what is less likely than can be said, as OpenAI writes it.
const UNLIKELY: f32 = -9999.0;

/// The marks around what a model thinks, which are no text of it.
const MARKS: [&str; 4] = ["<think>", "</think>", "<|channel>", "<channel|>"];

#[derive(Debug, Default)]
pub struct Added {
    pub text: String,
    pub thinking: String,
    pub tokens: Vec<TokenReport>,
    pub logprobs: Vec<Logprob>,
    pub row: Option<RowReport>,
}

impl Added {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.tokens.is_empty()
    }

    /// Take in what came later.
    pub fn append(&mut self, later: Self) {
        self.text.push_str(&later.text);
        self.thinking.push_str(&later.thinking);
        self.tokens.extend(later.tokens);
        self.logprobs.extend(later.logprobs);
    }

    /// What was thought, and then what was said; the tokens are reported with the last of them.
    pub fn pieces(self) -> Vec<Piece> {
        let Self { text, thinking, tokens, logprobs, row } = self;
        let is_thought = text.is_empty() && tokens.last().is_some_and(|token| token.thinking);
        let report = Some(Report { tokens, row, run: None });
        let thoughts = |text, report| Piece { thinking: true, text, logprobs: Vec::new(), report };
        if is_thought {
            return vec![thoughts(thinking, report)];
        }
        let before = (!thinking.is_empty()).then(|| thoughts(thinking, None));
        before.into_iter().chain([Piece { thinking: false, text, logprobs, report }]).collect()
    }
}

/// What a step added to the answer, or to what is thought before it.
pub struct Piece {
    pub thinking: bool,
    pub text: String,
    pub logprobs: Vec<Logprob>,
    pub report: Option<Report>,
}

pub struct Answer {
    log: RunLog,
    /// What of the request has no effect, or could not be read.
    notes: Vec<String>,
    /// How many of the most likely tokens to report; none reports no log-probabilities.
    logprobs: Option<usize>,
    tokens: usize,
    thoughts: usize,
    /// Whether to report what a page shows.
    display: bool,
}

impl Answer {
    /// The answer of a run.
    pub fn new(run: u64, notes: Vec<String>, logprobs: Option<usize>, display: bool) -> Self {
        Self { log: RunLog::new(run), notes, logprobs, tokens: 0, thoughts: 0, display }
    }

    pub fn apply(&mut self, event: &Event) -> Added {
        let chunks = self.log.apply(event).chunks;
        let mut added = Added::default();
        for chunk in &self.log.chunks()[chunks] {
            added.text.push_str(&chunk.text);
        }
        if matches!(event.kind, EventKind::Retry { .. }) {
            (self.tokens, self.thoughts) = (0, 0);
        }
        for thought in &self.log.thinking()[self.thoughts..] {
            if !MARKS.contains(&thought.text.trim()) {
                added.thinking.push_str(&thought.text);
            }
        }
        self.thoughts = self.log.thinking().len();
        let first = self.tokens;
        let new: Vec<&Token> = self.log.tokens().skip(first).collect();
        self.tokens += new.len();
        for (number, token) in (first..).zip(new) {
            let Token { text, verdict, thinking, .. } = token;
            let placed = self.log.token(number).filter(|_| self.display);
            added.tokens.push(TokenReport {
                text: text.clone(),
                verdict: *verdict,
                role: placed.as_ref().map(|_| Role::of(*verdict).look().name),
                why: placed.map(|placed| format!("{verdict}: {}", reason(&placed))),
                thinking: *thinking,
            });
            if let Some(count) = self.logprobs.filter(|_| !thinking) {
                added.logprobs.push(logprob(token, count));
            }
        }
        if self.display && matches!(event.kind, EventKind::Step(_)) {
            let steps = self.log.steps().len();
            added.row = ledger::rows(&self.log, steps.saturating_sub(1)..steps).pop().map(row);
        }
        added
    }

    /// Tokens so far, thoughts included.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// True once the run has ended.
    pub fn is_over(&self) -> bool {
        self.log.is_over()
    }

    /// Why the run failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        self.log.failure()
    }

    /// `stop` or `length`; none if the run did not come to its end.
    pub fn finish_reason(&self) -> Option<&'static str> {
        match self.log.state() {
            RunState::Done(StopReason::Eos | StopReason::Loop | StopReason::Stop) => Some("stop"),
            RunState::Done(StopReason::Length) => Some("length"),
            _ => None,
        }
    }

    /// Which of the texts that end an answer has ended it.
    pub fn stopped_by<'a>(&self, stop: &'a [String]) -> Option<&'a str> {
        let RunState::Done(StopReason::Stop) = self.log.state() else { return None };
        let written: String =
            self.log.tokens().filter(|token| !token.thinking).map(|token| token.text.as_str()).collect();
        let at = |text: &&String| written.find(text.as_str()).unwrap_or(usize::MAX);
        stop.iter().min_by_key(at).map(String::as_str)
    }

    pub fn log(&self) -> &RunLog {
        &self.log
    }

    pub fn usage(&self) -> Usage {
        let prompt = self.log.prompt();
        let prompt_tokens = prompt.map_or(0, |prompt| prompt.prompt_ids.len() as u64);
        let cached_tokens = prompt.map_or(0, |prompt| prompt.cached_tokens as u64);
        let completion_tokens = self.tokens as u64;
        let reasoning_tokens = self.log.tokens().filter(|token| token.thinking).count() as u64;
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: CachedTokens { cached_tokens },
            completion_tokens_details: ReasoningTokens { reasoning_tokens },
        }
    }

    /// The figures of the run as files have them, without what the client knows.
    fn account(&self) -> Vec<(&'static str, String)> {
        if !self.display {
            return Vec::new();
        }
        let rows = account(&Pieces::of([&self.log])).into_iter();
        rows.filter(|(name, _)| !["video", "created by"].contains(name)).collect()
    }

    /// How the whole answer was made, with these tokens.
    pub fn report(&self, tokens: Vec<TokenReport>) -> Report {
        let (stats, prompt) = (self.log.stats(), self.log.prompt());
        let run = RunReport {
            method: self.log.name().to_owned(),
            lossless: self.log.is_lossless(),
            reason: match self.log.state() {
                RunState::Done(reason) => Some(*reason),
                _ => None,
            },
            verdicts: stats.verdicts.clone(),
            tau: stats.tau,
            emitted_per_step: stats.emitted_per_step,
            steps: stats.steps,
            tokens_per_second: stats.tokens_per_second,
            speedup: stats.speedup.clone(),
            prompt: PromptReport {
                frames: prompt.map(|prompt| prompt.frames.clone()).unwrap_or_default(),
                grid: prompt.map(|prompt| prompt.grid).unwrap_or_default(),
                visual_tokens: stats.visual_tokens,
                drafter_visual_tokens: stats.drafter_visual_tokens,
            },
            timings: stats.timings.clone(),
            notes: self.log.notes().iter().chain(&self.notes).cloned().collect(),
            account: self.account(),
        };
        Report { tokens, row: None, run: Some(run) }
    }
}

fn row(row: ledger::Row) -> RowReport {
    let counts = row.counts();
    let mark = |mark| match mark {
        Mark::Token(verdict) => Role::of(verdict).look().name,
        Mark::Rejected | Mark::Discarded => "struck",
        Mark::Unused => "unused",
        Mark::Between => "between",
    };
    let ledger::Row { number, pieces, reason, draft_ms, verify_ms, .. } = row;
    let pieces = pieces.into_iter().map(|piece| PieceReport { mark: mark(piece.mark), text: piece.text });
    RowReport { number, pieces: pieces.collect(), counts, reason, draft_ms, verify_ms }
}

fn logprob(token: &Token, count: usize) -> Logprob {
    let own = token.logprobs.iter().find(|(id, _)| *id == token.id).map(|(_, logprob)| *logprob);
    let logprob = own.or(token.probability.map(f32::ln)).filter(|p| p.is_finite()).unwrap_or(UNLIKELY);
    let top = token.logprobs.iter().zip(&token.logprob_texts).take(count);
    let top_logprobs = top.map(|((_, logprob), text)| TopLogprob {
        token: text.clone(),
        logprob: if logprob.is_finite() { *logprob } else { UNLIKELY },
        bytes: text.clone().into_bytes(),
    });
    Logprob {
        token: token.text.clone(),
        logprob,
        bytes: token.text.clone().into_bytes(),
        top_logprobs: top_logprobs.collect(),
    }
}
