//! Parts of a video as files of their own, without encoding them again.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ffmpeg_next::{self as ffmpeg, Packet, Rational, codec, ffi, format, format::context::StreamIo, media};
use specreel_record::Span;
use tempfile::NamedTempFile;

use super::{Error, Video, packet::place, source::BUFFER, source::Source, timeline::ROUNDING_S};

/// Sound that belongs to the last pictures may follow them after so many seconds.
const INTERLEAVED_S: f64 = 2.0;

/// How much earlier a key frame is looked for, in seconds.
const BACK_S: [f64; 4] = [0.0, 2.0, 10.0, 1e6];

/// Pictures that are kept in memory until it is known whether a later key frame is before the part.
const MOST_EARLY: usize = 3_000;

/// Muxer and file extension.
type Container = (&'static str, &'static str);
const MP4: Container = ("mp4", "mp4");
const MATROSKA: Container = ("matroska", "mkv");

/// Copy a part of a video, pictures and sound, into a new file `stem.mp4` or `stem.mkv` in a directory, or `stem-2.mp4` where that is
/// taken, and return its path. Nothing is encoded again, so the file has all pictures from the last key frame at or before the part;
/// players of mp4 show them from the part's beginning. Fails if the video cannot be read or has no pictures there, if neither container
/// takes its codecs, if the file cannot be written, and with [`Error::Interrupted`] as soon as `ends` is true.
pub fn extract(
    path: &Path,
    span: Span,
    dir: &Path,
    stem: &str,
    ends: &dyn Fn() -> bool,
) -> Result<PathBuf, Error> {
    if !span.is_sound() {
        return Err(Error::Span(span));
    }
    let failed = |detail: String| Error::NotExtracted { path: path.into(), dir: dir.into(), detail };
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_mp4 = ["mp4", "m4v", "mov", "3gp"].contains(&extension.as_str());
    let containers = if is_mp4 { [MP4, MATROSKA] } else { [MATROSKA, MP4] };
    let mut problems = Vec::new();
    let Video { source, timeline, .. } = Video::open(path)?;
    let tick = source.tick();
    let zero_s =
        timeline.stamp(0).map_or(source.start_s(), |first| first as f64 * tick - timeline.seconds(0));
    let part = Part {
        start_s: zero_s + span.start,
        end_s: zero_s + span.end,
        // A seek does not know which of several clocks it arrives at.
        seeks: span.start > 0.0 && !timeline.is_sequential(),
    };
    for (muxer, extension) in containers {
        let source = source.reopen()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".");
        if let Some(permissions) = specreel_os::file::ordinary_permissions() {
            builder.permissions(permissions);
        }
        let (file, out) = builder
            .tempfile_in(dir)
            .and_then(|file| {
                let out = file.reopen()?;
                Ok((file, out))
            })
            .map_err(|error| failed(error.to_string()))?;
        match copy(source, part, (muxer, is_mp4 && muxer == MP4.0), out, ends) {
            Ok(true) => return named(file, dir, stem, extension).map_err(|error| failed(error.to_string())),
            Ok(false) => return Err(Error::NoPictures { path: path.into(), span }),
            Err(ffmpeg::Error::Exit) => return Err(Error::Interrupted),
            Err(error) => problems.push(format!("{extension}: {error}")),
        }
    }
    Err(failed(problems.join("; ")))
}

/// Give a finished file the first free name.
fn named(mut file: NamedTempFile, dir: &Path, stem: &str, extension: &str) -> io::Result<PathBuf> {
    let mut number = 1u32;
    loop {
        let count = if number == 1 { String::new() } else { format!("-{number}") };
        let path = dir.join(format!("{stem}{count}.{extension}"));
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => file = error.file,
            Err(error) => return Err(error.error),
        }
        number += 1;
    }
}

/// A part by the time stamps of its file, on one clock.
#[derive(Clone, Copy)]
struct Part {
    start_s: f64,
    end_s: f64,
    /// Whether its beginning can be gone to.
    seeks: bool,
}

/// Seconds per tick.
fn ratio(base: Rational) -> f64 {
    f64::from(base.numerator()) / f64::from(base.denominator().max(1))
}

/// Go to a packet of the video from which a key frame at or before this time follows, if there is one. Containers without an index may
/// be read from too late a place.
fn go_before(source: &mut Source, start: f64) {
    let tick = source.tick();
    for back in BACK_S {
        let target = ((start - back).max(source.start_s()) / tick) as i64;
        // Where it cannot seek, it is read from its beginning.
        if source.seek(target).is_err() {
            return;
        }
        let video = source.stream;
        let mut keys = source.input.packets().filter(|(s, packet)| s.index() == video && packet.is_key());
        let first = keys.find_map(|(_, packet)| packet.pts().or(packet.dts()));
        let is_before = first.is_some_and(|first| first as f64 * tick <= start + ROUNDING_S);
        let _ = source.seek(target);
        if is_before {
            return;
        }
    }
}

