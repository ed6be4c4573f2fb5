//! Whether a run has the memory it needs, asked before minutes are spent on loading.

use crate::{
    engine::{
        RunRequest,
        memory_check::{self, Video},
    },
    model::ModelSpec,
    record::Failure,
    video,
};

/// Refuse a run that will not fit, unless the user said to ignore that. A video that cannot be read is none of ours: the run
/// itself says so better.
///
/// # Errors
/// Not enough memory (class memory), with what would fit.
pub fn check(models: &ModelSpec, request: &RunRequest, ignore: bool) -> Result<(), Failure> {
    if ignore {
        return Ok(());
    }
    let video = video::probe(&request.video).ok().and_then(|probe| {
        let all = probe.frame_count.get();
        let total =
            request.span.map_or(all, |span| all.min((span.seconds() * probe.fps).ceil().max(1.0) as usize));
        let plan =
            video::sampling::plan(total, probe.fps, memory_check::rule(models), request.sampling).ok()?;
        Some(Video {
            frames: plan.indices.len(),
            size: (probe.height as usize, probe.width as usize),
            max_pixels: request.max_pixels,
            new_tokens: request.max_new_tokens,
        })
    });
    memory_check::check(models, video.as_ref())
}
