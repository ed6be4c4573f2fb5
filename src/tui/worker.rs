//! Work off the studio's thread: files, folders, videos. Whatever happens to it, its answer comes, for somebody waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::mpsc;

use super::Msg;

/// What a panic becomes in an answer; its own words are in the log.
const LOST: &str = "that went wrong inside specreel; the log says more";

/// Does work on threads that may wait.
#[derive(Clone)]
pub(crate) struct Workers {
    messages: mpsc::Sender<Msg>,
}

impl Workers {
    /// Answers go to `messages`.
    pub fn new(messages: mpsc::Sender<Msg>) -> Self {
        Self { messages }
    }

    /// Do work with an outcome, which `wrap` makes a message of.
    pub fn answer<T: 'static>(
        &self,
        wrap: fn(Result<T, String>) -> Msg,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) {
        self.run(move || wrap(work()), move |problem| wrap(Err(problem)));
    }

    /// Do work that gives a message; one that panics gives what `lost` makes of the reason.
    pub fn run(
        &self,
        work: impl FnOnce() -> Msg + Send + 'static,
        lost: impl FnOnce(String) -> Msg + Send + 'static,
    ) {
        let messages = self.messages.clone();
        // There is nobody to tell if the studio has left meanwhile.
        drop(tokio::task::spawn_blocking(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            messages.blocking_send(done.unwrap_or_else(|_| lost(LOST.into()))).ok();
        }));
    }

    /// Do work of which only trouble is told.
    pub fn quietly(&self, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        let messages = self.messages.clone();
        drop(tokio::task::spawn_blocking(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            if let Err(problem) = done.unwrap_or_else(|_| Err(LOST.into())) {
                messages.blocking_send(Msg::Trouble(problem)).ok();
            }
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
