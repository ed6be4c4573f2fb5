//! Maps frames to time stamps and back.
//!
//! Frame n is the n-th in presentation order, at any rate: at a variable frame rate, even spacing counts
//! frames, as in the models' own loaders, and the time stamps are the real ones. How a decoded frame is identified depends on
//! the file:
//!
//! * usually, all packets are read without decoding, so every time stamp is known, also at a variable rate;
//! * in a very large file of constant rate with a consistent header, frame n is shown at n / fps;
//! * time stamps that restart or jump are joined ([`super::clock`]), and nothing is skipped, as seeks would be ambiguous;
//! * without usable time stamps (raw streams), frames are counted as they are decoded, and nothing can be skipped.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use ffmpeg_next::frame;

use super::{
    Error,
    clock::Join,
    packet::stamp_of,
    source::{FALLBACK_FPS, Source},
};
use specreel_record::Span;

/// Files up to this size, in bytes, are read through for exact time stamps.
const READ_THROUGH_BYTES: u64 = 1 << 29;

/// Seconds after which a file's modification time distinguishes its states.
const SETTLED_S: u64 = 2;

/// A frame this little before a time, in seconds, counts as shown at that time: time stamps are rounded to ticks.
pub(super) const ROUNDING_S: f64 = 1e-6;

/// Fewest frames that a seek must skip to be worthwhile.
const MIN_SEEK: usize = 16;

/// Packets that are decoded to find the first frame that is shown: groups of pictures are seldom longer.
const MAX_LEADING: usize = 1000;

/// A file with fewer frames than its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Frames in the header, or in the plan.
    pub promised: usize,
    /// Frames that could be read.
    pub found: usize,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the header promises {} frames, only {} could be read", self.promised, self.found)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timeline {
    pub total: usize,
    /// Further packets that are empty (repeat the frame before) or show no frame; headers count them too.
    pub(crate) silent: usize,
    /// Frames per second, for the sampling rule.
    pub fps: f64,
    /// Seconds per tick.
    pub tick: f64,
    /// When the first frame is shown, in seconds from the beginning of the file.
    lead_s: f64,
    /// Where time stamps restarted or jumped, and were joined.
    pub joins: Vec<Join>,
    kind: Kind,
}

/// The last file that was read through: the segments of a long video are opened one after another.
static LAST: Mutex<Option<(FileId, Timeline)>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in a state: one with the same path, size and time was not written since.
#[derive(Clone, Debug, PartialEq)]
struct FileId {
    path: PathBuf,
    bytes: u64,
    stream: usize,
    modified: SystemTime,
}

impl FileId {
    fn of(source: &Source) -> Option<Self> {
        let Source { path, stream, .. } = source;
        let facts = std::fs::metadata(path).ok()?;
        let modified = facts.modified().ok()?;
        // The modification time of a file that was just written may not distinguish two states.
        modified.elapsed().ok().filter(|age| age.as_secs() >= SETTLED_S)?;
        Some(Self { path: path.clone(), bytes: facts.len(), stream: *stream, modified })
    }
}

/// A keyframe: its time stamp, and the one to seek to. MPEG-TS is searched by decode times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    shown: i64,
    seek: i64,
}

/// What is known of a packet that shows a frame: its time stamp, and for a keyframe the one to seek to.
type Known = (Option<i64>, Option<i64>);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Time stamps of all frames, increasing, and the keyframes among them.
    Exact {
        stamps: Vec<i64>,
        keys: Vec<Key>,
    },
    /// Constant rate from this time stamp on, this many ticks a frame.
    Constant {
        start: i64,
        step: f64,
    },
    Counted,
}

