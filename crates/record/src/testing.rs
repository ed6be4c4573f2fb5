//! Events and runs for the tests of this crate and of others.

use super::{
    Baseline, BaselineKind, Event, EventKind, Failure, FailureClass, Interval, RunLog, Segment, Span,
    Speedup, Stats, Step, StopReason, Token, Verdict,
};
use crate::{
    Promise, PromptSeen, Ready, Started, Verification,
    stats::{Equality, Tie},
};

/// What a run is about: a method called `lvspec`, lossy, with two models.
pub fn about() -> Started {
    Started {
        method: serde_json::json!({"name": "lvspec"}),
        target: "big".into(),
        drafter: Some("small".into()),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        video: "v.mp4".into(),
        prompt: "p".into(),
        ..Started::default()
    }
}

pub fn started() -> EventKind {
    EventKind::Started(about())
}

/// A speedup with a narrow interval, measured with a baseline of this speed.
pub fn speedup(decode: f64, plain_per_second: f64) -> Speedup {
    let name = "plain".into();
    Speedup {
        baseline: Baseline { name, kind: BaselineKind::Paired, tokens_per_second: plain_per_second },
        tokens_per_second: plain_per_second * decode,
        decode,
        end_to_end: decode / 2.0,
        interval: Interval { low: decode * 0.95, high: decode * 1.05, pairs: 12 },
        contention: None,
    }
}

/// The same without a drafter.
pub fn started_plain() -> EventKind {
    let method = serde_json::json!({"name": "plain"});
    EventKind::Started(Started { method, lossless: true, drafter: None, ..about() })
}

/// The same about a piece of 1.5 s.
pub fn started_piece(index: usize, count: usize) -> EventKind {
    let start = index as f64 * 1.5;
    let span = Some(Span { start, end: start + 1.5 });
    EventKind::Started(Started { span, segment: Some(Segment { first: 1, index, count }), ..about() })
}

/// Models with these notes are loaded.
pub fn ready(notes: &[&str]) -> EventKind {
    EventKind::Ready(Ready {
        target: "big".into(),
        device: "cpu".into(),
        dtype: "f32".into(),
        notes: notes.iter().map(|note| (*note).into()).collect(),
        ..Ready::default()
    })
}

/// The prompt of a clip of 2 × 1 × 2 visual tokens, of which the drafter sees these.
pub fn prompt(kept: Option<Vec<u32>>) -> EventKind {
    EventKind::Prompt(PromptSeen {
        frames: vec![0.0, 0.5, 1.0, 1.5],
        grid: [2, 1, 2],
        visual_tokens: 4,
        prompt_ids: vec![1, 2],
        kept,
        ..PromptSeen::default()
    })
}

/// A step of 100 ms that judged so many drafts, with these tokens.
pub fn judged(judged: usize, tokens: &[(&str, Verdict)]) -> Step {
    Step {
        drafted: vec![1; judged],
        judged,
        accepted: tokens.iter().filter(|(_, verdict)| verdict.is_accepted_draft()).count(),
        tokens: tokens.iter().map(|(text, verdict)| Token::new(1, *text, *verdict)).collect(),
        draft_ms: 50.0,
        verify_ms: 50.0,
        ..Step::default()
    }
}

/// The same with the texts of its drafts.
pub fn drafted(drafts: &[&str], tokens: &[(&str, Verdict)]) -> Step {
    let drafted_text = drafts.iter().map(|text| (*text).to_owned()).collect();
    Step { drafted_text, ..judged(drafts.len(), tokens) }
}

pub fn step(tokens: &[(&str, Verdict)]) -> EventKind {
    EventKind::Step(judged(tokens.len(), tokens))
}

/// A normal end with this text; its figures are empty.
pub fn done(text: &str) -> EventKind {
    ended(StopReason::Eos, text, &[1], Stats::default())
}

pub fn ended(reason: StopReason, text: &str, ids: &[u32], stats: Stats) -> EventKind {
    EventKind::Done { reason, text: text.into(), ids: ids.to_vec(), stats: Box::new(stats) }
}

/// A lossless run of these ids was compared with autoregressive decoding; where they differ, ` red` and ` blue` are half a nat apart.
pub fn verified(ids: &[u32], plain: &[u32]) -> EventKind {
    let equality = Equality::of(ids, plain);
    let tie = |at| Tie { at, plain: " red".into(), other: " blue".into(), gap: 0.5, near: false };
    EventKind::Verified(Verification {
        difference: equality.first_difference.map(tie),
        equality,
        tokens: ids.len(),
        plain_tokens: plain.len(),
        promises: Promise::Tokens,
    })
}

/// Not enough memory.
pub fn failure() -> Failure {
    Failure { class: FailureClass::Memory, error: "too large".into(), hint: None }
}

pub fn run(number: u64, kinds: impl IntoIterator<Item = EventKind>) -> RunLog {
    fed(RunLog::new(number), kinds)
}

pub fn fed(mut log: RunLog, kinds: impl IntoIterator<Item = EventKind>) -> RunLog {
    for kind in kinds {
        log.apply(&Event::new(log.run(), kind));
    }
    log
}
