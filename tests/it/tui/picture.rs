//! Pictures of screens: SVG for the documentation, and text with styles for snapshots.

mod animation;

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use specreel_client::present::text::width;

pub(crate) use animation::animated;

/// One cell in SVG units.
const CELL: (f64, f64) = (8.0, 17.0);
const MARGIN: f64 = 14.0;
const BACKGROUND: &str = "#14171c";
const FOREGROUND: &str = "#d6dae2";

/// The screen as an SVG document. Lines and blocks are drawn as shapes, so that they join in every font.
pub(crate) fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut out = String::new();
    let mut put = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    let (head, size) = opening(area);
    put(head);
    put(format!("<rect {size} rx=\"8\" fill=\"{BACKGROUND}\"/>"));
    for y in 0..area.height {
        let runs = runs(buffer, area.y + y);
        let top = MARGIN + f64::from(y) * CELL.1;
        for line in grounds(&runs, top).into_iter().chain(runs.iter().filter_map(|run| run.draw(top))) {
            put(line);
        }
    }
    put("</svg>".into());
    out
}

/// The first tag of a document for a screen of this area, and the attributes of its size.
fn opening(area: Rect) -> (String, String) {
    let (w, h) =
        (f64::from(area.width) * CELL.0 + 2.0 * MARGIN, f64::from(area.height) * CELL.1 + 2.0 * MARGIN);
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.1} {h:.1}\" width=\"{w:.0}\" height=\"{h:.0}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13.3\">"
    );
    (head, format!("width=\"{w:.1}\" height=\"{h:.1}\""))
}

/// What a stretch of cells is drawn as.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Text,
    Shape,
}

/// Cells of one row with the same style.
struct Run {
    column: u16,
    cells: usize,
    text: String,
    kind: Kind,
    fg: String,
    bg: Option<String>,
    modifier: Modifier,
}

fn runs(buffer: &Buffer, y: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut covered = 0;
    for x in buffer.area.left()..buffer.area.right() {
        let Some(cell) = buffer.cell((x, y)) else { continue };
        // The cell after a wide character belongs to it.
        if x < covered {
            continue;
        }
        let columns = width(cell.symbol()).max(1);
        covered = x + columns as u16;
        let kind = kind(cell.symbol());
        let (fg, bg) = colors(cell);
        let last = runs.last_mut().filter(|r| {
            let same = kind != Kind::Shape || is_endless(cell.symbol()) && r.text.ends_with(cell.symbol());
            r.kind == kind && same && (&r.fg, &r.bg, r.modifier) == (&fg, &bg, cell.modifier)
        });
        match last {
            Some(run) => {
                run.text.push_str(cell.symbol());
                run.cells += columns;
            }
            None => runs.push(Run {
                column: x - buffer.area.x,
                cells: columns,
                text: cell.symbol().to_owned(),
                kind,
                fg,
                bg,
                modifier: cell.modifier,
            }),
        }
    }
    runs
}

fn kind(symbol: &str) -> Kind {
    match symbol.chars().next() {
        None | Some(' ') => Kind::Blank,
        Some('─' | '│' | '╭' | '╮' | '╰' | '╯' | '▀'..='▏' | '▒' | '▓' | '━') => {
            Kind::Shape
        }
        Some(_) => Kind::Text,
    }
}

/// Shapes that join with their like into one.
fn is_endless(symbol: &str) -> bool {
    matches!(symbol, "─" | "━" | "█" | "▀" | "▄" | "▒" | "▓")
}

/// The backgrounds of a row, merged so that no seams show.
fn grounds(runs: &[Run], y: f64) -> Vec<String> {
    let mut grounds: Vec<(u16, usize, &str)> = Vec::new();
    for run in runs {
        let Some(bg) = &run.bg else { continue };
        match grounds.last_mut() {
            Some((column, cells, last))
                if *last == bg && usize::from(*column) + *cells == usize::from(run.column) =>
            {
                *cells += run.cells;
            }
            _ => grounds.push((run.column, run.cells, bg)),
        }
    }
    let rect = |(column, cells, bg): (u16, usize, &str)| {
        let (x, w) = (MARGIN + f64::from(column) * CELL.0, cells as f64 * CELL.0);
        format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{:.1}\" fill=\"{bg}\"/>", CELL.1)
    };
    grounds.into_iter().map(rect).collect()
}

impl Run {
    fn draw(&self, y: f64) -> Option<String> {
        let x = MARGIN + f64::from(self.column) * CELL.0;
        let w = self.cells as f64 * CELL.0;
        let dim = if self.modifier.contains(Modifier::DIM) { " opacity=\"0.6\"" } else { "" };
        match self.kind {
            Kind::Blank => None,
            Kind::Shape => Some(shape(self.text.chars().next()?, (x, y), w, &self.fg, dim)),
            Kind::Text => {
                let mut style = String::from(dim);
                for (modifier, attribute) in [
                    (Modifier::BOLD, " font-weight=\"bold\""),
                    (Modifier::ITALIC, " font-style=\"italic\""),
                    (Modifier::UNDERLINED, " text-decoration=\"underline\""),
                    (Modifier::CROSSED_OUT, " text-decoration=\"line-through\""),
                ] {
                    if self.modifier.contains(modifier) {
                        style.push_str(attribute);
                    }
                }
                Some(format!(
                    "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{w:.1}\" xml:space=\"preserve\" fill=\"{}\"{style}>{}</text>",
                    y + 12.8,
                    self.fg,
                    escape(&self.text)
                ))
            }
        }
    }
}

