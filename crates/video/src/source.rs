//! An opened file and its one video stream.

use std::{
    fs::File,
    io::{Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use ffmpeg_next::{
    self as ffmpeg, Packet, Rational,
    codec::{self, packet::Ref},
    ffi, format,
    format::{context::StreamIo, stream::Disposition},
    media,
};

use super::{
    Error,
    clock::Clock,
    decoder::Decoder,
    orientation::{Geometry, Orientation},
    probe::FALLBACK_FPS,
    still,
};

/// Largest side and area that are decoded; one RGB frame of this area is 400 MB.
const MAX_SIDE: u32 = 16_384;
const MAX_AREA: u64 = 16_384 * 8_192;

/// Pictures that begin later than this many seconds after the beginning of the file have damaged time stamps.
const MAX_LEAD_S: f64 = 86_400.0;

/// Demuxers that render text, or follow references to other files: never meant as a video.
const REFUSED: [&str; 8] = ["tty", "hls", "dash", "concat", "sdp", "imf", "rtsp", "lrc"];

/// Bytes that identify the kind of file.
pub(super) const HEAD: u64 = 512;

/// Read buffer in bytes.
pub(super) const BUFFER: usize = 256 * 1024;

/// How far FFmpeg may read to find the size of the pictures, in bytes and microseconds, where its default did not suffice: a
/// recording may begin long before its first keyframe.
const FAR: [(&str, &str); 2] = [("probesize", "200000000"), ("analyzeduration", "120000000")];

/// An opened container; all streams but the video are discarded.
pub(super) struct Source {
    pub path: PathBuf,
    pub bytes: u64,
    pub input: format::context::Input,
    pub stream: usize,
    pub(crate) geometry: Geometry,
    pub has_audio: bool,
    pub(crate) empty_packets: usize,
    /// Joins the time stamps of packets; its joins are those of the packets so far.
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

/// True if a frame was decoded with errors, so that part of it is reconstructed from other frames.
pub(super) fn is_damaged(picture: &ffmpeg::frame::Video) -> bool {
    // SAFETY: the frame is alive and both are plain fields.
    let (errors, flags) = unsafe { ((*picture.as_ptr()).decode_error_flags, (*picture.as_ptr()).flags) };
    errors != 0 || flags & ffi::AV_FRAME_FLAG_CORRUPT != 0
}

/// Put a packet on the joined clock.
pub(super) fn place(clock: &mut Clock, packet: &mut Packet) {
    let (dts, pts) = (packet.dts(), packet.pts());
    // Hidden ones have the times of others.
    if is_hidden(packet) {
        return;
    }
    let shift = clock.shift(dts, pts, packet.duration());
    if shift != 0 {
        packet.set_dts(dts.map(|dts| dts.saturating_add(shift)));
        packet.set_pts(pts.map(|pts| pts.saturating_add(shift)));
    }
}

/// True if a coded frame of VP8 or VP9 is a reference that is never shown by itself.
fn is_invisible(codec: codec::Id, data: &[u8]) -> bool {
    let Some(&first) = data.first() else { return false };
    match codec {
        // RFC 6386, section 9.1: a bit for keyframes, three for the version, then the bit of shown frames.
        codec::Id::VP8 => first & 0x10 == 0,
        // VP9 bitstream specification, section 6.2: marker, profile, show_existing_frame, frame_type, show_frame. A superframe, whose
        // index ends the packet, has a shown frame.
        codec::Id::VP9 => {
            let is_superframe = data.last().is_some_and(|last| last & 0xe0 == 0xc0);
            let has_reserved_bit = first & 0x30 == 0x30;
            let bits = if has_reserved_bit { first << 1 } else { first };
            let (shows_existing, is_shown) = (bits & 0x08 != 0, bits & 0x02 != 0);
            !is_superframe && first & 0xc0 == 0x80 && !shows_existing && !is_shown
        }
        _ => false,
    }
}

/// How the pictures of a stream are shown.
fn geometry(
    path: &Path,
    kind: Option<still::Kind>,
    input: &mut format::context::Input,
    index: usize,
) -> Geometry {
    let matrix = input.stream(index).and_then(|s| {
        s.side_data()
            .find(|d| d.kind() == codec::packet::side_data::Type::DisplayMatrix)
            .map(|d| Orientation::from_side_data(d.data()))
    });
    if is_of_pictures(input) {
        // As viewers of pictures do: they follow EXIF, and ignore the aspect of pixels.
        let orientation = kind.and_then(|kind| kind.orientation(path)).or(matrix);
        return Geometry::new(orientation.unwrap_or_default(), Rational(1, 1));
    }
    // SAFETY: the container is open, and the stream, if any, is one of its streams; the call only reads both.
    let aspect = unsafe {
        let container = input.as_mut_ptr();
        let stream = input.stream_mut(index).map_or(std::ptr::null_mut(), |mut stream| stream.as_mut_ptr());
        ffi::av_guess_sample_aspect_ratio(container, stream, std::ptr::null_mut())
    };
    let aspect = Rational(aspect.num, aspect.den);
    Geometry::new(matrix.unwrap_or_default(), aspect)
}

fn is_of_pictures(input: &format::context::Input) -> bool {
    let is = |name: &str| name.ends_with("_pipe") || ["image2", "gif", "apng"].contains(&name);
    input.format().name().split(',').any(is)
}

/// Flags of a container's format.
fn flags(input: &format::context::Input) -> i32 {
    // SAFETY: the container is open, so it has a format, whose flags are a plain field.
    unsafe { (*(*input.as_ptr()).iformat).flags }
}

/// True if a packet is decoded but never shown (before an edit list's start).
fn is_hidden(packet: &Packet) -> bool {
    // SAFETY: the packet is alive and its flags are a plain field.
    let flags = unsafe { (*packet.as_ptr()).flags };
    flags & ffi::AV_PKT_FLAG_DISCARD != 0
}

/// A rational as a number, if it is positive.
fn ratio(r: Rational) -> Option<f64> {
    (r.numerator() > 0 && r.denominator() > 0).then(|| f64::from(r.numerator()) / f64::from(r.denominator()))
}

/// Options of a demuxer that reads its own bytes and nothing else.
pub(super) fn offline() -> ffmpeg::Dictionary<'static> {
    // No protocol has this name: a file that refers to other ones, such as a playlist, cannot open them.
    ffmpeg::Dictionary::from_iter([("protocol_whitelist", "none")])
}

/// [`offline`], and far into the file.
fn offline_and_far() -> ffmpeg::Dictionary<'static> {
    ffmpeg::Dictionary::from_iter([("protocol_whitelist", "none")].into_iter().chain(FAR))
}

/// Why a container that begins with these bytes cannot be read.
pub(super) fn refused(path: &Path, head: &[u8], detail: &str) -> Error {
    match kind(head) {
        Kind::Mp4 => Error::Damaged { path: path.into(), detail: detail.into() },
        // FFmpeg's error repeats the text, or does not help (a lack of memory).
        Kind::Text(kind) => Error::NotVideo { path: path.into(), detail: kind.into() },
        Kind::Other => Error::NotVideo { path: path.into(), detail: detail.into() },
    }
}

/// Refuse a demuxer that opens other files.
pub(super) fn check_format(path: &Path, head: &[u8], input: &format::context::Input) -> Result<(), Error> {
    let name = input.format().name().to_owned();
    match name.split(',').any(|n| REFUSED.contains(&n)) {
        true => Err(refused(path, head, &format!("{name} is not supported"))),
        false => Ok(()),
    }
}

/// Open the file and inspect its first bytes.
fn open_file(path: &Path) -> Result<(File, u64, Vec<u8>), Error> {
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound(path.into()),
        _ => Error::Unreadable { path: path.into(), source },
    };
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "directory" } else { "pipe or device" };
        return Err(Error::NotAFile { path: path.into(), what });
    }
    if meta.len() == 0 {
        return Err(Error::Empty(path.into()));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok((file, meta.len(), head))
}

