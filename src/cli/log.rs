//! The log file. Logs never go to stderr, which is for messages to the user.

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use specreel_client::{dirs::Dirs, private};

/// Log to `specreel.log` in the state directory, filtered by `SPECREEL_LOG` (default `info`). If it is not
/// writable there is no log. Keep the guard: dropping it flushes the log.
pub fn start() -> Option<WorkerGuard> {
    let dir = Dirs::find()?.state;
    private::create_dir_all(&dir).ok()?;
    let file = private::options().create(true).append(true).open(dir.join("specreel.log")).ok()?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let filter = EnvFilter::try_from_env("SPECREEL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false).try_init().ok()?;
    tracing::info!(version = super::args::VERSION, "started");
    Some(guard)
}
