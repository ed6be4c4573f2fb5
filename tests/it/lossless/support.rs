//! Tiny random checkpoints on random clips, and sessions on them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    ops::ControlFlow,
    path::PathBuf,
    sync::Arc,
};

use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_model::{
    decoder::{Decoder, Pass, Sequence, States, Taps},
    draft_head::{
        DraftHead, DraftHeadConfig, ReadStates, Recipe, StateReader, TargetIdentity, TextStates, VisualRows,
    },
    family::{ClipFacts, Prompt, VideoLlm},
    grammar::{Constraint, Grammar, GrammarVocabulary},
    processor::{
        Patches,
        layout::{Grid, VisualGrid, VisualRope},
    },
    text::TextTokenizer,
};
use specreel_record::{Step, StopReason};
use specreel_speculate::{
    Drafter, DrafterInputs, GenerationConfig, GenerationInputs, Hooks, Method, PrefetchedDraft, Reserve,
    Sampler, Schedule, VisualStates,
    auto::{Contender, DraftCost, USUAL_TOKENS},
    context::{self, HeadInput, HeadPrefill, PrefillInput, Preparation, Signals},
    draft::{DraftHeadState, ModelDrafter},
    generate_with,
    processors::{History, Processors},
};
use specreel_tensor::{ComputeDevice, KvType, WeightType};
use specreel_train::{Account, AdamW, Options, Store, TrainedLayer};

use crate::{fixture, lossless::heads};

pub struct Written {
    pub ids: Vec<u32>,
    /// The target's probabilities of the ids, as bits.
    pub bits: Vec<u32>,
    pub judged: usize,
    pub accepted: usize,
    pub finished: Option<StopReason>,
    pub steps: Vec<Step>,
}

impl Written {
    /// Fails where this is not the same text with the same probabilities, to the last bit.
    pub fn equals(&self, plain: &Self, what: impl Display) {
        let [one, other] = [self, plain].map(|text| (&text.ids, &text.bits, text.finished));
        assert_eq!(one, other, "{what}");
    }
}

/// A target and a draft model over one clip and prompt.
pub struct Bench {
    target: VideoLlm,
    /// Where the target's files are, and the target in fewer bits, by weight type.
    files: PathBuf,
    self_drafts: HashMap<&'static str, Arc<Decoder>>,
    small: VideoLlm,
    prompt: Prompt,
    grid: VisualGrid,
    vocab: usize,
    ends: Vec<u32>,
    /// Visual embeddings of the target and of the draft model.
    embeddings: [States; 2],
    /// The target's prompt; each run rolls back what it added.
    sequence: Option<Sequence>,
    /// The drafters', by drafter and context in words.
    drafters: HashMap<String, HeadPrefill>,
    signals: Signals,
    visual: VisualStates,
    /// The target's states before its text rows.
    states: TextStates,
    /// Heads that draft from them, one of each recipe.
    layers: Vec<DraftHead>,
    /// What is written.
    grammar: Option<Grammar>,
    /// What changes the rows.
    pub processors: Processors,
    /// What is expected of drafters, where an automatic method is to have chosen them.
    pub cost: Option<DraftCost>,
}

/// Ids that play the special tokens.
fn special(id: u32) -> bool {
    id % 5 == 1
}

/// A layer that has read the prompt, and its target.
pub struct LayerParts<'a> {
    layer: &'a DraftHead,
    sequence: &'a mut Sequence,
    base: usize,
    before: Vec<f32>,
    pub root: u32,
}

impl LayerParts<'_> {
    pub fn drafter(&mut self) -> ModelDrafter<'_> {
        self.sequence.truncate(self.base);
        ModelDrafter::new(self.sequence, self.root, false)
            .with_head(Some(DraftHeadState::new(self.layer, &self.before)))
    }
}

