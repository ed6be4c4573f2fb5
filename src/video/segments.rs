//! Parts of a video: which frames a span holds, and a long video cut into pieces that are captioned one by one.
//!
//! The pieces of a video follow each other without gap or overlap from where it begins to where it ends, and each holds
//! two frames at least, also where frames come seldom. A last piece shorter than half of the others belongs to the one
//! before it.

use std::{ops::Range, path::Path};

use super::{
    Error,
    decode::truncation,
    source::Source,
    timeline::{ROUNDING_S, Timeline},
};
use crate::record::Span;

/// More pieces are not captioned.
pub const MAX_SEGMENTS: usize = 1000;

/// An end may be asked for that lies so many seconds behind the video's own: players show rounded times.
const SLACK_S: f64 = 1.0;

/// A part that the models are to see holds at least so many frames.
const LEAST_FRAMES: usize = 2;

/// A video from `start` (its beginning) to `end` (its end) in pieces of `seconds`; without a length in one piece.
///
/// # Errors
/// Those of [`probe`](fn@super::probe), a part that is none, lies outside the video or is too short, a length that is none or
/// makes more than [`MAX_SEGMENTS`] pieces.
pub fn segments(
    path: &Path,
    start: Option<f64>,
    end: Option<f64>,
    seconds: Option<f64>,
) -> Result<Vec<Span>, Error> {
    let mut source = Source::open(path)?;
    let timeline = Timeline::of(&mut source)?;
    let length = timeline.length();
    let whole =
        Span { start: start.unwrap_or(0.0), end: end.unwrap_or(length.max(start.unwrap_or(0.0) + 1.0)) };
    let promised_s = truncation(&source, &timeline).and_then(|_| source.duration_s());
    let frames = frames_of(path, &timeline, whole).map_err(|error| match error {
        Error::Outside { path, span, length_s, .. } => Error::Outside { path, span, length_s, promised_s },
        other => other,
    })?;
    let whole = Span { end: whole.end.min(length), ..whole };
    let Some(seconds) = seconds else { return Ok(vec![whole]) };
    let piece = Span { start: 0.0, end: seconds };
    if !piece.is_sound() {
        return Err(Error::Span(piece));
    }
    let pieces = (whole.seconds() / seconds).ceil();
    if pieces > MAX_SEGMENTS as f64 {
        return Err(Error::Segments { path: path.into(), seconds, pieces: pieces as usize });
    }
    let times: Vec<f64> = frames.map(|i| timeline.seconds(i)).collect();
    Ok(cut(&times, whole, seconds))
}

/// The frames of a part.
///
/// # Errors
/// It is none, lies outside the video, or holds fewer than two frames.
pub(super) fn frames_of(path: &Path, timeline: &Timeline, span: Span) -> Result<Range<usize>, Error> {
    if !span.is_sound() {
        return Err(Error::Span(span));
    }
    let length_s = timeline.length();
    if span.start >= length_s || span.end > length_s + SLACK_S {
        return Err(Error::Outside { path: path.into(), span, length_s, promised_s: None });
    }
    let frames = timeline.frames(span);
    if frames.len() < LEAST_FRAMES {
        return Err(Error::TooShort { path: path.into(), span, frames: frames.len() });
    }
    Ok(frames)
}

/// `whole` in pieces of `seconds`, given the times of its frames in order. Pieces with too few frames grow.
fn cut(times: &[f64], whole: Span, seconds: f64) -> Vec<Span> {
    let before = |end: f64| times.partition_point(|t| *t < end - ROUNDING_S);
    let frames = |span: &Span| before(span.end) - before(span.start);
    let n = (whole.seconds() / seconds).ceil().max(1.0) as usize;
    let mut pieces: Vec<Span> = Vec::new();
    let mut start = whole.start;
    for k in 1..=n {
        let end = if k == n { whole.end } else { whole.start + k as f64 * seconds };
        let piece = Span { start, end };
        if end > start && frames(&piece) >= LEAST_FRAMES {
            pieces.push(piece);
            start = end;
        }
    }
    // What is left over, and a last piece that is too short, go to the one before.
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
    fn a_short_last_piece_belongs_to_the_one_before() {
        assert_eq!(ends(60.0, 25.0, 20.0), [20.0, 40.0, 60.0]);
        assert_eq!(ends(50.0, 25.0, 20.0), [20.0, 40.0, 50.0], "half a piece is one");
        assert_eq!(ends(49.0, 25.0, 20.0), [20.0, 49.0]);
        assert_eq!(ends(19.0, 25.0, 20.0), [19.0]);
        assert_eq!(ends(21.0, 25.0, 20.0), [21.0]);
    }

    #[test]
    fn where_frames_are_seldom_pieces_are_longer() {
        // A frame every ten seconds: pieces of five seconds hold one or none.
        assert_eq!(ends(60.0, 0.1, 5.0), [15.0, 35.0, 60.0]);
        assert_eq!(ends(10.0, 0.1, 5.0), [10.0], "one frame is all there is");
    }

    proptest! {
        #[test]
        fn pieces_cover_the_whole_without_gap_or_overlap(
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
            prop_assert_eq!(held.iter().sum::<usize>(), times.len(), "every frame is in one piece");
            if pieces.len() > 1 {
                prop_assert!(held.iter().all(|n| *n >= LEAST_FRAMES), "{:?}", held);
                prop_assert!(pieces.iter().all(|p| p.seconds() >= seconds / 2.0 - 1e-9));
            }
        }
    }
}
