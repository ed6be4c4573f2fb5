//! The loaded pair: which checkpoints may work together, on what, in which weights.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use super::thread::{Cancelled, Outlet};
use crate::{
    model::{ModelSpec, WeightType, about, checkpoint::Watch, decoder::parts, family::QwenVl},
    record::{EventKind, Failure, FailureClass, Stage},
};

/// The loaded models.
pub struct Models {
    /// The target.
    pub target: QwenVl,
    /// The small model that may draft for it.
    pub drafter: Option<QwenVl>,
    /// Device in words.
    pub device: String,
    /// Weight type in words.
    pub dtype: String,
    /// The type that was asked for.
    asked: WeightType,
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
        let odd = |model: &QwenVl| {
            let (held, width) = parts::fallback(model.decoder().config(), self.asked)?;
            let (name, asked, held) = (model.name(), self.asked.name(), held.name());
            let block = self.asked.block();
            Some(format!(
                "{name}: matrices {width} wide are held as {held}, as {block} values of {asked} do not divide them"
            ))
        };
        let odd = [Some(&self.target), self.drafter.as_ref()].into_iter().flatten().filter_map(odd);
        penalty.map(note).into_iter().chain(odd).collect()
    }

    /// Load what the spec says, checking that the drafter can draft for the target.
    ///
    /// # Errors
    /// If a device is not there, a checkpoint cannot be used, or the two do not fit together.
    pub fn load(spec: &ModelSpec, outlet: &Outlet, cancelled: &Cancelled) -> Result<Self, Failure> {
        let (dtype, words) = spec.weights()?;
        let (outlet, cancelled) = (outlet.clone(), cancelled.clone());
        let watch: Watch = Arc::new(move |done, total| {
            if cancelled.contains(0) {
                return ControlFlow::Break(());
            }
            outlet.offer(EventKind::Stage { stage: Stage::Load, done: done as u64, total: total as u64 });
            ControlFlow::Continue(())
        });
        let read = |dir: &Path| {
            let checkpoint = QwenVl::open(dir)?.watched(watch.clone());
            QwenVl::from_checkpoint(&checkpoint, dtype, &mut |_, _| {})
        };
        let target = read(&spec.target)?;
        let drafter = spec.drafter.as_deref().map(read).transpose()?;
        if let Some(drafter) = &drafter {
            let refuse = |problem: String| Failure {
                class: FailureClass::Input,
                error: format!("{} cannot draft for {}: {problem}", drafter.name(), target.name()),
                hint: Some("pick a smaller checkpoint of the target's own family".into()),
            };
            target.tokenizer().same_vocabulary(drafter.tokenizer()).map_err(|e| refuse(e.to_string()))?;
            if !about::same_patches(target.processor().config(), drafter.processor().config()) {
                return Err(refuse("it cuts frames into other patches".into()));
            }
        }
        Ok(Self { target, drafter, device: "cpu".into(), dtype: words.into(), asked: dtype })
    }
}
