//! `--at-paper-acceptance`: the papers' speedups as the cost model gives them at the papers' own acceptance. No model runs.
//!
//! It tests the model of the hardware alone: where it is right, a modelled speedup of a run here differs from the paper's only
//! because other drafts were accepted.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    Tables,
    catalog::{Paper, Row, Table, papers},
    measures::Measure,
};
use crate::Reporter;
use specreel_client::present::{formats::NOTHING, grid::stacked, text::clean, wrap::hang};
use specreel_modelled::{self as modelled, Reported, profile::Profile};
use specreel_record::Failure;

/// A modelled figure that is off by more than this share of the paper's is explained.
const CLOSE: f64 = 0.15;
/// Steps whose modelled times differ by less cost the same.
const SAME: f64 = 0.03;

pub const TABLE: &str = "paper_replay";

/// The speedups of a table that can be replayed.
#[derive(Debug, Serialize)]
pub struct Replayed {
    paper: &'static str,
    number: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    part: &'static str,
    profile: &'static str,
    pub(crate) rows: Vec<ReplayedRow>,
}

#[derive(Debug, Serialize)]
pub struct ReplayedRow {
    pub(crate) label: &'static str,
    /// Decode speedup, or from file to last token.
    pub(crate) measure: Measure,
    /// Tokens of a step, or accepted drafts for each reject, as the paper reports them.
    acceptance: f64,
    pub(crate) paper: f64,
    pub(crate) modelled: f64,
    /// Modelled time of a step.
    step_ms: f64,
    /// True if the profile is calibrated with this figure: it says nothing about the model.
    pub(crate) calibrates: bool,
    /// True if a step costs as much as one of a row that the profile is calibrated with: then only the acceptance differs.
    restates: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'static str>,
}

impl ReplayedRow {
    /// Why it is off; `None` where it is close, or nobody has said it yet.
    pub(crate) fn because(&self) -> Option<&'static str> {
        self.because.filter(|_| !self.is_close())
    }

    /// How far the model is off, as a share of the paper's figure.
    pub(crate) fn off(&self) -> f64 {
        self.modelled / self.paper - 1.0
    }

    fn is_close(&self) -> bool {
        self.off().abs() <= CLOSE
    }
}

impl Replayed {
    /// `None` if the table has no profile, or no row can be replayed. Fails if the profile or a method is invalid.
    pub fn of(paper: &'static Paper, table: &'static Table) -> Result<Option<Replayed>, Failure> {
        let Some(name) = &table.profile else { return Ok(None) };
        let profile = modelled::load(name)?;
        let mut rows = Vec::new();
        for row in &table.rows {
            rows.extend(replay(&profile, table, row)?);
        }
        let fitted = fitted(&profile, name)?;
        for row in rows.iter_mut().filter(|row| !row.calibrates) {
            row.restates = fitted.iter().any(|step_ms| (row.step_ms / step_ms - 1.0).abs() < SAME);
        }
        Ok((!rows.is_empty()).then_some(Replayed {
            paper: &paper.title,
            number: &table.number,
            part: &table.part,
            profile: name,
            rows,
        }))
    }
}

/// The modelled times of a step in the rows, of all tables, with which a profile is calibrated.
fn fitted(profile: &Profile, name: &str) -> Result<Vec<f64>, Failure> {
    let mut steps = Vec::new();
    let tables = papers()?.iter().flat_map(|paper| &paper.tables);
    for table in tables.filter(|table| table.profile.as_deref() == Some(name)) {
        for row in table.rows.iter().filter(|row| row.calibrates) {
            steps.extend(replay(profile, table, row)?.iter().map(|row| row.step_ms));
        }
    }
    Ok(steps)
}

/// The row's speedups; none where the paper does not report its acceptance, or the profile lacks the drafter.
fn replay(profile: &Profile, table: &'static Table, row: &'static Row) -> Result<Vec<ReplayedRow>, Failure> {
    let Some(lab) = row.method_at_paper()? else { return Ok(Vec::new()) };
    let method = &lab.method;
    let figure = |measure| row.figures.get(&measure).copied();
    let drafts = method.shape.drafts().unwrap_or(0) as f64;
    let reported = if !method.drafts() {
        lab.pruner.as_ref().map(|_| Reported::PerStep(1.0))
    } else if row.overlaps() {
        figure(Measure::MeanRun).map(Reported::PerReject)
    } else {
        let of_drafts = || Some(figure(Measure::AcceptedShare)? * drafts + 1.0);
        let per_step = figure(Measure::TauBonus).or(figure(Measure::MeanRun));
        per_step.or_else(|| Some(figure(Measure::Tau)? + 1.0)).or_else(of_drafts).map(Reported::PerStep)
    };
    let Some(reported) = reported else { return Ok(Vec::new()) };
    let Some(times) = modelled::replay(profile, method, lab.target_share(), reported, table.tokens) else {
        return Ok(Vec::new());
    };
    let (Reported::PerStep(acceptance) | Reported::PerReject(acceptance)) = reported;
    let because = row.because.get(&Measure::Replayed).or_else(|| table.because.get(&Measure::Replayed));
    let line = |measure, modelled, calibrates| {
        let paper = row.figures.get(&measure).copied()?;
        let label = &row.label;
        let because = because.map(String::as_str);
        let step_ms = times.total_ms() * acceptance / table.tokens as f64;
        let restates = false;
        Some(ReplayedRow {
            label,
            measure,
            acceptance,
            paper,
            modelled,
            step_ms,
            calibrates,
            restates,
            because,
        })
    };
    let whole = profile.prefill_ms.map(|before| (before + times.plain_ms) / (before + times.total_ms()));
    let decode = line(Measure::Speedup, times.speedup(), row.calibrates);
    let whole = whole.and_then(|speedup| line(Measure::EndToEnd, speedup, false));
    Ok(decode.into_iter().chain(whole).collect())
}

