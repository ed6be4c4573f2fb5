//! The papers' tables as data: `lab/papers/NAME.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use super::measures::Measure;
use crate::methods;
use specreel_pruners::LabMethod;
use specreel_record::{Failure, FailureClass};
use specreel_speculate::{MethodError, Schedule, suggest};

pub const ALL: &str = "all";

const FILES: [&str; 5] = [
    include_str!("../../../papers/lvspec.toml"),
    include_str!("../../../papers/specvlm.toml"),
    include_str!("../../../papers/parallelvlm.toml"),
    include_str!("../../../papers/std.toml"),
    include_str!("../../../papers/sparrow.toml"),
];

static PAPERS: LazyLock<Result<Vec<Paper>, String>> =
    LazyLock::new(|| FILES.iter().map(|text| toml::from_str(text).map_err(|e| e.to_string())).collect());

/// A paper and its tables that are measured here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) paper: String,
    #[serde(rename = "table")]
    pub(crate) tables: Vec<Table>,
}

/// A table, or a part of one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The paper's number: `1`, or `F6` for figure 6.
    pub(crate) number: String,
    /// Which part of the table, if it has several.
    #[serde(default)]
    pub(crate) part: String,
    pub(crate) title: String,
    pub(crate) setting: String,
    pub(crate) columns: Vec<Measure>,
    /// Those whose order is compared; all of them if it is not given.
    #[serde(default)]
    pub(crate) compare: Option<Vec<Measure>>,
    #[serde(default)]
    pub(crate) note: String,
    #[serde(default)]
    pub(crate) temperature: f32,
    #[serde(default)]
    pub(crate) profile: Option<String>,
    /// Tokens of an answer in the paper.
    #[serde(default = "answer")]
    pub(crate) tokens: usize,
    /// Why an order does not agree, by figure, for rows that do not say it themselves.
    #[serde(default)]
    pub(crate) because: BTreeMap<Measure, String>,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// A row of the paper and the method that stands for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub(crate) label: String,
    /// The preset; `None` where nothing stands for the row, and `missing` says why.
    #[serde(default)]
    pub(crate) method: Option<String>,
    /// Changes of the preset and its pruner, as `--set` takes them.
    #[serde(default)]
    pub(crate) set: Vec<String>,
    #[serde(default)]
    pub(crate) frames: Option<u32>,
    /// The directory of the draft head, where it is not an embedded one.
    #[serde(default)]
    pub(crate) head: Option<String>,
    /// Only this decoding step, from 0.
    #[serde(default)]
    pub(crate) step: Option<usize>,
    /// Only the first so many decoding steps.
    #[serde(default)]
    pub(crate) first_steps: Option<usize>,
    #[serde(default)]
    pub(crate) figures: BTreeMap<Measure, f64>,
    /// The row's place if the paper gives an order without figures: 1 is the best. Rows of one place are not compared.
    #[serde(default)]
    pub(crate) rank: Option<u32>,
    #[serde(default = "yes")]
    pub(crate) compared: bool,
    /// Further changes of the preset for the paper's own sizes, when its acceptance is replayed.
    #[serde(default)]
    pub(crate) at_paper: Vec<String>,
    /// True if the table's profile is calibrated with the row's speedup.
    #[serde(default)]
    pub(crate) calibrates: bool,
    #[serde(default)]
    pub(crate) missing: String,
    /// How the method here deviates from the row's, and what that means, in a sentence.
    #[serde(default)]
    pub(crate) deviates: String,
    /// Why its order does not agree, by figure.
    #[serde(default)]
    pub(crate) because: BTreeMap<Measure, String>,
}

fn yes() -> bool {
    true
}

fn answer() -> usize {
    256
}

impl Table {
    pub(crate) fn compared(&self) -> &[Measure] {
        self.compare.as_deref().unwrap_or(&self.columns)
    }

    /// `table 1`, `figure 6`, `theorem 2.2`.
    pub(crate) fn place(&self) -> String {
        match self.number.split_at_checked(1) {
            Some(("F", number)) => format!("figure {number}"),
            Some(("T", number)) => format!("theorem {number}"),
            _ => format!("table {}", self.number),
        }
    }

    pub(crate) fn condition(&self, row: &Row) -> Condition {
        Condition { temperature: self.temperature, frames: row.frames, head: row.head.clone() }
    }
}

impl Row {
    /// The method; `None` where nothing stands for the row. Fails if the data name an unknown method or value.
    pub(crate) fn method(&self) -> Result<Option<LabMethod>, MethodError> {
        self.method_with(&[])
    }

