//! The target's own layer for multi-token prediction: loaded by the first method that drafts with it, and kept with the models.

use std::sync::{Arc, OnceLock};

use crate::events::Stop;
use specreel_checkpoint::LoadProgress;
use specreel_model::{
    ModelSpec,
    draft_head::{DraftHead, Recipe, mtp},
    family::VideoLlm,
};
use specreel_record::{Failure, FailureClass};
use specreel_speculate::Drafter;

pub(crate) struct MtpLayer {
    spec: ModelSpec,
    /// The target's checkpoint has one.
    exists: bool,
    loaded: OnceLock<Arc<DraftHead>>,
}

impl MtpLayer {
    /// It is not loaded yet; `exists` says whether the target has one.
    pub fn new(spec: &ModelSpec, exists: bool) -> Self {
        Self { spec: spec.clone(), exists, loaded: OnceLock::new() }
    }

    /// True if the target has one.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The layer, once it is loaded.
    pub fn get(&self) -> Option<&Arc<DraftHead>> {
        self.loaded.get()
    }

    /// Load the layer of `target` if this drafter is it and it is not loaded.
    pub(crate) fn load(
        &self,
        target: &VideoLlm,
        drafter: &Drafter,
        progress: impl FnOnce() -> LoadProgress,
    ) -> Result<(), Stop> {
        if *drafter != (Drafter::Head { recipe: Recipe::Mtp }) || self.get().is_some() {
            return Ok(());
        }
        let checkpoint =
            self.spec.target_files().map_err(Failure::from)?.checkpoint().map_err(Failure::from)?;
        if !mtp::is_in(&checkpoint) {
            let error = format!("{} has no layer for multi-token prediction any more", target.name());
            let hint = Some("load the models again".to_owned());
            return Err(Failure { class: FailureClass::Input, error, hint }.into());
        }
        let checkpoint = checkpoint.with_progress(progress());
        match DraftHead::own(checkpoint, target.decoder(), target.name()) {
            Ok(head) => {
                self.loaded.get_or_init(|| Arc::new(head));
                Ok(())
            }
            Err(specreel_tensor::CheckpointError::Stopped) => Err(Stop::Cancelled),
            Err(error) => Err(Failure::from(error).into()),
        }
    }
}
