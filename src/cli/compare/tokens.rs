//! Tokens as pieces of text with their reasons.

use crate::record::Token;

/// A piece of text, and the token that answers for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk<'a> {
    /// The text; never empty.
    pub text: String,
    /// The least strict of the tokens that made the text together.
    pub token: &'a Token,
}

/// The text of the tokens, piece by piece, without the space before the first word.
pub fn chunks(tokens: &[Token]) -> Vec<Chunk<'_>> {
    let mut chunks: Vec<Chunk<'_>> = Vec::new();
    let mut pending: Option<&Token> = None;
    for token in tokens {
        let worst = pending.filter(|p| p.verdict > token.verdict).unwrap_or(token);
        if token.text.is_empty() {
            pending = Some(worst);
            continue;
        }
        pending = None;
        // A caption is one text: the space before its first word belongs to the prompt's end.
        let text = if chunks.is_empty() { token.text.trim_start() } else { &token.text };
        if !text.is_empty() {
            chunks.push(Chunk { text: text.to_owned(), token: worst });
        }
    }
    chunks
}

/// Verdict, reason, and the numbers behind it.
pub fn why(token: &Token) -> String {
    let mut out = format!("{}: {}", token.verdict, token.verdict.why());
    if let Some(relevance) = token.relevance {
        out += &format!(" · relevance {relevance:.3}");
    }
    if let Some(rank) = token.relevance_rank {
        out += &format!(" (rank {rank} of its step, 0 is the least visual)");
    }
    if let Some(entropy) = token.entropy {
        out += &format!(" · entropy {entropy:.3} nats");
    }
    if let Some(probability) = token.probability {
        out += &format!(" · probability {probability:.3}");
    }
    if let Some(probability) = token.drafter_probability {
        out += &format!(" (to the drafter {probability:.3})");
    }
    out
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::record::Verdict;

    pub fn token(text: &str, verdict: Verdict) -> Token {
        Token::new(1, text, verdict)
    }

    #[test]
    fn a_character_of_several_tokens_belongs_to_the_least_strict() {
        let tokens = [
            token(" ", Verdict::Plain),
            token(" A", Verdict::Exact),
            token("", Verdict::Shifted),
            token("", Verdict::Exact),
            token("é", Verdict::Corrected),
            token("s", Verdict::Exact),
        ];
        let chunks: Vec<(String, Verdict)> =
            chunks(&tokens).into_iter().map(|c| (c.text, c.token.verdict)).collect();
        let expected = [("A", Verdict::Exact), ("é", Verdict::Shifted), ("s", Verdict::Exact)];
        assert_eq!(chunks, expected.map(|(text, verdict)| (text.to_owned(), verdict)));
    }

    #[test]
    fn the_reason_has_the_numbers_that_are_known() {
        let mut token = token("x", Verdict::Loosened);
        assert_eq!(
            why(&token),
            "loosened: differs from the target; passed as one of the least visual positions"
        );
        (token.relevance, token.relevance_rank, token.probability) = (Some(0.31), Some(2), Some(0.25));
        assert!(
            why(&token).ends_with(
                " · relevance 0.310 (rank 2 of its step, 0 is the least visual) · probability 0.250"
            )
        );
    }
}
