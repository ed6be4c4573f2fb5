//! The parallel schedule on two sequences: the workers that [`schedule`](super::schedule) drives.

use std::{ops::ControlFlow, time::Instant};

use specreel_tensor::{Error, Result};

use super::{
    drafters::Drafted,
    generation::{Evidence, Finished, GenerationConfig, GenerationInputs, PrefetchedDraft},
    method::{Length, Method, RuleNeeds, Schedule, Shape, WindowRule, WindowSize},
    processors::{History, whole as whole_row},
    sampling::{Purpose, Sampler, draw},
    schedule::{
        Case, DraftToken, DrafterTask, Exact, Judge, Limits, Parallel, Sampled, TargetTask, WindowLength,
        workers::{DrafterThread, DrafterWorker, TargetWorker, Ticked, WorkerError},
    },
    tree::Tree,
    verify::{self, distributions, emitted_token, logit_needs, own_tokens},
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Sequence, Taps},
    grammar::{Allowed, Follower, Grammar},
};
use specreel_record::{Step, Token, Verdict};

/// Longest window.
const LONGEST: usize = 32;
/// Window of the first ticks, before times are known.
const START: usize = 4;

impl PrefetchedDraft {
    /// Draft the first window under the configuration of the generation that follows. `sequence` holds the prompt without its last
    /// token, `root`.
    pub fn draft(config: &GenerationConfig<'_>, sequence: &mut Sequence, root: u32) -> Result<Self> {
        let started = Instant::now();
        let base = sequence.len();
        let draft = window(config.method).length().min(config.max_new_tokens);
        let task = DrafterTask { truncate_to: 0, feed: vec![root], draft, position: 0 };
        let mut drafter = DrafterSide::new(config, sequence, base);
        let window = drafter.draft(&task)?;
        let forced = drafter.forced;
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let constraint = config.grammar.map(|grammar| grammar.constraint().clone());
        Ok(Self {
            sampler: config.sampler,
            drawn: config.draws_drafts(),
            constraint,
            history: config.history.cloned(),
            forced,
            base,
            window,
            ms,
        })
    }
}

struct DrafterSide<'a> {
    sequence: &'a mut Sequence,
    base: usize,
    ends: &'a [u32],
    vocab: usize,
    sampler: Option<Sampler>,
    /// A window ends before a draft of which it is less sure.
    confidence: f64,
    grammar: Option<Follower>,
    history: Option<History>,
    forced: u64,
}

/// Bring the grammar's state to the text of a cache that keeps `truncate_to` slots, of which the first is the
/// prompt's, and is then fed `ids`; `at` receives what may follow each of them.
fn follow(
    grammar: &mut Option<Follower>,
    truncate_to: usize,
    ids: &[u32],
    mut at: impl FnMut(Allowed),
) -> Result<()> {
    let Some(grammar) = grammar else { return Ok(()) };
    grammar.truncate(truncate_to.saturating_sub(1))?;
    for (slot, id) in (truncate_to..).zip(ids) {
        if slot > 0 {
            grammar.advance(&[*id])?;
        }
        at(grammar.allowed(&[])?);
    }
    Ok(())
}

/// Bring the history to the text of a cache that keeps `truncate_to` slots, of which the first is the prompt's, and is then fed `ids`.
fn keep_history(history: &mut Option<History>, truncate_to: usize, ids: &[u32]) {
    let Some(history) = history else { return };
    history.truncate(truncate_to.saturating_sub(1));
    history.advance(if truncate_to == 0 { ids.get(1..).unwrap_or_default() } else { ids });
}

impl<'a> DrafterSide<'a> {
    fn new(config: &GenerationConfig<'a>, sequence: &'a mut Sequence, base: usize) -> Self {
        let samples = config.draws_drafts().then_some(config.sampler);
        Self {
            sequence,
            base,
            ends: config.ends,
            vocab: config.vocab,
            sampler: samples,
            confidence: config.method.shape.confidence(),
            grammar: config.grammar.map(Grammar::follow),
            history: config.history.cloned(),
            forced: 0,
        }
    }
}

