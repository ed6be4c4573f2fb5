//! The caption of a run as it is written: where it ends, and which of its steps may be reported.

use specreel_record::{Step, StopReason};

use super::repeats::Repeats;
use crate::{command::RunRequest, stop_text::StopText};

/// Puts the tokens of a run together. Ends are looked for as autoregressive decoding would: after each token.
pub(super) struct Writing {
    ids: Vec<u32>,
    /// The caption as the tokens wrote it, with the space before it.
    text: String,
    /// The model has thought before the caption.
    thought: bool,
    stop: StopText,
    /// The caption as far as no stop text can begin in it.
    certain: String,
    repeats: Repeats,
    /// The caption's length after the steps that were reported, and steps that are not: their text may yet turn out to belong to a stop
    /// text. Each with the caption's length after it.
    reported: usize,
    held: Vec<(Step, usize)>,
}

/// A caption that has come to its end.
pub(super) struct Caption {
    pub reason: StopReason,
    pub text: String,
    pub ids: Vec<u32>,
    /// Steps that were not reported yet.
    pub held: Vec<Step>,
}

impl Writing {
    pub fn of(request: &RunRequest) -> Self {
        Self {
            ids: Vec::new(),
            text: String::new(),
            thought: false,
            stop: StopText::new(request.stop.clone()),
            certain: String::new(),
            repeats: Repeats::new(request.on_loop),
            reported: 0,
            held: Vec::new(),
        }
    }

    /// Tokens so far.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// True once the caption has ended by its text: no token follows.
    pub fn is_over(&self) -> bool {
        self.stop.is_found() || self.repeats.are_endless()
    }

    /// True while steps are held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Take the next step, and cut off its tokens after the end of the caption.
    pub fn read(&mut self, step: &mut Step) {
        let mut kept = 0;
        for token in &step.tokens {
            let before = self.text.trim_start().len();
            // Lines between a thought and the answer belong to neither.
            match (token.thinking, self.thought && self.text.is_empty()) {
                (true, _) => self.thought = true,
                (false, true) => self.text.push_str(token.text.trim_start()),
                (false, false) => self.text.push_str(&token.text),
            }
            self.ids.push(token.id);
            self.stop.push(&self.text.trim_start()[before..], &mut self.certain);
            self.repeats.push(token, self.text.len());
            kept += 1;
            if self.is_over() {
                break;
            }
        }
        step.truncate(kept);
    }

    /// The steps that may be reported, given the one that was read last: none while a stop text may have begun.
    pub fn release(&mut self, step: Step) -> Vec<Step> {
        let length = self.text.trim_start().len();
        self.held.push((step, length));
        match self.stop.is_found() || self.certain.len() == length {
            true => self.let_go(),
            false => Vec::new(),
        }
    }

    /// The steps that were held back, each with the length of its text that is not part of the caption.
    fn let_go(&mut self) -> Vec<Step> {
        let end = if self.stop.is_found() { self.certain.len() } else { usize::MAX };
        let steps = std::mem::take(&mut self.held).into_iter().map(|(step, length)| {
            let before = std::mem::replace(&mut self.reported, length);
            Step { beyond_stop: length.saturating_sub(before.max(end)), ..step }
        });
        steps.collect()
    }

    /// The end of the caption, whose last bytes have become this text. `reason` is why decoding ended; `None` if it was cancelled.
    pub fn finish(mut self, rest: &str, reason: Option<StopReason>) -> Caption {
        if !self.is_over() {
            self.stop.push(rest, &mut self.certain);
        }
        let (reason, text) = match reason {
            _ if self.stop.is_found() => (StopReason::Stop, self.certain.clone()),
            _ if self.repeats.are_endless() => {
                (StopReason::Loop, self.text[..self.repeats.kept()].to_owned())
            }
            ended => (ended.unwrap_or(StopReason::Cancelled), format!("{}{rest}", self.text)),
        };
        let held = self.let_go();
        Caption { reason, text, ids: self.ids, held }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use specreel_record::{Token, Verdict};

    fn step(index: usize, texts: &[&str]) -> Step {
        let token = |text: &&str| Token::new(text.len() as u32, *text, Verdict::Plain);
        Step { index, tokens: texts.iter().map(token).collect(), ..Step::default() }
    }

    /// The caption's part of each step, with the number of steps that were read when it was reported; and the caption.
    fn written(steps: &[&[&str]], stop: &[&str]) -> (Vec<(usize, String)>, Caption) {
        let stop = stop.iter().map(|text| (*text).to_owned()).collect();
        let mut writing = Writing::of(&RunRequest { stop, ..RunRequest::default() });
        let part = |step: Step| {
            let text: String = step.tokens.iter().map(|token| token.text.as_str()).collect();
            text[..text.len() - step.beyond_stop].to_owned()
        };
        let mut reported = Vec::new();
        for (index, tokens) in steps.iter().enumerate() {
            let mut step = step(index, tokens);
            writing.read(&mut step);
            reported.extend(writing.release(step).into_iter().map(|step| (index + 1, part(step))));
            if writing.is_over() {
                break;
            }
        }
        let mut caption = writing.finish("", Some(StopReason::Eos));
        let last = std::mem::take(&mut caption.held).into_iter();
        reported.extend(last.map(|step| (steps.len(), part(step))));
        (reported, caption)
    }

    #[test]
    fn steps_are_held_back_while_a_stop_text_may_have_begun() {
        let own = |parts: &[(usize, &str)]| {
            parts.iter().map(|(at, text)| (*at, (*text).to_owned())).collect::<Vec<_>>()
        };
        let steps: [&[&str]; 4] = [&[" A", " red"], &[" ci"], &["rc"], &["us", "."]];
        let (reported, caption) = written(&steps, &["circle"]);
        assert_eq!(reported, own(&[(1, " A red"), (4, " ci"), (4, "rc"), (4, "us.")]));
        assert_eq!((caption.reason, &*caption.text), (StopReason::Eos, " A red circus."));

        // The rest of the step in which it ends is cut off.
        let steps: [&[&str]; 3] = [&[" A", " red c"], &["irc"], &["le", " rolls"]];
        let (reported, caption) = written(&steps, &["circle"]);
        assert_eq!(reported, own(&[(3, " A red "), (3, ""), (3, "")]));
        assert_eq!((caption.reason, &*caption.text, caption.ids.len()), (StopReason::Stop, "A red ", 4));
    }

    proptest! {
        #[test]
        fn what_is_reported_is_the_caption(
            steps in prop::collection::vec(prop::collection::vec("[ abé]{0,3}", 1..4), 1..8),
            stop in "[abé]{1,4}",
        ) {
            let steps: Vec<Vec<&str>> =
                steps.iter().map(|step| step.iter().map(String::as_str).collect()).collect();
            let steps: Vec<&[&str]> = steps.iter().map(Vec::as_slice).collect();
            let whole = steps.concat().concat();
            let whole = whole.trim_start();
            let (reported, caption) = written(&steps, &[&stop]);
            let all: String = reported.iter().map(|(_, part)| part.as_str()).collect();
            let expected = whole.find(&stop).map_or(whole, |at| &whole[..at]);
            prop_assert_eq!(caption.text.trim_start(), expected);
            prop_assert_eq!(all.trim_start(), expected);
            prop_assert_eq!(caption.reason == StopReason::Stop, whole.contains(&stop));
        }
    }
}
