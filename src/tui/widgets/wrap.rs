//! Wraps styled text at spaces and around wide characters, and knows where each line begins, which search and scrolling need.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::text;
use specreel_client::present::wrap::lines;

/// Wrap pieces of text into lines of at most `columns`.
pub(crate) fn wrap<'a>(
    pieces: impl IntoIterator<Item = (&'a str, Style)>,
    columns: usize,
) -> Vec<Line<'static>> {
    wrap_placed(pieces, columns).into_iter().map(|(_, line)| line).collect()
}

/// The same, each line with the byte offset at which it begins.
pub(crate) fn wrap_placed<'a>(
    pieces: impl IntoIterator<Item = (&'a str, Style)>,
    columns: usize,
) -> Vec<(usize, Line<'static>)> {
    let spans = |line: Vec<(Style, String)>| {
        line.into_iter().map(|(style, text)| Span::styled(text, style)).collect::<Line<'_>>()
    };
    lines(pieces, columns).into_iter().map(|(at, line)| (at, spans(line))).collect()
}

/// A name and a text, which is wrapped in a column of its own after `left` columns.
pub(crate) fn hang(
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

/// Cut to so many lines; the last one shows that there are more.
pub(crate) fn cut(lines: &mut Vec<Line<'static>>, rows: usize, columns: usize) {
    if lines.len() <= rows {
        return;
    }
    lines.truncate(rows);
    let Some(last) = lines.last_mut() else { return };
    if last.width() + 2 <= columns {
        last.push_span(" …");
    } else if let Some(span) = last.spans.last_mut() {
        let columns = span.width();
        span.content = text::fit(&format!("{}  ", span.content), columns).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_indented_after_its_name() {
        let lines = hang(Span::raw("tau"), 6, ("one two three four", Style::new()), 20);
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["tau   one two three", "      four"]);
    }
}
