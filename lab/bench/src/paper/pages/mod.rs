//! `--pages`: the results of one or several runs as pages and data: `papers.md` with the claims, a page for each paper, and every
//! figure in `figures.csv`.

mod claims_page;
mod csv;
mod earlier;
mod paper_page;

pub use earlier::Earlier;

use super::{
    Tables,
    catalog::Paper,
    claims,
    measures::Measure,
    results::{Compared, ComparedRow, Drafter, Results},
};
use specreel_record::Failure;

/// The page of the claims.
pub(super) const CLAIMS: &str = "papers.md";
const FIGURES: &str = "papers/figures.csv";
const VERDICTS: &str = "papers/verdicts.csv";

/// Names of the files for these tables, relative to the directory of the pages.
pub fn names(tables: &Tables) -> Vec<String> {
    let papers = papers(tables).into_iter().map(file);
    [CLAIMS, FIGURES, VERDICTS].map(str::to_owned).into_iter().chain(papers).collect()
}

/// The files by name, and the differences that nobody has explained.
pub(super) struct Pages {
    pub files: Vec<(String, String)>,
    pub unexplained: Vec<String>,
}

impl Pages {
    /// Fails if a profile or a claim is invalid, or a row was measured without the profile of its table.
    pub fn of(tables: &Tables, all: &[Results]) -> Result<Pages, Failure> {
        let drafters: Vec<Drafter<'_>> = all.iter().map(|results| Drafter::of(results, tables)).collect();
        modelled(&drafters)?;
        let judged = claims::judge(&drafters)?;
        let mut files = vec![
            (CLAIMS.to_owned(), claims_page::page(&judged, &drafters)),
            (FIGURES.to_owned(), csv::figures(&drafters)?),
            (VERDICTS.to_owned(), csv::verdicts(&judged, &drafters)),
        ];
        let mut unexplained = Vec::new();
        for paper in papers(tables) {
            files.push((file(paper), paper_page::page(paper, &drafters, &mut unexplained)?));
        }
        Ok(Pages { files, unexplained })
    }
}

/// The papers of the tables, each once.
fn papers(tables: &Tables) -> Vec<&'static Paper> {
    let mut papers: Vec<&'static Paper> = tables.iter().map(|(paper, _)| *paper).collect();
    papers.dedup_by_key(|paper| &paper.name);
    papers
}

fn file(paper: &Paper) -> String {
    format!("papers/{}.md", paper.name)
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

/// The models and clips of each run, and of those that filled in what they lack.
fn conditions(drafters: &[Drafter<'_>]) -> String {
    let line = |drafter: &Drafter<'_>| {
        let results = drafter.results;
        format!("* {}\n", super::cells::heading(&results.header, results.clips_done()))
    };
    let also = drafters.first().into_iter().flat_map(|drafter| &drafter.results.also);
    let clips = |(header, done): &(_, usize)| {
        let clips = super::cells::clips(header, *done);
        format!("* rows with another draft head (`--drafter`, or `vispec`): {clips}\n")
    };
    let mut filled: Vec<String> = also.map(clips).collect();
    filled.dedup();
    drafters.iter().map(line).chain(filled).collect()
}

/// Fails if a row of a table with a profile was measured, and not charged by it: its cell would be empty.
fn modelled(drafters: &[Drafter<'_>]) -> Result<(), Failure> {
    for (paper, compared) in drafters.iter().flat_map(|drafter| &drafter.tables) {
        let Some(profile) = &compared.table().profile else { continue };
        let lacks = |row: &&ComparedRow| row.clips > 0 && !row.figures.contains_key(&Measure::Modelled);
        if let Some(row) = compared.rows.iter().find(lacks) {
            let place = super::cells::title(&paper.title, compared);
            return Err(Failure::input(
                format!("{place}: {} was measured without the profile {profile}", row.label),
                "measure the table again: bench --paper charges every run by the profiles of its tables",
            ));
        }
    }
    Ok(())
}

/// Fails if a profile is invalid.
fn replayed(paper: &'static Paper, compared: &Compared) -> Result<Vec<super::replay::ReplayedRow>, Failure> {
    Ok(super::replay::Replayed::of(paper, compared.table())?.map_or_else(Vec::new, |table| table.rows))
}
