//! Requests that are refused, and those of clients that know other servers.

use serde_json::{Value, json};

use super::{
    content,
    server::{Server, about, ask},
};

/// Every refusal has OpenAI's shape, and says what is wrong where.
pub fn refusals(server: &Server) {
    let with = |more: Value| ask(&more, "demo");
    let own = |more: Value| with(json!({ "specreel": more }));
    let schema = json!({"type": "json_schema", "json_schema": {"schema": {"type": "odd"}}});
    let video = "messages[0].content[0].video_url";
    for (body, status, param, words) in [
        (with(json!({"model": "gpt-4o"})), 404, "model", "demo-target"),
        (with(json!({"n": 2})), 400, "n", "only 1"),
        (with(json!({"stop": [""]})), 400, "stop[0]", "1 to"),
        (with(json!({"top_logprobs": 2})), 400, "top_logprobs", "logprobs"),
        (with(json!({"temperature": "hot"})), 400, "temperature", "got \"hot\""),
        (with(json!({ "response_format": schema })), 400, "response_format.json_schema.schema", "odd"),
        (own(json!({"display": true})), 400, "specreel.display", "stream"),
        (own(json!({"method": "nope"})), 400, "specreel.method", "lvspec"),
        (own(json!({"set": ["shape.length=x"]})), 400, "specreel.set", "shape.length"),
        (own(json!({"fps": 0})), 400, "specreel.fps", "frames per second"),
        (own(json!({"typo": 1})), 400, "specreel.typo", "unknown field"),
        (own(json!({"events": true})), 400, "specreel.events", "stream"),
        (own(json!({"start": 1e6})), 400, "specreel.start", "video"),
        (own(json!({"transcript": "words"})), 400, "specreel.transcript", "no line with a time"),
        (own(json!({"transcript": []})), 400, "specreel.transcript", "a list of {"),
        (
            own(json!({"transcript": {"path": "/etc/passwd"}})),
            400,
            "specreel.transcript",
            "no such file below",
        ),
        (own(json!({"transcribe": true})), 400, "specreel.transcribe", "with --transcribe"),
        (own(json!({"transcribe": true, "transcript": "x"})), 400, "specreel.transcribe", "choose either"),
        (with(json!({"max_tokens": 60_000})), 400, "", "context window"),
        (about("../secret.mp4"), 400, video, "no such file below"),
        (about("http://127.0.0.1/a.mp4"), 400, video, "--allow-url"),
        (about("file-1-0"), 404, video, "/v1/files"),
        (about("demo:99"), 400, video, "demo:"),
        (about("data:video/mp4;base64,!!"), 400, video, "base64"),
        (about("data:video/mp4;base64,AAAA"), 400, video, "the video in the request"),
    ] {
        let (found, answer) = server.post("/v1/chat/completions", &body);
        let error = &answer["error"];
        assert_eq!((found, error["param"].as_str().unwrap_or_default()), (status, param), "{body}: {answer}");
        assert!(error["message"].as_str().unwrap().contains(words), "{body}: {answer}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(
            !answer.to_string().contains(&*server.program.home().to_string_lossy()),
            "a path is revealed: {answer}"
        );
    }
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/models/x", 404),
        ("GET", "/v1/files/%ff", 400),
        ("GET", "/v1/models/%ff", 400),
    ] {
        assert_eq!(server.get(path).0, status, "{method} {path}");
    }
    assert_eq!(server.send("/v1/chat/completions", "text/plain", b"{}").0, 415);
    assert_eq!(server.send("/v1/chat/completions", "application/json", b"{").0, 400);
    assert_eq!(server.send("/v1/files", "application/json", b"{}").0, 400);
}

