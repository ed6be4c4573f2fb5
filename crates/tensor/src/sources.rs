//! Where the rows under the convolution of linear attention come from, by a [`StatePlan`].

use super::recurrent::{Bank, StatePlan};

/// The place of a row under the convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    Pass(usize),
    /// A place in the log.
    Logged(usize),
    /// A row that a bank holds, counted from the oldest.
    Held(Bank, usize),
    /// Zeros, before the first row of a sequence.
    Zero,
}

/// The rows under the convolution in a pass, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Before the pass: `kernel - 1` rows.
    pub before: Vec<RowOrigin>,
    /// For each row of the pass the `kernel - 1` rows before it.
    pub windows: Vec<Vec<RowOrigin>>,
    /// After the last row: `kernel - 1` rows.
    pub after: Vec<RowOrigin>,
}

impl Sources {
    /// Of a pass of `rows` rows, under a convolution of `kernel` rows.
    pub fn new(plan: &StatePlan, rows: usize, kernel: usize) -> Self {
        let count = kernel.saturating_sub(1);
        let held = |at| plan.from.map_or(RowOrigin::Zero, |bank| RowOrigin::Held(bank, at));
        let replayed = plan.replayed.iter().map(|place| RowOrigin::Logged(*place));
        let all: Vec<RowOrigin> = (0..count).map(held).chain(replayed).collect();
        let before = all[all.len() - count..].to_vec();
        let logged = |place: usize| {
            let row = plan.places.iter().flatten().position(|new| *new == place);
            row.map_or(RowOrigin::Logged(place), RowOrigin::Pass)
        };
        let window = |row: usize| {
            let ancestors = plan.ancestors.as_ref().map(|ancestors| &ancestors[row][..]);
            let depth = ancestors.map_or(row, <[usize]>::len);
            let earlier = |back: usize| match (back <= depth, ancestors) {
                (true, None) => RowOrigin::Pass(row - back),
                (true, Some(places)) => logged(places[depth - back]),
                (false, _) => before[count - (back - depth)],
            };
            (1..=count).rev().map(earlier).collect()
        };
        let windows = (0..rows).map(window).collect();
        let new = rows.min(count);
        let after = before[new..].iter().copied().chain((rows - new..rows).map(RowOrigin::Pass)).collect();
        Self { before, windows, after }
    }
}

/// For each row of a pass, the places to replay onto the state before the pass to get the state before the row; `None` if that
/// is the state after the row before it.
pub fn branches(plan: &StatePlan, rows: usize) -> Vec<Option<&[usize]>> {
    let (Some(ancestors), Some(places)) = (&plan.ancestors, &plan.places) else {
        return vec![None; rows];
    };
    let follows = |row: usize| row > 0 && ancestors[row].last() == Some(&places[row - 1]);
    // The first row without ancestors continues from the state before the pass.
    let goes_on = |row: usize| follows(row) || row == 0 && ancestors[row].is_empty();
    (0..rows).map(|row| (!goes_on(row)).then(|| &ancestors[row][..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_reach_back_into_log_and_bank() {
        let plan = StatePlan {
            from: Some(Bank::Settled),
            replayed: vec![5, 2],
            settles: false,
            ancestors: Some(vec![vec![], vec![0], vec![0], vec![7, 1]]),
            places: Some(vec![0, 1, 3, 4]),
            ends: false,
        };
        let sources = Sources::new(&plan, 4, 4);
        let (held, logged) = (RowOrigin::Held(Bank::Settled, 2), RowOrigin::Logged);
        assert_eq!(sources.before, [held, logged(5), logged(2)]);
        assert_eq!(sources.windows[0], sources.before);
        assert_eq!(sources.windows[1], [logged(5), logged(2), RowOrigin::Pass(0)]);
        assert_eq!(sources.windows[1], sources.windows[2]);
        assert_eq!(sources.windows[3], [logged(2), logged(7), RowOrigin::Pass(1)]);
        assert_eq!(branches(&plan, 4), [None, None, Some(&[0][..]), Some(&[7, 1][..])]);
    }

    #[test]
    fn a_chain_follows_itself() {
        let plan = StatePlan { ends: true, ..StatePlan::default() };
        let sources = Sources::new(&plan, 3, 3);
        assert_eq!(sources.before, [RowOrigin::Zero; 2]);
        assert_eq!(sources.windows[1], [RowOrigin::Zero, RowOrigin::Pass(0)]);
        assert_eq!(sources.windows[2], [RowOrigin::Pass(0), RowOrigin::Pass(1)]);
        assert_eq!(sources.after, [RowOrigin::Pass(1), RowOrigin::Pass(2)]);
        assert_eq!(Sources::new(&plan, 1, 3).after, [RowOrigin::Zero, RowOrigin::Pass(0)]);
        assert_eq!(branches(&plan, 3), [None; 3]);
    }
}
