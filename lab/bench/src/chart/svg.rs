//! A plot as a self-contained SVG file: no fonts, style sheets or scripts.

use specreel_client::chart::{Plot, escaped};

const AREA: [f64; 4] = [64.0, 68.0, 560.0, 420.0];
const LINE: f64 = 18.0;
const LEGEND: f64 = 664.0;
/// Upper estimate of the width of a letter; the font is unknown.
const LETTER: f64 = 8.0;
const RADIUS: f64 = 4.5;
/// As many points as there are letters.
const ALL_NAMED: usize = 26;

/// The plot with its legend as an SVG file. Points on the front are solid and joined by steps, the others hollow. In a
/// crowd only the front has letters; the pointer shows the names of the others.
pub fn svg(plot: &Plot) -> String {
    let [left, top, width, height] = AREA;
    let (across, up) = plot.scales();
    let x = |value: f64| left + across.place(value) * width;
    let y = |value: f64| top + (1.0 - up.place(value)) * height;
    let named: Vec<_> = plot.symbols().filter(|(_, p)| p.front || plot.points().len() <= ALL_NAMED).collect();
    let others = match plot.points().len() - named.len() {
        0 => None,
        others => Some(format!("{others} others: names under the pointer")),
    };
    let legend = named.iter().map(|(_, p)| p.label.as_str()).chain(others.as_deref());
    let longest = legend.clone().map(|label| label.chars().count()).max().unwrap_or(0);
    let wide = LEGEND + 32.0 + LETTER * longest as f64;
    let whole = (top + height + 56.0).max(top + LINE * (legend.count() + 2) as f64);
    let mut out = String::new();
    let mut line = |text: String| {
        out += &text;
        out.push('\n');
    };
    line(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {whole}" width="{wide}" height="{whole}" font-family="system-ui, sans-serif" font-size="13" fill="#222">"##
    ));
    line(format!("<title>{}</title>", escaped(&plot.title)));
    line(format!(r##"<rect width="{wide}" height="{whole}" fill="#fff"/>"##));
    line(format!(
        r#"<text x="{left}" y="24" font-size="15" font-weight="bold">{}</text>"#,
        escaped(&plot.title)
    ));
    for tick in up.ticks() {
        let (at, words) = (y(tick), up.words(tick));
        line(format!(r##"<path d="M{left} {at:.1}h{width}" stroke="#ddd"/>"##));
        line(format!(r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{words}</text>"#, left - 8.0, at + 4.0));
    }
    for tick in across.ticks() {
        let (at, words) = (x(tick), across.words(tick));
        line(format!(r##"<path d="M{at:.1} {top}v{height}" stroke="#ddd"/>"##));
        let below = top + height + 20.0;
        line(format!(r#"<text x="{at:.1}" y="{below:.1}" text-anchor="middle">{words}</text>"#));
    }
    line(format!(r#"<text x="{left}" y="{:.1}">{}</text>"#, top - 22.0, escaped(&plot.y)));
    let (middle, below) = (left + width / 2.0, top + height + 42.0);
    line(format!(r#"<text x="{middle}" y="{below}" text-anchor="middle">{}</text>"#, escaped(&plot.x)));
    let stairs: Vec<String> =
        plot.stairs().iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
    if stairs.len() > 1 {
        let stairs = stairs.join(" ");
        line(format!(r##"<polyline points="{stairs}" fill="none" stroke="#06c" stroke-dasharray="4 3"/>"##));
    }
    for point in plot.points() {
        let fill = if point.front { "#06c" } else { "#fff" };
        line(format!(
            r##"<circle cx="{:.1}" cy="{:.1}" r="{RADIUS}" fill="{fill}" stroke="#06c"><title>{}</title></circle>"##,
            x(point.x),
            y(point.y),
            escaped(&point.label)
        ));
    }
    let mut taken: Vec<(f64, f64)> = plot.points().iter().map(|p| (x(p.x), y(p.y))).collect();
    for (number, (symbol, point)) in named.iter().enumerate() {
        let (px, py) = (x(point.x), y(point.y));
        let (lx, ly) = free((px, py), &taken);
        taken.push((lx, ly));
        if (lx - px).hypot(ly - py) > 2.0 * APART {
            line(format!(r##"<path d="M{px:.1} {py:.1}L{lx:.1} {ly:.1}" stroke="#999"/>"##));
        }
        let weight = if point.front { "bold" } else { "normal" };
        let below = ly + 4.5;
        line(format!(
            r#"<text x="{lx:.1}" y="{below:.1}" text-anchor="middle" font-weight="{weight}">{symbol}</text>"#
        ));
        let at = top + LINE * (number as f64 + 0.7);
        line(format!(r#"<text x="{LEGEND}" y="{at:.1}" font-weight="{weight}">{symbol}</text>"#));
        line(format!(
            r#"<text x="{:.1}" y="{at:.1}" font-weight="{weight}">{}</text>"#,
            LEGEND + 18.0,
            escaped(&point.label)
        ));
    }
    if let Some(others) = others {
        let at = top + LINE * (named.len() as f64 + 0.7);
        line(format!(r#"<text x="{:.1}" y="{at:.1}">{others}</text>"#, LEGEND + 18.0));
    }
    out + "</svg>\n"
}

/// How far the middle of a letter stays from points and other letters, in pixels.
const APART: f64 = 12.0;

/// The middle of a point's letter: the nearest place where nothing is yet, the upper right first.
fn free((x, y): (f64, f64), taken: &[(f64, f64)]) -> (f64, f64) {
    let around = |ring: usize| {
        (0..16).map(move |turn| {
            let angle = std::f64::consts::FRAC_PI_8 * f64::from(turn) - std::f64::consts::FRAC_PI_4;
            let far = APART * (1.0 + 0.5 * ring as f64);
            (x + far * angle.cos(), y + far * angle.sin())
        })
    };
    let free = |at: &(f64, f64)| taken.iter().all(|t| (at.0 - t.0).hypot(at.1 - t.1) > APART - 0.1);
    (0..10).flat_map(around).find(free).unwrap_or((x + APART, y - APART))
}

#[cfg(test)]
mod tests {
    use super::super::tests::plot;
    use super::*;

    #[test]
    fn every_point_is_there_with_its_label() {
        let picture = svg(&plot());
        assert_eq!(picture.matches("<circle").count(), 4);
        assert_eq!(picture.matches(r##"fill="#06c" stroke"##).count(), 3, "the front is solid");
        assert!(picture.contains(">&lt;loose&gt;</text>") && !picture.contains("<loose>"), "{picture}");
        assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn all_points_are_inside_and_faster_is_further_right() {
        let picture = svg(&plot());
        let numbers = |name: &str| -> Vec<f64> {
            let mark = format!("{name}=\"");
            picture.split(&mark).skip(1).map(|s| s.split('"').next().unwrap().parse().unwrap()).collect()
        };
        let (xs, ys) = (numbers("cx"), numbers("cy"));
        assert!(xs[0] < xs[2] && xs[2] < xs[1] && xs[1] < xs[3], "{xs:?}");
        assert!(ys[0] < ys[1] && ys[1] < ys[2] && ys[2] < ys[3], "{ys:?}");
        assert!(xs.iter().all(|x| (AREA[0]..=AREA[0] + AREA[2]).contains(x)));
        assert!(ys.iter().all(|y| (AREA[1]..=AREA[1] + AREA[3]).contains(y)));
    }

    #[test]
    fn tags_are_closed_and_nothing_is_fetched() {
        let picture = svg(&plot());
        for name in ["text", "title", "svg", "circle"] {
            let opened = picture.matches(&format!("<{name}")).count();
            assert_eq!(opened, picture.matches(&format!("</{name}>")).count(), "{name}");
        }
        assert!(!picture.contains("href") && !picture.contains("url("));
    }

    /// A number of the picture as a whole.
    fn size(picture: &str, name: &str) -> f64 {
        let after = picture.split_once(&format!(" {name}=\"")).unwrap().1;
        after.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn in_a_crowd_only_the_front_has_letters() {
        let crowd = (0..60).map(|i| (f64::from(i % 10), f64::from(-(i / 10)), format!("rule {i}")));
        let picture = svg(&Plot::new("", "", "", crowd));
        assert_eq!(picture.matches("<circle").count(), 60);
        assert!(
            picture.contains(">rule 9</text>") && picture.contains(">59 others: names under the pointer<")
        );
        assert!(picture.contains("<title>rule 10</title>") && !picture.contains(">rule 10</text>"));
    }

    #[test]
    fn letters_keep_clear_of_points_and_of_one_another() {
        let mut taken = vec![(100.0, 100.0), (110.0, 100.0), (100.0, 108.0)];
        for _ in 0..8 {
            let at = free((100.0, 100.0), &taken);
            assert!(taken.iter().all(|t| (at.0 - t.0).hypot(at.1 - t.1) > APART - 0.2), "{at:?} {taken:?}");
            taken.push(at);
        }
    }

    #[test]
    fn a_long_legend_has_room() {
        let many =
            |n: usize| svg(&Plot::new("", "", "", (0..n).map(|i| (i as f64, -(i as f64), i.to_string()))));
        let height = |n| size(&many(n), "height");
        assert!(height(60) >= height(10) + 20.0 * LINE);
        assert_eq!(height(0), height(10));
        let labelled = |label: &str| svg(&Plot::new("", "", "", [(1.0, 1.0, label.into())]));
        let width = |letters| size(&labelled(&"m".repeat(letters)), "width");
        assert_eq!(width(80), width(1) + 79.0 * LETTER);
    }
}
