//! Bars made of eighth blocks.

const ACROSS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const UP: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Eighths of a bar of `cells` that a share of 0 to 1 fills; something is never nothing.
fn eighths(share: f64, cells: usize) -> usize {
    let all = cells * 8;
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let filled = (share * all as f64).round() as usize;
    if share > 0.0 { filled.max(1).min(all) } else { 0 }
}

/// A bar from the left: what is filled, and the cells after it.
pub(super) fn across(share: f64, cells: usize) -> (String, usize) {
    let filled = eighths(share, cells);
    let mut bar = ACROSS[8].repeat(filled / 8);
    let mut used = filled / 8;
    if !filled.is_multiple_of(8) {
        bar.push_str(ACROSS[filled % 8]);
        used += 1;
    }
    (bar, cells - used)
}

/// One column of a bar that stands on `rows` rows, from its top: the blocks of its cells.
pub(super) fn column(share: f64, rows: usize) -> Vec<&'static str> {
    let filled = eighths(share, rows);
    (0..rows).rev().map(|row| UP[filled.saturating_sub(row * 8).min(8)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_exact_to_an_eighth() {
        assert_eq!(across(0.0, 4), (String::new(), 4));
        assert_eq!(across(1.0, 4), ("████".into(), 0));
        assert_eq!(across(0.5, 4), ("██".into(), 2));
        assert_eq!(across(0.55, 4), ("██▎".into(), 1));
        assert_eq!(across(0.0001, 4), ("▏".into(), 3));
        assert_eq!(across(f64::NAN, 4), (String::new(), 4));
        assert_eq!(across(7.0, 0), (String::new(), 0));
    }

    #[test]
    fn columns_grow_from_below() {
        assert_eq!(column(0.75, 2), ["▄", "█"]);
        assert_eq!(column(0.25, 2), [" ", "▄"]);
        assert_eq!(column(0.0, 2), [" ", " "]);
        assert_eq!(column(1.0, 1), ["█"]);
    }
}
