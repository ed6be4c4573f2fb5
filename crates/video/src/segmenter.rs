//! Divides a stream into segments while it is read: which frames of the current one are held, and where it ends. Pure arithmetic.
//!
//! The segments are the same as in a file ([`super::segments`]), as far as that is possible without knowing
//! what follows: the last one may be short, and a scene that is too long is cut at the longest length instead
//! of evenly.

use super::{Division, cuts::Filter, held::Moment, segments::MIN_FRAMES, timeline::ROUNDING_S};
use specreel_record::Span;

/// A segment that has ended.
#[derive(Debug, PartialEq)]
pub(super) struct Ended<T> {
    pub span: Span,
    /// Index of its first frame in the stream.
    pub first: usize,
    /// All its frames, held or not.
    pub total: usize,
    pub frames: Vec<Moment<T>>,
}

pub(super) struct Segmenter<T> {
    ends: Ends,
    /// Where the current segment starts, in seconds.
    start: f64,
    /// Frames of the segments before.
    first: usize,
    current: Thinned<T>,
}

/// Where segments end.
enum Ends {
    /// At multiples of a length; of the current segment, the number of the last one of that length, from 0.
    Even { seconds: f64, last: f64 },
    /// At cuts.
    Scenes { filter: Filter, threshold: f64, longest_s: f64, last_cut: Option<(f64, usize)> },
}

impl<T> Segmenter<T> {
    /// A segmenter of a stream from this time on, which holds at most so many frames of a segment, and one more.
    pub fn new(division: &Division, start: f64, most: usize) -> Self {
        let ends = match *division {
            Division::Even(seconds) => Ends::Even { seconds, last: (start / seconds + ROUNDING_S).floor() },
            Division::Scenes(scenes) => Ends::Scenes {
                filter: Filter::new(scenes.shortest_s),
                threshold: scenes.threshold,
                longest_s: scenes.longest_s,
                last_cut: None,
            },
        };
        Self { ends, start, first: 0, current: Thinned::new(most) }
    }

    /// The next frame at its time, and how much it differs from the one before it. Returns the segment that has ended with it.
    pub fn push(&mut self, at: f64, score: f64, item: T) -> Option<Ended<T>> {
        let end = match &mut self.ends {
            Ends::Even { seconds, last } => {
                let now = ((at + ROUNDING_S) / *seconds).floor();
                let end = (*last + 1.0) * *seconds;
                let is_past = now > *last;
                if is_past {
                    *last = now;
                }
                is_past.then_some((end, self.current.total, now * *seconds))
            }
            Ends::Scenes { filter, threshold, longest_s, last_cut } => {
                let differs = score >= *threshold;
                if differs {
                    *last_cut = Some((at, self.first + self.current.total));
                }
                let cut = filter.push(at, differs).and(*last_cut);
                let longest = self.start + *longest_s;
                match cut.filter(|(cut, _)| *cut > self.start) {
                    Some((cut, index)) => Some((cut, index - self.first, cut)),
                    None if at >= longest - ROUNDING_S => {
                        // Frames may be further apart than that.
                        let is_in = self.current.last().is_none_or(|last| last < longest - ROUNDING_S);
                        let end = if is_in { longest } else { at };
                        let next = if at - end < *longest_s { end } else { at };
                        Some((end, self.current.total, next))
                    }
                    None => None,
                }
            }
        };
        // Of a segment with fewer frames, the end is put off.
        let ended = match end {
            Some((end, frames, next)) if frames >= MIN_FRAMES => Some(self.split(end, frames, next)),
            Some((_, _, next)) if self.current.total == 0 => {
                self.start = next.max(self.start);
                None
            }
            _ => None,
        };
        self.current.push(at, item);
        ended
    }

    /// End the current segment before its frame of this index.
    fn split(&mut self, end: f64, frames: usize, next: f64) -> Ended<T> {
        let span = Span { start: self.start, end };
        let (first, total) = (self.first, frames);
        let frames = self.current.split(frames);
        (self.start, self.first) = (next, first + total);
        Ended { span, first, total, frames }
    }

