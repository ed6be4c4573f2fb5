//! `specreel dataset`: merge, check or count the data sets that `caption --dataset` writes.

use super::*;
use crate::cli::args::dataset::{DatasetArgs, DatasetCommand};
use specreel_batch::dataset::{Dataset, merge};
use specreel_client::present::formats::plural;

/// Number of names that are printed for each problem.
const SHOWN: usize = 20;

pub fn run(args: &DatasetArgs) -> Result<i32, End> {
    let mut out = std::io::stdout().lock();
    match &args.command {
        DatasetCommand::Merge { out: into, parts, force } => {
            if into.exists() && !force {
                let failure = Named { flag: "the result", what: "", on_failure: CHECK_DISK, private: false }
                    .exists(into);
                return Err(End::Failed(failure));
            }
            let merged = merge(into, parts)?;
            tell!(
                "{}: {} from {}; {} replaced, {} unreadable",
                color::plain(&into.to_string_lossy()),
                plural(merged.rows as u64, "row"),
                plural(parts.len() as u64, "file"),
                merged.replaced,
                merged.damaged
            );
            Ok(0)
        }
        DatasetCommand::Check { file, json } => {
            let set = Dataset::read(file)?;
            let problems = set.check();
            if *json {
                let line = json!({ "rows": set.contents.rows.len(), "damaged": problems.damaged, "cut": problems.cut,
                    "twice": problems.twice, "missing": problems.missing, "empty": problems.empty,
                    "confused": problems.confused });
                writeln!(out, "{line}")?;
            } else {
                let damaged: Vec<String> = problems.damaged.iter().map(|row| format!("row {row}")).collect();
                for (what, names) in [
                    ("cannot be read", &damaged),
                    ("two captions of one prompt", &problems.twice),
                    ("no such file", &problems.missing),
                    ("empty caption", &problems.empty),
                    ("its trainer caches it under the name of another video; rename one", &problems.confused),
                ] {
                    for name in names.iter().take(SHOWN) {
                        writeln!(out, "{}: {what}", color::plain(name))?;
                    }
                    if names.len() > SHOWN {
                        writeln!(out, "… and {} more: {what}", names.len() - SHOWN)?;
                    }
                }
                if problems.cut {
                    writeln!(out, "the last row is incomplete; the next run of caption removes it")?;
                }
                if problems.is_none() {
                    writeln!(out, "{}, no problems", plural(set.contents.rows.len() as u64, "row"))?;
                }
            }
            Ok(if problems.is_none() { 0 } else { 3 })
        }
        DatasetCommand::Stats { file, json } => {
            let stats = Dataset::read(file)?.stats();
            let [fewest, median, most] = stats.words;
            if *json {
                let line = json!({ "rows": stats.rows, "videos": stats.videos, "prompts": stats.prompts,
                    "words": { "fewest": fewest, "median": median, "most": most }, "repeated": stats.repeated,
                    "openings": stats.openings });
                writeln!(out, "{line}")?;
                return Ok(0);
            }
            writeln!(out, "rows      {}", stats.rows)?;
            writeln!(out, "videos    {}", stats.videos)?;
            writeln!(out, "prompts   {}", stats.prompts)?;
            writeln!(out, "words     {median} in the median, {fewest} to {most}")?;
            writeln!(out, "repeated  {} captions that another row also has", stats.repeated)?;
            for (opening, count) in &stats.openings {
                writeln!(out, "begins    {count} with \"{}\"", color::plain(opening))?;
            }
            Ok(0)
        }
    }
}
