//! The loaded pair: which checkpoints may work together, on what, in which weights.

use super::thread::Outlet;
use crate::{
    model::{ModelSpec, Place, family::QwenVl},
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

    /// Load what the spec says, checking that the drafter can draft for the target.
    ///
    /// # Errors
    /// If a device is not there, a checkpoint cannot be used, or the two do not fit together.
    pub fn load(spec: &ModelSpec, outlet: &Outlet) -> Result<Self, Failure> {
        // Both before either model is read: a device that is not there is known at once.
        let place = spec.target_place()?;
        let beside = spec.drafter.as_ref().map(|_| spec.drafter_place()).transpose()?;
        let mut progress = |done: usize, total: usize| {
            outlet.offer(EventKind::Stage { stage: Stage::Load, done: done as u64, total: total as u64 });
        };
        let target = QwenVl::load_on(&spec.target, &place, &mut progress)?;
        let drafter = spec.drafter.as_deref().zip(beside.as_ref());
        let drafter = drafter.map(|(dir, place)| QwenVl::load_on(dir, place, &mut progress)).transpose()?;
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
        let (device, dtype) = words(&place, beside.as_ref());
        Ok(Self { target, drafter, device, dtype })
    }
}

/// Device and weight type for people; the drafter's, where they are others.
fn words(target: &Place, drafter: Option<&Place>) -> (String, String) {
    let with = |word: fn(&Place) -> &str| match drafter.map(word).filter(|other| *other != word(target)) {
        Some(other) => format!("{}, drafter {other}", word(target)),
        None => word(target).to_owned(),
    };
    (with(Place::name), with(|place| place.dtype().name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceChoice, WeightType};

    #[test]
    fn the_drafters_device_is_named_where_it_is_another() {
        let place = |choice| Place::open(choice, WeightType::Auto).unwrap();
        let (cpu, tensors) = (place(DeviceChoice::Cpu), place(DeviceChoice::CpuTensors));
        assert_eq!(words(&cpu, Some(&cpu)), ("cpu".into(), "q8_0".into()));
        assert_eq!(words(&cpu, None).0, "cpu");
        let both = words(&tensors, Some(&cpu));
        assert_eq!(both, ("cpu tensors, drafter cpu".into(), "bf16, drafter q8_0".into()));
    }
}
