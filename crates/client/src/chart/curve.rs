//! Lines over a common axis, as terminal text and as SVG.

use super::Scale;

const AREA: [f64; 4] = [64.0, 68.0, 560.0, 280.0];
/// Colors of the lines; their dashes also differ.
const STROKES: [(&str, &str); 4] = [("#06c", "none"), ("#c50", "6 3"), ("#084", "2 3"), ("#80a", "8 3 2 3")];
const SYMBOLS: [char; 4] = ['*', 'o', '+', 'x'];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Name and points of each line, x ascending. Line styles repeat after four.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Curve {
    fn scales(&self) -> (Scale, Scale) {
        let of = |value: fn(&(f64, f64)) -> f64| {
            Scale::covering(self.lines.iter().flat_map(|(_, points)| points.iter().map(value)))
        };
        (of(|p| p.0), of(|p| p.1))
    }

    /// In `columns × rows` cells, axes and names not counted.
    pub fn text(&self, columns: usize, rows: usize) -> String {
        let (columns, rows) = (columns.max(20), rows.max(5));
        let (across, up) = self.scales();
        let mut cells = vec![vec![' '; columns]; rows];
        for ((_, points), symbol) in self.lines.iter().zip(SYMBOLS.iter().cycle()) {
            for (x, y) in points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()) {
                let column = (across.place(*x) * (columns - 1) as f64).round() as usize;
                let row = rows - 1 - (up.place(*y) * (rows - 1) as f64).round() as usize;
                cells[row][column] = *symbol;
            }
        }
        let row_of = |tick: f64| rows - 1 - (up.place(tick) * (rows - 1) as f64).round() as usize;
        let labels: Vec<(usize, String)> = up.ticks().into_iter().map(|t| (row_of(t), up.words(t))).collect();
        let margin = labels.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
        let names = self.lines.iter().zip(SYMBOLS.iter().cycle());
        let names: Vec<String> = names.map(|((name, _), symbol)| format!("{symbol} {name}")).collect();
        let mut out = format!("{}: {}\n", self.y, names.join("  "));
        for (number, row) in cells.iter().enumerate() {
            let label = labels.iter().find(|(at, _)| *at == number).map_or("", |(_, words)| words.as_str());
            let edge = if label.is_empty() { '│' } else { '┤' };
            out += format!("{label:>margin$} {edge}{}", row.iter().collect::<String>()).trim_end();
            out.push('\n');
        }
        let ticks = across.ticks();
        let ends = [ticks.first(), ticks.last()].map(|t| t.map(|t| across.words(*t)).unwrap_or_default());
        out += &format!("{:margin$} └{}\n", "", "─".repeat(columns));
        let space = columns.saturating_sub(ends[0].len());
        out + &format!("{:1$}{2}{3:>space$}\n", "", margin + 2, ends[0], format!("{} {}", ends[1], self.x))
    }

    /// As a self-contained SVG file.
    pub fn svg(&self) -> String {
        let [left, top, width, height] = AREA;
        let (across, up) = self.scales();
        let x = |value: f64| left + across.place(value) * width;
        let y = |value: f64| top + (1.0 - up.place(value)) * height;
        let (wide, tall) = (left + width + 40.0, top + height + 60.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {tall}\" width=\"{wide}\" height=\"{tall}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>{0}</title>\n\
             <rect width=\"{wide}\" height=\"{tall}\" fill=\"#fff\"/>\n\
             <text x=\"{left}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{0}</text>\n",
            escaped(&self.title)
        );
        for tick in up.ticks() {
            let (at, words) = (y(tick), up.words(tick));
            out += &format!("<path d=\"M{left} {at:.1}h{width}\" stroke=\"#ddd\"/>\n");
            let (right, below) = (left - 8.0, at + 4.0);
            out += &format!("<text x=\"{right:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{words}</text>\n");
        }
        for tick in across.ticks() {
            let (at, words, below) = (x(tick), across.words(tick), top + height + 20.0);
            out += &format!("<path d=\"M{at:.1} {top}v{height}\" stroke=\"#ddd\"/>\n");
            out += &format!("<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{words}</text>\n");
        }
        let (middle, below) = (left + width / 2.0, top + height + 42.0);
        out += &format!(
            "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>\n",
            escaped(&self.x)
        );
        let mut at = left;
        for ((name, points), (stroke, dash)) in self.lines.iter().zip(STROKES.iter().cycle()) {
            let there = points.iter().filter(|p| p.0.is_finite() && p.1.is_finite());
            let there: Vec<String> = there.map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
            let look =
                format!("stroke=\"{stroke}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" fill=\"none\"");
            out += &format!("<polyline points=\"{}\" {look}/>\n", there.join(" "));
            let line = top - 22.0;
            out += &format!("<path d=\"M{at:.1} {line:.1}h24\" {look}/>\n");
            let (words, down) = (at + 30.0, line + 4.0);
            out += &format!("<text x=\"{words:.1}\" y=\"{down:.1}\">{}</text>\n", escaped(name));
            at += 50.0 + 8.0 * name.chars().count() as f64;
        }
        out + "</svg>\n"
    }
}

/// Text without markup. XML allows no control characters at all.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let line = |k: f64| (0..20).map(|i| (f64::from(i), k * f64::from(i))).collect();
        Curve {
            title: "a < b".into(),
            x: "steps".into(),
            y: "share".into(),
            lines: vec![("up".into(), line(0.05)), ("slow".into(), line(0.01))],
        }
    }

    #[test]
    fn lines_rise_to_the_right() {
        let text = curve().text(40, 8);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "share: * up  o slow");
        assert!(lines[1].ends_with('*') && lines[1].starts_with("1.0"), "{text}");
        assert!(lines[8].contains('o') && lines.len() == 11, "{text}");
        assert!(lines[10].ends_with("20 steps"), "{text}");
    }

    #[test]
    fn the_file_is_whole_and_safe() {
        let svg = curve().svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        let empty = Curve::default();
        assert!(!empty.svg().contains("NaN") && !empty.text(0, 0).is_empty());
    }
}
