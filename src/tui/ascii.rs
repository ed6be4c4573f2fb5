//! The screen for terminals without UTF-8: every cell gets the most similar ASCII character.
//!
//! Applied to the finished frame, so that no pane needs to know.

use ratatui::buffer::Buffer;

/// Replace all other characters by ASCII. Widths stay: a wide character becomes `?` and a space.
pub fn reduce(buffer: &mut Buffer) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let Some(cell) = buffer.cell_mut((x, y)) else { continue };
            if !cell.symbol().is_ascii() {
                let c = cell.symbol().chars().next().unwrap_or(' ');
                cell.set_char(ascii(c));
            }
        }
    }
}

fn ascii(c: char) -> char {
    match c {
        ' '..='~' => c,
        '─' | '━' | '–' | '—' | '▄' => '-',
        '░' => '.',
        '│' | '┃' | '╎' | '‖' | '▏' | '▎' | '▍' => '|',
        '╭' | '╮' | '╰' | '╯' | '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => {
            '+'
        }
        '█' | '▉' | '▊' | '▋' | '▌' | '■' => '#',
        '▓' | '▅' => '=',
        '▒' => '~',
        '▁' | '▂' | '·' => '.',
        '▃' => ':',
        '▆' => '+',
        '▇' | '●' => '*',
        '≈' | '…' => '~',
        '×' | '✗' => 'x',
        '✓' => 'v',
        '▸' | '▶' | '›' | '→' => '>',
        '‹' | '←' => '<',
        '↑' => '^',
        '↓' | '▼' => 'v',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        '␣' => '_',
        '⏎' => '$',
        'τ' => 't',
        // The spinner's dots become a rotating stroke.
        '⠋' | '⠼' | '⠇' => '|',
        '⠙' | '⠴' | '⠏' => '/',
        '⠹' | '⠦' => '-',
        '⠸' | '⠧' => '\\',
        // Half-blocks of pictures; letters of other scripts become `?`.
        '▀' => '"',
        '\u{a0}' => ' ',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{layout::Rect, style::Style};

    use super::*;

    fn line(text: &str) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, text, Style::new());
        reduce(&mut buffer);
        buffer.content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn every_cell_is_ascii_and_keeps_its_place() {
        assert_eq!(line("╭─ Café ─╮│"), "+- Caf? -+| ");
        assert_eq!(line("日本 = x"), "? ?  = x    ");
        assert_eq!(line("2.1× ▸ …"), "2.1x > ~    ");
        assert_eq!(line("e\u{301}\u{302} ok"), "e ok        ");
    }

    #[test]
    fn shades_stay_apart() {
        let shades: std::collections::HashSet<char> = "█▓▒░".chars().map(ascii).collect();
        assert_eq!(shades.len(), 4);
    }

    #[test]
    fn bars_keep_their_order() {
        let dark = |c: char| ".:-=+*#".find(c).unwrap();
        let steps: Vec<_> = "▁▂▃▄▅▆▇█".chars().map(|c| dark(ascii(c))).collect();
        assert!(steps.is_sorted(), "{steps:?}");
    }
}
