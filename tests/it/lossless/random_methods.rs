//! Random methods over all kinds and their boundary values, on tiny random checkpoints: nothing panics, the counts of every step
//! add up, and methods that claim to be lossless are.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specreel_model::draft_head::Recipe;
use specreel_record::{Step, StopReason, Token, Verdict};
use specreel_speculate::{
    Acceptance, AcceptedRows, Drafter, Length, Limit, Method, Occurrence, Part, Placing, Sampler, Schedule,
    SelfDraftType, Shape, Stamps, Unit, VisualContext, WindowRule, WindowSize,
    accept::{RuleNeeds, verdict},
    method::{AXES, Kind, Range, Value},
};
use specreel_tensor::{KvType, WeightType};

use crate::lossless::support::{Bench, Written};

/// Target, draft model, weights, and the ids that may be written.
const PAIRS: [(&str, &str, WeightType, Option<usize>); 21] = [
    ("gqa_tied", "nested_bf16", WeightType::Q8_0, None),
    ("sharded_untied", "gqa_tied", WeightType::F32, Some(3)),
    ("mha_tied_bf16", "sharded_untied", WeightType::Q8_0, None),
    ("nested_bf16", "mha_tied_bf16", WeightType::F32, Some(40)),
    ("qwen2_vl_nested", "qwen2_vl", WeightType::F32, None),
    ("llava_ov", "llava_ov_newer", WeightType::Q8_0, None),
    ("llava_ov_newer", "llava_ov", WeightType::F32, Some(40)),
    ("qwen3_vl", "qwen3_vl_small", WeightType::Q8_0, None),
    ("qwen3_vl_small", "qwen3_vl", WeightType::F32, Some(40)),
    ("smolvlm", "smolvlm_untied", WeightType::F32, None),
    ("smolvlm_untied", "smolvlm", WeightType::Q8_0, Some(40)),
    ("qwen3_5", "qwen3_5_untied", WeightType::Q8_0, None),
    ("qwen3_5_untied", "qwen3_5", WeightType::F32, Some(40)),
    ("minicpmv4_6", "minicpmv4_6_4x", WeightType::F32, None),
    ("minicpmv4_6_4x", "minicpmv4_6", WeightType::Q8_0, Some(40)),
    ("gemma4", "gemma4_plain", WeightType::Q8_0, None),
    ("gemma4_plain", "gemma4", WeightType::F32, Some(40)),
    ("qwen3_vl_moe_split", "qwen3_vl_small", WeightType::Q8_0, None),
    ("qwen3_5_moe", "qwen3_5_moe_untied", WeightType::Q8_0, Some(40)),
    ("gguf/mix/model-q4_k_m.gguf", "gguf/gqa_tied/model-q4_0.gguf", WeightType::Auto, None),
    ("gguf/gqa_tied/model-q8_0.gguf", "gguf/mix/model-q4_k_m.gguf", WeightType::Auto, Some(40)),
];
/// Methods for each pair.
const METHODS: usize = 260;
/// Largest requested number of tokens.
const MOST: usize = 40;

pub fn pick<T: Clone>(rng: &mut ChaCha8Rng, items: &[T]) -> T {
    items[rng.random_range(0..items.len())].clone()
}

fn drafter(rng: &mut ChaCha8Rng) -> Drafter {
    match rng.random_range(0..12) {
        0 => Drafter::None {},
        1..=3 => Drafter::Model {},
        4..=5 => Drafter::SELF,
        6 => Drafter::Target { dtype: SelfDraftType::Of(pick(rng, &[WeightType::Q8_0, WeightType::Q4_0])) },
        7..=8 => Drafter::EarlyExit { depth: pick(rng, &[0.01, 0.5, 0.99]) },
        // Assistants are for one family.
        9..=10 => Drafter::Head { recipe: pick(rng, &Recipe::ALL[..7]) },
        _ => Drafter::Lookup {
            ngram: pick(rng, &[3, 16]),
            min_ngram: pick(rng, &[1, 2]),
            occurrence: pick(rng, &[Occurrence::Latest, Occurrence::First]),
        },
    }
}

