//! The tables, the chart and the files.

use std::path::Path;

use serde::Serialize;
use specreel_bench::chart;
use specreel_client::chart::Plot;
use specreel_record::pareto;

use crate::{
    account::{Figures, OnClip},
    grid::Grid,
    kept::Problem,
    options::Options,
    signals::{Counts, Quality, Survey},
    systems::System,
};

/// A rule that keeps this much counts as harmless.
const HARMLESS: f64 = 0.99;
/// Where the markdown tables go in a page: the drafter's, the weak one's, and the end of either.
const MARKS: [&str; 2] = ["<!-- tables -->", "<!-- tables of the weak drafter -->"];
const END: &str = "<!-- end of tables -->";
/// Cells of the chart.
const CHART: (usize, usize) = (64, 18);

/// One rule.
#[derive(Serialize)]
pub struct Entry {
    pub rule: String,
    pub setting: String,
    /// No other rule that could be used keeps as much and accepts as much.
    pub front: bool,
    /// It is an oracle.
    pub oracle: bool,
    /// True if it is in the tables and in the chart.
    pub shown: bool,
    pub figures: Figures,
    pub clips: Vec<OnClip>,
}

/// The rule that was chosen on the clips of even number, and what it gives on the others.
#[derive(Serialize)]
pub struct Choice {
    pub rule: String,
    pub setting: String,
    pub chosen_on: Figures,
    pub confirmed_on: Figures,
}

#[derive(Serialize)]
pub struct Report {
    pub about: String,
    pub rules: Vec<Entry>,
    pub choice: Option<Choice>,
    pub counts: Counts,
    pub signals: Vec<Quality>,
}

impl Report {
    /// From the accounts of all systems, in the order of the systems; the first is exact, the second the oracle.
    pub fn new(options: &Options, systems: &[System], accounts: Vec<Vec<OnClip>>, survey: &Survey) -> Self {
        let (exact, oracle) = (&accounts[0], &accounts[1]);
        let all = |_: usize| true;
        let figures: Vec<Figures> =
            accounts.iter().map(|own| Figures::of(own, exact, oracle, &all)).collect();
        let points: Vec<(f64, f64)> = systems
            .iter()
            .zip(&figures)
            .map(|(system, f)| match system.rule.knows_the_truth() {
                true => (f64::NAN, f64::NAN),
                false => (f.tau, f.retention),
            })
            .collect();
        let choice = choose(systems, &accounts);
        let front = pareto::front(&points);
        let mut rules: Vec<Entry> = Vec::new();
        for (((system, figures), front), clips) in systems.iter().zip(figures).zip(front).zip(accounts) {
            rules.push(Entry {
                rule: system.family.clone(),
                setting: system.setting.clone(),
                oracle: system.rule.knows_the_truth(),
                // Of a grid what is on the front, and of its equals one.
                shown: !system.grid || (front && !rules.iter().any(|other| equal(&other.figures, &figures))),
                front,
                figures,
                clips,
            });
        }
        rules.sort_by(|a, b| b.figures.tau.total_cmp(&a.figures.tau));
        let about = options.about();
        Self { about, rules, choice, counts: survey.counts(), signals: survey.qualities() }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let plot = self.plot();
        format!(
            "{}\n\n{}\n* on the front: no other rule accepts as much and keeps as much\n\n{}{}\n{}\n{}\n\n{}",
            self.about,
            self.rules_grid().text(),
            chart::text(&plot, CHART.0, CHART.1),
            legend(&plot),
            self.choice_words(),
            self.counts_words(),
            self.signals_grid().text(),
        )
    }

    /// For a page.
    pub fn markdown(&self) -> String {
        format!(
            "{}\n\n{}\n{}\n\n{}\n\n{}",
            self.about,
            self.rules_grid().markdown(),
            self.choice_words(),
            self.counts_words(),
            self.signals_grid().markdown(),
        )
    }

    pub fn svg(&self) -> String {
        chart::svg(&self.plot())
    }

    fn shown(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.rules.iter().filter(|entry| entry.shown)
    }

    /// The front first, from the strictest on, so that its points get the letters.
    fn plot(&self) -> Plot {
        let mut shown: Vec<&Entry> = self.shown().rev().filter(|entry| !entry.oracle).collect();
        shown.sort_by_key(|entry| !entry.front);
        let point =
            |e: &&Entry| (e.figures.tau, 100.0 * e.figures.retention, format!("{} {}", e.rule, e.setting));
        Plot::new(
            "What loosening costs",
            "accepted drafts per step (tau)",
            "facts kept (%)",
            shown.iter().map(point),
        )
    }

