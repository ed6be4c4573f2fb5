//! Reads and saves prompts, and deletes the oldest saved runs, off the interface's thread.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::tui::{archive, effect::Msg, past};

/// Prompts that may wait for the disk.
const WAITING: usize = 64;

pub(crate) struct Keeper {
    prompts: Option<Prompts>,
    last: Option<String>,
    /// The directory of saved runs; `None` if runs are not saved.
    sessions: Option<PathBuf>,
    keep: usize,
}

/// A thread that reads the file of prompts, and then adds to it in order.
struct Prompts {
    added: SyncSender<String>,
    /// Disconnected when it has ended.
    ended: Receiver<()>,
}

impl Keeper {
    /// The prompts of the file come as [`Msg::EarlierPrompts`].
    pub fn start(
        prompts: Option<PathBuf>,
        messages: Sender<Msg>,
        sessions: Option<PathBuf>,
        keep: usize,
    ) -> Self {
        let answer = messages.try_reserve_owned().ok();
        let prompts = prompts.and_then(|file| {
            let (added, inbox) = sync_channel::<String>(WAITING);
            let (lives, ended) = sync_channel(1);
            let work = move || {
                let _lives = lives;
                if let Some(answer) = answer {
                    answer.send(Msg::EarlierPrompts(past::read(&file)));
                }
                for prompt in inbox {
                    if let Err(error) = past::add(&file, &prompt) {
                        tracing::warn!(%error, file = %file.display(), "prompts are not saved");
                        return;
                    }
                }
            };
            std::thread::Builder::new().name("prompts".into()).spawn(work).ok()?;
            Some(Prompts { added, ended })
        });
        Self { prompts, last: None, sessions, keep }
    }

    /// Save a prompt. It is not saved if the disk is far behind.
    pub fn remember(&mut self, prompt: &str) {
        if self.last.as_deref() != Some(prompt)
            && let Some(prompts) = &self.prompts
        {
            prompts.added.try_send(prompt.to_owned()).ok();
            self.last = Some(prompt.to_owned());
        }
    }

    pub fn prune(&self) {
        let (Some(folder), keep) = (self.sessions.clone(), self.keep) else { return };
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = archive::prune(&folder, keep) {
                tracing::warn!(%error, folder = %folder.display(), "old saved runs cannot be deleted");
            }
        }));
    }

    /// Save the remaining prompts. False if the disk takes longer than `patience`.
    pub fn finish(&mut self, patience: Duration) -> bool {
        let Some(Prompts { added, ended }) = self.prompts.take() else { return true };
        drop(added);
        ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn prompts_are_read_first_and_saved_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        past::add(&file, "old").unwrap();
        let (messages, mut inbox) = mpsc::channel(4);
        let mut keeper = Keeper::start(Some(file.clone()), messages, None, 1);
        for prompt in ["one", "one", "two"] {
            keeper.remember(prompt);
        }
        assert!(matches!(inbox.recv().await, Some(Msg::EarlierPrompts(old)) if old == ["old"]));
        assert!(keeper.finish(Duration::from_secs(60)));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"old\"\n\"one\"\n\"two\"\n");
    }

    /// A pipe that nobody writes to or reads from: opening it blocks.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_disk_that_does_not_answer_stops_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        let (messages, _inbox) = mpsc::channel(4);
        let mut keeper = Keeper::start(Some(file), messages, None, 1);
        for n in 0..2 * WAITING {
            keeper.remember(&n.to_string());
        }
        assert!(!keeper.finish(Duration::from_millis(50)));
    }
}