fn context(rng: &mut ChaCha8Rng) -> VisualContext {
    let keep = pick(rng, &[0.0, 0.05, 0.37, 1.0]);
    let positions = pick(rng, &[Placing::Original, Placing::Compact]);
    let stamps = pick(rng, &[Stamps::Keep, Stamps::Drop]);
    match rng.random_range(0..14) {
        0..=1 => VisualContext::Full {},
        2 => VisualContext::Auto {},
        3 => VisualContext::None { positions, stamps },
        4 => VisualContext::Random { keep, seed: pick(rng, &[0, 7]), positions, stamps },
        5 => VisualContext::Uniform { keep, positions, stamps },
        6 => VisualContext::Frames { keep, positions, stamps },
        7 => VisualContext::Window {
            part: pick(rng, &[Part::Front, Part::Middle, Part::End]),
            keep,
            positions,
            stamps,
        },
        8 => {
            let count = |rng: &mut ChaCha8Rng| pick(rng, &[0, 1, 3, 1000]);
            VisualContext::Streaming { first: count(rng), last: count(rng), positions, stamps }
        }
        9 => VisualContext::Attention { keep, mass: pick(rng, &[0.0, 0.5, 1.0]), positions, stamps },
        10 => VisualContext::Variation {
            keep,
            layers: pick(rng, &[1, 20]),
            depth: pick(rng, &[0.01, 0.5, 1.0]),
            positions,
            stamps,
        },
        11 => VisualContext::DyCoke { keep },
        12 => VisualContext::FastVid { keep, unit: pick(rng, &[Unit::Tokens, Unit::Frames]) },
        _ => VisualContext::TopKKv {
            keep,
            budget: pick(rng, &[Limit::NONE, Limit::Tokens(0), Limit::Tokens(64)]),
            rows: pick(rng, &[AcceptedRows::Dense, AcceptedRows::Sparse]),
            stamps,
        },
    }
}

fn shape(rng: &mut ChaCha8Rng) -> Shape {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    match rng.random_range(0..8) {
        0..=2 => Shape::Chain {
            length: Length::Fixed(pick(rng, &[1, 2, 5, 64])),
            gate: pick(rng, &[0.0, 0.0, 0.3, 1.0]),
            confidence: confidence(rng),
        },
        3 => Shape::Chain { length: Length::AUTO, gate: pick(rng, &[0.0, 0.3]), confidence: confidence(rng) },
        4 => Shape::StaticTree {
            nodes: match rng.random_range(0..4) {
                0 => vec![],
                1 => names(&["9"]),
                2 => names(&["0", "00", "000", "0000"]),
                _ => names(&["2", "0", "01", "20", "00", "200", "1", "010"]),
            },
            confidence: confidence(rng),
        },
        5 => Shape::TwoBranch { length: pick(rng, &[1, 2, 32]), confidence: confidence(rng) },
        _ => {
            let sizes = [(2, 1, 1), (2, 16, 3), (3, 1, 16), (12, 4, 3), (64, 16, 2), (64, 3, 16), (9, 5, 1)];
            let (total, depth, width) = pick(rng, &sizes);
            Shape::DynamicTree { total, depth, width, confidence: confidence(rng) }
        }
    }
}

/// How sure a drafter has to be: mostly no matter.
fn confidence(rng: &mut ChaCha8Rng) -> f64 {
    pick(rng, &[0.0, 0.0, 0.05, 0.3, 0.8, 1.0])
}

/// Any loosening rule, its values at the bounds of their ranges and between.
fn loosening(rng: &mut ChaCha8Rng) -> Acceptance {
    let strict = ["exact", "sampled", "all_of"];
    let kinds: Vec<&Kind> =
        Acceptance::AXIS.kinds.iter().filter(|kind| !strict.contains(&kind.name)).collect();
    let kind = pick(rng, &kinds);
    let mut rule = toml::Table::from_iter([("kind".to_owned(), kind.name.into())]);
    for key in kind.keys {
        let value: toml::Value = match (key.value, key.range) {
            (Value::Number, Some(Range { low, high, .. })) => {
                let high = if high.is_finite() { high } else { 9.0 };
                let shares = [0.0, 0.01, 0.3, 1.0];
                (low + pick(rng, &shares) * (high - low)).into()
            }
            (Value::Count, Some(range)) => pick(rng, &[range.low as i64, 2, 4, 1000]).into(),
            (Value::Count, None) => pick(rng, &[0, 7]).into(),
            (Value::Flag, _) => rng.random::<bool>().into(),
            (Value::Word(words), _) => pick(rng, words).into(),
            (Value::Words, _) => toml::Value::Array(Vec::new()),
            (value, _) => panic!("no random value for {value:?}"),
        };
        rule.insert(key.name.to_owned(), value);
    }
    rule.try_into().unwrap()
}

