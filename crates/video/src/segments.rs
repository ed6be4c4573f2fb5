//! Parts of a video: the frames of a span, and the split of a long video into segments that are captioned one by one.
//!
//! The segments cover the part without gap or overlap, and each has at least two frames, even at low frame rates. They have one
//! length, where a last segment shorter than half of it is merged into the one before, or are scenes ([`super::cuts`]).

use std::{
    ops::{ControlFlow, Range},
    path::Path,
};

use super::{
    Error, Video,
    cuts::{self, Progress, Scenes},
    timeline::{ROUNDING_S, Timeline},
};
use specreel_record::Span;

/// Largest number of segments.
pub const MAX_SEGMENTS: usize = 1000;

/// An end may be this many seconds past the end of the video: players show rounded times.
const SLACK_S: f64 = 1.0;

/// Fewest frames of a part.
pub(super) const MIN_FRAMES: usize = 2;

/// How a video is divided into segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Division {
    /// Segments of this length, in seconds.
    Even(f64),
    /// A segment for each scene; every frame is decoded to find them.
    Scenes(Scenes),
}

/// Split a video from `start` (default: its beginning) to `end` (default: its end) into segments; without a division, into one.
/// Fails as [`probe`](fn@super::probe), for a part that is invalid, outside of the video or too short, and for a division that is
/// invalid or gives more than [`MAX_SEGMENTS`] segments.
pub fn segments(
    path: &Path,
    start: Option<f64>,
    end: Option<f64>,
    division: Option<Division>,
) -> Result<Vec<Span>, Error> {
    segments_with(path, start, end, division, &mut |_, _| ControlFlow::Continue(()))
}

/// [`segments`], with the progress of the search for scenes. Fails with [`Error::Interrupted`] if that ends the search.
pub fn segments_with(
    path: &Path,
    start: Option<f64>,
    end: Option<f64>,
    division: Option<Division>,
    progress: Progress<'_>,
) -> Result<Vec<Span>, Error> {
    let video = Video::open(path)?;
    let Video { source, timeline, .. } = &video;
    let length = timeline.length();
    let start = start.unwrap_or(timeline.start());
    let whole = Span { start, end: end.unwrap_or(length.max(start + 1.0)) };
    let promised_s = timeline.truncation(source).and_then(|_| source.duration_s());
    let frames = frames_of(path, timeline, whole).map_err(|error| match error {
        Error::Outside { path, span, length_s, .. } => Error::Outside { path, span, length_s, promised_s },
        other => other,
    })?;
    let whole = Span { end: whole.end.min(length), ..whole };
    let times: Vec<f64> = frames.clone().map(|i| timeline.seconds(i)).collect();
    match division {
        None => Ok(vec![whole]),
        Some(Division::Even(seconds)) => {
            let piece = Span { start: 0.0, end: seconds };
            if !piece.is_sound() {
                return Err(Error::Span(piece));
            }
            let pieces = (whole.seconds() / seconds).ceil();
            if pieces > MAX_SEGMENTS as f64 {
                return Err(Error::Segments { path: path.into(), seconds, pieces: pieces as usize });
            }
            Ok(cut(&times, whole, seconds))
        }
        Some(Division::Scenes(scenes)) => {
            let cuts = cuts::find(video, frames, &scenes, progress)?;
            let pieces = at_cuts(&times, whole, &cuts, &scenes);
            if pieces.len() > MAX_SEGMENTS {
                return Err(Error::Scenes { path: path.into(), pieces: pieces.len() });
            }
            Ok(pieces)
        }
    }
}

/// Split `whole` at these cuts, given the times of its frames in order. Scenes with too few frames, and a short last one, are
/// merged into the one before them; long ones are divided evenly.
fn at_cuts(times: &[f64], whole: Span, cuts: &[f64], scenes: &Scenes) -> Vec<Span> {
    let before = |end: f64| times.partition_point(|t| *t < end - ROUNDING_S);
    let frames = |span: &Span| before(span.end) - before(span.start);
    let mut pieces: Vec<Span> = Vec::new();
    let mut start = whole.start;
    for end in cuts.iter().copied().chain([whole.end]) {
        let piece = Span { start, end };
        let is_short = end == whole.end && piece.seconds() < scenes.shortest_s;
        match pieces.last_mut() {
            Some(last) if is_short || frames(&piece) < MIN_FRAMES => last.end = end,
            None if frames(&piece) < MIN_FRAMES && end < whole.end => continue,
            _ => pieces.push(piece),
        }
        start = end;
    }
    let divided = |scene: Span| match (scene.seconds() / scenes.longest_s - ROUNDING_S).ceil() {
        parts if parts > 1.0 => cut(times, scene, scene.seconds() / parts),
        _ => vec![scene],
    };
    pieces.into_iter().flat_map(divided).collect()
}

/// The frames of a part.
/// Errors: it is invalid, outside of the video, or has fewer than two frames.
pub(super) fn frames_of(path: &Path, timeline: &Timeline, span: Span) -> Result<Range<usize>, Error> {
    if !span.is_sound() {
        return Err(Error::Span(span));
    }
    let length_s = timeline.length();
    if span.start >= length_s || span.end > length_s + SLACK_S {
        return Err(Error::Outside { path: path.into(), span, length_s, promised_s: None });
    }
    let frames = timeline.frames(span);
    if timeline.total == 1 {
        return Err(Error::OneFrame(path.into()));
    }
    if frames.len() < MIN_FRAMES {
        return Err(Error::TooShort { path: path.into(), span, frames: frames.len() });
    }
    Ok(frames)
}

