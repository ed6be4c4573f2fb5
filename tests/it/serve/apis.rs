//! OpenAI's newer API, Anthropic's, and the Model Context Protocol over HTTP.

use serde_json::{Value, json};

use super::{
    base64,
    server::{Server, chunks},
};

const QUESTION: &str = "Describe the video in detail.";

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The events of a stream, whose names are their types.
fn events(server: &Server, path: &str, body: &Value) -> Vec<Value> {
    let events = chunks(&server.raw(path, &with(body.clone(), json!({"stream": true}))));
    assert!(events.iter().all(|(name, data)| data["type"] == **name), "{events:?}");
    events.into_iter().map(|(_, data)| data).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

fn refused(server: &Server, path: &str, body: &Value, param: &str, words: &str) {
    let (status, answer) = server.post(path, body);
    assert_eq!(
        (status, &answer["type"], &answer["error"]["param"]),
        (400, &json!("error"), &json!(param)),
        "{answer}"
    );
    assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
}

pub fn responses(server: &Server, text: &str) {
    const PATH: &str = "/v1/responses";
    let content =
        json!([{"type": "input_video", "video_url": "demo"}, {"type": "input_text", "text": QUESTION}]);
    let body = json!({"model": "specreel", "input": [{"role": "user", "content": content}]});
    let whole = server.ok(PATH, &body);
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(whole["output"][0]["content"][0]["text"], text);
    assert_eq!(whole["specreel"]["method"], "lvspec");
    let tokens = whole["specreel"]["tokens"].as_array().unwrap().len();
    assert_eq!(whole["usage"]["output_tokens"], tokens);

    let stream = events(server, PATH, &body);
    assert_eq!(
        types(&stream),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers: Vec<u64> = stream.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..stream.len() as u64), "{numbers:?}");
    let said: String = stream.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, text);
    let steps = stream.iter().filter_map(|event| event["specreel"]["tokens"].as_array());
    assert_eq!(steps.map(Vec::len).sum::<usize>(), tokens);
    let last = &stream.last().unwrap()["response"];
    assert_eq!(
        (&last["output"][0]["content"][0]["text"], &last["id"]),
        (&json!(text), &stream[0]["response"]["id"])
    );

    let cut = server.ok(
        PATH,
        &with(body.clone(), json!({"max_output_tokens": 2, "include": ["message.output_text.logprobs"]})),
    );
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    assert_eq!(cut["output"][0]["content"][0]["logprobs"].as_array().unwrap().len(), 2);
    let schema = json!({"type": "object", "properties": {"moving": {"type": "boolean"}}, "required": ["moving"], "additionalProperties": false});
    let format = json!({"format": {"type": "json_schema", "name": "answer", "schema": schema}});
    let answer = server.ok(PATH, &with(body.clone(), json!({ "text": format })));
    let parsed: Value =
        serde_json::from_str(answer["output"][0]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(parsed["moving"].is_boolean(), "{parsed}");

    let wrong = |more: Value, param: &str, words: &str| {
        refused(server, PATH, &with(body.clone(), more), param, words)
    };
    wrong(json!({"previous_response_id": "resp_1"}), "previous_response_id", "not stored");
    wrong(json!({"background": true}), "background", "leave it out");
    wrong(json!({"input": "What is it?"}), "input", "no video");
    wrong(json!({"input": [{"type": "item_reference", "id": "x"}]}), "input[0].type", "expected one of");
    wrong(json!({"tool_choice": "required"}), "tool_choice", "calls tools");
}

pub fn messages(server: &Server, text: &str, clip: &[u8]) {
    const PATH: &str = "/v1/messages";
    let about = |source: Value| {
        let content = json!([{"type": "video", "source": source}, {"type": "text", "text": QUESTION}]);
        json!({"model": "specreel", "max_tokens": 256, "messages": [{"role": "user", "content": content}]})
    };
    let body = about(json!({"type": "url", "url": "demo"}));
    let whole = server.ok(PATH, &body);
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("end_turn")));
    assert_eq!(whole["content"], json!([{"type": "text", "text": text}]));
    let usage = &whole["usage"];
    assert!(usage["cache_read_input_tokens"].as_u64() > Some(0) && usage["input_tokens"] == 1, "{usage}");

    let stream = events(server, PATH, &body);
    assert_eq!(
        types(&stream),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let said: String = stream.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(said, text);
    assert_eq!(stream[stream.len() - 2]["usage"]["output_tokens"], usage["output_tokens"]);
    assert_eq!(stream[stream.len() - 2]["specreel"]["verdicts"], whole["specreel"]["verdicts"]);

    let encoded = about(json!({"type": "base64", "media_type": "video/mp4", "data": base64(clip)}));
    let stop = &text[text.len() / 2..][..5];
    let cut = server.ok(PATH, &with(encoded, json!({"stop_sequences": ["never", stop]})));
    assert_eq!((&cut["stop_reason"], &cut["stop_sequence"]), (&json!("stop_sequence"), &json!(stop)));
    let short =
        server.ok(PATH, &with(body.clone(), json!({"max_tokens": 2, "thinking": {"type": "disabled"}})));
    assert_eq!(short["stop_reason"], "max_tokens");

    let wrong = |more: Value, param: &str, words: &str| {
        refused(server, PATH, &with(body.clone(), more), param, words)
    };
    wrong(json!({"messages": [{"role": "system", "content": "x"}]}), "messages[0].role", "`system`");
    wrong(json!({"tool_choice": {"type": "any"}}), "tool_choice", "calls tools");
    wrong(json!({"thinking": {"type": "odd"}}), "thinking.type", "`adaptive`");
    let missing = about(json!({"type": "file", "file_id": "file-1-0"}));
    assert_eq!(server.post(PATH, &missing).0, 404);
}

/// The tools are those of `specreel mcp`.
pub fn tools(server: &Server, text: &str) {
    let call = |session: &str, id: u64, method: &str, params: Value| {
        server.mcp(session, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let client = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let (status, session, hello) = call("", 1, "initialize", client);
    assert_eq!((status, &hello["result"]["serverInfo"]["name"]), (200, &json!("specreel")), "{hello}");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.mcp(&session, &ready).0, 202);
    let (_, _, told) =
        call(&session, 2, "tools/call", json!({"name": "caption_video", "arguments": {"path": "demo"}}));
    assert_eq!(told["result"]["content"][0]["text"], text, "{told}");
    let (_, _, refused) = call(
        &session,
        3,
        "tools/call",
        json!({"name": "caption_video", "arguments": {"path": "../secret.mp4"}}),
    );
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}
