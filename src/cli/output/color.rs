//! Verdicts as terminal styles: the legend of [`present::verdicts`](specreel_client::present::verdicts) as escape sequences.

pub use specreel_client::present::text::clean as plain;
use specreel_client::present::verdicts::Role;
use specreel_record::Verdict;

pub fn paint(verdict: Verdict, text: &str) -> String {
    match Role::of(verdict).look().sgr(true).as_str() {
        "" => text.to_owned(),
        sgr => format!("\x1b[{sgr}m{text}\x1b[0m"),
    }
}
