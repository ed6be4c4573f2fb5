//! The race: what every method had written at one time, all on one clock.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::lanes::{fastest, lane_runs};
use crate::look::{Role, Theme};
use crate::tui::model::Model;
use crate::tui::model::compare::{Comparison, Lane};
use crate::tui::text;
use crate::tui::widgets::{Frame, clock_bar, sign, track, window_top, wrap};
use specreel_client::present::player::Race;

pub(super) fn draw(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let race = comparison.race.as_ref().filter(|(lanes, _)| area.height >= 4 && !lanes.is_empty());
    let Some((lanes, race)) = race else {
        frame.render_widget(theme.line(Role::Dim, "no run has ended yet"), area);
        return;
    };
    // A place says what happened in these runs; the fastest method is named only if the measurements say so.
    let fastest = fastest(&lane_runs(model, comparison)).filter(|_| race.is_over());
    let winner = lanes.iter().position(|lane| Some(*lane) == fastest);
    let lanes: Vec<&Lane> = lanes.iter().filter_map(|at| comparison.lanes.get(*at)).collect();
    let [above, _, bar] = area.layout(&Layout::vertical([Min(0), Length(1), Length(1)]));
    frame.render_widget(clock_bar(race, theme, area.width.into()), bar);
    // If not all lanes fit, those around the cursor are shown.
    let each = (usize::from(above.height) / lanes.len().max(1)).clamp(2, 8);
    let fit = (usize::from(above.height) / each).max(1);
    let top = window_top(comparison.cursor.min(lanes.len()), lanes.len(), fit);
    let areas = Layout::vertical(vec![Length(each as u16); fit]).split(above);
    for ((at, lane), area) in lanes.into_iter().enumerate().skip(top).zip(areas.iter()) {
        let mut lines = vec![head(lane, (at, winner == Some(at)), race, theme, area.width.into())];
        lines.extend(tail(race, at, theme, area.width.into(), each - 1));
        frame.render_widget(Paragraph::new(lines), *area);
    }
}

/// The lane's name, a track as long as its time, filled as far as it has come, and at its end its place and its time.
fn head(lane: &Lane, (at, wins): (usize, bool), race: &Race, theme: &Theme, columns: usize) -> Line<'static> {
    let player = &race.lanes()[at];
    let (now, longest) = race.time();
    let finish = race.finish(at);
    let name = (columns / 3).clamp(10, 30);
    let tokens = player.token_count();
    let right = match finish {
        // One unit for all, so that they can be compared.
        Some((place, ms)) if longest < 100.0 => format!("  {:>4}  {ms:>5.1} ms", ordinal(place)),
        Some((place, ms)) => format!("  {:>4}  {ms:>5.0} ms", ordinal(place)),
        None => format!("  {tokens:>4} tokens   "),
    };
    let right = if wins { right + "  fastest" } else { right };
    let cells = columns.saturating_sub(name + 5 + text::width(&right));
    let own = race.duration(at);
    let length =
        ((own / longest.max(f64::MIN_POSITIVE) * cells as f64).round() as usize).clamp(1.min(cells), cells);
    let [mut done, rest] = track(now / own.max(f64::MIN_POSITIVE), length, theme);
    if finish.is_some() {
        done.style = theme.style(Role::Good);
    }
    Line::from(vec![
        theme.span(Role::Title, text::pad(&lane.label, name)),
        Span::raw(" "),
        sign(lane.lossless, theme),
        Span::raw(" "),
        done,
        rest,
        Span::raw(" ".repeat(cells - length)),
        theme.span(if finish.is_some() { Role::Good } else { Role::Dim }, right),
    ])
}

fn ordinal(place: usize) -> String {
    let ending = match (place % 10, place % 100) {
        (1, n) if n != 11 => "st",
        (2, n) if n != 12 => "nd",
        (3, n) if n != 13 => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

fn tail(race: &Race, at: usize, theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let written = race.lanes()[at].chunks().iter();
    let mut lines = wrap(written.map(|c| (c.text.as_str(), theme.verdict(c.verdict))), columns);
    lines.split_off(lines.len().saturating_sub(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::ColorDepth;
    use specreel_client::present::player::Player;
    use specreel_record::{
        Pace, Verdict,
        testing::{done, run, started, step},
    };

    #[test]
    fn a_track_is_as_long_as_its_lanes_time() {
        // The steps of both took the same time: a track follows the measured one.
        let lane = || {
            let one = || step(&[(" a", Verdict::Exact), (" b", Verdict::Bonus)]);
            let log = run(1, std::iter::once(started()).chain((0..10).map(|_| one())).chain([done("")]));
            let mut player = Player::live(log, Pace::Off);
            player.cut_off();
            player
        };
        let theme = Theme::built_in("dark", ColorDepth::None).unwrap();
        let mut race = Race::new(vec![(lane(), 2000.0), (lane(), 1000.0)]);
        let label = |label: &str| Lane {
            run: 1,
            label: label.into(),
            lossless: true,
            autoregressive: false,
            value: None,
        };
        let tracks = |race: &Race| {
            [0, 1].map(|at| {
                let line = head(&label("a"), (at, false), race, &theme, 100).to_string();
                ['━', '─'].map(|sign| line.chars().filter(|c| *c == sign).count())
            })
        };
        let [[0, long], [0, short]] = tracks(&race) else { panic!("{:?}", tracks(&race)) };
        assert_eq!(long.div_ceil(2), short);
        race.seek(1000.0);
        let [[half, _], [all, 0]] = tracks(&race) else { panic!("{:?}", tracks(&race)) };
        assert_eq!((half, all), (short, short), "all bars grow equally");
    }

    #[test]
    fn places_are_ordinals() {
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"
        );
    }
}
