//! Exact acceptance emits, bit for bit, what autoregressive decoding emits; sampled acceptance draws from its distribution.

mod accelerator;
mod assistants;
mod drafted_trees;
mod gates;
mod heads;
mod on_a_gpu;
mod processed;
mod random_methods;
mod self_drafts;
mod spans;
mod structured;
mod support;
mod turns;

use specreel_model::draft_head::Recipe;
use specreel_record::{Step, StopReason};
use specreel_speculate::{
    Acceptance, Drafter, Length, Method, Occurrence, Sampler, Schedule, Shape, VisualContext, WindowRule,
    WindowSize,
};
use specreel_tensor::{KvType, WeightType};
use support::{Bench, Written};

const FAMILIES: [&[&str]; 11] = [
    &["gqa_tied", "mha_tied_bf16", "nested_bf16", "sharded_untied"],
    &["qwen2_vl", "qwen2_vl_nested"],
    &["llava_ov", "llava_ov_newer"],
    &["qwen3_vl", "qwen3_vl_small"],
    &["smolvlm", "smolvlm_untied"],
    &["qwen3_5", "qwen3_5_untied"],
    &["minicpmv4_6", "minicpmv4_6_4x"],
    &["qwen3_vl_moe", "qwen3_vl_moe_split", "qwen3_vl"],
    &["qwen3_5_moe", "qwen3_5_moe_untied"],
    // The types of the files, whichever is requested.
    &["gguf/mix/model-q4_k_m.gguf", "gguf/gqa_tied/model-q8_0.gguf", "gguf/gqa_tied/model-q4_0.gguf"],
    &["gemma4", "gemma4_plain", "gguf/gemma4/model-q8_0.gguf"],
];

/// Contexts that leave nothing out.
const WHOLE: [&str; 3] = ["full", "top_k_kv keep=1.0 rows='dense'", "top_k_kv keep=1.0 rows='sparse'"];

const GREEDY: Sampler = Sampler::GREEDY;

/// A context as a method has it: the kind, then keys with values.
fn context(words: &str) -> VisualContext {
    let (kind, keys) = words.split_once(' ').unwrap_or((words, ""));
    toml::from_str(&format!("kind = '{kind}'\n{}", keys.replace(' ', "\n"))).unwrap()
}

fn method(drafter: Drafter, context: VisualContext, length: usize, acceptance: Acceptance) -> Method {
    let mut method = Method::preset("naive").unwrap();
    method.drafter = drafter;
    method.context = context;
    method.shape = Shape::Chain { length: Length::Fixed(length), gate: 0.0, confidence: 0.0 };
    method.acceptance = acceptance;
    method.validate().unwrap();
    method
}

/// These methods write what autoregressive decoding writes. Returns how many drafts were accepted and rejected.
fn are_lossless(
    bench: &mut Bench,
    sampler: Sampler,
    limit: usize,
    methods: impl IntoIterator<Item = Method>,
) -> [usize; 2] {
    let plain = bench.plain(sampler, limit);
    let mut drafts = [0, 0];
    for method in methods {
        let fast = bench.write(&method, sampler, limit);
        fast.equals(&plain, format!("{method:?}"));
        drafts = [drafts[0] + fast.accepted, drafts[1] + fast.judged - fast.accepted];
    }
    drafts
}

