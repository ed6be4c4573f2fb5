//! Verdicts as terminal styles. They differ without colour, too: underline, italic, bold, dim.

use std::borrow::Cow;

use crate::record::Verdict;

/// The SGR parameters of a verdict; empty for strict text.
pub fn sgr(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Exact | Verdict::Sampled => "",
        Verdict::Plain => "2",
        Verdict::Corrected => "1",
        Verdict::Bonus => "1;32",
        Verdict::Loosened => "4;33",
        Verdict::Shifted => "3;35",
        Verdict::Entropy | Verdict::Window => "4;36",
        Verdict::Lenient | Verdict::Divergence => "4;34",
        Verdict::Chance => "4;31",
    }
}

/// How a verdict looks, for the legend of a terminal without colour.
pub fn look(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Exact | Verdict::Sampled => "as is",
        Verdict::Plain => "dim",
        Verdict::Corrected | Verdict::Bonus => "bold",
        Verdict::Shifted => "italic",
        _ => "underlined",
    }
}

/// Text in a verdict's style.
pub fn paint(verdict: Verdict, text: &str) -> String {
    match sgr(verdict) {
        "" => text.to_owned(),
        sgr => format!("\x1b[{sgr}m{text}\x1b[0m"),
    }
}

/// Text that cannot drive a terminal: control characters other than newline and tab are replaced.
pub fn plain(text: &str) -> Cow<'_, str> {
    let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(bad) {
        Cow::Owned(text.chars().map(|c| if bad(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_and_loosened_look_different_without_colour() {
        for v in Verdict::ALL {
            let codes: Vec<&str> = sgr(v).split(';').collect();
            assert_eq!(!v.is_strict(), codes.contains(&"4") || codes.contains(&"3"), "{v}");
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(plain("a\x1b[2Jb\x07\n\t\u{9b}"), "a\u{fffd}[2Jb\u{fffd}\n\t\u{fffd}");
        assert!(matches!(plain("clean"), Cow::Borrowed(_)));
    }
}
