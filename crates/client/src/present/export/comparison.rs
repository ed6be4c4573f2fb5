//! The page of a comparison: table, every method's caption by verdict, and its words against the baseline's.

use super::html::{caption, escape, page, paragraph, token, words};
use super::private::without_home;
use crate::present::statistics::{COMPARISON, Measures, comparison_notes};
use crate::present::verdicts::lossless_mark;
use specreel_record::{Comparison, Row, RunLog, Span, Verdict};

#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The video, as the user named it.
    pub video: &'a str,
    /// The part of it; `None` for the whole video.
    pub span: Option<Span>,
    pub prompt: &'a str,
    /// Text is sampled, and one of the methods accepts by sampling.
    pub sampled: bool,
}

pub fn comparison_page(compared: &Compared<'_>, comparison: &Comparison, runs: &[RunLog]) -> String {
    let part = compared.span.map(|span| format!(", {span}")).unwrap_or_default();
    let title = format!("Decoding methods on {}{part}", compared.video);
    let mut about = format!("“{}”", escape(compared.prompt));
    // A run with a drafter of its own names both models.
    let started = || runs.iter().filter_map(RunLog::started);
    let telling =
        started().find(|s| s.drafter.is_some() && !s.is_self_drafting()).or_else(|| started().next());
    if let Some(started) = telling {
        about += &escape(&format!(" · {} · specreel {}", started.models(), env!("CARGO_PKG_VERSION")));
    }
    let mut body = paragraph("about", &about);
    body += &format!("<div class=\"scroll\">{}</div>\n", table(comparison));
    body += &paragraph("about", &escape(&comparison_notes(comparison, compared.sampled).join(" ")));
    body += &legend(comparison, runs);
    body.extend(comparison.rows.iter().map(|row| section(comparison, row, runs)));
    without_home(page(&title, &body))
}

fn table(comparison: &Comparison) -> String {
    let number = |right: bool| if right { " class=\"number\"" } else { "" };
    let columns = COMPARISON;
    let mut out = String::from("<table class=\"columns\">\n<tr>");
    for column in &columns {
        out += &format!("<th{}>{}</th>", number(column.right), escape(column.title));
    }
    out += "</tr>\n";
    for row in &comparison.rows {
        let measures = Measures::of_row(comparison, row);
        out += "<tr>";
        for (at, column) in columns.iter().enumerate() {
            let cell = (column.cell)(&measures);
            let class = match cell.as_str() {
                // Not if a method is called so.
                "lossy" | "failed" if at > 0 => format!(" class=\"{cell}\""),
                _ => number(column.right).to_owned(),
            };
            out += &format!("<td{class}>{}</td>", escape(&cell));
        }
        out += "</tr>\n";
    }
    out + "</table>"
}

fn legend(comparison: &Comparison, runs: &[RunLog]) -> String {
    let shown: Vec<&RunLog> = comparison.rows.iter().filter_map(|row| comparison.run(row, runs)).collect();
    let occurs = |v: &Verdict| shown.iter().any(|run| run.tokens().any(|token| token.verdict == *v));
    let verdicts: Vec<String> =
        Verdict::ALL.into_iter().filter(occurs).map(|v| token(v, v.why(), v.name())).collect();
    match verdicts.is_empty() {
        true => String::new(),
        false => paragraph("legend", &format!("Verdicts: {}", verdicts.join(" · "))),
    }
}

/// A method's caption, and how its words differ from the baseline's.
fn section(comparison: &Comparison, row: &Row, runs: &[RunLog]) -> String {
    let mark = lossless_mark(row.lossless);
    let mut out =
        format!("<section>\n<h2>{} <span class=\"{mark}\">{mark}</span></h2>\n", escape(&row.method));
    if let Some(failure) = &row.failure {
        out += &paragraph("failed", &escape(&failure.error));
    }
    if let Some(run) = comparison.run(row, runs) {
        out += &paragraph("caption", &caption(run));
        if let Some(plain) = comparison.baseline_run(runs).filter(|plain| plain.ids() != run.ids()) {
            out += &format!("<h3>Words, against {}</h3>\n", escape(&comparison.baseline));
            out += &paragraph("words", &words(plain.text(), run.text()));
        }
    }
    out + "</section>\n"
}

#[cfg(test)]
mod tests;
