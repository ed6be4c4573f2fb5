//! The decoding loop's surroundings: token texts, timings, statistics, events.

use std::{cell::Cell, ops::ControlFlow, time::Instant};

use crate::{
    cache::{Clip, DrafterKey, Prefill},
    events::{Stop, since},
    planner::RunPlan,
    stages::{
        Runner,
        thinking::Thinking,
        writing::{Caption, Writing},
    },
    timing::ContentionMeter,
};
use specreel_model::{family::ModelError, grammar::Grammar};
use specreel_os::memory;
use specreel_record::{
    Draft, EventKind, Failure, FailureClass, Limits, Measured, Speedup, Stage, Stats, Step, StopReason,
    median, paired::Pace,
};
use specreel_speculate::{
    self as speculate, DrafterInputs, Finished, GenerationConfig, Hooks, Method, PlainPasses,
    PrefetchedDraft, Reserve, Schedule, TextSampling, Tree, auto::Contender, context::HeadPrefill,
    processors::History,
};

/// The method that every other is compared with.
pub(crate) const BASELINE: &str = "autoregressive";

/// Where steps take at least this long, in milliseconds, their drafts are reported before they are verified: a person can see
/// them.
const VISIBLE_MS: f64 = 150.0;

/// Most of a run's time that goes into timing the target alone.
const PLAIN_SHARE: f64 = 0.02;

/// How to decode a request once.
pub(crate) struct Decoding<'a> {
    pub method: &'a Method,
    /// The plan's drafters, between which it may switch if the method drafts.
    pub contenders: &'a [Contender],
    /// The plan's tokens that prompt lookup searches in addition to the prompt and the text.
    pub earlier: &'a [u32],
    /// How its text is sampled.
    pub sampling: &'a TextSampling,
    pub max_new_tokens: usize,
    pub plain_passes: PlainPasses,
    /// Receives the drafts of every step before they are verified.
    pub on_draft: Option<&'a dyn Fn(&Tree)>,
}

#[derive(Default)]
pub(crate) struct Decoded {
    pub finished: Finished,
    /// Text of the bytes that never became a character.
    pub rest: String,
    /// What the drafter's prefill and its prefetched window took when they were made, in milliseconds.
    pub read_ms: f64,
}

/// What a run has written, before its end is reported.
pub(crate) struct Written {
    caption: Caption,
    finished: Finished,
    pace: Pace,
    read_ms: f64,
}

impl Written {
    /// Tokens that were written in vain, if they are a text that repeated itself without end.
    pub fn in_vain(&self) -> Option<usize> {
        let Caption { reason, ids, .. } = &self.caption;
        (*reason == StopReason::Loop).then_some(ids.len())
    }
}

/// Times before the first token, as measured when the parts were made, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Front {
    /// The needs of autoregressive decoding as well.
    pub(crate) shared_ms: f64,
    /// What only this run's drafter needs.
    pub drafter_ms: f64,
}

/// What is known of a run that has been reported.
pub(crate) struct Generated {
    pub reason: StopReason,
    /// The text's tokens.
    pub ids: Vec<u32>,
    pub pace: Pace,
    pub front: Front,
    /// What its speedup can be.
    pub limits: Limits,
}

