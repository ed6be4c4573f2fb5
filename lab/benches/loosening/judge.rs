//! What each rule says to a chain of drafts.

use std::cell::RefCell;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use specreel_record::Verdict;
use specreel_scenes::facts::Facts;
use specreel_speculate::{
    Acceptance, StateAt, VisualStates,
    accept::{self, Row},
};

use crate::{
    kept::{Kept, Problem},
    lookahead,
    systems::Rule,
    target_copy::{Look, TargetCopy},
    words::Words,
};

/// One verdict for each draft that passes.
pub type Verdicts = Vec<Option<Verdict>>;

/// The rules' further signals besides the rows.
pub struct Judge<'a> {
    pub words: &'a Words,
    pub truth: &'a Facts,
    pub ends: &'a [u32],
    pub visual: VisualStates,
    pub visual_before: VisualStates,
    /// Of what rules leave to chance on this clip.
    seed: u64,
    copy: RefCell<TargetCopy>,
}

impl<'a> Judge<'a> {
    pub fn new(
        kept: &Kept<'_>,
        words: &'a Words,
        truth: &'a Facts,
        ends: &'a [u32],
        room: usize,
        seed: u64,
    ) -> Self {
        let (visual, visual_before) = (kept.visual.clone(), kept.visual_before.clone());
        Self { words, truth, ends, visual, visual_before, seed, copy: RefCell::new(kept.target_copy(room)) }
    }

    /// Judge the drafts after a text.
    pub fn judge(&self, rule: &Rule, text: &[u32], rows: &[Row]) -> Result<Verdicts, Problem> {
        match rule {
            Rule::Plain(acceptance) => Ok(self.plain(acceptance, text, rows)),
            Rule::All(rules) => self.join(rules, text, rows, |all| {
                // The first rule names the reason.
                all.iter().all(Option::is_some).then(|| all.first().copied().flatten()).flatten()
            }),
            Rule::Any(rules) => self.join(rules, text, rows, |all| all.iter().copied().flatten().next()),
            Rule::WholeWord(rule) => {
                let verdicts = self.judge(rule, text, rows)?;
                Ok(self.whole_words(text, rows, verdicts))
            }
            Rule::Relevance { lambda, top_n, before_norm, predicting } => {
                let look = self.look(text, rows)?;
                let relevance = self.relevance(&look, *top_n, *before_norm, *predicting);
                let mut rows = rows.to_vec();
                rows.iter_mut().zip(relevance).for_each(|(row, relevance)| row.relevance = Some(relevance));
                Ok(self.plain(&visual(*lambda, *top_n), text, &rows))
            }
            Rule::Peak { below } => {
                Ok(each(rows, |_, row| row.attention_peak.is_some_and(|peak| peak < *below)))
            }
            Rule::Cost { ratio, peak, below } => Ok(each(rows, |_, row| {
                let short = row.log_p_max - row.log_p_draft;
                let attention = row.attention_peak.unwrap_or_default();
                row.divergence.is_some_and(|kl| kl + ratio * short + peak * attention < *below)
            })),
            Rule::Words => {
                let mut all = text.to_vec();
                all.extend(rows.iter().map(|row| row.draft));
                Ok(each(rows, |i, row| {
                    let (before, after) = (&all[..text.len() + i], &all[text.len() + i + 1..]);
                    !self.words.meaning(before, row.draft, after, row.wanted).changes()
                }))
            }
            Rule::Sentences => {
                let scene = lookahead::Scene { truth: self.truth, words: self.words, ends: self.ends };
                scene.judge(&mut self.copy.borrow_mut(), text, rows)
            }
        }
    }

    /// A rule of the program's own; every clip and every place in its text has other random numbers.
    fn plain(&self, acceptance: &Acceptance, text: &[u32], rows: &[Row]) -> Verdicts {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(text.len() as u64);
        accept::judge(acceptance, rows, &mut rng)
    }

    /// The target's states at the drafts of these rows.
    pub fn look(&self, text: &[u32], rows: &[Row]) -> Result<Look, Problem> {
        let drafts: Vec<u32> = rows.iter().map(|row| row.draft).collect();
        Ok(self.copy.borrow_mut().look(text, &drafts)?)
    }

    /// LVSpec's relevance of each draft: from its own state, or from the one that predicts it.
    pub fn relevance(&self, look: &Look, top_n: usize, before_norm: bool, predicting: bool) -> Vec<f32> {
        let (states, visual) = match before_norm {
            true => (&look.before_norm, &self.visual_before),
            false => (&look.states, &self.visual),
        };
        let rows = if predicting { &states[..states.len() - look.width] } else { &states[look.width..] };
        visual.relevance(rows, top_n)
    }

    fn join(
        &self,
        rules: &[Rule],
        text: &[u32],
        rows: &[Row],
        one: impl Fn(&[Option<Verdict>]) -> Option<Verdict>,
    ) -> Result<Verdicts, Problem> {
        let all: Vec<Verdicts> =
            rules.iter().map(|rule| self.judge(rule, text, rows)).collect::<Result<_, _>>()?;
        let of = |i: usize| -> Verdicts { all.iter().map(|verdicts| verdicts[i]).collect() };
        Ok((0..rows.len()).map(|i| one(&of(i))).collect())
    }

    /// A mismatch is kept only where all drafts of its word passed.
    fn whole_words(&self, text: &[u32], rows: &[Row], mut verdicts: Verdicts) -> Verdicts {
        let drafts: Vec<u32> = rows.iter().map(|row| row.draft).collect();
        for range in self.words.ranges(text.last().copied(), &drafts) {
            if verdicts[range.clone()].iter().any(Option::is_none) {
                for i in range {
                    verdicts[i] = verdicts[i].filter(|_| rows[i].draft == rows[i].wanted);
                }
            }
        }
        verdicts
    }
}

/// LVSpec's rule without shifts.
fn visual(lambda: f64, top_n: usize) -> Acceptance {
    Acceptance::Visual { lambda, top_n, shift_tolerant: false, at: StateAt::Draft, always_strict: Vec::new() }
}

/// A rule that looks at one draft after the other.
fn each(rows: &[Row], passes: impl Fn(usize, &Row) -> bool) -> Verdicts {
    let verdict = |(i, row): (usize, &Row)| match row.draft == row.wanted {
        true => Some(Verdict::Exact),
        false => (!row.protected && passes(i, row)).then_some(Verdict::Loosened),
    };
    rows.iter().enumerate().map(verdict).collect()
}
