//! Frames under a limit of visual tokens: smaller ones first, fewer ones where the smallest size does not suffice.

use super::{FrameSize, PixelScope, ProcessorError, VideoProcessor};

/// Limits on the sampled frames of a video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum pixels per frame; `None` = the checkpoint's own limit.
    pub pixels: Option<usize>,
    /// Maximum visual tokens of the video; `None` = no limit.
    pub tokens: Option<usize>,
}

/// How many frames of a video are sampled, their size, and the visual tokens that they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlan {
    pub frames: usize,
    /// Resized.
    pub size: FrameSize,
    /// Visual tokens.
    pub tokens: usize,
}

impl VideoProcessor {
    /// The frames of a video of frames of this size, of which `frames` are sampled without a limit of tokens.
    ///
    /// The limit first lowers the maximum pixels per frame, as far as the checkpoint's minimum. Where that is not enough, the
    /// number of frames is lowered to a multiple of the frames in a temporal grid. Of all plans within the limit it is the one
    /// with the most frames, and among those the one with the largest frames. [`ProcessorError::Tokens`] if not even one temporal
    /// grid of the smallest frames is within the limit.
    pub fn plan(
        &self,
        size: FrameSize,
        frames: usize,
        limits: FrameLimits,
    ) -> Result<FramePlan, ProcessorError> {
        let natural =
            self.planned(frames, self.target_size(size.height, size.width, frames, limits.pixels)?)?;
        let Some(limit) = limits.tokens.filter(|limit| natural.tokens > *limit) else { return Ok(natural) };
        let temporal = self.config.temporal;
        // The size under a maximum of pixels, counted as the bounds are. It never shrinks when the maximum grows.
        let sized = |frames: usize, pixels: f64| match self.config.fixed {
            Some(_) => self.planned(frames, natural.size),
            None => {
                let minimum = self.bounds(frames, limits.pixels).0;
                self.planned(frames, self.sized(size, frames, minimum, pixels)?)
            }
        };
        let least_pixels = |frames: usize| {
            let (minimum, maximum) = self.bounds(frames, limits.pixels);
            let cells = match self.config.scope {
                PixelScope::Frame | PixelScope::Scaled | PixelScope::Filled => 1,
                PixelScope::Video { .. } => frames.max(temporal),
            };
            minimum.max(cells * self.config.factor().pow(2)).min(maximum as usize)
        };
        let grids = frames.div_ceil(temporal);
        let fewer = (1..grids).rev().map(|grids| grids * temporal);
        let mut least: Option<FramePlan> = None;
        let mut frames_left = None;
        for frames in std::iter::once(frames).chain(fewer) {
            let smallest = sized(frames, least_pixels(frames) as f64)?;
            if smallest.tokens <= limit {
                frames_left = Some(frames);
                break;
            }
            if least.is_none_or(|least| smallest.tokens <= least.tokens) {
                least = Some(smallest);
            }
        }
        let Some(frames) = frames_left else {
            let FramePlan { frames, size: FrameSize { height, width }, tokens: least } =
                least.unwrap_or(natural);
            return Err(ProcessorError::Tokens { limit, least, frames, height, width });
        };
        let (mut low, mut high) = (least_pixels(frames), self.bounds(frames, limits.pixels).1 as usize);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if sized(frames, middle as f64)?.tokens <= limit {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        sized(frames, low as f64)
    }

    fn planned(&self, frames: usize, size: FrameSize) -> Result<FramePlan, ProcessorError> {
        let grid = self.config.grid(size, frames.max(1));
        Ok(FramePlan { frames, size, tokens: self.visual_grid(grid)?.len() })
    }
}

impl FramePlan {
    /// What a limit of tokens changed, for people; `None` if it changed nothing.
    pub fn thinned_from(&self, natural: &FramePlan) -> Option<String> {
        let of = |plan: &FramePlan| format!("{} of {}x{}", plan.frames, plan.size.width, plan.size.height);
        (self != natural).then(|| {
            let frames = if self.frames == 1 { "frame" } else { "frames" };
            format!(
                "{} {frames} of {}x{} instead of {}: {} visual tokens instead of {}",
                self.frames,
                self.size.width,
                self.size.height,
                of(natural),
                self.tokens,
                natural.tokens
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::processor::ProcessorConfig;

    fn qwen() -> VideoProcessor {
        VideoProcessor::new(ProcessorConfig::default()).unwrap()
    }

    fn limits(tokens: usize) -> FrameLimits {
        FrameLimits { pixels: None, tokens: Some(tokens) }
    }

    fn plan(processor: &VideoProcessor, size: FrameSize, frames: usize, tokens: usize) -> FramePlan {
        processor.plan(size, frames, limits(tokens)).unwrap()
    }

    #[test]
    fn frames_become_smaller_and_then_fewer() {
        let (qwen, size) = (qwen(), FrameSize::new(720, 1280));
        let natural = qwen.plan(size, 16, FrameLimits::default()).unwrap();
        assert_eq!(natural, FramePlan { frames: 16, size: FrameSize::new(560, 1008), tokens: 8 * 20 * 36 });
        assert_eq!(plan(&qwen, size, 16, natural.tokens), natural);
        assert_eq!(plan(&qwen, size, 16, usize::MAX), natural);
        assert_eq!(natural.thinned_from(&natural), None);

        let smaller = plan(&qwen, size, 16, 4000);
        assert_eq!(smaller, FramePlan { frames: 16, size: FrameSize::new(448, 840), tokens: 8 * 16 * 30 });
        assert_eq!(
            smaller.thinned_from(&natural).unwrap(),
            "16 frames of 840x448 instead of 16 of 1008x560: 3840 visual tokens instead of 5760"
        );
        // 128 tokens a grid are the family's minimum: 8 x 15 here.
        let fewer = plan(&qwen, size, 16, 600);
        assert_eq!(fewer, FramePlan { frames: 10, size: FrameSize::new(224, 420), tokens: 5 * 8 * 15 });
        // What is left of the limit goes into pixels.
        assert_eq!(
            plan(&qwen, size, 16, 150),
            FramePlan { frames: 2, size: FrameSize::new(252, 448), tokens: 144 }
        );
        let refused = qwen.plan(size, 16, limits(119)).unwrap_err();
        assert!(refused.to_string().contains("at least 120"), "{refused}");
        assert_eq!(plan(&qwen, size, 16, 120).frames, 2);
    }

    #[test]
    fn a_fixed_size_leaves_only_fewer_frames() {
        let llava = VideoProcessor::new(ProcessorConfig::pictures(384, 14, 2)).unwrap();
        let plan = plan(&llava, FrameSize::new(720, 1280), 32, 1000);
        assert_eq!(plan, FramePlan { frames: 5, size: FrameSize::new(384, 384), tokens: 5 * 196 });
        assert!(llava.plan(FrameSize::new(720, 1280), 32, limits(195)).is_err());
    }

    #[test]
    fn a_limit_of_pixels_holds_beside_one_of_tokens() {
        let both = |pixels, tokens| {
            let limits = FrameLimits { pixels: Some(pixels), tokens: Some(tokens) };
            qwen().plan(FrameSize::new(720, 1280), 16, limits).unwrap()
        };
        // Below the family's minimum of pixels, the user's own limit is the minimum.
        let natural = qwen().target_size(720, 1280, 16, Some(32 * 784)).unwrap();
        assert_eq!(both(32 * 784, 5000).size, natural);
        assert_eq!(both(32 * 784, 100).size, natural);
        assert_eq!(both(32 * 784, 100).frames, 2 * (100 / (natural.pixels() / 784)));
    }

    /// Limits that count whole videos.
    #[test]
    fn frames_that_share_their_pixels_become_smaller_and_then_fewer() {
        let (qwen3, size) =
            (VideoProcessor::new(ProcessorConfig::qwen3_vl()).unwrap(), FrameSize::new(720, 1280));
        let natural = qwen3.plan(size, 16, FrameLimits::default()).unwrap();
        assert_eq!(natural, FramePlan { frames: 16, size: FrameSize::new(704, 1280), tokens: 8 * 22 * 40 });
        assert_eq!(plan(&qwen3, size, 16, natural.tokens), natural);
        let smaller = plan(&qwen3, size, 16, 4000);
        assert_eq!((smaller.frames, smaller.tokens <= 4000, smaller.tokens > 3000), (16, true, true));
        // One visual token is the smallest frame.
        assert_eq!(
            plan(&qwen3, size, 16, 1),
            FramePlan { frames: 2, size: FrameSize::new(32, 32), tokens: 1 }
        );
        let few = plan(&qwen3, size, 16, 5);
        assert!(few.frames < 16 && few.tokens <= 5, "{few:?}");
        // A limit of pixels per frame also applies.
        let both = FrameLimits { pixels: Some(64 * 96), tokens: Some(30) };
        let both = qwen3.plan(size, 16, both).unwrap();
        assert!(both.tokens <= 30 && both.size.pixels() <= 64 * 96, "{both:?}");
    }

    /// Frames that are all scaled to one size.
    #[test]
    fn scaled_frames_become_smaller_and_then_fewer() {
        let minicpm = VideoProcessor::new(ProcessorConfig::minicpmv(14, 4)).unwrap();
        let size = FrameSize::new(720, 1280);
        let natural = minicpm.plan(size, 16, FrameLimits::default()).unwrap();
        assert_eq!(natural, FramePlan { frames: 16, size: FrameSize::new(336, 616), tokens: 16 * 66 });
        assert_eq!(plan(&minicpm, size, 16, natural.tokens), natural);
        assert_eq!(
            plan(&minicpm, FrameSize::new(72, 128), 16, usize::MAX),
            natural,
            "small frames are enlarged"
        );
        let smaller = plan(&minicpm, size, 16, 600);
        assert_eq!(smaller, FramePlan { frames: 16, size: FrameSize::new(224, 448), tokens: 16 * 32 });
        assert_eq!(
            plan(&minicpm, size, 16, 16),
            FramePlan { frames: 16, size: FrameSize::new(56, 56), tokens: 16 }
        );
        assert_eq!(plan(&minicpm, size, 16, 5).frames, 5);
        assert!(minicpm.plan(size, 16, limits(0)).is_err());
        // A limit of pixels holds, and one above the family's size changes nothing.
        for most in [56 * 56, 56 * 112, 100_000, 206_975, 206_976, usize::MAX] {
            let limits = FrameLimits { pixels: Some(most), tokens: None };
            let plan = minicpm.plan(size, 16, limits).unwrap();
            assert!(plan.size.pixels() <= most, "{most}: {plan:?}");
            assert_eq!(plan == natural, most >= 336 * 616, "{most}");
        }
        assert!(matches!(
            minicpm.target_size(720, 1280, 16, Some(3135)),
            Err(ProcessorError::Limit { limit: 3135, least: 3136 })
        ));
    }

    proptest! {
        #[test]
        fn a_plan_is_the_largest_within_its_limit(
            height in 28usize..1500, width in 28usize..1500, frames in 1usize..80, limit in 1usize..9000,
        ) {
            let (qwen, size) = (qwen(), FrameSize::new(height, width));
            let natural = qwen.plan(size, frames, FrameLimits::default()).unwrap();
            let every = (1..=768).map(|cells| cells * 784).chain([usize::MAX]);
            match qwen.plan(size, frames, limits(limit)) {
                Err(ProcessorError::Tokens { least, .. }) => {
                    prop_assert!(least > limit);
                    prop_assert!(qwen.plan(size, frames, limits(least)).is_ok());
                    prop_assert!(qwen.plan(size, frames, limits(least - 1)).is_err());
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
                Ok(plan) => {
                    prop_assert!(plan.tokens <= limit.max(natural.tokens) && plan.frames <= frames);
                    if natural.tokens <= limit {
                        prop_assert_eq!(plan, natural);
                        return Ok(());
                    }
                    prop_assert!(plan.tokens <= limit);
                    prop_assert!(plan.frames == frames || plan.frames.is_multiple_of(2));
                    // The same plan again for the frames that are left.
                    prop_assert_eq!(qwen.plan(size, plan.frames, limits(limit)).unwrap(), plan);
                    let (minimum, maximum) = qwen.bounds(plan.frames, None);
                    let with = |frames: usize, pixels: usize| {
                        let pixels = (pixels as f64).clamp(minimum as f64, maximum);
                        let size = qwen.sized(size, frames, minimum, pixels).unwrap();
                        qwen.planned(frames, size).unwrap()
                    };
                    if plan.frames < frames {
                        let more = (plan.frames + 2).min(frames);
                        prop_assert!(with(more, minimum).tokens > limit, "{more} frames fit");
                    }
                    for pixels in every {
                        let other = with(plan.frames, pixels);
                        prop_assert!(other.tokens <= plan.tokens || other.tokens > limit, "{pixels} pixels fit");
                    }
                }
            }
        }

        #[test]
        fn plans_that_count_whole_videos_hold_their_limits(
            height in 8usize..1500, width in 8usize..1500, frames in 1usize..80, limit in 1usize..9000,
        ) {
            let (qwen3, size) = (VideoProcessor::new(ProcessorConfig::qwen3_vl()).unwrap(), FrameSize::new(height, width));
            let natural = qwen3.plan(size, frames, FrameLimits::default()).unwrap();
            match qwen3.plan(size, frames, limits(limit)) {
                Err(ProcessorError::Tokens { least, .. }) => {
                    prop_assert!(least > limit);
                    prop_assert!(qwen3.plan(size, frames, limits(least)).is_ok());
                    prop_assert!(qwen3.plan(size, frames, limits(least - 1)).is_err());
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
                Ok(plan) if natural.tokens <= limit => prop_assert_eq!(plan, natural),
                Ok(plan) => {
                    prop_assert!(plan.tokens <= limit && plan.frames <= frames);
                    prop_assert!(plan.frames == frames || plan.frames.is_multiple_of(2));
                }
            }
        }
    }
}
