//! Heat maps over the frames: one tile per frame (or pair of frames) that the models see, one cell per visual token.
//!
//! In true color, and if the frames can be read, the map is blended into the frames; else it is drawn in shades.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::look::{ColorDepth, Role, Theme};
use crate::tui::model::{Model, Run, frame_strips::FrameStrip, inspect::Heat, preview};
use crate::tui::text;
use crate::tui::widgets::{Frame, mean};
use specreel_client::present::heat;
use specreel_record::PromptSeen;

/// Shades from 0 to the maximum.
const SHADES: [&str; 5] = ["· ", "░░", "▒▒", "▓▓", "██"];
/// The color of the maximum, blended into a frame.
const HOT: [u8; 3] = [255, 130, 0];
/// Maximum rows per token in a picture.
const MOST_ZOOM: usize = 6;
/// And in shades, which a picture of few cells does not need.
const MOST_SHADE_ZOOM: usize = 2;

pub(super) fn draw(
    model: &Model,
    run: &Run,
    number: usize,
    what: Heat,
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
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
    let (Some(seen), Some(values)) = (run.log.prompt(), values) else { return };
    let [_, body] = area.layout(&Layout::vertical([Length(1), Min(0)]));
    let Some(map) = Map::of(seen, &values) else { return };
    let strip = preview::tiles(run)
        .and_then(|request| model.library.strips.get(&request))
        .filter(|r| !r.frames.is_empty());
    match strip.filter(|_| model.config.colors == ColorDepth::True) {
        Some(strip) => pictures(&map, strip, theme, frame, body),
        None => {
            let lines = tiles(&map, theme, body.width.into(), body.height.into());
            frame.render_widget(Paragraph::new(lines), body);
        }
    }
}

/// What is shown, and a value from 0 to 1 for every visual token; `None` if it is not known.
fn values(run: &Run, number: usize, what: Heat) -> (&'static str, Option<Vec<f32>>) {
    let prompt = run.log.prompt();
    match what {
        Heat::NearestVisual => {
            ("visual tokens most similar to this token", heat::nearest_visual(&run.log, number))
        }
        Heat::Kept if prompt.is_some_and(|prompt| prompt.kept.is_none()) => {
            ("the drafter sees all visual tokens", prompt.map(heat::kept))
        }
        Heat::Kept => ("visual tokens that the drafter sees", prompt.map(heat::kept)),
        Heat::Scores => ("scores of the visual tokens", prompt.and_then(heat::scores)),
    }
}

/// The layout of the tiles: rows and columns of cells per tile, tiles per row, tokens per cell side, and rows per cell.
#[derive(Debug, PartialEq)]
struct Plan {
    scale: usize,
    zoom: usize,
    rows: usize,
    columns: usize,
    across: usize,
}

impl Plan {
    fn slot(&self) -> usize {
        (2 * self.columns * self.zoom).max(6) + 1
    }
}

/// The finest layout in which all tiles fit, magnified at most `most` times; `None` if even the coarsest does not fit.
fn plan([t, h, w]: [usize; 3], columns: usize, rows: usize, most: usize) -> Option<Plan> {
    let larger = (2..=most).rev().map(|zoom| (1, zoom));
    larger.chain((1..=h.max(w).max(1)).map(|scale| (scale, 1))).find_map(|(scale, zoom)| {
        let mut plan = Plan { scale, zoom, rows: h.div_ceil(scale), columns: w.div_ceil(scale), across: 0 };
        plan.across = (columns + 1) / plan.slot();
        let fits = plan.across > 0 && t.div_ceil(plan.across) * (plan.rows * zoom + 1) <= rows;
        fits.then_some(plan)
    })
}

struct Map<'a> {
    seen: &'a PromptSeen,
    values: &'a [f32],
}

impl<'a> Map<'a> {
    /// `None` if the number of values is wrong.
    fn of(seen: &'a PromptSeen, values: &'a [f32]) -> Option<Self> {
        let n = seen.grid.iter().product::<usize>();
        (n > 0 && values.len() == n).then_some(Self { seen, values })
    }

    /// The maximum of the tokens in a cell.
    fn value(&self, frame: usize, row: usize, column: usize, scale: usize) -> f32 {
        let [_, h, w] = self.seen.grid;
        let tokens = (row * scale..h.min((row + 1) * scale))
            .flat_map(|y| (column * scale..w.min((column + 1) * scale)).map(move |x| (y, x)));
        tokens.map(|(y, x)| self.values[(frame * h + y) * w + x]).fold(0.0, f32::max)
    }

