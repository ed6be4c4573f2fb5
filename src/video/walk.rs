//! The walk through a file that meets the wanted frames and decodes as little else as it can.

use std::{collections::HashSet, ops::ControlFlow};

use ffmpeg_next::{self as ffmpeg, Discard, decoder, frame};

use super::{
    Error,
    source::{Source, is_damaged},
    timeline::Timeline,
};

/// Two threads: decoding feeds a model that wants the other cores.
const THREADS: usize = 2;

/// After this many refused packets or frames in a row nothing good will come.
const PATIENCE: usize = 1000;

/// Frames before the keyframe from which a second attempt begins, and attempts at all.
const BACK_OFF: usize = 16;
const ATTEMPTS: usize = 6;

/// What is done with a wanted frame: its index, then the picture.
pub(super) type Meet<'m> = dyn FnMut(usize, &frame::Video) -> Result<ControlFlow<()>, Error> + 'm;

/// Walks once from the first wanted frame to the last.
pub(super) struct Walk<'a> {
    source: Source,
    decoder: decoder::Video,
    timeline: &'a Timeline,
    /// Wanted frames, increasing.
    wanted: &'a [usize],
    /// Time stamps of the wanted frames; frames that no other frame refers to are not decoded unless they are in it.
    stamps: HashSet<i64>,
    /// Index that the next decoded frame would have if none were lost.
    position: usize,
    may_seek: bool,
    /// No frame has come out since the start or the last seek.
    fresh: bool,
    /// How far back the next attempt begins to meet a wanted frame that was sought; none where it was met or not sought.
    back_off: Option<usize>,
    /// Attempts left for all of the file: a damaged one must not be decoded over and over.
    attempts: usize,
    /// What the decoder said last.
    pub complaint: Option<ffmpeg::Error>,
    /// Frames that were decoded with errors, by index: a second attempt must not count them twice.
    damaged: HashSet<usize>,
    /// Packets and frames that the decoder refused.
    refused: usize,
}

impl<'a> Walk<'a> {
    /// Prepare a walk. The source must stand at its first packet.
    pub fn new(source: Source, timeline: &'a Timeline, wanted: &'a [usize]) -> Result<Self, Error> {
        let decoder = source.decoder(THREADS)?;
        let stamps = if timeline.is_exact() {
            wanted.iter().filter_map(|&i| timeline.stamp(i)).collect()
        } else {
            HashSet::new()
        };
        Ok(Self {
            source,
            decoder,
            timeline,
            wanted,
            stamps,
            position: 0,
            may_seek: !timeline.is_counted(),
            fresh: true,
            back_off: None,
            attempts: ATTEMPTS,
            complaint: None,
            damaged: HashSet::new(),
            refused: 0,
        })
    }

    /// Frames that were decoded with errors, or not at all.
    pub fn damaged(&self) -> usize {
        self.damaged.len() + self.refused
    }

    /// Meet the wanted frames in order. Where one cannot be decoded, the next good frame before the following wanted one
    /// stands in under its own index; no frame is given twice. Breaking from `meet` ends the walk.
    pub fn run(&mut self, meet: &mut Meet<'_>) -> Result<ControlFlow<()>, Error> {
        let mut next = 0;
        self.jump(next)?;
        let mut picture = frame::Video::empty();
        while next < self.wanted.len() {
            let there = self.pull(&mut picture);
            if let Some(back) = self.back_off
                && self.attempts > 0
                && (!there || self.index_of(&picture) > self.wanted[next])
            {
                // Missed. Decoders begin badly at some keyframes: H.264's leaves out frames that follow that of an open
                // group. It has found its feet when it comes from further back.
                self.attempts -= 1;
                self.back_off = Some(back * 8);
                match self.timeline.earlier_target(self.wanted[next], back) {
                    Some(target) => self.seek(target)?,
                    None => self.run_through()?,
                }
                continue;
            }
            if !there {
                if self.fresh && self.may_seek {
                    // Some containers seek to where no keyframe follows.
                    self.run_through()?;
                    continue;
                }
                break;
            }
            let index = self.index_of(&picture);
            let fresh = std::mem::replace(&mut self.fresh, false);
            if fresh && self.may_seek && index > self.wanted[next] {
                // The seek went past the wanted frame: go back and run through from here on.
                self.run_through()?;
                continue;
            }
            self.position = index + 1;
            self.back_off = self.back_off.filter(|_| index < self.wanted[next]);
            if index < self.wanted[next] {
                continue;
            }
            while self.wanted.get(next + 1).is_some_and(|&following| following <= index) {
                next += 1; // lost
            }
            if meet(index, &picture)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            next += 1;
            self.jump(next)?;
        }
        Ok(ControlFlow::Continue(()))
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
                    self.complaint = Some(error);
                    refused += 1;
                    self.refused += 1;
                }
            }
            if refused > PATIENCE {
                return false;
            }
            let sent = match (ended, self.source.next_packet()) {
                (false, Some(packet)) => {
                    if self.timeline.is_exact() {
                        let stamp = packet.pts().or(packet.dts());
                        let wanted = stamp.is_none_or(|stamp| self.stamps.contains(&stamp));
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
                self.complaint = Some(error);
                refused += 1;
                self.refused += 1;
            }
        }
    }

    /// Which frame this is.
    fn index_of(&self, picture: &frame::Video) -> usize {
        let stamp = picture.timestamp().or_else(|| picture.pts());
        stamp.and_then(|stamp| self.timeline.index(stamp)).unwrap_or(self.position)
    }

    /// Seek towards wanted frame number `next` where that saves work.
    fn jump(&mut self, next: usize) -> Result<(), Error> {
        let Some(&wanted) = self.wanted.get(next).filter(|_| self.may_seek) else {
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
                // After the end of the file a decoder is empty and takes packets again once it is flushed.
                self.decoder.flush();
                self.fresh = true;
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, path = %self.source.path.display(), "cannot seek; running through");
                self.run_through()
            }
        }
    }

    /// Back to the beginning, with a new decoder, and no seeks from now on.
    fn run_through(&mut self) -> Result<(), Error> {
        self.may_seek = false;
        self.back_off = None;
        self.source = Source::open(&self.source.path)?;
        self.decoder = self.source.decoder(THREADS)?;
        self.position = 0;
        self.fresh = false;
        Ok(())
    }
}
