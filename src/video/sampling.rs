//! Frame sampling: which frames of a video the models see. Pure arithmetic on counts and rates.
//!
//! The rule is that of `qwen_vl_utils` (fetch_video, smart_nframes): n = total / video_fps × fps, clamped to the family's
//! minimum and maximum and to the number of frames, floored to the family's multiple; indices = round(linspace(0, total − 1,
//! n)) with halves rounded to even. The indices are computed in integers, so rounding does not depend on the length of
//! the video.

/// Requested sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// The default of the model family.
    #[default]
    Auto,
    /// This many frames, evenly spaced.
    Frames(usize),
    /// This many frames per second of video.
    Fps(f64),
}

/// Default sampling of a model family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Frames per second of video.
    pub default_fps: f64,
    /// At least this many frames (if the video has them).
    pub min_frames: usize,
    /// At most this many frames.
    pub max_frames: usize,
    /// The number of frames is a multiple of this (if the video has that many).
    pub multiple: usize,
}

impl Rule {
    /// Qwen2-VL and Qwen2.5-VL: 2 frames a second, 4 to 768, in pairs.
    pub const QWEN_VL: Rule = Rule { default_fps: 2.0, min_frames: 4, max_frames: 768, multiple: 2 };
    /// LLaVA-OneVision: 32 frames whatever the length.
    pub const LLAVA_ONEVISION: Rule = Rule { default_fps: 1.0, min_frames: 32, max_frames: 32, multiple: 1 };

    /// Any number of frames, independent of models.
    pub const ANY: Rule = Rule { default_fps: 1.0, min_frames: 1, max_frames: MAX_FRAMES, multiple: 1 };

    /// True where the family uses a fixed number of frames.
    fn is_fixed(&self) -> bool {
        self.min_frames == self.max_frames
    }
}

/// Highest sampling rate, in frames per second.
pub const MAX_FPS: f64 = 1000.0;

/// Largest number of frames; a fixed-number family under `Fps` stops at [`Rule::QWEN_VL`]'s limit.
pub const MAX_FRAMES: usize = 10_000;

/// Which frames to decode.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Indices of the sampled frames in presentation order, increasing, each below `total_frames`.
    pub indices: Vec<usize>,
    /// Presentation times in seconds from the first frame of the video; same length.
    pub timestamps_s: Vec<f64>,
    /// The same from the first frame of the sampled part, for the models: at a constant rate exactly index / fps, whatever the
    /// container rounds its time stamps to.
    pub seconds: Vec<f64>,
    /// Length of the video, or of the sampled part of it, in seconds.
    pub duration_s: f64,
    /// Sampled frames per second of video: n / total × video fps.
    pub sample_fps: f64,
    /// Number of frames of the video, or of the sampled part of it.
    pub total_frames: usize,
}

/// Error of [`plan`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// `--fps` is out of range.
    #[error("invalid frames per second: {0}; expected a number above 0, up to {MAX_FPS}")]
    Fps(f64),
    /// `--frames` is out of range.
    #[error("invalid number of frames: {0}; expected 1 to {MAX_FRAMES}")]
    Frames(usize),
    /// The video has no frames.
    #[error("the video has no frames")]
    NoFrames,
    /// The video's own rate is not finite and positive.
    #[error("invalid frame rate in the video's header: {0}")]
    VideoFps(f64),
    /// A family's rule contradicts itself.
    #[error("internal error: contradictory sampling rule {0:?}")]
    Rule(Rule),
}

/// Validate a requested sampling before any file is opened.
///
/// # Errors
/// A rate that is not finite, not above 0 or above [`MAX_FPS`]; a count of 0 or above [`MAX_FRAMES`].
pub fn check(sampling: Sampling) -> Result<(), SamplingError> {
    match sampling {
        Sampling::Auto => Ok(()),
        Sampling::Frames(n) if (1..=MAX_FRAMES).contains(&n) => Ok(()),
        Sampling::Frames(n) => Err(SamplingError::Frames(n)),
        Sampling::Fps(fps) if fps > 0.0 && fps <= MAX_FPS => Ok(()),
        Sampling::Fps(fps) => Err(SamplingError::Fps(fps)),
    }
}

