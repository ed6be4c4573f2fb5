//! Sequences for the terminal around tmux.

/// A sequence that tmux passes to the terminal around it, if it is allowed to (`allow-passthrough`).
pub(crate) fn through_tmux(sequence: &str) -> String {
    format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
}
