use serde_json::{Value, json};

use super::*;
use crate::error::ApiError;

fn sent(body: &Value) -> Result<ChatRequest, ApiError> {
    read(body.to_string().as_bytes(), 0.0)
}

/// A request with every field.
fn whole() -> Value {
    let url = |url: &str| json!({"url": url, "detail": "low"});
    json!({
        "model": "specreel",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "What?"},
                {"type": "video_url", "video_url": url("demo")},
                {"type": "image_url", "image_url": url("a.png")},
                {"type": "input_video", "input_video": {"data": "AAAA", "url": null, "file_id": "file-1"}},
                {"type": "file", "file": {"file_data": "AAAA", "url": "demo"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "12:30"},
            {"role": "assistant", "refusal": "No."},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 5,
        "max_tokens": 5.0,
        "temperature": 0.5,
        "top_p": 0.5,
        "seed": -7,
        "stop": ["a", "b"],
        "logprobs": true,
        "top_logprobs": 20,
        "n": 1,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        "reasoning_effort": "none",
        "chat_template_kwargs": {"enable_thinking": false},
        "tools": [{}],
        "tool_choice": "auto",
        "modalities": ["text"],
        "specreel": {
            "method": "naive", "set": ["shape.length=3"], "events": true, "display": true, "frames": 4, "fps": 2.0,
            "max_pixels": 9, "max_visual_tokens": 9, "start": 0.5, "end": 2, "transcript": "x", "transcribe": false,
        },
    })
}

/// The pointers of all values, and their places in words.
fn places(value: &Value, pointer: &str, place: &str, found: &mut Vec<(String, String)>) {
    found.push((pointer.to_owned(), place.to_owned()));
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                places(item, &format!("{pointer}/{i}"), &format!("{place}[{i}]"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                places(field, &format!("{pointer}/{name}"), &place, found);
            }
        }
        _ => {}
    }
}

#[test]
fn a_wrong_value_is_refused_by_name_with_what_the_field_takes() {
    let body = whole();
    sent(&body).unwrap();
    let mut all = Vec::new();
    places(&body, "", "", &mut all);
    // The contents of these are read elsewhere, or not at all.
    let any = [
        "specreel.transcript",
        "tools[0]",
        "tool_call_id",
        "detail",
        "tool_calls[0].id",
        "json_schema.schema.type",
    ];
    for (pointer, place) in all {
        let mut refused = 0;
        for odd in
            [json!(true), json!(-1.5), json!("odd"), json!(["odd", 7]), json!({"odd": [1]}), json!(1e300)]
        {
            let mut changed = body.clone();
            *changed.pointer_mut(&pointer).unwrap() = odd.clone();
            let Err(error) = sent(&changed) else { continue };
            refused += 1;
            let param = error.param.clone().unwrap_or_default();
            // What is missing in an object has a place in it, and a schema is refused as a whole.
            assert!(param.starts_with(&place) || place.starts_with(&param), "{place} = {odd}: {error:?}");
            let message = &error.message;
            assert_eq!(error.status, 400);
            let named = if param.is_empty() { "the request body" } else { &param };
            assert!(message.starts_with(&format!("{named}: ")), "{place} = {odd}: {message}");
            for word in [
                "u32", "i64", "f32", "f64", "usize", "struct", "enum", "variant", "untagged", "sequence",
                "column",
            ] {
                assert!(!message.contains(word), "{place} = {odd}: {message}");
            }
        }
        assert!(refused > 0 || any.iter().any(|name| place.ends_with(name)), "{place} takes everything");
    }
    for (field, value, message) in [
        ("temperature", json!("hot"), "temperature: expected a number from 0 to 100, got \"hot\""),
        ("temperature", json!(-1), "temperature: expected a number from 0 to 100, got -1"),
        ("top_p", json!(0), "top_p: expected a number above 0, up to 1, got 0"),
        ("stream", json!("true"), "stream: expected true or false, got \"true\""),
        ("seed", json!(1.5), "seed: expected an integer, got 1.5"),
        ("top_logprobs", json!(21), "top_logprobs: expected an integer from 0 to 20, got 21"),
        ("stop", json!(["a", 7]), "stop[1]: expected a string of 1 to 1024 bytes, got 7"),
        ("stop", json!(7), "stop: expected a string of 1 to 1024 bytes, or up to 16 of them, got 7"),
        ("messages", json!({}), "messages: expected an array, got {}"),
        ("messages", json!([[]]), "messages[0]: expected an object, got []"),
        (
            "messages",
            json!([{"role": "critic"}]),
            "messages[0].role: expected one of: system, developer, user, assistant, tool, got \"critic\"",
        ),
        (
            "messages",
            json!([{}]),
            "messages[0].role: missing; expected one of: system, developer, user, assistant, tool",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "video"}]}]),
            "messages[0].content[0].type: expected one of: text, video_url, image_url, input_video, file, got \"video\"",
        ),
        ("specreel", json!({"frames": 0}), "specreel.frames: expected an integer from 1, got 0"),
    ] {
        let mut changed = body.clone();
        changed[field] = value;
        assert_eq!(sent(&changed).unwrap_err().message, message);
    }
}

