//! Wraps styled text at spaces and around wide characters, and knows where each line begins, which search and scrolling need.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use unicode_segmentation::UnicodeSegmentation;

use crate::tui::text::width;

struct Cell<'a> {
    text: &'a str,
    columns: usize,
    style: Style,
    /// Its position in the whole text, in bytes.
    at: usize,
}

/// Wrap pieces of text into lines of at most `columns`.
pub(super) fn wrap<'a>(
    pieces: impl IntoIterator<Item = (&'a str, Style)>,
    columns: usize,
) -> Vec<Line<'static>> {
    wrap_placed(pieces, columns).into_iter().map(|(_, line)| line).collect()
}

/// The same, each line with the byte offset at which it begins.
pub(super) fn wrap_placed<'a>(
    pieces: impl IntoIterator<Item = (&'a str, Style)>,
    columns: usize,
) -> Vec<(usize, Line<'static>)> {
    let mut lines = Vec::new();
    let mut line: Vec<Cell<'a>> = Vec::new();
    let mut used = 0;
    // Index in `line` before which it may be broken.
    let mut gap = None;
    let mut at = 0;
    let finish = |line: &[Cell<'_>], end: usize| (line.first().map_or(end, |c| c.at), finish(line));
    for (text, style) in pieces {
        for grapheme in text.graphemes(true) {
            let here = at;
            at += grapheme.len();
            if grapheme == "\n" {
                lines.push(finish(&line, here));
                line.clear();
                (used, gap) = (0, None);
                continue;
            }
            let cell = Cell { text: grapheme, columns: width(grapheme), style, at: here };
            if cell.columns > columns {
                continue;
            }
            let blank = grapheme.chars().all(char::is_whitespace);
            if used + cell.columns > columns {
                // A blank at the end of a line is not drawn. A line may be broken before any wide character.
                let rest = match gap.filter(|g| *g > 0 && !blank && cell.columns < 2) {
                    Some(at) => line.split_off(at),
                    None => Vec::new(),
                };
                lines.push(finish(&line, here));
                line = rest;
                used = line.iter().map(|c| c.columns).sum();
                gap = None;
                if blank {
                    continue;
                }
            }
            if cell.columns == 2 && !line.is_empty() {
                gap = Some(line.len());
            }
            used += cell.columns;
            let wide = cell.columns == 2;
            line.push(cell);
            if blank || wide {
                gap = Some(line.len());
            }
        }
    }
    if !line.is_empty() {
        lines.push(finish(&line, at));
    }
    lines
}

/// A name and a text, which is wrapped in a column of its own after `left` columns.
pub(super) fn hang(
    name: Span<'static>,
    left: usize,
    (words, style): (&str, Style),
    columns: usize,
) -> Vec<Line<'static>> {
    let about = wrap([(words, style)], columns.saturating_sub(left).max(12));
    let fill = " ".repeat(left.saturating_sub(name.width()));
    let mut first = Some(vec![name, Span::raw(fill)]);
    let mut lines = Vec::with_capacity(about.len());
    for line in about {
        let mut spans = first.take().unwrap_or_else(|| vec![Span::raw(" ".repeat(left))]);
        spans.extend(line.spans);
        lines.push(Line::from(spans));
    }
    lines
}

fn finish(cells: &[Cell<'_>]) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let end = cells.iter().rposition(|c| !c.text.chars().all(char::is_whitespace)).map_or(0, |i| i + 1);
    for cell in &cells[..end] {
        match spans.last_mut() {
            Some(last) if last.style == cell.style => last.content.to_mut().push_str(cell.text),
            _ => spans.push(Span::styled(cell.text.to_owned(), cell.style)),
        }
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::*;

    fn plain(text: &str, columns: usize) -> Vec<String> {
        wrap([(text, Style::new())], columns).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_inside_words_only_if_necessary() {
        assert_eq!(plain("a red ball moves", 8), ["a red", "ball", "moves"]);
        assert_eq!(plain("a red ball", 5), ["a red", "ball"]);
        assert_eq!(plain("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(plain("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(plain("", 4), Vec::<String>::new());
    }

    #[test]
    fn wide_characters_never_stick_out() {
        assert_eq!(plain("日本語の字", 5), ["日本", "語の", "字"]);
        assert_eq!(plain("日本", 1), Vec::<String>::new());
        for columns in 1..20 {
            for line in plain("a 日本語 👩‍👩‍👧 e\u{301}tude 장면 naïve text", columns) {
                assert!(width(&line) <= columns, "{line:?} in {columns}");
            }
        }
    }

    #[test]
    fn lines_know_where_they_begin() {
        let begin = |text: &str, columns| -> Vec<usize> {
            wrap_placed([(text, Style::new())], columns).iter().map(|(at, _)| *at).collect()
        };
        assert_eq!(begin("a red ball moves", 8), [0, 6, 11]);
        assert_eq!(begin("a\n\nb", 4), [0, 2, 3]);
        assert_eq!(begin("日本語の字", 5), [0, 6, 12]);
    }

    #[test]
    fn text_is_indented_after_its_name() {
        let lines = hang(Span::raw("tau"), 6, ("one two three four", Style::new()), 20);
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["tau   one two three", "      four"]);
    }

    #[test]
    fn a_word_of_two_styles_stays_one_word() {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let lines = wrap([("one t", Style::new()), ("wo", bold)], 6);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].spans.len(), 2);
        assert_eq!(lines[1].to_string(), "two");
    }
}
