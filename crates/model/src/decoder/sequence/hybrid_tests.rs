//! A model with linear attention is rolled back to any slot, and is then bit-identical to one that read only what is left.

#[path = "hybrid_device_tests.rs"]
mod devices;

use proptest::prelude::*;

use super::*;
use crate::{config::TextConfig, shapes};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{ComputeDevice, LinearAttention, WeightType};

/// Four layers with a full one among them, a rotation of a part of each head, gates: all that a hybrid model has.
fn config(every: usize) -> TextConfig {
    let tiny = shapes::find("tiny").unwrap();
    TextConfig {
        hidden: 64,
        layers: 4,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 96,
        vocab: 97,
        tied: true,
        mrope_section: Some([2, 1, 1]),
        interleaved: true,
        bias: false,
        qk_norm: true,
        output_gate: true,
        rotary_dim: 8,
        norm_offset: true,
        linear: Some(LinearAttention {
            every,
            key_heads: 2,
            value_heads: 4,
            key_dim: 16,
            // Not a multiple of the columns of a strip.
            value_dim: 24,
            kernel: 4,
            tiled: every == 2,
        }),
        sparse: None,
        deepstack: 0,
        ..tiny
    }
}

fn decoder(dtype: WeightType, every: usize) -> Arc<Decoder> {
    let device = ComputeDevice::cpu(dtype);
    Arc::new(Decoder::load(&Checkpoint::random(), &config(every), &device, &mut |_, _| {}).unwrap())
}

/// The states of the last rows of a text that is read from the start, in passes of these lengths.
fn read(decoder: &Arc<Decoder>, ids: &[u32], passes: &[usize]) -> Vec<f32> {
    let mut sequence = Sequence::new(decoder.clone(), 8);
    let (mut states, mut at) = (Vec::new(), 0);
    for length in passes.iter().cycle() {
        if at == ids.len() {
            return states;
        }
        let end = ids.len().min(at + length);
        let pass = sequence.feed(&ids[at..end], &Taps::default()).unwrap();
        states.extend(pass.states.to_vec().unwrap());
        at = end;
    }
    states
}

fn text(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * i % 89 + i % 7).collect()
}

#[test]
fn rows_are_alike_in_passes_of_any_length() {
    for dtype in [WeightType::F32, WeightType::Q8_0, WeightType::Bf16] {
        for every in [2, 4] {
            let (decoder, ids) = (decoder(dtype, every), text(150));
            let one_by_one = read(&decoder, &ids, &[1]);
            assert!(one_by_one.iter().all(|value| value.is_finite()));
            for passes in [&[150][..], &[33, 1], &[6], &[2, 3, 5, 40]] {
                assert_eq!(read(&decoder, &ids, passes), one_by_one, "{dtype:?} {every} {passes:?}");
            }
        }
    }
}

#[test]
fn gates_decays_and_the_convolution_matter() {
    let decoder = decoder(WeightType::F32, 4);
    let (ids, mut other) = (text(30), text(30));
    other[0] += 1;
    let (a, b) = (read(&decoder, &ids, &[30]), read(&decoder, &other, &[30]));
    let width = decoder.width();
    for row in 0..30 {
        assert_ne!(a[row * width..][..width], b[row * width..][..width], "row {row} does not see the first");
    }
}

/// A sequence, and the ids that it should hold.
struct Fed {
    sequence: Sequence,
    ids: Vec<u32>,
    next: u32,
}

impl Fed {
    fn new(decoder: &Arc<Decoder>) -> Self {
        Self { sequence: Sequence::new(decoder.clone(), 4), ids: Vec::new(), next: 3 }
    }

    fn fresh(&mut self, count: usize) -> Vec<u32> {
        let ids = (0..count as u32).map(|i| (self.next + i * 13) % 97).collect();
        self.next = self.next.wrapping_mul(7).wrapping_add(5) % 97;
        ids
    }

    fn chain(&mut self, count: usize) -> Vec<f32> {
        let ids = self.fresh(count);
        let pass = self.sequence.feed(&ids, &Taps::default()).unwrap();
        self.ids.extend(ids);
        let width = self.sequence.decoder().width();
        pass.states.to_vec().unwrap().split_off((count - 1) * width)
    }

