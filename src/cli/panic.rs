//! Panics. One on any thread goes to the log with its location; one that ends the command is reported as a failure.

use std::backtrace::Backtrace;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use specreel_record::{Failure, panic_words};

/// Send panic messages to the log, if there is one, instead of stderr.
pub fn install_hook(has_log: bool) {
    if has_log {
        panic::set_hook(Box::new(log));
    }
}

fn log(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    // Empty unless RUST_BACKTRACE asks for it.
    let trace = Backtrace::capture();
    tracing::error!(thread = thread.name(), location, %trace, "panicked: {}", message(panic.payload()));
}

/// Call `work`; a panic becomes a failure. Fails if it panicked (class internal).
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        Failure::internal(
            format!("internal error: {}", message(&*panic)),
            "this is a bug in specreel; please report it with the command and the log",
        )
    })
}

fn message(panic: &dyn std::any::Any) -> &str {
    panic_words(panic).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_like_any_other() {
        assert_eq!(caught(|| 7).ok(), Some(7));
        for failure in [
            caught(|| panic!("out of wits")).map(|(): ()| ()).unwrap_err(),
            caught(|| panic!("out of {}", "wits")).map(|(): ()| ()).unwrap_err(),
        ] {
            assert_eq!(failure.class.exit_code(), 1);
            assert_eq!(failure.error, "internal error: out of wits");
        }
    }
}
