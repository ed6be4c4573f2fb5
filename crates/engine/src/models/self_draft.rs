//! The quantized self-drafter, which is the target in fewer bits: loaded by the first method that asks for it, and kept with the models.

use std::sync::{Arc, Mutex, PoisonError};

use crate::events::Stop;
use specreel_checkpoint::{Checkpoint, LoadProgress};
use specreel_model::{ModelSpec, decoder::Decoder, family::VideoLlm};
use specreel_record::{Failure, FailureClass, units::bytes};
use specreel_speculate::Drafter;
use specreel_tensor::WeightType;

/// Copies of the target in other weight types, which draft for it; loaded on first use.
pub(crate) struct SelfDrafters {
    spec: ModelSpec,
    loaded: Mutex<Vec<(WeightType, Arc<Decoder>)>>,
}

impl SelfDrafters {
    /// None are loaded yet.
    pub fn new(spec: &ModelSpec) -> Self {
        Self { spec: spec.clone(), loaded: Mutex::default() }
    }

    fn find(&self, dtype: WeightType) -> Option<Arc<Decoder>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().find(|(other, _)| *other == dtype).map(|(_, drafter)| drafter.clone())
    }

    /// The quantized `target` that this drafter is, if it is one; loaded now if it is the first time. `fits` says whether the
    /// memory has so many bytes. Fails if it is not smaller than the target, does not fit into memory, or cannot be read;
    /// [`Stop::Cancelled`].
    pub(crate) fn of(
        &self,
        target: &VideoLlm,
        drafter: &Drafter,
        fits: impl FnOnce(u64) -> bool,
        progress: impl FnOnce() -> LoadProgress,
    ) -> Result<Option<Arc<Decoder>>, Stop> {
        let Drafter::Target { dtype } = drafter else { return Ok(None) };
        let Some(dtype) = dtype.weights() else { return Ok(None) };
        if let Some(loaded) = self.find(dtype) {
            return Ok(Some(loaded));
        }
        let checkpoint = VideoLlm::open(&self.spec.target_files().map_err(Failure::from)?)?.requantized();
        let needed = check(target, &checkpoint, dtype)?;
        if !fits(needed) {
            let error = format!(
                "{} in {} needs {} in addition to the target, which are not available",
                target.name(),
                dtype.name(),
                bytes(needed)
            );
            let hint = "use a smaller type, another drafter, or --ignore-memory".to_owned();
            return Err(Failure { class: FailureClass::Memory, error, hint: Some(hint) }.into());
        }
        let checkpoint =
            checkpoint.with_weight_cache(self.spec.weight_cache.clone()).with_progress(progress());
        let quantized = match target.self_draft(&checkpoint, dtype) {
            Ok(quantized) => Arc::new(quantized),
            Err(_) if checkpoint.stopped() => return Err(Stop::Cancelled),
            Err(error) => return Err(error.into()),
        };
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).push((dtype, quantized.clone()));
        Ok(Some(quantized))
    }
}

/// Rows that reach every expert.
const ALL_EXPERTS: usize = 1 << 20;

/// The bytes that the target quantized to this type needs. Refuses one that would not be smaller than the target.
fn check(target: &VideoLlm, checkpoint: &Checkpoint, dtype: WeightType) -> Result<u64, Failure> {
    let refuse = |problem: String, hint: &str| Failure {
        class: FailureClass::Input,
        error: format!("{} in {} cannot draft for itself: {problem}", target.name(), dtype.name()),
        hint: Some(hint.into()),
    };
    let own = target.device().dtype();
    // Embeddings are looked up: what drafting reads are the matrices.
    let needed = target.matrix_bytes_in(dtype);
    let (own, now) = match checkpoint.files().gguf() {
        Some(model) => (model.main_type().name(), target.decoder().pass_bytes(ALL_EXPERTS) as u64),
        None => (own.name(), target.matrix_bytes_in(own)),
    };
    if needed < now {
        return Ok(target.bytes_in(checkpoint, dtype));
    }
    let problem = format!("it needs {} and is not smaller than the target in {own}", bytes(needed));
    Err(refuse(
        problem,
        "pick a smaller type for drafter.dtype, or load the target in a larger one with --dtype",
    ))
}
