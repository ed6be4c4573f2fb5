//! Heat maps over the frames: one tile for each frame (or pair of frames) that the models read, one cell for each visual token.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use crate::tui::{
    Theme,
    model::{
        inspect::Heat,
        run::{Run, Seen},
    },
    text,
    theme::Role,
};

/// Shades from nothing to the most.
const SHADES: [&str; 5] = ["· ", "░░", "▒▒", "▓▓", "██"];

/// The map of one token, as far as it fits.
pub(super) fn draw(run: &Run, number: usize, what: Heat, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    if area.height < 3 || area.width < 16 {
        return;
    }
    let dim = theme.style(Role::Dim);
    let (name, values) = values(run, number, what);
    let head = Line::from(vec![
        Span::styled(text::fit(name, area.width.into()), dim),
        Span::styled(if values.is_some() { "" } else { "  not recorded" }, dim),
    ]);
    frame.render_widget(head, Rect { height: 1, ..area });
    let (Some(seen), Some(values)) = (&run.seen, values) else { return };
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let lines = tiles(seen, &values, theme, body.width.into(), body.height.into());
    frame.render_widget(Paragraph::new(lines), body);
}

/// What is shown, and a number from 0 to 1 for every visual token; none where it is not known.
fn values(run: &Run, number: usize, what: Heat) -> (&'static str, Option<Vec<f32>>) {
    let Some(seen) = &run.seen else { return ("where it looks", None) };
    let n = seen.grid.iter().product::<usize>();
    let mut values = vec![0.0f32; n];
    match what {
        Heat::Looks => {
            let looks = run.looks(number);
            let most = looks.iter().map(|l| l.1).fold(f32::MIN, f32::max);
            let least = looks.iter().map(|l| l.1).fold(f32::MAX, f32::min);
            for (index, similarity) in looks {
                if let Some(value) = values.get_mut(*index as usize) {
                    // The least of the nearest is still one of the nearest.
                    *value = 0.25 + 0.75 * (similarity - least) / (most - least).max(f32::EPSILON);
                }
            }
            ("where it looks: the visual tokens it resembles most", (!looks.is_empty()).then_some(values))
        }
        Heat::Kept => {
            let Some(kept) = &seen.kept else {
                return ("the drafter sees all visual tokens", Some(vec![1.0; n]));
            };
            for index in kept {
                if let Some(value) = values.get_mut(*index as usize) {
                    *value = 1.0;
                }
            }
            ("what the drafter sees", Some(values))
        }
        Heat::Scores => {
            let Some(scores) = &seen.scores else { return ("scores of the visual tokens", None) };
            let most = scores.iter().copied().filter(|s| s.is_finite()).fold(0.0, f32::max);
            for (value, score) in values.iter_mut().zip(scores) {
                *value = if most > 0.0 && score.is_finite() { score / most } else { 0.0 };
            }
            ("scores of the visual tokens", Some(values))
        }
    }
}

/// How tiles are laid out: cells in one of them, tiles in a row, and how many tokens make one cell.
#[derive(Debug, PartialEq)]
struct Plan {
    scale: usize,
    rows: usize,
    columns: usize,
    across: usize,
}

/// The finest plan in which all tiles fit; none if even the coarsest does not.
fn plan([t, h, w]: [usize; 3], columns: usize, rows: usize) -> Option<Plan> {
    (1..=h.max(w).max(1)).find_map(|scale| {
        let (high, wide) = (h.div_ceil(scale), w.div_ceil(scale));
        let across = (columns + 1) / (2 * wide.max(3) + 1);
        let fits = across > 0 && t.div_ceil(across) * (high + 1) <= rows;
        fits.then_some(Plan { scale, rows: high, columns: wide, across })
    })
}

fn tiles(seen: &Seen, values: &[f32], theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let [t, h, w] = seen.grid;
    let dim = theme.style(Role::Dim);
    if values.len() != t * h * w || t * h * w == 0 {
        return Vec::new();
    }
    let Some(plan) = plan(seen.grid, columns, rows) else {
        return vec![Line::styled("the frames do not fit here", dim)];
    };
    let Plan { scale, rows: high, columns: wide, across } = plan;
    let value = |frame: usize, row: usize, column: usize| {
        let tokens = (row * scale..h.min((row + 1) * scale))
            .flat_map(|y| (column * scale..w.min((column + 1) * scale)).map(move |x| (y, x)));
        tokens.map(|(y, x)| values[(frame * h + y) * w + x]).fold(0.0, f32::max)
    };
    // Frames go in pairs where there are more times than tiles.
    let pair = seen.frames.len().div_ceil(t).max(1);
    let slot = 2 * wide.max(3) + 1;
    let mut lines = Vec::new();
    for first in (0..t).step_by(across) {
        let tiles = first..t.min(first + across);
        let label = |frame: usize| {
            let at = seen.frames.get(frame * pair).map_or(String::new(), |s| format!("{s:.1} s"));
            Span::styled(text::pad(&at, slot), dim)
        };
        lines.push(Line::from(tiles.clone().map(label).collect::<Vec<_>>()));
        for row in 0..high {
            let mut spans = Vec::new();
            for frame in tiles.clone() {
                for column in 0..wide {
                    spans.push(cell(value(frame, row, column), theme));
                }
                spans.push(Span::raw(" ".repeat(slot - 2 * wide)));
            }
            lines.push(Line::from(spans));
        }
    }
    lines
}

fn cell(value: f32, theme: &Theme) -> Span<'static> {
    let level = if value <= 0.0 { 0 } else { ((value * 4.0).ceil() as usize).clamp(1, 4) };
    let style: Style = theme.style(match level {
        0 => Role::GaugeRest,
        4 => Role::Accent,
        _ => Role::Gauge,
    });
    Span::styled(SHADES[level], style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::ColorDepth;

    #[test]
    fn tiles_are_as_fine_as_fits() {
        // Six frames of four by four tokens: cells of two columns, a column of air, a line for the time.
        assert_eq!(plan([6, 4, 4], 53, 5), Some(Plan { scale: 1, rows: 4, columns: 4, across: 6 }));
        assert_eq!(plan([6, 4, 4], 53, 4).map(|p| p.scale), Some(2));
        assert_eq!(plan([6, 4, 4], 26, 10).map(|p| (p.scale, p.across)), Some((1, 3)));
        assert_eq!(plan([64, 28, 28], 60, 12), None);
        assert_eq!(plan([8, 28, 28], 120, 12).map(|p| p.scale), Some(4));
    }

    #[test]
    fn a_coarse_cell_shows_the_most_of_its_tokens() {
        let theme = Theme::built_in("dark", ColorDepth::None).unwrap();
        let seen = Seen { frames: vec![0.0, 0.5], grid: [1, 4, 4], visual_tokens: 16, ..Seen::default() };
        let mut values = vec![0.0; 16];
        values[0] = 0.3;
        values[15] = 1.0;
        let text = |columns, rows| -> Vec<String> {
            let lines = tiles(&seen, &values, &theme, columns, rows);
            lines.iter().map(|l| l.spans.iter().map(|s| &*s.content).collect()).collect()
        };
        assert_eq!(text(20, 5)[1..3], ["▒▒· · ·  ", "· · · ·  "].map(String::from));
        assert_eq!(text(20, 3)[1..3], ["▒▒·    ", "· ██   "].map(String::from));
    }
}
