//! Converts decoded frames to upright RGB.

use std::path::Path;

use ffmpeg_next::{
    self as ffmpeg, color, ffi, frame,
    software::scaling::{self, Flags},
    util::format::Pixel,
};

use super::{Error, orientation::Geometry};

/// One frame, upright.
#[derive(Clone, PartialEq)]
pub struct Frame {
    /// Number of the frame in presentation order, from 0.
    pub index: usize,
    /// Presentation time in seconds from the beginning of the file.
    pub timestamp_s: f64,
    /// Pixels per row.
    pub width: u32,
    pub height: u32,
    /// Red, green and blue of each pixel, row by row without padding: `width × height × 3` bytes.
    pub rgb: Vec<u8>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame {} at {:.3} s, {} x {}", self.index, self.timestamp_s, self.width, self.height)
    }
}

/// Converts frames of one stream to RGB24 of one size, with square pixels, on white where they are transparent.
///
/// Matrix and range come from the frame; the default is BT.601, limited range, as in swscale. Transfer curves and primaries
/// are not converted: there is no tone mapping of HDR video.
pub(super) struct Converter {
    geometry: Geometry,
    flags: Flags,
    /// Output size before rotation; by default the first frame's, with square pixels. A stream that changes its size is scaled to it,
    /// so that consumers see one size.
    size: Option<(u32, u32)>,
    scaler: Scaler,
    /// Converts frames with transparency, at their own size.
    flattener: Scaler,
}

impl Converter {
    /// `size` is in pixels before rotation.
    pub fn new(geometry: Geometry, size: Option<(u32, u32)>) -> Self {
        let flags = if size.is_some() { Flags::AREA } else { Flags::BICUBIC };
        let (scaler, flattener) = (Scaler::default(), Scaler::default());
        Self { geometry, flags: flags | Flags::ACCURATE_RND, size, scaler, flattener }
    }

    /// One decoded frame of a file as upright RGB.
    pub fn convert(
        &mut self,
        path: &Path,
        index: usize,
        timestamp_s: f64,
        from: &frame::Video,
    ) -> Result<Frame, Error> {
        let (rgb, width, height) = self.rgb(from).map_err(|e| Error::Convert {
            path: path.into(),
            format: from.format().descriptor().map_or("unknown", |d| d.name()).to_owned(),
            detail: e.to_string(),
        })?;
        let orientation = self.geometry.orientation;
        let rgb = orientation.apply(rgb, width, height);
        let (width, height) = orientation.size(width, height);
        Ok(Frame { index, timestamp_s, width, height, rgb })
    }

    /// The pixels of a frame before rotation, with width and height.
    fn rgb(&mut self, from: &frame::Video) -> Result<(Vec<u8>, u32, u32), ffmpeg::Error> {
        let stored = (from.width(), from.height());
        let (width, height) = *self.size.get_or_insert_with(|| self.geometry.squared(stored.0, stored.1));
        let flat = match has_alpha(from.format()) {
            true => flatten(self.flattener.run(from, Pixel::RGBA, stored, self.flags)?)?,
            false => None,
        };
        let from = flat.as_ref().unwrap_or(from);
        let rgb = self.scaler.run(from, Pixel::RGB24, (width, height), self.flags)?;
        Ok((pack(rgb, width, height)?, width, height))
    }
}

/// Scales and converts frames; it is made again when their format or size changes.
#[derive(Default)]
struct Scaler {
    scaler: Option<(Key, scaling::Context)>,
    scaled: Option<frame::Video>,
}

/// Input of a scaler.
type Key = (Pixel, u32, u32, color::Space, color::Range);

impl Scaler {
    fn run(
        &mut self,
        from: &frame::Video,
        to: Pixel,
        (width, height): (u32, u32),
        flags: Flags,
    ) -> Result<&frame::Video, ffmpeg::Error> {
        let key = (from.format(), from.width(), from.height(), from.color_space(), from.color_range());
        let scaler = match &mut self.scaler {
            Some((made_for, scaler)) if *made_for == key => scaler,
            slot => {
                let mut scaler = scaling::Context::get(key.0, key.1, key.2, to, width, height, flags)?;
                set_colors(&mut scaler, key.3, key.4 == color::Range::JPEG || is_full_range(key.0));
                &mut slot.insert((key, scaler)).1
            }
        };
        let scaled = self.scaled.insert(frame::Video::empty());
        scaler.run(from, scaled)?;
        Ok(scaled)
    }
}

