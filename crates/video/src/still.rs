//! Pictures: reads what FFmpeg does not report or cannot read.
//!
//! The EXIF orientation of JPEG, PNG, WebP and TIFF reaches a user of FFmpeg with the first decoded frame or not at all, so it is
//! read from the file. Animated WebP, which many builds of FFmpeg cannot read, is converted to APNG in memory.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use image::{ImageDecoder, ImageFormat, ImageReader, metadata::Orientation as Exif};
use image_webp::WebPDecoder;

use super::{Error, orientation::Orientation};

/// Bytes of a TIFF file that are searched for its orientation.
const MAX_TIFF: u64 = 1 << 28;

/// Most pixels of an animation, all frames together: two minutes of 720p at 25 frames a second.
const MAX_PIXELS: u64 = 3_000_000_000;

/// A kind of picture that FFmpeg needs help with, or has no good message for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Jpeg,
    Png,
    Webp,
    AnimatedWebp,
    Tiff,
    Avif,
    Heic,
}

impl Kind {
    /// By the first bytes of a file.
    pub fn of(head: &[u8]) -> Option<Self> {
        Some(match head {
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [0x89, b'P', b'N', b'G', ..] => Self::Png,
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Self::Tiff,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => match rest {
                // The flag of animations in the extended header.
                [b'V', b'P', b'8', b'X', _, _, _, _, flags, ..] if flags & 2 != 0 => Self::AnimatedWebp,
                _ => Self::Webp,
            },
            [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => match brand.first_chunk()? {
                b"avif" | b"avis" => Self::Avif,
                b"heic" | b"heix" | b"mif1" | b"msf1" => Self::Heic,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Its name in a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::Webp => "WebP",
            Self::AnimatedWebp => "animated WebP",
            Self::Tiff => "TIFF",
            Self::Avif => "AVIF",
            Self::Heic => "HEIC",
        }
    }

    /// The orientation in the file's EXIF data, if it has any. A damaged file has none: decoding says what is wrong with it.
    pub fn orientation(self, path: &Path) -> Option<Orientation> {
        let reader = || File::open(path).map(BufReader::new).ok();
        let of_image =
            |format| ImageReader::with_format(reader()?, format).into_decoder().ok()?.orientation().ok();
        let exif = match self {
            Self::Jpeg => of_image(ImageFormat::Jpeg),
            Self::Png => of_image(ImageFormat::Png),
            Self::Webp | Self::AnimatedWebp => {
                let data = WebPDecoder::new(reader()?).ok()?.exif_metadata().ok()??;
                Exif::from_exif_chunk(&data)
            }
            // The file itself has the structure of EXIF data.
            Self::Tiff => {
                let mut bytes = Vec::new();
                reader()?.take(MAX_TIFF).read_to_end(&mut bytes).ok()?;
                Exif::from_exif_chunk(&bytes)
            }
            // Their containers say it, and FFmpeg obeys.
            Self::Avif | Self::Heic => None,
        };
        exif.map(|exif| Orientation::from_exif(exif.to_exif()))
    }
}

/// The bytes of an APNG with the pictures and times of an animated WebP. Fails for a damaged or too long file.
pub(super) fn apng(path: &Path, file: &mut File) -> Result<Vec<u8>, Error> {
    file.seek(SeekFrom::Start(0)).map_err(|source| Error::Unreadable { path: path.into(), source })?;
    let damaged = |detail: String| Error::Damaged { path: path.into(), detail };
    let mut webp = WebPDecoder::new(BufReader::new(file)).map_err(|error| damaged(error.to_string()))?;
    if !webp.is_animated() {
        return Err(damaged("its header promises an animation".into()));
    }
    // Disposed areas are transparent; the color in the header is only a hint.
    webp.set_background_color([0; 4]).map_err(|error| damaged(error.to_string()))?;
    let (width, height) = webp.dimensions();
    let frames = webp.num_frames();
    if u64::from(width) * u64::from(height) * u64::from(frames) > MAX_PIXELS {
        return Err(Error::TooLong { path: path.into(), frames, width, height });
    }
    write_apng(&mut webp).map_err(|error| damaged(error.to_string()))
}

fn write_apng(webp: &mut WebPDecoder<BufReader<&mut File>>) -> io::Result<Vec<u8>> {
    let (width, height) = webp.dimensions();
    let color = if webp.has_alpha() { png::ColorType::Rgba } else { png::ColorType::Rgb };
    let mut pixels = vec![0; webp.output_buffer_size().ok_or(io::ErrorKind::OutOfMemory)?];
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_compression(png::Compression::Fastest);
    encoder.set_animated(webp.num_frames(), 0)?;
    let mut writer = encoder.write_header()?;
    for _ in 0..webp.num_frames() {
        let ms = webp.read_frame(&mut pixels).map_err(io::Error::other)?;
        // Longer times do not fit in milliseconds.
        match u16::try_from(ms) {
            Ok(ms) => writer.set_frame_delay(ms, 1000)?,
            Err(_) => writer.set_frame_delay(u16::try_from(ms / 1000).unwrap_or(u16::MAX), 1)?,
        }
        writer.write_image_data(&pixels)?;
    }
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn kinds_are_told_by_the_first_bytes() {
        let webp = |flags: u8| [b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0".as_slice(), &[flags]].concat();
        for (head, want) in [
            (b"\xff\xd8\xff\xe0".to_vec(), Some(Kind::Jpeg)),
            (b"\x89PNG\r\n".to_vec(), Some(Kind::Png)),
            (b"RIFF\0\0\0\0WEBPVP8 ".to_vec(), Some(Kind::Webp)),
            (webp(0x10), Some(Kind::Webp)),
            (webp(0x12), Some(Kind::AnimatedWebp)),
            (b"MM\0*".to_vec(), Some(Kind::Tiff)),
            (b"\0\0\0 ftypavif".to_vec(), Some(Kind::Avif)),
            (b"\0\0\0 ftypheic".to_vec(), Some(Kind::Heic)),
            (b"\0\0\0 ftypisom".to_vec(), None),
            (b"\0\0\0 ftyp".to_vec(), None),
            (b"RIFF\0\0\0\0AVI ".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Kind::of(&head), want, "{head:?}");
        }
    }
}
