//! Encodes a scene to an mp4 file: H.264 if FFmpeg has libx264, else MPEG-4 part 2; yuv420p, fast start.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ffmpeg_next::{Dictionary, Packet, Rational, codec, encoder, format, frame, software::scaling};

use super::{render, world::Scene};

#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// 4:2:0 chroma subsampling needs even sizes.
    #[error("cannot encode {width}x{height}: width and height must be even and at least 16; try {}x{}", even(*width), even(*height))]
    Size { width: u32, height: u32 },
    /// This FFmpeg build has neither of the encoders.
    #[error("no video encoder: this FFmpeg build has neither libx264 nor MPEG-4")]
    NoEncoder,
    #[error("{path}: cannot {action}: {source}", path = .path.display())]
    Ffmpeg { path: PathBuf, action: &'static str, source: ffmpeg_next::Error },
}

impl EncodeError {
    pub fn is_full(&self) -> bool {
        let full = |errno| {
            let kind = std::io::Error::from_raw_os_error(errno).kind();
            matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        };
        matches!(self, Self::Ffmpeg { source: ffmpeg_next::Error::Other { errno }, .. } if full(*errno))
    }
}

fn even(size: u32) -> u32 {
    (size + size % 2).max(16)
}

/// Renders `scene` at its nominal frame rate and writes it to `path` (which should end in `.mp4`).
pub fn mp4(scene: &Scene, path: &Path, width: u32, height: u32) -> Result<(), EncodeError> {
    if width % 2 + height % 2 > 0 || width < 16 || height < 16 {
        return Err(EncodeError::Size { width, height });
    }
    let failed = |action| move |source| EncodeError::Ffmpeg { path: path.to_owned(), action, source };
    ffmpeg_next::init().map_err(failed("start"))?;
    // Encoders log to stderr.
    ffmpeg_next::util::log::set_level(ffmpeg_next::util::log::Level::Quiet);
    let mut file = Writer::create(scene, path, width, height)?;
    let mut scaler = scaling::Context::get(
        format::Pixel::RGB24,
        width,
        height,
        format::Pixel::YUV420P,
        width,
        height,
        scaling::Flags::BICUBIC | scaling::Flags::ACCURATE_RND | scaling::Flags::FULL_CHR_H_INP,
    )
    .map_err(failed("set up the colour conversion"))?;
    let mut picture = frame::Video::new(format::Pixel::RGB24, width, height);
    for index in 0..scene.total_frames() {
        let pixels = render::frame(scene, index as f64 / scene.fps, width, height);
        let stride = picture.stride(0);
        let rows = picture.data_mut(0).chunks_exact_mut(stride);
        for (row, line) in rows.zip(pixels.chunks_exact(3 * width as usize)) {
            row[..line.len()].copy_from_slice(line);
        }
        let mut converted = frame::Video::empty();
        scaler.run(&picture, &mut converted).map_err(failed("convert a frame"))?;
        converted.set_pts(Some(index as i64));
        file.encoder.send_frame(&converted).map_err(failed("encode a frame"))?;
        file.drain().map_err(failed("write a packet"))?;
    }
    file.encoder.send_eof().map_err(failed("finish encoding"))?;
    file.drain().map_err(failed("write a packet"))?;
    file.output.write_trailer().map_err(failed("finish the file"))
}

/// An open file and the encoder that feeds it.
struct Writer {
    output: format::context::Output,
    encoder: encoder::Video,
    ticks: Rational,
}

impl Writer {
    fn create(scene: &Scene, path: &Path, width: u32, height: u32) -> Result<Self, EncodeError> {
        let failed = |action| move |source| EncodeError::Ffmpeg { path: path.to_owned(), action, source };
        let (codec, options) = choose().ok_or(EncodeError::NoEncoder)?;
        let rate = Rational(scene.fps.round() as i32, 1);
        let ticks = rate.invert();
        let mut output = format::output_as(path, "mp4").map_err(failed("create the file"))?;
        let global_header = output.format().flags().contains(format::Flags::GLOBAL_HEADER);
        let mut video =
            codec::Context::new_with_codec(codec).encoder().video().map_err(failed("set up the encoder"))?;
        video.set_width(width);
        video.set_height(height);
        video.set_format(format::Pixel::YUV420P);
        video.set_time_base(ticks);
        video.set_frame_rate(Some(rate));
        video.set_gop(60);
        if codec.id() == codec::Id::MPEG4 {
            video.set_bit_rate((width * height * 4) as usize);
        }
        if global_header {
            video.set_flags(codec::Flags::GLOBAL_HEADER);
        }
        let encoder = video.open_with(options).map_err(failed("open the encoder"))?;
        let mut stream = output.add_stream(codec).map_err(failed("add a stream"))?;
        stream.set_parameters(&encoder);
        stream.set_time_base(ticks);
        stream.set_avg_frame_rate(rate);
        let layout = Dictionary::from_iter([("movflags", "+faststart")]);
        output.write_header_with(layout).map_err(failed("write the header"))?;
        Ok(Self { output, encoder, ticks })
    }

    /// Moves every finished packet into the file.
    fn drain(&mut self) -> Result<(), ffmpeg_next::Error> {
        // The muxer may choose its own ticks when it writes the header.
        let ticks = self.output.stream(0).map_or(self.ticks, |stream| stream.time_base());
        let mut packet = Packet::empty();
        while self.encoder.receive_packet(&mut packet).is_ok() {
            packet.set_stream(0);
            packet.set_duration(1);
            packet.rescale_ts(self.ticks, ticks);
            packet.write_interleaved(&mut self.output)?;
        }
        Ok(())
    }
}

fn choose() -> Option<(ffmpeg_next::Codec, Dictionary<'static>)> {
    if let Some(codec) = encoder::find_by_name("libx264") {
        // One thread: the same scene gives the same bytes everywhere.
        return Some((codec, Dictionary::from_iter([("preset", "slow"), ("crf", "20"), ("threads", "1")])));
    }
    encoder::find(codec::Id::MPEG4).map(|codec| (codec, Dictionary::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_every_frame_and_the_requested_size() {
        let scene = Scene::from_seed(4);
        let path = std::env::temp_dir().join(format!("specreel-scene-{}.mp4", std::process::id()));
        mp4(&scene, &path, 160, 96).unwrap();
        let mut input = format::input(&path).unwrap();
        let stream = input.streams().best(ffmpeg_next::media::Type::Video).unwrap();
        let video = codec::Context::from_parameters(stream.parameters()).unwrap().decoder().video().unwrap();
        assert_eq!((video.width(), video.height(), video.format()), (160, 96, format::Pixel::YUV420P));
        assert_eq!(f64::from(stream.avg_frame_rate()).round(), scene.fps);
        assert_eq!(input.packets().count(), scene.total_frames());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn odd_sizes_are_refused_with_a_suggestion() {
        let error = mp4(&Scene::from_seed(4), Path::new("never.mp4"), 161, 96).unwrap_err();
        assert!(error.to_string().ends_with("try 162x96"), "{error}");
    }
}