    /// The method with the paper's own sizes. None and failures as for [`Row::method`].
    pub(crate) fn method_at_paper(&self) -> Result<Option<LabMethod>, MethodError> {
        self.method_with(&self.at_paper)
    }

    fn method_with(&self, more: &[String]) -> Result<Option<LabMethod>, MethodError> {
        let Some(name) = &self.method else { return Ok(None) };
        let preset = LabMethod::find(name)?.map_or_else(|| methods::preset(name).map(LabMethod::from), Ok)?;
        preset.with_sets(self.set.iter().chain(more).map(String::as_str)).map(Some)
    }

    /// Accepted drafts in the row's steps, and how many those are; `None` if the run ended before.
    pub(crate) fn chosen(&self, accepted: &[u32]) -> Option<(f64, f64)> {
        let steps = match (self.step, self.first_steps) {
            (Some(step), _) => accepted.get(step..=step)?,
            (None, Some(first)) => &accepted[..accepted.len().min(first)],
            (None, None) => accepted,
        };
        Some((f64::from(steps.iter().sum::<u32>()), steps.len() as f64))
    }

    /// True if its method drafts and verifies at the same time.
    pub(crate) fn overlaps(&self) -> bool {
        let method = self.method().ok().flatten();
        method.is_some_and(|lab| !matches!(lab.method.schedule, Schedule::Sequential {}))
    }

    /// The paper's value by which the row is compared: its figure, or its place.
    pub(crate) fn paper_value(&self, measure: Measure) -> Option<f64> {
        let place = self.rank.map(|rank| -f64::from(rank));
        self.figures.get(&measure).copied().or(place).filter(|_| self.compared)
    }
}

/// The properties that a row's runs share with the baseline's runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    pub(crate) temperature: f32,
    pub(crate) frames: Option<u32>,
    pub(crate) head: Option<String>,
}

impl Condition {
    /// The name of a method's runs under this condition; equal methods of different tables share it.
    pub(crate) fn key(&self, name: &str, set: &[String]) -> String {
        let sets = set.iter().map(|set| format!(" {set}"));
        let frames = self.frames.map(|n| format!(" --frames {n}"));
        let temperature = (self.temperature > 0.0).then(|| format!(" --temperature {}", self.temperature));
        let head = self.head.as_ref().map(|name| format!(" --drafter {name}"));
        std::iter::once(name.to_owned()).chain(sets).chain(frames).chain(temperature).chain(head).collect()
    }
}

pub fn papers() -> Result<&'static [Paper], Failure> {
    PAPERS.as_deref().map_err(|error| broken("the papers' tables", error))
}

/// Embedded data are wrong, and how.
pub fn broken(data: &str, how: &str) -> Failure {
    Failure { class: FailureClass::Internal, error: format!("{data} are broken: {how}"), hint: None }
}

pub fn names() -> Vec<String> {
    PAPERS.iter().flatten().map(|paper| paper.name.clone()).collect()
}

/// A paper's tables of `--paper NAME --table N`, with the paper.
pub fn find(name: &str, table: Option<&str>) -> Result<Vec<(&'static Paper, &'static Table)>, Failure> {
    let all = papers()?;
    let chosen: Vec<&Paper> = if name.eq_ignore_ascii_case(ALL) {
        if table.is_some() {
            return Err(Failure::usage(
                format!("--table cannot be used with --paper {ALL}"),
                "name one paper, for example: --paper lvspec --table 1",
            ));
        }
        all.iter().collect()
    } else {
        all.iter().filter(|paper| paper.name.eq_ignore_ascii_case(name)).collect()
    };
    if chosen.is_empty() {
        let known: Vec<String> = names().into_iter().chain([ALL.to_owned()]).collect();
        return Err(Failure::usage(
            format!("unknown paper `{name}`"),
            suggest(name, &known, "expected one of"),
        ));
    }
    let is_meant = |t: &Table| table.is_none_or(|number| t.number.eq_ignore_ascii_case(number));
    let found: Vec<_> = chosen
        .iter()
        .flat_map(|&paper| paper.tables.iter().filter(|t| is_meant(t)).map(move |table| (paper, table)))
        .collect();
    match (found.is_empty(), table, chosen.first()) {
        (true, Some(number), Some(paper)) => {
            let mut numbers: Vec<&str> = paper.tables.iter().map(|t| t.number.as_str()).collect();
            numbers.dedup();
            Err(Failure::usage(
                format!("no table `{number}` of {} is measured", paper.name),
                format!("expected one of: {} (F is a figure, T a theorem)", numbers.join(", ")),
            ))
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests;
