//! A plot as text, for terminals and files.

use specreel_client::chart::{Plot, Scale};

/// The plot in `columns × lines` cells, axes and names not counted. The front's steps are dotted. Of points that share a cell,
/// one on the front is shown before others, and an earlier one before a later one.
pub fn text(plot: &Plot, columns: usize, lines: usize) -> String {
    let (columns, lines) = (columns.max(20), lines.max(5));
    let (across, up) = plot.scales();
    let column = |x: f64| (across.place(x) * (columns - 1) as f64).round() as usize;
    let line = |y: f64| lines - 1 - (up.place(y) * (lines - 1) as f64).round() as usize;
    let mut cells = vec![vec![' '; columns]; lines];
    for pair in plot.stairs().windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        for row in &mut cells[line(y0)..=line(y1)] {
            row[column(x0)..=column(x1)].fill('·');
        }
    }
    let (front, others): (Vec<_>, Vec<_>) = plot.symbols().partition(|(_, point)| point.front);
    for (symbol, point) in others.into_iter().rev().chain(front.into_iter().rev()) {
        cells[line(point.y)][column(point.x)] = symbol;
    }

    let labels: Vec<(usize, String)> = up.ticks().into_iter().map(|t| (line(t), up.words(t))).collect();
    let margin = labels.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
    let mut out = format!("{}\n", plot.y);
    for (number, row) in cells.iter().enumerate() {
        let label = labels.iter().find(|(at, _)| *at == number).map(|(_, words)| words.as_str());
        let edge = if label.is_some() { '┤' } else { '│' };
        let row: String = row.iter().collect();
        out += format!("{:>margin$} {edge}{row}", label.unwrap_or_default()).trim_end();
        out.push('\n');
    }
    out + &foot(&across, &column, columns, margin) + &format!("{:>1$}\n", plot.x, margin + 2 + columns)
}

/// The x axis with its ticks.
fn foot(scale: &Scale, column: &dyn Fn(f64) -> usize, columns: usize, margin: usize) -> String {
    let mut axis = vec!['─'; columns];
    let mut words = String::new();
    for tick in scale.ticks() {
        let (at, label) = (column(tick), scale.words(tick));
        axis[at] = '┬';
        let from = (margin + 2 + at).saturating_sub(label.len() / 2);
        if from > words.len() || words.is_empty() {
            words = format!("{words:from$}{label}");
        }
    }
    format!("{:margin$} └{}\n{words}\n", "", axis.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::tests::plot;
    use super::*;

    #[test]
    fn it_can_be_read_without_color() {
        let wanted = "\
kept
100 ┤A
    │·
 90 ┤············B
    │            ·
 80 ┤      c     ·
    │            ·
 70 ┤            ·
    │            ·
 60 ┤            ············D
    └┬─────┬─────┬─────┬─────┬
    1.0   1.5   2.0   2.5   3.0
                       speedup
";
        assert_eq!(text(&plot(), 25, 9), wanted);
    }

    #[test]
    fn points_in_one_cell_show_the_front_one() {
        let points = [(1.0, 1.0), (1.001, 1.001), (100.0, 0.0)];
        let picture = text(&Plot::new("", "x", "y", points.map(|(x, y)| (x, y, String::new()))), 20, 5);
        assert!(picture.contains('B') && picture.contains('C') && !picture.contains('a'), "{picture}");
    }

    #[test]
    fn nothing_is_drawn_too() {
        assert!(text(&Plot::new("", "x", "y", []), 0, 0).lines().count() > 5);
    }
}
