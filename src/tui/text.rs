//! Text that may reach the screen: sanitized, measured and truncated by terminal columns.
//!
//! File names, prompts and what models write are foreign: a control character or an escape sequence in them must never
//! reach the terminal. Foreign text goes through [`clean`], [`clean_line`] or [`clean_event`] once, when it enters the model.

use std::borrow::Cow;

use specreel_client::present::text;

pub(crate) use specreel_client::present::text::{fit, fit_end, pad, width};
use specreel_record::{Draft, Event, EventKind, PromptSeen, Ready, Started, Turn, Verification};

pub(crate) fn clean(foreign: &str) -> String {
    text::clean(foreign).into_owned()
}

pub(crate) fn clean_line(foreign: &str) -> String {
    text::clean_line(foreign).into_owned()
}

/// The longest beginning of at most `limit` bytes.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A question and its answer, both as [`clean`] leaves them.
pub(crate) fn clean_turn(turn: &Turn) -> Turn {
    Turn { prompt: clean(&turn.prompt), answer: clean(&turn.answer), calls: turn.calls.clone() }
}

/// An event with every text in it as [`clean`] leaves it, except the path of the video.
pub(crate) fn clean_event(mut event: Event) -> Event {
    let mut each = |foreign: &mut String| {
        if let Cow::Owned(clean) = text::clean(foreign) {
            *foreign = clean;
        }
    };
    match &mut event.kind {
        EventKind::Ready(Ready { target, drafter, device, dtype, notes, .. }) => {
            notes.iter_mut().chain([target, device, dtype]).chain(drafter).for_each(each);
        }
        EventKind::Started(Started { target, drafter, device, dtype, prompt, before, .. }) => {
            let turns = before.iter_mut().flat_map(|turn| [&mut turn.prompt, &mut turn.answer]);
            turns.chain([target, device, dtype, prompt]).chain(drafter).for_each(each);
        }
        EventKind::Estimate(estimate) => estimate.notes.iter_mut().for_each(each),
        EventKind::Prompt(PromptSeen { notes, .. }) => notes.iter_mut().for_each(each),
        EventKind::Draft(Draft { drafted_text, .. }) => drafted_text.iter_mut().for_each(each),
        EventKind::Step(step) => {
            step.drafted_text.iter_mut().for_each(&mut each);
            for token in &mut step.tokens {
                let texts = token.logprob_texts.iter_mut().chain(&mut token.drafter_texts);
                texts.chain([&mut token.text]).chain(&mut token.target_text).for_each(&mut each);
            }
        }
        EventKind::Done { text, .. } | EventKind::Edited { text } | EventKind::Retry { note: text, .. } => {
            each(text)
        }
        EventKind::Failed(failure) => {
            [&mut failure.error].into_iter().chain(&mut failure.hint).for_each(each)
        }
        EventKind::Verified(Verification { difference, .. }) => {
            difference.iter_mut().flat_map(|tie| [&mut tie.plain, &mut tie.other]).for_each(each);
        }
        EventKind::Stage { .. } | EventKind::Speed { .. } => {}
    }
    event
}

/// Seconds as a clock, without tenths: `0:07`, `12:03`, `1:02:03`.
pub(crate) fn clock(seconds: f64) -> String {
    specreel_record::clock(seconds.round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{Failure, FailureClass, StopReason, Token, Verdict};

    #[test]
    fn every_text_of_an_event_is_sanitised() {
        let evil = || "a\u{1b}[31m\u{202e}b".to_owned();
        let token = Token {
            logprob_texts: vec![evil()],
            drafter_texts: vec![evil()],
            target_text: Some(evil()),
            ..Token::new(1, evil(), Verdict::Exact)
        };
        let mut step = crate::tui::testing::step_of(&[], 1);
        (step.tokens, step.drafted_text) = (vec![token], vec![evil()]);
        let turn = Turn { prompt: evil(), answer: evil(), ..Turn::default() };
        let failure = Failure { class: FailureClass::Input, error: evil(), hint: Some(evil()) };
        let stats = Box::default();
        let [target, device, dtype] = [evil(), evil(), evil()];
        let (drafter, notes) = (Some(evil()), vec![evil()]);
        let ready = EventKind::Ready(Ready { target, drafter, device, dtype, notes, ..Ready::default() });
        let started = EventKind::Started(Started {
            target: evil(),
            drafter: Some(evil()),
            device: evil(),
            dtype: evil(),
            prompt: evil(),
            before: vec![turn],
            ..crate::tui::testing::about("v.mp4", "naive")
        });
        let done = EventKind::Done { reason: StopReason::Eos, text: evil(), ids: vec![], stats };
        let draft = EventKind::Draft(Draft {
            index: 0,
            drafted: vec![1],
            drafted_text: vec![evil()],
            parents: vec![],
        });
        let mut verified = specreel_record::testing::verified(&[1], &[2]);
        if let EventKind::Verified(Verification { difference: Some(tie), .. }) = &mut verified {
            (tie.plain, tie.other) = (evil(), evil());
        }
        for kind in [ready, started, draft, EventKind::Step(step), done, EventKind::Failed(failure), verified]
        {
            let json = serde_json::to_string(&clean_event(Event::new(1, kind))).unwrap();
            assert!(!json.contains("\\u001b") && !json.contains('\u{202e}'), "{json}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(clock(7.2), "0:07");
        assert_eq!(clock(3723.0), "1:02:03");
        assert_eq!(clock(f64::NAN), "0:00");
    }
}
