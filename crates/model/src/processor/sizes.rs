//! The sizes that frames are resized to.

use super::{PixelScope, ProcessorError, VideoProcessor};

/// The size of a frame in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSize {
    pub height: usize,
    pub width: usize,
}

impl FrameSize {
    pub const fn new(height: usize, width: usize) -> Self {
        Self { height, width }
    }

    /// Pixels of the frame.
    pub fn pixels(self) -> usize {
        self.height * self.width
    }
}

impl VideoProcessor {
    /// The size to which frames of `height` × `width` are resized if `n_frames` are sampled.
    ///
    /// Both sides are multiples of patch · merge, with nearly the same aspect ratio and a number of pixels within the
    /// checkpoint's limits. `max_pixels` is an upper limit per frame: it lowers the lower limit if that is higher, and replaces the
    /// upper one if it counts frames, and applies together with one that counts whole videos. Models with a fixed frame size always use
    /// that size. Fails with [`ProcessorError::Size`] for an empty frame or an aspect ratio above 200; [`ProcessorError::Limit`]
    /// if `max_pixels` is less than one visual token, [`ProcessorError::Fixed`] if it is less than the fixed size.
    pub fn target_size(
        &self,
        height: usize,
        width: usize,
        n_frames: usize,
        max_pixels: Option<usize>,
    ) -> Result<FrameSize, ProcessorError> {
        let size = FrameSize::new(height, width);
        if let Some(fixed) = self.config.fixed {
            check(size)?;
            return match max_pixels.filter(|limit| *limit < fixed.pixels()) {
                Some(limit) => Err(ProcessorError::Fixed { limit, height: fixed.height, width: fixed.width }),
                None => Ok(fixed),
            };
        }
        let least = self.config.factor().pow(2);
        if let Some(limit) = max_pixels.filter(|limit| *limit < least) {
            return Err(ProcessorError::Limit { limit, least });
        }
        let (min, max) = self.bounds(n_frames, max_pixels);
        self.sized(size, n_frames, min, max)
    }

    /// Minimum and maximum pixels if `n_frames` are sampled: of a frame, or of all of them, as the configuration counts them.
    pub(super) fn bounds(&self, n_frames: usize, max_pixels: Option<usize>) -> (usize, f64) {
        let config = &self.config;
        match (config.scope, max_pixels) {
            (PixelScope::Frame, Some(limit)) => (config.min_pixels.min(limit), limit as f64),
            (PixelScope::Frame, None) => (config.min_pixels, config.max_pixels_for(n_frames)),
            (PixelScope::Filled, limit) => {
                let max = limit.map_or(config.max_pixels, |limit| limit.min(config.max_pixels));
                (config.min_pixels.min(max), max as f64)
            }
            (PixelScope::Scaled, limit) => {
                (config.min_pixels, limit.map_or(f64::INFINITY, |limit| limit as f64))
            }
            (PixelScope::Video { max_tokens }, limit) => {
                let frames = n_frames.max(config.temporal);
                let max = match max_tokens {
                    None => config.max_pixels,
                    Some(tokens) => {
                        let share = (tokens * config.factor().pow(2)).min(config.max_pixels / frames);
                        share.max((config.min_pixels as f64 * 1.05) as usize).saturating_mul(frames)
                    }
                };
                let max = limit.map_or(max, |limit| max.min(limit.saturating_mul(frames)));
                (config.min_pixels.min(max), max as f64)
            }
        }
    }

    /// The size of each of `n_frames` frames within limits that count as [`Self::bounds`] do.
    pub(super) fn sized(
        &self,
        size: FrameSize,
        n_frames: usize,
        min_pixels: usize,
        max_pixels: f64,
    ) -> Result<FrameSize, ProcessorError> {
        let factor = self.config.factor();
        match self.config.scope {
            PixelScope::Frame => smart_resize(size, factor, min_pixels, max_pixels),
            PixelScope::Scaled => scaled_within(size, factor, self.config.max_pixels, max_pixels),
            PixelScope::Filled => filled(size, factor, max_pixels),
            PixelScope::Video { .. } => {
                let temporal = self.config.temporal;
                smart_resize_video(n_frames, temporal, size, factor, min_pixels, max_pixels)
            }
        }
    }
}

