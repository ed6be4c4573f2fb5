//! One clock for a whole file: time stamps that start again, jump or go back are joined.
//!
//! Parts of MPEG-TS files that were appended to each other, and recordings in which the sender restarted, have several clocks.
//! Their packets still follow each other in the file, so each part begins a frame after the last one ends, as players show it.
//! Decode times decide, as they increase within a part; [`Clock`] is a pure machine over them.

/// How far before the expected one a decode time starts a new part, in seconds and frames, in formats that may have several clocks,
/// and in others.
const BACK: (f64, i64) = (0.25, 6);
const BACK_ELSEWHERE: (f64, i64) = (1.0, 20);

/// As above where decode times are unknown: frames may be stored in another order than shown.
const BACK_SHOWN: (f64, i64) = (5.0, 20);

/// A stamp this many seconds after the expected one starts a new part, in formats that may have several clocks; as FFmpeg's tool.
const AHEAD_S: f64 = 10.0;

/// Where a new part begins. All values are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Join {
    /// The last stamp of the part before, and the first one of the new part, as they are in the file.
    pub before: i64,
    pub after: i64,
    /// Ticks to add to the stamps of the new part.
    pub shift: i64,
}

impl Join {
    /// When the new part begins, on the joined clock.
    pub fn at(self) -> i64 {
        self.after.saturating_add(self.shift)
    }
}

/// Puts the packets of a stream, in the order of the file, on one clock.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    ticks_per_s: f64,
    /// The format may have several clocks, of which the container knows nothing.
    may_jump: bool,
    /// Ticks of a frame where packets do not state their own.
    frame: i64,
    /// The last decode time and the latest time stamp of this part, as they are in the file.
    last_dts: Option<i64>,
    last_pts: Option<i64>,
    shift: i64,
    joins: Vec<Join>,
}

impl Clock {
    /// A clock of a stream with this many seconds per tick and frames per second.
    pub fn new(tick: f64, fps: f64, may_jump: bool) -> Self {
        let ticks_per_s = 1.0 / tick;
        let frame = (ticks_per_s / fps) as i64;
        Self { ticks_per_s, may_jump, frame, last_dts: None, last_pts: None, shift: 0, joins: Vec::new() }
    }

    /// Ticks to add to the stamps of the next packet, of which `duration` is 0 where it is unknown.
    pub fn shift(&mut self, dts: Option<i64>, pts: Option<i64>, duration: i64) -> i64 {
        let back = if self.may_jump { BACK } else { BACK_ELSEWHERE };
        // Like is compared with like.
        let known = [(self.last_dts, dts, back), (self.last_pts, pts, BACK_SHOWN)];
        let step = known.into_iter().find_map(|(last, now, back)| Some((last?, now?, back)));
        if let Some((last, now, (back_s, back_frames))) = step {
            let frames = |count: i64| self.frame.saturating_mul(count);
            let off = now.saturating_sub(last.saturating_add(self.frame));
            let is_back = now < last && off < -self.ticks(back_s).max(frames(back_frames));
            // Frames may be ten seconds apart.
            if is_back || self.may_jump && off > self.ticks(AHEAD_S).max(frames(4)) {
                self.shift = self.shift.saturating_sub(off);
                self.joins.push(Join { before: last, after: now, shift: self.shift });
                (self.last_dts, self.last_pts) = (None, None);
            }
        }
        self.last_dts = dts.or(self.last_dts);
        self.last_pts = pts.max(self.last_pts);
        if duration > 0 {
            self.frame = duration;
        }
        self.shift
    }

    /// The reader has moved: what comes next is no new part.
    pub fn moved(&mut self) {
        (self.last_dts, self.last_pts) = (None, None);
    }

    /// Where new parts began so far.
    pub fn joins(&self) -> &[Join] {
        &self.joins
    }

    fn ticks(&self, seconds: f64) -> i64 {
        (seconds * self.ticks_per_s) as i64
    }
}

