//! The papers' tables next to ours, and whether the order of their rows agrees.
//!
//! The tables are data (`lab/papers`). A run measures every method that they name once per clip; its results are enough
//! to show the tables again ([`read`]) and to write a page with them.

mod catalog;
mod cells;
mod claims;
mod clip_run;
mod guard;
mod measure;
mod measures;
mod order;
pub mod pages;
pub mod replay;
mod results;
mod saved;
mod text;

use std::{collections::BTreeSet, ops::Range};

pub use catalog::{Paper, Table, find};
pub use measure::Work;
pub use pages::Earlier;
pub use results::Results;
pub use saved::read;

use self::{
    pages::Pages,
    results::{Compared, Header},
};
use crate::{Reporter, clips::ClipRenderer, figure, runs::Runs};
use specreel_client::present::{formats, text::clean, wrap::hang};
use specreel_modelled::{self as modelled, profile::Profile};
use specreel_record::{Failure, FailureClass};

/// Tables, each with its paper.
pub type Tables = Vec<(&'static Paper, &'static Table)>;

/// What to measure.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// The name by which the tables were chosen.
    pub name: String,
    pub tables: Tables,

    pub work: Work,
    pub seeds: Range<u64>,
    /// Length of the clips; `None`: as their seeds say.
    pub seconds: Option<u32>,
    /// The pages that are replaced.
    pub earlier: Earlier,
}

/// Measure tables and report them. False if it was interrupted; then they show the results so far. Fails if the models cannot be
/// loaded, a clip cannot be rendered, a run failed, or the results cannot be written.
pub async fn run<R: Reporter>(
    options: PaperOptions,
    mut runs: Runs,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let PaperOptions { name, tables, work, seeds, seconds, earlier } = options;
    let mut clips = ClipRenderer::open(seconds)?;
    let Some(loaded) = runs.load(reporter).await? else { return Ok(false) };
    let header = Header {
        paper: name,
        target: loaded.target,
        drafter: loaded.drafter,
        device: loaded.device,
        dtype: loaded.dtype,
        first_seed: seeds.start,
        clips: seeds.end - seeds.start,
        seconds,
        skipped: work.skipped.clone(),
    };
    reporter.line(saved::HEADER, &header)?;
    let mut results = Results { header, ..Results::default() };
    let whole = measure::measure(&work, seeds, &mut runs, &mut clips, reporter, &mut results.runs).await;
    reporter.ended();
    let unsound = report(&tables, &[results], &earlier, reporter)?;
    match whole {
        Ok(true) if unsound > 0 => Err(Failure {
            class: FailureClass::Internal,
            error: format!(
                "rows are not what their labels say, in {}: see the notes",
                formats::plural(unsound, "case")
            ),
            hint: Some(
                "the results are kept; mend the rows, or say in `deviates` how they differ from the paper's"
                    .into(),
            ),
        }
        .into()),
        whole => whole,
    }
}

/// Report the tables with these results: as data, as text, and as pages in place of earlier ones. Fails if they cannot be written, or
/// the pages lose what the earlier ones have.
pub fn show<R: Reporter>(
    tables: &Tables,
    all: &[Results],
    earlier: &Earlier,
    reporter: &mut R,
) -> Result<(), R::Error> {
    report(tables, all, earlier, reporter).map(|_| ())
}

/// As [`show`]; returns how many problems the rows have ([`guard`]).
fn report<R: Reporter>(
    tables: &Tables,
    all: &[Results],
    earlier: &Earlier,
    reporter: &mut R,
) -> Result<u64, R::Error> {
    let columns = reporter.columns();
    let (mut text, mut unsound) = (String::new(), 0);
    for results in all {
        let heading = format!("{}\n", clean(&cells::heading(&results.header, results.clips_done())));
        text += &hang(&heading, columns, 2);
        for &(paper, table) in tables {
            let compared = Compared::of(paper, table, results);
            for problem in guard::problems(table, results) {
                unsound += 1;
                reporter.note(&format!("{}: {problem}", cells::title(&paper.title, &compared)));
            }
            reporter.line(saved::TABLE, &compared)?;
            text += &text::table(&paper.title, &compared, columns);
        }
    }
    if reporter.wants_file(pages::CLAIMS) {
        let pages = Pages::of(tables, all)?;
        earlier.check(&pages)?;
        for (name, text) in &pages.files {
            reporter.file(name, text)?;
        }
        for difference in &pages.unexplained {
            reporter.note(&format!("not explained: {difference}"));
        }
    }
    reporter.table(&(text + &text::legend(columns)))?;
    Ok(unsound)
}

/// The profiles of the tables' hardware, each once. Fails if one is invalid.
pub fn profiles(tables: &Tables) -> Result<Vec<Profile>, Failure> {
    let names: BTreeSet<&str> = tables.iter().filter_map(|(_, table)| table.profile.as_deref()).collect();
    names.into_iter().map(modelled::load).collect()
}

/// Names of the papers; the last one means all of them.
pub fn names() -> Vec<String> {
    catalog::names().into_iter().chain([catalog::ALL.to_owned()]).collect()
}
