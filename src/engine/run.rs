//! One run from file to caption, re-using what the store has.

use std::{ops::ControlFlow, time::Instant};

use super::{
    command::RunRequest,
    memory,
    models::Models,
    store::{DrafterKey, Prefill, PrefixCache, Reference},
    thread::{Cancelled, EventSender, internal},
    tie::Parting,
};
use crate::{
    model::family::ModelError,
    record::{
        Baseline, BaselineKind, EventKind, Failure, FailureClass, Stage, Stats, Step, StopReason,
        stats::Equality,
    },
    speculate::{
        self, Drafter, Finished, GenerationConfig, GenerationInputs, Method, PrefetchedDraft, Sampler,
    },
};

/// Autoregressive steps of a calibration; the first ones warm up.
const CALIBRATION: usize = 12;
const WARM_UP: usize = 3;
/// Slots that a verify pass may need beyond the longest caption.
pub(super) const KV_HEADROOM: usize = 96;
/// Tokens from which on an autoregressive run is a baseline.
const BASELINE_TOKENS: usize = 16;

/// Why the preparation of a run ended early.
pub(super) enum Stop {
    Cancelled,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// One run.
pub(super) struct Runner<'a> {
    pub request: &'a RunRequest,
    pub models: &'a Models,
    pub sender: &'a EventSender,
    pub cancelled: &'a Cancelled,
}