/// Replay the tables and report them. Fails if a profile or a method is invalid, or the report cannot be written.
pub fn report<R: Reporter>(tables: &Tables, reporter: &mut R) -> Result<(), R::Error> {
    let columns = reporter.columns();
    let mut text = String::new();
    let mut held_out = HeldOut::default();
    for &(paper, table) in tables {
        let Some(replayed) = Replayed::of(paper, table)? else { continue };
        reporter.line(TABLE, &replayed)?;
        let part = if table.part.is_empty() { String::new() } else { format!(" ({})", table.part) };
        text += &format!("\n{}, {}{part}, {}\n", paper.title, table.place(), replayed.profile);
        text += &stacked(&cells(&replayed), columns);
        held_out.add(&replayed);
        for row in replayed.rows.iter().filter(|row| !row.is_close()) {
            match row.because() {
                Some(why) => text += &hang(&clean(&format!("{}: {why}\n", row.label)), columns, 2),
                None => {
                    let place = format!("{} {}{part}, {}", paper.title, table.place(), row.label);
                    reporter.note(&format!("not explained: {place}: {:+.0} %", row.off() * 100.0));
                }
            }
        }
    }
    if held_out.all == 0 {
        text += "No speedup of these tables can be replayed: they have no profile, or no acceptance.\n";
    } else {
        let modelled = "Modelled from the paper's acceptance and sizes, not measured.";
        text += &hang(&format!("\n{} {modelled}\n", held_out.words()), columns, 0);
    }
    reporter.table(text.trim_start())
}

/// The figures that calibrate nothing, and what they say of the cost model.
#[derive(Default)]
pub struct HeldOut {
    all: usize,
    restated: usize,
    /// Profile, step, acceptance and figure of those that count.
    seen: BTreeSet<(&'static str, [u64; 3])>,
    repeated: usize,
    close: usize,
}

impl HeldOut {
    fn add(&mut self, replayed: &Replayed) {
        for row in replayed.rows.iter().filter(|row| !row.calibrates) {
            self.all += 1;
            let figure = [row.step_ms, row.acceptance, row.paper].map(f64::to_bits);
            if row.restates {
                self.restated += 1;
            } else if !self.seen.insert((replayed.profile, figure)) {
                self.repeated += 1;
            } else {
                self.close += usize::from(row.is_close());
            }
        }
    }

    /// The count of all tables. Fails if a profile or a method is invalid.
    #[cfg(test)]
    fn of_all() -> Result<HeldOut, Failure> {
        let mut held_out = HeldOut::default();
        for paper in papers()? {
            for table in &paper.tables {
                Replayed::of(paper, table)?.iter().for_each(|replayed| held_out.add(replayed));
            }
        }
        Ok(held_out)
    }

    /// `Of 105 speedups that no profile is calibrated with, 40 restate a fit …`.
    fn words(&self) -> String {
        format!(
            "Of {} speedups that no profile is calibrated with, {} restate a fit (their steps cost what a fitted row's do) and {} \
             repeat another table's; of the other {}, {} are within {:.0} %.",
            self.all,
            self.restated,
            self.repeated,
            self.seen.len(),
            self.close,
            CLOSE * 100.0
        )
    }
}

fn cells(replayed: &Replayed) -> Vec<Vec<String>> {
    let head = ["row", "", "acceptance", "paper", "modelled", "difference"].map(str::to_owned).to_vec();
    let line = |row: &ReplayedRow| {
        let difference = match row.calibrates {
            true => format!("{:+.0} %, calibrated", row.off() * 100.0),
            false => format!("{:+.0} %", row.off() * 100.0),
        };
        // The same acceptance gives both speedups.
        let acceptance = match row.measure {
            Measure::EndToEnd => NOTHING.to_owned(),
            _ => format!("{:.2}", row.acceptance),
        };
        vec![
            row.label.to_owned(),
            row.measure.title().to_owned(),
            acceptance,
            row.measure.text(row.paper),
            row.measure.text(row.modelled),
            difference,
        ]
    };
    std::iter::once(head).chain(replayed.rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests;
