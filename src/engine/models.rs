//! The loaded pair: which checkpoints may work together, on what, in which weights.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use super::thread::{Cancelled, EventSender};
use crate::{
    model::{
        ComputeDevice, ModelSpec, WeightType,
        checkpoint::{CheckpointError, LoadProgress},
        decoder::parts,
        draft_head::{DraftHead, Recipe},
        family::{Family, Rope, VideoLlm},
    },
    record::{EventKind, Failure, FailureClass, Stage},
    video::Rule,
};

/// The loaded models.
pub struct Models {
    /// The target.
    pub target: VideoLlm,
    /// The small model that may draft for it.
    pub drafter: Option<VideoLlm>,
    /// Layers that may draft from the target's states.
    pub heads: Vec<Arc<DraftHead>>,
    /// Device in words.
    pub device: String,
    /// Weight type in words.
    pub dtype: String,
    /// The type that was asked for.
    asked: WeightType,
    /// Positions of a prompt's tokens, as asked.
    pub rope: Rope,
}

/// How a family samples frames.
pub fn frames(family: Family) -> &'static Rule {
    match family {
        Family::Qwen2Vl | Family::Qwen25Vl => &Rule::QWEN_VL,
        Family::LlavaOnevision => &Rule::LLAVA_ONEVISION,
    }
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
        let rope =
            (self.rope == Rope::Sequential && self.target.family() != Family::LlavaOnevision).then(|| {
                "all tokens stand on one axis (--rope sequential), not on the model's own three".to_owned()
            });
        let odd = |model: &VideoLlm| {
            let (held, width) = parts::fallback(model.decoder().config(), self.asked)?;
            let (name, asked, held) = (model.name(), self.asked.name(), held.name());
            let block = self.asked.block();
            Some(format!(
                "{name}: matrices {width} wide are held as {held}, as {block} values of {asked} do not divide them"
            ))
        };
        let odd = [Some(&self.target), self.drafter.as_ref()].into_iter().flatten().filter_map(odd);
        let range = |model: &VideoLlm| model.decoder().config().max_positions;
        let short = self.drafter.as_ref().filter(|drafter| range(drafter) < range(&self.target));
        let short = short.map(|drafter| {
            format!(
                "{} was made for {} positions, {} for {}: on longer prompts its drafts rarely pass; let the drafter see less \
                 (context.keep, with context.positions=compact) or draft with the target (std, lvspec-self)",
                drafter.name(),
                range(drafter),
                self.target.name(),
                range(&self.target)
            )
        });
        penalty.map(note).into_iter().chain(rope).chain(odd).chain(short).collect()
    }

    /// The layer that drafts for a method: the only one, or the one of this recipe.
    pub fn head(&self, recipe: Recipe) -> Option<&Arc<DraftHead>> {
        match &self.heads[..] {
            [only] => Some(only),
            all => all.iter().find(|head| head.config().recipe == recipe),
        }
    }

    /// Load what the spec says, checking that the drafter can draft for the target.
    ///
    /// # Errors
    /// If a device is not there, a checkpoint cannot be used, or the two do not fit together.
    pub fn load(spec: &ModelSpec, sender: &EventSender, cancelled: &Cancelled) -> Result<Self, Failure> {
        // Both before either model is read: a device that is not there is known at once.
        let place = spec.target_place()?;
        let beside = spec.drafter.as_ref().map(|_| spec.drafter_place()).transpose()?;
        let (sender, cancelled) = (sender.clone(), cancelled.clone());
        let progress: LoadProgress = Arc::new(move |done, total| {
            if cancelled.contains(0) {
                return ControlFlow::Break(());
            }
            sender.offer(EventKind::Stage { stage: Stage::Load, done: done as u64, total: total as u64 });
            ControlFlow::Continue(())
        });
        let read = |dir: &Path, place: &ComputeDevice| {
            let checkpoint = VideoLlm::open(dir)?.with_progress(progress.clone());
            VideoLlm::from_checkpoint(&checkpoint, place, &mut |_, _| {})
        };
        let target = read(&spec.target, &place)?.with_rope(spec.rope)?;
        let drafter = spec.drafter.as_deref().zip(beside.as_ref());
        let drafter = drafter.map(|(dir, place)| read(dir, place)).transpose()?;
        if let Some(drafter) = &drafter {
            let refuse = |problem: String| Failure {
                class: FailureClass::Input,
                error: format!("{} cannot draft for {}: {problem}", drafter.name(), target.name()),
                hint: Some("pick a smaller checkpoint of the target's own family".into()),
            };
            if target.family() != drafter.family() {
                let [ours, theirs] = [&target, drafter].map(|model| model.family().name());
                return Err(refuse(format!("the one is a {theirs}, the other a {ours}")));
            }
            target.tokenizer().same_vocabulary(drafter.tokenizer()).map_err(|e| refuse(e.to_string()))?;
            if !target.processor().config().cuts_like(drafter.processor().config()) {
                return Err(refuse("it cuts frames into other patches".into()));
            }
        }
        let (device, dtype) = words(&place, beside.as_ref());
        let head = |dir| DraftHead::load(dir, target.decoder(), &place).map(Arc::new);
        let heads = spec.heads.iter().map(|dir| head(dir).map_err(|e| refused(dir, e)));
        let heads = heads.collect::<Result<_, _>>()?;
        Ok(Self { target, drafter, heads, device, dtype, asked: place.dtype(), rope: spec.rope })
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

/// Device and weight type for people; the drafter's, where they are others.
fn words(target: &ComputeDevice, drafter: Option<&ComputeDevice>) -> (String, String) {
    let with =
        |word: fn(&ComputeDevice) -> &str| match drafter.map(word).filter(|other| *other != word(target)) {
            Some(other) => format!("{}, drafter {other}", word(target)),
            None => word(target).to_owned(),
        };
    (with(ComputeDevice::name), with(|place| place.dtype().name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceChoice, WeightType};

    #[test]
    fn the_drafters_device_is_named_where_it_is_another() {
        let place = |choice| ComputeDevice::open(choice, WeightType::Auto).unwrap();
        let (cpu, tensors) = (place(DeviceChoice::Cpu), place(DeviceChoice::CpuTensors));
        assert_eq!(words(&cpu, Some(&cpu)), ("cpu".into(), "q8_0".into()));
        assert_eq!(words(&cpu, None).0, "cpu");
        let both = words(&tensors, Some(&cpu));
        assert_eq!(both, ("cpu tensors, drafter cpu".into(), "bf16, drafter q8_0".into()));
    }
}
