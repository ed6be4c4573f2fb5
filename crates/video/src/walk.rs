//! Walks through a file to the wanted frames, decoding as few others as possible.

use std::{collections::HashSet, path::Path};

use ffmpeg_next::{self as ffmpeg, Discard, frame};

use super::{
    Error,
    decoder::Decoder,
    packet::{is_damaged, stamp_of},
    source::Source,
    timeline::Timeline,
};

/// Decoder threads; the other cores are left to the model.
pub(super) const THREADS: usize = 2;

/// Give up after this many decoding errors in a row.
pub(super) const MAX_ERRORS: usize = 1000;

/// How many frames before the keyframe a second attempt starts, and the total number of such attempts.
const BACK_OFF: usize = 16;
const ATTEMPTS: usize = 6;

/// One walk from the first wanted frame to the last.
pub(super) struct Walk {
    source: Source,
    decoder: Decoder,
    pub(crate) timeline: Timeline,
    /// Wanted frames, increasing, and how many of them have been passed.
    wanted: Vec<usize>,
    next: usize,
    /// Time stamps of the wanted frames; non-reference frames are decoded only if they are in this set.
    stamps: HashSet<i64>,
    /// Index of the next decoded frame if none is lost, and the time stamp of the last one.
    position: usize,
    last_stamp: Option<i64>,
    may_seek: bool,
    /// No frame was decoded since the start or the last seek.
    fresh: bool,
    /// No keyframe was read since the last seek: what depends on earlier frames would be decoded without them.
    awaits_key: bool,
    /// How far back the next attempt starts if the wanted frame is missing after a seek; `None` if there was no seek.
    back_off: Option<usize>,
    /// Remaining attempts for the whole file: a damaged file must not be decoded over and over.
    attempts: usize,
    pub(crate) last_error: Option<ffmpeg::Error>,
    /// Indices of frames decoded with errors: a second attempt must not count them twice.
    damaged: HashSet<usize>,
    /// Packets and frames that the decoder rejected.
    refused: usize,
}

impl Walk {
    /// Prepare a walk. The source must be at its first packet.
    pub fn new(source: Source, timeline: Timeline, wanted: Vec<usize>) -> Result<Self, Error> {
        let decoder = source.decoder(THREADS)?;
        let stamps = if timeline.is_exact() {
            wanted.iter().filter_map(|&i| timeline.stamp(i)).collect()
        } else {
            HashSet::new()
        };
        Ok(Self {
            source,
            decoder,
            may_seek: !timeline.is_sequential(),
            timeline,
            wanted,
            next: 0,
            stamps,
            position: 0,
            last_stamp: None,
            fresh: true,
            awaits_key: false,
            back_off: None,
            attempts: ATTEMPTS,
            last_error: None,
            damaged: HashSet::new(),
            refused: 0,
        })
    }

