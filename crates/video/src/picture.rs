//! Converts decoded frames to upright RGB.

use std::path::Path;

use ffmpeg_next::{
    self as ffmpeg, color, ffi, frame,
    software::scaling::{self, Flags},
    util::format::Pixel,
};

use super::{Error, orientation::Orientation};

/// One frame, upright.
#[derive(Clone, PartialEq)]
pub struct Frame {
    /// Number of the frame in presentation order, from 0.
    pub index: usize,
    /// Presentation time in seconds from the first frame.
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

/// Converts frames of one stream to RGB24 of one size.
///
/// Matrix and range come from the frame; the default is BT.601, limited range, as in swscale. Transfer curves and primaries
/// are not converted: there is no tone mapping of HDR video.
pub(super) struct Converter {
    orientation: Orientation,
    flags: Flags,
    /// Output size before rotation; by default the first frame's. A stream that changes its size is scaled to it, so
    /// that consumers see one size.
    size: Option<(u32, u32)>,
    scaler: Option<(Key, scaling::Context)>,
}

/// Input of a scaler.
type Key = (Pixel, u32, u32, color::Space, color::Range);

impl Converter {
    /// `size` is in stored pixels, before rotation.
    pub fn new(orientation: Orientation, size: Option<(u32, u32)>) -> Self {
        let flags = if size.is_some() { Flags::AREA } else { Flags::BICUBIC };
        Self { orientation, flags: flags | Flags::ACCURATE_RND, size, scaler: None }
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
        let rgb = self.orientation.apply(rgb, width, height);
        let (width, height) = self.orientation.size(width, height);
        Ok(Frame { index, timestamp_s, width, height, rgb })
    }

    /// The pixels of a frame as stored, with width and height.
    fn rgb(&mut self, from: &frame::Video) -> Result<(Vec<u8>, u32, u32), ffmpeg::Error> {
        let (width, height) = *self.size.get_or_insert((from.width(), from.height()));
        let key = (from.format(), from.width(), from.height(), from.color_space(), from.color_range());
        let scaler = match &mut self.scaler {
            Some((made_for, scaler)) if *made_for == key => scaler,
            slot => {
                let mut scaler =
                    scaling::Context::get(key.0, key.1, key.2, Pixel::RGB24, width, height, self.flags)?;
                set_colors(&mut scaler, key.3, key.4 == color::Range::JPEG || is_full_range(key.0));
                &mut slot.insert((key, scaler)).1
            }
        };
        let mut rgb = frame::Video::empty();
        scaler.run(from, &mut rgb)?;
        Ok((pack(&rgb, width, height)?, width, height))
    }
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

/// Copy the rows without the padding between them.
fn pack(from: &frame::Video, width: u32, height: u32) -> Result<Vec<u8>, ffmpeg::Error> {
    // SAFETY: only asks whether the frame has a buffer.
    if from.planes() == 0 || unsafe { from.is_empty() } {
        return Err(ffmpeg::Error::Other { errno: ffmpeg::error::ENOMEM });
    }
    let (row, stride) = (width as usize * 3, from.stride(0));
    if stride < row {
        return Err(ffmpeg::Error::Bug);
    }
    let mut rgb = Vec::with_capacity(row * height as usize);
    for line in from.data(0).chunks(stride).take(height as usize) {
        rgb.extend_from_slice(&line[..row]);
    }
    Ok(rgb)
}
