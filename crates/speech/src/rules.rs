//! Which tokens may come next: Whisper's rules of times (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak
//! Supervision", and its code). A line is text between two times, times never decrease, and the first is within the first second.

use std::ops::Range;

use specreel_record::Span;

/// Resolution of the time tokens, in seconds.
pub const TICK_S: f64 = 0.02;

/// The tokens with a meaning of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Ids {
    /// Ends a text.
    pub end: u32,
    /// Says that times are not wanted.
    pub no_times: u32,
    /// Times: 0 to 30 seconds in steps of [`TICK_S`].
    pub times: Range<u32>,
    /// The last time with which a text may begin, in ticks.
    pub latest_beginning: u32,
    /// Tokens that are never written.
    pub never: Vec<u32>,
    /// Tokens with which no text begins.
    pub not_first: Vec<u32>,
}

impl Ids {
    /// Rule out the tokens that must not follow these, by logits of negative infinity.
    pub fn apply(&self, written: &[u32], logits: &mut [f32]) {
        let mut forbid = |ids: Range<u32>| {
            let end = (ids.end as usize).min(logits.len());
            logits[(ids.start as usize).min(end)..end].fill(f32::NEG_INFINITY);
        };
        let one = |id: u32| id..id + 1;
        self.never.iter().for_each(|id| forbid(one(*id)));
        forbid(one(self.no_times));
        let is_time = |id: &u32| self.times.contains(id);
        let last_is_time = written.last().is_some_and(is_time);
        let one_before = written.len().checked_sub(2).is_none_or(|at| is_time(&written[at]));
        match written.iter().rfind(|id| is_time(id)) {
            None => {
                // A text begins with a time.
                self.not_first.iter().for_each(|id| forbid(one(*id)));
                forbid(0..self.times.start);
                forbid(self.times.start + self.latest_beginning + 1..self.times.end);
            }
            Some(last) => {
                if last_is_time && one_before {
                    // After a line's end and the next one's beginning: text.
                    forbid(self.times.clone());
                } else if last_is_time {
                    // After a line's end: the next one's beginning, or nothing.
                    forbid(0..self.end);
                }
                // A line takes some time; the next one may begin where it ends.
                let earliest = if last_is_time && !one_before { *last } else { last + 1 };
                forbid(self.times.start..earliest);
            }
        }
        // A time comes next if all times together are likelier than the likeliest text.
        let (text, times) = logits.split_at(logits.len().min(self.times.start as usize));
        let largest = times.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let all = largest + times.iter().map(|logit| (logit - largest).exp()).sum::<f32>().ln();
        if all > text.iter().copied().fold(f32::NEG_INFINITY, f32::max) {
            logits[..self.times.start as usize].fill(f32::NEG_INFINITY);
        }
    }

