//! A table of a paper next to the results of one run of the benchmark.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use specreel_record::Failure;

use super::{
    Tables,
    catalog::{Paper, Row, Table},
    clip_run::ClipRun,
    figure::Figure,
    measures::Measure,
    order::{Agreement, Order, Pair, pairs},
};

/// Figures that every table of methods has besides its own.
const ALWAYS: [Measure; 5] =
    [Measure::Tau, Measure::TauBonus, Measure::MeanRun, Measure::AcceptedShare, Measure::Modelled];

/// One run of the benchmark: its first line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub(crate) paper: String,
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) drafter: Option<String>,
    pub(crate) device: String,
    pub(crate) dtype: String,
    pub(crate) first_seed: u64,
    pub(crate) clips: u64,
    /// Length of the clips; `None`: as their seeds say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u32>,
    #[serde(default)]
    pub(crate) skipped: BTreeMap<String, String>,
}

/// The results of one run of the benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub(crate) header: Header,
    pub(crate) runs: Vec<ClipRun>,
    /// The names of runs that other results filled in.
    pub(crate) filled: BTreeSet<String>,
    /// Those results: their headers, and clips that were done.
    pub(crate) also: Vec<(Header, usize)>,
}

impl Results {
    /// Clips of which every run that any clip has is there.
    pub(crate) fn clips_done(&self) -> usize {
        let own = || self.runs.iter().filter(|run| !self.filled.contains(&run.run));
        let kinds: BTreeSet<(&str, u64)> = own().map(|run| (run.run.as_str(), run.draw)).collect();
        let mut by_clip: BTreeMap<u64, BTreeSet<(&str, u64)>> = BTreeMap::new();
        for run in own() {
            by_clip.entry(run.clip).or_default().insert((&run.run, run.draw));
        }
        by_clip.values().filter(|runs| runs.len() == kinds.len()).count()
    }

    /// Take what this run lacks from another one of the same target on the same clips, which had another drafter. Fails if its
    /// target or its clips differ.
    pub fn fill(&mut self, other: &Results) -> Result<(), Failure> {
        let same = |header: &Header| {
            let Header { target, device, dtype, first_seed, seconds, .. } = header;
            (target.clone(), device.clone(), dtype.clone(), *first_seed, *seconds)
        };
        if same(&self.header) != same(&other.header) {
            return Err(Failure::input(
                "--also: the target, its type, the device or the clips are not those of the --from files"
                    .to_owned(),
                "measure both with the same --target, --dtype, --device, --first-seed and --seconds",
            ));
        }
        self.also.push((other.header.clone(), other.clips_done()));
        let known: BTreeSet<String> = self.runs.iter().map(|run| run.run.clone()).collect();
        for run in other.runs.iter().filter(|run| !known.contains(&run.run)) {
            self.header.skipped.remove(&run.run);
            self.filled.insert(run.run.clone());
            self.runs.push(run.clone());
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
pub struct Compared {
    pub(crate) paper: &'static str,
    pub(crate) number: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) part: &'static str,
    pub(crate) rows: Vec<ComparedRow>,
    pub(crate) orders: BTreeMap<Measure, Orders>,
    #[serde(skip)]
    table: &'static Table,
}

#[derive(Debug, Serialize)]
pub struct ComparedRow {
    pub(crate) label: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lossless: Option<bool>,
    pub(crate) clips: usize,
    pub(crate) figures: BTreeMap<Measure, Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why_not: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Orders {
    pub(crate) pairs: Vec<Pair>,
    #[serde(flatten)]
    pub(crate) agreement: Agreement,
}

/// A disagreement: a row that the paper puts above others, and we below them.
pub struct Difference<'a> {
    pub(crate) row: &'a str,
    pub(crate) measure: Measure,
    pub(crate) above: Vec<&'a str>,
    /// Why; `None` if nobody has said it yet.
    pub(crate) because: Option<&'a str>,
}

impl Compared {
    pub fn of(paper: &'static Paper, table: &'static Table, results: &Results) -> Compared {
        let clips: BTreeSet<u64> = results.runs.iter().map(|run| run.clip).collect();
        let rows: Vec<ComparedRow> =
            table.rows.iter().map(|row| ComparedRow::of(table, row, results, &clips)).collect();
        let order = |&measure: &Measure| {
            let theirs = measure.of_paper();
            let paper: Vec<Option<f64>> = table.rows.iter().map(|row| row.paper_value(theirs)).collect();
            let ours: Vec<Option<&Figure>> = rows.iter().map(|row| row.figures.get(&measure)).collect();
            let pairs = pairs(&paper, &ours, |upper, lower| theirs.is_tie(upper, lower));
            (measure, Orders { agreement: Agreement::of(&pairs), pairs })
        };
        let modelled = rows.iter().any(|row| row.figures.contains_key(&Measure::Modelled));
        let compares_speed = table.compared().contains(&Measure::Speedup);
        let model = (modelled && compares_speed).then_some(&Measure::Modelled);
        let orders = table.compared().iter().chain(model).map(order).collect();
        Compared { paper: &paper.name, number: &table.number, part: &table.part, rows, orders, table }
    }

    pub(crate) fn table(&self) -> &'static Table {
        self.table
    }

    /// The figures that are shown besides the table's own.
    pub(crate) fn extras(&self) -> Vec<Measure> {
        let known = |m: &Measure| self.rows.iter().any(|row| row.figures.contains_key(m));
        ALWAYS.into_iter().filter(|m| !self.table.columns.contains(m) && known(m)).collect()
    }

    /// What a row's order is, for people: its pairs with the rows that the paper puts below it.
    pub(crate) fn order(&self, row: usize, measure: Measure) -> Option<String> {
        let orders = self.orders.get(&measure)?;
        let own = || orders.pairs.iter().filter(|pair| pair.above == row);
        let labels = |order| -> Vec<&str> {
            own().filter(|pair| pair.order == order).map(|pair| self.rows[pair.below].label).collect()
        };
        let (noise, against) = (labels(Order::Noise), labels(Order::Disagrees));
        match own().count() {
            0 => None,
            _ if !against.is_empty() => Some(format!("no: below {}", against.join(", "))),
            _ if !noise.is_empty() => Some("within noise".into()),
            _ => Some("yes".into()),
        }
    }

    pub(crate) fn differences(&self) -> Vec<Difference<'_>> {
        let rows = || self.table.rows.iter().enumerate();
        let of = |measure: Measure, orders: &Orders, (index, row): (usize, &'static Row)| {
            let is_own = |pair: &&Pair| pair.above == index && pair.order == Order::Disagrees;
            let above: Vec<&str> =
                orders.pairs.iter().filter(is_own).map(|pair| self.rows[pair.below].label).collect();
            let because = row.because.get(&measure).or_else(|| self.table.because.get(&measure));
            (!above.is_empty()).then(|| Difference {
                row: &row.label,
                measure,
                above,
                because: because.map(String::as_str),
            })
        };
        self.orders
            .iter()
            .flat_map(|(measure, orders)| rows().filter_map(move |row| of(*measure, orders, row)))
            .collect()
    }
}

