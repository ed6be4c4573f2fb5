//! One generation under the sequential schedule: a target, possibly a drafter, and a method; step by step until an end token or
//! the length limit.
//!
//! The root is the last token of the text that is not in the target's cache: before the first step the prompt's last token,
//! later the last emitted one. A step drafts a tree after the root (a chain is one), feeds the target [root, nodes…] as rows
//! in one pass, and judges every branch: row i predicts the token after it, the state of a draft is the state at its
//! own row. The longest accepted branch is kept, the target's token follows it, and both caches roll back to the kept tokens.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use specreel_tensor::Result;

use super::{
    accept::relevance::VisualStates,
    auto::{AutoDraft, Contender, LONGEST, Seen, places},
    draft::{DraftRequest, Form, Proposal, Unsure},
    drafters::{Drafted, DrafterInputs, DrafterSet},
    gate::Gate,
    generation::{GenerationConfig, GenerationInputs, Hooks, PlainPasses},
    method::{Acceptance, Length, RuleNeeds, Shape},
    processors::History,
    tree::{Template, Tree},
    verify::{self, VerifiedRows, logit_needs},
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Logits, Nearest, Pass, Sequence, Taps},
    grammar::{Allowed, Follower, Grammar},
};
use specreel_record::{Step, StopReason, Switched, Token};

/// Most tokens that the grammar forces in one step: they are rows of its verify pass.
const MOST_FORCED: usize = 64;

/// Most similar visual tokens that are reported with each inspected token.
const NEAREST_VISUAL: usize = 24;

/// A running generation.
pub struct Session<'a> {
    config: GenerationConfig<'a>,
    hooks: Hooks<'a>,
    target: &'a mut Sequence,
    drafters: DrafterSet<'a>,
    /// Their names, if there is more than one.
    names: Vec<String>,
    visual: &'a VisualStates,
    needs: RuleNeeds,
    taps: Taps,
    template: Option<Rc<Template>>,
    auto: Option<AutoDraft>,
    gate: Option<Gate>,
    /// The grammar's state after the text.
    grammar: Option<RefCell<Follower>>,
    /// The text, by which rows are processed.
    history: Option<History>,
    root: u32,
    text: Output,
    steps: usize,
    plain: PlainClock,
    /// Time spent on relevance so far, in milliseconds.
    pub relevance_ms: f64,
}

impl<'a> Session<'a> {
    pub fn new(config: GenerationConfig<'a>, inputs: GenerationInputs<'a>, hooks: Hooks<'a>) -> Self {
        let method = config.method;
        let needs = RuleNeeds::of(&method.acceptance);
        let template = match &method.shape {
            // Methods are validated before they run; an invalid one drafts nothing.
            Shape::StaticTree { nodes, .. } => Template::read(nodes).ok().map(Rc::new),
            _ => None,
        };
        let at_once = inputs.head.as_ref().and_then(|head| Some(head.layer().block()?.most_drafts()));
        let auto = matches!(method.shape, Shape::Chain { length: Length::AUTO, .. }).then(|| {
            let GenerationConfig { row_ms, max_new_tokens, chosen, .. } = config;
            let reserves = inputs.reserves.iter().map(|reserve| reserve.contender);
            AutoDraft::begin(inputs.target.decoder(), row_ms, max_new_tokens, chosen, at_once, reserves)
        });
        let names = match (config.chosen, &inputs.reserves[..]) {
            (Some(chosen), [_, ..]) => {
                let all = std::iter::once(chosen).chain(inputs.reserves.iter().map(|of| of.contender));
                all.map(Contender::name).collect()
            }
            _ => Vec::new(),
        };
        Self {
            taps: inputs.taps(needs.attention_peaks || method.shape.gate() > 0.0),
            root: inputs.root(),
            drafters: DrafterSet::new(
                (&method.drafter, &method.context),
                DrafterInputs { sequence: inputs.drafter, head: inputs.head },
                [config.earlier, inputs.prompt],
                inputs.reserves,
            ),
            names,
            target: inputs.target,
            visual: inputs.visual,
            needs,
            template,
            auto,
            grammar: config.grammar.map(Grammar::follow).map(RefCell::new),
            history: config.history.cloned(),
            gate: (method.shape.gate() > 0.0).then(|| Gate::new(method.shape.gate())),
            text: Output::new(config.max_new_tokens),
            plain: PlainClock { passes: config.plain_passes, ..PlainClock::default() },
            config,
            hooks,
            steps: 0,
            relevance_ms: 0.0,
        }
    }