/// A note for the user: where parts were joined, in seconds from the beginning of the file. `None` if there
/// are no joins.
pub(super) fn note(joined_s: &[f64]) -> Option<String> {
    let first = specreel_record::clock(*joined_s.first()?);
    Some(match joined_s.len() {
        1 => format!("the time stamps restart or jump at {first}; the parts are joined on one clock"),
        n => format!(
            "the time stamps restart or jump at {n} places, first at {first}; the parts are joined on one clock"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The joined times of these decode times, at 25 frames a second and 1,000 ticks.
    fn joined(may_jump: bool, stamps: &[i64]) -> (Vec<i64>, usize) {
        let mut clock = Clock::new(1e-3, 25.0, may_jump);
        let at = stamps.iter().map(|&dts| dts + clock.shift(Some(dts), Some(dts + 80), 40)).collect();
        (at, clock.joins().len())
    }

    #[test]
    fn parts_follow_each_other_a_frame_apart() {
        type Case<'a> = (&'a str, bool, &'a [i64], &'a [i64], usize);
        let table: [Case<'_>; 7] = [
            ("one part", true, &[0, 40, 80, 120], &[0, 40, 80, 120], 0),
            ("starts again", true, &[1800, 1840, 1880, 1400, 1440], &[1800, 1840, 1880, 1920, 1960], 1),
            ("goes back", true, &[90_000, 90_040, 13, 53, 93], &[90_000, 90_040, 90_080, 90_120, 90_160], 1),
            ("jumps ahead", true, &[0, 40, 3_600_000, 3_600_040], &[0, 40, 80, 120], 1),
            ("a real gap", true, &[0, 40, 5_000, 5_040], &[0, 40, 5_000, 5_040], 0),
            ("elsewhere gaps are real", false, &[0, 40, 60_000, 60_040], &[0, 40, 60_000, 60_040], 0),
            ("twice", true, &[0, 40, 900_000, 900_040, 0, 40], &[0, 40, 80, 120, 160, 200], 2),
        ];
        for (name, may_jump, stamps, want, joins) in table {
            assert_eq!(joined(may_jump, stamps), (want.to_vec(), joins), "{name}");
        }
    }

    #[test]
    fn small_steps_back_are_no_new_part() {
        assert_eq!(joined(true, &[0, 40, 30, 80]).1, 0);
        assert_eq!(
            joined(true, &[0, 40, 80, 120, 40, 80, 120, 160]).1,
            0,
            "as FFmpeg reads MPEG-PS from a pipe"
        );
        assert_eq!(joined(false, &[0, 400, 800, 100, 1200]).1, 0, "another order than shown");
        assert_eq!(joined(false, &[0, 40, 5000, 5040, 0, 40]).1, 1, "appended parts in any format");
        let mut clock = Clock::new(1e-3, 25.0, true);
        for (dts, pts) in
            [(Some(0), 120), (None, 40), (None, 80), (Some(120), 240), (None, 160), (Some(200), 200)]
        {
            assert_eq!(clock.shift(dts, Some(pts), 40), 0, "decode times of some frames only");
        }
    }

    #[test]
    fn frames_may_be_far_apart() {
        let mut clock = Clock::new(1e-3, 0.1, true);
        let at: Vec<i64> = [0, 10_000, 20_000, 45_000].map(|t| t + clock.shift(Some(t), None, 0)).into();
        assert_eq!((at, clock.joins().len()), (vec![0, 10_000, 20_000, 45_000], 0));
        let mut clock = Clock::new(1e-3, 25.0, true);
        let stamps = [(None, 2960), (None, 4560), (Some(2960), 3480), (Some(3480), 4040), (Some(4040), 5680)];
        for (dts, pts) in stamps {
            assert_eq!(clock.shift(dts, Some(pts), 40), 0, "after a seek");
        }
        let mut clock = Clock::new(1e-3, 1.0 / 60.0, false);
        for minute in [0, 4, 2, 1, 3, 8, 6, 5, 7] {
            assert_eq!(clock.shift(None, Some(minute * 60_000), 0), 0, "minute {minute}");
        }
    }

    #[test]
    fn without_decode_times_frames_may_be_reordered() {
        let mut clock = Clock::new(1e-3, 25.0, true);
        let stamps = [0, 160, 80, 40, 120, 320, 240, 200, 280, 9_000, 0, 160, 80];
        let at: Vec<i64> = stamps.map(|t| t + clock.shift(None, Some(t), 40)).into();
        assert_eq!(clock.joins(), [Join { before: 9_000, after: 0, shift: 9_040 }]);
        assert_eq!(at[9..], [9_000, 9_040, 9_200, 9_120]);
    }

    #[test]
    fn extreme_stamps_do_not_overflow() {
        for stamps in [[i64::MIN + 1, i64::MAX, i64::MIN + 1], [i64::MAX, i64::MIN + 1, i64::MAX]] {
            let mut clock = Clock::new(1e-6, 1000.0, true);
            for stamp in stamps {
                clock.shift(Some(stamp), None, i64::MAX);
            }
        }
    }

    #[test]
    fn the_note_says_where() {
        assert_eq!(note(&[]), None);
        assert!(note(&[4.0]).unwrap().contains("at 0:04;"));
        assert!(note(&[4.0, 65.0]).unwrap().contains("2 places, first at 0:04"));
    }
}
