//! The papers' claims, each as one effect: two rows of a table, or one, and what their figures must do.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    catalog::{self, Paper, Table, papers},
    figure::Figure,
    measures::Measure,
    results::{Compared, Drafter},
};
use specreel_record::Failure;

/// An effect of at least this share of the paper's, on a logarithmic scale, is the paper's.
const SHARE: f64 = 0.5;
/// A smaller share is none.
const LEAST: f64 = 0.1;
/// What a figure that shall hold may fall below the paper's.
const SLACK: f64 = 0.05;
/// Where a paper gives an order alone, rows that are closer are ties, as in its tables.
const TIE: f64 = 1.02;

static CLAIMS: LazyLock<Result<Vec<Claim>, String>> = LazyLock::new(|| {
    let file: File =
        toml::from_str(include_str!("../../../papers/claims.toml")).map_err(|e| e.to_string())?;
    Ok(file.claims)
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// A sentence of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The paper's name.
    pub(crate) paper: String,
    pub(crate) says: String,
    #[serde(default)]
    pub(crate) effect: Option<Effect>,
    /// Instead of an effect: the paper's figures and their place, where it cannot be tested here.
    #[serde(default)]
    pub(crate) untestable: String,
    /// True if the effect follows from how the methods are built, so that measuring it says nothing.
    #[serde(default)]
    pub(crate) by_construction: bool,
    /// What was found, in a sentence without figures: the page has them in a table.
    pub(crate) found: String,
}

/// Where the effect is in the paper's tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    pub(crate) table: String,
    #[serde(default)]
    pub(crate) part: String,
    pub(crate) measure: Measure,
    pub(crate) row: String,
    /// The rows that it is compared with: of several, with the one that it surpasses least.
    #[serde(default)]
    pub(crate) over: Vec<String>,
    /// Instead: rows between which the figure is interpolated to the row's own accepted length ([`Measure::Tau`]).
    #[serde(default)]
    pub(crate) curve: Vec<String>,
    pub(crate) kind: Kind,
    /// The paper's words, where it gives an order without figures.
    #[serde(default)]
    pub(crate) claimed: String,
    /// The effect that the paper states, where it is not the ratio of its figures.
    #[serde(default)]
    pub(crate) stated: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The ratio of both rows is above 1.
    Gain,
    /// The ratio of both rows, or the row's figure, does not fall far below the paper's.
    Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    NotTestable,
    Opposite,
    Not,
    Partly,
    Reproduced,
    ByConstruction,
}

impl Verdict {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verdict::NotTestable => "cannot be tested here",
            Verdict::Opposite => "the opposite",
            Verdict::Not => "not reproduced",
            Verdict::Partly => "partly",
            Verdict::Reproduced => "reproduced",
            Verdict::ByConstruction => "true by construction",
        }
    }

    /// The verdict over several drafters: theirs if they agree, else what is there with some of them.
    fn joined(verdicts: &[Verdict]) -> Verdict {
        match (verdicts.iter().min(), verdicts.iter().max()) {
            (Some(least), Some(most)) if least == most => *least,
            (Some(_), Some(most)) if *most >= Verdict::Partly => Verdict::Partly,
            (Some(_), Some(_)) => Verdict::Not,
            _ => Verdict::NotTestable,
        }
    }
}

/// A claim and what was measured.
#[derive(Debug)]
pub struct Judged {
    pub(crate) claim: &'static Claim,
    pub(crate) paper: &'static Paper,
    /// The paper's effect and its place: `x 2.13 (table 3, tau)`.
    pub(crate) theirs: String,
    /// The effect with each drafter; `None` where it was not measured.
    pub(crate) ours: Vec<Option<String>>,
    pub(crate) verdict: Verdict,
}

