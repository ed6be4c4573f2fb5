//! Which words of a method differ from autoregressive decoding, marked with and without color.

use super::text::{Look, Word, sentence, wrap};
use super::*;
use specreel_client::present::{formats::differs_at, statistics::tie, text::clean};
use specreel_record::{Change, Edit, difference};

/// Around the words that only the baseline has, with their SGR parameter.
const DELETED: (&str, &str, &str) = ("[-", "-]", "31");
/// Around the words that only the other method has.
const INSERTED: (&str, &str, &str) = ("{+", "+}", "32");

/// One paragraph for every method whose output differs from the baseline's; empty if there is none.
pub fn differences(comparison: &Comparison, runs: &[RunLog], look: &Look) -> String {
    let Some(plain) = comparison.baseline_run(runs) else { return String::new() };
    let mut out = String::new();
    for row in &comparison.rows {
        let first = row.figures.as_ref().and_then(|f| f.equality.as_ref()?.first_difference);
        let (Some(first), Some(run)) = (first, comparison.run(row, runs)) else { continue };
        if out.is_empty() {
            let mut legend = marked(&format!("only {}", plain.name()), DELETED, true);
            legend.extend(marked("only the other method", INSERTED, true));
            out = format!("\n{}", wrap(&legend, 0, look));
        }
        let why =
            run.stats().tie.as_ref().map(|found| format!(" ({})", clean(&tie(found)))).unwrap_or_default();
        let head = format!("{} {} from {}{why}:", row.method, differs_at(first), plain.name());
        out += &format!("\n{}", wrap(&sentence(&head), 0, look));
        out += &wrap(&body(plain.text(), run.text()), 2, look);
    }
    out
}

fn body(plain: &str, other: &str) -> Vec<Word> {
    let edits = difference(&clean(plain), &clean(other));
    if edits.iter().all(|edit| edit.change == Change::Same) {
        return sentence("the words are the same, the tokens are not");
    }
    edits.iter().flat_map(words).collect()
}

fn words(edit: &Edit) -> Vec<Word> {
    let marks = match edit.change {
        Change::Same => ("", "", ""),
        Change::Deleted => DELETED,
        Change::Inserted => INSERTED,
    };
    marked(&edit.text, marks, edit.spaced)
}

fn marked(text: &str, (open, close, sgr): (&str, &str, &'static str), spaced: bool) -> Vec<Word> {
    let text = format!("{open}{text}{close}");
    let mut words: Vec<Word> = sentence(&text).into_iter().map(|word| Word { sgr, ..word }).collect();
    if let Some(first) = words.first_mut() {
        first.spaced = spaced;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{
        Stats, StopReason,
        stats::Tie,
        testing::{ended, fed, started},
    };

    fn run(number: u64, method: &str, ids: &[u32], text: &str) -> RunLog {
        let events = [started(), ended(StopReason::Eos, text, ids, Stats::default())];
        fed(RunLog::planned(number, method, true), events)
    }

    fn shown(runs: &[RunLog], look: &Look) -> String {
        differences(&Comparison::of(runs, "plain"), runs, look)
    }

    const WIDE: Look = Look { width: None, color: false };

    #[test]
    fn only_methods_that_differ_are_shown() {
        let runs = [
            run(1, "plain", &[1, 2, 3], "A red disc moves."),
            run(2, "naive", &[1, 2, 3], "A red disc moves."),
            run(3, "lvspec", &[1, 9, 3], "A dark blue disc moves."),
        ];
        assert_eq!(
            shown(&runs, &WIDE),
            "\n[-only plain-] {+only the other method+}\n\n\
             lvspec differs at token 2 from plain:\n  A [-red-] {+dark blue+} disc moves.\n"
        );
        assert_eq!(shown(&runs[..2], &WIDE), "");
        assert_eq!(shown(&runs[1..], &WIDE), "", "nothing to compare with");
    }

    #[test]
    fn a_lossless_method_that_differs_says_how_close_the_tokens_are() {
        let mut runs = [run(1, "plain", &[1, 2], "A red disc."), run(2, "naive", &[1, 3], "A blue disc.")];
        runs[1].stats_mut().tie =
            Some(Tie { at: 1, plain: " red".into(), other: " blue".into(), gap: 0.0625, near: true });
        let text = shown(&runs, &WIDE);
        let head =
            "naive differs at token 2 from plain (a near-tie: \" red\" and \" blue\" are 0.062 nats apart):";
        assert!(text.contains(head), "{text}");
    }

    #[test]
    fn color_comes_on_top_of_the_marks() {
        let runs = [run(1, "plain", &[1], "red disc"), run(2, "fly", &[2], "blue disc")];
        let text = shown(&runs, &Look { width: None, color: true });
        assert!(text.contains("  \x1b[31m[-red-]\x1b[0m\x1b[32m{+blue+}\x1b[0m disc\n"), "{text:?}");
    }

    #[test]
    fn the_same_words_of_other_tokens_are_reported() {
        let runs = [run(1, "plain", &[1], "a disc"), run(2, "fly", &[2], "a\ndisc")];
        assert!(shown(&runs, &WIDE).ends_with("  the words are the same, the tokens are not\n"));
    }

    #[test]
    fn a_model_cannot_drive_the_terminal() {
        let runs = [run(1, "plain", &[1], "a\x1b[2J"), run(2, "fly", &[2], "b\x07")];
        let text = shown(&runs, &WIDE);
        assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
    }

    #[test]
    fn narrow_terminals_break_between_words() {
        let runs = [run(1, "plain", &[1], "one two three"), run(2, "fly", &[2], "one four five three")];
        let text = shown(&runs, &Look { width: Some(16), color: false });
        assert!(text.ends_with("\n  one [-two-]\n  {+four five+}\n  three\n"), "{text}");
    }
}