impl Timeline {
    /// Build the timeline of a file, reading its packets unless it is too large. Afterwards the source is reopened and so back
    /// at its first packet: not every container can seek to its beginning.
    pub fn of(source: &mut Source) -> Result<Self, Error> {
        let tick = source.tick();
        let fps = source.fps();
        let start = source.video().map(|s| s.start_time()).filter(|&t| t != ffmpeg_next::ffi::AV_NOPTS_VALUE);
        let trusted = source.promise_is_consistent() && source.is_constant_rate();
        if let (true, Some(total), Some(fps), Some(start)) = (trusted, source.promised_frames(), fps, start)
            && source.bytes > READ_THROUGH_BYTES
        {
            let kind = Kind::Constant { start, step: 1.0 / (fps * tick) };
            return Ok(Self { lead_s: source.since_start(start), ..Self::new(total, fps, tick, kind) });
        }
        let id = FileId::of(source);
        if let Some(id) = &id
            && let Some((last, timeline)) = &*lock(&LAST)
            && last == id
        {
            return Ok(timeline.clone());
        }
        let timeline = Self::read_through(source, fps, tick);
        *source = source.reopen()?;
        // A file that grew meanwhile is another one.
        if let Some(id) = id.filter(|id| FileId::of(source).as_ref() == Some(id)) {
            *lock(&LAST) = Some((id, timeline.clone()));
        }
        Ok(timeline)
    }

    /// Read all packets. Nothing is decoded, unless the file may begin with frames that no decoder shows.
    fn read_through(source: &mut Source, fps: Option<f64>, tick: f64) -> Self {
        let mut packets = Vec::new();
        let mut cut = false;
        let (mut hidden, mut begins_with_key) = (0, None);
        // Where frames are reordered, decode times do not say when they are shown.
        let is_reordered = source.is_reordered();
        while let Some(packet) = source.next_packet() {
            cut = packet.is_corrupt();
            begins_with_key.get_or_insert(packet.is_key());
            if source.shows(&packet) {
                let stamp = packet.pts().or(packet.dts().filter(|_| !is_reordered));
                let seek = packet.dts().filter(|_| source.may_jump()).or(stamp);
                packets.push((stamp, seek.filter(|_| packet.is_key())));
            } else {
                hidden += 1;
            }
        }
        if cut {
            packets.pop(); // The file ends within this packet.
        }
        let line = Self::from_packets(&packets, fps, tick);
        // Recordings may begin within a group of pictures, whose frames cannot be decoded.
        let has_leading = packets.first().is_some_and(|(key, _)| line.stamp(0) < *key);
        let is_unsure = begins_with_key == Some(false) || has_leading;
        let shown = if is_unsure { first_shown(source) } else { None };
        let line = match shown.filter(|shown| line.stamp(0).is_some_and(|first| first < *shown)) {
            Some(shown) => {
                let before = packets.len();
                packets.retain(|(stamp, _)| stamp.is_none_or(|stamp| stamp >= shown));
                hidden += before - packets.len();
                Self::from_packets(&packets, fps, tick)
            }
            None => line,
        };
        Self {
            silent: hidden + source.empty_packets,
            lead_s: line.stamp(0).map_or_else(|| source.lead_s(), |first| source.since_start(first)),
            joins: source.clock.joins().to_vec(),
            ..line
        }
    }

    fn new(total: usize, fps: f64, tick: f64, kind: Kind) -> Self {
        Self { total, silent: 0, fps, tick, lead_s: 0.0, joins: Vec::new(), kind }
    }

    /// From the packets in the order of the file.
    fn from_packets(packets: &[Known], fps: Option<f64>, tick: f64) -> Self {
        let total = packets.len();
        let mut stamps: Vec<i64> = packets.iter().filter_map(|p| p.0).collect();
        stamps.sort_unstable();
        let unique = stamps.windows(2).all(|w| w[0] < w[1]);
        // A stated rate far from the real one is the container's clock rate, not the frame rate.
        let real = rate(&stamps, tick);
        let near = |fps: &f64| real.is_none_or(|real| (0.5..2.0).contains(&(fps / real)));
        let fps = fps.filter(near).or(real).unwrap_or(FALLBACK_FPS);
        let kind = if stamps.len() == total && unique {
            let key = |(shown, seek): &Known| Some(Key { shown: (*shown)?, seek: (*seek)? });
            let mut keys: Vec<Key> = packets.iter().filter_map(key).collect();
            keys.sort_unstable();
            Kind::Exact { stamps, keys }
        } else {
            Kind::Counted
        };
        Self::new(total, fps, tick, kind)
    }