/// An untrained layer for a target: its last layer behind a random projection.
fn layer(name: &str, target: &VideoLlm, recipe: Recipe, visual: VisualRows) -> DraftHead {
    let (dir, decoder) = (tempfile::tempdir().unwrap(), target.decoder());
    let mark = TargetIdentity::of(decoder, name).unwrap();
    let options = Options::of(recipe);
    let config = DraftHeadConfig::like(decoder.config(), mark.clone(), recipe, visual);
    let layer = TrainedLayer::new(&Checkpoint::open(&fixture(name)).unwrap(), decoder.config(), 5).unwrap();
    let layer = match config.num_queries {
        0 => layer,
        queries => layer.with_adaptor(queries, 7).unwrap(),
    };
    let (store, _) = Store::open(dir.path(), &options, &mark, "").unwrap();
    store.save(layer.vars(), &config, &AdamW::default(), &Account::default()).unwrap();
    DraftHead::load(dir.path(), decoder).unwrap()
}

/// A random clip in the patches of a model: of as many visual tokens for all models of a family.
fn noise(model: &VideoLlm, seed: u64) -> Patches {
    let config = model.processor().config();
    let turn = seed as usize % 3;
    let grid = match config.fixed {
        // Pictures, which have a size of their own.
        Some(size) => Grid { t: [2, 4, 1][turn], ..config.grid(size, 1) },
        None => {
            let (t, h, w) = [(2, 2, 3), (4, 3, 2), (1, 1, 1)][turn];
            Grid { t, h: h * config.merge, w: w * config.merge }
        }
    };
    let (rows, row) = (grid.t * grid.h * grid.w, config.row());
    Patches { data: heads::noise(rows * row, seed), grid, row }
}

impl Bench {
    pub fn new(target: &str, small: &str, dtype: WeightType, seed: u64) -> Self {
        Self::with_kv_type(target, small, dtype, KvType::Auto, seed)
    }

    /// With keys and values of this type in both models.
    pub fn with_kv_type(target: &str, small: &str, dtype: WeightType, kv_type: KvType, seed: u64) -> Self {
        Self::on(target, small, &ComputeDevice::cpu(dtype).with_kv_type(kv_type).unwrap(), seed)
    }

    pub fn on(name: &str, small: &str, device: &ComputeDevice, seed: u64) -> Self {
        Self::apart(name, small, [device, device], seed)
    }

    /// The target on one device, the draft model on another.
    pub fn apart(name: &str, small: &str, devices: [&ComputeDevice; 2], seed: u64) -> Self {
        let load = |name, device| VideoLlm::load_on(&fixture(name), device, &mut |_, _| {}).unwrap();
        let (target, small) = (load(name, devices[0]), load(small, devices[1]));
        let mut layers = vec![
            layer(name, &target, Recipe::Sparrow, VisualRows::Middle),
            layer(name, &target, Recipe::Msd, VisualRows::Embeddings),
            layer(name, &target, Recipe::Vispec, VisualRows::Embeddings),
            layer(name, &target, Recipe::Hivis, VisualRows::Embeddings),
            // Each in half of the benches.
            heads::eagle3(&target, seed % 2 == 1),
            heads::mtp(&target),
            heads::dflash(&target, seed % 2 == 1),
        ];
        layers.extend(heads::assistant(&target, seed % 2 == 1));
        let turn = seed as usize % 3;
        let grid = target.processor().visual_grid(noise(&target, seed).grid).unwrap();
        let clip = ClipFacts::steady(grid, grid.t * target.processor().config().temporal, 2.0);
        let prompt = target.prompt(["Describe it.", "What moves?", "x"][turn], &clip).unwrap();
        let vocab = target.tokenizer().vocabulary().min(small.tokenizer().vocabulary());
        let encode = |model: &VideoLlm| {
            model.encode(&noise(model, seed), &mut |_, _| ControlFlow::Continue(())).unwrap()
        };
        let embeddings = [encode(&target), encode(&small)];
        let ends = target.tokenizer().end_ids().to_vec();
        let mut bench = Self {
            target,
            files: fixture(name),
            self_drafts: HashMap::new(),
            small,
            prompt,
            grid,
            vocab,
            ends,
            embeddings,
            sequence: None,
            drafters: HashMap::new(),
            signals: Signals::default(),
            visual: VisualStates::default(),
            states: TextStates::default(),
            layers,
            grammar: None,
            processors: Processors::default(),
            cost: None,
        };
        bench.read();
        bench
    }

    fn read(&mut self) {
        let (sequence, visual, states) = self.prefill();
        (self.sequence, self.visual, self.states) = (Some(sequence), visual, states);
        self.drafters.clear();
        self.signals = Signals::default();
    }

