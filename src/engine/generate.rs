//! The decoding loop's surroundings: token texts, timings, statistics, events.

use std::{ops::ControlFlow, time::Instant};

use super::{
    memory,
    prefix_cache::{DrafterKey, Prefill},
    run::{Runner, Stop, median, since},
};
use crate::{
    model::family::ModelError,
    record::{EventKind, Failure, FailureClass, Stage, Stats, Step, StopReason},
    speculate::{self, Finished, GenerationConfig, GenerationInputs, Method, PrefetchedDraft, Sampler},
};

impl Runner<'_> {
    /// How to generate with this method; the request says the rest.
    pub(super) fn config<'r>(
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

    pub(super) fn sampler(&self) -> Sampler {
        let text = self.request.text;
        Sampler { temperature: text.temperature, top_p: text.top_p, seed: text.seed }
    }

    /// Generate the caption over a prepared context, step by step.
    pub(super) fn generate(
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
        let config = self.config(method, self.request.max_new_tokens, &protected, row_ms);
        let opening = drafter.as_mut().and_then(|d| d.take_prefetched(&config));
        let read_ms = drafter.as_ref().map_or(0.0, |d| d.prefill_ms);
        let drafter_front_ms =
            stats.timings.drafter_front_ms(read_ms + opening.as_ref().map_or(0.0, PrefetchedDraft::ms));
        let drafter_base =
            drafter.as_ref().map(|d| opening.as_ref().map_or(d.sequence.len(), PrefetchedDraft::base));
        let mut finite = true;
        let mut on = |mut step: Step| {
            // Logits that are not finite have no probabilities.
            finite = !step.tokens.iter().any(|token| token.probability.is_some_and(f32::is_nan));
            if !finite {
                return ControlFlow::Break(());
            }
            let started = Instant::now();
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
            step.other_ms += since(started);
            stats.add(&step);
            if !self.sender.send(EventKind::Step(step)) {
                return ControlFlow::Break(());
            }
            self.progress(Stage::Generate, ids.len(), self.request.max_new_tokens)
        };
        let wanted = self.progress(Stage::Generate, 0, self.request.max_new_tokens).is_continue();
        let outcome = match wanted {
            true => {
                let head = self.draft_head().map(|head| &**head);
                let inputs = context.inputs(drafter.as_mut().map(|d| &mut d.sequence), head);
                speculate::generate(config, GenerationInputs { opening, ..inputs }, &mut on)
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
            // Steps report only the drafts that were judged.
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
            hint: Some("try --dtype f32; if that does not help, download the model again".into()),
        }
    }
}
