//! Frames as characters, readable without color: kept cells are in brackets (doubled if the terminal is narrow), and a denser
//! character is a higher score.

use super::drafter_view::DrafterView;

/// Characters from the lowest score to the highest.
const RAMP: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// A dropped and a kept cell without scores.
const PLAIN: [char; 2] = ['.', '#'];
/// Space between two frames.
const GAP: usize = 3;

/// The drawn frames side by side within `width` columns, each below its time and its number of kept tokens.
pub fn maps(view: &DrafterView, width: usize) -> String {
    let roomy = is_roomy(view, width);
    let heat = view.heat();
    let blocks: Vec<Vec<String>> =
        view.drawn().into_iter().map(|frame| block(view, heat.as_deref(), frame, roomy)).collect();
    let wide = blocks.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0);
    let per_row = ((width + GAP) / (wide + GAP)).max(1);
    let mut out = String::new();
    for row in blocks.chunks(per_row) {
        out.push('\n');
        for line in 0..=view.grid[1] {
            let parts = row.iter().filter_map(|block| block.get(line)).map(|part| format!("{part:wide$}"));
            let whole = parts.collect::<Vec<_>>().join(&" ".repeat(GAP));
            out += whole.trim_end();
            out.push('\n');
        }
    }
    out
}

pub fn legend(view: &DrafterView, width: usize) -> String {
    let roomy = is_roomy(view, width);
    let sample = |character, kept| cell(character, kept, roomy).trim().to_owned();
    if view.range().is_none() {
        return format!("{} kept, {} dropped", sample(PLAIN[1], true), sample(PLAIN[0], false));
    }
    // Not a character of the ramp: each of them may be kept or dropped.
    let ramp = RAMP.map(String::from).join(" ");
    format!(
        "{} kept, {} dropped; x is the score, from low to high: {ramp}",
        sample('x', true),
        sample('x', false)
    )
}

/// True if a frame's cells have three columns each.
fn is_roomy(view: &DrafterView, width: usize) -> bool {
    view.grid[2] * 3 <= width
}

/// One frame: its label, and a line for each row of cells.
fn block(view: &DrafterView, heat: Option<&[f32]>, frame: usize, roomy: bool) -> Vec<String> {
    let [_, rows, columns] = view.grid;
    let mut lines = vec![label(view, frame)];
    for row in 0..rows {
        lines.push(
            (0..columns)
                .map(|column| {
                    let token = view.token(frame, row, column);
                    let kept = view.kept.get(token).copied().unwrap_or(false);
                    let heat = heat.and_then(|heat| heat.get(token).copied());
                    cell(heat.map_or(PLAIN[usize::from(kept)], character), kept, roomy)
                })
                .collect(),
        );
    }
    lines
}

pub fn label(view: &DrafterView, frame: usize) -> String {
    format!("{:.2} s  {}/{}", view.time(frame), view.kept_in(frame), view.cells())
}

fn cell(character: char, kept: bool, roomy: bool) -> String {
    match (roomy, kept) {
        (true, true) => format!("[{character}]"),
        (true, false) => format!(" {character} "),
        (false, true) => format!("{character}{character}"),
        (false, false) => format!("{character} "),
    }
}

fn character(heat: f32) -> char {
    let last = RAMP.len() - 1;
    RAMP[((heat * RAMP.len() as f32) as usize).min(last)]
}

#[cfg(test)]
mod tests {
    use super::{super::drafter_view::tests::view, *};

    #[test]
    fn frames_are_side_by_side_within_the_width() {
        let three = "\n0.00 s  2/4   1.00 s  2/4   2.00 s  2/4\n .  .          =  +          #  %\n[:][-]        [+][*]        [@][@]\n";
        assert_eq!(maps(&view(), 80), three);
        let two = maps(&view(), 30);
        assert_eq!(two.lines().filter(|line| line.is_empty()).count(), 2, "{two}");
        assert!(two.lines().all(|line| line.len() <= 30), "{two}");
    }

    #[test]
    fn narrow_maps_and_maps_without_scores_are_readable() {
        let narrow = maps(&view(), 5);
        assert!(narrow.contains("\n. .\n::--\n"), "{narrow}");
        let plain = DrafterView { scores: None, ..view() };
        assert!(maps(&plain, 80).contains("\n .  .          .  .          .  .\n[#][#]"));
        assert_eq!(legend(&plain, 80), "[#] kept, . dropped");
        assert!(legend(&view(), 5).starts_with("xx kept, x dropped; x is the score, from low to high: . :"));
    }

    #[test]
    fn the_ramp_covers_all_values() {
        assert_eq!((character(0.0), character(0.5), character(1.0)), ('.', '+', '@'));
    }
}
