//! `--at-paper-acceptance`: the papers' speedups as the cost model gives them at the papers' own acceptance. No model runs.
//!
//! It tests the model of the hardware alone: where it is right, a modelled speedup of a run here differs from the paper's only
//! because other drafts were accepted.

use serde::Serialize;

use super::{
    Tables,
    catalog::{Paper, Row, Table},
    measures::Measure,
};
use crate::Reporter;
use specreel_client::present::{formats::NOTHING, grid::stacked, text::clean, wrap::hang};
use specreel_modelled::{self as modelled, Reported, profile::Profile};
use specreel_record::Failure;

/// A modelled figure that is off by more than this share of the paper's is explained.
const CLOSE: f64 = 0.15;

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
    /// True if the profile is calibrated with this figure: it says nothing about the model.
    pub(crate) calibrates: bool,
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
        Ok((!rows.is_empty()).then_some(Replayed {
            paper: &paper.title,
            number: &table.number,
            part: &table.part,
            profile: name,
            rows,
        }))
    }
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
        Some(ReplayedRow { label, measure, acceptance, paper, modelled, calibrates, because })
    };
    let whole = profile.prefill_ms.map(|before| (before + times.plain_ms) / (before + times.total_ms()));
    let decode = line(Measure::Speedup, times.speedup(), row.calibrates);
    let whole = whole.and_then(|speedup| line(Measure::EndToEnd, speedup, false));
    Ok(decode.into_iter().chain(whole).collect())
}

/// Replay the tables and report them. Fails if a profile or a method is invalid, or the report cannot be written.
pub fn report<R: Reporter>(tables: &Tables, reporter: &mut R) -> Result<(), R::Error> {
    let columns = reporter.columns();
    let (mut text, mut held_out, mut close) = (String::new(), 0, 0);
    for &(paper, table) in tables {
        let Some(replayed) = Replayed::of(paper, table)? else { continue };
        reporter.line(TABLE, &replayed)?;
        let part = if table.part.is_empty() { String::new() } else { format!(" ({})", table.part) };
        text += &format!("\n{}, {}{part}, {}\n", paper.title, table.place(), replayed.profile);
        text += &stacked(&cells(&replayed), columns);
        for row in replayed.rows.iter().filter(|row| !row.calibrates) {
            held_out += 1;
            close += usize::from(row.is_close());
        }
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
    if held_out == 0 {
        text += "No speedup of these tables can be replayed: they have no profile, or no acceptance.\n";
    } else {
        let summary = format!(
            "\n{close} of {held_out} speedups that no profile is calibrated with are within {:.0} %. Modelled from the paper's \
             acceptance and sizes, not measured.\n",
            CLOSE * 100.0
        );
        text += &hang(&summary, columns, 0);
    }
    reporter.table(text.trim_start())
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