fn acceptance(rng: &mut ChaCha8Rng) -> Acceptance {
    match rng.random_range(0..10) {
        0..=3 => Acceptance::Exact {},
        4..=5 => Acceptance::Sampled {},
        6..=8 => loosening(rng),
        _ => Acceptance::AllOf { rules: (0..pick(rng, &[2, 2, 3, 4])).map(|_| loosening(rng)).collect() },
    }
}

fn schedule(rng: &mut ChaCha8Rng) -> Schedule {
    match rng.random_range(0..5) {
        0 => Schedule::Parallel { window: WindowSize::Fixed(pick(rng, &[1, 3, 64])) },
        1 => Schedule::Parallel { window: WindowSize::By(pick(rng, &[WindowRule::Auto, WindowRule::Ratio])) },
        _ => Schedule::Sequential {},
    }
}

pub fn method(rng: &mut ChaCha8Rng) -> Method {
    loop {
        let method = Method {
            name: "random".into(),
            about: String::new(),
            paper: None,
            drafter: drafter(rng),
            context: context(rng),
            shape: shape(rng),
            acceptance: acceptance(rng),
            schedule: schedule(rng),
        };
        if method.validate().is_ok() {
            return method;
        }
    }
}

/// True where drafts are drawn and pass min(1, p/q); everywhere else the target's token is drawn and compared.
pub fn draws(method: &Method, sampler: Sampler) -> bool {
    method.acceptance == (Acceptance::Sampled {})
        && !sampler.is_greedy()
        && matches!(method.shape, Shape::Chain { .. })
        && method.drafter != (Drafter::None {})
}

/// One run; prints itself when something in it panics.
struct Run {
    pair: usize,
    method: Method,
    sampler: Sampler,
    limit: usize,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Run { pair, method, sampler, limit } = self;
            eprintln!("pair {pair}, at most {limit} tokens, {sampler:?}\n{}", method.to_toml());
        }
    }
}

impl Run {
    fn parallel(&self) -> bool {
        matches!(self.method.schedule, Schedule::Parallel { .. })
    }

    fn draws(&self) -> bool {
        draws(&self.method, self.sampler)
    }

    fn check(&self, written: &Written, bench: &Bench) {
        assert!(written.ids.len() <= self.limit);
        match written.finished {
            Some(StopReason::Length) => assert_eq!(written.ids.len(), self.limit),
            Some(StopReason::Eos) => assert!(written.ids.len() < self.limit),
            other => panic!("ended by {other:?}"),
        }
        assert_eq!(written.steps.is_empty(), self.limit == 0);
        let ids = written.steps.iter().flat_map(|step| &step.tokens).map(|token| token.id);
        assert!(ids.eq(written.ids.iter().copied()));
        let mut emitted = 0;
        for (index, step) in written.steps.iter().enumerate() {
            assert_eq!(step.index, index);
            self.check_step(step, self.limit - emitted, index + 1 == written.steps.len(), bench);
            for token in &step.tokens {
                assert!((token.id as usize) < bench.vocabulary() && !bench.ends().contains(&token.id));
            }
            emitted += step.tokens.len();
        }
    }

