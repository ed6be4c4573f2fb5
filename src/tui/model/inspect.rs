//! The inspector's token cursor, and the reason for a token in words.

use crate::record::log::Placed;

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

/// Why a token is in the caption: its verdict's explanation, and what is known of this token.
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
    let shown = text.replace('\n', "⏎");
    // Nearly every token begins with a space: it is shown only if there is nothing else.
    match shown.trim() {
        "" => shown.replace(' ', "␣"),
        word => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Verdict, tui::testing};

    #[test]
    fn reasons_name_what_was_wanted_and_what_was_rejected() {
        let tokens = [("A red", Verdict::Exact), (" ball", Verdict::Loosened), (".", Verdict::Corrected)];
        let mut step = testing::step_of(&tokens, 3);
        step.drafted_text = vec!["A red".into(), " ball".into(), ",".into()];
        step.tokens[1].target_text = Some(" disc".into());
        step.tokens[1].relevance_rank = Some(0);
        let words = |at: usize| reason(&Placed { step: &step, at, token: &step.tokens[at] });
        assert!(
            words(1).ends_with("; it wanted “disc”; number 1 from the least visual of 3"),
            "{}",
            words(1)
        );
        assert!(words(2).ends_with("a rejected draft: “,”"), "{}", words(2));
        assert_eq!(words(0), Verdict::Exact.why());
    }
}
