//! An opened file and its one video stream.

use std::{
    io::{Cursor, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use ffmpeg_next::{self as ffmpeg, Packet, Rational, codec, ffi, format, format::context::StreamIo, media};

use super::{
    Error,
    clock::Clock,
    container::{
        check_format, choose, describe, flags, geometry, is_of_pictures, offline, offline_and_far, open_file,
        refused,
    },
    decoder::Decoder,
    orientation::Geometry,
    packet::{is_hidden, is_invisible, place},
    still,
};

/// The frame rate of a file that states none.
pub(super) const FALLBACK_FPS: f64 = 25.0;

/// Largest side and area that are decoded; one RGB frame of this area is 400 MB.
const MAX_SIDE: u32 = 16_384;
const MAX_AREA: u64 = 16_384 * 8_192;

/// Pictures that begin later than this many seconds after the beginning of the file have damaged time stamps.
const MAX_LEAD_S: f64 = 86_400.0;

/// Read buffer in bytes.
pub(super) const BUFFER: usize = 256 * 1024;

/// An opened container; all streams but the video are discarded.
pub(super) struct Source {
    pub path: PathBuf,
    pub bytes: u64,
    pub input: format::context::Input,
    pub stream: usize,
    pub(crate) geometry: Geometry,
    pub has_audio: bool,
    pub(crate) empty_packets: usize,
    /// Joins the time stamps of packets; it has the joins of the packets read so far.
    pub(crate) clock: Clock,
    kind: Option<still::Kind>,
    /// What is read instead of the file.
    converted: Option<Arc<[u8]>>,
}

impl Source {
    /// Open a file and choose its video stream.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, None)
    }

    /// Open it again, at its first packet.
    pub fn reopen(&self) -> Result<Self, Error> {
        Self::open_with(&self.path, self.converted.clone())
    }

    fn open_with(path: &Path, converted: Option<Arc<[u8]>>) -> Result<Self, Error> {
        super::init();
        let (mut file, bytes, head) = open_file(path)?;
        let converted = match converted {
            None if still::Kind::of(&head) == Some(still::Kind::AnimatedWebp) => {
                Some(still::apng(path, &mut file)?.into())
            }
            converted => converted,
        };
        let open = |options: ffmpeg::Dictionary<'_>| {
            let io = match &converted {
                Some(bytes) => StreamIo::from_read_seek_with_capacity(Cursor::new(bytes.clone()), BUFFER),
                None => file.try_clone().map_err(|_| ffmpeg::Error::Bug).and_then(|mut file| {
                    file.seek(SeekFrom::Start(0)).map_err(|_| ffmpeg::Error::Bug)?;
                    StreamIo::from_read_seek_with_capacity(file, BUFFER)
                }),
            };
            let input = io
                .and_then(|io| format::input_from_stream(io, None, Some(options)))
                .map_err(|e| refused(path, &head, &e.to_string()))?;
            check_format(path, &head, &input)?;
            Self::of(path, bytes, &head, input)
        };
        let source = open(offline())?;
        let source = if source.has_size() { source } else { open(offline_and_far())? };
        Ok(Self { converted: converted.clone(), ..source })
    }

    /// Choose the video stream of an opened container, whose first bytes are these where they are known.
    pub(super) fn of(
        path: &Path,
        bytes: u64,
        head: &[u8],
        mut input: format::context::Input,
    ) -> Result<Self, Error> {
        let stream = choose(&input).ok_or_else(|| match describe(&input) {
            found if found.is_empty() => refused(path, head, "no streams"),
            found => Error::NoVideoStream { path: path.into(), found },
        })?;
        let has_audio = input.streams().any(|s| s.parameters().medium() == media::Type::Audio);
        let kind = still::Kind::of(head);
        let geometry = geometry(path, kind, &mut input, stream);
        for mut other in input.streams_mut().filter(|s| s.index() != stream) {
            // SAFETY: the pointer is a stream of the open `input`; `discard` is a plain field that callers may set.
            unsafe { (*other.as_mut_ptr()).discard = ffi::AVDiscard::AVDISCARD_ALL };
        }
        let source = Self {
            path: path.into(),
            bytes,
            input,
            stream,
            geometry,
            has_audio,
            empty_packets: 0,
            clock: Clock::new(1.0, 1.0, false),
            kind,
            converted: None,
        };
        let clock = Clock::new(source.tick(), source.fps().unwrap_or(FALLBACK_FPS), source.may_jump());
        Ok(Self { clock, ..source })
    }

    /// True if the size of the pictures is known.
    fn has_size(&self) -> bool {
        let sized = |s: ffmpeg::Stream<'_>| {
            // SAFETY: the stream is alive and both are plain fields.
            unsafe { (*s.parameters().as_ptr()).width > 0 && (*s.parameters().as_ptr()).height > 0 }
        };
        self.video().is_some_and(sized)
    }

    /// The video stream. Always `Some`, as the stream index is checked when the source is opened.
    pub fn video(&self) -> Option<ffmpeg::Stream<'_>> {
        self.input.stream(self.stream)
    }

    /// Seconds per tick of the stream's time stamps.
    pub fn tick(&self) -> f64 {
        let base = self.video().map_or(Rational(0, 1), |s| s.time_base());
        ratio(base).unwrap_or(1.0 / f64::from(ffi::AV_TIME_BASE))
    }

    /// Frames per second: the average if known, else the base rate.
    pub fn fps(&self) -> Option<f64> {
        let stream = self.video()?;
        ratio(stream.avg_frame_rate()).or_else(|| ratio(stream.rate()))
    }

    /// True where average and base rate agree, so that frame n is shown at n / fps.
    pub(crate) fn is_constant_rate(&self) -> bool {
        let rates = self.video().map(|s| (ratio(s.avg_frame_rate()), ratio(s.rate())));
        matches!(rates, Some((Some(average), Some(base))) if (average / base - 1.0).abs() < 1e-3)
    }

    /// Length in seconds: of the stream, else of the container.
    pub fn duration_s(&self) -> Option<f64> {
        let stream = self.video()?;
        let own = stream.duration() as f64 * self.tick();
        let whole = self.input.duration() as f64 / f64::from(ffi::AV_TIME_BASE);
        [own, whole].into_iter().find(|s| s.is_finite() && *s > 0.0)
    }

    /// When the first packet of the video is shown, in seconds from the beginning of the file: of its sound, where that is first.
    pub(crate) fn lead_s(&self) -> f64 {
        self.video().map_or(0.0, |stream| self.since_start(stream.start_time()))
    }

    /// The time stamp of the beginning of the file in seconds: of the first of its streams. 0 if it is unknown.
    pub(crate) fn start_s(&self) -> f64 {
        // SAFETY: the container is open and the field is plain.
        let start = unsafe { (*self.input.as_ptr()).start_time };
        let first = self.video().map_or(ffi::AV_NOPTS_VALUE, |stream| stream.start_time());
        match (start, first) {
            (ffi::AV_NOPTS_VALUE, ffi::AV_NOPTS_VALUE) => 0.0,
            (ffi::AV_NOPTS_VALUE, first) => first as f64 * self.tick(),
            // Sound before 0 only primes its decoder.
            (start, _) => start.max(0) as f64 / f64::from(ffi::AV_TIME_BASE),
        }
    }

    /// Seconds from the beginning of the file to a time stamp; 0 if it is unknown.
    pub(crate) fn since_start(&self, stamp: i64) -> f64 {
        if stamp == ffi::AV_NOPTS_VALUE {
            return 0.0;
        }
        let seconds = stamp as f64 * self.tick() - self.start_s();
        // Pictures that are further away have time stamps that are damaged.
        if (0.0..MAX_LEAD_S).contains(&seconds) { seconds } else { 0.0 }
    }

    /// How brightness is coded, where that is not for ordinary screens.
    pub(crate) fn hdr(&self) -> Option<&'static str> {
        // SAFETY: the stream is alive and the field is plain.
        match unsafe { (*self.video()?.parameters().as_ptr()).color_trc } {
            ffi::AVColorTransferCharacteristic::AVCOL_TRC_SMPTE2084 => Some("PQ"),
            ffi::AVColorTransferCharacteristic::AVCOL_TRC_ARIB_STD_B67 => Some("HLG"),
            _ => None,
        }
    }

    /// True for a format of pictures: PNG, JPEG, WebP, GIF and so on. A GIF may be animated.
    pub(crate) fn is_of_pictures(&self) -> bool {
        is_of_pictures(&self.input)
    }

    /// The number of frames in the header, if any.
    pub(crate) fn promised_frames(&self) -> Option<usize> {
        self.video().and_then(|s| usize::try_from(s.frames()).ok()).filter(|&n| n > 0)
    }

    /// True if the header's number of frames agrees with length and rate.
    pub(crate) fn promise_is_consistent(&self) -> bool {
        match (self.promised_frames(), self.fps(), self.duration_s()) {
            (Some(n), Some(fps), Some(s)) => (n as f64 - s * fps).abs() <= 2.0 + 0.005 * n as f64,
            _ => false,
        }
    }

    /// A decoder for the video stream, opened, with this many threads.
    pub fn decoder(&self, threads: usize) -> Result<Decoder, Error> {
        let video = self.open_decoder(threads)?;
        let (width, height) = (video.width(), video.height());
        let (shown_width, shown_height) = self.geometry.shown(width, height);
        let area = u64::from(width) * u64::from(height);
        if area == 0 {
            let kind = self.kind.map(still::Kind::name);
            return Err(Error::NoPicture { path: self.path.clone(), kind });
        }
        if width.max(height) > MAX_SIDE || area > MAX_AREA || shown_width.max(shown_height) > MAX_SIDE {
            return Err(Error::Dimensions { path: self.path.clone(), width, height });
        }
        let has_alpha = self.video().is_some_and(|s| s.metadata().get("alpha_mode") == Some("1"));
        let alpha = if has_alpha { Some(self.open_decoder(1)?) } else { None };
        Ok(Decoder::new(video, alpha))
    }

    fn open_decoder(&self, threads: usize) -> Result<ffmpeg::decoder::Video, Error> {
        let fail = |codec: &str, e: ffmpeg::Error| Error::NoDecoder {
            path: self.path.clone(),
            codec: codec.into(),
            detail: e.to_string(),
        };
        let stream = self.video().ok_or_else(|| fail("none", ffmpeg::Error::StreamNotFound))?;
        let parameters = stream.parameters();
        let name = parameters.id().name();
        let mut context = codec::Context::from_parameters(parameters).map_err(|e| fail(name, e))?;
        // Not by frames: what frames that refer to a damaged one show would then depend on the timing of the threads.
        context.set_threading(codec::threading::Config {
            kind: codec::threading::Type::Slice,
            ..codec::threading::Config::count(threads)
        });
        let mut decoder = context.decoder();
        decoder.set_packet_time_base(stream.time_base());
        decoder.video().map_err(|e| fail(name, e))
    }

    /// The next packet of the video stream, on the joined clock; none at the end or after a read error.
    pub(crate) fn next_packet(&mut self) -> Option<Packet> {
        let Self { stream, input, empty_packets, clock, .. } = self;
        let mut packets = input.packets().filter(|(s, _)| s.index() == *stream).map(|(_, packet)| packet);
        let mut packet = packets.find(|packet| {
            *empty_packets += usize::from(packet.size() == 0);
            packet.size() > 0
        })?;
        place(clock, &mut packet);
        Some(packet)
    }

    /// True if frames are stored in another order than shown, as far as the stream's parameters say.
    pub(crate) fn is_reordered(&self) -> bool {
        // SAFETY: the stream is alive and the field is plain.
        self.video().is_some_and(|s| unsafe { (*s.parameters().as_ptr()).video_delay } > 0)
    }

    /// True for formats that may have several clocks, and are searched by decode times.
    pub(crate) fn may_jump(&self) -> bool {
        flags(&self.input) & ffi::AVFMT_TS_DISCONT != 0
    }

    /// Whether a packet shows a frame: it is neither hidden by an edit list, nor a reference that is never shown.
    pub(crate) fn shows(&self, packet: &Packet) -> bool {
        let codec = self.video().map_or(codec::Id::None, |s| s.parameters().id());
        !is_hidden(packet) && !packet.data().is_some_and(|data| is_invisible(codec, data))
    }

    /// Go to the last keyframe at or before a time stamp (in ticks).
    pub fn seek(&mut self, timestamp: i64) -> Result<(), ffmpeg::Error> {
        let (stream, back) = (self.stream as i32, ffi::AVSEEK_FLAG_BACKWARD);
        self.clock.moved();
        // SAFETY: `input` is open and `stream` is one of its streams; the call touches nothing else.
        match unsafe { ffi::av_seek_frame(self.input.as_mut_ptr(), stream, timestamp, back) } {
            code if code < 0 => Err(code.into()),
            _ => Ok(()),
        }
    }

    /// Position in the container's own index of the keyframe at or before a time stamp, where it has one.
    pub(crate) fn indexed_keyframe(&mut self, timestamp: i64) -> Option<i32> {
        let mut stream = self.input.stream_mut(self.stream)?;
        // SAFETY: the pointer is a stream of the open `input`; the search only reads its index.
        let at = unsafe {
            ffi::av_index_search_timestamp(stream.as_mut_ptr(), timestamp, ffi::AVSEEK_FLAG_BACKWARD)
        };
        (at >= 0).then_some(at)
    }
}

/// A rational as a number, if it is positive.
fn ratio(r: Rational) -> Option<f64> {
    (r.numerator() > 0 && r.denominator() > 0).then(|| f64::from(r.numerator()) / f64::from(r.denominator()))
}