impl Runner<'_> {
    /// From file to caption. Everything is told as events; an error is the caller's to tell.
    pub fn run(&self, store: &mut PrefixCache) -> Result<(), Failure> {
        let (request, method) = (self.request, &self.request.method);
        method.validate()?;
        let uses_model = matches!(method.drafter, Drafter::Model {});
        if uses_model && self.models.drafter.is_none() {
            return Err(Failure {
                class: FailureClass::Input,
                error: format!("the method `{}` drafts with a small model, and none is loaded", method.name),
                hint: Some("name one with --drafter, or pick a method that drafts with the target itself (lvspec-self)".into()),
            });
        }
        let layer = match method.drafter {
            Drafter::Sparrow { recipe } => Some(self.models.head(recipe).ok_or_else(|| Failure {
                class: FailureClass::Input,
                error: format!(
                    "the method `{}` drafts with a layer trained on the target's states, and none is loaded",
                    method.name
                ),
                hint: Some(
                    "name one with --drafter; `specreel train sparrow` makes one for any target".into(),
                ),
            })?),
            _ => None,
        };
        let drafter = match method.drafter {
            Drafter::None {} => None,
            Drafter::Model {} => self.models.drafter.as_ref().map(|d| d.name().to_owned()),
            Drafter::Target {} | Drafter::EarlyExit { .. } => Some(self.models.target.name().to_owned()),
            Drafter::Sparrow { .. } => layer.map(|layer| layer.name().to_owned()),
            Drafter::Lookup { .. } => Some("lookup".into()),
        };
        self.sender.send(EventKind::Started {
            method: serde_json::to_value(method).map_err(|e| internal(e.to_string()))?,
            lossless: method.lossless(),
            target: self.models.target.name().to_owned(),
            drafter,
            device: self.models.device.clone(),
            dtype: self.models.dtype.clone(),
            video: request.video.display().to_string(),
            prompt: request.prompt.clone(),
            before: request.before.clone(),
            span: request.span,
            segment: request.segment,
        });
        match self.caption(store) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(failure)) => Err(failure),
            Err(Stop::Cancelled) => {
                self.sender.send(EventKind::Done {
                    reason: StopReason::Cancelled,
                    text: String::new(),
                    ids: Vec::new(),
                    stats: Box::default(),
                });
                Ok(())
            }
        }
    }

    fn caption(&self, store: &mut PrefixCache) -> Result<(), Stop> {
        let mut stats = Stats::default();
        let key = self.clip_key()?;
        self.ensure_clip(store, &key, &mut stats)?;
        let reused = self.ensure_context(store, &key, &mut stats)?;
        let selection = self.select(store, &key, &mut stats)?;
        let drafter_key = self.ensure_drafter(store, &key, &selection, &mut stats)?;
        let PrefixCache { clips, contexts } = store;
        let (Some(clip), Some(context)) =
            (clips.touch(&key), contexts.touch(&(key.clone(), self.request.asked())))
        else {
            return Err(Stop::Failed(internal("a context that was just made is not kept".into())));
        };
        let kept = selection.kept.as_ref().filter(|_| drafter_key.is_some());
        stats.visual_tokens = clip.grid.len();
        stats.drafter_visual_tokens = match (&drafter_key, kept) {
            (None, _) => 0,
            (Some(_), None) => clip.grid.len(),
            (Some(_), Some(kept)) => kept.len(),
        };
        self.sender.send(EventKind::Prompt {
            frames: clip.timestamps_s.clone(),
            grid: [clip.grid.t, clip.grid.h, clip.grid.w],
            visual_tokens: clip.grid.len(),
            prompt_ids: context.prompt.ids.clone(),
            kept: kept.map(|kept| kept.iter().map(|&i| i as u32).collect()),
            scores: selection.scores.clone().filter(|_| drafter_key.is_some()),
            reused,
            notes: clip.notes.clone(),
        });
        let plain = clip.decode_ms + clip.target.as_ref().map_or(0.0, |t| t.1) + context.prefill_ms;
        self.calibrate(context)?;
        self.generate(context, drafter_key.as_ref(), &mut stats, plain)
    }

    /// Time a few autoregressive steps where no baseline is known and this run is not one.
    fn calibrate(&self, context: &mut Prefill) -> Result<(), Stop> {
        if context.baseline.is_some() || matches!(self.request.method.drafter, Drafter::None {}) {
            return Ok(());
        }
        let base = context.target.len();
        let plain = Method::preset("autoregressive")?;
        let mut times = Vec::new();
        let mut going = true;
        let rules = self.rules(&plain, CALIBRATION, &|_| false, None);
        let written = speculate::generate(rules, context.parts(None, None), &mut |step| {
            times.push((step.draft_ms + step.verify_ms + step.other_ms, step.verify_ms));
            going = self.progress(Stage::Calibrate, times.len(), CALIBRATION).is_continue();
            if going { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // However it ended: the next run starts from the prompt.
        context.target.truncate(base);
        written.map_err(ModelError::from)?;
        if !going {
            return Err(Stop::Cancelled);
        }
        let warm = times.get(WARM_UP..).filter(|t| !t.is_empty()).unwrap_or(&times);
        let mean = warm.iter().map(|t| t.0).sum::<f64>() / warm.len().max(1) as f64;
        context.t1_ms = median(warm.iter().map(|t| t.1).collect());
        if mean > 0.0 {
            context.baseline = Some(Baseline {
                name: "autoregressive".into(),
                kind: BaselineKind::Calibrated,
                tokens_per_second: 1000.0 / mean,
            });
        }
        Ok(())
    }

    pub(super) fn rules<'r>(
        &'r self,
        method: &'r Method,
        max_new_tokens: usize,
        protected: &'r dyn Fn(u32) -> bool,
        row_ms: Option<f64>,
    ) -> GenerationConfig<'r> {
        let target = &self.models.target;
        GenerationConfig {
            method,
            sampler: self.sampler(),
            max_new_tokens,
            vocab: target.tokenizer().vocabulary(),
            ends: target.tokenizer().end_ids(),
            special: target.tokenizer().special_ids(),
            protected,
            logprobs: self.request.logprobs,
            row_ms,
            rule: None,
        }
    }

    fn sampler(&self) -> Sampler {
        let text = self.request.text;
        Sampler { temperature: text.temperature, top_p: text.top_p, seed: text.seed }
    }

    fn generate(
        &self,
        context: &mut Prefill,
        drafter_key: Option<&DrafterKey>,
        stats: &mut Stats,
        plain_front_ms: f64,
    ) -> Result<(), Stop> {
        let (method, tokenizer) = (&self.request.method, self.models.target.tokenizer());
        let base = context.target.len();
        let strict_words = method.acceptance.always_strict();
        let protected = |id: u32| {
            tokenizer.is_special(id)
                || (!strict_words.is_empty() && {
                    let text = tokenizer.token_text(id).trim().to_lowercase();
                    strict_words.contains(&text)
                })
        };
        let mut drafter = drafter_key.and_then(|key| context.drafters.take(key));
        let mut stream = tokenizer.stream();
        let (mut text, mut ids) = (String::new(), Vec::new());
        let (mut plain_ms, mut full_ms) = (Vec::new(), Vec::new());
        let row_ms = Some(context.t1_ms).filter(|ms| *ms > 0.0);
        let rules = self.rules(method, self.request.max_new_tokens, &protected, row_ms);
        let opening = drafter.as_mut().and_then(|d| d.open(&rules));
        let read_ms = drafter.as_ref().map_or(0.0, |d| d.prefill_ms);
        let drafter_front_ms =
            stats.timings.drafter_front_ms(read_ms + opening.as_ref().map_or(0.0, PrefetchedDraft::ms));
        let drafter_base =
            drafter.as_ref().map(|d| opening.as_ref().map_or(d.sequence.len(), PrefetchedDraft::base));
        let mut finite = true;
        let mut on = |mut step: Step| {
            // A row of logits that is not finite has no probabilities.
            finite = !step.tokens.iter().any(|token| token.probability.is_some_and(f32::is_nan));
            if !finite {
                return ControlFlow::Break(());
            }
            let dressing = Instant::now();
            for token in &mut step.tokens {
                token.text = stream.push(token.id);
                let texts = |of: &[(u32, f32)]| of.iter().map(|(id, _)| tokenizer.token_text(*id)).collect();
                token.logprob_texts = texts(&token.logprobs);
                token.drafter_texts = texts(&token.drafter_logprobs);
                token.target_text =
                    (token.target_id != token.id).then(|| tokenizer.token_text(token.target_id));
                text.push_str(&token.text);
                ids.push(token.id);
            }
            step.drafted_text = step.drafted.iter().map(|&id| tokenizer.token_text(id)).collect();
            match step.judged {
                0 => plain_ms.push(step.verify_ms),
                k if method.draft_length().is_none_or(|full| full == k) => full_ms.push(step.verify_ms),
                _ => {}
            }
            step.other_ms += since(dressing);
            stats.add(&step);
            if !self.sender.send(EventKind::Step(step)) {
                return ControlFlow::Break(());
            }
            self.progress(Stage::Generate, ids.len(), self.request.max_new_tokens)
        };
        let begun = self.progress(Stage::Generate, 0, self.request.max_new_tokens).is_continue();
        let outcome = match begun {
            true => {
                let layer = match method.drafter {
                    Drafter::Sparrow { recipe } => self.models.head(recipe),
                    _ => None,
                };
                let layer = layer.map(|layer| &**layer);
                let parts = context.parts(drafter.as_mut().map(|d| &mut d.sequence), layer);
                speculate::generate(rules, GenerationInputs { prefetched: opening, ..parts }, &mut on)
            }
            false => Ok(Finished::default()),
        };
        context.target.truncate(base);
        if let (Some(mut drafter), Some(base), Some(key)) = (drafter, drafter_base, drafter_key) {
            drafter.sequence.truncate(base);
            context.drafters.insert(key.clone(), drafter);
        }
        let finished = outcome.map_err(ModelError::from)?;
        if !finite {
            return Err(Stop::Failed(self.not_finite()));
        }
        let reason = finished.reason.unwrap_or(StopReason::Cancelled);
        stats.timings.relevance_ms = finished.relevance_ms;
        stats.timings.td_ms = median(finished.drafter_row_ms);
        if let Some(tally) = &finished.tally {
            // Steps tell only of the drafts that were judged.
            stats.drafted = tally.drafted;
            (stats.discarded, stats.mean_run) = (tally.discarded, tally.mean_run());
        }
        text.push_str(&stream.finish());

        stats.timings.t1_ms = if plain_ms.is_empty() { context.t1_ms } else { median(plain_ms) };
        stats.timings.tk1_ms = median(full_ms);
        stats.peak_memory_bytes = memory::peak();
        self.compare(context, stats, &ids, reason);
        self.explain(context, stats, &ids)?;
        if let Some(baseline) = &context.baseline {
            stats.set_baseline(baseline.clone(), plain_front_ms, drafter_front_ms);
        }
        self.sender.send(EventKind::Done { reason, text, ids, stats: Box::new(stats.clone()) });
        Ok(())
    }

    fn not_finite(&self) -> Failure {
        let (name, dtype) = (self.models.target.name(), &self.models.dtype);
        Failure {
            class: FailureClass::Input,
            error: format!(
                "the logits of {name} are not finite: its weights are damaged, or too large for {dtype}"
            ),
            hint: Some("try --dtype f32; if that changes nothing, fetch the model again".into()),
        }
    }

    /// Note an autoregressive run as baseline and reference; compare any other with what is known.
    fn compare(&self, context: &mut Prefill, stats: &mut Stats, ids: &[u32], reason: StopReason) {
        let (sampler, max_new_tokens) = (self.sampler(), self.request.max_new_tokens);
        if matches!(self.request.method.drafter, Drafter::None {}) {
            context.t1_ms = stats.timings.t1_ms;
            if ids.len() >= BASELINE_TOKENS && stats.tokens_per_second > 0.0 {
                context.baseline = Some(Baseline {
                    name: "autoregressive".into(),
                    kind: BaselineKind::Measured,
                    tokens_per_second: stats.tokens_per_second,
                });
            }
            if reason != StopReason::Cancelled {
                context.reference = Some(Reference { sampler, max_new_tokens, ids: ids.to_vec() });
            }
        } else if let Some(reference) = &context.reference
            && reason != StopReason::Cancelled
            && reference.sampler == sampler
            && reference.max_new_tokens == max_new_tokens
        {
            stats.equality = Some(Equality::of(ids, &reference.ids));
        }
        debug_assert_eq!(stats.verdicts.total(), ids.len() as u64);
    }

    /// Where a lossless method wrote something else than autoregressive decoding, look how close it was.
    fn explain(&self, context: &mut Prefill, stats: &mut Stats, ids: &[u32]) -> Result<(), ModelError> {
        let Some(at) = stats.equality.as_ref().and_then(|e| e.first_difference) else { return Ok(()) };
        // What is drawn at random turns on more than two logits.
        if !self.request.method.lossless() || !self.sampler().is_greedy() {
            return Ok(());
        }
        let Some(reference) = &context.reference else { return Ok(()) };
        let (target, tokenizer) = (&self.models.target, self.models.target.tokenizer());
        let parting = Parting {
            root: context.prompt.ids.last().copied().unwrap_or_default(),
            common: &ids[..at],
            plain: reference.ids.get(at).copied(),
            other: ids.get(at).copied(),
            ends: tokenizer.end_ids(),
            vocab: tokenizer.vocabulary(),
        };
        stats.tie = parting.look(&mut context.target, target.place(), &|id| tokenizer.token_text(id))?;
        Ok(())
    }

    pub(super) fn progress(&self, stage: Stage, done: usize, total: usize) -> ControlFlow<()> {
        if self.cancelled.contains(self.request.run) {
            return ControlFlow::Break(());
        }
        // A step tells of itself; its stage only begins once.
        if stage != Stage::Generate || done == 0 {
            self.sender.offer(EventKind::Stage { stage, done: done as u64, total: total as u64 });
        }
        ControlFlow::Continue(())
    }
}

pub(super) fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

/// The median; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
