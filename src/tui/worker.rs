//! Work off the studio's thread: files, directories, videos. Every request is answered, even if the work panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::mpsc;

use crate::tui::effect::Msg;

/// The answer after a panic, whose message is in the log.
pub(crate) const LOST: &str = "internal error: a background task panicked; the log has details";

#[derive(Clone)]
pub(crate) struct Workers {
    messages: mpsc::Sender<Msg>,
}

impl Workers {
    pub fn new(messages: mpsc::Sender<Msg>) -> Self {
        Self { messages }
    }

    /// Run work whose outcome `wrap` turns into a message.
    pub fn answer<T: 'static>(
        &self,
        wrap: fn(Result<T, String>) -> Msg,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) {
        self.run(move || wrap(work()), move |problem| wrap(Err(problem)));
    }

    /// Run work that returns a message; if it panics, the message is what `lost` makes of the reason.
    pub fn run(
        &self,
        work: impl FnOnce() -> Msg + Send + 'static,
        lost: impl FnOnce(String) -> Msg + Send + 'static,
    ) {
        self.spawn(move || Some(work()), lost);
    }

    /// Run work that may have nothing to say.
    pub fn perhaps(&self, work: impl FnOnce() -> Option<Msg> + Send + 'static) {
        self.spawn(work, Msg::Trouble);
    }

    /// Run work of which only a failure is reported.
    pub fn quietly(&self, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.spawn(move || work().err().map(Msg::Trouble), Msg::Trouble);
    }

    fn spawn(
        &self,
        work: impl FnOnce() -> Option<Msg> + Send + 'static,
        lost: impl FnOnce(String) -> Msg + Send + 'static,
    ) {
        let messages = self.messages.clone();
        drop(tokio::task::spawn_blocking(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            let message = done.unwrap_or_else(|_| Some(lost(LOST.into())));
            // The studio may have exited meanwhile.
            message.and_then(|message| messages.blocking_send(message).ok())
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_comes_whatever_happens() {
        let (messages, mut inbox) = mpsc::channel(4);
        let workers = Workers::new(messages);
        workers.answer(Msg::Listed, || panic!("broken"));
        let said = |msg| matches!(msg, Some(Msg::Listed(Err(problem))) if problem == LOST);
        assert!(said(inbox.recv().await));
        workers.run(|| Msg::Tick, |_| Msg::EngineGone);
        assert!(matches!(inbox.recv().await, Some(Msg::Tick)));
        workers.run(|| panic!("broken"), |_| Msg::EngineGone);
        assert!(matches!(inbox.recv().await, Some(Msg::EngineGone)));
        workers.quietly(|| Ok(()));
        workers.quietly(|| Err("no".into()));
        assert!(matches!(inbox.recv().await, Some(Msg::Trouble(problem)) if problem == "no"));
        workers.quietly(|| panic!("broken"));
        assert!(matches!(inbox.recv().await, Some(Msg::Trouble(problem)) if problem == LOST));
    }
}