impl DrafterWorker<Evidence> for DrafterSide<'_> {
    type Error = Error;

    fn draft(&mut self, task: &DrafterTask) -> Result<Vec<DraftToken<Evidence>>> {
        let embeddable = self.sequence.decoder().config().vocab;
        let exists = |id: &u32| (*id as usize) < embeddable;
        self.sequence.truncate(self.base + task.truncate_to);
        let (mut feed, mut kept) = (task.feed.clone(), task.truncate_to);
        let mut window: Vec<DraftToken<Evidence>> = Vec::new();
        while window.len() < task.draft && feed.iter().all(exists) {
            let mut allowed = Allowed::default();
            follow(&mut self.grammar, kept, &feed, |last| allowed = last)?;
            keep_history(&mut self.history, kept, &feed);
            kept += feed.len();
            let pass = self.sequence.feed(&feed, &Taps::default())?;
            let logits = self.sequence.logits(&pass.states.narrow(feed.len() - 1, 1)?)?;
            let whole = self.sampler.is_some() || self.grammar.is_some() || self.history.is_some();
            let own = self.sequence.decoder().vocabulary();
            let vocab = own.map_or(self.vocab, |own| own.rows_below(self.vocab));
            let id_of = |row: u32| own.map_or(row, |own| own.id(row));
            let needs = LogitNeeds { vocab, whole, ..LogitNeeds::default() };
            let draft = logits.read(&needs, |mut rows| {
                let Some(row) = allowed.restrict(rows.remove(0), id_of)? else { return Ok(None) };
                let (row, own) = match &self.history {
                    Some(history) => (history.process(&row, own, self.vocab, &[])?, None),
                    None => (row, own),
                };
                let (row, id_of) = (&row, |row: u32| own.map_or(row, |own| own.id(row)));
                let Some(sampler) = &self.sampler else {
                    let facts = row.facts();
                    let probability = facts.log_probability(facts.max).exp();
                    let evidence = Evidence { probability, distribution: Vec::new() };
                    return Ok(Some((DraftToken { id: id_of(facts.argmax), evidence }, probability)));
                };
                let distribution = sampler.distribution(&whole_row(row, own, self.vocab)?);
                let mut rng = sampler.rng(task.position + window.len(), Purpose::Draft);
                let id = draw(&distribution, rand::RngExt::random(&mut rng));
                let probability = distribution.get(id as usize).copied().unwrap_or(0.0);
                // What was drawn must not decide whether it is drafted.
                let sure = distribution.iter().copied().fold(0.0, f32::max);
                let evidence = Evidence { probability, distribution };
                Ok::<_, Error>(Some((DraftToken { id, evidence }, sure)))
            })??;
            let Some((draft, sure)) = draft else { break };
            if f64::from(sure) < self.confidence {
                break;
            }
            let id = draft.id;
            self.forced += u64::from(allowed.only() == Some(id));
            window.push(draft);
            if self.ends.contains(&id) {
                break;
            }
            feed = vec![id];
        }
        if window.is_empty() {
            self.sequence.truncate(self.base + task.truncate_to);
        }
        Ok(window)
    }
}

struct TargetSide<'a> {
    config: GenerationConfig<'a>,
    needs: RuleNeeds,
    sequence: &'a mut Sequence,
    base: usize,
    /// Logits of the last pass's rows.
    rows: Vec<LogitRow<'static>>,
    /// Their distributions, if the text is sampled.
    distributions: Vec<Vec<f32>>,
    /// The drafter's probabilities of the drafts that were judged last.
    probabilities: Vec<f32>,
    grammar: Option<Follower>,
    /// What may follow each row; empty without a grammar.
    allowed: Vec<Allowed>,
    history: Option<History>,
}

