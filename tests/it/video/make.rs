//! Makes small video files in which every frame encodes its own number.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use ffmpeg_next::{
    Dictionary, Packet, Rational, codec, encoder, format, frame,
    software::scaling::{self, Flags},
    util::format::Pixel,
};
use specreel_video::{self as video, Frame};

/// A clip to write; by default 96 x 64, 25 frames a second, mpeg4 in mp4.
#[derive(Clone)]
pub struct Clip {
    pub width: u32,
    pub height: u32,
    pub pixel: Pixel,
    /// Encoders in order of preference.
    pub codecs: &'static [&'static str],
    pub extension: &'static str,
    /// Time stamps in milliseconds.
    pub stamps: Vec<i64>,
    pub group: u32,
    pub b_frames: usize,
    /// Open groups of pictures: frames after a keyframe may refer to frames before it.
    pub open: bool,
    /// The muxer's `movflags`; `faststart` puts the index before the media data.
    pub movflags: &'static str,
}

pub const H264: &[&str] = &["libx264", "mpeg4"];
pub const LOSSLESS: &[&str] = &["ffv1"];

impl Clip {
    pub fn of(frames: usize) -> Self {
        Self {
            width: 96,
            height: 64,
            pixel: Pixel::YUV420P,
            codecs: &["mpeg4"],
            extension: "mp4",
            stamps: (0..frames as i64).map(|i| i * 40).collect(),
            group: 12,
            b_frames: 0,
            open: false,
            movflags: "",
        }
    }

    /// H.264 with B-frames, if the encoder is available.
    pub fn h264(frames: usize, group: u32) -> Self {
        Self { codecs: H264, group, b_frames: 2, ..Self::of(frames) }
    }

    /// Lossless in Matroska, for pixel formats and sizes that other codecs refuse.
    pub fn lossless(frames: usize, width: u32, height: u32, pixel: Pixel) -> Self {
        Self { width, height, pixel, codecs: LOSSLESS, extension: "mkv", ..Self::of(frames) }
    }

    pub fn write(&self) -> File {
        video::init();
        let file = File::new(self.extension);
        let codec = self.codecs.iter().find_map(|name| encoder::find_by_name(name)).expect("an encoder");
        let mut output = format::output(&file.path).unwrap();
        let global = output.format().flags().contains(format::Flags::GLOBAL_HEADER);
        let tick = Rational(1, 1000);

        let mut context = codec::Context::new_with_codec(codec).encoder().video().unwrap();
        context.set_width(self.width);
        context.set_height(self.height);
        context.set_format(self.pixel);
        context.set_time_base(tick);
        context.set_frame_rate(Some(Rational(25, 1)));
        context.set_gop(self.group);
        context.set_max_b_frames(self.b_frames);
        context.set_bit_rate(4_000_000);
        if global {
            context.set_flags(codec::Flags::GLOBAL_HEADER);
        }
        let mut options = Dictionary::new();
        if codec.name() == "libx264" {
            options.set("preset", "veryfast");
            options.set("crf", "10");
            options.set("sc_threshold", "0");
            options.set("b_strategy", "0");
            if self.open {
                options.set("x264-params", "open-gop=1:b-pyramid=normal");
            }
        }
        let mut encoder = context.open_as_with(codec, options).unwrap();
        let mut stream = output.add_stream(codec).unwrap();
        stream.set_parameters(&encoder);
        stream.set_time_base(tick);
        stream.set_avg_frame_rate(Rational(25, 1));
        let mut options = Dictionary::new();
        if !self.movflags.is_empty() {
            options.set("movflags", self.movflags);
        }
        output.write_header_with(options).unwrap();
        let tick_out = output.stream(0).unwrap().time_base();

        let mut drain = |encoder: &mut encoder::Video| {
            let mut packet = Packet::empty();
            while encoder.receive_packet(&mut packet).is_ok() {
                packet.set_stream(0);
                packet.rescale_ts(tick, tick_out);
                packet.write_interleaved(&mut output).unwrap();
            }
        };
        for (number, &stamp) in self.stamps.iter().enumerate() {
            let mut picture = numbered(number, self.width, self.height, self.pixel);
            picture.set_pts(Some(stamp));
            encoder.send_frame(&picture).unwrap();
            drain(&mut encoder);
        }
        encoder.send_eof().unwrap();
        drain(&mut encoder);
        output.write_trailer().unwrap();
        drop(output);
        file
    }
}

