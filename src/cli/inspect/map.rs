//! Frames as characters. Kept cells stand in brackets (or are doubled where there is little room), a denser character is a
//! higher score: both are read without colour.

use super::sight::Sight;

/// Characters from the lowest score to the highest.
const RAMP: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// A kept and a dropped cell where there are no scores.
const PLAIN: [char; 2] = ['.', '#'];
/// Space between two frames.
const GAP: usize = 3;

/// The drawn frames side by side as far as `width` goes, each below its time and its count of kept tokens.
pub fn maps(sight: &Sight, width: usize) -> String {
    let roomy = is_roomy(sight, width);
    let blocks: Vec<Vec<String>> =
        sight.drawn().into_iter().map(|frame| block(sight, frame, roomy)).collect();
    let wide = blocks.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0);
    let per_row = ((width + GAP) / (wide + GAP)).max(1);
    let mut out = String::new();
    for row in blocks.chunks(per_row) {
        out.push('\n');
        for line in 0..=sight.grid[1] {
            let parts = row.iter().filter_map(|block| block.get(line)).map(|part| format!("{part:wide$}"));
            let whole = parts.collect::<Vec<_>>().join(&" ".repeat(GAP));
            out += whole.trim_end();
            out.push('\n');
        }
    }
    out
}

/// What the characters mean.
pub fn legend(sight: &Sight, width: usize) -> String {
    let roomy = is_roomy(sight, width);
    let sample = |character, kept| cell(character, kept, roomy).trim().to_owned();
    if sight.range().is_none() {
        return format!("{} kept, {} dropped", sample(PLAIN[1], true), sample(PLAIN[0], false));
    }
    // No sign of the scores: any of them may be kept or dropped.
    let ramp = RAMP.map(String::from).join(" ");
    format!(
        "{} kept, {} dropped; x is the score, from low to high: {ramp}",
        sample('x', true),
        sample('x', false)
    )
}

/// Whether a frame's cells have three columns each.
fn is_roomy(sight: &Sight, width: usize) -> bool {
    sight.grid[2] * 3 <= width
}

/// One frame: its label, and a line for each row of cells.
fn block(sight: &Sight, frame: usize, roomy: bool) -> Vec<String> {
    let [_, rows, columns] = sight.grid;
    let range = sight.range();
    let mut lines = vec![label(sight, frame)];
    for row in 0..rows {
        lines.push(
            (0..columns)
                .map(|column| {
                    let token = sight.token(frame, row, column);
                    let kept = sight.kept.get(token).copied().unwrap_or(false);
                    let heat = range.and_then(|range| sight.heat(token, range));
                    cell(heat.map_or(PLAIN[usize::from(kept)], character), kept, roomy)
                })
                .collect(),
        );
    }
    lines
}

/// When a frame is shown, and how many of its tokens are kept.
pub fn label(sight: &Sight, frame: usize) -> String {
    format!("{:.2} s  {}/{}", sight.time(frame), sight.kept_in(frame), sight.cells())
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
    use super::{super::sight::tests::sight, *};

    #[test]
    fn frames_stand_side_by_side_as_far_as_there_is_room() {
        let three = "\n0.00 s  2/4   1.00 s  2/4   2.00 s  2/4\n .  .          =  +          #  %\n[:][-]        [+][*]        [@][@]\n";
        assert_eq!(maps(&sight(), 80), three);
        let two = maps(&sight(), 30);
        assert_eq!(two.lines().filter(|line| line.is_empty()).count(), 2, "{two}");
        assert!(two.lines().all(|line| line.len() <= 30), "{two}");
    }

    #[test]
    fn little_room_and_no_scores_are_still_read() {
        let narrow = maps(&sight(), 5);
        assert!(narrow.contains("\n. .\n::--\n"), "{narrow}");
        let plain = Sight { scores: None, ..sight() };
        assert!(maps(&plain, 80).contains("\n .  .          .  .          .  .\n[#][#]"));
        assert_eq!(legend(&plain, 80), "[#] kept, . dropped");
        assert!(legend(&sight(), 5).starts_with("xx kept, x dropped; x is the score, from low to high: . :"));
    }

    #[test]
    fn the_ramp_is_whole() {
        assert_eq!((character(0.0), character(0.5), character(1.0)), ('.', '+', '@'));
    }
}
