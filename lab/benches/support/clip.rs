//! Scenes as videos: rendered to mp4, read back like any file, and ready for a model.

use std::path::Path;

use specreel_engine::clip_facts;
use specreel_model::{
    family::ClipFacts,
    processor::{Patches, VideoProcessor},
};
use specreel_scenes::{
    Scene, encode,
    facts::{self, Facts},
};
use specreel_video::{Rule, Sampling, Video};

use super::kept::Problem;

/// Width and height of the file in pixels.
const SIZE: u32 = 224;

/// A clip whose facts are known.
pub struct Clip {
    /// What is true of it.
    pub truth: Facts,
    /// What both towers read.
    pub patches: Patches,
    /// What prompts say of it.
    pub facts: ClipFacts,
}

impl Clip {
    /// The clip of a seed; `dir` takes the file for a moment.
    pub fn render(seed: u64, dir: &Path, processor: &VideoProcessor) -> Result<Self, Problem> {
        let scene = Scene::from_seed(seed);
        let path = dir.join("clip.mp4");
        encode::mp4(&scene, &path, SIZE, SIZE)?;
        let video = Video::open(&path)?;
        let plan = video.plan(None, &Rule::QWEN_VL, Sampling::Auto)?;
        let mut decoded = video.frames(plan, None)?;
        let frames = decoded.by_ref().collect::<Result<Vec<_>, _>>()?;
        let (height, width) = frames.first().map_or((0, 0), |f| (f.height as usize, f.width as usize));
        let mut builder = processor.patches(processor.target_size(height, width, frames.len(), None)?)?;
        for frame in &frames {
            builder.push(&frame.rgb, height, width)?;
        }
        let patches = builder.finish()?;
        let grid = processor.visual_grid(patches.grid)?;
        Ok(Self { truth: facts::of(&scene), patches, facts: clip_facts(grid, &decoded.finish().plan) })
    }
}
