//! `--markdown`: a page with the tables of one or several runs, such as `docs/papers.md`.

use super::{
    catalog::{Paper, Table},
    cells,
    order::Agreement,
    results::{Compared, Results},
};

/// What the page says before its tables.
const INTRODUCTION: &str = "\
# The papers' tables

Every table and figure of the five papers that can be measured on a pair of models, beside what specreel measures. The
paper's models, videos and machines are not the ones used here, so figures differ; what is compared is the **order** of
the rows. `specreel bench --paper all` measures, and writes this page with `--markdown`; see
[bench.md](bench.md#a-papers-tables---paper).

* **Figures**: counts are summed over the clips, speedups and times are medians over the clips. In brackets: the middle
  95 % of resampled sets of clips.
* **order**: a row and all rows that the paper puts below it. *Yes*: here, too, and the 95 % interval of each difference
  on the same clips is above 0. *Within noise*: an interval includes 0, so other clips may turn the order round. *No*:
  the opposite, and the interval excludes 0; a sentence below the table says why.
* **tau** is without the bonus token, **per step** with it: papers differ. **M** counts accepted drafts between two
  rejects under the parallel schedule, and is *per step* under the sequential one, as ParallelVLM counts. **accepted** is
  accepted over drafted. **kept** is right facts relative to autoregressive decoding; ~ marks lossy methods.
* **decode** is decoding speed relative to autoregressive decoding of the same clip, **end to end** from the file to the
  last token. **modelled**, where a profile was given, is the decoding speedup on the profile's hardware, computed from the
  recorded steps; its order is compared with that of the paper's speedups.

";

/// The page, and the differences that nobody has explained.
pub fn page(tables: &[(&'static Paper, &'static Table)], all: &[Results]) -> (String, Vec<String>) {
    let mut out = INTRODUCTION.to_owned();
    out += &runs(all);
    out += &summary(tables, all);
    let mut unexplained = Vec::new();
    let mut last = "";
    for &(paper, table) in tables {
        if paper.name != last {
            last = &paper.name;
            out += &format!("\n## {}\n\n*{}*\n", paper.title, paper.paper);
        }
        let part = if table.part.is_empty() { String::new() } else { format!(": {}", table.part) };
        out += &format!("\n### {}, {}{part}\n\n", paper.title, table.place());
        out += &format!("{}. In the paper: {}.\n", table.title, table.setting);
        if !table.note.is_empty() {
            out += &format!("\nHere: {}.\n", table.note);
        }
        for (index, results) in all.iter().enumerate() {
            let compared = Compared::of(paper, table, results);
            if index == 0 {
                out += &stand_ins(&compared);
            }
            out += &section(paper, &compared, results, all.len() > 1, &mut unexplained);
        }
    }
    (out, unexplained)
}

/// The runs that the page shows.
fn runs(all: &[Results]) -> String {
    let line = |results: &Results| format!("* {}\n", heading(results));
    let lines: String = all.iter().map(line).collect();
    format!("Measured on:\n\n{lines}\n")
}

fn heading(results: &Results) -> String {
    cells::heading(&results.header, results.clips_done())
}

/// A row per table: how many pairs agree.
fn summary(tables: &[(&'static Paper, &'static Table)], all: &[Results]) -> String {
    let mut head = vec!["paper".to_owned(), "table".to_owned()];
    head.extend(all.iter().map(|results| format!("with {}", drafter(results))));
    let mut rows = vec![head];
    for &(paper, table) in tables {
        let mut line = vec![paper.title.clone(), place(table)];
        for results in all {
            line.push(match Compared::of(paper, table, results).agreement() {
                Agreement { kendall: None, .. } => "not compared".into(),
                agreement => {
                    let Agreement { agree, noise, disagree, kendall } = agreement;
                    let kendall = kendall.unwrap_or_default();
                    format!("{agree} agree, {noise} noise, {disagree} not; Kendall's tau {kendall:.2}")
                }
            });
        }
        rows.push(line);
    }
    format!(
        "## Summary\n\nPairs of rows whose order agrees, over all compared figures of a table:\n\n{}",
        pipes(&rows, 2)
    )
}

fn place(table: &Table) -> String {
    let part = if table.part.is_empty() { String::new() } else { format!(", {}", table.part) };
    format!("{}{part}", table.place())
}

fn drafter(results: &Results) -> &str {
    results.header.drafter.as_deref().unwrap_or("no drafter")
}

/// Which methods stand for the rows.
fn stand_ins(compared: &Compared) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(vec!["row".to_owned(), "here".to_owned()])
        .chain(cells::methods(compared).into_iter().map(|(row, method)| vec![row, method]))
        .collect();
    format!("\n{}", pipes(&rows, rows[0].len()))
}

/// One run's figures of a table.
fn section(
    paper: &Paper,
    compared: &Compared,
    results: &Results,
    named: bool,
    unexplained: &mut Vec<String>,
) -> String {
    let mut out = String::new();
    if named {
        out += &format!("\nWith {}:\n", drafter(results));
    }
    out += &format!("\n{}", pipes(&cells::cells(compared), 1));
    let mut lines = String::new();
    for (measure, orders) in &compared.orders {
        lines += &format!("* {}: {}.\n", measure.title(), cells::agreement(&orders.agreement));
    }
    for difference in compared.differences() {
        let words = cells::difference(&difference);
        match difference.because {
            Some(why) => lines += &format!("* {words}. {why}\n"),
            None => {
                lines += &format!("* {words}. **Not explained.**\n");
                unexplained.push(format!(
                    "{} with {}, {words}",
                    cells::title(&paper.title, compared),
                    drafter(results)
                ));
            }
        }
    }
    if !lines.is_empty() {
        out += &format!("\n{lines}");
    }
    out
}

/// Rows as a Markdown table, of which the first `left` columns are text.
fn pipes(rows: &[Vec<String>], left: usize) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let Some((head, rest)) = rows.split_first() else { return String::new() };
    let rule: String = (0..head.len()).map(|at| if at < left { "|---" } else { "|---:" }).collect();
    let rows: String = rest.iter().map(|cells| line(cells)).collect();
    format!("{}{rule}|\n{rows}", line(head))
}
