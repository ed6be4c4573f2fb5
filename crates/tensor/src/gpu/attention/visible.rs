//! What the rows of a pass see, as the kernels of attention read it.

use crate::attention::Mask;

/// The slots that each row of a pass sees: consecutive ones, then the slots of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// For each row: its first slot, how many tokens follow each other from there, where its path begins in the table, and its
    /// number of tokens. Then the paths' slots.
    table: Vec<u32>,
    rows: usize,
    /// Tokens of the row that sees most.
    longest: usize,
}

impl Visible {
    /// Of rows that are added to a sequence of `before` tokens.
    pub fn new(mask: &Mask, before: usize, rows: usize) -> Self {
        match mask {
            Mask::Causal => Self::runs((0..rows).map(|row| (0, before + row + 1))),
            Mask::Paths { shared, paths } => {
                let counts = paths.iter().map(|path| (0, shared + path.len()));
                let mut visible = Self::runs(counts);
                for (row, path) in paths.iter().enumerate() {
                    // A path may begin as a chain does.
                    let chained = path.iter().enumerate().take_while(|(i, slot)| i == *slot).count();
                    if chained < path.len() {
                        let at = visible.table.len() as u32;
                        visible.table[4 * row + 1..4 * row + 3]
                            .copy_from_slice(&[(shared + chained) as u32, at]);
                        visible.table.extend(path[chained..].iter().map(|slot| (shared + slot) as u32));
                    }
                }
                visible
            }
        }
    }

    /// Of patches that see all of their window; `windows` are the lengths of windows that follow each other from slot 0 on.
    pub fn windows(windows: impl IntoIterator<Item = usize>) -> Self {
        let mut at = 0;
        let windows = windows.into_iter().flat_map(|length| {
            let start = at;
            at += length;
            std::iter::repeat_n((start, length), length)
        });
        Self::runs(windows)
    }

    /// Of rows with the first slot and the number of tokens of each.
    fn runs(rows: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut visible = Self::default();
        for (start, count) in rows {
            visible.table.extend([start as u32, u32::MAX, 0, count as u32]);
            visible.rows += 1;
            visible.longest = visible.longest.max(count);
        }
        visible
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The table, as the kernels read it.
    pub(crate) fn table(&self) -> &[u32] {
        &self.table
    }

    /// Tokens that a row sees.
    pub(crate) fn count(&self, row: usize) -> usize {
        self.table[4 * row + 3] as usize
    }

    /// Tokens of the row that sees most.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_sees_all_before_it() {
        let visible = Visible::new(&Mask::Causal, 7, 2);
        assert_eq!(visible.table(), [0, u32::MAX, 0, 8, 0, u32::MAX, 0, 9]);
        assert_eq!((visible.rows(), visible.longest(), visible.count(0)), (2, 9, 8));
    }

    #[test]
    fn a_path_is_listed_from_where_it_leaves_the_chain() {
        let mask = Mask::Paths { shared: 10, paths: vec![vec![0, 1], vec![0, 2, 5]] };
        let visible = Visible::new(&mask, 11, 2);
        assert_eq!(visible.table(), [0, u32::MAX, 0, 12, 0, 11, 8, 13, 12, 15]);
    }

    #[test]
    fn windows_follow_each_other() {
        let visible = Visible::windows([1, 2]);
        assert_eq!(visible.table(), [[0, u32::MAX, 0, 1], [1, u32::MAX, 0, 2], [1, u32::MAX, 0, 2]].concat());
        assert_eq!((visible.rows(), visible.longest()), (3, 2));
    }
}