    /// Number of frames decoded with errors, or not at all.
    pub fn damaged(&self) -> usize {
        self.damaged.len() + self.refused
    }

    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Decode the next wanted frame into `picture`: its index, or none at the end. A frame that cannot be decoded is replaced by the
    /// next good frame before the following wanted one, under that frame's own index; no frame comes twice.
    pub fn next(&mut self, picture: &mut frame::Video) -> Result<Option<usize>, Error> {
        self.jump()?;
        while let Some(&wanted) = self.wanted.get(self.next) {
            let there = self.pull(picture);
            if let Some(back) = self.back_off
                && self.attempts > 0
                && (!there || self.index_of(picture) > wanted)
            {
                // Missed: some decoders drop frames after a seek (H.264 those that follow the keyframe of an open group).
                // Starting from further back avoids that.
                self.attempts -= 1;
                self.back_off = Some(back * 8);
                match self.timeline.earlier_target(wanted, back) {
                    Some(target) => self.seek(target)?,
                    None => self.restart()?,
                }
                continue;
            }
            if !there {
                if self.fresh && self.may_seek {
                    // Some containers seek to a position without a following keyframe.
                    self.restart()?;
                    continue;
                }
                break;
            }
            let index = self.index_of(picture);
            let fresh = std::mem::replace(&mut self.fresh, false);
            if fresh && self.may_seek && index > wanted {
                // The seek went past the wanted frame: restart without seeks.
                self.restart()?;
                continue;
            }
            self.position = index + 1;
            self.last_stamp = stamp_of(picture);
            self.back_off = self.back_off.filter(|_| index < wanted);
            if index >= wanted {
                // Planned frames that the file lacks are passed as well.
                self.next += self.wanted[self.next..].partition_point(|&wanted| wanted <= index);
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The next decoded frame; false at the end.
    fn pull(&mut self, picture: &mut frame::Video) -> bool {
        let mut refused = 0;
        let mut ended = false;
        loop {
            match self.decoder.receive_frame(picture) {
                Ok(()) => {
                    if is_damaged(picture) {
                        self.damaged.insert(self.index_of(picture));
                    }
                    return true;
                }
                Err(ffmpeg::Error::Eof) => return false,
                Err(ffmpeg::Error::Other { errno: ffmpeg::error::EAGAIN }) => {}
                Err(error) => {
                    self.last_error = Some(error);
                    refused += 1;
                    self.refused += 1;
                }
            }
            if refused > MAX_ERRORS {
                return false;
            }
            let sent = match (ended, self.source.next_packet()) {
                (false, Some(packet)) => {
                    self.awaits_key &= !packet.is_key();
                    if self.awaits_key {
                        continue;
                    }
                    if self.timeline.is_exact() {
                        let wanted = packet.pts().is_none_or(|stamp| self.stamps.contains(&stamp));
                        self.decoder.skip_frame(if wanted {
                            Discard::Default
                        } else {
                            Discard::NonReference
                        });
                    }
                    self.decoder.send_packet(&packet)
                }
                (false, None) => {
                    ended = true;
                    self.decoder.send_eof()
                }
                (true, _) => {
                    refused += 1;
                    Ok(())
                }
            };
            if let Err(error) = sent {
                self.last_error = Some(error);
                refused += 1;
                self.refused += 1;
            }
        }
    }

    fn index_of(&self, picture: &frame::Video) -> usize {
        // Where decode times replace the times of frames, the last frames of a file have the same time.
        let stamp = stamp_of(picture).filter(|stamp| self.last_stamp != Some(*stamp));
        stamp.and_then(|stamp| self.timeline.index(stamp)).unwrap_or(self.position)
    }

    /// Seek towards the next wanted frame if that saves work.
    fn jump(&mut self) -> Result<(), Error> {
        let Some(&wanted) = self.wanted.get(self.next).filter(|_| self.may_seek) else {
            return Ok(());
        };
        let source = &mut self.source;
        let target = self.timeline.seek_target(self.position, wanted, |stamp| source.indexed_keyframe(stamp));
        let Some(target) = target else {
            return Ok(());
        };
        self.back_off = Some(BACK_OFF);
        self.seek(target)
    }

    fn seek(&mut self, target: i64) -> Result<(), Error> {
        match self.source.seek(target) {
            Ok(()) => {
                // A decoder that has reached the end of the file takes packets again only after a flush.
                self.decoder.flush();
                self.last_stamp = None;
                self.fresh = true;
                self.awaits_key = true;
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, path = %self.source.path.display(), "cannot seek; decoding from the start");
                self.restart()
            }
        }
    }

    /// Restart at the beginning with a new decoder, without seeks.
    fn restart(&mut self) -> Result<(), Error> {
        self.may_seek = false;
        self.back_off = None;
        self.source = self.source.reopen()?;
        self.decoder = self.source.decoder(THREADS)?;
        self.position = 0;
        self.last_stamp = None;
        self.fresh = false;
        self.awaits_key = false;
        Ok(())
    }
}