#[test]
fn what_is_no_json_is_refused_where_that_is_seen() {
    for (body, message) in [
        ("", "the request body is not valid JSON: EOF while parsing a value at byte 0 of 0"),
        ("{\n\"messages\": [,]}", "the request body is not valid JSON: expected value at byte 16 of 18"),
        ("7", "the request body: expected an object, got 7"),
    ] {
        let error = read(body.as_bytes(), 0.0).unwrap_err();
        assert_eq!((&*error.message, error.param), (message, None));
    }
}

#[test]
fn a_limit_of_minus_one_is_the_context_window() {
    let limits = |body: Value| {
        let mut request = json!({"messages": []});
        request.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        sent(&request)
            .map(|request| (request.max_completion_tokens.or(request.max_tokens), request.notes.len()))
    };
    assert_eq!(limits(json!({})).unwrap(), (None, 0));
    assert_eq!(limits(json!({"max_tokens": null})).unwrap(), (None, 0));
    assert_eq!(limits(json!({"max_tokens": -1})).unwrap(), (Some(Limit::Window), 0));
    assert_eq!(limits(json!({"max_tokens": 9})).unwrap(), (Some(Limit::Tokens(9)), 0));
    assert_eq!(
        limits(json!({"max_tokens": 9, "max_completion_tokens": 9})).unwrap(),
        (Some(Limit::Tokens(9)), 0)
    );
    assert_eq!(
        limits(json!({"max_tokens": 9, "max_completion_tokens": 7})).unwrap(),
        (Some(Limit::Tokens(7)), 1)
    );
    for wrong in [json!(0), json!(-2), json!(65_537), json!(1.5), json!("9"), json!(1e300)] {
        let message = limits(json!({"max_tokens": wrong})).unwrap_err().message;
        let expected =
            "max_tokens: expected an integer from 1 to 65536, or -1 for what the context window leaves, got ";
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn what_is_not_obeyed_is_noted_or_refused_unless_it_is_off() {
    let with = |fields: Value| {
        let mut request = json!({"messages": [{"role": "user", "content": "x"}]});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        sent(&request).map(|request| request.notes)
    };
    let off = json!({
        "repetition_penalty": 1, "repeat_penalty": 1.0, "top_k": -1, "min_p": 0.0, "typical_p": 1, "dry_multiplier": 0,
        "dry_base": 1.75, "xtc_probability": 0, "xtc_threshold": 0.1, "mirostat": 0, "min_tokens": 0, "ignore_eos": false,
        "logit_bias": {}, "frequency_penalty": 0, "presence_penalty": 0.0, "functions": [], "best_of": 1, "stop_token_ids": [],
        "skip_special_tokens": true, "guided_json": null, "grammar": "", "user": "me", "metadata": {"a": 1}, "store": true,
        "stop": "", "modalities": ["text"],
    });
    assert_eq!(with(off.clone()).unwrap(), [""; 0]);
    // The most likely token is never cut off.
    assert_eq!(with(json!({"top_k": 40, "min_p": 0.1, "typical_p": 0.9})).unwrap(), [""; 0]);
    assert_eq!(
        with(json!({"top_a": 0.4, "typical_p": 0.1, "temperature": 1})).unwrap(),
        ["`top_a` has no effect: it is not supported", "`typical_p` has no effect: it is not supported"]
    );
    for (fields, note) in [
        (json!({"xtc_probability": 0.5}), "`xtc_probability` has no effect: it is not supported"),
        (json!({"n_predict": 9}), "`n_predict` has no effect: use `max_completion_tokens`"),
        (json!({"max_token": 9}), "`max_token` has no effect: unknown field"),
        (
            json!({"chat_template_kwargs": {"thinking": true}}),
            "`chat_template_kwargs.thinking` has no effect: unknown field",
        ),
        (
            json!({"messages": [{"role": "user", "name": "Zoë", "content": []}]}),
            "`messages[0].name` has no effect: unknown field",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "fps": 2}]}]}),
            "`messages[0].content[0].fps` has no effect: unknown field",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "low"}}]}]}),
            "`messages[0].content[0].image_url.detail` has no effect (low): use `specreel.max_pixels`",
        ),
    ] {
        assert_eq!(with(fields).unwrap(), [note]);
    }
    for (field, value) in [
        ("min_tokens", json!(5)),
        ("ignore_eos", json!(true)),
        ("functions", json!([{}])),
        ("guided_json", json!({"type": "object"})),
        ("stop_token_ids", json!([7])),
        ("skip_special_tokens", json!(false)),
        ("modalities", json!(["audio"])),
        ("n", json!(2)),
        ("tool_choice", json!("required")),
    ] {
        let error = with(json!({field: value})).unwrap_err();
        assert_eq!((error.param.as_deref(), error.code), (Some(field), "unsupported_value"), "{error:?}");
    }
}