impl TargetWorker<Evidence> for TargetSide<'_> {
    type Error = Error;

    fn verify(&mut self, task: &TargetTask) -> Result<()> {
        self.sequence.truncate(self.base + task.truncate_to);
        let pass = self.sequence.feed(&task.rows, &Taps::default())?;
        let logits = self.sequence.logits(&pass.states)?;
        let drafts = Tree::chain(task.rows[1..].iter().copied());
        let needs = logit_needs(&self.config, &self.needs, &drafts);
        let mut allowed = Vec::new();
        follow(&mut self.grammar, task.truncate_to, &task.rows, |next| allowed.push(next))?;
        let (root, drafts) = task.rows.split_at(1);
        keep_history(&mut self.history, task.truncate_to, root);
        self.rows = logits.read(&needs, |rows| {
            let above = |row: usize| drafts[..row].to_vec();
            let rows = verify::counting_rows(rows, &allowed, self.history.as_ref(), above)?.into_iter();
            Ok::<_, Error>(rows.enumerate().map(|(index, row)| row.extract(&needs, index)).collect())
        })??;
        self.history.iter_mut().for_each(|history| history.advance(drafts));
        self.allowed = allowed;
        self.distributions = distributions(self.config.sampler, &self.rows)?;
        Ok(())
    }
}

impl<'a> TargetSide<'a> {
    fn new(config: GenerationConfig<'a>, sequence: &'a mut Sequence) -> Self {
        Self {
            needs: RuleNeeds::of(&config.method.acceptance),
            grammar: config.grammar.map(Grammar::follow),
            allowed: Vec::new(),
            history: config.history.cloned(),
            config,
            base: sequence.len(),
            sequence,
            rows: Vec::new(),
            distributions: Vec::new(),
            probabilities: Vec::new(),
        }
    }

    /// The target's own token of each row.
    fn wanted(&self, position: usize) -> Vec<u32> {
        own_tokens(self.config.sampler, &self.rows, &self.distributions, position..)
    }

    /// Ask the judge of the method's acceptance about drafts from this output position on.
    fn with_judge<T>(&self, position: usize, ask: impl FnOnce(&mut dyn Judge<Evidence>) -> T) -> T {
        match self.config.draws_drafts() {
            true => ask(&mut Sampled { rows: &self.distributions, sampler: self.config.sampler }),
            false => ask(&mut Exact { wanted: &self.wanted(position) }),
        }
    }

    /// The drafts that are the only ones allowed where they are, draft i after row i.
    fn forced(&self, drafts: impl Iterator<Item = u32>) -> Vec<usize> {
        let only = |(at, id): &(usize, u32)| self.allowed.get(*at).and_then(Allowed::only) == Some(*id);
        drafts.enumerate().filter(only).map(|(at, _)| at).collect()
    }

    fn token(&self, row: usize, id: u32, verdict: Verdict, wanted: u32) -> Result<Token> {
        let drafted = verdict.is_accepted_draft();
        Ok(Token {
            target_id: wanted,
            drafter_probability: self.probabilities.get(row).copied().filter(|_| drafted),
            ..emitted_token(&self.config, id, verdict, &self.rows[row])?
        })
    }

    fn step(&self, index: usize, ticked: &Ticked, started: Instant) -> Result<Step> {
        let outcome = &ticked.outcome;
        let wanted = self.wanted(outcome.position);
        let tokens = outcome.tokens.iter().enumerate();
        let tokens = tokens.map(|(i, t)| self.token(i, t.id, t.verdict, wanted[i])).collect::<Result<_>>()?;
        // The part of drafting that the verify pass did not hide.
        let draft_ms = (ticked.drafter_ms - ticked.target_ms).max(0.0);
        Ok(Step {
            index,
            drafted: outcome.judged.clone(),
            judged: outcome.judged.len(),
            accepted: outcome.accepted,
            tokens,
            forced: self.forced(outcome.judged.iter().copied()),
            draft_ms,
            verify_ms: ticked.target_ms,
            other_ms: (started.elapsed().as_secs_f64() * 1e3 - draft_ms - ticked.target_ms).max(0.0),
            busy: Some(ticked.busy),
            ..Step::default()
        })
    }
}