/// What a file seems to be.
enum Kind {
    Mp4,
    Text(&'static str),
    Other,
}

fn kind(head: &[u8]) -> Kind {
    if matches!(head.get(4..8), Some(b"ftyp" | b"moov" | b"mdat")) {
        return Kind::Mp4;
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The last character is cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Kind::Other,
    };
    if text.is_empty() || text.chars().any(|c| c.is_control() && !c.is_whitespace() && c != '\u{1b}') {
        return Kind::Other;
    }
    let text = text.trim_start_matches('\u{feff}');
    let is_list = ["#EXTM3U", "ffconcat", "[playlist]"].iter().any(|start| text.starts_with(start));
    Kind::Text(if is_list { "a playlist" } else { "plain text" })
}

/// The stream to decode: FFmpeg's choice unless that is cover art, else the first that is not cover art.
fn choose(input: &format::context::Input) -> Option<usize> {
    let moves = |s: &ffmpeg::Stream<'_>| {
        s.parameters().medium() == media::Type::Video && !s.disposition().contains(Disposition::ATTACHED_PIC)
    };
    let best = input.streams().best(media::Type::Video).filter(moves);
    best.or_else(|| input.streams().find(moves)).map(|s| s.index())
}

/// The kinds of streams in a container without video, for a message.
fn describe(input: &format::context::Input) -> String {
    let mut kinds: Vec<&str> = input
        .streams()
        .map(|s| match s.parameters().medium() {
            media::Type::Audio => "audio",
            media::Type::Video => "a still image",
            media::Type::Subtitle => "subtitles",
            _ => "other data",
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_frames_are_told_by_their_first_bits() {
        for (codec, data, want) in [
            (codec::Id::VP8, &[0x10, 0][..], false),
            (codec::Id::VP8, &[0x01, 0], true),
            (codec::Id::VP9, &[0b1000_0010], false),
            (codec::Id::VP9, &[0b1000_0100], true),
            (codec::Id::VP9, &[0b1000_1000], false), // shows an existing frame
            (codec::Id::VP9, &[0b1011_0010], true),  // profile 3
            (codec::Id::VP9, &[0b1011_0001], false),
            (codec::Id::VP9, &[0b1000_0100, 0, 0xc1], false), // a superframe
            (codec::Id::H264, &[0], false),
            (codec::Id::VP8, &[], false),
        ] {
            assert_eq!(is_invisible(codec, data), want, "{codec:?} {data:?}");
        }
    }
}
