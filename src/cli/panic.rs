//! Mistakes of our own. A panic on any thread goes to the log with its place; where it ends the command it is told as a failure
//! like any other.

use std::{
    backtrace::Backtrace,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
};

use crate::record::{Failure, FailureClass, panic_words};

/// Send what panics say to the log. Without one it goes to stderr, as usual.
pub fn watch(has_log: bool) {
    if has_log {
        panic::set_hook(Box::new(log));
    }
}

fn log(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    // Empty unless RUST_BACKTRACE asks for it.
    let trace = Backtrace::capture();
    tracing::error!(thread = thread.name(), place, %trace, "panicked: {}", words(panic.payload()));
}

/// Do it; a panic becomes a failure.
///
/// # Errors
/// It panicked.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Failure {
        class: FailureClass::Internal,
        error: format!("specreel broke off: {}", words(&*panic)),
        hint: Some("this is a bug in specreel; please report it with the command and the log".into()),
    })
}

fn words(panic: &dyn std::any::Any) -> &str {
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
            assert_eq!(failure.error, "specreel broke off: out of wits");
        }
    }
}
