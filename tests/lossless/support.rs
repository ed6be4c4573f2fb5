//! Tiny random checkpoints on random clips, and sessions on them.

use std::{collections::HashMap, ops::ControlFlow, path::PathBuf};

use candle_core::Tensor;
use specreel::{
    model::{
        WeightType,
        decoder::{Sequence, Taps},
        family::{Prompt, VideoLlm},
        processor::{
            Patches,
            layout::{Grid, VisualGrid},
        },
    },
    record::{Step, StopReason},
    speculate::{
        Context, Drafter, Method, Opening, Parts, Rules, Sampler, Schedule, VisualStates,
        context::{self, Preparation, Signals},
        generate,
    },
};

/// What a session wrote.
pub struct Written {
    pub ids: Vec<u32>,
    /// The target's probabilities of the ids, as bits.
    pub bits: Vec<u32>,
    pub judged: usize,
    pub accepted: usize,
    pub finished: Option<StopReason>,
    pub steps: Vec<Step>,
}

/// A target and a small model over one clip and prompt.
pub struct Bench {
    target: VideoLlm,
    small: VideoLlm,
    prompt: Prompt,
    grid: VisualGrid,
    vocab: usize,
    /// Visual embeddings of the target and of the small model.
    embeddings: [Tensor; 2],
    /// The target's prompt; each run rolls back what it added.
    sequence: Option<Sequence>,
    /// The drafters', by drafter and context in words.
    drafters: HashMap<String, Sequence>,
    signals: Signals,
    visual: VisualStates,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name)
}

impl Bench {
    pub fn new(target: &str, small: &str, dtype: WeightType, seed: u64) -> Self {
        let load = |name| VideoLlm::load(&fixture(name), dtype, &mut |_, _| {}).unwrap();
        let (target, small) = (load(target), load(small));
        let config = target.processor().config();
        let turn = seed as usize % 3;
        let grid = match config.fixed {
            // Pictures, which have a size of their own.
            Some((height, width)) => {
                Grid { t: [2, 4, 1][turn], h: height / config.patch, w: width / config.patch }
            }
            None => [Grid { t: 2, h: 4, w: 6 }, Grid { t: 4, h: 6, w: 4 }, Grid { t: 1, h: 2, w: 2 }][turn],
        };
        let (rows, row) = (grid.t * grid.h * grid.w, config.row());
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let data = (0..rows * row)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect();
        let patches = Patches { data, grid, row };
        let grid = target.processor().visual_grid(grid).unwrap();
        let prompt = target.prompt(["Describe it.", "What moves?", "x"][turn], grid, 2.0).unwrap();
        let vocab = target.tokenizer().vocabulary().min(small.tokenizer().vocabulary());
        let encode =
            |model: &VideoLlm| model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let embeddings = [encode(&target), encode(&small)];
        let mut bench = Self {
            target,
            small,
            prompt,
            grid,
            vocab,
            embeddings,
            sequence: None,
            drafters: HashMap::new(),
            signals: Signals::default(),
            visual: VisualStates::default(),
        };
        let (sequence, visual) = bench.prefill();
        bench.sequence = Some(sequence);
        bench.visual = visual;
        bench
    }

    /// Let only the first ids be written.
    pub fn restrict(&mut self, vocab: usize) {
        self.vocab = vocab;
    }

    fn prefill(&self) -> (Sequence, VisualStates) {
        let rows: Vec<usize> = (0..self.prompt.ids.len() - 1).collect();
        let width = self.target.decoder().config().hidden;
        let mut seen = Vec::new();
        let sequence = context::prefill(
            &self.target,
            &self.prompt,
            Some(&self.embeddings[0]),
            &rows,
            &Context::Full {},
            8,
            &mut |first, states| {
                for (row, state) in (first..).zip(states.chunks_exact(width)) {
                    if self.prompt.visual.contains(&row) {
                        seen.extend_from_slice(state);
                    }
                }
            },
            &mut |_, _| ControlFlow::Continue(()),
        );
        (sequence.unwrap().unwrap(), VisualStates::new(&seen, width))
    }

