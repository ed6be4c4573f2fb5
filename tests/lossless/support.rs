//! Tiny random checkpoints on random clips, and sessions on them.

use std::{collections::HashMap, ops::ControlFlow, path::PathBuf};

use specreel::{
    model::{
        WeightType,
        decoder::{Sequence, Taps},
        family::{Prompt, QwenVl},
        processor::{
            Patches,
            layout::{Grid, VisualGrid},
        },
    },
    record::StopReason,
    speculate::{Drafter, Method, Rules, Sampler, Session, VisualStates, context},
};

/// What a session wrote.
pub struct Written {
    pub ids: Vec<u32>,
    /// The target's probabilities of the ids, as bits.
    pub bits: Vec<u32>,
    pub judged: usize,
    pub accepted: usize,
    pub finished: Option<StopReason>,
}

/// A target and a small model over one clip and prompt.
pub struct Bench {
    target: QwenVl,
    small: QwenVl,
    prompt: Prompt,
    grid: VisualGrid,
    patches: Patches,
    vocab: usize,
    /// Prefilled sequences by (small model?, visual tokens kept); each run rolls back what it added.
    kept: HashMap<(bool, Option<Vec<usize>>), Sequence>,
    visual: VisualStates,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name)
}

impl Bench {
    pub fn new(target: &str, small: &str, dtype: WeightType, seed: u64) -> Self {
        let load = |name| QwenVl::load(&fixture(name), dtype, &mut |_, _| {}).unwrap();
        let (target, small) = (load(target), load(small));
        let grid = [Grid { t: 2, h: 4, w: 6 }, Grid { t: 4, h: 6, w: 4 }, Grid { t: 1, h: 2, w: 2 }]
            [seed as usize % 3];
        let rows = grid.t * grid.h * grid.w;
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let data = (0..rows * 1176)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect();
        let patches = Patches { data, grid, row: 1176 };
        let grid = VisualGrid::from_patches(grid, 2).unwrap();
        let prompt =
            target.prompt(["Describe it.", "What moves?", "x"][seed as usize % 3], grid, 2.0).unwrap();
        let vocab = target.tokenizer().vocabulary().min(small.tokenizer().vocabulary());
        let mut bench = Self {
            target,
            small,
            prompt,
            grid,
            patches,
            vocab,
            kept: HashMap::new(),
            visual: VisualStates::default(),
        };
        let (sequence, visual) = bench.prefill(&bench.target, None);
        bench.kept.insert((false, None), sequence);
        bench.visual = visual;
        bench
    }

    /// Let only the first ids be written.
    pub fn restrict(&mut self, vocab: usize) {
        self.vocab = vocab;
    }

    fn prefill(&self, model: &QwenVl, kept: Option<Vec<usize>>) -> (Sequence, VisualStates) {
        let visual = model.encode(&self.patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let prompt = &self.prompt;
        let keeps = |row: &usize| {
            let visual = prompt.visual.contains(row).then(|| row - prompt.visual.start);
            visual.is_none_or(|v| kept.as_ref().is_none_or(|kept| kept.contains(&v)))
        };
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).filter(keeps).collect();
        let embeddings = model.embed(prompt, Some(&visual), &rows).unwrap();
        let mut sequence = Sequence::new(model.decoder().clone(), 8);
        let width = model.decoder().config().hidden;
        let mut seen = Vec::new();
        let whole = sequence
            .prefill(
                &embeddings,
                &prompt.positions.select(&rows),
                prompt.next - 1,
                &mut |first, states| {
                    for (i, state) in states.chunks_exact(width).enumerate() {
                        if prompt.visual.contains(&rows[first + i]) {
                            seen.extend_from_slice(state);
                        }
                    }
                },
                &mut |_, _| ControlFlow::Continue(()),
            )
            .unwrap();
        assert!(whole);
        (sequence, VisualStates::new(seen, width))
    }

    fn root(&self) -> u32 {
        *self.prompt.ids.last().unwrap()
    }

    /// Run a method to its end.
    pub fn write(&mut self, method: &Method, sampler: Sampler, limit: usize) -> Written {
        let mut target = self.kept.remove(&(false, None)).unwrap();
        let base = target.len();
        let kept = context::select(&method.context, [self.grid.t, self.grid.h, self.grid.w]);
        // All tokens of the target itself: a second sequence, told apart by naming them.
        let kept = kept.or(Some((0..self.grid.len()).collect()));
        let key = match method.drafter {
            Drafter::None {} => None,
            Drafter::Model {} => Some((true, kept)),
            Drafter::Target {} => Some((false, kept)),
        };
        let mut drafter = key.as_ref().map(|key| {
            let model = if key.0 { &self.small } else { &self.target };
            self.kept.remove(key).unwrap_or_else(|| self.prefill(model, key.1.clone()).0)
        });
        let drafter_base = drafter.as_ref().map_or(0, Sequence::len);
        let ends = self.target.tokenizer().end_ids();
        let rules = Rules {
            method,
            sampler,
            max_new_tokens: limit,
            vocab: self.vocab,
            ends,
            protected: &|_| false,
            logprobs: 0,
        };
        let mut session = Session::new(rules, &mut target, drafter.as_mut(), &self.visual, self.root());
        let mut written = Written { ids: vec![], bits: vec![], judged: 0, accepted: 0, finished: None };
        while let Some(step) = session.step().unwrap() {
            written.judged += step.judged;
            written.accepted += step.accepted;
            assert_eq!(step.accepted, step.tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count());
            for token in step.tokens {
                written.ids.push(token.id);
                written.bits.push(token.probability.unwrap().to_bits());
            }
        }
        written.finished = session.finished();
        target.truncate(base);
        self.kept.insert((false, None), target);
        if let (Some(key), Some(mut drafter)) = (key, drafter) {
            drafter.truncate(drafter_base);
            self.kept.insert(key, drafter);
        }
        written
    }

    /// The target's joint distribution of the first two tokens.
    pub fn joint(&self, sampler: Sampler) -> Vec<f64> {
        let (mut target, _) = self.prefill(&self.target, None);
        let row = |target: &mut Sequence, id: u32| {
            let pass = target.feed(&[id], &Taps::default()).unwrap();
            let logits =
                target.logits(&pass.states).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            sampler.distribution(&logits[..self.vocab])
        };
        let base = target.len();
        let first = row(&mut target, self.root());
        let mut joint = Vec::new();
        for (id, p) in first.iter().enumerate() {
            target.truncate(base + 1);
            joint.extend(row(&mut target, id as u32).iter().map(|q| f64::from(*p) * f64::from(*q)));
        }
        joint
    }
}