    /// Put a text token before every frame pair of the video.
    pub fn split_video(&mut self) {
        let prompt = &self.prompt;
        let (first, end) = (prompt.visual.first().unwrap(), prompt.video_end());
        let (pad, newline) = (prompt.ids[first], prompt.newline.is_some());
        let video = (0..self.grid.t as u32).flat_map(|t| [5 + t, pad]);
        let before = prompt.ids[..first].iter().copied();
        let ids: Vec<u32> = before.chain(video).chain(prompt.ids[end..].iter().copied()).collect();
        let rope = if newline { VisualRope::Sequential } else { VisualRope::GRIDS };
        self.prompt = Prompt::lay_out(&ids, pad, self.grid, 1, newline, rope).unwrap();
        let stamps =
            self.prompt.visual.ranges().map(|span| std::iter::once(span.start - 1..span.start).collect());
        self.prompt.stamps = stamps.collect();
        self.read();
    }

    pub fn relevance_states(&self) -> &VisualStates {
        &self.visual
    }

    /// The visual tokens that a method keeps, and the prompt rows that its drafter reads.
    pub fn rows(&mut self, method: &Method) -> (Option<Vec<usize>>, Vec<usize>) {
        let mut target = self.sequence.take().unwrap();
        let grid = [self.grid.t, self.grid.h, self.grid.w];
        let visual = Some(&self.embeddings[0]);
        let preparation = Preparation { target: &self.target, prompt: &self.prompt, visual, grid };
        let needs = context::ContextNeeds::of(&method.context);
        let go_on = &mut |_, _| ControlFlow::Continue(());
        assert!(preparation.signals(needs, &mut target, &mut self.signals, go_on).unwrap());
        let selection = preparation.select(&method.context, preparation.grid, &self.signals);
        let rows = preparation.rows(&selection);
        self.sequence = Some(target);
        (selection.kept, rows)
    }

    /// A target pass over some ids after the prompt, which are forgotten again.
    pub fn feed(&mut self, ids: &[u32], taps: &Taps) -> Pass {
        let target = self.sequence.as_mut().unwrap();
        let base = target.len();
        let pass = target.feed(ids, taps).unwrap();
        target.truncate(base);
        pass
    }

    /// Let only texts of this constraint be written.
    pub fn constrain(&mut self, constraint: &Constraint) {
        let vocabulary = GrammarVocabulary::new(self.target.tokenizer()).unwrap();
        self.grammar = Some(vocabulary.compile(constraint).unwrap());
    }

    pub fn tokenizer(&self) -> &TextTokenizer {
        self.target.tokenizer()
    }

    /// Let only the first ids be written.
    pub fn restrict(&mut self, vocab: usize) {
        self.vocab = vocab;
    }

    /// Let these ids end a text.
    pub fn end_with(&mut self, ends: &[u32]) {
        self.ends = ends.to_vec();
    }

    /// True for ids that no rule may loosen: end tokens, and some that play special ones.
    pub fn protects(&self, id: u32) -> bool {
        self.ends.contains(&id) || special(id)
    }

    fn prefill(&self) -> (Sequence, VisualStates, TextStates) {
        let rows: Vec<usize> = (0..self.prompt.ids.len() - 1).collect();
        let width = self.target.decoder().config().hidden;
        let mut seen = Vec::new();
        let mut before = TextStates::new(width, self.prompt.visual.clone());
        let input = PrefillInput::new(&self.target, &self.prompt, Some(&self.embeddings[0]), &rows, 8);
        let sequence = input.prefill(
            None,
            &mut |first, states| {
                before.push(first, states);
                for (row, state) in (first..).zip(states.chunks_exact(width)) {
                    if self.prompt.visual.contains(row) {
                        seen.extend_from_slice(state);
                    }
                }
            },
            &mut |_, _| ControlFlow::Continue(()),
        );
        (sequence.unwrap().unwrap(), VisualStates::new(&seen, width), before)
    }

