//! `--markdown`: a page with the tables of one or several runs, such as `docs/papers.md`.

use std::collections::BTreeMap;

use super::{
    catalog::{Paper, Table},
    cells,
    measures::Measure,
    order::Agreement,
    results::{Compared, Results},
};

type Tables<'a> = &'a [(&'static Paper, &'static Table)];

const INTRODUCTION: &str = "\
# The papers' tables

Every table and figure of the five papers that can be measured on a pair of models, next to specreel's figures. The papers'
models, videos and machines are not the ones used here, so figures differ; the **order** of the rows is compared. `specreel bench --paper all` measures, and writes this page with `--markdown`; see
[bench.md](bench.md#a-papers-tables---paper).

* **Figures**: counts are summed over the clips, speedups and times are medians over the clips. In brackets: the middle
  95 % of resampled sets of clips.
* **order**: a row and all rows that the paper puts below it. *Yes*: the order is the same here, and the 95 % interval of each
  difference on the same clips is above 0. *Within noise*: an interval includes 0, so other clips may reverse the order.
  *No*: the opposite, and the interval excludes 0; a sentence below the table says why.
* **tau** is without the bonus token, **per step** with it: papers differ. **M** counts accepted drafts between two
  rejects under the parallel schedule, and is *per step* under the sequential one, as ParallelVLM counts. **accepted** is
  accepted over drafted. **kept** is right facts relative to autoregressive decoding; ~ marks lossy methods.
* **decode** is decoding speed relative to autoregressive decoding of the same clip, **end to end** from the file to the
  last token. **modelled** is the decoding speedup on a profile's hardware ([profiles.md](profiles.md)), computed from the
  steps recorded here, not measured; its order is compared with the order of the paper's speedups.

";

/// The page, and the differences that nobody has explained.
///
/// Runs with a profile are shown at the tables of its hardware, below those without one.
pub fn page(tables: Tables, all: &[Results]) -> (String, Vec<String>) {
    let (mut measured, mut modelled): (Vec<&Results>, Vec<&Results>) =
        all.iter().partition(|results| results.header.profile.is_none());
    if measured.is_empty() {
        measured = std::mem::take(&mut modelled);
    }
    let mut out = INTRODUCTION.to_owned();
    out += &runs(&measured, &modelled);
    out += &summary(tables, &measured, &modelled);
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
        for (index, results) in measured.iter().enumerate() {
            let compared = Compared::of(paper, table, results);
            if index == 0 {
                out += &stand_ins(&compared);
            }
            if measured.len() > 1 {
                out += &format!("\nWith {}:\n", drafter(results));
            }
            out += &format!("\n{}", pipes(&cells::cells(&compared), 1));
            out += &orders(paper, &compared, results, |_| true, &mut unexplained);
        }
        for (results, compared) in on_hardware(paper, table, &modelled) {
            let (clips, profile) =
                (results.clips_done(), results.header.profile.as_deref().unwrap_or_default());
            out += &format!("\nModelled on `{profile}`, with {}, {clips} clips:\n", drafter(results));
            out += &format!("\n{}", pipes(&cells::modelled(&compared), 1));
            out += &orders(paper, &compared, results, |m| m == Measure::Modelled, &mut unexplained);
        }
    }
    (out, unexplained)
}

/// A table under those runs with the profile of its hardware that have its rows.
fn on_hardware<'a>(
    paper: &'static Paper,
    table: &'static Table,
    modelled: &[&'a Results],
) -> Vec<(&'a Results, Compared)> {
    let known = |compared: &Compared| {
        compared.orders.get(&Measure::Modelled).is_some_and(|orders| !orders.pairs.is_empty())
    };
    modelled
        .iter()
        .filter(|results| results.header.profile == table.profile)
        .map(|results| (*results, Compared::of(paper, table, results)))
        .filter(|(_, compared)| known(compared))
        .collect()
}

fn runs(measured: &[&Results], modelled: &[&Results]) -> String {
    let line = |results: &&Results| format!("* {}\n", heading(results));
    let lines: String = measured.iter().map(line).collect();
    let hardware = match modelled {
        [] => String::new(),
        _ => "Tables with a profile of the paper's hardware also show modelled speedups.\n\n".into(),
    };
    format!("Measured on:\n\n{lines}\n{hardware}")
}

fn heading(results: &Results) -> String {
    cells::heading(&results.header, results.clips_done())
}

