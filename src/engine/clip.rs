//! Decoding the sampled frames of a video into patches.

use std::{ops::ControlFlow, time::Instant};

use super::{
    models,
    prefix_cache::{Clip, ClipKey, PrefixCache},
    run::{Runner, Stop, since},
};
use crate::{
    model::processor::PatchBuilder,
    record::{Stage, Stats},
    video,
};

impl Runner<'_> {
    /// What identifies the clip: the file as it is now, and how it is sampled.
    pub(super) fn clip_key(&self) -> ClipKey {
        let path = &self.request.video;
        let metadata = std::fs::metadata(path).ok();
        ClipKey {
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            bytes: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            modified: metadata.and_then(|m| m.modified().ok()),
            span: self.request.span,
            sampling: self.request.sampling,
            max_pixels: self.request.max_pixels,
        }
    }

    /// Decode the clip unless it is kept. Between opening the file and decoding the first frame, the run is checked against the
    /// context window and the memory.
    pub(super) fn ensure_clip(
        &self,
        cache: &mut PrefixCache,
        key: &ClipKey,
        stats: &mut Stats,
    ) -> Result<(), Stop> {
        if cache.clips.touch(key).is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let processor = self.models.target.processor();
        // Both callbacks fill these; they never run at the same time.
        let state = std::cell::RefCell::new((None::<PatchBuilder>, None::<Stop>, 0));
        let fail = |stop: Stop| {
            state.borrow_mut().1 = Some(stop);
            ControlFlow::Break(())
        };
        let decoded = video::decode_part(
            &self.request.video,
            self.request.span,
            models::frames(self.models.target.family()),
            self.request.sampling,
            &mut |probe, plan| {
                let (height, width, frames) =
                    (probe.height as usize, probe.width as usize, plan.indices.len());
                let size = processor.target_size(height, width, frames, self.request.max_pixels);
                let begin = || -> Result<PatchBuilder, Stop> {
                    let size = size?;
                    self.check_video(cache, key, size, frames, plan.sample_fps)?;
                    Ok(processor.patches(size)?)
                };
                match begin() {
                    Ok(builder) => *state.borrow_mut() = (Some(builder), None, frames),
                    Err(stop) => return fail(stop),
                }
                self.progress(Stage::Decode, 0, frames)
            },
            &mut |frame| {
                let pushed = match &mut *state.borrow_mut() {
                    (Some(builder), _, total) => builder
                        .push(&frame.rgb, frame.height as usize, frame.width as usize)
                        .map(|()| (builder.frames(), *total)),
                    _ => return ControlFlow::Break(()),
                };
                match pushed {
                    Ok((done, total)) => self.progress(Stage::Decode, done, total),
                    Err(error) => fail(error.into()),
                }
            },
        )?;
        let (builder, stop, _) = state.into_inner();
        if let Some(stop) = stop {
            return Err(stop);
        }
        let (Some(builder), false) = (builder, decoded.cancelled) else { return Err(Stop::Cancelled) };
        let patches = builder.finish()?;
        let grid = processor.visual_grid(patches.grid)?;
        let decode_ms = since(started);
        stats.timings.decode_video_ms = decode_ms;
        cache.clips.insert(
            key.clone(),
            Clip {
                notes: decoded.notes(),
                timestamps_s: decoded.plan.timestamps_s,
                sample_fps: decoded.plan.sample_fps,
                patches,
                grid,
                decode_ms,
                target: None,
                drafter: None,
            },
        );
        Ok(())
    }
}
