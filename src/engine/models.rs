//! The loaded pair: which checkpoints may work together, on what, in which weights.

use std::{path::Path, sync::Arc};

use super::thread::Outlet;
use crate::{
    model::{
        ModelSpec,
        checkpoint::CheckpointError,
        family::QwenVl,
        sparrow::{Recipe, Sparrow},
    },
    record::{EventKind, Failure, FailureClass, Stage},
};

/// The loaded models.
pub struct Models {
    /// The target.
    pub target: QwenVl,
    /// The small model that may draft for it.
    pub drafter: Option<QwenVl>,
    /// Layers that may draft from the target's states.
    pub heads: Vec<Arc<Sparrow>>,
    /// Device in words.
    pub device: String,
    /// Weight type in words.
    pub dtype: String,
}

impl Models {
    /// What people should know about how these checkpoints are used.
    pub fn notes(&self) -> Vec<String> {
        // Methods are compared on the models' own distributions; see docs/methods.md.
        let penalty = self.target.tokenizer().repetition_penalty().filter(|penalty| *penalty != 1.0);
        let note = |penalty| {
            format!(
                "{}'s generation_config.json asks for a repetition penalty of {penalty}; it is off under every method",
                self.target.name()
            )
        };
        penalty.map(note).into_iter().collect()
    }

    /// The layer that drafts for a method: the only one, or the one of this recipe.
    pub fn head(&self, recipe: Recipe) -> Option<&Arc<Sparrow>> {
        match &self.heads[..] {
            [only] => Some(only),
            all => all.iter().find(|head| head.config().recipe == recipe),
        }
    }

    /// Load what the spec says, checking that the drafter can draft for the target.
    ///
    /// # Errors
    /// If a device is not there, a checkpoint cannot be used, or the two do not fit together.
    pub fn load(spec: &ModelSpec, outlet: &Outlet) -> Result<Self, Failure> {
        let (dtype, words) = spec.weights()?;
        let mut progress = |done: usize, total: usize| {
            outlet.offer(EventKind::Stage { stage: Stage::Load, done: done as u64, total: total as u64 });
        };
        let target = QwenVl::load(&spec.target, dtype, &mut progress)?;
        let drafter =
            spec.drafter.as_deref().map(|dir| QwenVl::load(dir, dtype, &mut progress)).transpose()?;
        if let Some(drafter) = &drafter {
            let refuse = |problem: String| Failure {
                class: FailureClass::Input,
                error: format!("{} cannot draft for {}: {problem}", drafter.name(), target.name()),
                hint: Some("pick a smaller checkpoint of the target's own family".into()),
            };
            target.tokenizer().same_vocabulary(drafter.tokenizer()).map_err(|e| refuse(e.to_string()))?;
            let (ours, theirs) = (target.processor().config(), drafter.processor().config());
            let shape =
                |c: &crate::model::processor::ProcessorConfig| (c.patch, c.temporal, c.merge, c.mean, c.std);
            if shape(ours) != shape(theirs) {
                return Err(refuse("it cuts frames into other patches".into()));
            }
        }
        let head = |dir| Sparrow::load(dir, target.decoder(), dtype).map(Arc::new);
        let heads = spec.heads.iter().map(|dir| head(dir).map_err(|e| refused(dir, e)));
        let heads = heads.collect::<Result<_, _>>()?;
        Ok(Self { target, drafter, heads, device: "cpu".into(), dtype: words.into() })
    }
}

/// Why a layer does not draft here.
fn refused(dir: &Path, error: CheckpointError) -> Failure {
    let failure = Failure::from(error);
    let again =
        "a layer drafts for the target it was trained with; train one: specreel train sparrow --target DIR";
    Failure {
        error: format!("drafter {}: {}", dir.display(), failure.error),
        hint: Some(again.into()),
        ..failure
    }
}