    /// The target in fewer bits, if it drafts so.
    fn self_draft(&mut self, method: &Method) -> Option<Arc<Decoder>> {
        let Drafter::Target { dtype } = method.drafter else { return None };
        let dtype = dtype.weights()?;
        let load = || {
            let checkpoint = VideoLlm::open(&ModelFiles::open(&self.files, None).unwrap()).unwrap();
            Arc::new(self.target.self_draft(&checkpoint, dtype).unwrap())
        };
        Some(self.self_drafts.entry(dtype.name()).or_insert_with(load).clone())
    }

    /// A drafter's sequence, made as the engine makes it.
    fn drafter(&mut self, method: &Method, target: &mut Sequence) -> Option<HeadPrefill> {
        let self_draft = self.self_draft(method);
        let (model, embeddings) = match method.drafter {
            // The engine makes something else of an automatic one.
            Drafter::None {} | Drafter::Auto {} | Drafter::Lookup { .. } => return None,
            Drafter::Head { .. } => (&self.target, &self.embeddings[0]),
            Drafter::Model {} => (&self.small, &self.embeddings[1]),
            Drafter::Target { .. } | Drafter::EarlyExit { .. } => (&self.target, &self.embeddings[0]),
        };
        let grid = [self.grid.t, self.grid.h, self.grid.w];
        let visual = Some(&self.embeddings[0]);
        let preparation = Preparation { target: &self.target, prompt: &self.prompt, visual, grid };
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let needs = context::ContextNeeds::of(&method.context);
        assert!(preparation.signals(needs, target, &mut self.signals, go_on).unwrap());
        let selection = preparation.select(&method.context, preparation.grid, &self.signals);
        if let Some(shared) = preparation.shared(&method.drafter, &selection, target, 8) {
            return Some(shared.into());
        }
        if let Some(head) = self.layer(method).filter(|head| !head.taps().is_empty()) {
            let read = preparation.read_states(head, go_on).unwrap();
            self.states.read = read;
        }
        if let Some(layer) = self.layer(method) {
            let (states, selection, placing) = (&self.states, &selection, method.context.placing());
            let input = HeadInput { head: layer, states, selection, placing, room: 8 };
            return preparation.prefill_draft_head(&input, go_on).unwrap();
        }
        let rows = preparation.rows(&selection);
        let input = PrefillInput {
            decoder: self_draft.as_ref().unwrap_or(model.decoder()),
            placing: method.context.placing(),
            ..PrefillInput::new(model, &self.prompt, Some(embeddings), &rows, 8)
        };
        input.prefill(None, &mut |_, _| {}, go_on).unwrap().map(HeadPrefill::from)
    }

    fn layer(&self, method: &Method) -> Option<&DraftHead> {
        let Drafter::Head { recipe } = method.drafter else { return None };
        self.layers.iter().find(|head| head.config().recipe == recipe)
    }

    fn root(&self) -> u32 {
        *self.prompt.ids.last().unwrap()
    }

    /// By how many nats one token is more likely to the target than another after the prompt and some ids, in one pass. None is
    /// the end of the text: the most likely end token.
    pub fn gap(&mut self, after: &[u32], [a, b]: [Option<u32>; 2]) -> f32 {
        let ids: Vec<u32> = std::iter::once(self.root()).chain(after.iter().copied()).collect();
        let (vocab, ends) = (self.vocab, self.ends().to_vec());
        let target = self.sequence.as_mut().unwrap();
        let base = target.len();
        let pass = target.feed(&ids, &Taps::default()).unwrap();
        let row = target.logits(&pass.states.narrow(after.len(), 1).unwrap()).unwrap();
        target.truncate(base);
        let row = row.to_vec().unwrap();
        let end = ends.iter().filter(|id| (**id as usize) < vocab).map(|id| row[*id as usize]);
        let end = end.fold(f32::NEG_INFINITY, f32::max);
        let logit = |id: Option<u32>| id.map_or(end, |id| row[id as usize]);
        logit(a) - logit(b)
    }

    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The visual tokens' growing likeness to the text, for zero embeddings and for states in which the
    /// visual rows and the text rows that `like` names point in one direction, and all other rows are zero.
    pub fn growth(&self, like: impl Fn(usize) -> bool) -> Vec<f32> {
        let (rows, width) = (self.prompt.ids.len() - 1, self.target.decoder().config().hidden);
        let one = |row: usize| self.prompt.visual.contains(row) || like(row);
        let states = (0..rows).flat_map(|row| vec![if one(row) { 1.0 } else { 0.0 }; width]).collect();
        let states = States::new(states, width).unwrap();
        let embeddings = States::new(vec![0.0; rows * width], width).unwrap();
        let grid = [self.grid.t, self.grid.h, self.grid.w];
        let preparation = Preparation { target: &self.target, prompt: &self.prompt, visual: None, grid };
        preparation.growth(&embeddings, &states).unwrap()
    }

    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Ids from here on are never written.
    pub fn vocabulary(&self) -> usize {
        self.vocab
    }

