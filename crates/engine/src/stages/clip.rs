//! Decoding the sampled frames of a video into patches.

use std::{cell::Cell, ops::ControlFlow, time::Instant};

use crate::{
    cache::{Clip, ClipKey, ContextKey, PrefixCache},
    events::{Stop, since},
    models::sampling,
    stages::Runner,
    timing::Layout,
};
use specreel_model::processor::{FrameLimits, FramePlan, PatchBuilder, ProcessorError};
use specreel_record::{Stage, Stats};
use specreel_video::{self as video, Plan, Probe};

/// Sees the size of the frames (height, width), the plan of sampling, and what a limit of visual tokens changed, before anything
/// is decoded.
type Begin<'b> = dyn FnMut((usize, usize), &Plan, Option<&String>) -> Result<(), Stop> + 'b;

/// The patches of target and drafter, in progress.
struct Builders {
    own: PatchBuilder,
    /// The drafter's, if it cuts frames into others.
    recut: Option<PatchBuilder>,
}

impl Builders {
    fn push(&mut self, rgb: &[u8], height: usize, width: usize) -> Result<(), ProcessorError> {
        if let Some(recut) = &mut self.recut {
            recut.push(rgb, height, width)?;
        }
        self.own.push(rgb, height, width)
    }
}

impl Runner<'_> {
    /// What identifies the clip: the file as it is now, and how it is sampled.
    pub(crate) fn clip_key(&self) -> ClipKey {
        let path = &self.request.video;
        let metadata = std::fs::metadata(path).ok();
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
    /// context window and the memory, and what it takes is reported.
    pub(crate) fn ensure_clip(
        &self,
        cache: &mut PrefixCache,
        context: &ContextKey,
        stats: &mut Stats,
    ) -> Result<(), Stop> {
        let key = &context.0;
        if let Some(clip) = cache.clips.touch(key) {
            let prompt = self.lay_out(&clip.facts)?;
            let frames = clip.timestamps_s.len();
            let layout = Layout::new(&prompt, clip.patches.grid, clip.facts.grid, clip.sample(), frames);
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
        let processor = self.models.target.processor();
        // Both callbacks fill these; they never run at the same time.
        let mut thinned = None;
        let state = std::cell::RefCell::new((None::<Builders>, None::<Stop>, 0));
        let fail = |stop: Stop| {
            state.borrow_mut().1 = Some(stop);
            ControlFlow::Break(())
        };
        let sampled = Cell::new(0);
        let decoded = video::decode_part(
            &self.request.video,
            self.request.span,
            (&sampling::frames(self.models.target.family(), processor.config()), self.request.sampling),
            &|probe, frames| {
                sampled.set(frames);
                // What cannot be planned is refused below.
                self.frame_plan(probe, frames).map_or(frames, |(plan, _)| plan.frames)
            },
            &mut |probe, plan| {
                let frames = plan.indices.len();
                let mut build = || -> Result<Builders, Stop> {
                    let (planned, note) = self.frame_plan(probe, sampled.get())?;
                    thinned = note;
                    begin(planned.size, plan, thinned.as_ref())?;
                    Ok(Builders { own: processor.patches(planned.size)?, recut: self.recut(probe, frames)? })
                };
                match build() {
                    Ok(builders) => *state.borrow_mut() = (Some(builders), None, frames),
                    Err(stop) => return fail(stop),
                }
                self.progress(Stage::Decode, 0, frames)
            },
            &mut |frame| {
                let pushed = match &mut *state.borrow_mut() {
                    (Some(builders), _, total) => builders
                        .push(&frame.rgb, frame.height as usize, frame.width as usize)
                        .map(|()| (builders.own.frames(), *total)),
                    _ => return ControlFlow::Break(()),
                };
                match pushed {
                    Ok((done, total)) => self.progress(Stage::Decode, done, total),
                    Err(error) => fail(error.into()),
                }
            },
        )?;
        let (builders, stop, _) = state.into_inner();
        if let Some(stop) = stop {
            return Err(stop);
        }
        let (Some(builders), false) = (builders, decoded.cancelled) else { return Err(Stop::Cancelled) };
        let patches = builders.own.finish()?;
        let grid = processor.visual_grid(patches.grid)?;
        let recut = match (&self.models.drafter, builders.recut) {
            (Some(drafter), Some(builder)) => {
                let patches = builder.finish()?;
                let grid = drafter.processor().visual_grid(patches.grid)?;
                Some((sampling::clip_facts(grid, &decoded.plan), patches))
            }
            _ => None,
        };
        Ok(Clip {
            notes: decoded.notes(),
            thinned,
            facts: sampling::clip_facts(grid, &decoded.plan),
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
        let size = (probe.height as usize, probe.width as usize);
        let size = processor.target_size(size.0, size.1, frames, self.request.max_pixels)?;
        processor.patches(size).map(Some)
    }

    /// How many of `frames` sampled frames the limits of the request leave, and how large; and a note if a limit of visual tokens
    /// changes that.
    fn frame_plan(
        &self,
        probe: &Probe,
        frames: usize,
    ) -> Result<(FramePlan, Option<String>), ProcessorError> {
        let (processor, limits) = (self.models.target.processor(), self.request.limits());
        let size = (probe.height as usize, probe.width as usize);
        let natural = processor.plan(size, frames, FrameLimits { tokens: None, ..limits })?;
        let plan = processor.plan(size, frames, limits)?;
        let note = plan.thinned_from(&natural).map(|note| format!("--max-visual-tokens: {note}"));
        Ok((plan, note))
    }
}
