//! Texts of a JSON schema under random methods: they are of the schema, and lossless methods write what constrained autoregressive
//! decoding writes, to the last bit.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use specreel_model::grammar::Constraint;
use specreel_record::{Stats, StopReason, Verdict};
use specreel_speculate::{Acceptance, Drafter, Length, Method, Sampler, Schedule, Shape, WindowSize};
use specreel_tensor::WeightType;

use super::{
    GREEDY,
    random_methods::{draws, method, pick},
    support::{Bench, Written},
};

pub const PAIRS: [(&str, &str, WeightType); 8] = [
    ("gqa_tied", "nested_bf16", WeightType::Q8_0),
    ("qwen2_vl_nested", "qwen2_vl", WeightType::F32),
    ("llava_ov", "llava_ov_newer", WeightType::Q8_0),
    ("qwen3_vl", "qwen3_vl_small", WeightType::F32),
    ("smolvlm", "smolvlm_untied", WeightType::F32),
    ("qwen3_5", "qwen3_5_untied", WeightType::Q8_0),
    ("minicpmv4_6", "minicpmv4_6_4x", WeightType::F32),
    ("gemma4", "gemma4_plain", WeightType::Q8_0),
];
const SCHEMAS: usize = 3;
const METHODS: usize = 30;
const LIMIT: usize = 90;

/// A small schema whose texts are short.
fn schema(rng: &mut ChaCha8Rng, depth: usize) -> Value {
    match rng.random_range(0..if depth == 0 { 4 } else { 7 }) {
        0 => json!({ "type": "boolean" }),
        1 => json!({ "type": "integer", "minimum": 0, "maximum": pick(rng, &[7, 120]) }),
        2 => json!({ "enum": ["red", "green", "a \"quoted\" word", 4, null] }),
        3 => json!({ "type": "string", "maxLength": pick(rng, &[0, 2, 6]) }),
        4 => json!({ "type": "array", "items": schema(rng, depth - 1), "maxItems": pick(rng, &[1, 3]) }),
        _ => {
            let names = ["caption", "tags", "x"];
            let properties: serde_json::Map<String, Value> =
                names.iter().map(|name| ((*name).to_owned(), schema(rng, depth - 1))).collect();
            let required = &names[..pick(rng, &[1, 3])];
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        }
    }
}

/// True if the value is of the schema, as far as [`schema`] makes use of them.
fn is_valid(value: &Value, schema: &Value) -> bool {
    let most = |key: &str| schema[key].as_u64().unwrap_or(u64::MAX);
    if let Some(choices) = schema["enum"].as_array() {
        return choices.contains(value);
    }
    match (schema["type"].as_str().unwrap(), value) {
        ("boolean", Value::Bool(_)) => true,
        ("integer", Value::Number(n)) => n.as_u64().is_some_and(|n| n <= most("maximum")),
        ("string", Value::String(text)) => text.chars().count() as u64 <= most("maxLength"),
        ("array", Value::Array(items)) => {
            items.len() as u64 <= most("maxItems")
                && items.iter().all(|item| is_valid(item, &schema["items"]))
        }
        ("object", Value::Object(fields)) => {
            let required = schema["required"].as_array().unwrap();
            required.iter().all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, value)| is_valid(value, &schema["properties"][name]))
        }
        _ => false,
    }
}

/// The verdicts and counts of what the grammar forced.
fn check_forced(written: &Written, method: &Method) -> usize {
    let mut stats = Stats::default();
    for step in &written.steps {
        stats.add(step);
        let accepted = &step.tokens[..step.accepted];
        let path: Vec<usize> = match step.parents.is_empty() {
            true => (0..step.accepted).collect(),
            false => step.path.clone(),
        };
        for (token, place) in accepted.iter().zip(path) {
            assert_eq!(token.verdict == Verdict::Forced, step.forced.contains(&place));
            if token.verdict == Verdict::Forced {
                assert_eq!(token.id, token.target_id);
                assert!((token.probability.unwrap() - 1.0).abs() < 1e-5);
            }
        }
    }
    let forced = written.steps.iter().map(|step| step.forced_tokens()).sum::<usize>();
    let others = |verdict: &Verdict| verdict.is_accepted_draft() && *verdict != Verdict::Forced;
    let verdicts = written.steps.iter().flat_map(|step| &step.tokens).map(|token| token.verdict);
    assert_eq!(stats.accepted as usize, verdicts.filter(others).count());
    assert_eq!(stats.forced as usize, forced);
    assert!(stats.accepted <= stats.judged && stats.judged <= stats.drafted);
    assert!(method.drafter != Drafter::None {} || forced == 0, "a target alone writes a token a pass");
    forced
}

