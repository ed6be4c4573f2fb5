//! Searching in a text: where it stands, by whole characters.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// The search in the caption.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    /// What is searched; nothing if it is empty.
    pub query: String,
    /// Which match is shown, from 0.
    pub at: usize,
}

/// Where `query` stands in `text`, as ranges of bytes between whole characters, one after the other. Case counts only where the
/// query has a capital letter; blanks of the query are also line ends.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(text: &'a str, query: &str) -> Vec<&'a str> {
        matches(text, query).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn case_counts_where_it_is_asked_for() {
        assert_eq!(found("Red, red and RED", "red"), ["Red", "red", "RED"]);
        assert_eq!(found("Red, red and RED", "Red"), ["Red"]);
        assert_eq!(found("ÉTÉ été", "été"), ["ÉTÉ", "été"]);
        assert_eq!(found("aaaa", "aa"), ["aa", "aa"]);
        assert_eq!((found("a", ""), found("", "a")), (vec![], vec![]));
        assert_eq!(found("the red\nball", "red ball"), ["red\nball"]);
    }

    #[test]
    fn characters_are_whole() {
        assert_eq!(found("緑の星が落ちる", "星が"), ["星が"]);
        // An e with an accent of its own is no e.
        assert_eq!(found("e\u{301}te e", "e"), ["e", "e"]);
        assert_eq!(found("👩‍👩‍👧", "👩"), Vec::<&str>::new());
    }
}