/// Lines and blocks as shapes that fill their cells.
fn shape(symbol: char, (x, y): (f64, f64), w: f64, color: &str, dim: &str) -> String {
    let h = CELL.1;
    let (cx, cy) = (x + w / 2.0, y + h / 2.0);
    let rect = |x: f64, y: f64, w: f64, h: f64, opacity: f64| {
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
        format!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{color}\"{opacity}{dim}/>"
        )
    };
    let path = |d: String| format!("<path d=\"{d}\" fill=\"none\" stroke=\"{color}\"{dim}/>");
    let code = u32::from(symbol);
    match symbol {
        '▀' => rect(x, y, w, h / 2.0, 1.0),
        '━' => rect(x, cy - 1.0, w, 2.0, 1.0),
        '▁'..='█' => {
            let part = f64::from(code - 0x2580) / 8.0;
            rect(x, y + h * (1.0 - part), w, h * part, 1.0)
        }
        '▉'..='▏' => rect(x, y, w * f64::from(0x2590 - code) / 8.0, h, 1.0),
        '▒' => rect(x, y, w, h, 0.5),
        '▓' => rect(x, y, w, h, 0.75),
        '─' => path(format!("M{x:.1} {cy:.1}h{w:.1}")),
        '│' => path(format!("M{cx:.1} {y:.1}v{h:.1}")),
        // Corners: a curve between the middles of two edges.
        _ => {
            let (right, down) = (matches!(symbol, '╭' | '╰'), matches!(symbol, '╭' | '╮'));
            let (ex, ey) = (if right { x + w } else { x }, if down { y + h } else { y });
            path(format!("M{ex:.1} {cy:.1}Q{cx:.1} {cy:.1} {cx:.1} {ey:.1}"))
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn colors(cell: &Cell) -> (String, Option<String>) {
    let fg = hex(cell.fg);
    let bg = hex(cell.bg);
    if cell.modifier.contains(Modifier::REVERSED) {
        return (bg.unwrap_or_else(|| BACKGROUND.into()), Some(fg.unwrap_or_else(|| FOREGROUND.into())));
    }
    (fg.unwrap_or_else(|| FOREGROUND.into()), bg)
}

fn hex(color: Color) -> Option<String> {
    let code = match color {
        Color::Reset | Color::Indexed(_) => return None,
        Color::Rgb(r, g, b) => return Some(format!("#{r:02x}{g:02x}{b:02x}")),
        Color::Black => "#14171c",
        Color::Red => "#d05c5c",
        Color::Green => "#8cc27c",
        Color::Yellow => "#d9a862",
        Color::Blue => "#5f8fd0",
        Color::Magenta => "#b78ae0",
        Color::Cyan => "#63c1c9",
        Color::Gray => "#b9bec8",
        Color::DarkGray => "#6d7380",
        Color::LightRed => "#f08080",
        Color::LightGreen => "#a9dd99",
        Color::LightYellow => "#f0c987",
        Color::LightBlue => "#82aee8",
        Color::LightMagenta => "#d2abf5",
        Color::LightCyan => "#87dde4",
        Color::White => "#f2f4f8",
    };
    Some(code.into())
}

/// The screen as text with its styles: the characters, a map with one letter per style, and the meaning of the letters.
pub(crate) fn describe(buffer: &Buffer) -> String {
    let mut styles: Vec<String> = Vec::new();
    let (mut text, mut map) = (String::new(), String::new());
    for y in buffer.area.top()..buffer.area.bottom() {
        let (mut line, mut letters) = (String::new(), String::new());
        let mut covered = 0;
        for x in buffer.area.left()..buffer.area.right() {
            let Some(cell) = buffer.cell((x, y)) else { continue };
            if x >= covered {
                line.push_str(cell.symbol());
                covered = x + width(cell.symbol()).max(1) as u16;
            }
            letters.push(letter(&mut styles, &style_words(cell)));
        }
        writeln!(text, "{}", line.trim_end()).ok();
        writeln!(map, "{}", letters.trim_end_matches('.')).ok();
    }
    let mut out = format!("{text}--- styles ---\n{map}--- letters ---\n");
    for (i, style) in styles.iter().enumerate() {
        writeln!(out, "{} {style}", LETTERS[i % LETTERS.len()] as char).ok();
    }
    out
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

fn letter(styles: &mut Vec<String>, words: &str) -> char {
    if words.is_empty() {
        return '.';
    }
    let at = styles.iter().position(|s| s == words).unwrap_or_else(|| {
        styles.push(words.to_owned());
        styles.len() - 1
    });
    LETTERS[at % LETTERS.len()] as char
}

fn style_words(cell: &Cell) -> String {
    let mut words = Vec::new();
    if cell.fg != Color::Reset {
        words.push(format!("{}", cell.fg));
    }
    if cell.bg != Color::Reset {
        words.push(format!("on {}", cell.bg));
    }
    if !cell.modifier.is_empty() {
        words.push(format!("{:?}", cell.modifier));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn the_picture_has_colors_shapes_and_no_raw_markup() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 2));
        let bold = Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        buffer.set_string(0, 0, "a<b&c", bold);
        buffer.set_string(0, 1, "╭─▄日x", Style::new());
        let picture = svg(&buffer);
        assert!(picture.contains("a&lt;b&amp;c") && picture.contains("#010203"), "{picture}");
        assert!(picture.contains("font-weight=\"bold\" text-decoration=\"underline\""), "{picture}");
        assert!(picture.contains("<path") && picture.contains("日x"), "{picture}");
        assert!(picture.contains("textLength=\"24.0\""), "日x takes three cells: {picture}");
        assert_eq!(picture, svg(&buffer));
    }

    #[test]
    fn descriptions_show_styles() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
        buffer.set_string(1, 0, "x", Style::new().fg(Color::Cyan));
        assert_eq!(describe(&buffer), " x\n--- styles ---\n.a\n--- letters ---\na Cyan\n");
    }
}
