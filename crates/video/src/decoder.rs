//! A decoder of pictures, which adds the alpha channel that VP8 and VP9 in WebM store next to each picture.
//!
//! Such a file has a second stream of the same codec in the side data of its packets, whose luma is the alpha channel. FFmpeg's own
//! decoders ignore it, so a second decoder reads it. Pictures without it are opaque.

use std::collections::VecDeque;

use ffmpeg_next::{
    self as ffmpeg, Discard, Packet, codec::packet::side_data, decoder, ffi, frame, util::format::Pixel,
};

/// Identifies alpha among the additions to a packet.
const ALPHA: u64 = 1;

/// Decoded alpha channels that wait for their picture; more are dropped.
const WAITING: usize = 32;

pub(super) struct Decoder {
    video: decoder::Video,
    alpha: Option<Alpha>,
}

struct Alpha {
    video: decoder::Video,
    /// Decoded and not used yet, in order.
    waiting: VecDeque<frame::Video>,
}

impl Decoder {
    /// `alpha` decodes the alpha channel, where the stream has one in its packets' side data.
    pub fn new(video: decoder::Video, alpha: Option<decoder::Video>) -> Self {
        Self { video, alpha: alpha.map(|video| Alpha { video, waiting: VecDeque::new() }) }
    }

    /// What the stream's parameters say.
    pub fn video(&self) -> &decoder::Video {
        &self.video
    }

    pub fn send_packet(&mut self, packet: &Packet) -> Result<(), ffmpeg::Error> {
        if let Some(alpha) = &mut self.alpha {
            alpha.send(packet);
        }
        self.video.send_packet(packet)
    }

    pub fn send_eof(&mut self) -> Result<(), ffmpeg::Error> {
        if let Some(alpha) = &mut self.alpha {
            // Without its last alpha channels a picture is opaque.
            let _ = alpha.video.send_eof();
            alpha.drain();
        }
        self.video.send_eof()
    }

    pub fn receive_frame(&mut self, picture: &mut frame::Video) -> Result<(), ffmpeg::Error> {
        self.video.receive_frame(picture)?;
        if let Some(with_alpha) = self.alpha.as_mut().and_then(|alpha| alpha.add_to(picture)) {
            *picture = with_alpha;
        }
        Ok(())
    }

    pub fn flush(&mut self) {
        self.video.flush();
        if let Some(alpha) = &mut self.alpha {
            alpha.video.flush();
            alpha.waiting.clear();
        }
    }

    pub fn skip_frame(&mut self, which: Discard) {
        self.video.skip_frame(which);
        if let Some(alpha) = &mut self.alpha {
            alpha.video.skip_frame(which);
        }
    }
}

impl Alpha {
    fn send(&mut self, packet: &Packet) {
        let added = packet.side_data().find(|data| data.kind() == side_data::Type::MatroskaBlockAdditional);
        let Some(coded) = added.as_ref().and_then(|data| coded_alpha(data.data())) else { return };
        let mut own = Packet::copy(coded);
        own.set_pts(packet.pts());
        own.set_dts(packet.dts());
        own.set_flags(packet.flags());
        // A channel that cannot be decoded leaves its picture opaque.
        let _ = self.video.send_packet(&own);
        self.drain();
    }

    fn drain(&mut self) {
        let mut picture = frame::Video::empty();
        while self.video.receive_frame(&mut picture).is_ok() {
            self.waiting.push_back(std::mem::replace(&mut picture, frame::Video::empty()));
        }
        while self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
    }

    /// A picture with its alpha channel; `None` if there is none for it.
    fn add_to(&mut self, picture: &frame::Video) -> Option<frame::Video> {
        while self.waiting.front()?.pts() < picture.pts() {
            self.waiting.pop_front();
        }
        if self.waiting.front()?.pts() != picture.pts() {
            return None;
        }
        let alpha = self.waiting.pop_front()?;
        let (width, height) = (picture.width(), picture.height());
        let fits = alpha.planes() > 0 && (alpha.width(), alpha.height()) == (width, height);
        if picture.format() != Pixel::YUV420P || !fits {
            return None;
        }
        let mut merged = frame::Video::new(Pixel::YUVA420P, width, height);
        for plane in 0..3 {
            copy_plane(picture, plane, &mut merged, plane);
        }
        copy_plane(&alpha, 0, &mut merged, 3);
        // SAFETY: both frames are alive; only properties, such as the time stamp and the colors, are copied.
        let copied = unsafe { ffi::av_frame_copy_props(merged.as_mut_ptr(), picture.as_ptr()) };
        (copied >= 0).then_some(merged)
    }
}

/// The coded alpha channel in a packet's side data, which its first eight bytes identify.
fn coded_alpha(added: &[u8]) -> Option<&[u8]> {
    let (id, coded) = added.split_first_chunk::<8>()?;
    (u64::from_be_bytes(*id) == ALPHA && !coded.is_empty()).then_some(coded)
}

/// Copy a plane of 8-bit values between frames of one size. Plane 3 and plane 0 have the full size, the others half of it.
fn copy_plane(from: &frame::Video, source: usize, to: &mut frame::Video, target: usize) {
    let halved = |side: u32| if matches!(target, 1 | 2) { side.div_ceil(2) } else { side };
    let (width, height) = (halved(from.width()) as usize, halved(from.height()) as usize);
    let (from_stride, to_stride) = (from.stride(source), to.stride(target));
    let lines = from.data(source).chunks(from_stride).zip(to.data_mut(target).chunks_mut(to_stride));
    for (from, to) in lines.take(height) {
        to[..width].copy_from_slice(&from[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::coded_alpha;

    #[test]
    fn only_alpha_is_taken_from_additions() {
        assert_eq!(coded_alpha(&[0, 0, 0, 0, 0, 0, 0, 1, 7, 8]), Some(&[7, 8][..]));
        for other in [&[0, 0, 0, 0, 0, 0, 0, 4, 7][..], &[0, 0, 0, 0, 0, 0, 0, 1], &[1], &[]] {
            assert_eq!(coded_alpha(other), None);
        }
    }
}