    fn check_step(&self, step: &Step, room: usize, last: bool, bench: &Bench) {
        let Method { drafter, shape, acceptance, schedule, .. } = &self.method;
        let count = step.drafted.len();
        assert!(step.judged == count && step.accepted <= count);
        // A node's parent comes before it; in a chain it is the node before.
        let parent = |node: usize| match step.parents.is_empty() {
            true => node.checked_sub(1),
            false => step.parents[node],
        };
        let mut depths: Vec<usize> = Vec::new();
        for node in 0..count {
            depths.push(parent(node).map_or(1, |parent| depths[parent] + 1));
        }
        let deepest = depths.into_iter().max().unwrap_or(0);
        assert!(deepest <= room, "nothing is drafted that is not wanted");
        match schedule {
            Schedule::Sequential {} => {
                assert!(deepest <= shape.longest() && shape.drafts().is_none_or(|most| count <= most));
            }
            Schedule::Parallel { window: WindowSize::Fixed(window) } => assert!(count <= *window),
            Schedule::Parallel { .. } => assert!(count <= 32),
        }
        if *drafter == (Drafter::None {}) {
            assert_eq!(count, 0);
        }

        // The accepted drafts come first, along one branch, then at most one token of the target's own.
        let path: Vec<usize> = match step.parents.is_empty() {
            true => (0..step.accepted).collect(),
            false => step.path.clone(),
        };
        assert!(path.len() >= step.accepted && step.tokens.len() <= step.accepted + 1);
        for (i, &node) in path.iter().enumerate() {
            assert_eq!(parent(node), i.checked_sub(1).map(|before| path[before]));
        }
        let (accepted, own) = step.tokens.split_at(step.accepted);
        for (token, &node) in accepted.iter().zip(&path) {
            assert_eq!(token.id, step.drafted[node]);
            assert!(token.verdict.is_accepted_draft());
            self.check_draft(token, step, deepest, bench);
        }
        match own.first() {
            Some(token) => {
                assert_eq!(path.len(), step.accepted);
                let children = (0..count).filter(|&node| parent(node) == path.last().copied());
                let children: Vec<u32> = children.map(|node| step.drafted[node]).collect();
                let verdict = match (count, children.is_empty()) {
                    (0, _) if !self.parallel() => Verdict::Plain,
                    (_, true) => Verdict::Bonus,
                    (_, false) => Verdict::Corrected,
                };
                assert_eq!(token.verdict, verdict);
                if !self.draws() || verdict != Verdict::Corrected {
                    assert_eq!(token.id, token.target_id);
                }
                if *acceptance == (Acceptance::Exact {}) {
                    assert!(
                        !children.contains(&token.id),
                        "what the target wants and was drafted is accepted"
                    );
                }
                assert!(token.drafter_probability.is_none() && token.relevance.is_none());
            }
            None => {
                assert!(last || self.parallel(), "a step without a token of the target's own is the last")
            }
        }
        assert!(last || !step.tokens.is_empty());
        for token in &step.tokens {
            assert!(token.probability.is_some_and(|p| (0.0..=1.0001).contains(&p)));
            assert!(token.entropy.is_some_and(|nats| nats.is_finite() && nats >= -1e-4));
        }
        if let Acceptance::Visual { lambda, .. } | Acceptance::Glance { lambda } = acceptance {
            let loosened = accepted.iter().filter(|token| token.verdict == Verdict::Loosened).count();
            assert!(loosened as f64 <= lambda * deepest as f64 + 1e-9);
        }
    }

    /// An accepted draft: its verdict is one that the rule gives, and its values support it.
    fn check_draft(&self, token: &Token, step: &Step, deepest: usize, bench: &Bench) {
        let rule = &self.method.acceptance;
        if self.draws() {
            assert_eq!(token.verdict, Verdict::Sampled);
        } else {
            assert_eq!(token.verdict.is_strict(), token.id == token.target_id);
            assert_eq!(token.verdict.is_strict(), token.verdict == Verdict::Exact);
        }
        let first = match rule {
            Acceptance::AllOf { rules } => &rules[0],
            rule => rule,
        };
        match token.verdict {
            Verdict::Exact | Verdict::Sampled => {}
            Verdict::Shifted => {
                assert!(matches!(first, Acceptance::Visual { shift_tolerant: true, .. }));
                assert!(step.drafted.contains(&token.target_id));
            }
            loosened => {
                assert!(loosened.is_accepted_draft(), "{loosened}");
                assert_eq!(loosened, verdict(first));
            }
        }
        if let Acceptance::Window { length, .. } = first
            && token.verdict == Verdict::Window
        {
            assert!(*length <= deepest);
        }
        if !token.verdict.is_strict() {
            assert!(!bench.protects(token.id) && !bench.protects(token.target_id), "{token:?}");
            // The reported entropy is the one that the rule uses, as there is only one rule here.
            if let Acceptance::Entropy { threshold, .. } | Acceptance::Window { threshold, .. } = rule {
                assert!(token.entropy.unwrap() >= *threshold);
            }
            if let Acceptance::Divergence { threshold } = rule {
                assert!(token.divergence.unwrap() < *threshold);
            }
        }
        let needs = RuleNeeds::of(rule);
        assert_eq!(token.relevance.is_some(), needs.relevance.is_some());
        assert_eq!(token.relevance_rank.is_some(), token.relevance.is_some());
        assert_eq!(token.attention_peak.is_some(), needs.attention_peaks || self.method.shape.gate() > 0.0);
        assert_eq!(token.divergence.is_some(), needs.divergence);
        assert!(token.relevance.is_none_or(|cosine| cosine.abs() < 1.0001));
        assert!(token.attention_peak.is_none_or(|peak| (0.0..=1.0001).contains(&peak)));
        assert!(token.divergence.is_none_or(|nats| nats >= 0.0));
        let guesses = matches!(self.method.drafter, Drafter::Lookup { .. });
        assert_eq!(token.drafter_probability.is_none(), guesses);
        assert!(token.drafter_probability.is_none_or(|p| (0.0..=1.0001).contains(&p)));
    }
}

