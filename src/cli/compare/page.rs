//! The comparison as one page of HTML: table, captions with every token's verdict, word-level differences.
//!
//! The page needs nothing but itself, and runs nothing; its policy forbids both. All text of others is escaped.

use std::borrow::Cow;

use super::{
    columns::{COLUMNS, mark},
    text::notes,
    tokens::{Chunk, chunks, why},
};
use crate::{
    cli::color,
    record::{Change, Comparison, Row, RunRecord, Span, Verdict, difference},
};

const STYLE: &str = include_str!("page.css");

/// What was compared on.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The video, as it was named.
    pub video: &'a str,
    /// The part of it; none is the whole.
    pub span: Option<Span>,
    /// The prompt.
    pub prompt: &'a str,
    /// One of the methods accepts by sampling, and the text is sampled.
    pub sampled: bool,
}

/// The whole page.
pub fn page(about: &About<'_>, comparison: &Comparison, runs: &[RunRecord]) -> String {
    let part = about.span.map(|span| format!(", {span}")).unwrap_or_default();
    let title = format!("Decoding methods on {}{part}", escape(about.video));
    // Of all runs one that used both models tells most.
    let telling = runs.iter().find(|run| run.drafter.is_some() && !run.own_drafter);
    let telling = telling.or_else(|| runs.iter().find(|run| !run.target.is_empty()));
    let models = telling.map(models).unwrap_or_default();
    let notes = escape(&notes(comparison, about.sampled).join(" ")).into_owned();
    let sections: String = comparison.rows.iter().map(|row| section(comparison, row, runs)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"about\">“{}”{models}</p>\n<div class=\"scroll\">{}</div>\n<p class=\"notes\">{notes}</p>\n\
         {}{sections}</body>\n</html>\n",
        escape(about.prompt),
        table(comparison),
        keys(comparison, runs),
    )
}

fn models(run: &RunRecord) -> String {
    let with = run.drafter.as_ref().map(|d| format!(" with {d}")).unwrap_or_default();
    escape(&format!(
        " · {}{with} on {}, {} · specreel {}",
        run.target,
        run.device,
        run.dtype,
        env!("CARGO_PKG_VERSION")
    ))
    .into_owned()
}

fn table(comparison: &Comparison) -> String {
    let number = |right: bool| if right { " class=\"number\"" } else { "" };
    let mut out = String::from("<table>\n<tr>");
    for column in &COLUMNS {
        out += &format!("<th{}>{}</th>", number(column.right), escape(column.title));
    }
    out += "</tr>\n";
    for row in &comparison.rows {
        out += "<tr>";
        for column in &COLUMNS {
            let cell = (column.cell)(comparison, row);
            let class = match cell.as_str() {
                "lossy" | "failed" if column.title != "method" => format!(" class=\"{cell}\""),
                _ => number(column.right).to_owned(),
            };
            out += &format!("<td{class}>{}</td>", escape(&cell));
        }
        out += "</tr>\n";
    }
    out + "</table>"
}

/// The verdicts that occur, each in its own style.
fn keys(comparison: &Comparison, runs: &[RunRecord]) -> String {
    let shown: Vec<&RunRecord> = comparison.rows.iter().filter_map(|row| comparison.run(row, runs)).collect();
    let occurs = |v: &Verdict| shown.iter().any(|run| run.tokens.iter().any(|token| token.verdict == *v));
    let keys: Vec<String> =
        Verdict::ALL.into_iter().filter(occurs).map(|v| span(v, v.why(), v.name())).collect();
    if keys.is_empty() {
        String::new()
    } else {
        format!("<p class=\"keys\">Verdicts: {}</p>\n", keys.join(" · "))
    }
}

/// A method's caption, and how its words differ from the baseline's.
fn section(comparison: &Comparison, row: &Row, runs: &[RunRecord]) -> String {
    let mark = mark(row.lossless);
    let mut out =
        format!("<section>\n<h2>{} <span class=\"{mark}\">{mark}</span></h2>\n", escape(&row.method));
    if let Some(failure) = &row.failure {
        out += &format!("<p class=\"failed\">{}</p>\n", escape(&failure.error));
    }
    if let Some(run) = comparison.run(row, runs) {
        out += &format!("<p class=\"caption\">{}</p>\n", caption(run));
        let baseline = comparison.rows.iter().find(|row| row.method == comparison.baseline);
        let plain = baseline.and_then(|row| comparison.run(row, runs));
        if let Some(plain) = plain.filter(|plain| plain.ids != run.ids) {
            let against = escape(&comparison.baseline);
            out += &format!(
                "<h3>Words, against {against}</h3>\n<p class=\"words\">{}</p>\n",
                words(&plain.text, &run.text)
            );
        }
    }
    out + "</section>\n"
}

fn caption(run: &RunRecord) -> String {
    let chunks = chunks(&run.tokens);
    if chunks.is_empty() {
        return escape(run.text.trim()).into_owned();
    }
    chunks.into_iter().map(|Chunk { text, token }| span(token.verdict, &why(token), &text)).collect()
}

fn span(verdict: Verdict, why: &str, text: &str) -> String {
    format!("<span class=\"{verdict}\" title=\"{}\">{}</span>", escape(why), escape(text))
}

fn words(plain: &str, other: &str) -> String {
    let mut out = String::new();
    for piece in difference(plain, other) {
        if piece.spaced && !out.is_empty() {
            out.push(' ');
        }
        let text = escape(&piece.text);
        out += &match piece.change {
            Change::Same => text.into_owned(),
            Change::Deleted => format!("<del>{text}</del>"),
            Change::Inserted => format!("<ins>{text}</ins>"),
        };
    }
    out
}

/// Text that is nothing but text, between tags and inside quotes.
fn escape(text: &str) -> Cow<'_, str> {
    let text = color::plain(text);
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