impl Runner<'_> {
    /// What the answer to this prompt has to be, if it is constrained.
    pub(crate) fn grammar(&self, prompt: &[u32]) -> Result<Option<Grammar>, Failure> {
        let Some(constraint) = &self.request.constraint else { return Ok(None) };
        let tokenizer = self.models.target.tokenizer();
        let grammar = self.models.grammars.of(constraint, tokenizer).map_err(|error| {
            let mut failure = Failure::from(error);
            failure.error = format!("{}: {}", constraint.name(), failure.error);
            failure
        })?;
        Ok(Some(grammar.after(Thinking::after(prompt, tokenizer).end())))
    }

    /// How to generate with this method; the request says the rest.
    pub(crate) fn config<'r>(
        &'r self,
        method: &'r Method,
        (sampling, max_new_tokens): (&TextSampling, usize),
        protected: &'r dyn Fn(u32) -> bool,
        (grammar, history): (Option<&'r Grammar>, Option<&'r History>),
        row_ms: Option<f64>,
    ) -> GenerationConfig<'r> {
        let target = &self.models.target;
        let vocab = target.tokenizer().vocabulary();
        GenerationConfig {
            ends: target.tokenizer().end_ids(),
            special: target.tokenizer().special_ids(),
            protected,
            grammar,
            history,
            logprobs: self.request.logprobs,
            row_ms,
            ..GenerationConfig::new(method, sampling.sampler, max_new_tokens, vocab)
        }
    }

    /// Decode over a prepared context, step by step; `on` gets every step with its texts. Afterwards the sequences hold the
    /// prompt again, however it ended.
    pub(crate) fn decode(
        &self,
        clip: &Clip,
        context: &mut Prefill,
        drafter_key: Option<&DrafterKey>,
        decoding: &Decoding<'_>,
        on: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<Decoded, Stop> {
        let tokenizer = self.models.target.tokenizer();
        let prompt = &context.prompt.ids;
        let (grammar, history) = (self.grammar(prompt)?, History::new(&decoding.sampling.processors, prompt));
        let changes = (grammar.as_ref(), history.as_ref());
        let base = context.target.len();
        let strict_words = decoding.method.acceptance.always_strict();
        let protected = |id: u32| {
            tokenizer.is_special(id)
                || (!strict_words.is_empty() && {
                    let text = tokenizer.token_text(id).trim().to_lowercase();
                    strict_words.contains(&text)
                })
        };
        let mut drafter = drafter_key.and_then(|key| context.drafters.take(key));
        let row_ms = Some(context.t1_ms).filter(|ms| *ms > 0.0);
        let contenders = if decoding.method.drafts() { decoding.contenders } else { &[] };
        let length = (decoding.sampling, decoding.max_new_tokens);
        let config = GenerationConfig {
            plain_passes: decoding.plain_passes,
            on_draft: decoding.on_draft,
            chosen: contenders.first(),
            earlier: decoding.earlier,
            ..self.config(decoding.method, length, &protected, changes, row_ms)
        };
        let turns = self.observer.and_then(|observer| observer.turns(self.request, contenders.len()));
        let hooks = Hooks { turns: turns.as_deref(), ..Hooks::default() };
        let prefetched = drafter.as_mut().and_then(|d| d.take_prefetched(&config));
        let read_ms = drafter.as_ref().map_or(0.0, |d| d.prefill_ms)
            + prefetched.as_ref().map_or(0.0, PrefetchedDraft::ms);
        let drafter_base =
            drafter.as_ref().map(|d| prefetched.as_ref().map_or(d.sequence.len(), PrefetchedDraft::base));
        let mut stream = tokenizer.stream();
        let mut thinking = Thinking::after(&context.prompt.ids, tokenizer);
        let mut with_texts = |mut step: Step| {
            let started = Instant::now();
            for token in &mut step.tokens {
                token.text = stream.push(token.id);
                token.thinking = thinking.push(token.id);
                let texts = |of: &[(u32, f32)]| of.iter().map(|(id, _)| tokenizer.token_text(*id)).collect();
                token.logprob_texts = texts(&token.logprobs);
                token.drafter_texts = texts(&token.drafter_logprobs);
                token.target_text =
                    (token.target_id != token.id).then(|| tokenizer.token_text(token.target_id));
            }
            step.drafted_text = step.drafted.iter().map(|&id| tokenizer.token_text(id)).collect();
            step.other_ms += since(started);
            on(step)
        };
        let head = self.models.head_of(&decoding.method.drafter);
        let others = contenders.get(1..).unwrap_or_default();
        let mut read: Vec<Option<HeadPrefill>> = others.iter().map(|_| None).collect();
        let failed = Cell::new(None);
        let (mut inputs, prompt) = context.inputs(drafter.as_mut(), head.map(|head| &**head));
        inputs.prefetched = prefetched;
        let reserves = others.iter().zip(&mut read).map(|(contender, read)| {
            let (failed, max_new_tokens) = (&failed, decoding.max_new_tokens);
            Reserve::new(contender, move || {
                match self.read_reserve(contender, clip, prompt, max_new_tokens) {
                    Ok(None) => Ok(Some(DrafterInputs::default())),
                    Ok(Some(prefill)) => {
                        let read: &mut Option<HeadPrefill> = read;
                        let HeadPrefill { sequence, seen } = read.insert(prefill);
                        let head = self.models.head_of(&contender.drafter).map(|head| &**head);
                        Ok(Some(prompt.drafter(sequence, seen, head)))
                    }
                    Err(stop) => {
                        failed.set(Some(stop));
                        Ok(None)
                    }
                }
            })
        });
        inputs.reserves = reserves.collect();
        let outcome = speculate::generate_with(config, inputs, hooks, &mut with_texts);
        // The end of a thought is not part of the caption.
        let rest = Some(stream.finish()).filter(|_| !thinking.is_open()).unwrap_or_default();
        context.target.truncate(base);
        if let (Some(mut drafter), Some(base), Some(key)) = (drafter, drafter_base, drafter_key) {
            drafter.sequence.truncate(base);
            context.drafters.insert(key.clone(), drafter);
        }
        let finished = outcome.map_err(ModelError::from)?;
        // A cancelled run keeps what it has written.
        if let Some(stop @ Stop::Failed(_)) = failed.into_inner() {
            return Err(stop);
        }
        Ok(Decoded { finished, rest, read_ms })
    }

    /// Write the caption over a prepared context; its steps are reported.
    pub(crate) fn write(
        &self,
        plan: &RunPlan,
        clip: &Clip,
        context: &mut Prefill,
        drafter_key: Option<&DrafterKey>,
        stats: &mut Stats,
    ) -> Result<Written, Stop> {
        let method = &plan.method;
        let (mut plain_ms, mut full_ms) = (Vec::new(), Vec::new());
        let mut pace = Pace::default();
        let mut finite = true;
        let mut writing = Writing::of(self.request);
        let autoregressive = !method.drafts();
        // The steps so far, when the last one ended, and how long it took; 0 while steps are held back.
        let (steps, last, took_ms) = (Cell::new(0), Cell::new(Instant::now()), Cell::new(0.0));
        let on_draft = |tree: &Tree| {
            if took_ms.get() >= VISIBLE_MS {
                self.sender.offer(self.draft_event(steps.get(), tree));
            }
        };
        let decoding = Decoding {
            method,
            contenders: &plan.contenders,
            earlier: &plan.earlier,
            sampling: &plan.sampling,
            max_new_tokens: plan.max_new_tokens,
            plain_passes: match autoregressive || self.shares_device() {
                true => PlainPasses::Never,
                false => PlainPasses::Share(PLAIN_SHARE),
            },
            on_draft: Some(&on_draft),
        };
        let mut on = |mut step: Step| {
            // Logits that are not finite have no probabilities.
            finite = !step.tokens.iter().any(|token| token.probability.is_some_and(f32::is_nan));
            if !finite {
                return ControlFlow::Break(());
            }
            let started = Instant::now();
            writing.read(&mut step);
            match step.judged {
                0 => plain_ms.push(step.verify_ms),
                k if method.draft_length().is_none_or(|full| full == k) => full_ms.push(step.verify_ms),
                _ => {}
            }
            step.other_ms += since(started);
            stats.add(&step);
            pace.add(&step);
            for step in writing.release(step) {
                if !self.sender.send(EventKind::Step(step)) {
                    return ControlFlow::Break(());
                }
            }
            let wanted = self.progress(Stage::Generate, writing.tokens(), plan.max_new_tokens);
            steps.set(steps.get() + 1);
            let ms = since(last.replace(Instant::now()));
            took_ms.set(if writing.holds() { 0.0 } else { ms });
            if writing.is_over() { ControlFlow::Break(()) } else { wanted }
        };
        let before = self.models.traffic();
        let mut contention = ContentionMeter::default();
        let decoded = match self.progress(Stage::Generate, 0, plan.max_new_tokens) {
            ControlFlow::Continue(()) => {
                contention.during(|| self.decode(clip, context, drafter_key, &decoding, &mut on))?
            }
            ControlFlow::Break(()) => Decoded::default(),
        };
        if !finite {
            return Err(Stop::Failed(self.not_finite()));
        }
        stats.traffic = self.models.traffic().zip(before).map(|(after, before)| after - before);
        let Decoded { finished, rest, read_ms } = decoded;
        let mut caption = writing.finish(&rest, finished.reason);
        for step in caption.held.drain(..) {
            self.sender.send(EventKind::Step(step));
        }
        stats.timings.relevance_ms = finished.relevance_ms;
        let rows = finished.drafters.iter().flat_map(|drafted| drafted.row_ms.iter().copied());
        stats.timings.td_ms = median(rows).unwrap_or_default();
        if let Some(tally) = &finished.tally {
            // Steps report only the drafts that were judged.
            stats.drafted = tally.drafted.saturating_sub(finished.forced);
            let forced = finished.forced.saturating_sub(stats.forced);
            stats.discarded = tally.discarded.saturating_sub(forced);
            (stats.rejects, stats.mean_run) = (Some(tally.rejects), tally.mean_run());
        }
        stats.timings.t1_ms = median(plain_ms).unwrap_or(context.t1_ms);
        stats.timings.tk1_ms = median(full_ms).unwrap_or_default();
        stats.peak_memory_bytes = memory::peak();
        // Side by side, drafter and target may themselves need more processors than there are.
        let alone = matches!(method.schedule, Schedule::Sequential {}) && !self.shares_device();
        stats.contention = contention.share().filter(|_| alone);
        pace.end(caption.reason);
        Ok(Written { caption, finished, pace, read_ms })
    }

    /// Report the end of a run that has written this; `whole` is the context of the target that is not pruned, if it judges a pruned one.
    /// Returns the state that a measurement of its speed needs.
    pub(crate) fn conclude(
        &self,
        plan: &RunPlan,
        clip: &Clip,
        context: &mut Prefill,
        whole: Option<&mut Prefill>,
        written: Written,
        stats: &mut Stats,
    ) -> Result<Generated, Stop> {
        let Written { caption: Caption { reason, text, ids, .. }, finished, pace, read_ms } = written;
        stats.complete = self.grammar(&context.prompt.ids)?.map(|grammar| grammar.accepts(&ids));
        if let Some(whole) = whole {
            stats.accepted_share = self.accepted_share(plan, whole, &ids)?;
        }
        let plain_front_ms = clip.decode_ms + clip.target.as_ref().map_or(0.0, |t| t.1) + context.prefill_ms;
        self.compare(plan, context, stats, &ids, reason);
        self.explain(plan, context, stats, &ids)?;
        self.verify(plan, context, &ids, reason)?;
        let front = Front { shared_ms: plain_front_ms, drafter_ms: stats.timings.drafter_front_ms(read_ms) };
        let limits = if context.kept.is_some() { Limits::NONE } else { Limits::of(stats, reason) };
        let measured = Measured {
            ratios: &pace.ratios(),
            generate_ms: stats.timings.generate_ms(),
            limits,
            contention: stats.contention,
            front_ms: front.shared_ms,
            drafter_ms: front.drafter_ms,
        };
        if !self.shares_device() {
            stats.speedup = Speedup::of(BASELINE, stats.emitted, &measured);
        }
        // Before the last event: a command that waits for it ends the process.
        self.planner().learn(plan, &finished, stats, context.prompt.ids.len(), reason);
        let stats = Box::new(stats.clone());
        self.sender.send(EventKind::Done { reason, text, ids: ids.clone(), stats });
        Ok(Generated { reason, ids, pace, front, limits })
    }

    fn draft_event(&self, index: usize, tree: &Tree) -> EventKind {
        let tokenizer = self.models.target.tokenizer();
        let drafted: Vec<u32> = tree.nodes().iter().map(|node| node.id).collect();
        EventKind::Draft(Draft {
            index,
            drafted_text: drafted.iter().map(|&id| tokenizer.token_text(id)).collect(),
            drafted,
            parents: tree.parents(),
        })
    }

    fn not_finite(&self) -> Failure {
        let (name, dtype) = (self.models.target.name(), &self.models.dtype);
        Failure {
            class: FailureClass::Input,
            error: format!(
                "the logits of {name} are not finite: its weights are damaged, or too large for {dtype}"
            ),
            hint: Some("try --dtype f32; if that does not help, download the model again".into()),
        }
    }
}
