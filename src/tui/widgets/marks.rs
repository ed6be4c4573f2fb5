//! Signs and bars within a line.

use ratatui::{style::Style, text::Span};

use crate::look::{Role, Theme};
use specreel_client::present::verdicts::lossless_mark;

pub(crate) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A progress bar of so many cells, filled to a share of 0 to 1.
pub fn track(share: f64, cells: usize, theme: &Theme) -> [Span<'static>; 2] {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let done = (share * cells as f64).round() as usize;
    [theme.span(Role::Gauge, "━".repeat(done)), theme.span(Role::GaugeRest, "─".repeat(cells - done))]
}

/// The sign of a method: `=` if it is lossless, `≈` if it is lossy.
pub(crate) fn sign(lossless: bool, theme: &Theme) -> Span<'static> {
    Span::styled(if lossless { "=" } else { "≈" }, mark_style(lossless, theme))
}

pub(crate) fn mark(lossless: bool, theme: &Theme) -> Span<'static> {
    let words = format!("{} {}", if lossless { "=" } else { "≈" }, lossless_mark(lossless));
    Span::styled(words, mark_style(lossless, theme))
}

fn mark_style(lossless: bool, theme: &Theme) -> Style {
    theme.style(if lossless { Role::Good } else { Role::Warn })
}

/// A question with the keys that answer it, as pieces to wrap.
pub(crate) fn yes_or_no<'a>(
    (words, role): (&'a str, Role),
    [yes, no]: [&'a str; 2],
    theme: &Theme,
) -> [(&'a str, Style); 5] {
    let (key, dim) = (theme.style(Role::Key), theme.style(Role::Dim));
    [(words, theme.style(role)), (yes, key), (" yes   ", dim), (no, key), (" no", dim)]
}
