//! How pictures are drawn: by a graphics protocol that the terminal supports, as half-blocks, or not at all.

use std::process::{Command, Stdio};

use crate::{look::ColorDepth, tui::question::Answers};

pub use specreel_client::ImageProtocol;

/// Terminals with kitty's protocol and its Unicode placeholders, which others lack.
const KITTY: [&str; 2] = ["kitty", "ghostty"];
const ITERM2: [&str; 5] = ["iterm2", "wezterm", "mintty", "konsole", "rio"];

/// What to use on a terminal with these colors and answers if `asked` was requested; never [`ImageProtocol::Auto`]. `inside` a
/// multiplexer the answers are the multiplexer's, except for what the terminal around tmux has answered through it.
pub(crate) fn resolve(
    asked: ImageProtocol,
    colors: ColorDepth,
    answers: &Answers,
    inside: bool,
) -> ImageProtocol {
    use ImageProtocol as P;
    let name = answers.name.to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.iter().any(|n| name.starts_with(n));
    let around = answers.around.as_deref().unwrap_or_default();
    match asked {
        // Kitty's placeholders also need colors.
        _ if colors == ColorDepth::None => P::None,
        P::Auto if !inside && is_one_of(&KITTY) => P::Kitty,
        P::Auto if inside && KITTY.iter().any(|name| around.ends_with(name)) => P::Kitty,
        P::Auto if !inside && is_one_of(&ITERM2) => P::Iterm2,
        P::Auto if !inside && answers.sixel && answers.cell.is_some() => P::Sixel,
        // 16 colors of an unknown palette are too few.
        P::Auto if colors == ColorDepth::Ansi => P::None,
        P::Auto => P::Halfblocks,
        asked => asked,
    }
}

pub(crate) fn is_inside() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    let is_named = ["tmux", "screen"].into_iter().any(|name| term.starts_with(name));
    is_named || ["TMUX", "STY", "ZELLIJ"].into_iter().any(is_set)
}

pub(crate) fn is_in_tmux() -> bool {
    is_set("TMUX")
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// True if tmux leaves colors to the terminal around it as they are: a picture's placeholders name it by their color.
pub(crate) fn keeps_colors() -> bool {
    let asked = Command::new("tmux")
        .args(["display-message", "-p", "#{client_termfeatures}"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    asked.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim().split(',').any(|f| f == "RGB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_proven() {
        use ImageProtocol::{Auto, Halfblocks, Iterm2, Kitty, None, Sixel};
        let of = |name: &str, sixel| Answers {
            name: name.into(),
            sixel,
            cell: Some((8, 16)),
            ..Answers::default()
        };
        for (name, sixel, want) in [
            ("kitty(0.35.2)", false, Kitty),
            ("ghostty 1.1", false, Kitty),
            ("iTerm2 3.5.0", true, Iterm2),
            ("WezTerm 20240203", true, Iterm2),
            ("foot(1.16.2)", true, Sixel),
            ("XTerm(390)", true, Sixel),
            ("XTerm(390)", false, Halfblocks),
            ("", false, Halfblocks),
        ] {
            assert_eq!(resolve(Auto, ColorDepth::True, &of(name, sixel), false), want, "{name}");
            assert_eq!(resolve(Auto, ColorDepth::Indexed, &of(name, sixel), true), Halfblocks, "{name}");
            assert_eq!(resolve(Auto, ColorDepth::None, &of(name, sixel), false), None, "{name}");
        }
        for (around, want) in
            [("xterm-kitty", Kitty), ("ghostty", Kitty), ("xterm-ghostty", Kitty), ("WezTerm", Halfblocks)]
        {
            let answers = Answers { around: Some(around.into()), ..of("tmux 3.3a", false) };
            assert_eq!(resolve(Auto, ColorDepth::True, &answers, true), want, "{around}");
        }
        let unsized_cells = Answers { cell: Option::None, ..of("foot", true) };
        assert_eq!(resolve(Auto, ColorDepth::True, &unsized_cells, false), Halfblocks);
    }

    #[test]
    fn few_colors_make_no_half_blocks_unless_asked_for() {
        use ImageProtocol::{Auto, Halfblocks, Kitty, None, Sixel};
        let silent = Answers::default();
        assert_eq!(resolve(Auto, ColorDepth::Ansi, &silent, false), None);
        for asked in [Halfblocks, Kitty, Sixel, None] {
            assert_eq!(resolve(asked, ColorDepth::Ansi, &silent, true), asked);
            assert_eq!(resolve(asked, ColorDepth::None, &silent, true), None);
        }
    }
}