    /// Why the generation ended, once it has.
    pub fn finished(&self) -> Option<StopReason> {
        self.text.finished
    }

    /// Time of a further row of the target's pass relative to one alone, if that was measured.
    pub fn further(&self) -> Option<f64> {
        self.auto.as_ref().and_then(AutoDraft::further)
    }

    /// What each drafter did, the method's own first.
    pub fn into_drafted(self) -> Vec<Drafted> {
        self.drafters.into_done()
    }

    /// Run one step; none once the generation has ended, or if a drafter was stopped while it read the prompt. The texts of the tokens
    /// are left empty for the owner of the tokenizer.
    pub fn step(&mut self) -> Result<Option<Step>> {
        if self.text.finished.is_some() {
            return Ok(None);
        }
        let plain_ms = self.plain.is_due().then(|| self.plain_pass()).transpose()?;
        let started = Instant::now();
        let gate = self.gate.as_mut().and_then(Gate::closes);
        let forced = self.forced()?;
        let Some(switched) = self.switch()? else { return Ok(None) };
        let drafted = if gate.is_none() { self.draft(&forced)? } else { None };
        let asked = drafted.is_some();
        let (by, proposal) = drafted.unwrap_or_else(|| (self.drafters.active(), Proposal::forced(&forced)));
        let tree = &proposal.tree;
        let draft_ms = ms(started.elapsed());
        if let Some(on_draft) = self.config.on_draft.filter(|_| !tree.is_empty()) {
            on_draft(tree);
        }
        let base = self.target.len();
        let pass = self.feed(tree)?;
        let logits = self.target.logits(&pass.states)?;
        let fed_ms = ms(started.elapsed()) - draft_ms;
        // Log-probabilities are requested by inspectors, which also show the most similar visual tokens.
        let nearest_visual = match self.config.logprobs {
            0 => Vec::new(),
            _ => self.visual.nearest_of(&pass.states, NEAREST_VISUAL)?,
        };
        let allowed = self.allowed(tree)?;
        let forced = verify::forced(tree, &allowed);
        let (tokens, path, read_ms) =
            self.judge(&proposal, &pass, &logits, &nearest_visual, (&allowed, &forced))?;
        // An accelerator may only have begun the pass: it ends when its logits are there.
        let verify_ms = fed_ms + read_ms;
        let places = places(&proposal, &path, &tokens);
        self.commit(base, &proposal, &path, &tokens, &pass)?;
        // What prompt lookup would have drafted is known of every token.
        let lookup = self.auto.as_ref().and_then(AutoDraft::lookup);
        if asked && lookup != Some(by) {
            self.drafters.count(by, &proposal, &places);
        }
        if let Some(auto) = &mut self.auto {
            let foreseen = lookup.map_or(&[][..], |lookup| self.drafters.foresee(lookup));
            let seen = Seen { rows: tree.len() + 1, tokens: &tokens, verify_ms, draft_ms };
            auto.note((by, &proposal, &places), foreseen, &seen);
        }
        let tokens = self.text.emit(tokens, self.config.ends);
        self.steps += 1;
        let whole_ms = ms(started.elapsed());
        self.plain.add_step(whole_ms, verify_ms);
        Ok(Some(Step {
            index: self.steps - 1,
            root_nearest_visual: nearest_visual.into_iter().next().unwrap_or_default(),
            draft_ms,
            verify_ms,
            other_ms: whole_ms - draft_ms - verify_ms,
            plain_ms,
            gate,
            forced,
            drafter: self.names.get(by).filter(|_| !tree.is_empty()).cloned(),
            switched,
            unsure: proposal.unsure,
            ..judged(tree, path, tokens)
        }))
    }

    /// Feed the target the root and its drafts.
    fn feed(&mut self, tree: &Tree) -> Result<Pass> {
        let ids = tree.nodes().iter().map(|node| node.id);
        let rows: Vec<u32> = std::iter::once(self.root).chain(ids).collect();
        match tree.is_chain() {
            true => self.target.feed(&rows, &self.taps),
            false => {
                let base = self.target.len();
                self.target.feed_tree(&rows, base, &tree.depths(), tree.rows(), &self.taps)
            }
        }
    }