/// How many pairs agree: by paper and figure, then by table.
fn summary(tables: Tables, measured: &[&Results], modelled: &[&Results]) -> String {
    let titles = measured.iter().map(|results| format!("with {}", drafter(results)));
    let mut rows = vec![["paper", "figure"].map(String::from).into_iter().chain(titles.clone()).collect()];
    let mut names: Vec<&str> = tables.iter().map(|(paper, _)| paper.name.as_str()).collect();
    names.dedup();
    for name in names {
        let own: Vec<_> = tables.iter().copied().filter(|(paper, _)| paper.name == name).collect();
        let sums: Vec<_> = measured.iter().map(|results| by_figure(&own, results, modelled)).collect();
        let mut figures: Vec<Measure> = sums.iter().flat_map(|sum| sum.keys().copied()).collect();
        figures.sort();
        figures.dedup();
        for figure in figures {
            let cells = sums.iter().map(|sum| sum.get(&figure).map_or_else(String::new, counts));
            let title = own.first().map(|(paper, _)| paper.title.clone()).unwrap_or_default();
            rows.push([title, figure.title().to_owned()].into_iter().chain(cells).collect());
        }
    }
    let mut by_table =
        vec![["paper", "table"].map(String::from).into_iter().chain(titles).collect::<Vec<_>>()];
    let hardware = tables.iter().any(|(paper, table)| !on_hardware(paper, table, modelled).is_empty());
    if hardware {
        by_table[0].push("modelled decode".into());
    }
    for &(paper, table) in tables {
        let mut line = vec![paper.title.clone(), place(table)];
        for results in measured {
            line.push(match Compared::of(paper, table, results).agreement() {
                Agreement { kendall: None, .. } => "not compared".into(),
                agreement => counts(&agreement),
            });
        }
        if hardware {
            let text =
                |(_, compared): (&Results, Compared)| counts(&compared.orders[&Measure::Modelled].agreement);
            line.push(on_hardware(paper, table, modelled).into_iter().next().map_or_else(String::new, text));
        }
        by_table.push(line);
    }
    format!(
        "## Summary\n\nPairs of rows in the paper's order, of all compared pairs; other clips may reverse those within noise.\n\n\
         {}\nThe same for each table, all its figures together, with Kendall's tau of the values:\n\n{}",
        pipes(&rows, 2),
        pipes(&by_table, 2)
    )
}

/// The pairs of all tables by figure; modelled speedups from the runs of the same drafter.
fn by_figure(tables: Tables, results: &Results, modelled: &[&Results]) -> BTreeMap<Measure, Agreement> {
    let mut sums: BTreeMap<Measure, Agreement> = BTreeMap::new();
    let mut add = |measure: Measure, more: Agreement| {
        let sum = sums.entry(measure).or_default();
        sum.agree += more.agree;
        sum.noise += more.noise;
        sum.disagree += more.disagree;
    };
    for &(paper, table) in tables {
        for (measure, orders) in Compared::of(paper, table, results).orders {
            add(measure, orders.agreement);
        }
        for (other, compared) in on_hardware(paper, table, modelled) {
            if other.header.drafter == results.header.drafter {
                add(Measure::Modelled, compared.orders[&Measure::Modelled].agreement);
            }
        }
    }
    sums.retain(|_, sum| sum.pairs() > 0);
    sums
}

/// `27 of 37, 2 within noise; 0.51`.
fn counts(agreement: &Agreement) -> String {
    let Agreement { agree, noise, kendall, .. } = *agreement;
    let noise = if noise > 0 { format!(", {noise} within noise") } else { String::new() };
    let kendall = kendall.map(|kendall| format!("; {kendall:.2}")).unwrap_or_default();
    format!("{agree} of {}{noise}{kendall}", agreement.pairs())
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

/// How a run's orders of these figures compare, and why they differ. Rows that differ for the same reason share a line.
fn orders(
    paper: &Paper,
    compared: &Compared,
    results: &Results,
    shown: impl Fn(Measure) -> bool,
    unexplained: &mut Vec<String>,
) -> String {
    let mut lines = String::new();
    for (measure, orders) in compared.orders.iter().filter(|(measure, _)| shown(**measure)) {
        lines += &format!("* {}: {}.\n", measure.title(), cells::agreement(&orders.agreement));
    }
    let differences = compared.differences();
    let differences: Vec<_> = differences.iter().filter(|difference| shown(difference.measure)).collect();
    for group in differences.chunk_by(|a, b| (a.measure, a.because) == (b.measure, b.because)) {
        let rows: Vec<String> =
            group.iter().map(|d| format!("{} below {}", d.row, d.above.join(", "))).collect();
        let why = group[0].because.unwrap_or("**Not explained.**");
        lines += &format!("* {}: {}. {why}\n", group[0].measure.title(), rows.join("; "));
        if group[0].because.is_none() {
            let (title, drafter) = (cells::title(&paper.title, compared), drafter(results));
            let line = |d: &&&_| format!("{title} with {drafter}, {}", cells::difference(d));
            unexplained.extend(group.iter().map(|d| line(&d)));
        }
    }
    if lines.is_empty() { lines } else { format!("\n{lines}") }
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
