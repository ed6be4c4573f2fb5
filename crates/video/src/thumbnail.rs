//! Thumbnails of videos, for the library.

use std::path::Path;

use ffmpeg_next::frame;

use super::{Error, Frame, picture::Converter, source::Source};

/// Decode at most this many frames after the keyframe; the last of them is close enough for a thumbnail.
const MAX_FRAMES: usize = 120;

/// The frame at `share` (clamped to 0 to 1) of the duration, scaled down to fit `max_width` ×
/// `max_height` pixels and never enlarged. The aspect is kept. Its `index` is an estimate from the time stamp. Fails as
/// [`probe`](fn@super::probe), and for a file of which no frame could be decoded.
pub fn thumbnail(path: &Path, share: f64, max_width: u32, max_height: u32) -> Result<Frame, Error> {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut source = Source::open(path)?;
    let first = source.video().map(|s| s.start_time()).filter(|&t| t != ffmpeg_next::ffi::AV_NOPTS_VALUE);
    let (first, tick) = (first.unwrap_or(0), source.tick());
    let target = first + (source.duration_s().unwrap_or(0.0) * share / tick) as i64;
    if target > first && source.seek(target).is_err() {
        source = source.reopen()?;
    }
    let picture = match near(&mut source, target)? {
        Some(picture) => picture,
        // Nothing after the keyframe (a truncated file): use the beginning.
        None => near(&mut source.reopen()?, first)?
            .ok_or_else(|| Error::NothingDecoded { path: path.into(), detail: "no frames".into() })?,
    };
    let (width, height) = source.geometry.orientation.size(max_width, max_height);
    let size = fit(source.geometry.squared(picture.width(), picture.height()), (width, height));
    let since_first = picture.timestamp().map_or(0.0, |t| (t - first) as f64 * tick).max(0.0);
    let index = (since_first * source.fps().unwrap_or(0.0)).round() as usize;
    let seconds = source.lead_s() + since_first;
    Converter::new(source.geometry, Some(size)).convert(path, index, seconds, &picture)
}

/// The first frame at or after a time stamp, or the last one decoded before [`MAX_FRAMES`] or the end of the file.
fn near(source: &mut Source, target: i64) -> Result<Option<frame::Video>, Error> {
    let mut decoder = source.decoder(1)?;
    let mut last = None;
    let mut decoded = 0;
    loop {
        let packet = source.next_packet();
        // After an error the decoder still returns the frames that it holds.
        let _ = match &packet {
            Some(packet) => decoder.send_packet(packet),
            None => decoder.send_eof(),
        };
        let mut picture = frame::Video::empty();
        while decoder.receive_frame(&mut picture).is_ok() {
            decoded += 1;
            let there = picture.timestamp().is_none_or(|t| t >= target);
            last = Some(std::mem::replace(&mut picture, frame::Video::empty()));
            if there || decoded > MAX_FRAMES {
                return Ok(last);
            }
        }
        if packet.is_none() {
            return Ok(last);
        }
    }
}

/// The largest size of the same aspect within `max`, at most the original size, at least 1 × 1.
pub(super) fn fit((width, height): (u32, u32), (max_width, max_height): (u32, u32)) -> (u32, u32) {
    let scale = |max: u32, side: u32| f64::from(max) / f64::from(side.max(1));
    let factor = scale(max_width, width).min(scale(max_height, height)).min(1.0);
    let side = |side: u32, max: u32| ((f64::from(side) * factor).round() as u32).clamp(1, max.max(1));
    (side(width, max_width), side(height, max_height))
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn the_aspect_is_kept_and_nothing_is_enlarged() {
        let table = [
            ((1920, 1080), (320, 320), (320, 180)),
            ((1080, 1920), (320, 320), (180, 320)),
            ((64, 48), (320, 240), (64, 48)),
            ((1, 1), (320, 240), (1, 1)),
            ((4000, 2), (100, 100), (100, 1)),
            ((100, 100), (0, 0), (1, 1)),
        ];
        for (size, max, want) in table {
            assert_eq!(fit(size, max), want, "{size:?} in {max:?}");
        }
    }
}