/// The text of autoregressive decoding, from a run that was long enough.
fn cut(plain: &Written, limit: usize) -> (&[u32], &[u32], StopReason) {
    let count = limit.min(plain.ids.len());
    let reason = if plain.ids.len() >= limit { StopReason::Length } else { StopReason::Eos };
    (&plain.ids[..count], &plain.bits[..count], reason)
}

/// What random runs came to.
#[derive(Debug, Default)]
pub struct Walk {
    kinds: BTreeMap<(&'static str, &'static str), usize>,
    pub equal: usize,
    pub repeated: usize,
    pub loosened: usize,
    ended: usize,
}

/// Run `methods` random methods of at most `most` tokens with each of some benches.
pub fn walk(rng: &mut ChaCha8Rng, benches: impl Iterator<Item = Bench>, methods: usize, most: usize) -> Walk {
    let mut walk = Walk::default();
    for (pair, mut bench) in benches.enumerate() {
        let autoregressive = Method::preset("autoregressive").unwrap();
        let mut plain: Vec<(Sampler, Written)> = Vec::new();
        for turn in 0..methods {
            let temperature = pick(rng, &[0.0, 0.0, 0.7, 100.0]);
            let top_p = if temperature > 0.0 { pick(rng, &[1.0, 0.9, 0.01]) } else { 1.0 };
            let sampler = Sampler { temperature, top_p, seed: 3, ..Sampler::GREEDY };
            let run = Run {
                pair,
                method: method(rng),
                sampler,
                limit: pick(rng, &[0, 1, 2, 3, 9, 24, MOST]).min(most),
            };
            for (axis, kind) in AXES.iter().zip(run.method.kinds()) {
                *walk.kinds.entry((axis.name, kind)).or_default() += 1;
            }
            let written = bench.write(&run.method, sampler, run.limit);
            run.check(&written, &bench);
            let verdicts = written.steps.iter().flat_map(|step| &step.tokens).map(|token| token.verdict);
            walk.loosened += verdicts.filter(|verdict| !verdict.is_strict()).count();
            walk.ended += usize::from(written.finished == Some(StopReason::Eos));
            if run.method.lossless() && !run.draws() {
                if !plain.iter().any(|(of, _)| *of == sampler) {
                    plain.push((sampler, bench.write(&autoregressive, sampler, most)));
                }
                let (_, plain) = plain.iter().find(|(of, _)| *of == sampler).unwrap();
                let (ids, bits, reason) = cut(plain, run.limit);
                assert_eq!((&*written.ids, &*written.bits), (ids, bits));
                assert_eq!(written.finished, Some(reason));
                walk.equal += 1;
            }
            // A drawn chain of automatic length follows the clock; everything else can be repeated.
            let by_clock = run.draws() && !run.parallel();
            let by_clock = by_clock && matches!(run.method.shape, Shape::Chain { length: Length::AUTO, .. });
            if turn % 3 == 0 && !by_clock {
                let again = bench.write(&run.method, sampler, run.limit);
                assert_eq!((again.ids, again.bits), (written.ids, written.bits));
                walk.repeated += 1;
            }
        }
    }
    walk
}

#[test]
fn random_methods_add_up_and_are_lossless_where_they_claim_to_be() {
    let benches = PAIRS.iter().enumerate().map(|(pair, &(target, small, dtype, vocabulary))| {
        let mut bench = Bench::with_kv_type(target, small, dtype, KvType::ALL[pair % 3], pair as u64);
        if let Some(vocabulary) = vocabulary {
            bench.restrict(vocabulary);
        }
        bench
    });
    let mut rng = ChaCha8Rng::seed_from_u64(20);
    let Walk { kinds, equal, repeated, loosened, ended } = walk(&mut rng, benches, METHODS, MOST);
    for axis in &AXES {
        // What an automatic drafter stands for is decided by the engine.
        for kind in axis.kinds.iter().filter(|kind| (axis.name, kind.name) != ("drafter", "auto")) {
            let runs = kinds.get(&(axis.name, kind.name)).copied().unwrap_or(0);
            assert!(runs >= 8, "{} = {} ran {runs} times: {kinds:?}", axis.name, kind.name);
        }
    }
    assert!(equal >= 400 && repeated >= 250, "{equal} compared, {repeated} repeated");
    assert!(loosened >= 300 && ended >= 5, "{loosened} tokens loosened, {ended} ended by themselves");
}