    /// The time of a tile's first frame, in seconds.
    fn seconds(&self, tile: usize) -> Option<f64> {
        // With more frames than tiles, each tile is a pair of frames.
        let pair = self.seen.frames.len().div_ceil(self.seen.grid[0]).max(1);
        self.seen.frames.get(tile * pair).copied()
    }

    fn label(&self, tile: usize, columns: usize, theme: &Theme) -> Span<'static> {
        let at = self.seconds(tile).map_or(String::new(), |s| format!("{s:.1} s"));
        theme.span(Role::Dim, text::pad(&at, columns))
    }
}

fn pictures(map: &Map<'_>, strip: &FrameStrip, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(plan) = plan(map.seen.grid, area.width.into(), area.height.into(), MOST_ZOOM) else {
        frame.render_widget(too_many(theme), area);
        return;
    };
    let [t, h, w] = map.seen.grid;
    let (wide, high) = (2 * plan.columns * plan.zoom, plan.rows * plan.zoom);
    for tile in 0..t {
        let (row, column) = (tile / plan.across * (high + 1), tile % plan.across * plan.slot());
        let (x, y) = (area.x + column as u16, area.y + row as u16);
        let label = map.label(tile, plan.slot().min((area.right() - x).into()), theme);
        frame.buffer_mut().set_span(x, y, &label, area.right() - x);
        // A frame that is not read yet stays empty.
        let read = strip.frames.last().map(|f| f.timestamp_s);
        let still = map.seconds(tile).filter(|s| read.is_some_and(|read| *s <= read + 1e-3));
        let Some(still) = still.and_then(|s| strip.at(s + 1e-3)) else { continue };
        // The part of the frame between two edges, counted in tokens.
        let part = |from: f64, to: f64, all: usize| (from / all as f64).min(1.0)..(to / all as f64).min(1.0);
        let token = |n: usize, each: usize| (n * plan.scale) as f64 / each as f64;
        let (across, down) = (2 * plan.zoom, 2 * plan.zoom);
        for row in 0..high {
            for column in 0..wide {
                let color = |half: usize| {
                    let pixel = 2 * row + half;
                    let x = part(token(column, across), token(column + 1, across), w);
                    let y = part(token(pixel, down), token(pixel + 1, down), h);
                    let value = map.value(tile, pixel / down, column / across, plan.scale);
                    let [r, g, b] = mix(mean(still, x, y), value);
                    Color::Rgb(r, g, b)
                };
                if let Some(cell) = frame.buffer_mut().cell_mut((x + column as u16, y + 1 + row as u16)) {
                    cell.set_symbol("▀").set_fg(color(0)).set_bg(color(1));
                }
            }
        }
    }
}

/// Blend a heat from 0 to 1 into a pixel: colder is darker, hotter has more of [`HOT`].
fn mix(pixel: [u8; 3], heat: f32) -> [u8; 3] {
    let heat = heat.clamp(0.0, 1.0);
    let (light, share) = (0.35 + 0.65 * heat, 0.45 * heat);
    std::array::from_fn(|i| {
        let own = f32::from(pixel[i]) * light * (1.0 - share);
        (own + f32::from(HOT[i]) * share).round() as u8
    })
}

fn too_many(theme: &Theme) -> Line<'static> {
    theme.line(Role::Dim, "not enough room for the frames")
}

