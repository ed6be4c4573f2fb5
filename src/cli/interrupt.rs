//! Signals that end a command: Ctrl-C, SIGTERM, SIGHUP, and their counterparts on Windows. The first sets the [`Interrupt`] flag,
//! the second ends the process at once, without its temporary files.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use specreel_os::file::is_too_many_open;
use specreel_os::signals::{Ending, Endings};
use tokio::runtime::Runtime;

use crate::cli::end::End;
pub use specreel_client::Interrupt;
use specreel_client::{Client, WeakRemote, dirs::Dirs, scratch};
use specreel_model::ModelSpec;
use specreel_record::Failure;

/// File descriptors that a command needs beyond those already open: its files, the models' shards, signal handling.
const DESCRIPTORS: usize = 32;

/// How long removing temporary files may delay the end.
const LAST: Duration = Duration::from_secs(1);

/// The number of the first signal; 0 before. Signals belong to the process, so this is global.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Exit code after an interrupt: 128 and the signal's number, which is 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
pub fn interrupted() -> i32 {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => 128 + Ending::Interrupt.number(),
        number => 128 + number,
    }
}

/// An interrupt that the first signal sets. Signals are caught on a separate thread, so that a blocked write does not delay them.
/// `cancel` is called after the flag is set. A SIGHUP that was ignored when the program started (`nohup`) stays ignored.
pub fn listen(cancel: impl Fn() + Send + 'static) -> Result<Interrupt, End> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(refused)?;
    // Registered before the thread starts, so that no signal from now on is missed.
    let guard = runtime.enter();
    let mut signals = Endings::listen().map_err(refused)?;
    drop(guard);
    let interrupt = Interrupt::default();
    let asked = interrupt.clone();
    let listener = move || {
        runtime.block_on(async move {
            SIGNAL.store(signals.next().await.number(), Ordering::SeqCst);
            asked.ask();
            cancel();
            let code = 128 + signals.next().await.number();
            scratch::remove_all(LAST);
            std::process::exit(code);
        });
    };
    std::thread::Builder::new().name("interrupts".into()).spawn(listener).map_err(refused)?;
    Ok(interrupt)
}

/// A client of a new engine, and the interrupt that cancels its runs.
pub fn engine() -> Result<(Client, Interrupt), End> {
    let client = Client::start()?;
    // The handler stays until the program ends; the engine does not.
    let remote = client.remote().downgrade();
    let interrupt = listen(move || remote.cancel_current())?;
    Ok((client, interrupt))
}

/// The same, while it loads these models.
pub fn loading(models: ModelSpec, ignore_memory: bool) -> Result<(Client, Interrupt), End> {
    let (client, interrupt) = engine()?;
    client.keep_speeds(Dirs::speeds())?;
    client.load(models, ignore_memory)?;
    Ok((client, interrupt))
}

/// As [`loading`], clients of engines that write their texts together.
pub fn loading_together(
    count: usize,
    models: &ModelSpec,
    ignore_memory: bool,
) -> Result<(Vec<Client>, Interrupt), End> {
    let clients = Client::start_together(count, false)?;
    let remotes: Vec<_> = clients.iter().map(|client| client.remote().downgrade()).collect();
    let interrupt = listen(move || remotes.iter().for_each(WeakRemote::cancel_current))?;
    for client in &clients {
        client.keep_speeds(Dirs::speeds())?;
        client.load(models.clone(), ignore_memory)?;
    }
    Ok((clients, interrupt))
}

pub fn runtime() -> Result<Runtime, End> {
    tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(refused)
}

/// Check that enough file descriptors are left for a command to finish (class input).
pub fn descriptors() -> Result<(), Failure> {
    let mut open = Vec::with_capacity(DESCRIPTORS);
    for _ in 0..DESCRIPTORS {
        match std::fs::File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(e) if is_too_many_open(&e) => return Err(too_many(&e)),
            // This system has no /dev/null.
            Err(_) => break,
        }
    }
    Ok(())
}

fn too_many(error: &std::io::Error) -> Failure {
    Failure::input(
        format!("too few files can be opened: {error}"),
        "raise the limit, for example: ulimit -n 1024",
    )
}

/// The failure of a runtime, signal handler or thread that cannot be set up.
pub fn refused(error: std::io::Error) -> End {
    End::Failed(match is_too_many_open(&error) {
        true => too_many(&error),
        false => Failure::internal(
            format!("cannot start a thread or catch signals: {error}"),
            "is a process limit reached? see ulimit -a",
        ),
    })
}
