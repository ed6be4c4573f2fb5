//! What a run is compared with: the time of an autoregressive step over the same context, and the ids of such a run.

use std::{ops::ControlFlow, time::Instant};

use crate::{
    cache::{Clip, Prefill, Reference},
    command::{RunRequest, Verifies},
    events::{Stop, since},
    planner::RunPlan,
    stages::{Decoding, Runner, divergence::Divergence},
};
use specreel_model::{
    decoder::Sequence,
    family::{ModelError, Prompt},
};
use specreel_record::{
    EventKind, Promise, Stage, Stats, StopReason, Verification, median,
    stats::{Equality, Tie},
};
use specreel_speculate::{Method, PlainPasses};

/// Autoregressive steps of a calibration; the first ones warm up.
const CALIBRATION: usize = 12;
const WARM_UP: usize = 3;
/// A calibration ends after this time, or this share of the run's time so far, whichever is longer: it must not delay
/// the caption noticeably.
const CALIBRATION_MS: f64 = 5.0;
const CALIBRATION_SHARE: f64 = 0.02;

impl Runner<'_> {
    /// Time a few autoregressive steps, unless this run is autoregressive or they would delay it: an automatic draft length
    /// starts from them, and they say how long a repetition would take. `spent_ms` is the time that the run has taken until now.
    pub(crate) fn calibrate(
        &self,
        plan: &RunPlan,
        clip: &Clip,
        context: &mut Prefill,
        spent_ms: f64,
    ) -> Result<(), Stop> {
        let budget_ms = f64::max(CALIBRATION_MS, CALIBRATION_SHARE * spent_ms);
        if !plan.method.drafts() || context.t1_ms > budget_ms || self.shares_device() {
            return Ok(());
        }
        let decoding = Decoding {
            method: &Method::default(),
            contenders: &[],
            earlier: &[],
            sampling: &plan.sampling,
            max_new_tokens: CALIBRATION,
            plain_passes: PlainPasses::Never,
            on_draft: None,
        };
        let (mut passes, started) = (Vec::new(), Instant::now());
        let mut going = true;
        self.decode(clip, context, None, &decoding, &mut |step| {
            passes.push(step.verify_ms);
            going = self.progress(Stage::Calibrate, passes.len(), CALIBRATION).is_continue();
            let in_budget = since(started) < budget_ms;
            if going && in_budget { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if !going {
            return Err(Stop::Cancelled);
        }
        let warm = if passes.len() > WARM_UP { WARM_UP } else { 0 };
        context.t1_ms = median(passes.split_off(warm)).unwrap_or(context.t1_ms);
        Ok(())
    }

    /// Keep the ids of an autoregressive run as reference; compare any other run's ids with them.
    pub(crate) fn compare(
        &self,
        plan: &RunPlan,
        context: &mut Prefill,
        stats: &mut Stats,
        ids: &[u32],
        reason: StopReason,
    ) {
        let RunPlan { sampling, max_new_tokens, .. } = plan;
        let RunRequest { stop, on_loop, constraint, .. } = self.request;
        if plan.is_baseline() {
            context.t1_ms = stats.timings.t1_ms;
            if reason != StopReason::Cancelled {
                context.reference = Some(Reference {
                    sampling: sampling.clone(),
                    max_new_tokens: *max_new_tokens,
                    stop: stop.clone(),
                    on_loop: *on_loop,
                    constraint: constraint.clone(),
                    ids: ids.to_vec(),
                });
            }
        } else if context.kept.is_some() {
            // Plain decoding's text belongs to another context.
            context.t1_ms = stats.timings.t1_ms;
        } else if let Some(reference) = &context.reference
            && reason != StopReason::Cancelled
            && reference.sampling == *sampling
            && reference.max_new_tokens == *max_new_tokens
            && reference.stop == *stop
            && reference.on_loop == *on_loop
            && reference.constraint == *constraint
        {
            stats.equality = Some(Equality::of(ids, &reference.ids));
        }
    }

    /// If a lossless method differs from autoregressive decoding, measure how close the two tokens were.
    pub(crate) fn explain(
        &self,
        plan: &RunPlan,
        context: &mut Prefill,
        stats: &mut Stats,
        ids: &[u32],
    ) -> Result<(), ModelError> {
        let Some(at) = stats.equality.as_ref().and_then(|e| e.first_difference) else { return Ok(()) };
        // A token drawn at random depends on more than two logits.
        if !self.request.is_lossless() || !plan.sampling.sampler.is_greedy() {
            return Ok(());
        }
        let Prefill { prompt, target, reference: Some(reference), .. } = context else { return Ok(()) };
        stats.tie = self.difference(plan, prompt, target, [ids, &reference.ids], at)?;
        Ok(())
    }

    /// Report how the run that this one verifies compares with it.
    pub(crate) fn verify(
        &self,
        plan: &RunPlan,
        context: &mut Prefill,
        plain: &[u32],
        reason: StopReason,
    ) -> Result<(), ModelError> {
        let Some(Verifies { run, ids, method }) =
            self.request.verifies.as_ref().filter(|_| reason != StopReason::Cancelled)
        else {
            return Ok(());
        };
        let equality = Equality::of(ids, plain);
        let at = equality.first_difference;
        let Prefill { prompt, target, .. } = context;
        let difference = at.map(|at| self.difference(plan, prompt, target, [ids, plain], at));
        let difference = difference.transpose()?.flatten();
        let (tokens, plain_tokens) = (ids.len(), plain.len());
        let sampler = &plan.sampling.sampler;
        let promises = method.as_ref().map_or(Promise::Nothing, |method| method.promise(sampler));
        let verification = Verification { equality, tokens, plain_tokens, promises, difference };
        self.sender.of(*run).send(EventKind::Verified(verification));
        Ok(())
    }

    /// How close the tokens of a run and of autoregressive decoding are at their first difference.
    fn difference(
        &self,
        plan: &RunPlan,
        prompt: &Prompt,
        target: &mut Sequence,
        [ids, plain]: [&[u32]; 2],
        at: usize,
    ) -> Result<Option<Tie>, ModelError> {
        let tokenizer = self.models.target.tokenizer();
        let divergence = Divergence {
            root: prompt.ids.last().copied().unwrap_or_default(),
            common: &ids[..at],
            plain: plain.get(at).copied(),
            other: ids.get(at).copied(),
            is_greedy: plan.sampling.sampler.is_greedy(),
            history: plan.history(&prompt.ids),
            ends: tokenizer.end_ids(),
            vocab: tokenizer.vocabulary(),
        };
        let text = |id| tokenizer.token_text(id);
        Ok(divergence.measure(target, self.models.target.device(), &text)?)
    }
}
