//! An opened file and its one video stream.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use ffmpeg_next::{
    self as ffmpeg, Packet, Rational,
    codec::{self, packet::Ref},
    ffi, format,
    format::{context::StreamIo, stream::Disposition},
    media,
};

use super::{Error, orientation::Orientation};

/// Largest side and area that are decoded; one RGB frame of this area is 400 MB.
const MAX_SIDE: u32 = 16_384;
const MAX_AREA: u64 = 16_384 * 8_192;

/// Demuxers that render text, or follow references to other files: never meant as a video.
const REFUSED: [&str; 8] = ["tty", "hls", "dash", "concat", "sdp", "imf", "rtsp", "lrc"];

/// Bytes that identify the kind of file.
pub(super) const HEAD: u64 = 512;

/// Read buffer in bytes.
pub(super) const BUFFER: usize = 256 * 1024;

/// An opened container; all streams but the video are discarded.
pub(super) struct Source {
    pub path: PathBuf,
    pub bytes: u64,
    pub input: format::context::Input,
    pub stream: usize,
    pub(crate) orientation: Orientation,
    pub has_audio: bool,
    pub(crate) empty_packets: usize,
}

impl Source {
    /// Open a file and choose its video stream.
    pub fn open(path: &Path) -> Result<Self, Error> {
        super::init();
        let (file, bytes, head) = open_file(path)?;
        let input = StreamIo::from_read_seek_with_capacity(file, BUFFER)
            .and_then(|io| format::input_from_stream(io, None, Some(offline())))
            .map_err(|e| refused(path, &head, &e.to_string()))?;
        check_format(path, &head, &input)?;
        Self::of(path, bytes, &head, input)
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
        let orientation = input
            .stream(stream)
            .and_then(|s| {
                s.side_data()
                    .find(|d| d.kind() == codec::packet::side_data::Type::DisplayMatrix)
                    .map(|d| Orientation::from_side_data(d.data()))
            })
            .unwrap_or_default();
        for mut other in input.streams_mut().filter(|s| s.index() != stream) {
            // SAFETY: the pointer is a stream of the open `input`; `discard` is a plain field that callers may set.
            unsafe { (*other.as_mut_ptr()).discard = ffi::AVDiscard::AVDISCARD_ALL };
        }
        Ok(Self { path: path.into(), bytes, input, stream, orientation, has_audio, empty_packets: 0 })
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

    /// True for a format of pictures: PNG, JPEG, WebP, GIF and so on. A GIF may be animated.
    pub(crate) fn is_of_pictures(&self) -> bool {
        let format = self.input.format();
        format
            .name()
            .split(',')
            .any(|name| name.ends_with("_pipe") || ["image2", "gif", "apng"].contains(&name))
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
    pub fn decoder(&self, threads: usize) -> Result<ffmpeg::decoder::Video, Error> {
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
        let decoder = decoder.video().map_err(|e| fail(name, e))?;
        let (width, height) = (decoder.width(), decoder.height());
        let area = u64::from(width) * u64::from(height);
        if area == 0 || width > MAX_SIDE || height > MAX_SIDE || area > MAX_AREA {
            return Err(Error::Dimensions { path: self.path.clone(), width, height });
        }
        Ok(decoder)
    }

    /// The next packet of the video stream; none at the end or after a read error.
    pub(crate) fn next_packet(&mut self) -> Option<Packet> {
        let Self { stream, input, empty_packets, .. } = self;
        let mut packets = input.packets().filter(|(s, _)| s.index() == *stream).map(|(_, packet)| packet);
        packets.find(|packet| {
            *empty_packets += usize::from(packet.size() == 0);
            packet.size() > 0
        })
    }

    /// Go to the last keyframe at or before a time stamp (in ticks).
    pub fn seek(&mut self, timestamp: i64) -> Result<(), ffmpeg::Error> {
        let (stream, back) = (self.stream as i32, ffi::AVSEEK_FLAG_BACKWARD);
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

/// True if a packet is decoded but never shown (before an edit list's start).
pub(super) fn is_hidden(packet: &Packet) -> bool {
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
