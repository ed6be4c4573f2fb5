//! A sequence of rows, compared with a model of a device that follows a plan: its states are the lists of rows that they have seen.

use proptest::prelude::*;

use super::*;

/// A device whose states are lists.
#[derive(Clone, Default)]
struct Device {
    banks: [Vec<u32>; Bank::COUNT],
    log: Vec<u32>,
}

/// A track, the device, and the rows that the sequence should have seen.
#[derive(Clone, Default)]
struct RecurrentSequence {
    track: Track,
    device: Device,
    rows: Vec<u32>,
    next: u32,
}

impl RecurrentSequence {
    fn fresh(&mut self, count: usize) -> Vec<u32> {
        let first = self.next;
        self.next += count as u32;
        (first..self.next).collect()
    }

    /// What the device does, checked against what every row should continue from.
    fn pass(&mut self, count: usize, base: usize, paths: Option<&[Vec<usize>]>) {
        let plan = self.track.plan(count, base, paths).expect("the state is kept");
        let new = self.fresh(count);
        let device = &mut self.device;
        let mut state = plan.from.map_or_else(Vec::new, |bank| device.banks[bank.index()].clone());
        state.extend(plan.replayed.iter().map(|place| device.log[*place]));
        assert_eq!(state, self.rows[..base], "the state before the pass");
        if plan.settles {
            device.banks[Bank::Settled.index()].clone_from(&state);
        }
        if let Some(places) = &plan.places {
            let size = device.log.len().max(plan.log());
            device.log.resize(size, u32::MAX);
            for (place, row) in places.iter().zip(&new) {
                assert!(!plan.replayed.contains(place), "a row is logged in a place that is replayed");
                device.log[*place] = *row;
            }
        }
        match (&plan.ancestors, paths) {
            (Some(ancestors), Some(paths)) => {
                for (path, places) in paths.iter().zip(ancestors) {
                    let seen: Vec<u32> = places.iter().map(|place| device.log[*place]).collect();
                    let row = |at: &usize| match (base + at).checked_sub(self.rows.len()) {
                        Some(new_row) => new[new_row],
                        None => self.rows[base + at],
                    };
                    assert_eq!(seen, path[..path.len() - 1].iter().map(row).collect::<Vec<_>>());
                }
            }
            (None, None) => {}
            _ => panic!("a tree without ancestors"),
        }
        if plan.ends {
            state.extend(&new);
            device.banks[Bank::Current.index()] = state;
        }
        if let Some((from, to)) = self.track.advance(count, base, &plan) {
            self.device.banks[to.index()] = self.device.banks[from.index()].clone();
        }
        self.rows.extend(new);
        assert_eq!(self.track.len(), self.rows.len());
    }

    fn chain(&mut self, count: usize) {
        self.pass(count, self.rows.len(), None);
    }

    fn truncate(&mut self, len: usize) -> usize {
        let reach = self.track.reach(len);
        let left = self.track.truncate(len);
        assert_eq!(left, reach.min(len));
        self.rows.truncate(left);
        left
    }

    fn keep(&mut self, base: usize, rows: &[usize]) -> usize {
        let left = self.track.keep(base, rows);
        let kept: Vec<u32> = rows.iter().map(|row| self.rows[base + row]).collect();
        self.rows.truncate(base);
        self.rows.extend(kept);
        assert!(left <= self.rows.len());
        self.rows.truncate(left);
        left
    }

    fn mark(&mut self) {
        if let Some((from, to)) = self.track.mark() {
            self.device.banks[to.index()] = self.device.banks[from.index()].clone();
        }
    }
}

#[test]
fn a_verified_chain_is_rolled_back_without_loss() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(100);
    sequence.mark();
    let mut replayed = 0;
    for accepted in [0, 5, 3, 1, 5, 0, 2].into_iter().cycle().take(50) {
        let base = sequence.rows.len();
        sequence.chain(6);
        assert_eq!(sequence.truncate(base + 1 + accepted), base + 1 + accepted);
        let plan = sequence.track.plan(6, sequence.rows.len(), None).unwrap();
        replayed += plan.replayed.len();
        // What is replayed is settled: no row is replayed twice.
        assert!(replayed <= sequence.rows.len() - 100, "{plan:?}");
        assert_eq!(plan.replayed.is_empty(), accepted == 5, "{plan:?}");
    }
    assert_eq!(sequence.truncate(100), 100, "the marked end of the prompt");
    sequence.chain(1);
}

#[test]
fn drafted_rows_are_dropped_over_several_passes() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(50);
    for kept in [1, 7, 20, 3] {
        let base = sequence.rows.len();
        for _ in 0..20 {
            sequence.chain(1);
        }
        assert_eq!(sequence.truncate(base + kept), base + kept);
    }
}

