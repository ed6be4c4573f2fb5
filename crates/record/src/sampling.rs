//! How model families sample the frames of a video, as data.

/// Largest number of frames of a clip; a family with a fixed number takes at most as many as [`Rule::QWEN_VL`] at a given rate.
pub const MAX_FRAMES: usize = 10_000;

/// How a family counts frames, and spreads them over a video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// The count is floored; indices = round(linspace(0, total − 1, n)), halves to even, in whole numbers: rounding does not
    /// depend on the length of the video. As in `qwen_vl_utils` (fetch_video, smart_nframes).
    Whole,
    /// The same with a step in double precision, which moves some halves: as NumPy's linspace.
    Rounded,
    /// The count is rounded, halves to even; indices are truncated. This many seconds are left out at both ends of a video that is
    /// longer without them than the maximum of frames times the frames per second (sic).
    Truncated {
        /// Seconds at each end.
        skip_s: f64,
    },
    /// A frame at the beginning of every period, the truncated index of its time. Of a video of more periods than the maximum of
    /// frames, so many of the frames at every tenth of a second, at truncated indices of a linspace over them.
    Periods,
    /// Index i · total / n, in whole numbers: the beginning of each of n equal parts.
    Parts,
}

/// Default sampling of a model family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Frames per second of video.
    pub default_fps: f64,
    /// At least this many frames (if the video has them).
    pub min_frames: usize,
    pub max_frames: usize,
    /// The number of frames is a multiple of this (if the video has that many).
    pub multiple: usize,
    pub spacing: Spacing,
}

impl Rule {
    /// Qwen2-VL and Qwen2.5-VL: 2 frames a second, 4 to 768, in pairs.
    pub const QWEN_VL: Rule =
        Rule { default_fps: 2.0, min_frames: 4, max_frames: 768, multiple: 2, spacing: Spacing::Whole };
    /// LLaVA-OneVision: always 32 frames.
    pub const LLAVA_ONEVISION: Rule =
        Rule { default_fps: 1.0, min_frames: 32, max_frames: 32, multiple: 1, spacing: Spacing::Whole };
    /// Qwen3-VL: 2 frames a second, 4 to 768; the last of an odd number is repeated by the processor.
    pub const QWEN3_VL: Rule = Rule { multiple: 1, spacing: Spacing::Rounded, ..Rule::QWEN_VL };
    /// SmolVLM2: a frame a second, up to 64, without the first and the last second of longer videos.
    pub const SMOLVLM: Rule = Rule {
        default_fps: 1.0,
        min_frames: 1,
        max_frames: 64,
        multiple: 1,
        spacing: Spacing::Truncated { skip_s: 1.0 },
    };
    /// MiniCPM-V: a frame at the beginning of every second, up to 128.
    pub const MINICPM_V: Rule =
        Rule { default_fps: 1.0, min_frames: 1, max_frames: 128, multiple: 1, spacing: Spacing::Periods };
    /// Gemma 4: always 32 frames.
    pub const GEMMA4: Rule = Rule { spacing: Spacing::Parts, ..Rule::LLAVA_ONEVISION };

    /// Any number of frames, independent of models.
    pub const ANY: Rule = Rule {
        default_fps: 1.0,
        min_frames: 1,
        max_frames: MAX_FRAMES,
        multiple: 1,
        spacing: Spacing::Whole,
    };

    /// The rule with the values of a checkpoint's own files: frames per second, and the minimum and maximum number of frames.
    #[must_use]
    pub fn with(mut self, fps: Option<f64>, min_frames: Option<usize>, max_frames: Option<usize>) -> Self {
        self.default_fps = fps.unwrap_or(self.default_fps);
        self.max_frames = max_frames.unwrap_or(self.max_frames).min(MAX_FRAMES);
        self.min_frames = min_frames.unwrap_or(self.min_frames).min(self.max_frames);
        self
    }

    /// How many frames are sampled by default of a video of so many frames.
    pub fn count(&self, total: usize, video_fps: f64) -> usize {
        let bounds = (self.min_frames, self.max_frames);
        self.fit(self.by_rate(total, video_fps, self.default_fps, bounds), total)
    }

    /// total / video_fps × fps, at least `min` (rounded up to the multiple), then at most `max` and the total.
    pub fn by_rate(&self, total: usize, video_fps: f64, fps: f64, (min, max): (usize, usize)) -> usize {
        let exact = total as f64 / video_fps * fps;
        let exact = match self.spacing {
            Spacing::Whole | Spacing::Rounded | Spacing::Parts => exact,
            Spacing::Truncated { .. } => exact.round_ties_even(),
            Spacing::Periods => exact.ceil(),
        };
        let min = min.next_multiple_of(self.multiple);
        // The upper bound takes precedence, as in the reference.
        exact.max(min as f64).min(max.min(total) as f64) as usize
    }

    /// `n` floored to the multiple, at least one multiple, at most `total`.
    pub fn fit(&self, n: usize, total: usize) -> usize {
        let floor = |n: usize| n / self.multiple * self.multiple;
        if total < self.multiple { total } else { floor(n.min(total)).max(self.multiple) }
    }

    /// True where the family uses a fixed number of frames.
    pub fn is_fixed(&self) -> bool {
        self.min_frames == self.max_frames && matches!(self.spacing, Spacing::Whole | Spacing::Parts)
    }
}