    /// A prompt of rows that are no ids.
    fn prompt(&mut self, count: usize) {
        let ids = self.fresh(count);
        let rows = self.sequence.decoder().embed(&ids).unwrap();
        let positions = Positions::text(self.ids.len() as u32, count);
        let next = (self.ids.len() + count) as u32;
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        assert!(self.sequence.prefill(&rows, &positions, next, &mut |_, _| {}, go).unwrap());
        self.ids.extend(ids);
    }

    /// A tree in two passes, of which a path is kept.
    fn tree(&mut self, parents: &[usize]) {
        let base = self.ids.len();
        let ids = self.fresh(parents.len() + 1);
        let mut paths: Vec<Vec<usize>> = vec![vec![0]];
        for (node, parent) in parents.iter().enumerate() {
            let path = [&paths[parent % paths.len()][..], &[node + 1]].concat();
            paths.push(path);
        }
        let depths: Vec<usize> = paths.iter().map(|path| path.len() - 1).collect();
        let cut = 1 + parents[0] % paths.len();
        for part in [0..cut, cut..paths.len()].into_iter().filter(|part| !part.is_empty()) {
            let (ids, depths, paths) =
                (&ids[part.clone()], &depths[part.clone()], paths[part.clone()].to_vec());
            self.sequence.feed_tree(ids, base, depths, paths, &Taps::default()).unwrap();
        }
        let path = &paths[parents[parents.len() - 1] % paths.len()];
        self.sequence.keep(base, path);
        self.ids.extend(path.iter().map(|&row| ids[row]));
    }

    fn truncate(&mut self, len: usize) {
        self.sequence.truncate(len);
        self.ids.truncate(len);
        assert_eq!(self.sequence.len(), self.ids.len());
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Chain(rows) => drop(self.chain(rows)),
            Act::Tree(parents) => self.tree(&parents),
            Act::Truncate(back) => self.truncate(self.ids.len().saturating_sub(back)),
            Act::Prompt(rows) => self.prompt(rows),
            Act::Check => self.check(),
        }
    }

    /// A chain after a prompt, of which some rows are left.
    fn chain_rolled_back(decoder: &Arc<Decoder>, rows: usize, left: usize) {
        let mut fed = Self::new(decoder);
        fed.prompt(20);
        fed.chain(rows);
        fed.truncate(20 + left);
        fed.check();
        fed.check();
    }

    /// The next row equals the row of a sequence that read only the remaining ids.
    fn check(&mut self) {
        let found = self.chain(1);
        let width = self.sequence.decoder().width();
        let all = read(self.sequence.decoder(), &self.ids, &[self.ids.len()]);
        assert_eq!(found, all[all.len() - width..], "after {} rows", self.ids.len());
    }
}

#[test]
fn a_chain_is_rolled_back_to_every_row() {
    let decoder = decoder(WeightType::Q8_0, 4);
    for rows in [2, 6, 11, 40] {
        for left in 0..=rows {
            Fed::chain_rolled_back(&decoder, rows, left);
        }
    }
}

#[test]
fn a_prompt_is_rolled_back_to_every_row() {
    let decoder = decoder(WeightType::F32, 2);
    for left in (0..150).step_by(7).chain([127, 128, 129, 149, 150]) {
        let mut fed = Fed::new(&decoder);
        fed.prompt(150);
        fed.chain(3);
        fed.truncate(left);
        fed.check();
    }
}

#[test]
fn a_marked_slot_is_returned_to_without_feeding_again() {
    let decoder = decoder(WeightType::F32, 4);
    let mut fed = Fed::new(&decoder);
    fed.prompt(60);
    for round in 0..3 {
        for _ in 0..100 {
            fed.chain(1);
        }
        fed.truncate(60);
        assert_eq!(fed.sequence.cache.owed(), 0, "round {round}");
    }
    fed.check();
}

#[test]
fn a_slot_that_was_rolled_back_to_is_marked_too() {
    let decoder = decoder(WeightType::F32, 4);
    let mut fed = Fed::new(&decoder);
    fed.prompt(60);
    fed.truncate(50);
    fed.chain(11);
    fed.truncate(60);
    fed.sequence.mark();
    for _ in 0..100 {
        fed.chain(1);
    }
    fed.truncate(60);
    assert_eq!(fed.sequence.cache.owed(), 0);
    fed.check();
}