/// A drafter that continues before its last window is verified says that all rows stay, and may still go back before it.
#[test]
fn rows_are_not_final_while_none_was_dropped() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(50);
    sequence.mark();
    for kept in [3, 8, 0, 5] {
        let base = sequence.rows.len();
        for _ in 0..2 {
            for _ in 0..5 {
                sequence.chain(1);
            }
            sequence.truncate(sequence.rows.len());
        }
        assert_eq!(sequence.truncate(base + kept), base + kept);
    }
}

#[test]
fn decoding_row_by_row_goes_on_without_bounds() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(40);
    sequence.mark();
    for _ in 0..1000 {
        sequence.chain(1);
        assert!(sequence.track.log.len() <= FULL);
        assert!(sequence.device.log.len() <= 2 * FULL);
    }
    assert_eq!(sequence.truncate(40), 40);
    sequence.chain(3);
}

#[test]
fn a_path_of_a_tree_is_kept() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(10);
    // A root, two children, and one child each; then another level.
    let base = 10;
    let first = [vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 3], vec![0, 2, 4]];
    sequence.pass(5, base, Some(&first));
    sequence.pass(2, base, Some(&[vec![0, 2, 4, 5], vec![0, 1, 3, 6]]));
    assert_eq!(sequence.keep(base, &[0, 2, 4, 5]), 14);
    assert_eq!(sequence.rows[10..], [10, 12, 14, 15]);
    sequence.chain(1);
    // The kept path is settled; what was fed since can be dropped.
    assert_eq!([14, 13].map(|len| sequence.track.reach(len)), [14, 0]);
    assert_eq!(sequence.truncate(14), 14);
    sequence.chain(2);
}

#[test]
fn a_row_within_the_log_is_marked_by_the_next_pass() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(100);
    sequence.chain(6);
    assert_eq!(sequence.truncate(105), 105);
    sequence.mark();
    for _ in 0..10 {
        sequence.chain(60);
    }
    assert_eq!(sequence.truncate(105), 105);
    sequence.chain(1);
}

#[test]
fn rows_of_a_long_pass_cannot_be_restored_but_its_ends_can() {
    let mut sequence = RecurrentSequence::default();
    sequence.chain(100);
    sequence.mark();
    sequence.chain(60);
    assert_eq!([160, 130, 100, 99].map(|len| sequence.track.reach(len)), [160, 100, 100, 0]);
    assert!(sequence.track.plan(1, 130, Some(&[vec![0]])).is_none(), "the state there is not kept");
    assert_eq!(sequence.truncate(130), 100);
    sequence.chain(1);
    assert_eq!(sequence.truncate(50), 0);
    sequence.chain(2);
}

#[derive(Clone, Debug)]
enum Act {
    Chain(usize),
    Tree(Vec<usize>),
    Truncate(usize),
    Mark,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..8usize).prop_map(Act::Chain),
        1 => (25..80usize).prop_map(Act::Chain),
        3 => prop::collection::vec(0..100usize, 1..12).prop_map(Act::Tree),
        4 => (0..40usize).prop_map(Act::Truncate),
        1 => Just(Act::Mark),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// After any rows are fed and dropped, a pass continues from the remaining ones.
    #[test]
    fn a_pass_continues_from_what_is_left(acts in acts()) {
        let mut sequence = RecurrentSequence::default();
        for act in acts {
            match act {
                Act::Chain(rows) => sequence.chain(rows),
                Act::Tree(parents) => {
                    // A tree in one or two passes, whose path to a leaf is kept.
                    let base = sequence.rows.len();
                    let mut paths: Vec<Vec<usize>> = vec![vec![0]];
                    for (node, parent) in parents.iter().enumerate() {
                        let mut path = paths[parent % paths.len()].clone();
                        path.push(node + 1);
                        paths.push(path);
                    }
                    let cut = 1 + parents[0] % paths.len();
                    sequence.pass(cut, base, Some(&paths[..cut]));
                    if cut < paths.len() {
                        sequence.pass(paths.len() - cut, base, Some(&paths[cut..]));
                    }
                    let leaf = &paths[parents[parents.len() - 1] % paths.len()];
                    prop_assert_eq!(sequence.keep(base, leaf), base + leaf.len());
                }
                Act::Truncate(back) => {
                    sequence.truncate(sequence.rows.len().saturating_sub(back));
                }
                Act::Mark => sequence.mark(),
            }
            prop_assert_eq!(sequence.track.reach(usize::MAX), sequence.rows.len());
        }
    }
}
