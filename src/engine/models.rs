//! The loaded pair: which checkpoints may work together, on what, in which weights.

use super::thread::Outlet;
use crate::{
    model::{
        ModelSpec,
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
    /// Device in words.
    pub device: String,
    /// Weight type in words.
    pub dtype: String,
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
        penalty.map(note).into_iter().chain(rope).collect()
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
        let target = VideoLlm::load(&spec.target, dtype, &mut progress)?.with_rope(spec.rope)?;
        let drafter =
            spec.drafter.as_deref().map(|dir| VideoLlm::load(dir, dtype, &mut progress)).transpose()?;
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
        Ok(Self { target, drafter, device: "cpu".into(), dtype: words.into(), rope: spec.rope })
    }
}