#[test]
fn controls_of_sampling_are_read_in_the_names_of_other_servers() {
    let with = |fields: Value| {
        let mut request = json!({"messages": [{"role": "user", "content": "x"}]});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        sent(&request)
    };
    let vllm = with(json!({
        "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 1.5, "frequency_penalty": -0.5, "logit_bias": {"5": -100},
    }))
    .unwrap();
    assert_eq!(
        (vllm.text.top_k, vllm.text.min_p, vllm.text.repetition_penalty),
        (Some(20), Some(0.1), Some(1.1))
    );
    assert_eq!((vllm.text.presence_penalty, vllm.text.frequency_penalty), (Some(1.5), Some(-0.5)));
    assert_eq!(vllm.text.logit_bias, [(5, -100.0)]);
    let llama = with(json!({
        "repeat_penalty": 1.2, "repeat_last_n": -1, "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": 64,
        "dry_sequence_breakers": ["\n"], "logit_bias": [[5, 1.5], [6, false]],
    }))
    .unwrap();
    assert_eq!((llama.text.repetition_penalty, llama.text.repeat_last_n), (Some(1.2), Some(-1)));
    assert_eq!(
        (llama.text.dry_multiplier, llama.text.dry_base, llama.text.dry_allowed_length),
        (Some(0.8), Some(2.0), Some(3))
    );
    assert_eq!(llama.text.logit_bias, [(5, 1.5), (6, f32::NEG_INFINITY)]);
    assert_eq!(llama.notes, [""; 0]);
    for (field, value) in [
        ("top_k", json!(-2)),
        ("min_p", json!(2)),
        ("repetition_penalty", json!(0)),
        ("frequency_penalty", json!("high")),
        ("dry_base", json!(0.5)),
        ("logit_bias", json!({"a": 1})),
        ("logit_bias", json!([[1]])),
    ] {
        let error = with(json!({field: value})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(field), "{error:?}");
    }
}