/// Judge all claims by the tables of some runs. Fails if the embedded claims name what is not there.
pub fn judge(drafters: &[Drafter<'_>]) -> Result<Vec<Judged>, Failure> {
    let claims = CLAIMS.as_deref().map_err(|error| broken(error))?;
    let mut judged = Vec::new();
    for claim in claims {
        let paper = papers()?.iter().find(|paper| paper.name == claim.paper);
        let paper = paper.ok_or_else(|| broken(&format!("no paper `{}`", claim.paper)))?;
        judged.push(match &claim.effect {
            None => Judged {
                claim,
                paper,
                theirs: claim.untestable.clone(),
                ours: vec![None; drafters.len()],
                verdict: Verdict::NotTestable,
            },
            Some(effect) => effect.judge(claim, paper, drafters)?,
        });
    }
    Ok(judged)
}

fn broken(how: &str) -> Failure {
    catalog::broken("the papers' claims", how)
}

/// The rows of an effect in a table.
struct Rows {
    row: usize,
    over: Vec<usize>,
    curve: Vec<usize>,
}

impl Effect {
    fn find(&self, paper: &'static Paper) -> Result<&'static Table, Failure> {
        let is_meant = |table: &&Table| table.number == self.table && table.part == self.part;
        let found = paper.tables.iter().find(is_meant);
        found.ok_or_else(|| broken(&format!("{} has no table {} `{}`", paper.name, self.table, self.part)))
    }

    fn rows(&self, table: &Table) -> Result<Rows, Failure> {
        let at = |label: &String| {
            let at = table.rows.iter().position(|row| row.label == *label);
            at.ok_or_else(|| broken(&format!("table {} has no row `{label}`", self.table)))
        };
        let all = |labels: &[String]| labels.iter().map(at).collect::<Result<Vec<_>, _>>();
        Ok(Rows { row: at(&self.row)?, over: all(&self.over)?, curve: all(&self.curve)? })
    }

    fn is_ratio(&self) -> bool {
        !(self.over.is_empty() && self.curve.is_empty())
    }

    fn judge(
        &self,
        claim: &'static Claim,
        paper: &'static Paper,
        drafters: &[Drafter<'_>],
    ) -> Result<Judged, Failure> {
        let table = self.find(paper)?;
        let rows = self.rows(table)?;
        let theirs = self.stated.or(self.theirs(table, &rows)?);
        let of = |drafter: &Drafter<'_>| {
            let is_own = |(_, compared): &&(&Paper, Compared)| std::ptr::eq(compared.table(), table);
            let (_, compared) = drafter.tables.iter().find(is_own)?;
            self.ours(compared, &rows)
        };
        let effects: Vec<Option<Figure>> = drafters.iter().map(of).collect();
        let verdicts: Vec<Verdict> =
            effects.iter().flatten().map(|effect| self.kind.verdict(theirs, effect)).collect();
        let verdict = match Verdict::joined(&verdicts) {
            // One that fails all the same is a fault, and is shown.
            verdict if claim.by_construction && verdict >= Verdict::Partly => Verdict::ByConstruction,
            verdict => verdict,
        };
        let theirs = theirs.map_or_else(|| self.claimed.clone(), |value| self.text(value));
        Ok(Judged {
            claim,
            paper,
            theirs: format!("{theirs} ({}, {})", table.place(), self.measure.title()),
            ours: effects
                .iter()
                .map(|effect| effect.as_ref().map(|effect| self.effect_text(effect)))
                .collect(),
            verdict,
        })
    }

    /// The paper's effect; `None` where it gives an order alone.
    fn theirs(&self, table: &Table, rows: &Rows) -> Result<Option<f64>, Failure> {
        let measure = self.measure.of_paper();
        let figure = |at: &usize| table.rows[*at].figures.get(&measure).copied();
        let row = figure(&rows.row);
        let effect = match rows.over.first() {
            Some(_) => {
                let others = rows.over.iter().map(|at| Some(row? / figure(at)?));
                others.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(f64::INFINITY, f64::min))
            }
            None => row.filter(|_| rows.curve.is_empty()),
        };
        if effect.is_some() != self.claimed.is_empty() {
            let what = "needs either figures of the paper or its words";
            return Err(broken(&format!("{}, {}: {} {what}", table.number, self.row, measure.title())));
        }
        Ok(effect)
    }

    /// The effect here; `None` where a row was not measured, or does not lie within its curve.
    fn ours(&self, compared: &Compared, rows: &Rows) -> Option<Figure> {
        let figure = |measure, at: &usize| compared.rows[*at].figures.get(measure);
        let row = figure(&self.measure, &rows.row)?;
        if !rows.curve.is_empty() {
            let points =
                rows.curve.iter().map(|at| Some((figure(&Measure::Tau, at)?, figure(&self.measure, at)?)));
            let points: Vec<(&Figure, &Figure)> = points.collect::<Option<_>>()?;
            return row.over(&Figure::interpolated(&points, figure(&Measure::Tau, &rows.row)?)?);
        }
        if rows.over.is_empty() {
            return Some(row.clone());
        }
        let ratios = rows.over.iter().map(|at| row.over(figure(&self.measure, at)?));
        let ratios: Vec<Figure> = ratios.collect::<Option<_>>()?;
        ratios.into_iter().min_by(|a, b| a.value.total_cmp(&b.value))
    }

    fn text(&self, value: f64) -> String {
        if self.is_ratio() { format!("x {value:.2}") } else { self.measure.text(value) }
    }

    fn effect_text(&self, effect: &Figure) -> String {
        match (self.is_ratio(), effect.interval) {
            (false, _) => super::cells::figure_text(self.measure, effect),
            (true, Some((low, high))) => format!("x {:.2} [{low:.2} to {high:.2}]", effect.value),
            (true, None) => format!("x {:.2}", effect.value),
        }
    }
}

impl Kind {
    /// The highest verdict whose threshold the whole interval clears; without an interval nothing is shown. `None` is a paper that
    /// gives an order alone.
    fn verdict(self, paper: Option<f64>, effect: &Figure) -> Verdict {
        let Some((low, high)) = effect.interval else { return Verdict::Not };
        let (least, half) = paper.map_or((1.0, TIE), |paper| (paper.powf(LEAST), paper.powf(SHARE)));
        match self {
            Kind::Gain if high < 1.0 => Verdict::Opposite,
            Kind::Gain if low <= 1.0 || low < least => Verdict::Not,
            Kind::Gain if low < half => Verdict::Partly,
            Kind::Gain => Verdict::Reproduced,
            Kind::Holds if paper.is_some_and(|paper| low >= paper - SLACK) => Verdict::Reproduced,
            Kind::Holds => Verdict::Not,
        }
    }
}

#[cfg(test)]
mod tests;
