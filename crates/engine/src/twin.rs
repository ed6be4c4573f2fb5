//! The target in fewer bits, which drafts for it: loaded by the first method that asks for it, and kept with the models.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    models::Models,
    run::{Runner, Stop},
};
use specreel_checkpoint::Checkpoint;
use specreel_model::{ModelSpec, decoder::Decoder, family::VideoLlm};
use specreel_record::{Failure, FailureClass, units::bytes};
use specreel_speculate::Drafter;
use specreel_tensor::WeightType;

/// Twins of the target, by their weight type, and what loads them.
pub struct Twins {
    spec: ModelSpec,
    loaded: Mutex<Vec<(WeightType, Arc<Decoder>)>>,
}

impl Twins {
    /// None are loaded yet.
    pub fn new(spec: &ModelSpec) -> Self {
        Self { spec: spec.clone(), loaded: Mutex::default() }
    }

    fn find(&self, dtype: WeightType) -> Option<Arc<Decoder>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().find(|(other, _)| *other == dtype).map(|(_, twin)| twin.clone())
    }

    fn open(&self) -> Result<Checkpoint, Failure> {
        Ok(VideoLlm::open(&self.spec.target_files()?)?.with_weight_cache(self.spec.weight_cache.clone()))
    }
}

impl Models {
    /// Refuse a twin that would not be smaller than the target.
    fn check_twin(&self, checkpoint: &Checkpoint, dtype: WeightType) -> Result<u64, Failure> {
        let refuse = |problem: String, hint: &str| Failure {
            class: FailureClass::Input,
            error: format!("{} in {} cannot draft for itself: {problem}", self.target.name(), dtype.name()),
            hint: Some(hint.into()),
        };
        if checkpoint.files().gguf().is_some() {
            let problem = "a GGUF file keeps its types".to_owned();
            return Err(refuse(problem, "load the checkpoint in Hugging Face layout, or omit drafter.dtype"));
        }
        let own = self.target.device().dtype();
        let [needed, now] = [dtype, own].map(|dtype| self.target.bytes_in(checkpoint, dtype));
        if needed < now {
            return Ok(needed);
        }
        let problem =
            format!("it needs {} and is not smaller than the target in {}", bytes(needed), own.name());
        Err(refuse(
            problem,
            "pick a smaller type for drafter.dtype, or load the target in a larger one with --dtype",
        ))
    }
}

impl Runner<'_> {
    /// The twin that drafts in this method, if one does; loaded now if it is the first time.
    ///
    /// # Errors
    /// It is not smaller than the target, does not fit into memory, or cannot be read; [`Stop::Cancelled`].
    pub(super) fn twin(&self) -> Result<Option<Arc<Decoder>>, Stop> {
        let Drafter::Target { dtype } = self.request.method.drafter else { return Ok(None) };
        let Some(dtype) = dtype.weights() else { return Ok(None) };
        let twins = &self.models.twins;
        if let Some(twin) = twins.find(dtype) {
            return Ok(Some(twin));
        }
        let checkpoint = twins.open()?;
        let needed = self.models.check_twin(&checkpoint, dtype)?;
        let fits = self.models.footprint.as_ref().is_none_or(|footprint| footprint.check_available(needed));
        if !fits && !self.ignore_memory {
            let error = format!(
                "{} in {} needs {} beside the target, which are not available",
                self.models.target.name(),
                dtype.name(),
                bytes(needed)
            );
            let hint = "use a smaller type, another drafter, or --ignore-memory".to_owned();
            return Err(Failure { class: FailureClass::Memory, error, hint: Some(hint) }.into());
        }
        let checkpoint = checkpoint.with_progress(self.load_progress());
        let twin = match self.models.target.self_draft(&checkpoint, dtype) {
            Ok(twin) => Arc::new(twin),
            Err(_) if checkpoint.stopped() => return Err(Stop::Cancelled),
            Err(error) => return Err(error.into()),
        };
        twins.loaded.lock().unwrap_or_else(PoisonError::into_inner).push((dtype, twin.clone()));
        Ok(Some(twin))
    }
}
