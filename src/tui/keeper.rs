//! Saves prompts, and deletes the oldest saved runs.

use super::*;

pub(crate) struct Keeper {
    prompts: Option<PathBuf>,
    last: Option<String>,
    /// The directory of saved runs; `None` if runs are not saved.
    sessions: Option<PathBuf>,
    keep: usize,
}

impl Keeper {
    pub fn new(prompts: Option<PathBuf>, sessions: Option<PathBuf>, keep: usize) -> Self {
        Self { prompts, last: None, sessions, keep }
    }

    /// Save a prompt, on this thread: a line is short, and the order matters.
    pub fn remember(&mut self, prompt: &str) {
        let Some(file) = self.prompts.as_deref().filter(|_| self.last.as_deref() != Some(prompt)) else {
            return;
        };
        if let Err(error) = past::add(file, prompt) {
            tracing::warn!(%error, file = %file.display(), "prompts are not saved");
            self.prompts = None;
        }
        self.last = Some(prompt.to_owned());
    }

    pub fn prune(&self) {
        let (Some(folder), keep) = (self.sessions.clone(), self.keep) else { return };
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = archive::prune(&folder, keep) {
                tracing::warn!(%error, folder = %folder.display(), "old saved runs cannot be deleted");
            }
        }));
    }
}
