//! The progress of a training run as a picture in the studio's look, for a terminal without the studio.

use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Dataset, GraphType, LegendPosition, Padding};

use specreel::{
    look::{ColorDepth, Role, StudioError, Theme},
    tui::{
        to_ascii,
        widgets::{Frame, chart, line_marker, panel, title, track},
    },
};
use specreel_client::{
    chart::{Curve, Scale},
    present::text,
};

/// Minimum columns and rows of the terminal.
pub const TRAINING_SIZE: (u16, u16) = (56, 20);

#[derive(Clone, Debug, Default)]
pub struct TrainingPicture {
    pub title: String,
    pub doing: String,
    pub share: f64,
    pub left: String,
    pub facts: Vec<(String, String)>,
    pub curve: Curve,
    pub foot: String,
}

/// The theme and the character set of pictures on this terminal.
#[derive(Clone, Debug)]
pub struct Look {
    theme: Theme,
    ascii: bool,
}

impl Look {
    /// The theme of this name, built-in or from `folder`; `auto` is dark or light by `COLORFGBG`. With `ascii`, only ASCII
    /// characters are drawn.
    /// Errors: the theme is unknown, or a theme file is invalid.
    pub fn new(
        theme: &str,
        folder: Option<&std::path::Path>,
        depth: ColorDepth,
        ascii: bool,
    ) -> Result<Self, StudioError> {
        let mut themes = Theme::all(folder, depth)?;
        let at = Theme::position(&themes, theme)?;
        Ok(Self { theme: themes.swap_remove(at), ascii })
    }
}

impl TrainingPicture {
    /// The picture, this many columns wide.
    pub fn draw(&self, look: &Look, columns: u16) -> Buffer {
        let mut picture = Buffer::empty(Rect::new(0, 0, columns, TRAINING_SIZE.1 - 1));
        draw(self, look.ascii, &look.theme, &mut Frame::new(&mut picture));
        if look.ascii {
            to_ascii(&mut picture);
        }
        picture
    }
}

/// Styles of the curve's lines; more lines share them.
const LINES: [Role; 2] = [Role::Accent, Role::Loosened];

fn draw(picture: &TrainingPicture, is_ascii: bool, theme: &Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let dim = theme.style(Role::Dim);
    let columns = usize::from(area.width);
    let on_border = |words: &str, room: usize| {
        Line::styled(format!(" {} ", text::fit(words, columns.saturating_sub(room))), dim)
    };
    let block = panel(title("Training", true, theme), true, theme)
        .title_top(on_border(&picture.title, 16).right_aligned())
        .title_bottom(on_border(&picture.foot, 6))
        .padding(Padding::horizontal(1));
    let inner = frame.border(block, area);
    let [progress_area, facts_area, _, chart_area] =
        inner.layout(&Layout::vertical([Length(1), Length(1), Length(1), Min(0)]));
    frame.render_widget(progress(picture, theme, inner.width.into()), progress_area);
    frame.render_widget(facts(picture, theme), facts_area);
    if picture.curve.lines.iter().all(|(_, points)| points.len() < 2) {
        frame.render_widget(Line::styled("The curve starts at the second point.", dim), chart_area);
        return;
    }
    let scale = |value: fn(&(f64, f64)) -> f64| {
        Scale::covering(picture.curve.lines.iter().flat_map(|(_, points)| points.iter().map(value)))
    };
    let lines = picture.curve.lines.iter().zip(LINES.into_iter().cycle()).map(|((name, points), role)| {
        Dataset::default()
            .name(name.as_str())
            .data(points)
            .graph_type(GraphType::Line)
            .marker(line_marker(is_ascii))
            .style(theme.style(role))
    });
    let (across, up) = (scale(|p| p.0), scale(|p| p.1));
    let axes = ((&across, picture.curve.x.as_str()), (&up, picture.curve.y.as_str()));
    chart(lines.collect(), axes.0, axes.1, Some(LegendPosition::TopRight), theme, frame, chart_area);
}

/// The stage, its progress, and the remaining time.
fn progress(picture: &TrainingPicture, theme: &Theme, columns: usize) -> Line<'static> {
    let doing = text::pad(&picture.doing, 24);
    let right = format!(" {:3.0} %  {}", 100.0 * picture.share.clamp(0.0, 1.0), picture.left);
    let cells = columns.saturating_sub(text::width(&doing) + text::width(&right)).min(60);
    let [done, rest] = track(picture.share, cells, theme);
    Line::from(vec![theme.span(Role::Title, doing), done, rest, Span::raw(right)])
}

fn facts(picture: &TrainingPicture, theme: &Theme) -> Line<'static> {
    let fact = |(i, (name, value)): (usize, &(String, String))| {
        let gap = if i > 0 { "   " } else { "" };
        let name = theme.span(Role::Dim, format!("{gap}{name} "));
        [name, theme.span(Role::Title, value.clone())]
    };
    picture.facts.iter().enumerate().flat_map(fact).collect()
}