    /// The last segment, if it has enough frames. The stream ends `frame_s` seconds after its last frame.
    pub fn finish(&mut self, frame_s: f64) -> Option<Ended<T>> {
        let last = self.current.last()?;
        let total = self.current.total;
        let end = match self.ends {
            Ends::Even { seconds, last: cell } => (last + frame_s).min((cell + 1.0) * seconds),
            Ends::Scenes { longest_s, .. } => (last + frame_s).min(self.start + longest_s),
        };
        // A frame at the very end of the longest length begins the next segment.
        (total >= MIN_FRAMES).then(|| self.split(end.max(last + ROUNDING_S), total, end))
    }

    /// Frames that are held.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.current.kept.len() + usize::from(self.current.latest.is_some())
    }
}

/// Frames of a segment, thinned to half whenever there are too many; the latest one is always there.
struct Thinned<T> {
    most: usize,
    /// Every so many frames, one is kept.
    stride: usize,
    kept: Vec<Moment<T>>,
    latest: Option<Moment<T>>,
    /// All frames.
    total: usize,
}

impl<T> Thinned<T> {
    fn new(most: usize) -> Self {
        Self { most: most.max(MIN_FRAMES), stride: 1, kept: Vec::new(), latest: None, total: 0 }
    }

    fn push(&mut self, at: f64, item: T) {
        let frame = Moment { index: self.total, at, item };
        self.total += 1;
        if self.kept.last().is_some_and(|last| frame.index < last.index + self.stride) {
            self.latest = Some(frame);
            return;
        }
        self.latest = None;
        self.kept.push(frame);
        if self.kept.len() > self.most {
            self.stride *= 2;
            let mut odd = false;
            let last = self.kept.len() - 1;
            if last % 2 == 1 {
                self.latest = self.kept.pop();
            }
            self.kept.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    fn last(&self) -> Option<f64> {
        self.latest.as_ref().or(self.kept.last()).map(|frame| frame.at)
    }

    /// Take the frames before this index; the others are renumbered from 0.
    fn split(&mut self, index: usize) -> Vec<Moment<T>> {
        let mut frames = std::mem::take(&mut self.kept);
        frames.extend(self.latest.take());
        let mut rest = frames.split_off(frames.partition_point(|frame| frame.index < index));
        rest.iter_mut().for_each(|frame| frame.index -= index);
        *self = Self { total: self.total - index, kept: rest, ..Self::new(self.most) };
        frames
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Scenes;

    const SCENES: Scenes = Scenes { threshold: 27.0, shortest_s: 1.0, longest_s: 6.0 };

    /// The segments of frames at these times, of which some begin after a cut.
    fn ended(division: Division, start: f64, times: &[f64], cuts: &[f64]) -> Vec<Ended<f64>> {
        let mut segmenter = Segmenter::new(&division, start, 1000);
        let score = |at: f64| if cuts.contains(&at) { 100.0 } else { 0.0 };
        let mut all: Vec<_> = times.iter().filter_map(|at| segmenter.push(*at, score(*at), *at)).collect();
        all.extend(segmenter.finish(0.1));
        all
    }

    fn ends(division: Division, start: f64, times: &[f64], cuts: &[f64]) -> Vec<[f64; 2]> {
        let rounded = |s: f64| (s * 1000.0).round() / 1000.0;
        ended(division, start, times, cuts)
            .iter()
            .map(|e| [rounded(e.span.start), rounded(e.span.end)])
            .collect()
    }

    /// Ten frames a second.
    fn tenths(from: usize, to: usize) -> Vec<f64> {
        (from..to).map(|i| i as f64 / 10.0).collect()
    }

    #[test]
    fn even_segments_end_at_multiples_of_their_length() {
        let even = |start, times: &[f64]| ends(Division::Even(2.0), start, times, &[]);
        assert_eq!(even(0.0, &tenths(0, 45)), [[0.0, 2.0], [2.0, 4.0], [4.0, 4.5]]);
        assert_eq!(even(0.0, &tenths(0, 41)), [[0.0, 2.0], [2.0, 4.0]], "one frame is no segment");
        assert_eq!(even(1.3, &tenths(13, 40)), [[1.3, 2.0], [2.0, 4.0]], "continued");
        assert_eq!(even(0.0, &[0.0, 5.0, 10.0, 15.0, 20.0]), [[0.0, 6.0], [10.0, 16.0]], "a low rate");
        let gap = [tenths(0, 20), tenths(90, 100)].concat();
        assert_eq!(even(0.0, &gap), [[0.0, 2.0], [8.0, 10.0]], "nothing is shown for a while");
    }

    #[test]
    fn scenes_end_at_cuts_and_at_the_longest_length() {
        let scenes = |times: &[f64], cuts: &[f64]| ends(Division::Scenes(SCENES), 0.0, times, cuts);
        assert_eq!(scenes(&tenths(0, 50), &[2.0]), [[0.0, 2.0], [2.0, 5.0]]);
        assert_eq!(scenes(&tenths(0, 150), &[]), [[0.0, 6.0], [6.0, 12.0], [12.0, 15.0]]);
        let burst = scenes(&tenths(0, 60), &[2.0, 2.2, 2.9, 3.6]);
        assert_eq!(burst, [[0.0, 2.0], [2.0, 3.6], [3.6, 6.0]], "a cut that is known later");
    }

    #[test]
    fn a_cut_that_is_known_later_takes_its_frames_along() {
        let all = ended(Division::Scenes(SCENES), 0.0, &tenths(0, 60), &[2.0, 2.2, 2.9, 3.6]);
        let found: Vec<_> = all.iter().map(|e| (e.first, e.total, e.frames.len(), e.frames[0].at)).collect();
        assert_eq!(found, [(0, 20, 20, 0.0), (20, 16, 16, 2.0), (36, 24, 24, 3.6)]);
    }

    #[test]
    fn a_long_segment_holds_few_frames_evenly_spread() {
        let mut segmenter = Segmenter::new(&Division::Even(1e6), 0.0, 16);
        for i in 0..100_000 {
            segmenter.push(i as f64, 0.0, ());
            assert!(segmenter.held() <= 17, "{} frames after {i}", segmenter.held());
        }
        let frames = segmenter.finish(1.0).unwrap().frames;
        assert!((9..=17).contains(&frames.len()), "{}", frames.len());
        let gaps: Vec<usize> = frames.windows(2).map(|pair| pair[1].index - pair[0].index).collect();
        assert!(gaps[..gaps.len() - 1].iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
        assert_eq!((frames[0].index, frames[frames.len() - 1].index), (0, 99_999));
    }

    proptest! {
        #[test]
        fn no_frame_is_lost_and_segments_do_not_overlap(
            gaps in prop::collection::vec((0.01f64..2.0, prop::bool::weighted(0.2)), 2..300),
            even in prop::bool::ANY,
        ) {
            let mut segmenter = Segmenter::new(
                &if even { Division::Even(3.0) } else { Division::Scenes(SCENES) }, 0.0, 8);
            let mut at = 0.0;
            let mut all = Vec::new();
            for (gap, cut) in &gaps {
                all.extend(segmenter.push(at, if *cut { 100.0 } else { 0.0 }, ()));
                at += gap;
            }
            let count: usize = all.iter().map(|e| e.total).sum();
            prop_assert_eq!(count + segmenter.current.total, gaps.len());
            all.extend(segmenter.finish(0.1));
            for pair in all.windows(2) {
                prop_assert!(pair[0].span.end <= pair[1].span.start);
                prop_assert_eq!(pair[0].first + pair[0].total, pair[1].first);
            }
            for e in &all {
                prop_assert!(e.total >= MIN_FRAMES && (2..=9).contains(&e.frames.len()) && e.span.is_sound());
                let inside = e.frames.iter().all(|f| e.span.contains(f.at + ROUNDING_S));
                prop_assert!(inside, "{:?}", e);
            }
        }
    }
}