    /// The draft model with the whole prompt except its last token, and that token.
    pub fn reader(&mut self) -> (Sequence, u32) {
        let mut target = self.sequence.take().unwrap();
        let sequence = self.drafter(&Method::preset("naive").unwrap(), &mut target).unwrap().sequence;
        self.sequence = Some(target);
        (sequence, self.root())
    }

    /// The states that the EAGLE-3 head reads, as bits: collected while the target reads the prompt, and from a pass of their own.
    pub fn states_read(&self) -> [Vec<u32>; 2] {
        let head = self.layers.iter().find(|head| !head.taps().is_empty()).unwrap();
        let grid = [self.grid.t, self.grid.h, self.grid.w];
        let visual = Some(&self.embeddings[0]);
        let preparation = Preparation { target: &self.target, prompt: &self.prompt, visual, grid };
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let again = preparation.read_states(head, go_on).unwrap().unwrap();
        let mut reader = StateReader::new(head);
        let rows: Vec<usize> = (0..self.prompt.ids.len() - 1).collect();
        let input = PrefillInput::new(&self.target, &self.prompt, visual, &rows, 8);
        input.prefill(Some(&mut reader), &mut |_, _| {}, go_on).unwrap();
        let bits = |states: ReadStates| {
            let rows = states.rows.to_vec().unwrap();
            assert!(rows.ends_with(&states.last));
            rows.into_iter().map(f32::to_bits).collect()
        };
        [bits(reader.finish().unwrap()), bits(again)]
    }

