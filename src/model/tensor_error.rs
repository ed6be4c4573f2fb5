//! The text of tensor errors in messages.

use candle_core::Error;

/// The message of a tensor error, without the backtrace that candle adds if `RUST_BACKTRACE` is set.
pub(crate) fn tensor_error_text(error: &Error) -> String {
    match error {
        Error::WithBacktrace { inner, .. } => tensor_error_text(inner),
        Error::WithPath { inner, path } => format!("{}: {}", path.display(), tensor_error_text(inner)),
        Error::Context { inner, context } => format!("{context}: {}", tensor_error_text(inner)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtraces_are_left_out() {
        let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
        let inner = || Box::new(Error::Msg("value 7 is NaN".into()));
        let error = Error::WithBacktrace { inner: inner(), backtrace };
        assert!(error.to_string().lines().count() > 1);
        assert_eq!(tensor_error_text(&error), "value 7 is NaN");
        let error = Error::WithPath { inner: Box::new(error), path: "a.safetensors".into() };
        assert_eq!(tensor_error_text(&error), "a.safetensors: value 7 is NaN");
        let error = Error::Context { inner: inner(), context: Box::new("reading") };
        assert_eq!(tensor_error_text(&error), "reading: value 7 is NaN");
    }
}