/// Copy the part into a file. `keeps_tags` says that codecs have the same tags in both containers. False if it has no pictures.
fn copy(
    mut source: Source,
    part: Part,
    (muxer, keeps_tags): (&str, bool),
    file: File,
    ends: &dyn Fn() -> bool,
) -> Result<bool, ffmpeg::Error> {
    let Part { start_s: start, end_s: end, seeks } = part;
    let video = source.stream;
    let video_base = source.video().map_or(Rational(1, 1), |stream| stream.time_base());
    let io = StreamIo::from_write_seek_with_capacity(file, BUFFER)?;
    let mut output = format::output_to_stream(io, None, Some(muxer))?;
    // The number of each stream in the output.
    let mut copied: Vec<Option<usize>> = Vec::new();
    for mut stream in source.input.streams_mut() {
        let is_copied = stream.index() == video || stream.parameters().medium() == media::Type::Audio;
        if !is_copied {
            copied.push(None);
            continue;
        }
        let mut added = output.add_stream(codec::Id::None)?;
        added.set_parameters(stream.parameters());
        added.set_time_base(stream.time_base());
        // SAFETY: both streams are alive, and the fields are plain; callers may set `discard`. A container that has other tags for its
        // codecs sets them for 0. The shape of the pixels may be known to the container alone.
        unsafe {
            let (from, to) = (stream.as_mut_ptr(), added.as_mut_ptr());
            (*from).discard = ffi::AVDiscard::AVDISCARD_DEFAULT;
            if !keeps_tags {
                (*(*to).codecpar).codec_tag = 0;
            }
            if (*from).sample_aspect_ratio.num > 0 {
                (*to).sample_aspect_ratio = (*from).sample_aspect_ratio;
                (*(*to).codecpar).sample_aspect_ratio = (*from).sample_aspect_ratio;
            }
        }
        copied.push(Some(added.index()));
    }
    output.write_header()?;
    if seeks {
        go_before(&mut source, start);
    }
    // Pictures refer to earlier ones, from a key frame on: those since the last key frame at or before the part. Sound does not.
    let (mut early, mut late): (Vec<Packet>, Vec<(i64, Packet)>) = Default::default();
    // The last of the late pictures that were needed.
    let mut latest: Option<i64> = None;
    let (mut has_key, mut shows) = (false, false);
    // What joins the clocks, in seconds: sound follows the pictures.
    let mut joined_s = 0.0;
    let mut write = |mut packet: Packet, from: Rational, index: usize| {
        let shift = (start / ratio(from)).round() as i64;
        packet.set_pts(packet.pts().map(|stamp| stamp - shift));
        packet.set_dts(packet.dts().map(|stamp| stamp - shift));
        packet.rescale_ts(from, output.stream(index).map_or(from, |stream| stream.time_base()));
        packet.set_position(-1);
        packet.set_stream(index);
        packet.write_interleaved(&mut output)
    };
    for (stream, mut packet) in source.input.packets() {
        if ends() {
            return Err(ffmpeg::Error::Exit);
        }
        let Some(&Some(index)) = copied.get(stream.index()) else { continue };
        let (base, is_picture) = (stream.time_base(), stream.index() == video);
        let Some(raw) = packet.dts().or(packet.pts()).filter(|_| packet.size() > 0) else { continue };
        if is_picture {
            place(&mut source.clock, &mut packet);
            let placed = packet.dts().or(packet.pts()).unwrap_or(raw);
            joined_s = (placed - raw) as f64 * ratio(base);
        } else if joined_s != 0.0 {
            let shift = (joined_s / ratio(base)).round() as i64;
            packet.set_pts(packet.pts().map(|stamp| stamp + shift));
            packet.set_dts(packet.dts().map(|stamp| stamp + shift));
        }
        let stamp = packet.dts().or(packet.pts()).unwrap_or(raw);
        let at = stamp as f64 * ratio(base);
        if at > end + INTERLEAVED_S {
            break;
        }
        if at >= end || !is_picture && at < start {
            continue;
        }
        if is_picture {
            let shown = packet.pts().unwrap_or(stamp);
            if packet.is_key() && shown as f64 * ratio(base) <= start + ROUNDING_S {
                early.clear();
                has_key = true;
            }
            has_key |= packet.is_key();
            if !has_key {
                continue;
            }
            shows |= (shown + packet.duration().max(1)) as f64 * ratio(base) > start;
            if at <= start && early.len() < MOST_EARLY {
                early.push(packet);
                continue;
            }
            // Later pictures are there only for those before them that refer to them, and without gaps.
            if shown as f64 * ratio(base) >= end - ROUNDING_S && latest.is_none_or(|latest| shown > latest) {
                late.push((shown, packet));
                continue;
            }
            latest = late.iter().map(|(shown, _)| Some(*shown)).fold(latest, Option::max);
            for packet in early.drain(..).chain(late.drain(..).map(|(_, packet)| packet)) {
                write(packet, base, index)?;
            }
        }
        write(packet, base, index)?;
    }
    let Some(&Some(index)) = copied.get(video).filter(|_| shows) else { return Ok(false) };
    for packet in early {
        write(packet, video_base, index)?;
    }
    output.write_trailer()?;
    // SAFETY: the output is open and has its own writer, whose fields are plain.
    match unsafe { (*(*output.as_ptr()).pb).error } {
        0 => Ok(true),
        error => Err(error.into()),
    }
}
