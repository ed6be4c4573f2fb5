//! Search in a text, by whole graphemes.

use std::ops::Range;

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use unicode_segmentation::UnicodeSegmentation;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    /// The search text; empty without a search.
    pub query: String,
    /// Which match is shown, from 0.
    pub at: usize,
}

/// The matches of `query` in `text`, as byte ranges on grapheme boundaries that do not overlap. Case matters only if the query
/// has a capital letter; a space of the query also matches a line break.
pub(crate) fn matches(text: &str, query: &str) -> Vec<Range<usize>> {
    if query.is_empty() {
        return Vec::new();
    }
    let exact = query.chars().any(char::is_uppercase);
    let fold = |grapheme: &str| -> String {
        match grapheme {
            "\n" => " ".into(),
            _ if exact => grapheme.to_owned(),
            _ => grapheme.to_lowercase(),
        }
    };
    let wanted: Vec<String> = query.graphemes(true).map(fold).collect();
    let there: Vec<(usize, &str)> = text.grapheme_indices(true).collect();
    let mut found = Vec::new();
    let folded: Vec<String> = there.iter().map(|(_, g)| fold(g)).collect();
    let mut at = 0;
    while at + wanted.len() <= folded.len() {
        if folded[at..at + wanted.len()] == wanted[..] {
            let end = there.get(at + wanted.len()).map_or(text.len(), |(i, _)| *i);
            found.push(there[at].0..end);
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    found
}

/// The items whose text matches a query by its letters in order, best first; of equal matches the earlier first.
pub(crate) fn fuzzy<T>(
    query: &str,
    config: Config,
    items: impl Iterator<Item = T>,
    text: impl Fn(&T) -> String,
) -> Vec<T> {
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let (mut matcher, mut buffer) = (Matcher::new(config), Vec::new());
    let score =
        |item: T| Some((pattern.score(Utf32Str::new(&text(&item), &mut buffer), &mut matcher)?, item));
    let mut scored: Vec<(u32, T)> = items.filter_map(score).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(text: &'a str, query: &str) -> Vec<&'a str> {
        matches(text, query).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn case_matters_if_the_query_has_capitals() {
        assert_eq!(found("Red, red and RED", "red"), ["Red", "red", "RED"]);
        assert_eq!(found("Red, red and RED", "Red"), ["Red"]);
        assert_eq!(found("ÉTÉ été", "été"), ["ÉTÉ", "été"]);
        assert_eq!(found("aaaa", "aa"), ["aa", "aa"]);
        assert_eq!((found("a", ""), found("", "a")), (vec![], vec![]));
        assert_eq!(found("the red\nball", "red ball"), ["red\nball"]);
    }

    #[test]
    fn graphemes_are_whole() {
        assert_eq!(found("緑の星が落ちる", "星が"), ["星が"]);
        // A combining accent makes it another letter.
        assert_eq!(found("e\u{301}te e", "e"), ["e", "e"]);
        assert_eq!(found("👩‍👩‍👧", "👩"), Vec::<&str>::new());
    }
}