    /// The tokens that the step emits, the accepted nodes, and the time until the logits were there, in milliseconds.
    fn judge(
        &mut self,
        proposal: &Proposal,
        pass: &Pass,
        logits: &Logits,
        nearest_visual: &Nearest,
        (allowed, forced): (&[Allowed], &[usize]),
    ) -> Result<(Vec<Token>, Vec<usize>, f64)> {
        let tree = &proposal.tree;
        let relevance = match self.needs.relevance {
            Some(needs) if !tree.is_empty() => {
                let started = Instant::now();
                let relevance = self.visual.relevance_of_drafts(&pass.states, tree, needs)?;
                self.relevance_ms += ms(started.elapsed());
                Some(relevance)
            }
            _ => None,
        };
        let peaks = pass.attention.as_ref().map(|stats| &stats.peaks);
        let needs = logit_needs(&self.config, &self.needs, tree);
        let (started, mut read_ms) = (Instant::now(), 0.0);
        let (tokens, path) = logits.read(&needs, |rows| {
            read_ms = ms(started.elapsed());
            let (config, position) = (&self.config, self.text.emitted);
            let branch = |row: usize| row.checked_sub(1).map_or_else(Vec::new, |node| tree.ids(node));
            let rows = verify::counting_rows(rows, allowed, self.history.as_ref(), branch)?;
            let mut verified = VerifiedRows::new(config, self.needs, proposal, rows, position)?;
            verified.rule = self.hooks.rule;
            verified.forced = forced;
            verified.relevance = relevance;
            verified.attention_peaks = peaks.cloned();
            verified.nearest_visual = nearest_visual;
            verified.judge()
        })??;
        if let (Some(gate), Some(peaks)) = (&mut self.gate, peaks) {
            let last = path.last().map_or(0, |node| node + 1);
            gate.note(peaks.get(last).copied());
        }
        Ok((tokens, path, read_ms))
    }

    /// Time a pass of the target over the root alone, as autoregressive decoding would make here, in milliseconds.
    fn plain_pass(&mut self) -> Result<f64> {
        let (base, started) = (self.target.len(), Instant::now());
        let pass = self.target.feed(&[self.root], &Taps::default())?;
        let logits = self.target.logits(&pass.states)?;
        // Reading the logits waits for an accelerator.
        let needs = LogitNeeds { vocab: self.config.vocab, ..LogitNeeds::default() };
        logits.read(&needs, |rows| std::hint::black_box(rows.first().map(LogitRow::argmax)))?;
        let plain_ms = ms(started.elapsed());
        self.target.truncate(base);
        self.plain.add_pass(plain_ms);
        self.auto.iter_mut().for_each(|auto| auto.note_alone(plain_ms));
        Ok(plain_ms)
    }

    /// The tokens that the grammar forces after the root; none where the target decodes alone, a token a pass.
    fn forced(&self) -> Result<Vec<u32>> {
        let Some(grammar) = self.grammar.as_ref().filter(|_| !self.drafters.is_empty()) else {
            return Ok(Vec::new());
        };
        let room = self.config.max_new_tokens - self.text.emitted;
        Ok(grammar.borrow_mut().forced(room.min(MOST_FORCED))?)
    }

    /// The ids that the grammar allows after the root and after each node; empty without a grammar.
    fn allowed(&self, tree: &Tree) -> Result<Vec<Allowed>> {
        let Some(grammar) = &self.grammar else { return Ok(Vec::new()) };
        let mut grammar = grammar.borrow_mut();
        let branches = std::iter::once(Vec::new()).chain((0..tree.len()).map(|node| tree.ids(node)));
        Ok(branches
            .map(|branch: Vec<u32>| grammar.allowed(&branch))
            .collect::<std::result::Result<_, _>>()?)
    }

    /// Let another drafter take over where that pays off, and say why. `None` if the generation is to stop.
    fn switch(&mut self) -> Result<Option<Option<Box<Switched>>>> {
        let (after, active) = (self.text.emitted, self.drafters.active());
        let turn = match self.hooks.turns {
            Some(turns) => {
                let to = turns(self.steps);
                self.auto.iter_mut().for_each(|auto| auto.follow(to));
                return Ok(self.drafters.take_over(to, self.target)?.then_some(None));
            }
            None => self.auto.as_mut().and_then(|auto| auto.turn(after)),
        };
        let Some(turn) = turn else { return Ok(Some(None)) };
        let name = |at: usize| self.names.get(at).cloned().unwrap_or_default();
        let [passing, expected] = turn.chances;
        let (from, to, rest_ms) = (name(active), name(turn.to), turn.rest_ms);
        let switched = Switched { after, from, to, passing, expected, rest_ms };
        Ok(self.drafters.take_over(turn.to, self.target)?.then(|| Some(Box::new(switched))))
    }