    /// Try Sparrow's layer at the beginning of the text.
    pub fn with_layer<T>(&mut self, f: impl FnOnce(&mut LayerParts<'_>, &mut Sequence) -> T) -> T {
        let method = Method::preset("sparrow").unwrap();
        let mut target = self.sequence.take().unwrap();
        let mut sequence = self.drafter(&method, &mut target).unwrap().sequence;
        let before = self.states.before(self.prompt.ids.len() - 1).to_vec();
        let base = sequence.len();
        let root = self.root();
        let mut parts = LayerParts { layer: &self.layers[0], sequence: &mut sequence, base, before, root };
        let out = f(&mut parts, &mut target);
        self.sequence = Some(target);
        out
    }

    /// What autoregressive decoding writes.
    pub fn plain(&mut self, sampler: Sampler, limit: usize) -> Written {
        self.write(&Method::preset("autoregressive").unwrap(), sampler, limit)
    }

    pub fn write(&mut self, method: &Method, sampler: Sampler, limit: usize) -> Written {
        self.write_in_turns(&[method], None, sampler, limit)
    }

    /// As [`write`](Self::write), by the first of the methods; in each step the drafter drafts whose number `turns` says.
    pub fn write_in_turns(
        &mut self,
        methods: &[&Method],
        turns: Option<&dyn Fn(usize) -> usize>,
        sampler: Sampler,
        limit: usize,
    ) -> Written {
        let (method, others) = (methods[0], &methods[1..]);
        let mut target = self.sequence.take().unwrap();
        let base = target.len();
        let key = format!("{:?} {:?}", method.drafter, method.context);
        let mut drafter = self.drafters.remove(&key).or_else(|| self.drafter(method, &mut target));
        assert_eq!(target.len(), base, "signals leave the target's cache as it was");
        let drafter_base = drafter.as_ref().map_or(0, |drafter| drafter.sequence.len());
        let seen = drafter.as_ref().map_or_else(Vec::new, |drafter| drafter.seen.clone());
        let mut reading: Vec<_> = others.iter().map(|method| self.drafter(method, &mut target)).collect();
        let unknown = DraftCost::usual([0.0, 1.0], 0.5);
        let cost = self.cost.unwrap_or(unknown);
        let contenders: Vec<Contender> = methods
            .iter()
            .map(|of| Contender {
                drafter: of.drafter.clone(),
                context: of.context.clone(),
                cost,
                further: if self.cost.is_some() { 0.05 } else { 0.25 },
                text_tokens: USUAL_TOKENS,
            })
            .collect();
        let history = History::new(&self.processors, &self.prompt.ids);
        let rules = GenerationConfig {
            row_ms: self.cost.map(|_| 1.0),
            chosen: contenders.first().filter(|_| self.cost.is_some() || !others.is_empty()),
            ends: &self.ends,
            special: self.target.tokenizer().special_ids(),
            protected: &special,
            grammar: self.grammar.as_ref(),
            history: history.as_ref(),
            ..GenerationConfig::new(method, sampler, limit, self.vocab)
        };
        // Where both run side by side, the first window may have been drafted before.
        let parallel = matches!(method.schedule, Schedule::Parallel { .. });
        let early = drafter.as_mut().filter(|_| parallel && limit.is_multiple_of(2));
        let prefetched = early.map(|d| PrefetchedDraft::draft(&rules, &mut d.sequence, self.root()).unwrap());
        let head = |method: &Method, seen: &[f32]| {
            let before = |layer| self.states.before_root(self.prompt.ids.len() - 1, layer);
            self.layer(method).map(|layer| DraftHeadState::new(layer, before(layer)).seeing(seen))
        };
        let reserves = contenders.iter().skip(1).zip(others).zip(&mut reading).map(|((of, method), read)| {
            let head = head(method, read.as_ref().map_or(&[], |read| &read.seen));
            let sequence = read.as_mut().map(|read| &mut read.sequence);
            Reserve::new(of, move || Ok(Some(DrafterInputs { sequence, head })))
        });
        let parts = GenerationInputs {
            target: &mut target,
            drafter: drafter.as_mut().map(|drafter| &mut drafter.sequence),
            head: head(method, &seen),
            visual: &self.visual,
            spans: self.prompt.visual.clone(),
            prompt: &self.prompt.ids,
            reserves: reserves.collect(),
            prefetched,
        };
        let mut written =
            Written { ids: vec![], bits: vec![], judged: 0, accepted: 0, finished: None, steps: vec![] };
        let hooks = Hooks { turns, ..Hooks::default() };
        let finished = generate_with(rules, parts, hooks, &mut |step| {
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
            drafter.sequence.truncate(drafter_base);
            self.drafters.insert(key, drafter);
        }
        written
    }

    /// The target's distribution over texts of at most `limit` tokens, the end tokens not counted.
    pub fn texts(&self, sampler: Sampler, limit: usize) -> BTreeMap<Vec<u32>, f64> {
        let (mut target, ..) = self.prefill();
        let base = target.len();
        let (mut open, mut texts) = (vec![(Vec::new(), 1f64)], BTreeMap::new());
        while let Some((text, p)) = open.pop() {
            if text.len() == limit {
                texts.insert(text, p);
                continue;
            }
            target.truncate(base);
            let ids: Vec<u32> = std::iter::once(self.root()).chain(text.iter().copied()).collect();
            let pass = target.feed(&ids, &Taps::default()).unwrap();
            let last = target.logits(&pass.states.narrow(text.len(), 1).unwrap()).unwrap();
            let last = last.to_vec().unwrap();
            for (id, q) in (0..).zip(sampler.distribution(&last[..self.vocab])) {
                let p = p * f64::from(q);
                if q > 0.0 && self.ends.contains(&id) {
                    *texts.entry(text.clone()).or_default() += p;
                } else if q > 0.0 {
                    open.push((text.iter().copied().chain([id]).collect(), p));
                }
            }
        }
        texts
    }

    /// The target's joint distribution of the first two tokens.
    pub fn joint(&self, sampler: Sampler) -> Vec<f64> {
        let (mut target, ..) = self.prefill();
        let row = |target: &mut Sequence, id: u32| {
            let pass = target.feed(&[id], &Taps::default()).unwrap();
            let logits = target.logits(&pass.states).unwrap().to_vec().unwrap();
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