    /// A drafter's sequence, made as the engine makes it.
    fn drafter(&mut self, method: &Method, target: &mut Sequence) -> Option<Sequence> {
        let (model, embeddings) = match method.drafter {
            Drafter::None {} | Drafter::Lookup { .. } => return None,
            Drafter::Model {} => (&self.small, &self.embeddings[1]),
            Drafter::Target {} | Drafter::EarlyExit { .. } => (&self.target, &self.embeddings[0]),
        };
        let preparation =
            Preparation { target: &self.target, prompt: &self.prompt, visual: Some(&self.embeddings[0]) };
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let needs = context::Needs::of(&method.context);
        assert!(preparation.signals(needs, target, &mut self.signals, go_on).unwrap());
        let grid = [self.grid.t, self.grid.h, self.grid.w];
        let selection = context::select(&method.context, grid, &self.signals);
        if let Some(shared) = preparation.shared(&method.drafter, &selection, target, 8) {
            return Some(shared);
        }
        let rows = preparation.rows(&selection);
        let prompt = &self.prompt;
        let made = context::prefill(
            model,
            prompt,
            Some(embeddings),
            &rows,
            &method.context,
            8,
            &mut |_, _| {},
            &mut |_, _| ControlFlow::Continue(()),
        );
        made.unwrap()
    }

    fn root(&self) -> u32 {
        *self.prompt.ids.last().unwrap()
    }

    /// The target's end tokens.
    pub fn ends(&self) -> &[u32] {
        self.target.tokenizer().end_ids()
    }

    /// Ids from here on are never written.
    pub fn vocabulary(&self) -> usize {
        self.vocab
    }

    /// The small model with the whole prompt read but for its last token, and that token.
    pub fn reader(&mut self) -> (Sequence, u32) {
        let mut target = self.sequence.take().unwrap();
        let sequence = self.drafter(&Method::preset("naive").unwrap(), &mut target).unwrap();
        self.sequence = Some(target);
        (sequence, self.root())
    }

    /// Run a method to its end.
    pub fn write(&mut self, method: &Method, sampler: Sampler, limit: usize) -> Written {
        let mut target = self.sequence.take().unwrap();
        let base = target.len();
        let key = format!("{:?} {:?}", method.drafter, method.context);
        let mut drafter = self.drafters.remove(&key).or_else(|| self.drafter(method, &mut target));
        assert_eq!(target.len(), base, "signals leave the target's cache as it was");
        let drafter_base = drafter.as_ref().map_or(0, Sequence::len);
        let rules = Rules {
            method,
            sampler,
            max_new_tokens: limit,
            vocab: self.vocab,
            ends: self.target.tokenizer().end_ids(),
            protected: &|_| false,
            logprobs: 0,
            row_ms: None,
            rule: None,
        };
        // Where both run side by side, the first window may have been drafted before.
        let parallel = matches!(method.schedule, Schedule::Parallel { .. });
        let early = drafter.as_mut().filter(|_| parallel && limit.is_multiple_of(2));
        let opening = early.map(|drafter| Opening::draft(&rules, drafter, self.root()).unwrap());
        let parts = Parts {
            target: &mut target,
            drafter: drafter.as_mut(),
            visual: &self.visual,
            span: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            opening,
        };
        let mut written =
            Written { ids: vec![], bits: vec![], judged: 0, accepted: 0, finished: None, steps: vec![] };
        let finished = generate(rules, parts, &mut |step| {
            written.judged += step.judged;
            written.accepted += step.accepted;
            assert_eq!(step.accepted, step.tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count());
            assert!(step.parents.is_empty() || step.parents.len() == step.drafted.len());
            for token in &step.tokens {
                written.ids.push(token.id);
                written.bits.push(token.probability.unwrap().to_bits());
            }
            written.steps.push(step);
            ControlFlow::Continue(())
        });
        written.finished = finished.unwrap().reason;
        target.truncate(base);
        self.sequence = Some(target);
        if let Some(mut drafter) = drafter {
            drafter.truncate(drafter_base);
            self.drafters.insert(key, drafter);
        }
        written
    }

    /// The target's joint distribution of the first two tokens.
    pub fn joint(&self, sampler: Sampler) -> Vec<f64> {
        let (mut target, _) = self.prefill();
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