/// A picture of eight vertical stripes, white where the number's bit is set (lowest bit at the left); tiny pictures are gray.
fn numbered(number: usize, width: u32, height: u32, pixel: Pixel) -> frame::Video {
    let mut rgb = frame::Video::new(Pixel::RGB24, width, height);
    let stride = rgb.stride(0);
    for line in rgb.data_mut(0).chunks_mut(stride) {
        for x in 0..width as usize {
            let bit = if width < 16 { 0 } else { number >> (x * 8 / width as usize) & 1 };
            let level = if width < 16 { 128 } else { 40 + 180 * bit as u8 };
            line[3 * x..3 * x + 3].fill(level);
        }
    }
    let mut out = frame::Video::empty();
    scaling::Context::get(Pixel::RGB24, width, height, pixel, width, height, Flags::BICUBIC)
        .unwrap()
        .run(&rgb, &mut out)
        .unwrap();
    out
}

pub fn number(frame: &Frame) -> usize {
    assert_eq!(frame.rgb.len(), (frame.width * frame.height * 3) as usize);
    let row = (frame.height / 2 * frame.width) as usize;
    (0..8)
        .filter(|bit| frame.rgb[3 * (row + (2 * bit + 1) * frame.width as usize / 16)] > 130)
        .map(|bit| 1 << bit)
        .sum()
}

pub struct File {
    pub path: PathBuf,
    _home: tempfile::TempDir,
}

impl File {
    pub fn new(extension: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let home = tempfile::tempdir().unwrap();
        let name = format!("clip {}.{extension}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { path: home.path().join(name), _home: home }
    }

    pub fn with(extension: &str, bytes: &[u8]) -> Self {
        let file = Self::new(extension);
        std::fs::write(&file.path, bytes).unwrap();
        file
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub fn cut(&self, share: f64) -> File {
        let bytes = self.bytes();
        let extension = self.path.extension().unwrap().to_str().unwrap();
        File::with(extension, &bytes[..(bytes.len() as f64 * share) as usize])
    }

    /// Write another display matrix (a b c d) into an mp4's track header.
    pub fn turned(self, [a, b, c, d]: [i32; 4]) -> File {
        let mut bytes = self.bytes();
        let at = bytes.windows(4).position(|w| w == b"tkhd").expect("a track header") + 4 + 40;
        let one = 1 << 16;
        for (i, value) in [a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30].into_iter().enumerate() {
            bytes[at + 4 * i..at + 4 * i + 4].copy_from_slice(&i32::to_be_bytes(value));
        }
        std::fs::write(&self.path, bytes).unwrap();
        self
    }
}

impl AsRef<Path> for File {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// A second of silence.
pub fn wav() -> File {
    let data = vec![0u8; 16_000];
    let mut bytes = Vec::new();
    bytes.extend(b"RIFF");
    bytes.extend((36 + data.len() as u32).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend([1u16, 1].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend([8000u32, 16_000].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend([2u16, 16].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    File::with("wav", &bytes)
}

/// A FLAC file without sound whose cover is a PNG.
pub fn flac_with_cover() -> File {
    let mut png = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(16, 16).write_to(&mut png, image::ImageFormat::Png).unwrap();
    let png = png.into_inner();
    let block = |kind: u8, body: &[u8]| {
        let mut out = vec![kind];
        out.extend(&(body.len() as u32).to_be_bytes()[1..]);
        out.extend(body);
        out
    };
    // Blocks of 4096 samples, 44.1 kHz, 2 channels, 16 bits, unknown length.
    let mut info = vec![0x10, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0xc4, 0x42, 0xf0];
    info.resize(34, 0);
    let mut picture = Vec::new();
    picture.extend(3u32.to_be_bytes());
    picture.extend(9u32.to_be_bytes());
    picture.extend(b"image/png");
    picture.extend(0u32.to_be_bytes());
    picture.extend([16u32, 16, 24, 0, png.len() as u32].iter().flat_map(|n| n.to_be_bytes()));
    picture.extend(png);
    let bytes = [b"fLaC".to_vec(), block(0, &info), block(0x80 | 6, &picture)].concat();
    File::with("flac", &bytes)
}