/// Split `whole` into segments of `seconds`, given the times of its frames in order. Segments with too few frames grow.
fn cut(times: &[f64], whole: Span, seconds: f64) -> Vec<Span> {
    let before = |end: f64| times.partition_point(|t| *t < end - ROUNDING_S);
    let frames = |span: &Span| before(span.end) - before(span.start);
    let n = (whole.seconds() / seconds).ceil().max(1.0) as usize;
    let mut pieces: Vec<Span> = Vec::new();
    let mut start = whole.start;
    for k in 1..=n {
        let end = if k == n { whole.end } else { whole.start + k as f64 * seconds };
        let piece = Span { start, end };
        if end > start && frames(&piece) >= MIN_FRAMES {
            pieces.push(piece);
            start = end;
        }
    }
    // A remainder, and a last segment that is too short, are merged into the segment before.
    let short = |piece: &Span| piece.seconds() < seconds / 2.0;
    if pieces.len() > 1 && start >= whole.end && pieces.last().is_some_and(short) {
        pieces.pop();
    }
    match pieces.last_mut() {
        Some(last) => last.end = whole.end,
        None => pieces.push(whole),
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn even(seconds: f64, fps: f64) -> (Vec<f64>, Span) {
        ((0..(seconds * fps) as usize).map(|i| i as f64 / fps).collect(), Span { start: 0.0, end: seconds })
    }

    fn ends(seconds: f64, fps: f64, piece: f64) -> Vec<f64> {
        let (times, whole) = even(seconds, fps);
        cut(&times, whole, piece).iter().map(|s| s.end).collect()
    }

    #[test]
    fn a_short_last_segment_is_merged_into_the_one_before() {
        assert_eq!(ends(60.0, 25.0, 20.0), [20.0, 40.0, 60.0]);
        assert_eq!(ends(50.0, 25.0, 20.0), [20.0, 40.0, 50.0], "half a segment is kept");
        assert_eq!(ends(49.0, 25.0, 20.0), [20.0, 49.0]);
        assert_eq!(ends(19.0, 25.0, 20.0), [19.0]);
        assert_eq!(ends(21.0, 25.0, 20.0), [21.0]);
    }

    fn scenes(seconds: f64, cuts: &[f64]) -> Vec<f64> {
        let (times, whole) = even(seconds, 25.0);
        let scenes = Scenes { shortest_s: 2.0, longest_s: 20.0, ..Scenes::default() };
        at_cuts(&times, whole, cuts, &scenes).iter().map(|s| s.end).collect()
    }

    #[test]
    fn scenes_end_at_cuts_and_long_ones_are_divided() {
        assert_eq!(scenes(18.0, &[]), [18.0], "no cuts");
        assert_eq!(scenes(60.0, &[]), [20.0, 40.0, 60.0]);
        assert_eq!(scenes(60.0, &[5.0, 35.0]), [5.0, 20.0, 35.0, 47.5, 60.0]);
        assert_eq!(scenes(10.0, &[4.0, 9.0]), [4.0, 10.0], "a short last scene");
        assert_eq!(scenes(10.0, &[4.0, 4.04, 4.5]), [4.04, 4.5, 10.0], "a scene of one frame");
        assert_eq!(scenes(10.0, &[0.04, 5.0]), [5.0, 10.0]);
    }

    #[test]
    fn segments_grow_at_low_frame_rates() {
        // A frame every ten seconds: segments of five seconds have one or none.
        assert_eq!(ends(60.0, 0.1, 5.0), [15.0, 35.0, 60.0]);
        assert_eq!(ends(10.0, 0.1, 5.0), [10.0], "there is only one frame");
    }

    proptest! {
        #[test]
        fn segments_cover_the_whole_without_gap_or_overlap(
            gaps in prop::collection::vec(0.001f64..3.0, 1..400),
            start in 0.0f64..5.0,
            seconds in 0.05f64..40.0,
        ) {
            let mut now = start;
            let times: Vec<f64> = gaps.iter().map(|gap| { let t = now; now += gap; t }).collect();
            let whole = Span { start, end: now };
            let pieces = cut(&times, whole, seconds);
            prop_assert_eq!(pieces[0].start, whole.start);
            prop_assert_eq!(pieces[pieces.len() - 1].end, whole.end);
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
            }
            let held: Vec<usize> =
                pieces.iter().map(|p| times.iter().filter(|t| p.contains(**t + ROUNDING_S)).count()).collect();
            prop_assert_eq!(held.iter().sum::<usize>(), times.len(), "every frame is in one segment");
            if pieces.len() > 1 {
                prop_assert!(held.iter().all(|n| *n >= MIN_FRAMES), "{:?}", held);
                prop_assert!(pieces.iter().all(|p| p.seconds() >= seconds / 2.0 - 1e-9));
            }
        }
    }
}