#[test]
fn random_methods_write_json_of_the_schema() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut whole, mut cut, mut equal, mut repeated, mut lossy, mut forced) = (0, 0, 0, 0, 0, 0);
    for (seed, (target, small, dtype)) in PAIRS.into_iter().enumerate() {
        let mut bench = Bench::new(target, small, dtype, seed as u64);
        for turn in 0..SCHEMAS {
            let schema = schema(&mut rng, 1 + turn % 2);
            let constraint = Constraint::JsonSchema { schema: schema.clone() };
            bench.constrain(&constraint);
            let mut plain: Vec<(Sampler, Written)> = Vec::new();
            for _ in 0..METHODS {
                let temperature = pick(&mut rng, &[0.0, 0.0, 0.7, 3.0]);
                let sampler =
                    Sampler { temperature, top_p: pick(&mut rng, &[1.0, 0.9]), seed: 3, ..Sampler::GREEDY };
                let method = method(&mut rng);
                let what = || format!("{target} {sampler:?} {schema}\n{}", method.to_toml());
                let written = bench.write(&method, sampler, LIMIT);
                forced += check_forced(&written, &method);
                let text = bench.tokenizer().decode(&written.ids);
                if written.finished == Some(StopReason::Eos) {
                    let value: Value =
                        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text} {}", what()));
                    assert!(is_valid(&value, &schema), "{text} {}", what());
                    whole += 1;
                } else {
                    cut += 1;
                }
                lossy += usize::from(!method.lossless());
                if method.lossless() && !draws(&method, sampler) {
                    if !plain.iter().any(|(of, _)| *of == sampler) {
                        plain.push((sampler, bench.plain(sampler, LIMIT)));
                    }
                    let (_, plain) = plain.iter().find(|(of, _)| *of == sampler).unwrap();
                    written.equals(plain, what());
                    equal += 1;
                } else if matches!(method.shape, Shape::Chain { length: Length::Fixed(_), .. }) {
                    let again = bench.write(&method, sampler, LIMIT);
                    assert_eq!((again.ids, again.bits), (written.ids, written.bits), "{}", what());
                    repeated += 1;
                }
            }
        }
    }
    assert!(whole > 300 && cut < whole, "{whole} whole, {cut} cut");
    assert!(equal > 150 && lossy > 100 && repeated > 50, "{equal} equal, {lossy} lossy, {repeated} repeated");
    assert!(forced > 1000, "{forced}");
}

/// Drafts that are drawn and judged by min(1, p/q) leave the target's distribution over what the grammar allows as it is.
#[test]
fn drawn_drafts_keep_the_distribution() {
    let choices = ["red", "green", "grey"];
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    bench.constrain(&Constraint::JsonSchema { schema: json!({ "enum": choices }) });
    let naive = Method::preset("naive").unwrap();
    let drawn = Method { acceptance: Acceptance::Sampled {}, ..naive };
    let parallel = Method { schedule: Schedule::Parallel { window: WindowSize::Fixed(2) }, ..drawn.clone() };
    let counts = |bench: &mut Bench, method: &Method| {
        let mut counts = [0f64; 3];
        for seed in 0..1200 {
            let ids = bench.write(method, Sampler { temperature: 2.0, seed, ..Sampler::GREEDY }, 30).ids;
            let text = bench.tokenizer().decode(&ids);
            counts[choices.iter().position(|choice| text == format!("\"{choice}\"")).expect(&text)] += 1.0;
        }
        counts
    };
    let plain = counts(&mut bench, &Method::preset("autoregressive").unwrap());
    for method in [drawn, parallel] {
        method.validate().unwrap();
        let other = counts(&mut bench, &method);
        // Two samples of one distribution: chi-square with two degrees of freedom, beyond 18 once in ten thousand times.
        let chi: f64 = plain.iter().zip(other).map(|(a, b)| (a - b).powi(2) / (a + b).max(1.0)).sum();
        assert!(chi < 18.0, "{plain:?} {other:?}");
    }
}

/// What the grammar forces costs a pass of the target for all of it, and nothing of the drafter.
#[test]
fn a_run_of_forced_tokens_is_one_step() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    bench.constrain(&Constraint::JsonSchema {
        schema: json!({ "const": "nothing else can be written here" }),
    });
    let written = bench.write(&Method::preset("naive").unwrap(), GREEDY, 90);
    assert_eq!(bench.tokenizer().decode(&written.ids), "\"nothing else can be written here\"");
    assert_eq!((written.steps.len(), written.finished), (1, Some(StopReason::Eos)));
    assert_eq!(written.steps[0].forced_first(), written.ids.len());
    bench.plain(GREEDY, 90).equals(&written, "plain");
}

/// Within a chain, forced tokens also cost the drafter nothing but reading them, and the chain is longer by
/// as many.
#[test]
fn a_chain_goes_on_after_forced_tokens() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 0);
    let flag = json!({ "type": "boolean" });
    let properties: serde_json::Map<String, Value> =
        ["first", "second", "third"].iter().map(|name| ((*name).to_owned(), flag.clone())).collect();
    bench.constrain(&Constraint::JsonSchema {
        schema: json!({ "type": "object", "properties": properties, "required": ["first", "second", "third"], "additionalProperties": false }),
    });
    // What the target drafts for itself is always right.
    let mut own = Method::preset("naive").unwrap();
    own.drafter = Drafter::SELF;
    let written = bench.write(&own, GREEDY, 90);
    bench.plain(GREEDY, 90).equals(&written, own.describe());
    let [step] = &written.steps[..] else { panic!("{} steps", written.steps.len()) };
    assert!(step.judged_freely() <= 5 && step.forced.len() > 20, "{:?}", step.forced);
    assert!(step.forced_first() < step.forced.len());
}