    /// Who drafts, and the proposal; `None` if nobody is asked.
    fn draft(&mut self, forced: &[u32]) -> Result<Option<(usize, Proposal)>> {
        let by = self.drafters.active();
        let beside = match &mut self.auto {
            Some(auto) if self.hooks.turns.is_none() => auto.beside(),
            _ => None,
        };
        if let Some((lookup, stopping)) = beside {
            let unsure = Unsure::Unprofitable(&stopping);
            let found = self.propose(lookup, forced, Form::Chain, LONGEST, unsure, false)?;
            let found = found.filter(|found| self.auto.as_ref().is_some_and(|auto| auto.prefers(found)));
            if let Some(found) = found {
                return Ok(Some((lookup, found)));
            }
        }
        let drafts = self.auto.as_mut().map(AutoDraft::drafts);
        let stopping = self.auto.as_ref().and_then(AutoDraft::stopping).cloned();
        let unsure = match &stopping {
            Some(stopping) => Unsure::Unprofitable(stopping),
            None => Unsure::below(self.config.method.shape.confidence()),
        };
        let others = self.auto.as_ref().is_some_and(AutoDraft::drafts_others);
        let template = self.template.clone();
        let (form, depth) = match (&self.config.method.shape, &template) {
            (Shape::Chain { length: Length::Fixed(length), .. }, _) => (Form::Chain, *length),
            (Shape::Chain { .. }, _) => (Form::Chain, drafts.unwrap_or(0)),
            (shape @ Shape::StaticTree { .. }, Some(template)) => (Form::Static(template), shape.longest()),
            (Shape::StaticTree { .. }, None) => return Ok(None),
            (Shape::TwoBranch { length, .. }, _) => (Form::TwoBranch, *length),
            (shape @ Shape::DynamicTree { total, width, .. }, _) => {
                (Form::Dynamic { nodes: total - 1, width: *width }, shape.longest())
            }
        };
        let proposal = self.propose(by, forced, form, depth, unsure, others)?;
        Ok(proposal.map(|proposal| (by, proposal)))
    }

    /// What this drafter proposes in branches of up to `depth` tokens; `None` if there is nothing to ask for.
    fn propose(
        &mut self,
        by: usize,
        forced: &[u32],
        form: Form<'_>,
        depth: usize,
        unsure: Unsure<'_>,
        others: bool,
    ) -> Result<Option<Proposal>> {
        let Some(drafter) = self.drafters.proposer(by) else { return Ok(None) };
        let room = self.config.max_new_tokens - self.text.emitted;
        let most = (forced.len() + depth).min(room);
        if most == forced.len() {
            return Ok(None);
        }
        let request = DraftRequest {
            depth: most,
            room,
            ends: self.config.ends,
            special: self.config.special,
            vocab: self.config.vocab,
            sampler: (self.config.draws_drafts() && matches!(form, Form::Chain))
                .then_some(self.config.sampler),
            // Drawn drafts keep their distributions anyway.
            distributions: self.needs.divergence
                || (self.config.logprobs > 0 && self.config.method.acceptance != Acceptance::Sampled {}),
            others,
            position: self.text.emitted,
            grammar: self.grammar.as_ref(),
            history: self.history.as_ref(),
            forced,
            form,
            unsure,
        };
        let proposal = drafter.draft(&request, Some(self.target))?;
        Ok(Some(proposal))
    }

    /// Roll both sequences back to the kept tokens: the root and all new tokens but the last, which becomes the root.
    fn commit(
        &mut self,
        base: usize,
        proposal: &Proposal,
        path: &[usize],
        tokens: &[Token],
        pass: &Pass,
    ) -> Result<()> {
        if proposal.tree.is_chain() {
            self.target.truncate(base + 1 + path.len());
        } else {
            let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
            self.target.keep(base, &rows);
        }
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        if let Some(grammar) = &mut self.grammar {
            grammar.get_mut().advance(&ids)?;
        }
        self.history.iter_mut().for_each(|history| history.advance(&ids));
        let Some(last) = tokens.last() else { return Ok(()) };
        self.drafters.commit(proposal, path, last.id, (self.target, base), pass)?;
        self.root = last.id;
        Ok(())
    }
}

/// What was drafted and what became of it.
fn judged(tree: &Tree, path: Vec<usize>, tokens: Vec<Token>) -> Step {
    Step {
        judged: tree.len(),
        parents: tree.parents(),
        path: if tree.is_chain() { Vec::new() } else { path },
        drafted: tree.nodes().iter().map(|node| node.id).collect(),
        accepted: tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count(),
        tokens,
        ..Step::default()
    }
}