    /// The lines in a window's tokens, with their times in seconds from the start of the window, and the time at which the next window
    /// starts. `length_s` is the length of the window.
    pub fn lines<'a>(&self, ids: &'a [u32], length_s: f64) -> (Vec<(Span, &'a [u32])>, f64) {
        let is_time = |id: &u32| self.times.contains(id);
        let seconds = |id: u32| f64::from(id - self.times.start) * TICK_S;
        // Two times in a row end one line and start the next.
        let mut ends: Vec<usize> =
            (1..ids.len()).filter(|&at| is_time(&ids[at - 1]) && is_time(&ids[at])).collect();
        let ends_with_one = match ids {
            [.., before, last] => is_time(last) && !is_time(before),
            _ => false,
        };
        if ends.is_empty() {
            // One line; it ends with its last time, if there is one besides its first.
            let end = ids.iter().rfind(|id| is_time(id)).map(|id| seconds(*id)).filter(|end| *end > 0.0);
            let span = Span { start: 0.0, end: end.unwrap_or(length_s).min(length_s) };
            return (vec![(span, ids)], length_s);
        }
        if ends_with_one {
            ends.push(ids.len());
        }
        let (mut lines, mut from) = (Vec::new(), 0);
        for end in ends {
            let line = &ids[from..end];
            if let (Some(first), Some(last)) = (line.first().filter(|id| is_time(id)), line.last()) {
                lines.push((Span { start: seconds(*first), end: seconds(*last).min(length_s) }, line));
            }
            from = end;
        }
        // What follows the last line is heard again, unless nothing does.
        let next = if ends_with_one { length_s } else { seconds(ids[from - 1]) };
        (lines, if next > 0.0 { next } else { length_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text 0..10, the end 10, no times 11, times 12..=62: 0 to 1 second.
    fn ids() -> Ids {
        Ids {
            end: 10,
            no_times: 11,
            times: 12..63,
            latest_beginning: 5,
            never: vec![3],
            not_first: vec![4, 10],
        }
    }

    fn allowed(written: &[u32], logits: &[f32]) -> Vec<u32> {
        let mut logits = logits.to_vec();
        ids().apply(written, &mut logits);
        (0..).zip(logits).filter(|(_, logit)| logit.is_finite()).map(|(id, _)| id).collect()
    }

    #[test]
    fn text_stands_between_times_that_do_not_go_back() {
        // A text is likelier than all times together.
        let mut logits = [0.0; 63];
        logits[..11].fill(9.0);
        let range = |range: Range<u32>| range.collect::<Vec<u32>>();
        assert_eq!(allowed(&[], &logits), range(12..18), "a text begins with an early time");
        let text: Vec<u32> = (0..11).filter(|id| *id != 3).collect();
        assert_eq!(allowed(&[14], &logits), text, "text follows the first time");
        let with_times = [text.clone(), range(15..63)].concat();
        assert_eq!(allowed(&[14, 1], &logits), with_times, "text, or the end of the line, which takes time");
        assert_eq!(
            allowed(&[14, 1, 20], &logits),
            [vec![10], range(20..63)].concat(),
            "another line, or nothing"
        );
        assert_eq!(allowed(&[14, 1, 20, 20], &logits), text, "text follows the beginning of a line");
        assert_eq!(allowed(&[14, 1, 20, 20, 2], &logits), [text, range(21..63)].concat());
    }

    #[test]
    fn a_time_is_written_where_times_together_are_likelier_than_any_text() {
        let mut logits = [0.0; 63];
        logits[..11].fill(3.0);
        // 48 times with a logit of 0 weigh ln 48 = 3.87.
        assert_eq!(allowed(&[14, 1], &logits), (15..63).collect::<Vec<u32>>());
        logits[2] = 3.9;
        assert!(allowed(&[14, 1], &logits).contains(&2));
    }

    #[test]
    fn lines_are_between_pairs_of_times() {
        let ids = ids();
        let lines = |written: &[u32]| {
            let (lines, next) = ids.lines(written, 1.0);
            let round = |s: f64| (s * 100.0).round() as i64;
            let lines: Vec<_> = lines
                .into_iter()
                .map(|(span, ids)| (round(span.start), round(span.end), ids.to_vec()))
                .collect();
            (lines, round(next))
        };
        let one = (4, 16, vec![14, 1, 20]);
        assert_eq!(
            lines(&[14, 1, 20, 22, 2, 30]),
            (vec![one.clone(), (20, 36, vec![22, 2, 30])], 100),
            "all was heard"
        );
        assert_eq!(lines(&[14, 1, 20, 22, 2]), (vec![one.clone()], 16), "a cut line is heard again");
        assert_eq!(lines(&[14, 1, 20, 20]), (vec![one], 16));
        assert_eq!(lines(&[14, 1, 20]), (vec![(0, 16, vec![14, 1, 20])], 100));
        assert_eq!(lines(&[12, 1]), (vec![(0, 100, vec![12, 1])], 100), "without an end");
        assert_eq!(lines(&[]), (vec![(0, 100, vec![])], 100));
    }
}