    /// Detects a header that promises more frames than the file has. AVI headers count chunks that only repeat a frame; a
    /// header whose rate differs from the real one is not trusted for its count either.
    pub(crate) fn truncation(&self, source: &Source) -> Option<Truncated> {
        let (promised, found) = (source.promised_frames()?, self.total);
        let short = promised > found + self.silent + 2;
        let trusted = source.promise_is_consistent() && source.fps() == Some(self.fps);
        (trusted && short).then_some(Truncated { promised, found })
    }

    /// True if frames can only be reached one after another.
    pub(crate) fn is_sequential(&self) -> bool {
        self.kind == Kind::Counted || !self.joins.is_empty()
    }

    /// Where parts were joined, in seconds from the beginning of the file.
    pub fn joined_s(&self) -> Vec<f64> {
        let first = self.stamp(0).unwrap_or_default();
        self.joins.iter().map(|join| self.lead_s + (join.at() - first) as f64 * self.tick).collect()
    }

    /// True if the time stamp of every frame is known.
    pub fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Exact { .. })
    }

    /// Presentation time of frame `index`, in ticks.
    pub fn stamp(&self, index: usize) -> Option<i64> {
        match &self.kind {
            Kind::Exact { stamps, .. } => stamps.get(index).copied(),
            Kind::Constant { start, step } => Some(start + (index as f64 * step).round() as i64),
            Kind::Counted => None,
        }
    }

    /// Presentation time of frame `index`, in seconds from the beginning of the file, which may begin with sound alone.
    pub fn seconds(&self, index: usize) -> f64 {
        let since_first = match (self.stamp(index), self.stamp(0)) {
            (Some(stamp), Some(first)) => (stamp - first) as f64 * self.tick,
            _ => index as f64 / self.fps,
        };
        self.lead_s + since_first
    }

    /// Where the video begins, in seconds: at its first frame, or at 0 where that is shown within the time of one frame.
    pub fn start(&self) -> f64 {
        if self.lead_s * self.fps <= 1.0 { 0.0 } else { self.lead_s }
    }

    /// The frames that start within a span of seconds.
    pub fn frames(&self, span: Span) -> Range<usize> {
        let first_from = |seconds: f64| partition(self.total, |i| self.seconds(i) < seconds - ROUNDING_S);
        let start = first_from(span.start);
        start..first_from(span.end).max(start)
    }

    /// End of the last frame, in seconds from the beginning of the file; its duration is assumed to be the average.
    pub fn length(&self) -> f64 {
        match self.total.checked_sub(1) {
            Some(last) => self.seconds(last) + 1.0 / self.fps,
            None => 0.0,
        }
    }

    /// Frames per second of a part: the whole video's, unless the part's own rate differs by a factor of two.
    pub(crate) fn fps_of(&self, part: &Range<usize>) -> f64 {
        let own = match part.len() {
            0 | 1 => return self.fps,
            n => (n - 1) as f64 / (self.seconds(part.end - 1) - self.seconds(part.start)),
        };
        near_rate(self.fps, own)
    }

    /// The frame at a time stamp, or the nearest one.
    pub fn index(&self, stamp: i64) -> Option<usize> {
        match &self.kind {
            Kind::Exact { stamps, .. } => match stamps.binary_search(&stamp) {
                Ok(at) => Some(at),
                Err(0) => Some(0),
                Err(at) if at == stamps.len() => Some(at - 1),
                Err(at) => Some(if stamp - stamps[at - 1] <= stamps[at] - stamp { at - 1 } else { at }),
            },
            Kind::Constant { start, step } => {
                Some((((stamp - start) as f64 / step).round()).max(0.0) as usize)
            }
            Kind::Counted => None,
        }
    }

    /// The time stamp to seek to for frame `wanted` when the decoder is before frame `position`, if that saves work.
    /// `indexed` looks up a time stamp in the container's index of keyframes.
    pub(crate) fn seek_target(
        &self,
        position: usize,
        wanted: usize,
        mut indexed: impl FnMut(i64) -> Option<i32>,
    ) -> Option<i64> {
        if wanted < position + MIN_SEEK {
            return None;
        }
        match &self.kind {
            Kind::Exact { stamps, keys } => {
                let stamp = stamps.get(wanted)?;
                let key = key_at(keys, *stamp)?;
                let at = stamps.partition_point(|s| *s < key.shown);
                (at >= position + MIN_SEEK).then_some(key.seek)
            }
            Kind::Constant { .. } => {
                let (here, there) = (self.stamp(position)?, self.stamp(wanted)?);
                (indexed(there)? > indexed(here)?).then_some(there)
            }
            Kind::Counted => None,
        }
    }

    /// The time stamp of a second seek, if frame `wanted` was missing after a seek to the keyframe before it: a keyframe at
    /// least `back` frames before that one, if any.
    pub(crate) fn earlier_target(&self, wanted: usize, back: usize) -> Option<i64> {
        match &self.kind {
            Kind::Exact { stamps, keys } => {
                let stamp = stamps.get(wanted)?;
                let key = key_at(keys, *stamp)?;
                let at = stamps.partition_point(|s| *s < key.shown).checked_sub(back)?;
                key_at(keys, stamps[at]).map(|key| key.seek)
            }
            // The keyframes are not known.
            Kind::Constant { .. } => self.stamp(wanted.checked_sub(2 * back)?),
            Kind::Counted => None,
        }
    }
}

