//! Capabilities of the terminal.

use std::io::IsTerminal;

use crate::{cli::args::run::ColorChoice, look::ColorDepth};
use specreel_client::Charset;

/// True if the studio can run: stdin and stdout are a capable terminal.
pub fn can_draw() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb()
}

/// True if the terminal cannot position the cursor (`TERM=dumb`).
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|t| t == "dumb")
}

pub fn color_stdout(choice: ColorChoice) -> bool {
    color(choice, ColorDepth::stdout)
}

pub fn color_stderr(choice: ColorChoice) -> bool {
    color(choice, ColorDepth::stderr)
}

fn color(choice: ColorChoice, depth: fn() -> ColorDepth) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => depth() != ColorDepth::None,
    }
}

/// The locale for characters: the first non-empty one of `LC_ALL`, `LC_CTYPE` and `LANG`.
pub fn locale() -> Option<String> {
    ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok()).find(|v| !v.is_empty())
}

/// True if the studio may draw characters beyond ASCII. Without a locale UTF-8 is assumed: containers and remote shells often
/// have none. The font of the Linux console (`TERM=linux`) lacks most of them.
pub fn draws_unicode(choice: Charset) -> bool {
    match choice {
        Charset::Utf8 => true,
        Charset::Ascii => false,
        Charset::Auto => !is_console() && locale().is_none_or(|locale| is_utf8(&locale)),
    }
}

fn is_console() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "linux")
}

pub fn is_utf8(locale: &str) -> bool {
    locale.to_lowercase().replace('-', "").contains("utf8")
}

pub fn columns() -> Option<usize> {
    columns_of(std::io::stdout())
}

pub fn columns_stderr() -> Option<usize> {
    columns_of(std::io::stderr())
}

fn columns_of(stream: impl IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| columns.into()).filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_name_their_character_set() {
        assert!(["C.UTF-8", "de_DE.utf8", "en_US.UTF-8@euro"].into_iter().all(is_utf8));
        assert!(!["C", "POSIX", "de_DE@euro", "ru_RU.KOI8-R"].into_iter().any(is_utf8));
        assert!(draws_unicode(Charset::Utf8) && !draws_unicode(Charset::Ascii));
    }
}
