//! The line of a clock: whether it plays, its time and its speed.

use ratatui::text::{Line, Span};

use super::track;
use crate::look::{Role, Theme};
use crate::tui::{clock, text};
use specreel_client::present::player::{Player, Race};

pub(crate) struct Dial {
    playing: bool,
    /// The time and the length, in milliseconds.
    time: (f64, f64),
    /// The speed, and whether it is worth a look.
    speed: (String, bool),
}

impl From<&clock::Clock> for Dial {
    fn from(clock: &clock::Clock) -> Self {
        let speed = (format!("×{:<4}", clock.speed), clock.speed != 1.0);
        Self { playing: clock.playing, time: (clock.at, clock.length), speed }
    }
}

impl From<&Player> for Dial {
    fn from(player: &Player) -> Self {
        Self { playing: player.is_playing(), time: player.time(), speed: words(player.speed_words()) }
    }
}

impl From<&Race> for Dial {
    fn from(race: &Race) -> Self {
        Self { playing: race.is_playing(), time: race.time(), speed: words(race.speed_words()) }
    }
}

fn words(speed: Option<String>) -> (String, bool) {
    let is_other = speed.is_some();
    (speed.unwrap_or_else(|| "true speed".into()), is_other)
}

impl Dial {
    pub fn sign(&self, theme: &Theme) -> Span<'static> {
        let (sign, role) = match (self.playing, self.is_over()) {
            (true, _) => ("▶", Role::Good),
            (false, true) => ("■", Role::Dim),
            (false, false) => ("‖", Role::Warn),
        };
        theme.span(role, sign)
    }

    fn is_over(&self) -> bool {
        self.time.0 >= self.time.1
    }

    fn share(&self) -> f64 {
        if self.time.1 > 0.0 { self.time.0 / self.time.1 } else { 1.0 }
    }

    fn parts(&self, theme: &Theme) -> (Span<'static>, String, Span<'static>) {
        let (at, length) = self.time;
        // Below a second, milliseconds instead of tenths.
        let short = length < 1000.0;
        let time = |ms: f64| if short { format!("{ms:.0}") } else { format!("{:.1}", ms / 1000.0) };
        let whole = time(length);
        let here = format!("{:>width$}", time(at), width = whole.len());
        let left = format!(" {here} / {whole} {}  ", if short { "ms" } else { "s" });
        let (speed, stands_out) = &self.speed;
        let right = theme.style(if *stands_out { Role::Accent } else { Role::Dim });
        (self.sign(theme), left, Span::styled(speed.clone(), right))
    }
}

/// Whether it plays, its time and its speed, without a bar.
pub(crate) fn clock(dial: impl Into<Dial>, theme: &Theme) -> Vec<Span<'static>> {
    let (sign, left, right) = dial.into().parts(theme);
    vec![sign, Span::raw(left), right, Span::raw(" ")]
}

pub(crate) fn bar(dial: impl Into<Dial>, theme: &Theme, columns: usize) -> Line<'static> {
    let dial = dial.into();
    let (sign, left, right) = dial.parts(theme);
    let room = columns.saturating_sub(1 + text::width(&left) + 2 + right.width());
    let [done, rest] = track(dial.share(), room, theme);
    Line::from(vec![sign, Span::raw(left), done, rest, Span::raw("  "), right])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::ColorDepth;

    #[test]
    fn it_fills_its_line_at_every_time() {
        let theme = Theme::built_in("dark", ColorDepth::None).unwrap();
        let mut player = clock::Clock::new(12_340.0);
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