fn tiles(map: &Map<'_>, theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let Some(plan) = plan(map.seen.grid, columns, rows, MOST_SHADE_ZOOM) else {
        return vec![too_many(theme)];
    };
    let t = map.seen.grid[0];
    let mut lines = Vec::new();
    for first in (0..t).step_by(plan.across) {
        let tiles = first..t.min(first + plan.across);
        lines.push(tiles.clone().map(|tile| map.label(tile, plan.slot(), theme)).collect());
        for row in 0..plan.rows * plan.zoom {
            let mut spans = Vec::new();
            for tile in tiles.clone() {
                let places =
                    (0..plan.columns * plan.zoom).map(|column| (row / plan.zoom, column / plan.zoom));
                let cells = places.map(|(row, column)| map.value(tile, row, column, plan.scale));
                spans.extend(cells.map(|value| cell(value, theme)));
                spans.push(Span::raw(" ".repeat(plan.slot() - 2 * plan.columns * plan.zoom)));
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
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::tui::ColorDepth;

    #[test]
    fn tiles_are_as_fine_as_fits() {
        // Six frames of four by four tokens: cells of two columns, a column of air, a line for the time.
        assert_eq!(
            plan([6, 4, 4], 53, 5, 1),
            Some(Plan { scale: 1, zoom: 1, rows: 4, columns: 4, across: 6 })
        );
        assert_eq!(plan([6, 4, 4], 53, 4, 1).map(|p| p.scale), Some(2));
        assert_eq!(plan([6, 4, 4], 26, 10, 1).map(|p| (p.scale, p.across)), Some((1, 3)));
        assert_eq!(plan([64, 28, 28], 60, 12, 1), None);
        assert_eq!(plan([8, 28, 28], 120, 12, 1).map(|p| p.scale), Some(4));
        // Pictures take the room that there is.
        assert_eq!(plan([6, 4, 4], 110, 20, 6).map(|p| (p.scale, p.zoom, p.across)), Some((1, 2, 6)));
        assert_eq!(plan([6, 4, 4], 53, 4, 6).map(|p| (p.scale, p.zoom)), Some((2, 1)));
    }

    #[test]
    fn heat_lights_up_what_is_hot() {
        assert_eq!(mix([200, 100, 0], 0.0), [70, 35, 0]);
        assert_eq!(mix([0, 0, 0], 1.0), [115, 59, 0]);
        assert!(mix([90, 90, 90], 0.9)[0] > mix([90, 90, 90], 0.3)[0]);
    }

    #[test]
    fn a_tile_shows_its_own_frame_under_its_own_tokens() {
        let theme = Theme::built_in("dark", ColorDepth::True).unwrap();
        let seen =
            PromptSeen { frames: vec![0.0, 1.0], grid: [2, 1, 2], visual_tokens: 4, ..PromptSeen::default() };
        let map = Map::of(&seen, &[0.0, 1.0, 0.0, 0.0]).unwrap();
        let gray = |seconds, v| {
            let frame = specreel_video::Frame {
                index: 0,
                timestamp_s: seconds,
                width: 2,
                height: 1,
                rgb: vec![v; 6],
            };
            std::sync::Arc::new(frame)
        };
        let request = crate::tui::FrameRequest { path: "a".into(), count: 2, max: (2, 1) };
        let mut strip = FrameStrip { request, frames: vec![gray(0.0, 100)], ended: None };
        let colors = |strip: &FrameStrip| {
            let area = Rect::new(0, 0, 20, 2);
            let mut buffer = Buffer::empty(area);
            pictures(&map, strip, &theme, &mut Frame::new(&mut buffer), area);
            [0, 3, 7, 10].map(|x| buffer[(x, 1)].fg)
        };
        let color = |v, heat| {
            let [r, g, b] = mix([v; 3], heat);
            Color::Rgb(r, g, b)
        };
        let [cold, hot, absent, _] = colors(&strip);
        assert_eq!([cold, hot], [color(100, 0.0), color(100, 1.0)]);
        assert_eq!(absent, Color::Reset, "it is not read yet");
        strip.frames.push(gray(1.0, 200));
        assert_eq!(colors(&strip)[2..], [color(200, 0.0); 2]);
    }

    #[test]
    fn a_coarse_cell_shows_the_most_of_its_tokens() {
        let theme = Theme::built_in("dark", ColorDepth::None).unwrap();
        let seen = PromptSeen {
            frames: vec![0.0, 0.5],
            grid: [1, 4, 4],
            visual_tokens: 16,
            ..PromptSeen::default()
        };
        let mut values = vec![0.0; 16];
        values[0] = 0.3;
        values[15] = 1.0;
        let text = |columns, rows| -> Vec<String> {
            let lines = tiles(&Map::of(&seen, &values).unwrap(), &theme, columns, rows);
            lines.iter().map(|l| l.spans.iter().map(|s| &*s.content).collect()).collect()
        };
        assert_eq!(text(20, 5)[1..3], ["▒▒· · ·  ", "· · · ·  "].map(String::from));
        assert_eq!(text(20, 3)[1..3], ["▒▒·    ", "· ██   "].map(String::from));
    }
}
