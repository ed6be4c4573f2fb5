//! Whether rows are what their labels say: two contexts that keep the same visual tokens are one, and two that keep a different
//! number cannot be compared.

use super::{
    catalog::{Row, Table},
    clip_run::ClipRun,
    results::Results,
};
use specreel_pruners::{LabMethod, TargetPruner};
use specreel_speculate::VisualContext;

/// Fewer clips say nothing: contexts may agree on some.
const LEAST: usize = 6;
/// Most tokens by which the mean numbers of kept tokens may differ where the same share is kept.
const MOST: f64 = 1.0;

/// What is wrong with a table's rows in these results, in sentences. Rows that say how they deviate may keep another number.
pub fn problems(table: &Table, results: &Results) -> Vec<String> {
    let rows: Vec<Selected<'_>> =
        table.rows.iter().filter_map(|row| Selected::of(table, row, results)).collect();
    let mut problems = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        for other in rows[..at].iter().filter(|other| other.reads() != row.reads()) {
            let (a, b) = (&other.row.label, &row.row.label);
            let deviates = [row, other].iter().any(|row| !row.row.deviates.is_empty());
            if row.kept == other.kept && row.mean() > 0.0 {
                problems.push(format!("{a} and {b} keep the same visual tokens on every clip"));
            } else if !deviates && row.asked() == other.asked() && (row.mean() - other.mean()).abs() > MOST {
                let (first, second) = (other.mean(), row.mean());
                problems.push(format!("{a} keeps {first:.1} visual tokens, and {b} {second:.1}"));
            }
        }
    }
    problems
}

/// A row whose runs chose visual tokens.
struct Selected<'a> {
    row: &'a Row,
    lab: LabMethod,
    /// By clip.
    kept: Vec<&'a [u32]>,
}

impl<'a> Selected<'a> {
    fn of(table: &Table, row: &'a Row, results: &'a Results) -> Option<Selected<'a>> {
        let lab = row.method().ok().flatten()?;
        let key = table.condition(row).key(&lab.method.name, &row.set);
        let mut runs: Vec<&ClipRun> =
            results.runs.iter().filter(|run| run.run == key && run.draw == 0).collect();
        runs.sort_by_key(|run| run.clip);
        let kept: Option<Vec<&[u32]>> = runs.iter().map(|run| run.kept.as_deref()).collect();
        let kept = kept.filter(|kept| kept.len() >= LEAST)?;
        Some(Selected { row, lab, kept })
    }

    /// What chooses the visual tokens, for the drafter or for the target.
    fn reads(&self) -> (&VisualContext, Option<&TargetPruner>) {
        (&self.lab.method.context, self.lab.pruner.as_ref())
    }

    /// How many of the visual tokens the method is asked to keep, as a share or a number.
    fn asked(&self) -> Vec<f64> {
        if let Some(pruner) = &self.lab.pruner {
            return vec![pruner.keep()];
        }
        let numbers = self.lab.method.numbers().into_iter();
        let own =
            numbers.filter(|(axis, key, _)| axis.name == "context" && ["keep", "budget"].contains(&key.name));
        own.map(|(_, _, number)| number).collect()
    }

    fn mean(&self) -> f64 {
        let tokens: usize = self.kept.iter().map(|kept| kept.len()).sum();
        tokens as f64 / self.kept.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::catalog;

    /// Results of table F7 of SpecVLM in which the drafter of each run sees these tokens.
    fn problems_of(kept: &dyn Fn(&str, u64) -> Vec<u32>) -> Vec<String> {
        problems_in(catalog::find("specvlm", Some("F7")).unwrap()[0].1, kept)
    }

    fn problems_in(table: &Table, kept: &dyn Fn(&str, u64) -> Vec<u32>) -> Vec<String> {
        let keys = table
            .rows
            .iter()
            .map(|row| table.condition(row).key(&row.method().unwrap().unwrap().method.name, &row.set));
        let run = |clip, run: &String| ClipRun {
            clip,
            run: run.clone(),
            kept: Some(kept(run, clip)),
            ..ClipRun::default()
        };
        let keys: Vec<String> = keys.collect();
        let runs = (0..6).flat_map(|clip| keys.iter().map(move |key| run(clip, key))).collect();
        problems(table, &Results { runs, ..Results::default() })
    }

    #[test]
    fn rows_that_select_the_same_tokens_or_another_number_are_named() {
        let own = |run: &str| run.bytes().map(u32::from).sum::<u32>();
        assert_eq!(problems_of(&|run, clip| vec![own(run), clip as u32]), Vec::<String>::new());
        let same = problems_of(&|_, clip| vec![clip as u32]);
        assert!(same.iter().all(|problem| problem.ends_with("keep the same visual tokens on every clip")));
        assert!(!same.is_empty());
        let more = problems_of(&|run, _| vec![own(run); if run.contains("front") { 9 } else { 6 }]);
        assert!(!more.is_empty() && more.iter().all(|problem| problem.contains("9.0")), "{more:?}");
    }
    #[test]
    fn rows_of_other_budgets_may_keep_other_numbers() {
        let tables = catalog::find("std", Some("F1")).unwrap();
        let (_, table) = tables.into_iter().find(|(_, table)| table.part == "K in tokens").unwrap();
        let budget = |run: &str| run.rsplit('=').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        assert_eq!(problems_in(table, &|run, _| (0..budget(run)).collect()), Vec::<String>::new());
    }
}
