//! Reads frames off the studio's thread, one request at a time; a newer request stops the older one at its next frame.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::tui::config::{FrameReader, FrameRequest};
use crate::tui::effect::Msg;

pub(crate) struct FrameLoader {
    reader: Option<FrameReader>,
    next: Option<FrameRequest>,
    running: Option<u64>,
    newest: Arc<AtomicU64>,
}

impl FrameLoader {
    pub fn new(reader: Option<FrameReader>) -> Self {
        Self { reader, next: None, running: None, newest: Arc::default() }
    }

    pub fn request(&mut self, request: Option<FrameRequest>) {
        self.next = request;
        self.newest.fetch_add(1, Ordering::Relaxed);
    }

    /// True for an answer to a request that is not the newest.
    pub fn is_late(&self, msg: &Msg) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        matches!(msg, Msg::FrameRead(..) | Msg::FramesRead(..)) && self.running != Some(newest)
    }

    pub fn ended(&mut self) {
        self.running = None;
    }

    /// The newest request and the work that reads its frames into `messages`, if there is one and nothing is being read.
    pub fn work(
        &mut self,
        messages: mpsc::Sender<Msg>,
    ) -> Option<(FrameRequest, impl FnOnce() -> Msg + Send + 'static)> {
        let reader = self.reader.clone().filter(|_| self.running.is_none())?;
        let request = self.next.take()?;
        let newest = Arc::clone(&self.newest);
        let number = newest.load(Ordering::Relaxed);
        self.running = Some(number);
        Some((request.clone(), move || {
            let mut each = |frame| {
                let late = newest.load(Ordering::Relaxed) != number;
                let sent =
                    !late && messages.blocking_send(Msg::FrameRead(request.clone(), Arc::new(frame))).is_ok();
                if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let outcome = reader(&request, &mut each);
            Msg::FramesRead(request, outcome)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;
    use specreel_video::Frame;

    fn request(path: &str) -> FrameRequest {
        FrameRequest { path: path.into(), count: 3, max: (8, 8) }
    }

    #[test]
    fn a_newer_wish_breaks_the_older_one_off() {
        let (messages, mut inbox) = mpsc::channel(8);
        let reader: FrameReader = Arc::new(|request, each| {
            for n in 0..request.count {
                if each(Frame::clone(&testing::frame(n as f64, 2, 2))).is_break() {
                    break;
                }
            }
            Ok(())
        });
        let mut frame_loader = FrameLoader::new(Some(reader));
        assert!(frame_loader.work(messages.clone()).is_none(), "nothing is requested");
        frame_loader.request(Some(request("a")));
        let (_, work) = frame_loader.work(messages.clone()).unwrap();
        // The same clip is requested again: frames of the first request are not used for the second.
        frame_loader.request(None);
        frame_loader.request(Some(request("a")));
        assert!(frame_loader.work(messages.clone()).is_none(), "one at a time");
        let last = work();
        assert!(inbox.try_recv().is_err() && frame_loader.is_late(&last));
        frame_loader.ended();
        let last = frame_loader.work(messages.clone()).unwrap().1();
        let first = inbox.try_recv().unwrap();
        assert!(matches!(&first, Msg::FrameRead(w, frame) if *w == request("a") && frame.timestamp_s == 0.0));
        assert!(
            !frame_loader.is_late(&first)
                && !frame_loader.is_late(&last)
                && !frame_loader.is_late(&Msg::Tick)
        );
        frame_loader.ended();
        assert!(frame_loader.work(messages).is_none(), "all is read");
    }
}