/// Every combination of model, drafter, weights, keys and values, clip, context, K and sampling writes the same ids with the same
/// probabilities, to the last bit.
#[test]
fn exact_acceptance_is_autoregressive_decoding() {
    let warm = Sampler { temperature: 0.8, top_p: 0.9, seed: 5, ..Sampler::GREEDY };
    let contexts =
        ["full", "none", "random keep=0.3 seed=3", "uniform keep=0.5 positions='compact'", "frames keep=0.5"]
            .map(context);
    let (mut combinations, mut accepted, mut rejected) = (0, 0, 0);
    let models = FAMILIES.iter().flat_map(|family| (0..family.len()).map(move |m| (*family, m)));
    for (family, m) in models {
        let model = family[m];
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            for clip in 0..2 {
                let small = family[(m + 1 + clip) % family.len()];
                let kv_type = KvType::ALL[(m + clip + usize::from(dtype == WeightType::F32)) % 3];
                let mut bench = Bench::with_kv_type(model, small, dtype, kv_type, clip as u64);
                let mut methods = [Vec::new(), Vec::new()];
                for (c, context) in contexts.iter().enumerate() {
                    for drafter in [Drafter::Model {}, Drafter::SELF] {
                        let length = [1, 2, 3, 5, 10, 30][(c + combinations) % 6];
                        methods[usize::from(combinations % 4 == 3)].push(method(
                            drafter,
                            context.clone(),
                            length,
                            Acceptance::Exact {},
                        ));
                        combinations += 1;
                    }
                }
                for (sampler, methods) in [GREEDY, warm].into_iter().zip(methods) {
                    let drafts = are_lossless(&mut bench, sampler, 40, methods);
                    (accepted, rejected) = (accepted + drafts[0], rejected + drafts[1]);
                }
            }
        }
    }
    assert!(combinations >= 320, "{combinations}");
    assert!(
        accepted > 500 && rejected > 500,
        "both paths are walked: {accepted} accepted, {rejected} rejected"
    );
}

/// All that can propose, under every shape and schedule that goes with it.
fn speculative() -> Vec<Method> {
    let (model, own) = (Drafter::Model {}, Drafter::SELF);
    let [sparrow, msd, vispec, hivis, eagle3, mtp, dflash, _] =
        Recipe::ALL.map(|recipe| Drafter::Head { recipe });
    let lookup = Drafter::Lookup { ngram: 3, min_ngram: 1, occurrence: Occurrence::Latest };
    let drafters = [
        (&model, "full"),
        (&own, "attention keep=0.4 mass=0.5"),
        (&model, "attention keep=0.2 mass=0.5 positions='compact'"),
        (&own, "variation layers=20 keep=0.4 depth=0.5"),
        (&own, "streaming first=1 last=2"),
        (&model, "window part='middle' keep=0.5"),
        (&own, "top_k_kv keep=0.5 rows='dense'"),
        (&own, "top_k_kv keep=0.25 rows='sparse'"),
        (&Drafter::EarlyExit { depth: 0.5 }, "full"),
        (&lookup, "none"),
        (&sparrow, "none"),
        (&sparrow, "none positions='compact'"),
        (&sparrow, "full"),
        (&msd, "full"),
        (&msd, "uniform keep=0.3 positions='compact'"),
        (&vispec, "full"),
        (&vispec, "uniform keep=0.3 positions='compact'"),
        (&hivis, "none"),
        (&eagle3, "full"),
        (&mtp, "full"),
        (&mtp, "none"),
        (&eagle3, "none"),
        (&eagle3, "uniform keep=0.3 positions='compact'"),
        (&dflash, "full"),
        (&dflash, "none"),
        (&dflash, "uniform keep=0.3 positions='compact'"),
    ];
    let nodes = ["0", "1", "00", "01", "10", "000", "100"].map(String::from).to_vec();
    let shapes = [
        Shape::Chain { length: Length::Fixed(4), gate: 0.0, confidence: 0.0 },
        Shape::Chain { length: Length::Fixed(4), gate: 0.4, confidence: 0.0 },
        Shape::Chain { length: Length::AUTO, gate: 0.0, confidence: 0.0 },
        Shape::StaticTree { nodes: vec![], confidence: 0.0 },
        Shape::StaticTree { nodes, confidence: 0.0 },
        Shape::TwoBranch { length: 6, confidence: 0.0 },
        Shape::DynamicTree { total: 12, depth: 4, width: 3, confidence: 0.0 },
        Shape::DynamicTree { total: 2, depth: 1, width: 1, confidence: 0.0 },
    ];
    let schedules = [
        Schedule::Sequential {},
        Schedule::Parallel { window: WindowSize::Fixed(3) },
        Schedule::Parallel { window: WindowSize::By(WindowRule::Auto) },
    ];
    let base = Method::preset("naive").unwrap();
    let mut methods = Vec::new();
    for (drafter, words) in drafters {
        for shape in &shapes {
            for schedule in &schedules {
                let (drafter, context) = (drafter.clone(), context(words));
                let (shape, schedule) = (shape.clone(), schedule.clone());
                methods.push(Method { drafter, context, shape, schedule, ..base.clone() });
            }
        }
    }
    methods.retain(|method| method.validate().is_ok());
    methods
}

