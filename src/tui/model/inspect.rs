//! The token cursor: one token of a run, with everything that is known about it.

use super::run::Run;
use crate::record::{Step, Token};

/// What the heat map over the frames shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heat {
    /// The visual tokens that resemble this token most.
    #[default]
    Looks,
    /// The visual tokens that the drafter sees.
    Kept,
    /// The scores by which they were chosen.
    Scores,
}

impl Heat {
    pub fn next(self) -> Self {
        match self {
            Heat::Looks => Heat::Kept,
            Heat::Kept => Heat::Scores,
            Heat::Scores => Heat::Looks,
        }
    }
}

/// The cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspector {
    /// Number of the token, counted over the run.
    pub token: usize,
    pub heat: Heat,
}

/// A token in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub step: &'a Step,
    /// Its place in the step.
    pub at: usize,
    pub token: &'a Token,
}

impl Run {
    /// The token of this number.
    pub fn placed(&self, number: usize) -> Option<Placed<'_>> {
        let mut at = number;
        for step in &self.steps {
            match step.tokens.get(at) {
                Some(token) => return Some(Placed { step, at, token }),
                None => at -= step.tokens.len(),
            }
        }
        None
    }

    /// The visual tokens that a token resembles most: told with it, or, of a step's last one, by the next step.
    pub fn looks(&self, number: usize) -> &[(u32, f32)] {
        let Some(placed) = self.placed(number) else { return &[] };
        if !placed.token.looks.is_empty() || placed.at + 1 < placed.step.tokens.len() {
            return &placed.token.looks;
        }
        let next = self.steps.iter().skip_while(|s| !std::ptr::eq(*s, placed.step)).nth(1);
        next.map_or(&[], |step| &step.root_looks)
    }

    /// The number of the first token of the step after (or before, or of) the one that this token is in.
    pub fn step_start(&self, number: usize, forward: bool) -> usize {
        let mut starts = Vec::with_capacity(self.steps.len());
        let mut n = 0;
        for step in self.steps.iter().filter(|s| !s.tokens.is_empty()) {
            starts.push(n);
            n += step.tokens.len();
        }
        let found = match forward {
            true => starts.iter().find(|s| **s > number),
            false => starts.iter().rev().find(|s| **s < number),
        };
        found.copied().unwrap_or(number)
    }

    /// The nearest token after (or before) this one that the target would not have written.
    pub fn next_loosened(&self, number: usize, forward: bool) -> Option<usize> {
        let tokens = self.steps.iter().flat_map(|s| &s.tokens).enumerate();
        let mut loosened = tokens.filter(|(_, t)| !t.verdict.is_strict()).map(|(n, _)| n);
        if forward { loosened.find(|n| *n > number) } else { loosened.take_while(|n| *n < number).last() }
    }
}

/// Why a token stands there: its verdict's words, and what is known of this very token.
pub(crate) fn reason(placed: &Placed<'_>) -> String {
    let Placed { step, at, token } = placed;
    let mut words = token.verdict.why().to_owned();
    let quoted = |text: &str| format!("“{}”", visible(text));
    if !token.verdict.is_strict() {
        if let Some(wanted) = token.target_text.as_deref().filter(|t| !t.is_empty()) {
            words.push_str(&format!("; it wanted {}", quoted(wanted)));
        }
        let ranked = step.tokens.iter().filter(|t| t.relevance_rank.is_some()).count();
        if let Some(rank) = token.relevance_rank.filter(|_| ranked > 0) {
            words.push_str(&format!("; number {} from the least visual of {}", rank + 1, step.judged));
        }
    }
    // Of a tree, more than one branch ended here.
    if !token.verdict.is_accepted_draft()
        && step.parents.is_empty()
        && let Some(rejected) = step.drafted_text.get(*at).filter(|_| *at < step.judged)
    {
        words.push_str(&format!(": {}", quoted(rejected)));
    }
    words
}

/// A token's text for a table: without the space before it, line ends made visible.
pub(crate) fn visible(text: &str) -> String {
    if text.is_empty() {
        return "·bytes·".into();
    }
    let shown = crate::tui::text::clean(&text.replace('\n', "⏎"));
    // Nearly every word begins with a space: only where there is nothing else it is worth a sign.
    match shown.trim() {
        "" => shown.replace(' ', "␣"),
        word => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Verdict, tui::testing};

    fn run() -> Run {
        let mut studio = testing::after_a_run();
        studio.model().runs.shown().unwrap().clone()
    }

    #[test]
    fn tokens_are_counted_over_the_steps() {
        let run = run();
        assert_eq!(run.token_count(), 5);
        assert_eq!(run.placed(3).unwrap().at, 0);
        assert_eq!(run.placed(3).unwrap().token.text, " rolls");
        assert!(run.placed(5).is_none());
        assert_eq!((run.step_start(4, false), run.step_start(1, true), run.step_start(0, false)), (3, 3, 0));
        assert_eq!((run.next_loosened(0, true), run.next_loosened(1, true)), (Some(1), None));
        assert_eq!(run.next_loosened(4, false), Some(1));
    }

    #[test]
    fn of_a_steps_last_token_the_next_step_tells_where_it_looks() {
        let mut run = run();
        run.steps[0].tokens[1].looks = vec![(4, 0.5)];
        run.steps[1].root_looks = vec![(7, 0.9)];
        assert_eq!(run.looks(1), [(4, 0.5)]);
        assert_eq!(run.looks(2), [(7, 0.9)]);
        assert!(run.looks(0).is_empty() && run.looks(4).is_empty() && run.looks(99).is_empty());
    }

    #[test]
    fn reasons_name_what_was_wanted_and_what_was_rejected() {
        let mut run = run();
        let step = &mut run.steps[0];
        step.drafted_text = vec!["A red".into(), " ball".into(), ",".into()];
        step.tokens[1].target_text = Some(" disc".into());
        step.tokens[1].relevance_rank = Some(0);
        assert_eq!(step.tokens[2].verdict, Verdict::Corrected);
        let words = |n| reason(&run.placed(n).unwrap());
        assert!(
            words(1).ends_with("; it wanted “disc”; number 1 from the least visual of 3"),
            "{}",
            words(1)
        );
        assert!(words(2).ends_with("a rejected draft: “,”"), "{}", words(2));
        assert_eq!(words(0), Verdict::Exact.why());
    }
}
