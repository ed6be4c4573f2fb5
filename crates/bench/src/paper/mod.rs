//! The papers' tables next to ours, and whether the order of their rows agrees.
//!
//! The tables are data (`assets/papers`). A run measures every method that they name once per clip; its results are enough
//! to show the tables again ([`read`]) and to write a page with them.

mod catalog;
mod cells;
mod measure;
mod measures;
mod order;
mod page;
mod results;
mod saved;
mod text;

use std::ops::Range;

pub use catalog::{Paper, Table, find};
pub use measure::Work;
pub use results::Results;
pub use saved::read;

use self::results::{Compared, Header};
use crate::{Reporter, clips::ClipRenderer, figure, runs::Runs};
use specreel_client::present::{text::clean, wrap::hang};

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
    /// Name of the profile that charges the runs.
    pub profile: Option<String>,
}

/// Measure tables and report them. False if it was interrupted; then they show the results so far. Fails if the models cannot be
/// loaded, a clip cannot be rendered, a run failed, or the results cannot be written.
pub async fn run<R: Reporter>(
    options: PaperOptions,
    mut runs: Runs,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let PaperOptions { name, tables, work, seeds, profile } = options;
    let mut clips = ClipRenderer::open()?;
    let Some(loaded) = runs.load(reporter).await? else { return Ok(false) };
    let header = Header {
        paper: name,
        target: loaded.target,
        drafter: loaded.drafter,
        device: loaded.device,
        dtype: loaded.dtype,
        first_seed: seeds.start,
        clips: seeds.end - seeds.start,
        profile,
        skipped: work.skipped.clone(),
    };
    reporter.line(saved::HEADER, &header)?;
    let mut results = Results { header, runs: Vec::new() };
    let whole = measure::measure(&work, seeds, &mut runs, &mut clips, reporter, &mut results.runs).await;
    reporter.ended();
    show(&tables, &[results], reporter)?;
    whole
}

/// Report the tables with these results: as data, as text, and as a page. Fails if they cannot be written.
pub fn show<R: Reporter>(tables: &Tables, all: &[Results], reporter: &mut R) -> Result<(), R::Error> {
    let columns = reporter.columns();
    let mut text = String::new();
    for results in all {
        let heading = format!("{}\n", clean(&cells::heading(&results.header, results.clips_done())));
        text += &hang(&heading, columns, 2);
        for &(paper, table) in tables {
            let compared = Compared::of(paper, table, results);
            reporter.line(saved::TABLE, &compared)?;
            text += &text::table(&paper.title, &compared, columns);
        }
    }
    if reporter.wants_file() {
        let (page, unexplained) = page::page(tables, all);
        reporter.file(&page)?;
        unexplained.iter().for_each(|difference| reporter.note(&format!("not explained: {difference}")));
    }
    reporter.table(&(text + &text::legend(columns)))
}

/// Names of the papers; the last one means all of them.
pub fn names() -> Vec<String> {
    catalog::names().into_iter().chain([catalog::ALL.to_owned()]).collect()
}