/// Choose the frames to sample of `total_frames` frames at `video_fps`.
///
/// The time stamps are those of a constant rate (index / video fps); decoding replaces them by the real ones. A family
/// with a fixed number of frames uses it only under [`Sampling::Auto`]. [`Sampling::Frames`] is floored to the multiple (but is
/// at least one multiple) and limited to the frames of the video; a video shorter than one multiple gives all its frames.
///
/// # Errors
/// Those of [`check`], no frames, a video rate that is not finite and positive, a rule that contradicts itself.
pub fn plan(
    total_frames: usize,
    video_fps: f64,
    rule: &Rule,
    sampling: Sampling,
) -> Result<Plan, SamplingError> {
    check(sampling)?;
    if total_frames == 0 {
        return Err(SamplingError::NoFrames);
    }
    if !(video_fps.is_finite() && video_fps > 0.0) {
        return Err(SamplingError::VideoFps(video_fps));
    }
    let sane_fps = rule.default_fps.is_finite() && rule.default_fps > 0.0;
    if !sane_fps || rule.multiple == 0 || rule.max_frames < rule.multiple.max(rule.min_frames) {
        return Err(SamplingError::Rule(*rule));
    }
    let wanted = match sampling {
        Sampling::Frames(n) => n,
        Sampling::Auto => by_rate(
            total_frames,
            video_fps,
            rule.default_fps,
            (rule.min_frames, rule.max_frames),
            rule.multiple,
        ),
        Sampling::Fps(fps) => {
            let bounds = if rule.is_fixed() {
                (rule.multiple, Rule::QWEN_VL.max_frames)
            } else {
                (rule.min_frames, rule.max_frames)
            };
            by_rate(total_frames, video_fps, fps, bounds, rule.multiple)
        }
    };
    let n = fit(wanted, total_frames, rule.multiple);
    let indices = spread(total_frames, n);
    let seconds: Vec<f64> = indices.iter().map(|&i| i as f64 / video_fps).collect();
    Ok(Plan {
        indices,
        timestamps_s: seconds.clone(),
        seconds,
        duration_s: total_frames as f64 / video_fps,
        sample_fps: n as f64 / total_frames as f64 * video_fps,
        total_frames,
    })
}

/// total / video_fps × fps, at least `min` (rounded up to the multiple), then at most `max` and the total.
fn by_rate(total: usize, video_fps: f64, fps: f64, (min, max): (usize, usize), multiple: usize) -> usize {
    let exact = total as f64 / video_fps * fps;
    let min = min.next_multiple_of(multiple);
    // The upper bound takes precedence, as in the reference.
    exact.max(min as f64).min(max.min(total) as f64) as usize
}

/// `n` floored to the multiple, at least one multiple, at most `total`.
fn fit(n: usize, total: usize, multiple: usize) -> usize {
    let floor = |n: usize| n / multiple * multiple;
    if total < multiple { total } else { floor(n.min(total)).max(multiple) }
}

