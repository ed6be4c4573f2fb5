//! What packets and decoded frames say of themselves.

use ffmpeg_next::{self as ffmpeg, Packet, codec, codec::packet::Ref, ffi};

use super::clock::Clock;

/// The time stamp of a decoded frame.
pub(super) fn stamp_of(picture: &ffmpeg::frame::Video) -> Option<i64> {
    picture.timestamp().or_else(|| picture.pts())
}

/// True if a frame was decoded with errors, so that part of it is reconstructed from other frames.
pub(super) fn is_damaged(picture: &ffmpeg::frame::Video) -> bool {
    // SAFETY: the frame is alive and both are plain fields.
    let (errors, flags) = unsafe { ((*picture.as_ptr()).decode_error_flags, (*picture.as_ptr()).flags) };
    errors != 0 || flags & ffi::AV_FRAME_FLAG_CORRUPT != 0
}

/// Put a packet on the joined clock.
pub(super) fn place(clock: &mut Clock, packet: &mut Packet) {
    let (dts, pts) = (packet.dts(), packet.pts());
    // Hidden ones have the times of others.
    if is_hidden(packet) {
        return;
    }
    let shift = clock.shift(dts, pts, packet.duration());
    if shift != 0 {
        packet.set_dts(dts.map(|dts| dts.saturating_add(shift)));
        packet.set_pts(pts.map(|pts| pts.saturating_add(shift)));
    }
}

/// True if a packet is decoded but never shown (before an edit list's start).
pub(super) fn is_hidden(packet: &Packet) -> bool {
    // SAFETY: the packet is alive and its flags are a plain field.
    let flags = unsafe { (*packet.as_ptr()).flags };
    flags & ffi::AV_PKT_FLAG_DISCARD != 0
}

/// True if a coded frame of VP8 or VP9 is a reference that is never shown by itself.
pub(super) fn is_invisible(codec: codec::Id, data: &[u8]) -> bool {
    let Some(&first) = data.first() else { return false };
    match codec {
        // RFC 6386, section 9.1: a bit for keyframes, three for the version, then the bit of shown frames.
        codec::Id::VP8 => first & 0x10 == 0,
        // VP9 bitstream specification, section 6.2: marker, profile, show_existing_frame, frame_type, show_frame. A superframe, whose
        // index ends the packet, has a shown frame.
        codec::Id::VP9 => {
            let is_superframe = data.last().is_some_and(|last| last & 0xe0 == 0xc0);
            let has_reserved_bit = first & 0x30 == 0x30;
            let bits = if has_reserved_bit { first << 1 } else { first };
            let (shows_existing, is_shown) = (bits & 0x08 != 0, bits & 0x02 != 0);
            !is_superframe && first & 0xc0 == 0x80 && !shows_existing && !is_shown
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_frames_are_told_by_their_first_bits() {
        for (codec, data, want) in [
            (codec::Id::VP8, &[0x10, 0][..], false),
            (codec::Id::VP8, &[0x01, 0], true),
            (codec::Id::VP9, &[0b1000_0010], false),
            (codec::Id::VP9, &[0b1000_0100], true),
            (codec::Id::VP9, &[0b1000_1000], false), // shows an existing frame
            (codec::Id::VP9, &[0b1011_0010], true),  // profile 3
            (codec::Id::VP9, &[0b1011_0001], false),
            (codec::Id::VP9, &[0b1000_0100, 0, 0xc1], false), // a superframe
            (codec::Id::H264, &[0], false),
            (codec::Id::VP8, &[], false),
        ] {
            assert_eq!(is_invisible(codec, data), want, "{codec:?} {data:?}");
        }
    }
}
