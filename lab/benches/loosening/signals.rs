//! How well each signal distinguishes the words that carry facts from the others.
//!
//! It looks at all drafts that a run with exact acceptance judged, including drafts after a rejected one,
//! because a rule has to judge them all. Every signal is oriented so that a larger value asks for more
//! strictness.

use serde::Serialize;
use specreel_bench::detection::{Detection, area_under_curve};
use specreel_record::median;
use specreel_speculate::{
    Acceptance, StateAt,
    accept::{Row, relevance::lowest},
};

use crate::{judge::Judge, kept::Problem};

/// From where on the sum of divergence and unlikeliness is strict: no preset has it.
const COST: f64 = 0.8;

/// Where a signal comes from.
enum Source {
    Relevance {
        top_n: usize,
        before_norm: bool,
        predicting: bool,
    },
    Certainty,
    Unlikely,
    Divergence,
    /// Divergence and unlikeliness in a sum.
    Cost,
    AttentionStats,
}

/// From where on the program's preset is strict.
enum Strict {
    /// All drafts of a step but this share of the lowest.
    Rank(f64),
    Above(f64),
}

struct Signal {
    name: String,
    preset: String,
    source: Source,
    strict: Strict,
    /// Value, and whether the draft or what the target wanted carries a fact.
    all: Vec<(f64, bool)>,
    /// Of the disagreements: value, and whether the two say different things.
    disagreements: Vec<(f64, bool)>,
    detection: Detection,
}

/// The signals and what was seen of them.
pub struct Survey {
    signals: Vec<Signal>,
    counts: Counts,
}

/// How much was seen.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Drafts, end and special tokens left out.
    pub drafts: usize,
    /// Where draft or target carry a fact.
    pub facts: usize,
    /// Where draft and target differ.
    pub disagreements: usize,
    /// Where they say different things.
    pub changes: usize,
}

/// One signal's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Quality {
    pub signal: String,
    /// Area under the curve: all drafts, facts against the others.
    pub area: Option<f64>,
    /// The same over disagreements, those that change a fact against the others.
    pub area_disagreements: Option<f64>,
    /// The preset at which precision and recall are taken.
    pub preset: String,
    /// Of the disagreements at which the preset is strict, the share that changes a fact.
    pub precision: Option<f64>,
    /// Of the disagreements that change a fact, the share at which the preset is strict.
    pub recall: Option<f64>,
    /// Medians over disagreements: those that change a fact, and the others.
    pub medians: [Option<f64>; 2],
}

impl Survey {
    /// All signals, strict where the presets are.
    pub fn new() -> Result<Self, Problem> {
        let preset = |name: &str| specreel_bench::methods::preset(name).map(|method| method.acceptance);
        let (
            Acceptance::Visual { lambda, .. },
            Acceptance::Entropy { threshold, .. },
            Acceptance::Lenient { rho },
            Acceptance::Divergence { threshold: kl },
            Acceptance::Glance { lambda: glance },
        ) = (
            preset("lvspec")?,
            preset("fly-entropy")?,
            preset("lenient")?,
            preset("divergence")?,
            preset("glance")?,
        )
        else {
            return Err("a preset has another acceptance than its name says".into());
        };
        let mut signals = Vec::new();
        let mut add = |name: String, preset: String, source, strict| {
            let (all, disagreements, detection) = Default::default();
            signals.push(Signal { name, preset, source, strict, all, disagreements, detection });
        };
        for (predicting, at) in [(false, "at the token"), (true, "row before")] {
            for (before_norm, top_n) in [(false, 1), (false, 10), (false, 64), (true, 10)] {
                let norm = if before_norm { ", before norm" } else { "" };
                add(
                    format!("relevance {at}, N {top_n}{norm}"),
                    format!("lambda {lambda}"),
                    Source::Relevance { top_n, before_norm, predicting },
                    Strict::Rank(lambda),
                );
            }
        }
        let number = |value: f32| f64::from(value);
        add(
            "low entropy (top 3)".into(),
            format!("below {threshold}"),
            Source::Certainty,
            Strict::Above(-number(threshold)),
        );
        add(
            "low p(draft) / p(max)".into(),
            format!("below {rho}"),
            Source::Unlikely,
            Strict::Above(-number(rho.ln())),
        );
        add(
            "KL(target, drafter)".into(),
            format!("above {kl}"),
            Source::Divergence,
            Strict::Above(number(kl)),
        );
        add("KL + log(p(max) / p(draft))".into(), format!("above {COST}"), Source::Cost, Strict::Above(COST));
        add(
            "peak attention".into(),
            format!("lambda {glance}"),
            Source::AttentionStats,
            Strict::Rank(glance),
        );
        Ok(Self { signals, counts: Counts::default() })
    }