#[test]
fn forks_and_shorter_models_continue_alike() {
    let decoder = decoder(WeightType::F32, 2);
    let mut fed = Fed::new(&decoder);
    fed.prompt(50);
    fed.chain(5);
    for len in [55, 53, 50, 31] {
        let sequence = fed.sequence.fork(len, len + 8).unwrap();
        let mut fork = Fed { sequence, ids: fed.ids[..len].to_vec(), next: 11 };
        fork.check();
        fork.truncate(len - 1);
        fork.check();
    }
    let mut short = fed.sequence.first_layers(2);
    let mut fresh = Sequence::new(short.decoder().clone(), 4);
    fresh.feed(&fed.ids, &Taps::default()).unwrap();
    let states =
        |sequence: &mut Sequence| sequence.feed(&[5, 6], &Taps::default()).unwrap().states.to_vec().unwrap();
    assert_eq!(states(&mut short), states(&mut fresh));
}

#[test]
fn gathered_slots_keep_the_whole_state() {
    let decoder = decoder(WeightType::F32, 4);
    let mut fed = Fed::new(&decoder);
    fed.prompt(30);
    let all: Vec<usize> = (0..30).collect();
    let mut whole = fed.sequence.gather(30, 40, |_, _| &all);
    let some: Vec<usize> = (0..30).step_by(3).collect();
    let mut part = fed.sequence.gather(10, 20, |_, _| &some);
    let states = |sequence: &mut Sequence, id: u32| {
        sequence.feed(&[id], &Taps::default()).unwrap().states.to_vec().unwrap()
    };
    assert_eq!(states(&mut whole, 4), states(&mut fed.sequence, 4));
    let (first, second) = (states(&mut part, 4), states(&mut part, 5));
    part.truncate(10);
    assert_eq!(states(&mut part, 4), first);
    assert_eq!(states(&mut part, 5), second);
    assert_ne!(first, states(&mut whole, 4), "the slots of full attention are fewer");
    part.truncate(4);
    assert!(part.feed(&[1], &Taps::default()).is_err(), "that state is not kept, and its rows are unknown");
}

/// A drafter that takes over the target's slots continues as the target does, and returns to the end of the prompt.
#[test]
fn appended_slots_bring_their_states() {
    let decoder = decoder(WeightType::F32, 4);
    let mut target = Fed::new(&decoder);
    target.prompt(60);
    target.sequence.mark();
    let all: Vec<usize> = (0..60).collect();
    let mut drafter = target.sequence.gather(60, 200, |_, _| &all);
    drafter.mark();
    let next = |sequence: &mut Sequence| {
        let len = sequence.len();
        let states = sequence.feed(&[9], &Taps::default()).unwrap().states.to_vec().unwrap();
        sequence.truncate(len);
        states
    };
    for (round, accepted) in [3, 0, 1, 3, 3, 2, 0, 0, 3].into_iter().cycle().take(30).enumerate() {
        let base = target.ids.len();
        for id in 0..3 {
            drafter.feed(&[id], &Taps::default()).unwrap();
        }
        target.chain(4);
        target.truncate(base + 1 + accepted);
        drafter.truncate(base);
        drafter.append(&target.sequence, base..base + 1 + accepted).unwrap();
        let mut fresh = Sequence::new(decoder.clone(), 8);
        fresh.feed(&target.ids, &Taps::default()).unwrap();
        assert_eq!(next(&mut drafter), next(&mut fresh), "round {round}");
    }
    target.truncate(60);
    drafter.truncate(60);
    assert_eq!(next(&mut drafter), next(&mut target.sequence));
}

#[derive(Clone, Debug)]
enum Act {
    Chain(usize),
    Tree(Vec<usize>),
    Truncate(usize),
    Prompt(usize),
    Check,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..9usize).prop_map(Act::Chain),
        3 => prop::collection::vec(0..100usize, 1..10).prop_map(Act::Tree),
        4 => (0..30usize).prop_map(Act::Truncate),
        1 => (1..140usize).prop_map(Act::Prompt),
        2 => Just(Act::Check),
    ];
    prop::collection::vec(act, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Exact equality with a model that reads what is left from the start, after any feeding and dropping.
    #[test]
    fn any_rollback_is_exact(acts in acts(), every in prop::sample::select(vec![2usize, 4])) {
        static DECODERS: std::sync::LazyLock<[Arc<Decoder>; 2]> =
            std::sync::LazyLock::new(|| [2, 4].map(|every| decoder(WeightType::F32, every)));
        let mut fed = Fed::new(&DECODERS[usize::from(every == 4)]);
        acts.into_iter().for_each(|act| fed.act(act));
        fed.check();
    }
}
