//! Small frames of clips: those that were read, and the request being read. Limited in bytes; the oldest are dropped first.

use std::{collections::VecDeque, sync::Arc};

use crate::tui::config::FrameRequest;
use specreel_video::Frame;

const MAX_BYTES: usize = 64 << 20;
const MAX_STRIPS: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct FrameStrip {
    pub request: FrameRequest,
    pub frames: Vec<Arc<Frame>>,
    /// Whether all were read, or why not; none while they are being read.
    pub ended: Option<Result<(), String>>,
}

impl FrameStrip {
    /// The frame at this time in seconds: the last one that is not after it.
    pub fn at(&self, seconds: f64) -> Option<&Arc<Frame>> {
        // A frame's own time may have been rounded by a clock.
        let after = self.frames.partition_point(|f| f.timestamp_s <= seconds + 1e-6);
        self.frames.get(after.saturating_sub(1))
    }

    fn bytes(&self) -> usize {
        self.frames.iter().map(|f| f.rgb.len()).sum()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FrameStrips {
    kept: VecDeque<FrameStrip>,
    pub reading: Option<FrameRequest>,
}

impl FrameStrips {
    pub fn get(&self, request: &FrameRequest) -> Option<&FrameStrip> {
        self.kept.iter().find(|r| r.request == *request)
    }

    /// True if the request was read completely.
    pub fn has(&self, request: &FrameRequest) -> bool {
        self.get(request).is_some_and(|r| r.ended.is_some())
    }

    /// Start reading this request, and nothing else.
    pub fn begin(&mut self, request: Option<FrameRequest>) {
        // A strip that was interrupted would be read from its beginning again.
        self.kept.retain(|r| r.ended.is_some() && Some(&r.request) != request.as_ref());
        if let Some(request) = &request {
            self.kept.drain(..self.kept.len().saturating_sub(MAX_STRIPS));
            self.kept.push_back(FrameStrip { request: request.clone(), frames: Vec::new(), ended: None });
        }
        self.reading = request;
    }

    pub fn add(&mut self, request: &FrameRequest, frame: Arc<Frame>) {
        if let Some(strip) = self.open(request) {
            strip.frames.push(frame);
            while self.kept.len() > 1 && self.kept.iter().map(FrameStrip::bytes).sum::<usize>() > MAX_BYTES {
                self.kept.pop_front();
            }
        }
    }

    pub fn end(&mut self, request: &FrameRequest, outcome: Result<(), String>) {
        if let Some(strip) = self.open(request) {
            strip.ended = Some(outcome);
            self.reading = None;
        }
    }

    fn open(&mut self, request: &FrameRequest) -> Option<&mut FrameStrip> {
        let reading = self.reading.as_ref() == Some(request);
        self.kept.back_mut().filter(|r| reading && r.request == *request && r.ended.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    fn request(path: &str, count: usize) -> FrameRequest {
        FrameRequest { path: path.into(), count, max: (64, 64) }
    }

    #[test]
    fn only_what_is_waited_for_is_kept() {
        let mut strips = FrameStrips::default();
        strips.begin(Some(request("a", 2)));
        strips.add(&request("a", 2), testing::frame(0.0, 4, 4));
        strips.begin(Some(request("b", 2)));
        assert!(strips.get(&request("a", 2)).is_none(), "it was broken off");
        strips.add(&request("a", 2), testing::frame(1.0, 4, 4));
        strips.end(&request("a", 2), Ok(()));
        assert!(strips.get(&request("a", 2)).is_none() && strips.reading == Some(request("b", 2)));
        strips.add(&request("b", 2), testing::frame(0.0, 4, 4));
        assert!(!strips.has(&request("b", 2)));
        strips.end(&request("b", 2), Ok(()));
        assert!(strips.has(&request("b", 2)) && strips.reading.is_none());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes() {
        let mut strips = FrameStrips::default();
        for name in ["a", "b", "c"] {
            strips.begin(Some(request(name, 1)));
            // 30 MB each.
            strips.add(&request(name, 1), testing::frame(0.0, 5000, 2000));
            strips.end(&request(name, 1), Ok(()));
        }
        let kept = ["a", "b", "c"].map(|name| strips.has(&request(name, 1)));
        assert_eq!(kept, [false, true, true]);
    }

    #[test]
    fn a_time_shows_the_frame_before_it() {
        let frames = vec![testing::frame(0.0, 1, 1), testing::frame(1.5, 1, 1)];
        let strip = FrameStrip { request: request("a", 2), frames, ended: None };
        let at = |seconds| strip.at(seconds).unwrap().timestamp_s;
        assert_eq!([at(-1.0), at(1.49), at(1.5), at(9.0)], [0.0, 0.0, 1.5, 1.5]);
        assert!(FrameStrip { frames: vec![], ..strip.clone() }.at(0.0).is_none());
    }
}