fn refuse<T>(FrameSize { height, width }: FrameSize, reason: String) -> Result<T, ProcessorError> {
    Err(ProcessorError::Size { height, width, reason })
}

fn check(size: FrameSize) -> Result<(), ProcessorError> {
    let FrameSize { height, width } = size;
    if height == 0 || width == 0 {
        return refuse(size, "a side is zero".into());
    }
    if height.max(width) > 1 << 20 {
        return refuse(size, "a side is longer than a million pixels".into());
    }
    Ok(())
}

fn check_ratio(size: FrameSize, [h, w]: [f64; 2]) -> Result<(), ProcessorError> {
    let ratio = h.max(w) / h.min(w);
    if ratio > 200.0 {
        return refuse(size, format!("the aspect ratio is {ratio:.0}, the maximum is 200"));
    }
    Ok(())
}

/// Sides that are multiples of `factor`, with nearly the same aspect ratio and an area within the limits.
///
/// The arithmetic of transformers' function of this name, with Python's rounding (halves to even).
fn smart_resize(
    size: FrameSize,
    factor: usize,
    min_pixels: usize,
    max_pixels: f64,
) -> Result<FrameSize, ProcessorError> {
    check(size)?;
    let (h, w, f) = (size.height as f64, size.width as f64, factor as f64);
    check_ratio(size, [h, w])?;
    let sides = [h, w].map(|side| (side / f).round_ties_even() * f);
    let area = sides[0] * sides[1];
    let sides = if area > max_pixels {
        let beta = (h * w / max_pixels).sqrt();
        [h, w].map(|side| ((side / beta / f).floor() * f).max(f))
    } else if area < min_pixels as f64 {
        let beta = (min_pixels as f64 / (h * w)).sqrt();
        [h, w].map(|side| (side * beta / f).ceil() * f)
    } else {
        sides
    };
    // With a lower limit of zero, a side may round down to zero.
    Ok(FrameSize::new(sides[0].max(f) as usize, sides[1].max(f) as usize))
}

/// As [`smart_resize`], with limits for all frames of a video together: transformers' function of this name for Qwen3-VL. Sides
/// shorter than `factor` are enlarged first. A video of fewer frames than a temporal grid is filled up.
fn smart_resize_video(
    frames: usize,
    temporal: usize,
    size: FrameSize,
    factor: usize,
    min_pixels: usize,
    max_pixels: f64,
) -> Result<FrameSize, ProcessorError> {
    check(size)?;
    let (frames, temporal, f) = (frames.max(temporal) as f64, temporal as f64, factor as f64);
    let (mut h, mut w) = (size.height as f64, size.width as f64);
    if size.height < factor || size.width < factor {
        let scale = (f / h).max(f / w);
        (h, w) = ((h * scale).floor(), (w * scale).floor());
    }
    check_ratio(size, [h, w])?;
    let sides = [h, w].map(|side| (side / f).round_ties_even() * f);
    let whole = (frames / temporal).round_ties_even() * temporal;
    let area = whole * sides[0] * sides[1];
    let sides = if area > max_pixels {
        let beta = ((frames * h * w) / max_pixels).sqrt();
        [h, w].map(|side| (side / beta / f).floor() * f)
    } else if area < min_pixels as f64 {
        let beta = (min_pixels as f64 / (frames * h * w)).sqrt();
        [h, w].map(|side| (side * beta / f).ceil() * f)
    } else {
        sides
    };
    Ok(FrameSize::new(sides[0].max(f) as usize, sides[1].max(f) as usize))
}

/// The largest size of at most `pixels` pixels near the aspect ratio, with sides that are multiples of `factor`: the arithmetic of Gemma
/// 4's processor. Of a frame that is so long that a side would be zero, one token high or wide.
fn filled(size: FrameSize, factor: usize, pixels: f64) -> Result<FrameSize, ProcessorError> {
    check(size)?;
    let (h, w, f) = (size.height as f64, size.width as f64, factor as f64);
    check_ratio(size, [h, w])?;
    let scale = (pixels / (h * w)).sqrt();
    let [height, width] = [h, w].map(|side| (scale * side / f).floor());
    let longest = (pixels / (f * f)).floor();
    let [height, width] = match (height < 1.0, width < 1.0) {
        (true, true) => [1.0, 1.0],
        (true, false) => [1.0, (w / h).floor().min(longest)],
        (false, true) => [(h / w).floor().min(longest), 1.0],
        (false, false) => [height, width],
    };
    Ok(FrameSize::new((height * f) as usize, (width * f) as usize))
}

