//! Decoding the sampled frames of a video into patches.

use std::{ops::ControlFlow, time::Instant};

use crate::{
    cache::{Clip, ClipKey, ContextKey, PrefixCache},
    events::{Stop, since},
    models::sampling,
    planner::Layout,
    stages::Runner,
};
use specreel_model::processor::{
    FrameLimits, FramePlan, FrameSize, PatchBuilder, ProcessorError, VideoProcessor,
};
use specreel_record::{Stage, Stats};
use specreel_video::{Footage, Plan, Probe, Sampling};

/// Sees the size of the frames, the plan of sampling, and the effect of a limit of visual tokens, before anything
/// is decoded.
type Begin<'b> = dyn FnMut(FrameSize, &Plan, Option<&String>) -> Result<(), Stop> + 'b;

impl Runner<'_> {
    /// What identifies the clip: the file as it is now, and how it is sampled.
    pub(crate) fn clip_key(&self) -> ClipKey {
        let path = &self.request.video;
        // A stream has no file, or one that grows meanwhile; its parts differ by their times.
        let metadata = if self.request.held.is_some() { None } else { std::fs::metadata(path).ok() };
        ClipKey {
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            bytes: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            modified: metadata.and_then(|m| m.modified().ok()),
            span: self.request.span,
            sampling: self.request.sampling,
            max_pixels: self.request.max_pixels,
            max_visual_tokens: self.request.max_visual_tokens,
        }
    }

    /// Decode the clip unless it is kept. Between opening the file and decoding the first frame, the run is checked against the
    /// context window and the memory, and its estimate is reported.
    pub(crate) fn ensure_clip(
        &self,
        cache: &mut PrefixCache,
        context: &ContextKey,
        stats: &mut Stats,
    ) -> Result<(), Stop> {
        let key = &context.0;
        if let Some(clip) = cache.clips.touch(key) {
            let prompt = self.lay_out(&clip.facts)?;
            let (patches, grid) = (clip.patches.grid, clip.facts.grid);
            let work = self.work(prompt.ids.len(), patches, grid, clip.timestamps_s.len());
            let layout = Layout::new(&prompt, patches, grid, work);
            let notes = clip.thinned.iter().cloned().collect();
            return self.announce(cache, context, &Layout { notes, ..layout });
        }
        let clip = self.read_clip(&mut |size, plan, note| {
            let layout = self.check_video(cache, key, size, plan)?;
            let notes = note.into_iter().cloned().collect();
            self.announce(cache, context, &Layout { notes, ..layout })
        })?;
        stats.timings.decode_video_ms = clip.decode_ms;
        cache.clips.insert(key.clone(), clip);
        Ok(())
    }

    /// Decode the clip. `begin` may refuse it as soon as the size of its frames, which frames are sampled, and what a limit of
    /// visual tokens changed are known.
    pub(crate) fn read_clip(&self, begin: &mut Begin<'_>) -> Result<Clip, Stop> {
        let started = Instant::now();
        let (request, processor) = (self.request, self.models.target.processor());
        let rule = self.models.target.family().rule(processor.config());
        let video = Footage::open(&request.video, request.held.as_ref())?;
        let mut plan = video.plan(request.span, &rule, request.sampling)?;
        let (planned, thinned) = self.frame_plan(video.probe(), plan.indices.len())?;
        if planned.frames < plan.indices.len() {
            plan = video.plan(request.span, &rule, Sampling::Frames(planned.frames.max(1)))?;
        }
        begin(planned.size, &plan, thinned.as_ref())?;
        let count = plan.indices.len();
        let mut own = processor.patches(planned.size)?;
        let mut recut = self.recut(video.probe(), count)?;
        let proceed = |done: usize| match self.progress(Stage::Decode, done, count) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Cancelled),
        };
        proceed(0)?;
        let mut frames = video.frames(plan)?;
        for frame in &mut frames {
            let frame = frame?;
            let (height, width) = (frame.height as usize, frame.width as usize);
            for builder in recut.iter_mut().chain([&mut own]) {
                builder.push(&frame.rgb, height, width)?;
            }
            proceed(own.frames())?;
        }
        let decoded = frames.finish();
        let cut = |processor: &VideoProcessor, builder: PatchBuilder| -> Result<_, ProcessorError> {
            let patches = builder.finish()?;
            Ok((sampling::clip_facts(processor.visual_grid(patches.grid)?, &decoded.plan), patches))
        };
        let (facts, patches) = cut(processor, own)?;
        let recut = self.models.drafter.as_ref().zip(recut);
        let recut = recut.map(|(drafter, builder)| cut(drafter.processor(), builder)).transpose()?;
        Ok(Clip {
            notes: decoded.notes(),
            thinned,
            facts,
            timestamps_s: decoded.plan.timestamps_s,
            patches,
            recut,
            decode_ms: since(started),
            target: None,
            drafter: None,
        })
    }

    /// A builder of the drafter's own patches, if it cuts frames into others than the target.
    fn recut(&self, probe: &Probe, frames: usize) -> Result<Option<PatchBuilder>, ProcessorError> {
        let Some(drafter) = &self.models.drafter else { return Ok(None) };
        let processor = drafter.processor();
        if processor.config().cuts_like(self.models.target.processor().config()) {
            return Ok(None);
        }
        let (height, width) = (probe.height as usize, probe.width as usize);
        processor.patches(processor.target_size(height, width, frames, self.request.max_pixels)?).map(Some)
    }

    /// How many of `frames` sampled frames the limits of the request leave, and how large; and a note if a limit of visual tokens
    /// changes that.
    fn frame_plan(
        &self,
        probe: &Probe,
        frames: usize,
    ) -> Result<(FramePlan, Option<String>), ProcessorError> {
        let (processor, limits) = (self.models.target.processor(), self.request.limits());
        let size = FrameSize::new(probe.height as usize, probe.width as usize);
        let natural = processor.plan(size, frames, FrameLimits { tokens: None, ..limits })?;
        let plan = processor.plan(size, frames, limits)?;
        let note = plan.thinned_from(&natural).map(|note| format!("--max-visual-tokens: {note}"));
        Ok((plan, note))
    }
}
