//! Containers: which files are opened, which of their streams is the video, and how its pictures are shown.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use ffmpeg_next::{self as ffmpeg, Rational, codec, ffi, format, format::stream::Disposition, media};

use super::{
    Error,
    orientation::{Geometry, Orientation},
    still,
};

/// Demuxers that render text, or follow references to other files: never meant as a video.
const REFUSED: [&str; 8] = ["tty", "hls", "dash", "concat", "sdp", "imf", "rtsp", "lrc"];

/// Bytes that identify the kind of file.
pub(super) const HEAD: u64 = 512;

/// How far FFmpeg may read to find the size of the pictures, in bytes and microseconds, where its default did not suffice: a
/// recording may begin long before its first keyframe.
const FAR: [(&str, &str); 2] = [("probesize", "200000000"), ("analyzeduration", "120000000")];

/// Options of a demuxer that reads its own bytes and nothing else.
pub(super) fn offline() -> ffmpeg::Dictionary<'static> {
    // No protocol has this name: a file that refers to other ones, such as a playlist, cannot open them.
    ffmpeg::Dictionary::from_iter([("protocol_whitelist", "none")])
}

/// [`offline`], and far into the file.
pub(super) fn offline_and_far() -> ffmpeg::Dictionary<'static> {
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
pub(super) fn open_file(path: &Path) -> Result<(File, u64, Vec<u8>), Error> {
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
pub(super) fn choose(input: &format::context::Input) -> Option<usize> {
    let moves = |s: &ffmpeg::Stream<'_>| {
        s.parameters().medium() == media::Type::Video && !s.disposition().contains(Disposition::ATTACHED_PIC)
    };
    let best = input.streams().best(media::Type::Video).filter(moves);
    best.or_else(|| input.streams().find(moves)).map(|s| s.index())
}

/// The kinds of streams in a container without video, for a message.
pub(super) fn describe(input: &format::context::Input) -> String {
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

/// How the pictures of a stream are shown.
pub(super) fn geometry(
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

pub(super) fn is_of_pictures(input: &format::context::Input) -> bool {
    let is = |name: &str| name.ends_with("_pipe") || ["image2", "gif", "apng"].contains(&name);
    input.format().name().split(',').any(is)
}

/// Flags of a container's format.
pub(super) fn flags(input: &format::context::Input) -> i32 {
    // SAFETY: the container is open, so it has a format, whose flags are a plain field.
    unsafe { (*(*input.as_ptr()).iformat).flags }
}