/// A size of about `pixels` pixels near the aspect ratio, with sides that are multiples of `factor`: the arithmetic of MiniCPM-V's
/// processor for a frame without slices.
fn scaled(size: FrameSize, factor: usize, pixels: usize) -> FrameSize {
    let ratio = size.width as f64 / size.height as f64;
    let height = ((pixels as f64).sqrt() / ratio.sqrt()).floor();
    let width = (height * ratio).floor();
    let f = factor as f64;
    let whole = |side: f64| ((side / f).round_ties_even() * f).max(f) as usize;
    FrameSize::new(whole(height), whole(width))
}

/// As [`scaled`]; if that has more than `most` pixels, the largest such size that has not.
fn scaled_within(
    size: FrameSize,
    factor: usize,
    pixels: usize,
    most: f64,
) -> Result<FrameSize, ProcessorError> {
    check(size)?;
    check_ratio(size, [size.height, size.width].map(|side| side as f64))?;
    let at = |pixels: usize| scaled(size, factor, pixels);
    let fits = |size: FrameSize| size.pixels() as f64 <= most;
    if fits(at(pixels)) {
        return Ok(at(pixels));
    }
    // The smallest size is one visual token. A size never shrinks when its pixels grow.
    let (mut low, mut high) = (1, pixels);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(at(middle)) { low = middle } else { high = middle - 1 }
    }
    Ok(at(low))
}

