//! Frame sampling: which frames of a video the models see. Pure arithmetic on counts and rates.
//!
//! All rules count n = total / video_fps × fps frames, clamped to the family's minimum and maximum and to the number of frames,
//! and spread them evenly. They differ in how they round both: see [`Spacing`].

pub use specreel_record::sampling::{MAX_FRAMES, Rule, Spacing};

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

/// Highest sampling rate, in frames per second.
pub const MAX_FPS: f64 = 1000.0;

/// Which frames to decode.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Indices of the sampled frames in presentation order, increasing, each below `total_frames`.
    pub indices: Vec<usize>,
    /// Presentation times in seconds from the first frame of the video; same length.
    pub timestamps_s: Vec<f64>,
    /// The same from the first frame of the sampled part, for the models: at a constant rate exactly index / fps, regardless of the
    /// container rounds its time stamps to.
    pub seconds: Vec<f64>,
    /// Length of the video, or of the sampled part of it, in seconds.
    pub duration_s: f64,
    /// Sampled frames per second of video: n / total × video fps.
    pub sample_fps: f64,
    /// Number of frames of the video, or of the sampled part of it.
    pub total_frames: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// `--fps` is out of range.
    #[error("invalid frames per second: {0}; expected a number above 0, up to {MAX_FPS}")]
    Fps(f64),
    /// `--frames` is out of range.
    #[error("invalid number of frames: {0}; expected 1 to {MAX_FRAMES}")]
    Frames(usize),
    #[error("the video has no frames")]
    NoFrames,
    /// The video's own rate is not finite and positive.
    #[error("invalid frame rate in the video's header: {0}")]
    VideoFps(f64),
    #[error("internal error: contradictory sampling rule {0:?}")]
    Rule(Rule),
}

/// Validate a requested sampling before any file is opened. Fails for a rate that is not finite, not above 0 or above
/// [`MAX_FPS`], and for a count of 0 or above [`MAX_FRAMES`].
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
/// The time stamps assume a constant rate (index / video fps); decoding replaces them by the real ones. A family
/// with a fixed number of frames uses it only under [`Sampling::Auto`]. [`Sampling::Frames`] is floored to the multiple (but is
/// at least one multiple) and limited to the frames of the video; a video shorter than one multiple gives all its frames. Fails
/// as [`check`], without frames, for a video rate that is not finite and positive, and for a rule that contradicts itself.
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
    let (fps, bounds) = match sampling {
        Sampling::Fps(fps) if rule.is_fixed() => (fps, (rule.multiple, Rule::QWEN_VL.max_frames)),
        Sampling::Fps(fps) => (fps, (rule.min_frames, rule.max_frames)),
        Sampling::Auto => (rule.default_fps, (rule.min_frames, rule.max_frames)),
        Sampling::Frames(n) => (rule.default_fps, (n, n)),
    };
    let wanted = match sampling {
        Sampling::Frames(n) => n,
        _ => rule.by_rate(total_frames, video_fps, fps, bounds),
    };
    let indices = match rule.spacing {
        Spacing::Whole => spread(total_frames, rule.fit(wanted, total_frames)),
        Spacing::Parts => {
            let n = rule.fit(wanted, total_frames);
            (0..n).map(|i| i * total_frames / n).collect()
        }
        Spacing::Rounded => {
            let n = rule.fit(wanted, total_frames);
            linspace(0, total_frames - 1, n, f64::round_ties_even)
        }
        Spacing::Truncated { skip_s } => {
            let (start, last) = without_ends(total_frames, video_fps, skip_s, bounds.1 as f64 * fps);
            let n = rule.fit(wanted, last - start + 1);
            linspace(start, last, n, f64::floor)
        }
        Spacing::Periods => {
            let n = rule.fit(wanted, total_frames);
            in_periods(total_frames, video_fps, fps, n)
        }
    };
    let n = indices.len();
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

/// The first and the last frame that is left without `skip_s` seconds at both ends, if the rest is longer than `least_s`
/// seconds; else of the whole video.
fn without_ends(total: usize, video_fps: f64, skip_s: f64, least_s: f64) -> (usize, usize) {
    let whole = (0, total - 1);
    if total as f64 / video_fps - 2.0 * skip_s <= least_s {
        return whole;
    }
    let skip = skip_s * video_fps;
    let (start, last) = (skip as usize, ((total as f64 - skip) as usize).min(total - 1));
    if start < last { (start, last) } else { whole }
}

/// The frames at the beginning of periods of 1 / `fps` seconds, if there are `n` of them. Of more, `n` of the frames at every tenth
/// of a second; of fewer, `n` frames evenly from the first to the last.
fn in_periods(total: usize, video_fps: f64, fps: f64, n: usize) -> Vec<usize> {
    let seconds = total as f64 / video_fps;
    let last = total - 1;
    let at = |seconds: f64| ((seconds * video_fps) as usize).min(last);
    let periods = seconds * fps;
    let mut indices: Vec<usize> = if periods.ceil() == n as f64 {
        (0..n).map(|i| at(i as f64 / fps)).collect()
    } else if periods > n as f64 {
        let tenths = ((seconds / 0.1) as usize).max(1);
        let tenth = |i: usize| at(i as f64 / 10.0);
        linspace(0, tenths - 1, n, f64::floor).into_iter().map(tenth).collect()
    } else {
        linspace(0, last, n, f64::floor)
    };
    indices.dedup();
    indices
}

/// linspace(first, last, n) in double precision, rounded to increasing whole numbers; `n` is at most the frames from first to
/// last.
fn linspace(first: usize, last: usize, n: usize, round: fn(f64) -> f64) -> Vec<usize> {
    let step = (last - first) as f64 / n.saturating_sub(1).max(1) as f64;
    let at = |i: usize| match i {
        i if i > 0 && i + 1 == n => last,
        i => round(first as f64 + i as f64 * step) as usize,
    };
    let mut indices: Vec<usize> = (0..n).map(at).collect();
    indices.dedup();
    indices
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
mod tests;