/// One of `of` parts of these methods. Each has every drafter and context, with other shapes and schedules for each.
fn part_of_speculative(nth: usize, of: usize) -> Vec<Method> {
    let same = |a: &Method, b: &Method| (&a.drafter, &a.context) == (&b.drafter, &b.context);
    let methods = speculative();
    let by_drafter = methods.chunk_by(same).enumerate();
    by_drafter.flat_map(|(d, methods)| methods.iter().skip((nth + d) % of).step_by(of).cloned()).collect()
}

/// Each method with each pair of models at one of the two temperatures, and with half of the pairs at the other.
#[test]
fn every_drafter_shape_and_schedule_is_lossless() {
    let methods = speculative();
    assert!(methods.len() >= 100, "{}", methods.len());
    let (mut runs, mut refused, mut accepted, mut rejected) = (0, 0, 0, 0);
    let pairs = [
        ("gqa_tied", "nested_bf16", WeightType::Q8_0, KvType::Q8_0),
        ("sharded_untied", "gqa_tied", WeightType::F32, KvType::F32),
        ("qwen2_vl", "qwen2_vl_nested", WeightType::Q8_0, KvType::F16),
        ("llava_ov", "llava_ov_newer", WeightType::F32, KvType::Q8_0),
        ("qwen3_vl", "qwen3_vl_small", WeightType::F32, KvType::F16),
        ("smolvlm", "smolvlm_untied", WeightType::Q8_0, KvType::F32),
        ("qwen3_5", "qwen3_5_untied", WeightType::F32, KvType::F16),
        ("minicpmv4_6", "minicpmv4_6_4x", WeightType::Q8_0, KvType::F16),
        ("gemma4", "gemma4_plain", WeightType::F32, KvType::F16),
        ("qwen3_vl_moe", "qwen3_vl", WeightType::Q8_0, KvType::F16),
        ("qwen3_5_moe", "qwen3_5", WeightType::F32, KvType::F32),
    ];
    for (clip, (model, small, dtype, kv_type)) in pairs.into_iter().enumerate() {
        let mut bench = Bench::with_kv_type(model, small, dtype, kv_type, clip as u64);
        for (turn, temperature) in [0.0, 0.9].into_iter().enumerate() {
            let sampler = Sampler { temperature, seed: 3, ..Sampler::GREEDY };
            let mut methods = part_of_speculative(clip + turn, 2);
            let all = methods.len();
            // Refused: the states of linear attention cannot go back in a cache of chosen keys and values.
            methods.retain(|method| {
                let chosen = matches!(method.context, VisualContext::TopKKv { .. });
                let parallel = matches!(method.schedule, Schedule::Parallel { .. });
                let hybrid = model.starts_with("qwen3_5") || model.starts_with("minicpmv");
                !(hybrid && chosen && parallel)
            });
            (runs, refused) = (runs + methods.len(), refused + all - methods.len());
            let drafts = are_lossless(&mut bench, sampler, 33, methods);
            (accepted, rejected) = (accepted + drafts[0], rejected + drafts[1]);
        }
    }
    assert_eq!(runs + refused, pairs.len() * methods.len());
    assert!(refused < 60, "{refused}");
    assert!(accepted > 3000 && rejected > 3000, "{accepted} accepted, {rejected} rejected");
}