impl Judge<Evidence> for TargetSide<'_> {
    fn accept(&mut self, case: &Case<'_, Evidence>) -> Vec<Verdict> {
        self.probabilities = case.drafts.iter().map(|draft| draft.evidence.probability).collect();
        let mut verdicts = self.with_judge(case.position, |judge| judge.accept(case));
        for at in self.forced(case.drafts.iter().map(|draft| draft.id)) {
            verdicts.get_mut(at).into_iter().for_each(|verdict| *verdict = Verdict::Forced);
        }
        verdicts
    }

    fn replacement(&mut self, case: &Case<'_, Evidence>, row: usize) -> u32 {
        self.with_judge(case.position, |judge| judge.replacement(case, row))
    }
}

/// Generate with overlapped drafting. `on` receives every step and may stop the generation.
pub(super) fn generate(
    config: GenerationConfig<'_>,
    inputs: GenerationInputs<'_>,
    on: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<Finished> {
    let root = inputs.root();
    let Some(sequence) = inputs.drafter else {
        return Err(Error::Message("the parallel schedule needs a drafter that is a model".into()));
    };
    let mut window = window(config.method);
    let base = inputs.prefetched.as_ref().map_or(sequence.len(), |prefetched| prefetched.base);
    let mut drafter = DrafterSide::new(&config, sequence, base);
    if let Some(prefetched) = &inputs.prefetched {
        drafter.forced = prefetched.forced;
        // The last token was not fed.
        let fed = prefetched.window.split_last().map_or(&[][..], |(_, fed)| fed);
        let fed: Vec<u32> = fed.iter().map(|draft| draft.id).collect();
        drafter.grammar.as_mut().map_or(Ok(()), |grammar| grammar.advance(&fed))?;
        drafter.history.iter_mut().for_each(|history| history.advance(&fed));
    }
    let mut prefetched = inputs.prefetched.map(|prefetched| (prefetched.window, prefetched.ms));
    let mut target = TargetSide::new(config, inputs.target);
    let limits = Limits { max_new_tokens: config.max_new_tokens, ends: config.ends.to_vec() };
    let mut machine = Parallel::new(root, limits);
    let mut drafter_row_ms = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let drafter_thread = DrafterThread::spawn(scope, &mut drafter).map_err(failed)?;
        for index in 0.. {
            let started = Instant::now();
            if let Some(on_draft) = config.on_draft.filter(|_| machine.pending().next().is_some()) {
                on_draft(&Tree::chain(machine.pending()));
            }
            let Some(ticked) = drafter_thread
                .tick(&mut machine, &mut window, &mut target, prefetched.take())
                .map_err(failed)?
            else {
                break;
            };
            let drafted = ticked.outcome.drafted.len();
            if drafted > 0 && ticked.drafter_ms > 0.0 {
                drafter_row_ms.push(ticked.drafter_ms / drafted as f64);
            }
            if on(target.step(index, &ticked, started)?).is_break() {
                break;
            }
        }
        Ok(())
    })?;
    Ok(Finished {
        reason: machine.finished(),
        relevance_ms: 0.0,
        further: None,
        drafters: vec![Drafted { row_ms: drafter_row_ms, ..Drafted::default() }],
        tally: Some(machine.tally().clone()),
        forced: drafter.forced,
    })
}

fn window(method: &Method) -> WindowLength {
    let most = match method.shape {
        Shape::Chain { length: Length::Fixed(length), .. } => length.min(LONGEST),
        _ => LONGEST,
    };
    match method.schedule {
        Schedule::Parallel { window: WindowSize::Fixed(length) } => WindowLength::fixed(length),
        Schedule::Parallel { window: WindowSize::By(WindowRule::Ratio) } => WindowLength::ratio(START, most),
        _ => WindowLength::auto(START, most),
    }
}

fn failed(failure: WorkerError<Error>) -> Error {
    match failure {
        WorkerError::Worker(_, error) => error,
        other => Error::Message(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