/// round(linspace(0, total − 1, n)), halves to even, in whole numbers.
fn spread(total: usize, n: usize) -> Vec<usize> {
    if n <= 1 {
        return vec![0; n];
    }
    let (last, gaps) = ((total - 1) as u128, (n - 1) as u128);
    (0..n as u128)
        .map(|i| {
            let (whole, rest) = (i * last / gaps, i * last % gaps);
            let up = match (2 * rest).cmp(&gaps) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => whole % 2,
                std::cmp::Ordering::Greater => 1,
            };
            (whole + up) as usize
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QWEN: Rule = Rule::QWEN_VL;

    fn n(total: usize, fps: f64, rule: &Rule, sampling: Sampling) -> usize {
        plan(total, fps, rule, sampling).unwrap().indices.len()
    }

    #[test]
    fn the_family_rule_matches_the_reference_counts() {
        // (total, video fps, frames): smart_nframes with its defaults; fewer than two frames give all of them.
        let table = [
            (1, 30.0, 1),
            (2, 30.0, 2),
            (3, 30.0, 2),
            (4, 30.0, 4),
            (5, 30.0, 4),
            (30, 30.0, 4),
            (60, 30.0, 4),
            (75, 30.0, 4),
            (90, 30.0, 6),
            (100, 29.97, 6),
            (300, 30.0, 20),
            (900, 30.0, 60),
            (250, 25.0, 20),
            (240, 23.976, 20),
            (216_000, 30.0, 768),
            (700, 0.5, 700),
            (10, 1.0, 10),
        ];
        for (total, fps, want) in table {
            assert_eq!(n(total, fps, &QWEN, Sampling::Auto), want, "{total} frames at {fps}");
        }
    }

    #[test]
    fn requested_counts_are_floored_to_pairs_and_limited_to_the_video() {
        let table = [(1, 2), (2, 2), (3, 2), (7, 6), (8, 8), (99, 98), (100, 100), (1000, 100)];
        for (asked, want) in table {
            assert_eq!(n(100, 25.0, &QWEN, Sampling::Frames(asked)), want, "--frames {asked}");
        }
        assert_eq!(n(101, 25.0, &QWEN, Sampling::Frames(1000)), 100);
        assert_eq!(n(1, 25.0, &QWEN, Sampling::Frames(8)), 1);
        assert_eq!(n(100, 25.0, &Rule::LLAVA_ONEVISION, Sampling::Frames(7)), 7);
    }

    #[test]
    fn requested_rates_follow_the_same_rule() {
        for (fps, want) in [(0.1, 4), (1.0, 10), (1.05, 10), (1.1, 10), (4.0, 40), (24.0, 240), (1000.0, 250)]
        {
            assert_eq!(n(250, 25.0, &QWEN, Sampling::Fps(fps)), want, "--fps {fps}");
        }
    }

    #[test]
    fn a_fixed_count_applies_only_to_auto() {
        let llava = Rule::LLAVA_ONEVISION;
        assert_eq!(n(1000, 25.0, &llava, Sampling::Auto), 32);
        assert_eq!(n(10, 25.0, &llava, Sampling::Auto), 10);
        assert_eq!(n(1000, 25.0, &llava, Sampling::Fps(2.0)), 80);
        assert_eq!(n(1000, 25.0, &llava, Sampling::Fps(0.01)), 1);
    }

    #[test]
    fn indices_round_as_torch_does() {
        // round(torch.linspace(0, total - 1, n)).long()
        let table: [(usize, usize, &[usize]); 8] = [
            (1, 1, &[0]),
            (2, 2, &[0, 1]),
            (10, 4, &[0, 3, 6, 9]),
            (11, 4, &[0, 3, 7, 10]),
            (6, 3, &[0, 2, 5]), // 2.5 goes to 2
            (8, 3, &[0, 4, 7]), // 3.5 goes to 4
            (300, 6, &[0, 60, 120, 179, 239, 299]),
            (5, 5, &[0, 1, 2, 3, 4]),
        ];
        for (total, n, want) in table {
            assert_eq!(spread(total, n), want, "linspace(0, {total} - 1, {n})");
        }
    }

    #[test]
    fn indices_increase_from_first_to_last() {
        for total in [2usize, 3, 7, 100, 4801, 1_000_003] {
            for asked in [2usize, 4, 32, 768] {
                let plan = plan(total, 30.0, &QWEN, Sampling::Frames(asked)).unwrap();
                assert!(plan.indices.windows(2).all(|w| w[0] < w[1]), "{total}/{asked}");
                assert_eq!(plan.indices.first(), Some(&0));
                assert_eq!(plan.indices.last(), Some(&(total - 1)));
                assert_eq!(plan.indices.len(), plan.timestamps_s.len());
            }
        }
    }

    #[test]
    fn the_sampled_rate_is_that_of_the_frames_taken() {
        let plan = plan(300, 30.0, &QWEN, Sampling::Auto).unwrap();
        assert_eq!(plan.sample_fps, 2.0);
        assert_eq!(plan.timestamps_s[1], plan.indices[1] as f64 / 30.0);
    }

    #[test]
    fn invalid_values_are_refused() {
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e9] {
            assert!(matches!(plan(10, 25.0, &QWEN, Sampling::Fps(fps)), Err(SamplingError::Fps(_))), "{fps}");
        }
        for frames in [0, MAX_FRAMES + 1, usize::MAX] {
            let asked = plan(10, 25.0, &QWEN, Sampling::Frames(frames));
            assert_eq!(asked, Err(SamplingError::Frames(frames)));
        }
        assert_eq!(plan(0, 25.0, &QWEN, Sampling::Auto), Err(SamplingError::NoFrames));
        for fps in [0.0, -25.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(plan(9, fps, &QWEN, Sampling::Auto), Err(SamplingError::VideoFps(_))));
        }
        let rule = Rule { multiple: 0, ..QWEN };
        assert_eq!(plan(9, 25.0, &rule, Sampling::Auto), Err(SamplingError::Rule(rule)));
    }
}
