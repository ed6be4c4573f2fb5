//! Tensor errors in words for people.

use candle_core::Error;

/// What a tensor error says, without the backtrace that candle adds where `RUST_BACKTRACE` is set.
pub(crate) fn plain(error: &Error) -> String {
    match error {
        Error::WithBacktrace { inner, .. } => plain(inner),
        Error::WithPath { inner, path } => format!("{}: {}", path.display(), plain(inner)),
        Error::Context { inner, context } => format!("{context}: {}", plain(inner)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_left_out() {
        let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
        let inner = || Box::new(Error::Msg("value 7 is NaN".into()));
        let error = Error::WithBacktrace { inner: inner(), backtrace };
        assert!(error.to_string().lines().count() > 1);
        assert_eq!(plain(&error), "value 7 is NaN");
        let error = Error::WithPath { inner: Box::new(error), path: "a.safetensors".into() };
        assert_eq!(plain(&error), "a.safetensors: value 7 is NaN");
        let error = Error::Context { inner: inner(), context: Box::new("reading") };
        assert_eq!(plain(&error), "reading: value 7 is NaN");
    }
}
