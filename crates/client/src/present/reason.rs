//! Why a token is in the caption, in words.

use super::{formats::percent, text::clean};
use specreel_record::log::{Chunk, Placed};
use specreel_record::{RunLog, Token};

/// The reason for a token: its verdict's, and the figures of this token.
pub fn reason(placed: &Placed<'_>) -> String {
    let Placed { step, at, token } = placed;
    let mut words = token.verdict.why().to_owned();
    let quoted = |text: &str| format!("“{}”", visible(text));
    if !token.verdict.is_strict() {
        if let Some(wanted) = token.target_text.as_deref().filter(|t| !t.is_empty()) {
            words += &format!("; the target's choice is {}", quoted(wanted));
        }
        if let Some(rank) = token.relevance_rank {
            words += &format!("; visual relevance rank {} of {}, lowest first", rank + 1, step.judged);
        }
    }
    if let Some(peak) = step.gate {
        words += &format!(
            "; no drafts here (gate): the target's attention peaks at {peak:.3} on one visual token"
        );
    }
    // The drafter stopped before the target's own token.
    if let Some(probability) = step.unsure.filter(|_| *at == step.judged && step.parents.is_empty()) {
        words += &format!("; the drafter was unsure here: {:.0} %", 100.0 * probability);
    }
    // In a tree, more than one branch ends here.
    if !token.verdict.is_accepted_draft()
        && step.parents.is_empty()
        && let Some(rejected) = step.drafted_text.get(*at).filter(|_| *at < step.judged)
    {
        words += &format!(": {}", quoted(rejected));
    }
    words
}

/// The numbers behind a verdict, as name and value; unknown ones are left out.
pub fn details(token: &Token) -> Vec<(&'static str, String)> {
    let number = |value: Option<f32>| value.map(|value| format!("{value:.3}"));
    let nats = |value: Option<f32>| value.map(|value| format!("{value:.3} nats"));
    let probability = |value: Option<f32>| value.map(|value| percent(f64::from(value)));
    let all = [
        ("visual relevance", number(token.relevance)),
        ("visual attention", number(token.attention_peak)),
        ("entropy", nats(token.entropy)),
        ("divergence", nats(token.divergence)),
        ("target probability", probability(token.probability)),
        ("drafter probability", probability(token.drafter_probability)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Verdict, reason and numbers of the token that decides a chunk's verdict; empty where no token is known.
pub fn chunk_reason(log: &RunLog, chunk: &Chunk) -> String {
    let Some(placed) = chunk.deciding.and_then(|number| log.token(number)) else { return String::new() };
    let mut out = format!("{}: {}", placed.token.verdict, reason(&placed));
    for (name, value) in details(placed.token) {
        out += &format!("\n{name} {value}");
    }
    out
}

/// A token's text for a table: without the space before it, line ends made visible.
pub fn visible(text: &str) -> String {
    if text.is_empty() {
        return "·bytes·".into();
    }
    let text = text.replace('\n', "⏎");
    let shown = clean(&text);
    // Nearly every word begins with a space: only a token of nothing else shows it.
    match shown.trim() {
        "" => shown.replace(' ', "␣"),
        word => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{
        EventKind, Verdict,
        testing::{run, step},
    };

    fn log() -> RunLog {
        let tokens = [("A", Verdict::Exact), (" ball", Verdict::Loosened), (".", Verdict::Corrected)];
        let EventKind::Step(mut step) = step(&tokens) else { panic!() };
        step.drafted_text = vec!["A".into(), " ball".into(), ",".into()];
        step.tokens[1].target_text = Some(" disc".into());
        (step.tokens[1].relevance, step.tokens[1].relevance_rank) = (Some(0.31), Some(0));
        step.tokens[1].probability = Some(0.25);
        run(1, [EventKind::Step(step)])
    }

    #[test]
    fn reasons_name_the_target_s_choice_and_the_rejected_draft() {
        let log = log();
        let words = |n| reason(&log.token(n).unwrap());
        assert_eq!(words(0), Verdict::Exact.why());
        let loosened = words(1);
        assert!(
            loosened.ends_with("; the target's choice is “disc”; visual relevance rank 1 of 3, lowest first"),
            "{loosened}"
        );
        assert!(words(2).ends_with("a rejected draft: “,”"), "{}", words(2));
    }

    #[test]
    fn a_chunk_has_the_reason_of_its_deciding_token_with_the_known_numbers() {
        let log = log();
        let words = chunk_reason(&log, &log.chunks()[1]);
        assert!(words.starts_with("loosened: differs from the target"), "{words}");
        assert!(words.ends_with("\nvisual relevance 0.310\ntarget probability 25.0 %"), "{words}");
        let silent = Chunk { deciding: None, ..log.chunks()[1].clone() };
        assert_eq!(chunk_reason(&log, &silent), "");
    }

    #[test]
    fn white_space_is_visible() {
        assert_eq!(["", " a", " ", "a\n", "\u{1b}[2Jb"].map(visible), ["·bytes·", "a", "␣", "a⏎", "b"]);
    }
}
