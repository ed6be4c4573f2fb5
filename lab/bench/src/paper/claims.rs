//! The papers' claims, each as one effect: two rows of a table, or one, and what their figures must do.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    catalog::{Paper, Row, Table, papers},
    figure::Figure,
    measures::Measure,
    results::{Compared, Drafter},
};
use specreel_record::{Failure, FailureClass};

/// An effect of at least this share of the paper's, on a logarithmic scale, is the paper's.
const SHARE: f64 = 0.5;
/// A smaller share is none.
const LEAST: f64 = 0.1;
/// What a figure that shall hold may fall below the paper's.
const SLACK: f64 = 0.05;

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
    /// What was found, in a sentence.
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
    /// The row that it is compared with.
    #[serde(default)]
    pub(crate) over: Option<String>,
    pub(crate) kind: Kind,
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
    Not,
    Partly,
    Reproduced,
}

impl Verdict {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verdict::NotTestable => "cannot be tested here",
            Verdict::Not => "not reproduced",
            Verdict::Partly => "partly",
            Verdict::Reproduced => "reproduced",
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

fn broken(what: &str) -> Failure {
    Failure {
        class: FailureClass::Internal,
        error: format!("the papers' claims are broken: {what}"),
        hint: None,
    }
}

impl Effect {
    fn find(&self, paper: &'static Paper) -> Result<&'static Table, Failure> {
        let is_meant = |table: &&Table| table.number == self.table && table.part == self.part;
        let found = paper.tables.iter().find(is_meant);
        found.ok_or_else(|| broken(&format!("{} has no table {} `{}`", paper.name, self.table, self.part)))
    }

    fn judge(
        &self,
        claim: &'static Claim,
        paper: &'static Paper,
        drafters: &[Drafter<'_>],
    ) -> Result<Judged, Failure> {
        let table = self.find(paper)?;
        let row = |label: &str| {
            let at = table.rows.iter().position(|row| row.label == label);
            at.ok_or_else(|| broken(&format!("{} table {} has no row `{label}`", paper.name, self.table)))
        };
        let upper = row(&self.row)?;
        let lower = self.over.as_deref().map(row).transpose()?;
        let measure = self.measure.of_paper();
        let figure = |at: usize| {
            let row: &Row = &table.rows[at];
            let none = || broken(&format!("{}, {}: no {}", table.number, row.label, measure.title()));
            row.figures.get(&measure).copied().ok_or_else(none)
        };
        let theirs = match lower {
            Some(lower) => figure(upper)? / figure(lower)?,
            None => figure(upper)?,
        };
        let of = |drafter: &Drafter<'_>| {
            let is_own = |(_, compared): &&(&Paper, Compared)| std::ptr::eq(compared.table(), table);
            let (_, compared) = drafter.tables.iter().find(is_own)?;
            let figure = |at: usize| compared.rows[at].figures.get(&self.measure);
            match lower {
                Some(lower) => figure(upper)?.over(figure(lower)?),
                None => figure(upper).cloned(),
            }
        };
        let effects: Vec<Option<Figure>> = drafters.iter().map(of).collect();
        let verdicts = || effects.iter().flatten().map(|effect| self.kind.verdict(theirs, effect));
        let verdict = match (verdicts().min(), verdicts().max()) {
            (Some(least), Some(most)) if least == most => least,
            (Some(_), Some(_)) => Verdict::Partly,
            _ => Verdict::NotTestable,
        };
        let ratio = lower.is_some();
        Ok(Judged {
            claim,
            paper,
            theirs: format!("{} ({}, {})", self.text(theirs, ratio), table.place(), self.measure.title()),
            ours: effects.iter().map(|effect| Some(self.effect_text(effect.as_ref()?, ratio))).collect(),
            verdict,
        })
    }

    fn text(&self, value: f64, ratio: bool) -> String {
        if ratio { format!("x {value:.2}") } else { self.measure.text(value) }
    }

    fn effect_text(&self, effect: &Figure, ratio: bool) -> String {
        match (ratio, effect.interval) {
            (false, _) => super::cells::figure_text(self.measure, effect),
            (true, Some((low, high))) => format!("x {:.2} [{low:.2} to {high:.2}]", effect.value),
            (true, None) => format!("x {:.2}", effect.value),
        }
    }
}

impl Kind {
    /// Without an interval nothing is shown.
    fn verdict(self, paper: f64, effect: &Figure) -> Verdict {
        let Some((low, high)) = effect.interval else { return Verdict::Not };
        match self {
            Kind::Gain if low <= 1.0 || effect.value.ln() < LEAST * paper.ln() => Verdict::Not,
            Kind::Gain if effect.value.ln() < SHARE * paper.ln() => Verdict::Partly,
            Kind::Gain => Verdict::Reproduced,
            Kind::Holds if low >= paper - SLACK => Verdict::Reproduced,
            Kind::Holds if high >= paper - SLACK => Verdict::Partly,
            Kind::Holds => Verdict::Not,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(low: f64, high: f64) -> Figure {
        let rounds = (0..100).map(|n| low + (high - low) * f64::from(n) / 99.0).collect();
        Figure::new((low + high) / 2.0, rounds)
    }

    #[test]
    fn every_claim_names_rows_that_are_there() {
        let judged = judge(&[]).unwrap();
        assert!(judged.len() >= 15, "{}", judged.len());
        for claim in &judged {
            // Nothing was measured.
            assert_eq!(claim.verdict, Verdict::NotTestable);
            assert!(claim.claim.says.ends_with('.') && claim.claim.found.ends_with('.'), "{claim:?}");
            let effect = claim.claim.effect.as_ref();
            assert_eq!(effect.is_some(), claim.claim.untestable.is_empty(), "{claim:?}");
            assert!(
                effect.is_none_or(|e| e.kind != Kind::Gain) || claim.theirs.as_str() > "x 1.0",
                "{claim:?}"
            );
        }
    }

    #[test]
    fn an_effect_is_the_papers_if_it_is_sure_and_at_least_half_as_large() {
        use Verdict::{Not, Partly, Reproduced};
        for (kind, paper, low, high, verdict) in [
            (Kind::Gain, 2.0, 1.8, 2.2, Reproduced),
            (Kind::Gain, 2.0, 1.4, 1.5, Reproduced),
            (Kind::Gain, 2.0, 1.1, 1.3, Partly),
            (Kind::Gain, 2.0, 1.02, 1.06, Not),
            (Kind::Gain, 2.0, 0.9, 2.9, Not),
            (Kind::Gain, 2.0, 0.5, 0.6, Not),
            (Kind::Holds, 0.99, 0.95, 0.99, Reproduced),
            (Kind::Holds, 0.99, 0.90, 0.96, Partly),
            (Kind::Holds, 0.99, 0.80, 0.90, Not),
        ] {
            // Interval cuts 2.5 % on either side.
            assert_eq!(kind.verdict(paper, &figure(low, high)), verdict, "{kind:?} {low} {high}");
        }
        assert_eq!(Kind::Gain.verdict(2.0, &Figure::new(3.0, Vec::new())), Not);
    }
}