/// Fails where the target rejects a draft of its own, or fewer than so many pass: of a text that ends by itself, of others.
fn is_always_right(bench: &mut Bench, context: &VisualContext, limit: usize, least: [usize; 2]) {
    let own = method(Drafter::SELF, context.clone(), 5, Acceptance::Exact {});
    let written = bench.write(&own, GREEDY, limit);
    // A drafted end is right, but no token of the text.
    let ended = written.finished == Some(StopReason::Eos);
    let drafted_end = usize::from(ended && written.accepted < written.judged);
    assert_eq!(written.accepted + drafted_end, written.judged, "{context:?}");
    assert!(written.accepted >= least[usize::from(!ended)], "{context:?}: {}", written.accepted);
}

/// What the target drafts for itself with nothing taken away is what it wants.
#[test]
fn a_drafter_that_sees_everything_is_always_right() {
    for (model, small, has_one_axis) in [
        ("gqa_tied", "nested_bf16", false),
        ("qwen2_vl", "qwen2_vl_nested", false),
        ("llava_ov", "llava_ov_newer", true),
        ("qwen3_vl", "qwen3_vl_small", false),
        ("smolvlm", "smolvlm_untied", true),
        ("qwen3_5", "qwen3_5_untied", false),
        ("minicpmv4_6", "minicpmv4_6_4x", true),
        ("gemma4", "gemma4_plain", true),
        ("qwen3_vl_moe_split", "qwen3_vl_moe", false),
        ("qwen3_5_moe_untied", "qwen3_5_moe", false),
    ] {
        let mut bench = Bench::new(model, small, WeightType::Q8_0, 2);
        for words in WHOLE.into_iter().chain(["attention keep=1.0 mass=0.5"]) {
            is_always_right(&mut bench, &context(words), 36, [15, 25]);
        }
        // Renumbered positions equal the original ones if every token has its own and none is left out.
        let compact = context("uniform keep=1.0 positions='compact'");
        let written = bench.write(&method(Drafter::SELF, compact, 5, Acceptance::Exact {}), GREEDY, 36);
        assert!(!has_one_axis || written.accepted == written.judged, "{model}");
    }
}

/// As in EAGLE, the depth of a dynamic tree counts expansions after the first choices: with one choice it is a chain that is one
/// longer.
#[test]
fn a_dynamic_tree_of_width_one_is_a_chain_of_depth_plus_one() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::Q8_0, 2);
    for depth in [1, 2, 5, 16] {
        let chain = method(Drafter::SELF, VisualContext::Full {}, depth + 1, Acceptance::Exact {});
        let tree = Method {
            shape: Shape::DynamicTree { total: 64, depth, width: 1, confidence: 0.0 },
            ..chain.clone()
        };
        let [chain, tree] = [&chain, &tree].map(|method| bench.write(method, GREEDY, 40));
        assert_eq!((&tree.ids, &tree.bits), (&chain.ids, &chain.bits), "{depth}");
        let longest = tree.steps.iter().map(|step| step.drafted.len()).max();
        assert_eq!(longest, Some(depth + 1));
        let lengths = |steps: &[Step]| steps.iter().map(|step| step.accepted).collect::<Vec<_>>();
        assert_eq!(lengths(&tree.steps), lengths(&chain.steps), "{depth}");
        // A tree that may not have so many nodes is cut where it is least likely.
        let cut = Shape::DynamicTree { total: depth + 1, depth, width: 1, confidence: 0.0 };
        assert!(cut.longest() == depth + 1 && cut.drafts() == Some(depth));
    }
}

#[test]
fn every_length_of_chain_is_lossless_and_never_overshoots() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::Q8_0, 9);
    for limit in [0, 1, 2, 3, 7, 23] {
        let plain = bench.plain(GREEDY, limit);
        for length in 1..=12 {
            for drafter in [Drafter::Model {}, Drafter::SELF] {
                let fast = bench.write(
                    &method(drafter, context("uniform keep=0.4"), length, Acceptance::Exact {}),
                    GREEDY,
                    limit,
                );
                assert_eq!(fast.ids, plain.ids);
                assert!(fast.ids.len() <= limit);
            }
        }
    }
}

