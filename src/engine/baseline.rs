//! What a run is compared with: the speed and the ids of autoregressive decoding over the same context.

use std::ops::ControlFlow;

use super::{
    prefix_cache::{Prefill, Reference},
    run::{Runner, Stop, median},
    tie::Difference,
};
use crate::{
    model::family::ModelError,
    record::{Baseline, BaselineKind, Stage, Stats, StopReason, stats::Equality},
    speculate::{self, Drafter, Method},
};

/// Autoregressive steps of a calibration; the first ones warm up.
const CALIBRATION: usize = 12;
const WARM_UP: usize = 3;
/// An autoregressive run of at least this many tokens is a baseline.
const BASELINE_TOKENS: usize = 16;

impl Runner<'_> {
    /// Time a few autoregressive steps, unless a baseline is known or this run is one.
    pub(super) fn calibrate(&self, context: &mut Prefill) -> Result<(), Stop> {
        if context.baseline.is_some() || matches!(self.request.method.drafter, Drafter::None {}) {
            return Ok(());
        }
        let base = context.target.len();
        let plain = Method::preset("autoregressive")?;
        let mut times = Vec::new();
        let mut going = true;
        let config = self.config(&plain, CALIBRATION, &|_| false, None);
        let written = speculate::generate(config, context.inputs(None, None), &mut |step| {
            times.push((step.draft_ms + step.verify_ms + step.other_ms, step.verify_ms));
            going = self.progress(Stage::Calibrate, times.len(), CALIBRATION).is_continue();
            if going { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // However it ended, the next run starts from the prompt.
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

    /// Keep an autoregressive run as baseline and reference; compare any other run with them.
    pub(super) fn compare(&self, context: &mut Prefill, stats: &mut Stats, ids: &[u32], reason: StopReason) {
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

    /// If a lossless method differs from autoregressive decoding, measure how close the two tokens were.
    pub(super) fn explain(
        &self,
        context: &mut Prefill,
        stats: &mut Stats,
        ids: &[u32],
    ) -> Result<(), ModelError> {
        let Some(at) = stats.equality.as_ref().and_then(|e| e.first_difference) else { return Ok(()) };
        // A token drawn at random depends on more than two logits.
        if !self.request.method.lossless() || !self.sampler().is_greedy() {
            return Ok(());
        }
        let Some(reference) = &context.reference else { return Ok(()) };
        let (target, tokenizer) = (&self.models.target, self.models.target.tokenizer());
        let difference = Difference {
            root: context.prompt.ids.last().copied().unwrap_or_default(),
            common: &ids[..at],
            plain: reference.ids.get(at).copied(),
            other: ids.get(at).copied(),
            ends: tokenizer.end_ids(),
            vocab: tokenizer.vocabulary(),
        };
        stats.tie =
            difference.measure(&mut context.target, target.place(), &|id| tokenizer.token_text(id))?;
        Ok(())
    }
}
