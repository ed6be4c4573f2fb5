//! How models sample a clip, and what their prompts say of it.

use specreel_model::{
    family::{ClipFacts, Family},
    processor::{ProcessorConfig, VisualGrid},
};
use specreel_video::{Plan, Rule};

/// What prompts say of a clip whose frames `plan` samples.
pub fn clip_facts(grid: VisualGrid, plan: &Plan) -> ClipFacts {
    ClipFacts {
        grid,
        sample_fps: plan.sample_fps,
        timestamps_s: plan.seconds.clone(),
        duration_s: plan.duration_s,
    }
}

/// How a model of this family with this frame processor samples frames.
pub fn frames(family: &Family, processor: &ProcessorConfig) -> Rule {
    let own = processor.sampling.unwrap_or_default();
    family.sampling.with(own.fps, own.min_frames, own.max_frames)
}