/// True for pixel formats with an alpha channel, or a palette that may have one.
fn has_alpha(format: Pixel) -> bool {
    // SAFETY: the descriptor is static, and its flags are a plain field.
    let flags = format.descriptor().map_or(0, |d| unsafe { (*d.as_ptr()).flags });
    flags & ffi::AV_PIX_FMT_FLAG_ALPHA as u64 != 0
}

/// A frame in RGBA on white; `None` if it is opaque.
fn flatten(rgba: &frame::Video) -> Result<Option<frame::Video>, ffmpeg::Error> {
    let (width, height) = (rgba.width(), rgba.height());
    let (row, lines) = (width as usize, height as usize);
    let from_stride = stride(rgba, row * 4)?;
    let is_opaque = |line: &[u8]| pixels(line, row).iter().all(|pixel| pixel[3] == 255);
    if rgba.data(0).chunks(from_stride).take(lines).all(is_opaque) {
        return Ok(None);
    }
    let mut flat = frame::Video::new(Pixel::RGB24, width, height);
    let to_stride = stride(&flat, row * 3)?;
    let rows = rgba.data(0).chunks(from_stride).zip(flat.data_mut(0).chunks_mut(to_stride));
    for (from, to) in rows.take(lines) {
        for ([r, g, b, alpha], to) in pixels(from, row).iter().zip(to.as_chunks_mut::<3>().0) {
            *to = [r, g, b].map(|value| on_white(*value, *alpha));
        }
    }
    Ok(Some(flat))
}

/// The first `count` pixels of a line in RGBA.
fn pixels(line: &[u8], count: usize) -> &[[u8; 4]] {
    &line.as_chunks().0[..count]
}

/// A value from 0 to 255 of a pixel on white, at this opacity from 0 to 255, rounded.
fn on_white(value: u8, alpha: u8) -> u8 {
    let [value, alpha] = [value, alpha].map(u32::from);
    ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// Set the scaler to the frame's matrix and range.
fn set_colors(scaler: &mut scaling::Context, space: color::Space, full_range: bool) {
    let matrix = match space {
        color::Space::BT709 => ffi::SWS_CS_ITU709,
        color::Space::FCC => ffi::SWS_CS_FCC,
        color::Space::SMPTE240M => ffi::SWS_CS_SMPTE240M,
        color::Space::BT2020NCL | color::Space::BT2020CL => ffi::SWS_CS_BT2020,
        _ => ffi::SWS_CS_DEFAULT,
    };
    if matrix == ffi::SWS_CS_DEFAULT && !full_range {
        return;
    }
    let full = i32::from(full_range);
    const UNITY: i32 = 1 << 16;
    // SAFETY: the scaler is initialized, the coefficient tables are static; for formats without a color matrix the call
    // returns an error code, which can be ignored.
    unsafe {
        let from = ffi::sws_getCoefficients(matrix);
        let to = ffi::sws_getCoefficients(ffi::SWS_CS_DEFAULT);
        ffi::sws_setColorspaceDetails(scaler.as_mut_ptr(), from, full, to, 1, 0, UNITY, UNITY);
    }
}

/// Deprecated pixel formats that imply full range.
fn is_full_range(format: Pixel) -> bool {
    matches!(format, Pixel::YUVJ411P | Pixel::YUVJ420P | Pixel::YUVJ422P | Pixel::YUVJ440P | Pixel::YUVJ444P)
}

/// The stride of a packed frame whose rows have `row` bytes.
fn stride(from: &frame::Video, row: usize) -> Result<usize, ffmpeg::Error> {
    // SAFETY: only asks whether the frame has a buffer.
    if from.planes() == 0 || unsafe { from.is_empty() } {
        return Err(ffmpeg::Error::Other { errno: ffmpeg::error::ENOMEM });
    }
    let stride = from.stride(0);
    if stride < row { Err(ffmpeg::Error::Bug) } else { Ok(stride) }
}

/// Copy the rows without the padding between them.
fn pack(from: &frame::Video, width: u32, height: u32) -> Result<Vec<u8>, ffmpeg::Error> {
    let row = width as usize * 3;
    let stride = stride(from, row)?;
    let mut rgb = Vec::with_capacity(row * height as usize);
    for line in from.data(0).chunks(stride).take(height as usize) {
        rgb.extend_from_slice(&line[..row]);
    }
    Ok(rgb)
}

#[cfg(test)]
mod tests {
    use super::on_white;

    #[test]
    fn transparency_shows_white() {
        for (value, alpha, want) in [(0, 0, 255), (90, 255, 90), (0, 128, 127), (255, 7, 255), (200, 1, 255)]
        {
            assert_eq!(on_white(value, alpha), want, "{value} at {alpha}");
        }
    }
}