    fn rules_grid(&self) -> Grid {
        let head = [
            "rule",
            "number",
            "",
            "tau",
            "emitted",
            "facts",
            "kept",
            "95 % of clips",
            "precision",
            "95 % of clips",
            "of oracle",
            "loosened",
            "changed",
        ];
        let row = |entry: &Entry| {
            let f = &entry.figures;
            let within = |interval: Option<(f64, f64)>| {
                interval.map_or_else(String::new, |(low, high)| {
                    format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high)
                })
            };
            vec![
                entry.rule.clone(),
                entry.setting.clone(),
                if entry.front { "*".into() } else { String::new() },
                format!("{:.2}", f.tau),
                format!("{:.2}", f.emitted_per_step),
                percent(f.facts),
                percent(f.retention),
                within(f.interval),
                percent(f.precision),
                within(f.precision_interval),
                percent(f.of_oracle),
                percent(f.loosened),
                percent(f.changed),
            ]
        };
        Grid::new(&head, 3, self.shown().map(row).collect())
    }

    fn signals_grid(&self) -> Grid {
        let head = [
            "signal",
            "strict",
            "AUC all",
            "AUC disagreements",
            "precision",
            "recall",
            "median facts",
            "median others",
        ];
        let area = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        let share = |value: Option<f64>| value.map_or_else(String::new, percent);
        let middle = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let row = |q: &Quality| {
            vec![
                q.signal.clone(),
                q.preset.clone(),
                area(q.area),
                area(q.area_disagreements),
                share(q.precision),
                share(q.recall),
                middle(q.medians[0]),
                middle(q.medians[1]),
            ]
        };
        Grid::new(&head, 2, self.signals.iter().map(row).collect())
    }

    fn choice_words(&self) -> String {
        let Some(choice) = &self.choice else {
            return "On clips of even number, no rule keeps 99 % of the facts and accepts more than exact."
                .into();
        };
        let (a, b) = (&choice.chosen_on, &choice.confirmed_on);
        format!(
            "Among the rules that keep 99 % of the facts on clips of even number, {} {} accepts most there (tau {:.2}, {} \
             of the oracle's, {} kept). On the other clips: tau {:.2}, {} of the oracle's, {} kept.",
            choice.rule,
            choice.setting,
            a.tau,
            percent(a.of_oracle),
            percent(a.retention),
            b.tau,
            percent(b.of_oracle),
            percent(b.retention),
        )
    }

    fn counts_words(&self) -> String {
        let c = &self.counts;
        format!(
            "Signals: {} drafts, {} of them where draft or target carry a fact; {} disagreements, {} of them about a fact.",
            c.drafts, c.facts, c.disagreements, c.changes
        )
    }
}

/// The harmless rule of largest tau on the clips of even number; a rule chosen among many on the clips that it is shown on
/// looks better than it is.
fn choose(systems: &[System], accounts: &[Vec<OnClip>]) -> Option<Choice> {
    let (even, odd) = (|i: usize| i.is_multiple_of(2), |i: usize| !i.is_multiple_of(2));
    let on =
        |own: &[OnClip], which: &dyn Fn(usize) -> bool| Figures::of(own, &accounts[0], &accounts[1], which);
    let (system, own, chosen_on) = systems
        .iter()
        .zip(accounts)
        .skip(1)
        .filter(|(system, _)| !system.rule.knows_the_truth())
        .map(|(system, own)| (system, own, on(own, &even)))
        .filter(|(_, _, figures)| figures.retention >= HARMLESS)
        .reduce(|best, next| if better(&next.2, &best.2) { next } else { best })?;
    Some(Choice {
        rule: system.family.clone(),
        setting: system.setting.clone(),
        chosen_on,
        confirmed_on: on(own, &odd),
    })
}

/// More accepted, or as much with more facts kept; of equals the first, which is the simpler one.
fn better(a: &Figures, b: &Figures) -> bool {
    (a.tau, a.retention) > (b.tau, b.retention)
}

/// The same accepted and the same kept.
fn equal(a: &Figures, b: &Figures) -> bool {
    (a.tau, a.retention) == (b.tau, b.retention)
}

fn legend(plot: &Plot) -> String {
    let front = plot.symbols().filter(|(_, point)| point.front);
    front.map(|(symbol, p)| format!("{symbol}  {:.2}  {:.1}%  {}\n", p.x, p.y, p.label)).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Put the tables into a page: between its marks, or alone where there is no page, or none with marks.
pub fn paste(path: &Path, tables: &str, weak: bool) -> Result<(), Problem> {
    let page = std::fs::read_to_string(path).unwrap_or_default();
    let mark = MARKS[usize::from(weak)];
    let parts = page.split_once(mark).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let page = match parts {
        Some((before, after)) => format!("{before}{mark}\n\n{tables}\n{END}{after}"),
        None if page.is_empty() => tables.to_owned(),
        None => return Err(format!("{} is there and has no line {mark}", path.display()).into()),
    };
    Ok(std::fs::write(path, page)?)
}
