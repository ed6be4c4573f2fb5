//! The log file. Logs never go to stderr, which is for messages to the user.

use tracing_subscriber::EnvFilter;

use specreel_client::{dirs::Dirs, private};

/// Log to `specreel.log` in the state directory, filtered by `SPECREEL_LOG` (default `info`). Returns `None`, and does not log, if
/// the file is not writable.
pub fn start() -> Option<()> {
    let dir = Dirs::find()?.state;
    private::create_dir_all(&dir).ok()?;
    let file = private::options().create(true).append(true).open(dir.join("specreel.log")).ok()?;
    let filter = EnvFilter::try_from_env("SPECREEL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Events are few, and each is one write.
        .with_writer(file)
        .with_ansi(false)
        // Not to stderr either, if the disk is full.
        .log_internal_errors(false)
        .try_init()
        .ok()?;
    tracing::info!(version = super::args::VERSION, "started");
    Some(())
}
