//! What the terminal can do.

use std::io::IsTerminal;

use super::args::ColorChoice;

/// True if the studio can be drawn: keys come in, pictures go out.
pub fn can_draw() -> bool {
    std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// True if text on stdout is to be coloured.
pub fn color_stdout(choice: ColorChoice) -> bool {
    color(choice, supports_color::Stream::Stdout)
}

/// True if text on stderr is to be coloured.
pub fn color_stderr(choice: ColorChoice) -> bool {
    color(choice, supports_color::Stream::Stderr)
}

fn color(choice: ColorChoice, stream: supports_color::Stream) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => supports_color::on(stream).is_some(),
    }
}

/// Columns of the terminal that stdout goes to; none where it goes elsewhere.
pub fn columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| columns.into()).filter(|&columns| columns > 0)
}
