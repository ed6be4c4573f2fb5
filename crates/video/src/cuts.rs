//! The cuts of a video, found by the published method of PySceneDetect's content detector.
//!
//! Each frame is scaled to at most 256 pixels a side and converted to HSV with eight bits a channel, as OpenCV does (hue in
//! steps of two degrees). Its score is the mean absolute difference from the frame before, over pixels and channels; a score from
//! the threshold on is a cut. Of cuts that follow each other within the shortest scene length, the first one counts, and the last
//! one once the picture has been calm for that length, so that a flash or a burst of short shots is no scene of its own.

use std::{
    ops::{ControlFlow, Range},
    path::Path,
};

use ffmpeg_next::frame;

use super::{
    Error, Video, orientation::Geometry, picture::Converter, thumbnail::fit, timeline::ROUNDING_S, walk::Walk,
};

/// Longest side in pixels at which frames are compared.
const SIDE: u32 = 256;

/// Frames between two calls of the progress function.
const STRIDE: usize = 32;

/// How scenes are detected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenes {
    /// Score of a cut, from 0 (equal frames) to 255.
    pub threshold: f64,
    /// Shortest scene in seconds.
    pub shortest_s: f64,
    /// Longest segment in seconds: longer scenes are divided evenly.
    pub longest_s: f64,
}

impl Default for Scenes {
    /// PySceneDetect's threshold, and segments of 2 s to 2 min.
    fn default() -> Self {
        Self { threshold: 27.0, shortest_s: 2.0, longest_s: 120.0 }
    }
}

/// Called now and then with the seconds that have been searched, of so many; a break ends the search.
pub type Progress<'a> = &'a mut dyn FnMut(f64, f64) -> ControlFlow<()>;

/// The times of the cuts within these frames, in seconds from the beginning of the file, increasing.
pub(super) fn find(
    video: Video,
    frames: Range<usize>,
    scenes: &Scenes,
    progress: Progress<'_>,
) -> Result<Vec<f64>, Error> {
    let Video { source, timeline, probe } = video;
    let (start, geometry) = (timeline.seconds(frames.start), source.geometry);
    let total = timeline.seconds(frames.end.saturating_sub(1)) - start;
    let mut scores = Scores::new(geometry, (probe.width, probe.height));
    let mut walk = Walk::new(source, timeline, frames.collect())?;
    let mut picture = frame::Video::empty();
    let (mut filter, mut cuts) = (Filter::new(scenes.shortest_s), Vec::new());
    let mut count = 0;
    while let Some(index) = walk.next(&mut picture)? {
        let at = walk.timeline.seconds(index);
        if count % STRIDE == 0 && progress(at - start, total).is_break() {
            return Err(Error::Interrupted);
        }
        count += 1;
        let score = scores.push(walk.path(), index, at, &picture)?;
        cuts.extend(filter.push(at, score >= scenes.threshold));
    }
    Ok(cuts)
}

/// How much each frame differs from the one before it.
pub(super) struct Scores {
    converter: Converter,
    before: Vec<u8>,
}

impl Scores {
    /// Of a video whose frames are shown at this size.
    pub fn new(geometry: Geometry, (width, height): (u32, u32)) -> Self {
        let size = fit(geometry.orientation.size(width, height), (SIDE, SIDE));
        Self { converter: Converter::new(geometry, Some(size)), before: Vec::new() }
    }

    /// The score of the next frame, from 0 to 255.
    pub fn push(&mut self, path: &Path, index: usize, at: f64, from: &frame::Video) -> Result<f64, Error> {
        let mut pixels = self.converter.convert(path, index, at, from)?.rgb;
        pixels.as_chunks_mut().0.iter_mut().for_each(|pixel| *pixel = hsv(*pixel));
        let score = difference(&self.before, &pixels);
        self.before = pixels;
        Ok(score)
    }
}

/// The mean absolute difference of two frames; 0 if there is no frame before.
fn difference(before: &[u8], now: &[u8]) -> f64 {
    let sum: u64 = before.iter().zip(now).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / now.len().max(1) as f64
}