    /// A rule that asks for every signal.
    pub fn asks() -> Acceptance {
        let visual = Acceptance::Visual {
            lambda: 0.0,
            top_n: 10,
            shift_tolerant: false,
            at: StateAt::Draft,
            always_strict: vec![],
        };
        let rules =
            vec![visual, Acceptance::Glance { lambda: 0.0 }, Acceptance::Divergence { threshold: 0.0 }];
        Acceptance::AllOf { rules }
    }

    /// Look at one chain of drafts.
    pub fn add(&mut self, judge: &Judge<'_>, text: &[u32], rows: &[Row]) -> Result<(), Problem> {
        let look = judge.look(text, rows)?;
        check(&judge.relevance(&look, 10, false, false), rows)?;
        let mut all = text.to_vec();
        all.extend(rows.iter().map(|row| row.draft));
        let meanings: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(i, row)| {
                let place = text.len() + i;
                judge.words.meaning(&all[..place], row.draft, &all[place + 1..], row.wanted)
            })
            .collect();
        for (row, meaning) in rows.iter().zip(&meanings).filter(|(row, _)| !row.protected) {
            let differs = row.draft != row.wanted;
            self.counts.drafts += 1;
            self.counts.facts += usize::from(meaning.tells());
            self.counts.disagreements += usize::from(differs);
            self.counts.changes += usize::from(differs && meaning.changes());
        }
        for signal in &mut self.signals {
            let values: Vec<f32> = match signal.source {
                Source::Relevance { top_n, before_norm, predicting } => {
                    judge.relevance(&look, top_n, before_norm, predicting)
                }
                Source::Certainty => rows.iter().map(|row| -row.entropy_top3).collect(),
                Source::Unlikely => rows.iter().map(|row| row.log_p_max - row.log_p_draft).collect(),
                Source::Divergence => rows.iter().map(|row| row.divergence.unwrap_or(f32::NAN)).collect(),
                Source::Cost => rows
                    .iter()
                    .map(|row| row.divergence.unwrap_or(f32::NAN) + row.log_p_max - row.log_p_draft)
                    .collect(),
                Source::AttentionStats => {
                    rows.iter().map(|row| row.attention_peak.unwrap_or(f32::NAN)).collect()
                }
            };
            let strict = strict(&signal.strict, &values, rows);
            for (i, row) in rows.iter().enumerate().filter(|(_, row)| !row.protected) {
                let value = f64::from(values[i]);
                signal.all.push((value, meanings[i].tells()));
                if row.draft != row.wanted {
                    signal.disagreements.push((value, meanings[i].changes()));
                    signal.detection.add(strict[i], meanings[i].changes());
                }
            }
        }
        Ok(())
    }

    /// How much was seen.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Every signal's figures.
    pub fn qualities(&self) -> Vec<Quality> {
        let of = |signal: &Signal| Quality {
            signal: signal.name.clone(),
            area: area_under_curve(&signal.all),
            area_disagreements: area_under_curve(&signal.disagreements),
            preset: signal.preset.clone(),
            precision: signal.detection.precision(),
            recall: signal.detection.recall(),
            medians: [true, false].map(|kind| {
                let of_kind = signal.disagreements.iter().filter(|(_, changes)| *changes == kind);
                median(of_kind.map(|(value, _)| *value).filter(|value| value.is_finite()))
            }),
        };
        self.signals.iter().map(of).collect()
    }
}

/// At which drafts a preset is strict.
fn strict(strict: &Strict, values: &[f32], rows: &[Row]) -> Vec<bool> {
    match strict {
        Strict::Above(limit) => values.iter().map(|&value| f64::from(value) > *limit).collect(),
        Strict::Rank(lambda) => {
            let with = |(row, &value): (&Row, &f32)| Row { relevance: Some(value), ..row.clone() };
            let rows: Vec<Row> = rows.iter().zip(values).map(with).collect();
            lowest(&rows, *lambda, |row| row.relevance).into_iter().map(|loosened| !loosened).collect()
        }
    }
}

/// The copy must see what the session sees.
fn check(own: &[f32], rows: &[Row]) -> Result<(), Problem> {
    let differs = |(own, row): (&f32, &Row)| row.relevance.is_none_or(|theirs| (own - theirs).abs() > 1e-4);
    match own.len() != rows.len() || own.iter().zip(rows).any(differs) {
        true => Err("the copy's relevance is not the session's: the two have read different texts".into()),
        false => Ok(()),
    }
}