impl ComparedRow {
    fn of(table: &'static Table, row: &'static Row, results: &Results, clips: &BTreeSet<u64>) -> ComparedRow {
        let mut compared = ComparedRow {
            label: &row.label,
            run: None,
            lossless: None,
            clips: 0,
            figures: BTreeMap::new(),
            why_not: (!row.missing.is_empty()).then(|| row.missing.clone()),
        };
        let lab = match row.method() {
            Ok(Some(lab)) => lab,
            Ok(None) => return compared,
            Err(error) => {
                compared.why_not = Some(error.to_string());
                return compared;
            }
        };
        let key = table.condition(row).key(&lab.method.name, &row.set);
        let own: Vec<&ClipRun> = results.runs.iter().filter(|run| run.run == key).collect();
        let of = |clip: &u64| own.iter().filter(|run| run.clip == *clip).copied().collect();
        let by_clip: Vec<Vec<&ClipRun>> = clips.iter().map(of).collect();
        compared.clips = by_clip.iter().filter(|draws| !draws.is_empty()).count();
        compared.lossless = Some(lab.lossless());
        if own.is_empty() {
            let skipped = results.header.skipped.get(&key).cloned();
            compared.why_not = Some(skipped.unwrap_or_else(|| "not measured".into()));
        }
        let wanted: BTreeSet<Measure> = table.columns.iter().copied().chain(ALWAYS).collect();
        compared.figures = wanted
            .into_iter()
            .filter_map(|m| Some((m, m.of(row, table.profile.as_deref(), &by_clip)?)))
            .collect();
        compared.run = Some(key);
        compared
    }
}

/// The results of one run of the benchmark, table by table.
pub struct Drafter<'a> {
    pub(super) results: &'a Results,
    pub(super) tables: Vec<(&'static Paper, Compared)>,
}

impl<'a> Drafter<'a> {
    pub(super) fn of(results: &'a Results, tables: &Tables) -> Drafter<'a> {
        let compared = |&(paper, table): &(_, _)| (paper, Compared::of(paper, table, results));
        Drafter { results, tables: tables.iter().map(compared).collect() }
    }

    pub(super) fn name(&self) -> &str {
        self.results.header.drafter.as_deref().unwrap_or("no drafter")
    }
}

#[cfg(test)]
mod tests;
