//! The tables of one paper, with all runs side by side; each reason is written once.

use super::{Drafter, conditions, pipes, replayed};
use crate::paper::{
    catalog::{Paper, Row},
    cells::{self, dash},
    measures::Measure,
    replay::ReplayedRow,
    results::Compared,
};
use specreel_record::Failure;

/// The page; adds the differences that nobody has explained. Fails if a profile is invalid.
pub fn page(
    paper: &'static Paper,
    drafters: &[Drafter<'_>],
    unexplained: &mut Vec<String>,
) -> Result<String, Failure> {
    let mut out = format!(
        "# {}: every table\n\n*{}*\n\n[papers.md](../papers.md) says what the columns mean, and which claims hold. Numbers in \
         parentheses are [reasons](#reasons).\n\n{}",
        paper.title,
        paper.paper,
        conditions(drafters)
    );
    let mut reasons = Reasons::default();
    let tables = drafters.first().map_or(0, |drafter| drafter.tables.len());
    for at in 0..tables {
        let runs: Vec<(&str, &Compared)> =
            drafters.iter().map(|drafter| (drafter.name(), &drafter.tables[at].1)).collect();
        if drafters[0].tables[at].0.name != paper.name {
            continue;
        }
        out += &table(paper, &runs, &mut reasons, unexplained)?;
    }
    out += "\n## Reasons\n\n";
    for (index, reason) in reasons.0.iter().enumerate() {
        out += &format!("{}. {reason}\n", index + 1);
    }
    Ok(out)
}

/// Reasons by number, from 1.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn number(&mut self, reason: &str) -> usize {
        let at = self.0.iter().position(|known| known == reason).unwrap_or_else(|| {
            self.0.push(reason.to_owned());
            self.0.len() - 1
        });
        at + 1
    }
}

fn table(
    paper: &'static Paper,
    runs: &[(&str, &Compared)],
    reasons: &mut Reasons,
    unexplained: &mut Vec<String>,
) -> Result<String, Failure> {
    let Some((_, first)) = runs.first() else { return Ok(String::new()) };
    let table = first.table();
    let part = if table.part.is_empty() { String::new() } else { format!(": {}", table.part) };
    let mut place = table.place();
    place[..1].make_ascii_uppercase();
    let mut out = format!("\n## {place}{part}\n\n{}. In the paper: {}.\n", table.title, table.setting);
    if !table.note.is_empty() {
        out += &format!("\nHere: {}.\n", table.note);
    }
    let replayed = replayed(paper, first)?;
    let columns: Vec<Measure> = shown(first);
    let mut head = vec!["row".to_owned(), "here".to_owned()];
    for &measure in &columns {
        if figures(table.rows.iter(), measure) {
            head.push(format!("{}: paper", title(measure)));
            head.extend(runs.iter().map(|(name, _)| (*name).to_owned()));
        } else {
            head.extend(runs.iter().map(|(name, _)| format!("{}: {name}", title(measure))));
        }
    }
    if !replayed.is_empty() {
        head.push(Measure::Replayed.title().to_owned());
    }
    let methods = cells::methods(first);
    let mut rows = vec![head];
    for (index, row) in table.rows.iter().enumerate() {
        let lossy = if first.rows[index].lossless == Some(false) { " ~" } else { "" };
        let mut line = vec![format!("{}{lossy}", row.label), methods[index].1.clone()];
        for &measure in &columns {
            if figures(table.rows.iter(), measure) {
                let theirs = row.figures.get(&measure.of_paper());
                line.push(theirs.map_or_else(dash, |value| measure.text(*value)));
            }
            for (_, compared) in runs {
                let figure = compared.rows[index].figures.get(&measure);
                line.push(figure.map_or_else(dash, |figure| cells::figure_text(measure, figure)));
            }
        }
        if !replayed.is_empty() {
            line.push(replayed_text(row, &replayed, reasons));
        }
        rows.push(line);
    }
    out += &format!("\n{}", pipes(&rows, 2));
    let orders = orders(paper, runs, &columns, reasons, unexplained);
    if !orders.is_empty() {
        out += &format!("\n{orders}");
    }
    Ok(out)
}

/// The table's own figures, with the modelled speedup for the measured one, then tau where the table lacks it.
fn shown(compared: &Compared) -> Vec<Measure> {
    let own = &compared.table().columns;
    let has = |measure: &Measure| compared.rows.iter().any(|row| row.figures.contains_key(measure));
    let mut columns: Vec<Measure> = Vec::new();
    for measure in own {
        match measure {
            Measure::Speedup => columns.extend([Measure::Modelled].into_iter().filter(has)),
            Measure::EndToEnd => {}
            other => columns.push(*other),
        }
    }
    let counts = [Measure::Tau, Measure::TauBonus, Measure::MeanRun];
    if !columns.iter().any(|measure| counts.contains(measure)) {
        columns.extend([Measure::Tau].into_iter().filter(has));
    }
    columns
}

fn title(measure: Measure) -> &'static str {
    if measure == Measure::Modelled { "speedup, modelled" } else { measure.title() }
}

fn figures<'a>(mut rows: impl Iterator<Item = &'a Row>, measure: Measure) -> bool {
    rows.any(|row| row.figures.contains_key(&measure.of_paper()))
}

fn replayed_text(row: &Row, replayed: &[ReplayedRow], reasons: &mut Reasons) -> String {
    let own: Vec<String> = replayed
        .iter()
        .filter(|other| other.label == row.label)
        .map(|replayed| {
            let value = replayed.measure.text(replayed.modelled);
            let why = replayed.because().map(|why| format!(" ({})", reasons.number(why)));
            let what = match (replayed.measure, replayed.calibrates) {
                (Measure::EndToEnd, _) => {
                    format!(", end to end: paper {}", replayed.measure.text(replayed.paper))
                }
                (_, true) => ", calibrated".to_owned(),
                _ => String::new(),
            };
            format!("{value}{what}{}", why.unwrap_or_default())
        })
        .collect();
    if own.is_empty() { dash() } else { own.join("; ") }
}

/// How many pairs of rows are in the paper's order, and why others are not.
fn orders(
    paper: &Paper,
    runs: &[(&str, &Compared)],
    columns: &[Measure],
    reasons: &mut Reasons,
    unexplained: &mut Vec<String>,
) -> String {
    let mut lines = String::new();
    for &measure in columns {
        let mut parts = Vec::new();
        for (name, compared) in runs {
            let Some(orders) = compared.orders.get(&measure).filter(|orders| !orders.pairs.is_empty()) else {
                continue;
            };
            let mut part = format!("{name}: {}", cells::agreement(&orders.agreement));
            let differences = compared.differences();
            let own = || differences.iter().filter(|difference| difference.measure == measure);
            let mut why: Vec<usize> =
                own().filter_map(|difference| Some(reasons.number(difference.because?))).collect();
            why.sort_unstable();
            why.dedup();
            if !why.is_empty() {
                let numbers: Vec<String> = why.iter().map(usize::to_string).collect();
                part += &format!(" ({})", numbers.join(", "));
            }
            parts.push(part);
            for difference in own().filter(|difference| difference.because.is_none()) {
                let title = cells::title(&paper.title, compared);
                unexplained.push(format!("{title} with {name}, {}", cells::difference(difference)));
            }
        }
        if !parts.is_empty() {
            lines += &format!("* {}: {}\n", title(measure), parts.join("; "));
        }
    }
    lines
}
