//! Stop texts: text, tokens, log-probabilities, verdicts and usage end at one place under every method.

use serde_json::{Value, json};

use super::server::{Server, ask, chunks};
use crate::cli::Program;

const ROUTE: &str = "/v1/chat/completions";

/// The tokens of a whole answer.
fn tokens(answer: &Value) -> Vec<String> {
    let tokens = answer["specreel"]["tokens"].as_array().unwrap().iter();
    tokens.map(|token| token["text"].as_str().unwrap().to_owned()).collect()
}

/// Where decoding token by token ends: the text before the first stop text, and how many tokens were written by then.
fn cut(tokens: &[String], stops: &[&str]) -> Option<(String, usize)> {
    let mut text = String::new();
    for (i, token) in tokens.iter().enumerate() {
        text.push_str(token);
        let said = text.trim_start();
        if let Some(at) = stops.iter().filter_map(|stop| said.find(stop)).min() {
            return Some((said[..at].to_owned(), i + 1));
        }
    }
    None
}

/// What an answer says apart from how it was drafted.
fn facts(answer: &Value) -> Value {
    let mut usage = answer["usage"].clone();
    usage["prompt_tokens_details"].take();
    json!([answer["choices"], usage, tokens(answer)])
}

#[test]
fn every_method_ends_at_a_stop_text_as_plain_decoding_does() {
    let server = Server::start(Program::new(), &["--max-new-tokens", "40"]);
    let props = server.get("/props").1;
    let methods = props["specreel"]["methods"].as_array().unwrap();
    let asked = |method: &str, more: Value| {
        let mut fields = json!({"logprobs": true, "top_logprobs": 2, "specreel": {"method": method}});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&fields, "demo")
    };
    let plain = server.ok(ROUTE, &asked("autoregressive", json!({})));
    let text = plain["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    // Within tokens and across several, early and late; two of which the later one begins earlier in the text; none.
    let at = |from: usize, length: usize| text.chars().skip(from).take(length).collect::<String>();
    let length = text.chars().count();
    let mut cases: Vec<Vec<String>> = (0..8).map(|i| vec![at(i * length / 8, 1 + (i * 5) % 11)]).collect();
    cases.push(vec![at(length / 2, 12), at(length / 2 + 3, 2)]);
    cases.push(vec![at(0, 1)]);
    cases.push(vec!["not in the text".into()]);
    let (mut compared, mut inside) = (0, 0);
    for method in methods {
        let name = method["name"].as_str().unwrap();
        let (status, whole) = server.post(ROUTE, &asked(name, json!({})));
        if status != 200 {
            // It needs a draft head that is not loaded.
            assert_eq!(status, 400, "{name}: {whole}");
            continue;
        }
        let is_lossless = method["lossless"] == true;
        let uncut = tokens(&whole);
        for stops in &cases {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let answer = server.ok(ROUTE, &asked(name, json!({"stop": stops})));
            let told = || format!("{name} {stops:?}: {answer}");
            let choice = &answer["choices"][0];
            let written = tokens(&answer);
            match cut(&uncut, &stops) {
                Some((text, count)) => {
                    assert_eq!(choice["message"]["content"], *text, "{}", told());
                    assert_eq!(written, uncut[..count], "{}", told());
                    assert_eq!(choice["finish_reason"], "stop", "{}", told());
                    inside += u32::from(count < uncut.len());
                }
                None => assert_eq!(facts(&answer), facts(&whole), "{}", told()),
            }
            let counts = [
                answer["usage"]["completion_tokens"].as_u64().unwrap(),
                choice["logprobs"]["content"].as_array().unwrap().len() as u64,
                answer["specreel"]["verdicts"]
                    .as_object()
                    .unwrap()
                    .values()
                    .map(|n| n.as_u64().unwrap())
                    .sum(),
            ];
            assert_eq!(counts, [written.len() as u64; 3], "{}", told());
            if is_lossless {
                let plain = server.ok(ROUTE, &asked("autoregressive", json!({"stop": stops})));
                assert_eq!(facts(&answer), facts(&plain), "{}", told());
                compared += 1;
            }
        }
    }
    assert!(compared > 50 && inside > 50, "{compared} compared, {inside} ended early");
    streams(&server, &text);
    assert_eq!(server.end("-INT"), Some(0));
}

/// A stream and its events say the same as the whole answer.
fn streams(server: &Server, text: &str) {
    let stop: String = text.chars().skip(text.chars().count() / 3).take(7).collect();
    let own = json!({"method": "naive", "events": true});
    let whole = server
        .ok(ROUTE, &ask(&json!({"stop": stop, "logprobs": true, "specreel": {"method": "naive"}}), "demo"));
    let options = json!({"include_usage": true});
    let fields =
        json!({"stop": stop, "logprobs": true, "stream": true, "stream_options": options, "specreel": own});
    let stream = chunks(&server.raw(ROUTE, &ask(&fields, "demo")));
    let parts = || stream.iter().filter(|(name, _)| name.is_empty()).map(|(_, data)| data);
    let said: String = parts().filter_map(|part| part["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], *said);
    let all = |of: &dyn Fn(&Value) -> &Value| {
        parts().filter_map(|part| of(part).as_array()).flatten().cloned().collect::<Vec<Value>>()
    };
    assert_eq!(whole["specreel"]["tokens"], json!(all(&|part| &part["specreel"]["tokens"])));
    assert_eq!(
        whole["choices"][0]["logprobs"]["content"],
        json!(all(&|part| &part["choices"][0]["logprobs"]["content"]))
    );
    let usage = parts().find(|part| part["usage"].is_object()).unwrap();
    assert_eq!(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    let (_, done) = stream.iter().find(|(name, _)| name == "done").unwrap();
    assert_eq!((&done["reason"], done["text"].as_str().unwrap().trim_start()), (&json!("stop"), &*said));
    assert_eq!(
        done["ids"].as_array().unwrap().len() as u64,
        whole["usage"]["completion_tokens"].as_u64().unwrap()
    );
    assert_eq!(done["stats"]["emitted"], whole["usage"]["completion_tokens"]);
}
