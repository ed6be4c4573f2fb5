//! What prompts say of a sampled clip.

use specreel_model::{family::ClipFacts, processor::VisualGrid};
use specreel_video::Plan;

/// What prompts say of a clip whose frames `plan` samples.
pub fn clip_facts(grid: VisualGrid, plan: &Plan) -> ClipFacts {
    ClipFacts {
        grid,
        sample_fps: plan.sample_fps,
        timestamps_s: plan.seconds.clone(),
        duration_s: plan.duration_s,
    }
}