/// Moments of an index, below the directories that requests may name.
pub fn search(server: &Server) {
    let find = |body: Value| server.post("/v1/search", &body);
    let (status, absent) = find(json!({"words": "van"}));
    assert!(status == 503 && absent["error"]["message"].to_string().contains("specreel index"), "{absent}");
    let home = server.program.home();
    assert!(!absent.to_string().contains(&*home.to_string_lossy()), "a path is revealed: {absent}");
    let text = "1\n00:00:01,000 --> 00:00:02,000\nA van turns.\n";
    for (video, captions) in [("clips/a.mp4", "clips/a.srt"), ("secret.mp4", "secret.srt")] {
        assert!(home.join(video).exists());
        std::fs::write(home.join(captions), text).unwrap();
    }
    server.program.run(&["index", "clips", "secret.mp4", "clips/../secret.mp4", "--import", "captions"]).ok();
    let found = server.ok("/v1/search", &json!({"words": "vans", "limit": 5}));
    let data = found["data"].as_array().unwrap();
    assert!(data.len() == 1 && data[0]["video"] == "a.mp4" && data[0]["start"] == 1.0, "{found}");
    assert_eq!(data[0]["model"], "a.srt");
    assert!(!found.to_string().contains(&*home.to_string_lossy()), "a path is revealed: {found}");
    // A link below the directory leads to a file that no request may name.
    std::os::unix::fs::symlink(home.join("secret.mp4"), home.join("clips/link.mp4")).unwrap();
    std::fs::write(home.join("clips/link.txt"), "A hidden zebra.").unwrap();
    server.program.run(&["index", "clips/link.mp4", "--import", "captions"]).ok();
    assert_eq!(server.ok("/v1/search", &json!({"words": "zebra"}))["data"], json!([]));
    // Its name is one that a question can have.
    server.ok("/v1/chat/completions", &ask(&json!({"max_tokens": 1}), data[0]["video"].as_str().unwrap()));
    assert_eq!(server.ok("/v1/search", &json!({"words": "van", "path": "a.mp4"}))["data"][0], data[0]);
    assert_eq!(server.ok("/v1/search", &json!({"words": "van", "said": true}))["data"], json!([]));
    for (body, words) in [
        (json!({}), "words: missing"),
        (json!({"words": "-"}), "it contains no words"),
        (json!({"words": "van", "path": ".."}), "path: not below"),
        (json!({"words": "van", "path": "/"}), "path: not below"),
        (json!({"words": "van", "query": "van"}), "query"),
    ] {
        let (status, answer) = find(body);
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
}

/// What clients of other servers send.
pub fn leniency(server: &Server) {
    let ok = |more: Value| server.ok("/v1/chat/completions", &ask(&more, "demo"));
    let unlimited = ok(json!({"max_tokens": -1, "temperature": 0}));
    assert_eq!(unlimited["choices"][0]["finish_reason"], "stop");
    for off in [
        json!({"max_tokens": null}),
        json!({"max_completion_tokens": -1, "top_k": 0, "repetition_penalty": 1.0}),
    ] {
        let answer = ok(off);
        assert_eq!(answer["choices"], unlimited["choices"]);
        assert!(
            answer["specreel"]["notes"].is_null()
                || !answer["specreel"]["notes"].to_string().contains("no effect")
        );
    }
    let penalized = ok(json!({"repetition_penalty": 3.0, "presence_penalty": 5, "dry_multiplier": 5}));
    assert_ne!(penalized["choices"][0]["message"]["content"], unlimited["choices"][0]["message"]["content"]);
    let noted = ok(json!({"xtc_probability": 0.5, "frobnicate": true, "max_tokens": 2}));
    let notes = noted["specreel"]["notes"].to_string();
    for words in ["`xtc_probability` has no effect", "`frobnicate` has no effect: unknown field"] {
        assert!(notes.contains(words), "{notes}");
    }
    // Histories of clients that use tools, for a model whose template has none.
    let call = json!({"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}});
    let body = json!({"max_tokens": 2, "messages": [
        {"role": "user", "content": content(&["demo"])},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "12:30"},
        {"role": "assistant", "content": "A circle."},
        {"role": "user", "content": "Sure?"},
    ]});
    let (status, answer) = server.post("/v1/chat/completions", &body);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("has no form for calls of tools; leave calls"), "{answer}");
}