/// The size at which the longest edge is `longest`, as the processor of SmolVLM computes it: the other edge is an
/// even number.
pub(super) fn with_longest_edge(FrameSize { height, width }: FrameSize, longest: usize) -> FrameSize {
    let ratio = width as f64 / height as f64;
    let even = |side: f64| (side as usize).next_multiple_of(2).max(1);
    if width >= height {
        FrameSize::new(even(longest as f64 / ratio), longest)
    } else {
        FrameSize::new(longest, even(longest as f64 * ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Grid, ProcessorConfig};
    use super::*;

    #[test]
    fn halves_round_to_even_and_limits_hold() {
        // 42 / 28 = 1.5 -> 2, 70 / 28 = 2.5 -> 2
        let size = |h, w, least, most| smart_resize(FrameSize::new(h, w), 28, least, most).unwrap();
        assert_eq!(size(42, 70, 0, 1e9), FrameSize::new(56, 56));
        assert_eq!(size(100, 100, 0, 784.0), FrameSize::new(28, 28));
        assert_eq!(size(28, 28, 784 * 4, 1e9), FrameSize::new(56, 56));
        assert_eq!(size(1, 150, 0, 1e9), FrameSize::new(28, 140));
    }

    #[test]
    fn empty_sizes_and_extreme_aspect_ratios_are_refused() {
        for (h, w) in [(0, 10), (10, 0), (1, 201), (402, 2), (usize::MAX, usize::MAX)] {
            let refused = smart_resize(FrameSize::new(h, w), 28, 784, 1e6);
            assert!(matches!(refused, Err(ProcessorError::Size { .. })), "{h}x{w}");
        }
        assert!(smart_resize(FrameSize::new(1, 200), 28, 784, 1e6).is_ok());
    }

    #[test]
    fn a_given_limit_replaces_both_limits() {
        let processor = VideoProcessor::new(ProcessorConfig::default()).unwrap();
        assert_eq!(processor.target_size(280, 280, 8, Some(28 * 28 * 4)).unwrap(), FrameSize::new(56, 56));
        assert!(matches!(
            processor.target_size(280, 280, 8, Some(783)),
            Err(ProcessorError::Limit { limit: 783, least: 784 })
        ));
    }

    #[test]
    fn a_fixed_size_stays_fixed() {
        let processor = VideoProcessor::new(ProcessorConfig::pictures(384, 14, 2)).unwrap();
        for (height, width) in [(1, 1), (1080, 1920), (5000, 3)] {
            assert_eq!(processor.target_size(height, width, 32, None).unwrap(), FrameSize::new(384, 384));
        }
        assert_eq!(processor.target_size(9, 9, 1, Some(384 * 384)).unwrap(), FrameSize::new(384, 384));
        let refused = processor.target_size(9, 9, 1, Some(384 * 384 - 1)).unwrap_err();
        assert!(refused.to_string().contains("384x384"), "{refused}");
        assert!(processor.target_size(0, 9, 1, None).is_err());
        let grid = processor.visual_grid(Grid { t: 2, h: 27, w: 27 }).unwrap();
        assert_eq!((grid.t, grid.h, grid.w, grid.len()), (2, 14, 14, 392));
    }

    /// Sizes that the processor of transformers 5.23 computes.
    #[test]
    fn all_frames_of_a_video_share_its_limits() {
        let size = |frames, (height, width), min, max: usize| {
            let from = FrameSize::new(height, width);
            let size = smart_resize_video(frames, 2, from, 32, min, max as f64).unwrap();
            (size.height, size.width)
        };
        let all = |frames, from| size(frames, from, 4096, 25_165_824);
        // Sides shorter than a visual token are enlarged first.
        assert_eq!(all(2, (20, 30)), (32, 64));
        assert_eq!(all(4, (10, 300)), (32, 960));
        assert_eq!(all(768, (48, 16)), (96, 32));
        // An odd number of frames counts as the nearest multiple of four, half of it even, and as itself once a limit is passed.
        assert_eq!(all(3, (48, 80)), (64, 64));
        assert_eq!(size(3, (96, 160), 76_800, 1 << 30), (128, 224));
        assert_eq!(size(5, (96, 160), 4096, 61_440), (96, 160));
        assert_eq!(size(7, (96, 160), 4096, 61_440), (64, 96));
        // The reference refuses a single frame; it is filled up to a pair.
        assert_eq!(all(1, (720, 1280)), all(2, (720, 1280)));
        for (h, w) in [(0, 10), (10, 0), (1, 402), (usize::MAX, 1)] {
            assert!(smart_resize_video(4, 2, FrameSize::new(h, w), 32, 4096, 1e9).is_err(), "{h}x{w}");
        }
    }

    #[test]
    fn a_limit_per_frame_holds_beside_that_of_the_video() {
        let processor = VideoProcessor::new(ProcessorConfig::qwen3_vl()).unwrap();
        let size = |frames, pixels| processor.target_size(720, 1280, frames, pixels).unwrap();
        assert_eq!(size(8, None), FrameSize::new(704, 1280));
        assert_eq!(size(8, Some(320 * 320)), FrameSize::new(224, 416));
        assert_eq!(size(8, Some(usize::MAX)), size(8, None));
        assert_eq!(size(1, Some(1024)), FrameSize::new(32, 32));
        assert!(matches!(
            processor.target_size(720, 1280, 8, Some(1023)),
            Err(ProcessorError::Limit { limit: 1023, least: 1024 })
        ));
        let scope = PixelScope::Video { max_tokens: Some(768) };
        let capped = ProcessorConfig { scope, ..ProcessorConfig::qwen3_vl() };
        let capped = VideoProcessor::new(capped).unwrap();
        let size = |frames| capped.target_size(1080, 1920, frames, None).unwrap();
        let expected = [(640, 1152), (320, 576), (128, 224), (32, 64)];
        assert_eq!([4, 122, 768, 5000].map(size), expected.map(|(h, w)| FrameSize::new(h, w)));
    }

    #[test]
    fn the_longest_edge_is_kept_and_the_other_is_even() {
        let table = [
            ((480, 640), 2048, (1536, 2048)),
            ((640, 480), 360, (360, 270)),
            ((100, 331), 360, (108, 360)),
            ((331, 100), 360, (360, 108)),
            ((7, 7), 5, (6, 5)),
            ((1, 1000), 360, (1, 360)),
        ];
        for ((h, w), longest, want) in table {
            let size = with_longest_edge(FrameSize::new(h, w), longest);
            assert_eq!((size.height, size.width), want, "{h}x{w}");
        }
    }
}