/// Hue (0 to 179), saturation and value of a color.
fn hsv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let [r, g, b] = [r, g, b].map(i32::from);
    let value = r.max(g).max(b);
    let range = value - r.min(g).min(b);
    if range == 0 {
        return [0, 0, value as u8];
    }
    let sixth = match value {
        _ if value == r => g - b,
        _ if value == g => b - r + 2 * range,
        _ => r - g + 4 * range,
    };
    // In fixed point with twelve bits, as OpenCV rounds.
    let scaled = |n: i32, to: i32, d: i32| (n * (((to << 13) + d) / (2 * d)) + (1 << 11)) >> 12;
    [scaled(sixth, 30, range).rem_euclid(180) as u8, scaled(range, 255, value) as u8, value as u8]
}

/// Merges cuts that follow each other too fast.
pub(super) struct Filter {
    shortest_s: f64,
    /// The last cut before merging; at first, the first frame.
    last: Option<f64>,
    /// Where merging began.
    merging_from: Option<f64>,
    /// There was a cut to merge others with.
    has_cut: bool,
}

impl Filter {
    pub fn new(shortest_s: f64) -> Self {
        Self { shortest_s, last: None, merging_from: None, has_cut: false }
    }

    /// The next frame, and whether it differs enough from the one before. Returns a cut, which may be earlier.
    pub fn push(&mut self, at: f64, differs: bool) -> Option<f64> {
        let is_long = |from: f64, to: f64| to - from >= self.shortest_s - ROUNDING_S;
        let last = *self.last.get_or_insert(at);
        let calm = is_long(last, at);
        if differs {
            self.last = Some(at);
        }
        if let Some(from) = self.merging_from {
            let ends = calm && !differs && is_long(from, last);
            if ends {
                self.merging_from = None;
            }
            return ends.then_some(last);
        }
        if differs && calm {
            self.has_cut = true;
            return Some(at);
        }
        self.merging_from = (differs && self.has_cut).then_some(at);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_have_the_hue_saturation_and_value_of_opencv() {
        // From cv2.cvtColor(…, cv2.COLOR_RGB2HSV).
        let table = [
            ([0, 0, 0], [0, 0, 0]),
            ([255, 255, 255], [0, 0, 255]),
            ([255, 0, 0], [0, 255, 255]),
            ([0, 255, 0], [60, 255, 255]),
            ([0, 0, 255], [120, 255, 255]),
            ([255, 0, 1], [0, 255, 255]),
            ([200, 100, 150], [165, 127, 200]),
            ([12, 34, 56], [105, 200, 56]),
        ];
        for (rgb, want) in table {
            assert_eq!(hsv(rgb), want, "{rgb:?}");
        }
    }

    /// The cuts among frames at ten a second, of which these differ.
    fn cuts(shortest_s: f64, frames: usize, differ: &[usize]) -> Vec<usize> {
        let mut filter = Filter::new(shortest_s);
        let mut push = |i: usize| filter.push(i as f64 / 10.0, differ.contains(&i));
        (0..frames).filter_map(&mut push).map(|at| (at * 10.0).round() as usize).collect()
    }

    #[test]
    fn cuts_that_follow_each_other_fast_are_merged() {
        assert_eq!(cuts(1.0, 60, &[20, 40]), [20, 40]);
        assert_eq!(cuts(1.0, 60, &[5, 30]), [30], "no scene ends before it is long enough");
        assert_eq!(cuts(1.0, 60, &[20, 22]), [20], "a flash");
        assert_eq!(cuts(1.0, 60, &[20, 22, 29, 36]), [20, 36], "a burst, and what follows it");
        assert_eq!(cuts(0.0, 4, &[1, 2, 3]), [1, 2, 3]);
        assert!(cuts(1.0, 60, &(1..60).collect::<Vec<_>>()).is_empty(), "a cut at every frame");
    }
}
