//! Verdicts as terminal styles: the legend of [`present::verdicts`](crate::present::verdicts) as escape sequences.

pub use crate::present::text::clean as plain;
use crate::{present::verdicts::Role, record::Verdict};

/// Text in a verdict's style, with its colour.
pub fn paint(verdict: Verdict, text: &str) -> String {
    match Role::of(verdict).look().sgr(true).as_str() {
        "" => text.to_owned(),
        sgr => format!("\x1b[{sgr}m{text}\x1b[0m"),
    }
}