/// The time stamp of the first frame that a decoder shows; `None` if it is unknown.
fn first_shown(source: &Source) -> Option<i64> {
    let mut source = source.reopen().ok()?;
    let mut decoder = source.decoder(1).ok()?;
    let mut picture = frame::Video::empty();
    for _ in 0..MAX_LEADING {
        // The decoder continues after an error.
        let _ = match source.next_packet() {
            Some(packet) => decoder.send_packet(&packet),
            None => decoder.send_eof(),
        };
        if decoder.receive_frame(&mut picture).is_ok() {
            return stamp_of(&picture);
        }
    }
    None
}

/// The last keyframe that is shown at a time stamp or before.
fn key_at(keys: &[Key], stamp: i64) -> Option<Key> {
    keys.get(keys.partition_point(|key| key.shown <= stamp).checked_sub(1)?).copied()
}

/// The frame rate of a part: the stated one, unless the part's own differs by a factor of two.
pub(super) fn near_rate(stated: f64, own: f64) -> f64 {
    if !own.is_finite() || (0.5..2.0).contains(&(stated / own)) { stated } else { own }
}

/// The first of `n` indices for which `before` does not hold; it holds for those below.
fn partition(n: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Average rate of sorted time stamps.
fn rate(stamps: &[i64], tick: f64) -> Option<f64> {
    let span = (stamps.last()? - stamps.first()?) as f64 * tick;
    (span > 0.0).then(|| (stamps.len() - 1) as f64 / span)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet, at whose time stamp a seek ends if it is a keyframe.
    fn packet(stamp: Option<i64>, is_key: bool) -> Known {
        (stamp, stamp.filter(|_| is_key))
    }

    /// Four groups of 25 frames, one tick a frame, keyframes first, in decode order I P B.
    fn groups() -> Timeline {
        let packets: Vec<_> = (0..100i64)
            .map(|i| match i % 25 {
                0 => packet(Some(i), true),
                r if r % 2 == 1 && r < 24 => packet(Some(i + 1), false),
                r if r % 2 == 0 => packet(Some(i - 1), false),
                _ => packet(Some(i), false),
            })
            .collect();
        Timeline::from_packets(&packets, None, 0.04)
    }

    #[test]
    fn presentation_order_follows_the_time_stamps() {
        let line = Timeline::from_packets(
            &[packet(Some(100), true), packet(Some(400), false), packet(Some(150), false)],
            Some(25.0),
            0.01,
        );
        assert_eq!((line.total, line.stamp(1), line.seconds(2)), (3, Some(150), 3.0));
        assert_eq!([90, 100, 124, 126, 276, 999].map(|t| line.index(t).unwrap()), [0, 0, 0, 1, 2, 2]);
    }

    #[test]
    fn without_a_stated_rate_the_time_stamps_give_it() {
        assert!((groups().fps - 25.0).abs() < 1e-9);
    }

    #[test]
    fn a_stated_rate_far_from_the_real_one_is_ignored() {
        let packets: Vec<_> = (0..60i64).map(|i| packet(Some(i * 40), true)).collect();
        let fps = |stated| Timeline::from_packets(&packets, Some(stated), 0.001).fps;
        assert!((fps(1000.0) - 25.0).abs() < 1e-9);
        assert_eq!(fps(24.5), 24.5);
    }

    #[test]
    fn a_span_has_the_frames_that_start_in_it() {
        let line = groups();
        let frames = |start, end| line.frames(Span { start, end });
        assert_eq!((frames(0.0, 1.0), frames(1.0, 2.0), frames(3.0, 99.0)), (0..25, 25..50, 75..100));
        assert_eq!((frames(0.01, 0.05), frames(4.0, 5.0), frames(0.01, 0.02)), (1..2, 100..100, 1..1));
        assert!((line.length() - 4.0).abs() < 1e-9);
        assert_eq!(line.fps_of(&(25..50)), line.fps);
        // Ten frames in a second, then one every two seconds.
        let stamps = (0..10i64).map(|i| i * 100).chain((1..9).map(|i| i * 2000));
        let packets: Vec<_> = stamps.map(|t| packet(Some(t), true)).collect();
        let line = Timeline::from_packets(&packets, None, 0.001);
        assert!((line.fps_of(&(0..10)) - 10.0).abs() < 1e-9 && (line.fps_of(&(10..18)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn packets_without_or_with_equal_time_stamps_are_counted() {
        for packets in
            [[packet(None, true), packet(Some(1), false)], [packet(Some(1), true), packet(Some(1), false)]]
        {
            let line = Timeline::from_packets(&packets, Some(10.0), 0.04);
            assert!(line.is_sequential());
            assert_eq!((line.total, line.seconds(1), line.index(1)), (2, 0.1, None));
        }
    }

    #[test]
    fn seeks_only_to_a_keyframe_well_ahead() {
        let line = groups();
        let seek = |position, wanted| line.seek_target(position, wanted, |_| None);
        assert_eq!(seek(0, 5), None);
        assert_eq!(seek(0, 24), None);
        assert_eq!(seek(0, 25), Some(25));
        assert_eq!(seek(0, 99), Some(75));
        assert_eq!(seek(20, 45), None, "the keyframe is only five frames ahead");
        assert_eq!(seek(70, 99), None);
    }

    #[test]
    fn a_second_seek_starts_at_an_earlier_keyframe() {
        let line = groups();
        assert_eq!([30, 50, 99].map(|i| line.earlier_target(i, 16)), [Some(0), Some(25), Some(50)]);
        assert_eq!([0, 24].map(|i| line.earlier_target(i, 16)), [None, None]);
        assert_eq!([99, 75, 60].map(|i| line.earlier_target(i, 60)), [Some(0), Some(0), None]);
    }

    #[test]
    fn at_a_constant_rate_the_containers_index_is_used() {
        let line = Timeline::new(10_000, 25.0, 0.001, Kind::Constant { start: 7, step: 40.0 });
        assert_eq!((line.stamp(10), line.index(407), line.index(420)), (Some(407), Some(10), Some(10)));
        let every_ten_seconds = |t: i64| Some((t / 10_000) as i32);
        assert_eq!(line.seek_target(0, 100, every_ten_seconds), None);
        assert_eq!(line.seek_target(0, 300, every_ten_seconds), Some(12_007));
        assert_eq!(line.seek_target(0, 300, |_| None), None);
    }
}