/// Two tokens of a restricted vocabulary: the joint counts of sampled acceptance against the target's own probabilities.
#[test]
fn sampled_acceptance_keeps_the_distribution() {
    const VOCAB: usize = 6;
    const RUNS: usize = 4000;
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 1);
    bench.restrict(VOCAB);
    let chain = method(Drafter::SELF, context("none"), 2, Acceptance::Sampled {});
    let mut parallel = chain.clone();
    parallel.schedule = Schedule::Parallel { window: WindowSize::Fixed(2) };
    let mut tree = chain.clone();
    tree.shape = Shape::DynamicTree { total: 5, depth: 2, width: 2, confidence: 0.0 };
    for (temperature, sampled) in [(0.7f32, &chain), (1.5, &chain), (1.0, &parallel), (1.0, &tree)] {
        let sampler = |seed| Sampler { temperature, seed, ..Sampler::GREEDY };
        let expected = bench.joint(sampler(0));
        let mut counts = vec![0f64; VOCAB * VOCAB];
        let mut accepted = 0;
        for seed in 0..RUNS as u64 {
            let Written { ids, accepted: a, .. } = bench.write(sampled, sampler(seed), 2);
            counts[ids[0] as usize * VOCAB + ids[1] as usize] += 1.0;
            accepted += a;
        }
        let chi: f64 = counts
            .iter()
            .zip(&expected)
            .map(|(n, p)| {
                let want = p * RUNS as f64;
                (n - want).powi(2) / want.max(1e-9)
            })
            .sum();
        // 35 degrees of freedom: 78 is passed by chance once in 40,000.
        assert!(chi < 78.0, "{} at {temperature}: chi-square {chi}", sampled.describe());
        assert!(accepted > RUNS / 4, "drafts are accepted: {accepted}");
    }
}

/// What chi-square passes by chance about thrice in 100,000 (Wilson and Hilferty).
fn limit_of_chi_square(degrees: usize) -> f64 {
    let part = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - part + 4.0 * part.sqrt()).powi(3)
}

/// The texts of sampled acceptance have the target's own probabilities, where the token that it likes second best ends a text. Returns how
/// many ended early.
fn keeps_the_distribution(
    bench: &mut Bench,
    sampled: &Method,
    (temperature, top_p): (f32, f32),
    limit: usize,
) -> usize {
    const RUNS: u64 = 3000;
    let mut early = 0;
    let sampler = |seed| Sampler { temperature, top_p, seed, ..Sampler::GREEDY };
    // The token that autoregressive decoding likes second best ends a text.
    bench.end_with(&[]);
    let first = bench.texts(sampler(0), 1);
    let mut ranked: Vec<_> = first.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    bench.end_with(&ranked[1].0);
    let expected = bench.texts(sampler(0), limit);
    assert!((expected.values().sum::<f64>() - 1.0).abs() < 1e-4);
    let mut counts = std::collections::BTreeMap::<Vec<u32>, f64>::new();
    let (mut accepted, mut judged) = (0, 0);
    for seed in 0..RUNS {
        let written = bench.write(sampled, sampler(seed), limit);
        (accepted, judged) = (accepted + written.accepted, judged + written.judged);
        early += usize::from(written.ids.len() < limit);
        assert!(expected.contains_key(&written.ids), "{:?} is not in the nucleus", written.ids);
        *counts.entry(written.ids).or_default() += 1.0;
    }
    // Texts of which fewer than five are to be expected count as one.
    let (mut chi, mut cells, mut rare) = (0.0, 0, (0.0, 0.0));
    for (text, p) in &expected {
        let (n, want) = (counts.get(text).copied().unwrap_or(0.0), p * RUNS as f64);
        if want < 5.0 {
            rare = (rare.0 + n, rare.1 + want);
        } else {
            chi += (n - want).powi(2) / want;
            cells += 1;
        }
    }
    if rare.1 >= 5.0 {
        chi += (rare.0 - rare.1).powi(2) / rare.1;
        cells += 1;
    }
    let what = format!("{} at {temperature}, {top_p}: {cells} cells", sampled.describe());
    assert!(cells >= 6, "{what}");
    assert!(chi < limit_of_chi_square(cells - 1), "{what}, chi-square {chi}");
    assert!(accepted > 100 && judged - accepted > 100, "{what}, {accepted} of {judged}");
    early
}

