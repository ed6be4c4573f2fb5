//! What lasts beyond a sitting, beside the runs that are recorded: the prompts, and no more sessions than are wanted.

use std::path::PathBuf;

use super::{archive, past};

/// Keeps prompts and removes old sessions. Trouble is a matter for the log: nothing of it ends a sitting.
pub(crate) struct Keeper {
    /// The file of prompts; none keeps nothing.
    prompts: Option<PathBuf>,
    /// The prompt that was kept last.
    last: Option<String>,
    /// The folder of sessions; none where none are recorded.
    sessions: Option<PathBuf>,
    /// How many of them are kept.
    keep: usize,
}

impl Keeper {
    /// For these places; none is left alone.
    pub fn new(prompts: Option<PathBuf>, sessions: Option<PathBuf>, keep: usize) -> Self {
        Self { prompts, last: None, sessions, keep }
    }

    /// Keep a prompt for later sittings, at once: a line is short, and the next prompt must come after it.
    pub fn remember(&mut self, prompt: &str) {
        let Some(file) = self.prompts.as_deref().filter(|_| self.last.as_deref() != Some(prompt)) else {
            return;
        };
        if let Err(error) = past::add(file, prompt) {
            tracing::warn!(%error, file = %file.display(), "prompts are not kept");
            self.prompts = None;
        }
        self.last = Some(prompt.to_owned());
    }

    /// Remove the oldest sessions beyond those that are kept, on a thread of its own.
    pub fn prune(&self) {
        let (Some(folder), keep) = (self.sessions.clone(), self.keep) else { return };
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = archive::prune(&folder, keep) {
                tracing::warn!(%error, folder = %folder.display(), "old sessions stay");
            }
        }));
    }
}
