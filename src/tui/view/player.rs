//! The line of a clock: whether it plays, its time and its speed.

use ratatui::text::{Line, Span};

use super::track;
use crate::tui::{Theme, model::player::Player, text, theme::Role};

/// Whether it plays, its time and its speed, without a bar.
pub(super) fn clock(player: &Player, theme: &Theme) -> Vec<Span<'static>> {
    let (sign, left, right) = parts(player, theme);
    vec![sign, Span::raw(left), right, Span::raw(" ")]
}

/// The clock on a line of so many columns.
pub(super) fn bar(player: &Player, theme: &Theme, columns: usize) -> Line<'static> {
    let (sign, left, right) = parts(player, theme);
    let room = columns.saturating_sub(1 + text::width(&left) + 2 + right.width());
    let [done, rest] = track(player.share(), room, theme);
    Line::from(vec![sign, Span::raw(left), done, rest, Span::raw("  "), right])
}

fn parts(player: &Player, theme: &Theme) -> (Span<'static>, String, Span<'static>) {
    let (sign, role) = match (player.playing, player.is_over()) {
        (true, _) => ("▶", Role::Good),
        (false, true) => ("■", Role::Dim),
        (false, false) => ("‖", Role::Warn),
    };
    // Below a second, milliseconds instead of tenths.
    let short = player.length < 1000.0;
    let time = |ms: f64| if short { format!("{ms:.0}") } else { format!("{:.1}", ms / 1000.0) };
    let whole = time(player.length);
    let here = format!("{:>width$}", time(player.at), width = whole.len());
    let speed = format!("×{}", player.speed);
    let left = format!(" {here} / {whole} {}  ", if short { "ms" } else { "s" });
    let right = theme.style(if player.speed == 1.0 { Role::Dim } else { Role::Accent });
    (Span::styled(sign, theme.style(role)), left, Span::styled(format!("{speed:<5}"), right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::ColorDepth;

    #[test]
    fn it_fills_its_line_at_every_time() {
        let theme = Theme::built_in("dark", ColorDepth::None).unwrap();
        let mut player = Player::new(12_340.0);
        for at in [0.0, 999.0, 9_999.0, 12_340.0] {
            player.seek(at);
            assert_eq!(bar(&player, &theme, 60).width(), 60);
        }
        assert_eq!(bar(&player, &theme, 4).spans[2].content, "");
        player.seek(6_170.0);
        player.playing = false;
        let line: String = bar(&player, &theme, 44).spans.iter().map(|s| s.content.clone()).collect();
        assert_eq!(line, "‖  6.2 / 12.3 s  ━━━━━━━━━━──────────  ×1   ");
    }
}
