//! Logits processors and distributions against transformers' (`make_sampling.py`).

use serde_json::Value;
use specreel_speculate::{
    Sampler,
    processors::{Dry, History, Processors},
};

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Numbers of which `null` is minus infinity.
fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn number(value: &Value) -> f32 {
    value.as_f64().map_or(f32::NEG_INFINITY, |value| value as f32)
}

fn settings(of: &Value) -> (Sampler, Processors) {
    let default = Processors::default();
    let real = |key: &str, default: f32| of.get(key).map_or(default, number);
    let count =
        |of: &Value, key: &str, default| of.get(key).map_or(default, |v| v.as_u64().unwrap() as usize);
    let bias = of.get("logit_bias").map_or_else(Vec::new, |biases| match biases {
        Value::Object(biases) => {
            biases.iter().map(|(id, bias)| (id.parse().unwrap(), number(bias))).collect()
        }
        pairs => {
            pairs.as_array().unwrap().iter().map(|p| (p[0].as_u64().unwrap() as u32, number(&p[1]))).collect()
        }
    });
    let dry = of.get("dry").map_or(default.dry, |dry| Dry {
        multiplier: number(&dry["multiplier"]),
        base: number(&dry["base"]),
        allowed: count(dry, "allowed_length", 2),
        window: count(dry, "window", 0),
        breakers: {
            let mut breakers = dry.get("breakers").map_or_else(Vec::new, ids);
            breakers.sort_unstable();
            breakers
        },
    });
    let sampler = Sampler {
        temperature: real("temperature", 1.0),
        top_k: count(of, "top_k", 0),
        top_p: real("top_p", 1.0),
        min_p: real("min_p", 0.0),
        seed: 0,
    };
    let processors = Processors {
        bias,
        repetition_penalty: real("repetition_penalty", 1.0),
        repetition_window: count(of, "repetition_window", 0),
        no_repeat_ngram: count(of, "no_repeat_ngram", 0),
        presence_penalty: real("presence_penalty", 0.0),
        frequency_penalty: real("frequency_penalty", 0.0),
        dry,
    };
    (sampler, processors)
}

#[test]
fn rows_are_processed_and_cut_as_transformers_does() {
    let text = std::fs::read_to_string("tests/parity/fixtures/sampling.json").unwrap();
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let cases = fixture.as_array().or_else(|| fixture["cases"].as_array()).unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let (sampler, processors) = settings(&case["settings"]);
        let mut row = numbers(&case["logits"]);
        let mut history = History::new(&processors, &ids(&case["prompt"]));
        history.iter_mut().for_each(|history| history.advance(&ids(&case["text"])));
        history.iter().for_each(|history| history.apply(&mut row, &[]));
        for (at, (got, want)) in row.iter().zip(numbers(&case["scores"])).enumerate() {
            let near = got == &want || (got - want).abs() <= 2e-6 * want.abs().max(1.0);
            assert!(near, "{got} for {want} of id {at}: {case}");
        }
        let got = sampler.distribution(&row);
        if let Some(token) = case.get("token") {
            assert_eq!(u64::from(sampler.token(&row, 0)), token.as_u64().unwrap(), "{case}");
            continue;
        }
        let mut want = vec![0.0; row.len()];
        for pair in case["probabilities"].as_array().unwrap() {
            want[pair[0].as_u64().unwrap() as usize] = number(&pair[1]);
        }
        for (at, (got, want)) in got.iter().zip(want).enumerate() {
            let near = (*got == 0.0) == (want == 0.0) && (got - want).abs() <= 2e-6;
            assert!(near, "{got} for {want} of id {at}: {case}");
        }
    }
}