/// Decides when a pass of the target alone is timed.
#[derive(Clone, Copy, Debug, Default)]
struct PlainClock {
    passes: PlainPasses,
    /// Time of the steps so far, in milliseconds.
    steps_ms: f64,
    /// Time of the passes so far.
    passes_ms: f64,
    /// What the next pass will take at most; 0 if unknown.
    next_ms: f64,
}

impl PlainClock {
    fn is_due(&self) -> bool {
        match self.passes {
            PlainPasses::Never => false,
            PlainPasses::EveryStep => true,
            PlainPasses::Share(share) => {
                self.next_ms > 0.0 && self.passes_ms + self.next_ms <= share * self.steps_ms
            }
        }
    }

    fn add_step(&mut self, step_ms: f64, verify_ms: f64) {
        self.steps_ms += step_ms;
        // A verify pass takes at least as long as a pass over its root alone.
        if self.passes_ms == 0.0 {
            self.next_ms = verify_ms;
        }
    }

    fn add_pass(&mut self, pass_ms: f64) {
        self.passes_ms += pass_ms;
        self.next_ms = pass_ms;
    }
}

/// Counts the emitted tokens and finds the end of the text.
pub(super) struct Output {
    most: usize,
    pub emitted: usize,
    pub finished: Option<StopReason>,
}

impl Output {
    /// An empty text that may grow to `most` tokens.
    pub fn new(most: usize) -> Self {
        Self { most, emitted: 0, finished: (most == 0).then_some(StopReason::Length) }
    }

    /// Cut at an end token and at the length limit, and note the end. An end token beyond the limit does not count: plain
    /// decoding would not have reached it.
    pub fn emit(&mut self, mut tokens: Vec<Token>, ends: &[u32]) -> Vec<Token> {
        tokens.truncate(self.most - self.emitted);
        if let Some(end) = tokens.iter().position(|t| ends.contains(&t.id)) {
            tokens.truncate(end);
            self.finished = Some(StopReason::Eos);
        }
        self.emitted += tokens.len();
        if self.finished.is_none() && self.emitted == self.most {
            self.finished = Some(StopReason::Length);
        }
        tokens
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::Verdict;

    fn tokens(ids: &[u32]) -> Vec<Token> {
        let token = |&id: &u32| Token::new(id, "", Verdict::Exact);
        ids.iter().map(token).collect()
    }

    #[test]
    fn plain_passes_keep_to_their_share_of_the_time() {
        let mut clock = PlainClock { passes: PlainPasses::Share(0.02), ..PlainClock::default() };
        let (mut steps_ms, mut passes_ms, mut passes) = (0.0, 0.0, 0);
        for _ in 0..500 {
            if clock.is_due() {
                clock.add_pass(20.0);
                passes += 1;
                passes_ms += 20.0;
            }
            assert!(passes_ms <= 0.02 * steps_ms, "{passes_ms} of {steps_ms}");
            clock.add_step(50.0, 40.0);
            steps_ms += 50.0;
        }
        // 25 s of steps allow 0.5 s of passes.
        assert_eq!(passes, 24);
        for (passes, due) in [(PlainPasses::Never, false), (PlainPasses::EveryStep, true)] {
            assert_eq!(PlainClock { passes, ..PlainClock::default() }.is_due(), due);
        }
    }

    #[test]
    fn the_text_ends_where_plain_decoding_would_end_it() {
        // The end token is 9, the limit is three tokens.
        for (steps, written, finished) in [
            (&[&[1u32, 2][..]][..], 2, None),
            (&[&[1, 2], &[3]], 3, Some(StopReason::Length)),
            (&[&[1, 2], &[3, 4, 5]], 3, Some(StopReason::Length)),
            (&[&[1, 2, 3, 9]], 3, Some(StopReason::Length)),
            (&[&[1, 2, 9, 3]], 2, Some(StopReason::Eos)),
            (&[&[1, 2], &[9]], 2, Some(StopReason::Eos)),
            (&[&[9]], 0, Some(StopReason::Eos)),
        ] {
            let mut text = Output::new(3);
            let count: usize = steps.iter().map(|ids| text.emit(tokens(ids), &[9]).len()).sum();
            assert_eq!((count, text.emitted, text.finished), (written, written, finished), "{steps:?}");
        }
        assert_eq!(Output::new(0).finished, Some(StopReason::Length));
    }
}