/// Whole texts under a nucleus, where the two models rule out different tokens and a text may end early: the counts of
/// sampled acceptance against the target's own probabilities.
#[test]
fn sampled_acceptance_keeps_the_distribution_of_texts_under_a_nucleus() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 1);
    bench.restrict(6);
    let chain = |drafter, context| method(drafter, context, 3, Acceptance::Sampled {});
    let small = chain(Drafter::Model {}, VisualContext::Full {});
    let mut parallel = small.clone();
    parallel.schedule = Schedule::Parallel { window: WindowSize::Fixed(3) };
    let layer = chain(Drafter::Head { recipe: Recipe::Sparrow }, context("none"));
    let eagle3 = chain(Drafter::Head { recipe: Recipe::Eagle3 }, VisualContext::Full {});
    let mtp = chain(Drafter::Head { recipe: Recipe::Mtp }, VisualContext::Full {});
    let vispec = chain(Drafter::Head { recipe: Recipe::Vispec }, VisualContext::Full {});
    let dflash = chain(Drafter::Head { recipe: Recipe::Dflash }, VisualContext::Full {});
    let own = chain(Drafter::SELF, context("none"));
    let mut early = 0;
    for (sampled, temperature, top_p, limit) in [
        (&small, 8.0, 0.7, 3),
        (&small, 5.0, 0.8, 4),
        (&layer, 8.0, 0.7, 3),
        (&eagle3, 8.0, 0.7, 3),
        (&mtp, 8.0, 0.7, 3),
        (&vispec, 8.0, 0.7, 3),
        (&dflash, 8.0, 0.7, 3),
        (&own, 6.0, 0.75, 3),
        (&parallel, 6.0, 0.8, 4),
    ] {
        early += keeps_the_distribution(&mut bench, sampled, (temperature, top_p), limit);
    }
    assert!(early > 1000, "{early} texts ended early");
}

/// Whether an EAGLE-3 head was chosen before the target read the prompt or after, it drafts from the same states.
#[test]
fn states_of_tapped_layers_do_not_depend_on_when_they_are_read() {
    for (target, small) in [
        ("gqa_tied", "nested_bf16"),
        ("qwen3_vl", "qwen3_vl_small"),
        ("llava_ov", "llava_ov_newer"),
        ("qwen3_5", "qwen3_5_untied"),
        ("qwen3_vl_moe", "qwen3_vl"),
    ] {
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            let [read, again] = Bench::new(target, small, dtype, 1).states_read();
            assert!(!read.is_empty() && read == again, "{target} {dtype:?}");
        }
    }
}

/// UV-Prune compares visual tokens with the text after the video; text before it cannot depend on it.
#[test]
fn variation_asks_the_text_after_the_video() {
    let bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    let (start, last) = (bench.prompt().visual.first().unwrap(), bench.prompt().ids.len() - 1);
    let end = bench.prompt().video_end();
    assert!(start > 0 && end < last);
    let before = bench.growth(|row| row < start);
    assert!(before.iter().all(|growth| *growth == 0.0), "{before:?}");
    // Each row of text after the video adds its cosine, 1; the prompt's last row is not in the prefill.
    let after = bench.growth(|row| row >= end);
    assert!(after.iter().all(|growth| (growth - (last - end) as f32).abs() < 1e-4), "{after:?}");
}

#[test]
fn a_loose_rule_accepts_more_than_the_exact_one() {
    let mut bench = Bench::new("sharded_untied", "gqa_tied", WeightType::Q8_0, 4);
    let accepted = |name| bench.write(&Method::preset(name).unwrap(), GREEDY, 40).accepted;
    let [exact, loose] = ["naive", "lvspec"].map(accepted);
    assert!(loose > exact, "lambda 0.7 loosens: {loose} {exact}");
}
