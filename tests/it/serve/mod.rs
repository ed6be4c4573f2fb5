//! `specreel serve` from outside: one server answers most of the tests.

mod apis;
mod fuzz;
mod mcp;
mod requests;
mod server;
mod stops;
mod webui;

use std::{
    fs,
    io::{BufRead, Read as _},
    path::Path,
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::server::{Server, about, ask, chunks};
use crate::cli::{Program, events, send};

/// The parts of a message that name these URLs, and a question.
fn content(urls: &[&str]) -> Value {
    let videos = urls.iter().map(|url| json!({"type": "video_url", "video_url": {"url": url}}));
    videos.chain([json!({"type": "text", "text": "Describe the video in detail."})]).collect()
}

#[test]
fn an_answer_is_the_caption_however_it_is_sent() {
    let program = Program::new();
    let caption = program.run(&["caption", "demo", "--json", "--method", "lvspec"]).ok();
    let done = events(&caption.stdout).pop().unwrap();
    let text = done["text"].as_str().unwrap().trim_start();
    let clip = fs::read(&specreel_demo::demo(None).unwrap().clips[0].path).unwrap();
    fs::create_dir(program.home().join("clips")).unwrap();
    fs::write(program.home().join("clips/a.mp4"), &clip).unwrap();
    fs::write(program.home().join("secret.mp4"), &clip).unwrap();
    let server =
        Server::start(program, &["--method", "lvspec", "--allow-dir", "clips", "--max-duration", "3600"]);

    // The whole answer, with what specreel knows of it.
    let whole = server.ok("/v1/chat/completions", &about("demo"));
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (message["content"].as_str(), &whole["choices"][0]["finish_reason"]),
        (Some(text), &json!("stop"))
    );
    let usage = &whole["usage"];
    assert_eq!(usage["completion_tokens"], done["stats"]["emitted"]);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    let report = &whole["specreel"];
    assert_eq!(report["verdicts"], done["stats"]["verdicts"]);
    assert_eq!((&report["method"], &report["tau"]), (&json!("lvspec"), &done["stats"]["tau"]));
    let tokens = report["tokens"].as_array().unwrap();
    assert_eq!(tokens.len() as u64, usage["completion_tokens"].as_u64().unwrap());
    let said: String = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(said.trim_start(), text);

    // In parts, with events and usage. The prompt is read already.
    let body = ask(
        &json!({"stream": true, "stream_options": {"include_usage": true}, "specreel": {"events": true}}),
        "demo",
    );
    let stream = chunks(&server.raw("/v1/chat/completions", &body));
    let parts: Vec<&Value> =
        stream.iter().filter(|(name, _)| name.is_empty()).map(|(_, data)| data).collect();
    let said: String =
        parts.iter().filter_map(|part| part["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(said, text);
    assert_eq!(parts.last(), Some(&&json!("[DONE]")));
    let last = parts[parts.len() - 2];
    assert_eq!(last["usage"]["prompt_tokens"], usage["prompt_tokens"]);
    let cached = last["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert_eq!(cached + 1, usage["prompt_tokens"].as_u64().unwrap(), "all but the last token");
    let names: Vec<&str> = stream.iter().map(|(name, _)| &**name).filter(|name| !name.is_empty()).collect();
    assert!(
        names.starts_with(&["started"]) && names.ends_with(&["done"]) && names.contains(&"step"),
        "{names:?}"
    );
    let started = &stream.iter().find(|(name, _)| name == "started").unwrap().1;
    assert_eq!(started["video"], "demo", "no path of the server is revealed");

    // Log-probabilities, and an end before a stop text.
    let stop = &text[text.len() / 2..][..5];
    let body = ask(
        &json!({"logprobs": true, "top_logprobs": 2, "stop": [stop], "specreel": {"method": "naive"}}),
        "demo",
    );
    let cut = server.ok("/v1/chat/completions", &body);
    let plain = server.ok("/v1/chat/completions", &ask(&json!({"specreel": {"method": "naive"}}), "demo"));
    let plain = plain["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let expected = plain.find(stop).map_or(&plain[..], |at| &plain[..at]);
    assert_eq!(cut["choices"][0]["message"]["content"].as_str(), Some(expected));
    let first = &cut["choices"][0]["logprobs"]["content"][0];
    assert_eq!(first["top_logprobs"].as_array().unwrap().len(), 2);
    assert_eq!(first["top_logprobs"][0]["logprob"], first["logprob"], "greedy takes the most likely one");

    // An endless repetition is left out, and reported.
    let id = stream.iter().find(|(name, _)| name == "done").unwrap().1["ids"][0].clone();
    let looped = json!({"logit_bias": [[id, 1000]], "max_tokens": 600, "temperature": 0});
    let looped = server.ok("/v1/chat/completions", &ask(&looped, "demo"));
    assert_eq!(looped["specreel"]["reason"], "loop", "{looped}");
    assert!(looped["choices"][0]["message"]["content"].as_str().unwrap().len() < 30, "{looped}");
    assert!(looped["usage"]["completion_tokens"].as_u64().unwrap() > 100, "{looped}");

    // A follow-up reads only what is new.
    let body = json!({"max_tokens": 2, "messages": [
        {"role": "user", "content": content(&["demo"])},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "Which colours?"},
    ]});
    let follow = server.ok("/v1/chat/completions", &body);
    assert!(follow["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() >= cached);
    assert_eq!(follow["usage"]["completion_tokens"], 2);
    assert_eq!(follow["choices"][0]["finish_reason"], "length");

    // The same video as a file, an upload and a data URL.
    let upload = server.upload(&clip);
    let id = upload["id"].as_str().unwrap();
    assert_eq!((&upload["bytes"], &upload["filename"]), (&json!(clip.len()), &json!("../clip.mp4")));
    let data = format!("data:video/mp4;base64,{}", base64(&clip));
    let path = server.program.home().join("clips/a.mp4").display().to_string();
    let answers = ["clips/a.mp4", "a.mp4", &path, id, &data].map(|url| {
        let (status, answer) = server.post("/v1/chat/completions", &about(url));
        (status, answer["choices"][0]["message"]["content"].as_str().map(str::to_owned))
    });
    assert_eq!(answers[0].0, 400, "relative to the allowed directory, not to the working directory");
    assert!(answers[1..].iter().all(|answer| answer.1.is_some() && *answer == answers[1]), "{answers:?}");
    assert_eq!(server.get("/v1/files").1["data"][0]["id"], *id);
    assert_eq!(server.delete(&format!("/v1/files/{id}")).0, 200);
    assert_eq!(server.post("/v1/chat/completions", &about(id)).0, 404);

    // Only what the schema allows can be written.
    let schema = json!({"type": "object", "properties": {"moving": {"type": "boolean"}}, "required": ["moving"],
        "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    let answer = server.ok("/v1/chat/completions", &ask(&json!({ "response_format": format }), "demo"));
    let parsed: Value =
        serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert!(parsed["moving"].is_boolean(), "{parsed}");

    page(&server, text);
    requests::refusals(&server);
    requests::leniency(&server);
    requests::search(&server);

    // What it says of itself.
    assert_eq!(server.get("/v1/models").1["data"][0]["id"], "demo-target");
    assert_eq!(server.get("/props").1["total_slots"], 1);
    assert_eq!(server.get("/openapi.json").1["openapi"], "3.0.3");
    let metrics = server.text("/metrics");
    for line in [
        "specreel_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 18",
        "specreel_requests_total{route=\"/v1/files/{id}\",status=\"200\"} 1",
        "specreel_requests_total{route=\"/v1/search\",status=\"200\"}",
        "specreel_runs_total{end=\"length\"} 3",
        "specreel_queue_length 0",
        "specreel_verdicts_total{verdict=\"exact\"}",
        "process_resident_memory_bytes",
        "specreel_decode_seconds_bucket{le=\"+Inf\"} 18",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    apis::responses(&server, text);
    apis::messages(&server, text, &clip);
    apis::tools(&server, text);
    assert_eq!(server.end("-INT"), Some(0));
}

#[test]
fn what_is_said_comes_with_the_request_or_is_heard() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/whisper");
    let model = fixtures.to_str().unwrap();
    let args = ["--transcribe", model, "--allow-dir", model, "--allow-dir", ".", "--max-new-tokens", "4"];
    let program = Program::new();
    std::fs::write(program.home().join("said.vtt"), "WEBVTT\n\n00:02.500 --> 00:03.500\nLook, a star.\n")
        .unwrap();
    let server = Server::start(program, &args);
    let prompt = |own: Value, url: &str| {
        let mut body = ask(&json!({"stream": true, "specreel": own}), url);
        body["specreel"]["events"] = true.into();
        let stream = server.raw("/v1/chat/completions", &body);
        let started = chunks(&stream).into_iter().find(|(name, _)| name == "started");
        started.unwrap_or_else(|| panic!("{stream}")).1["prompt"].as_str().unwrap().to_owned()
    };
    let lines = json!([{"start": 2.5, "end": 3.5, "text": "Look, a star."}]);
    let srt = json!("1\n00:00:02,500 --> 00:00:03,500\nLook, a star.\n");
    for transcript in [lines, srt, json!({"path": "said.vtt"})] {
        assert_eq!(
            prompt(json!({"transcript": transcript, "start": 2, "end": 4}), "demo"),
            "What is said in the video:\n[0:00.5 - 0:01.5] Look, a star.\n\nDescribe the video in detail."
        );
    }
    let heard = prompt(json!({"transcribe": true}), "sound.mp4");
    assert!(heard.starts_with("What is said in the video:\n["), "{heard}");
    assert_eq!(prompt(json!({"transcribe": true}), "sound.mp4"), heard);
    let silent = server.ok("/v1/chat/completions", &ask(&json!({"specreel": {"transcribe": true}}), "demo"));
    assert!(silent["specreel"]["notes"].to_string().contains("the video has no sound"), "{silent}");
    assert_eq!(server.end("-INT"), Some(0));
}

/// The page has its own script only, and streams have what it draws.
fn page(server: &Server, text: &str) {
    let (policy, html) = server.page();
    let script = html.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    assert!(policy.contains(&format!("script-src 'sha256-{}'", base64(&Sha256::digest(script)))), "{policy}");
    for word in ["http:", "https:", "src=", "<link rel=\"stylesheet", "@import", "url("] {
        assert!(!html.contains(word), "the page asks for {word}");
    }
    let body = ask(&json!({"stream": true, "specreel": {"display": true}}), "demo");
    let stream = chunks(&server.raw("/v1/chat/completions", &body));
    let reports: Vec<&Value> = stream.iter().map(|(_, chunk)| &chunk["specreel"]).collect();
    let tokens: Vec<&Value> =
        reports.iter().filter_map(|report| report["tokens"].as_array()).flatten().collect();
    let said: String = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(said.trim_start(), text);
    for token in tokens {
        let (why, verdict) = (token["why"].as_str().unwrap(), token["verdict"].as_str().unwrap());
        assert!(
            why.starts_with(verdict) && html.contains(&format!(".{} {{", token["role"].as_str().unwrap()))
        );
    }
    let rows: Vec<&Value> =
        reports.iter().map(|report| &report["row"]).filter(|row| !row.is_null()).collect();
    assert_eq!(rows.last().unwrap()["number"], rows.len());
    let account = reports.iter().find_map(|report| report["account"].as_array()).unwrap();
    assert!(account.iter().any(|row| row[0] == "speedup") && !account.iter().any(|row| row[0] == "video"));
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A request whose answer is long: no end token is likely.
fn long(tokens: u32) -> Value {
    ask(&json!({"stream": true, "max_tokens": tokens, "temperature": 100}), "demo")
}

#[test]
fn a_key_a_bounded_queue_and_an_orderly_end() {
    let server = Server::start(
        Program::new(),
        &["--queue", "0", "--api-key", "secret", "--cors", "https://good.example", "--max-body", "1"],
    );
    // The key. Everyone may ask for the health.
    let stranger = server.with_key("guess");
    assert_eq!((stranger.get("/v1/models").0, stranger.get("/health").0), (401, 200));
    assert!(stranger.page().1.contains("API key"), "the page asks for the key");
    let server = server.with_key("secret");
    assert_eq!(server.get("/v1/models").0, 200);
    for (origin, status) in [("https://good.example", 200), ("https://evil.example", 403)] {
        assert_eq!(server.as_origin(origin, "/v1/models"), status, "{origin}");
    }
    assert_eq!(server.send("/v1/chat/completions", "application/json", &vec![b' '; 3_000_000]).0, 413);

    // One runs, none may wait. A run that was over too soon is tried again.
    let refused = loop {
        let mut running = server.open(&long(2000)).lines();
        assert!(running.next().is_some());
        let (status, answer) = server.post("/v1/chat/completions", &about("demo"));
        if status != 200 {
            break (status, answer["error"]["code"].clone());
        }
        running.for_each(drop);
    };
    assert_eq!(refused, (429, json!("queue_full")));
    // The reader has gone: its run ends, and the next one can begin.
    while !server.text("/metrics").contains("specreel_runs_total{end=\"cancelled\"} 1") {
        std::thread::yield_now();
    }
    while server.text("/metrics").contains("specreel_runs_in_progress 1") {
        std::thread::yield_now();
    }
    assert_eq!(server.post("/v1/chat/completions", &about("demo")).0, 200);

    // A running answer is finished.
    let mut running = server.open(&long(300)).lines();
    assert!(running.next().is_some());
    send(&server.child(), "-TERM");
    let rest: Vec<String> = running.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains("\"finish_reason\":\"length\"")), "{rest:?}");
    assert_eq!(server.wait(), Some(0));
    let left = fs::read_dir(server.program.home()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("serve")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The temporary directories of servers.
fn stored(program: &Program) -> Vec<std::path::PathBuf> {
    let all = fs::read_dir(program.home()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("specreel-serve-")).collect()
}

#[test]
fn no_video_outlives_its_server_and_the_next_start() {
    let clip = fs::read(&specreel_demo::demo(None).unwrap().clips[0].path).unwrap();
    let living = Server::start(Program::new(), &[]);
    living.upload(&clip);
    let kept = stored(&living.program);
    assert_eq!(kept.len(), 1);

    // One that is killed leaves its videos, which the next one removes; never those of one that lives.
    let killed = living.beside(&[]);
    killed.upload(&clip);
    assert_eq!(stored(&living.program).len(), 2);
    killed.end("-KILL");
    assert_eq!(stored(&living.program).len(), 2);
    let next = living.beside(&[]);
    next.upload(&clip);
    let now = stored(&living.program);
    assert!(now.len() == 2 && now.contains(&kept[0]), "{now:?}");

    // A second signal ends a server at once, and leaves nothing either.
    let mut running = next.open(&long(2000)).lines();
    assert!(running.next().is_some());
    send(&next.child(), "-TERM");
    while next.is_open() {
        std::thread::yield_now();
    }
    assert_eq!(next.end("-TERM"), Some(143));
    assert_eq!(stored(&living.program), kept);
    assert_eq!(living.get("/v1/files").1["data"].as_array().unwrap().len(), 1);
    assert_eq!(living.end("-INT"), Some(0));
    assert_eq!(stored(&living.program), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn the_name_under_which_a_model_was_given_is_accepted() {
    let program = Program::new();
    let target = specreel_demo::demo(None).unwrap().target;
    // As an id of the Hub, which is a path with a slash.
    fs::create_dir(program.home().join("org")).unwrap();
    std::os::unix::fs::symlink(&target, program.home().join("org/some-model")).unwrap();
    let server = Server::start(program, &["--target", "org/some-model", "--max-new-tokens", "2"]);
    let listed = server.get("/v1/models").1["data"][0]["id"].as_str().unwrap().to_owned();
    for name in ["org/some-model", "org/some-model/", &listed, "specreel"] {
        let (status, answer) = server.post("/v1/chat/completions", &ask(&json!({"model": name}), "demo"));
        assert_eq!((status, &answer["model"]), (200, &json!(listed)), "{name}: {answer}");
    }
    assert_eq!(server.get("/v1/models/org/some-model").1["id"], "org/some-model");
    assert_eq!(server.get("/v1/models/some/other").0, 404);
    assert_eq!(server.post("/v1/chat/completions", &ask(&json!({"model": "org/other"}), "demo")).0, 404);
    assert_eq!(server.end("-INT"), Some(0));
}

#[test]
fn requests_that_are_answered_at_once_get_the_answers_that_each_gets_alone() {
    let request = |number: u64| {
        let methods = ["naive", "autoregressive", "lvspec", "auto"];
        let more = json!({
            "max_tokens": 10 + 6 * (number % 4), "temperature": if number.is_multiple_of(3) { 0.9 } else { 0.0 }, "seed": number, "stream": true,
            "specreel": { "method": methods[number as usize % methods.len()], "frames": 4 },
        });
        ask(&more, ["demo", "demo:2"][number as usize % 2])
    };
    // As many requests at once.
    let answers = |server: &Server, count: usize| -> Vec<String> {
        let numbers: Vec<u64> = (0..9).collect();
        let mut answers = Vec::new();
        for numbers in numbers.chunks(count) {
            let open: Vec<_> = numbers.iter().map(|&number| server.open(&request(number))).collect();
            answers.extend(open.into_iter().map(|mut stream| {
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                let content =
                    |data: &Value| data["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
                chunks(&text).iter().filter_map(|(_, data)| content(data)).collect::<String>()
            }));
        }
        answers
    };
    let alone = Server::start(Program::new(), &[]);
    let expected = answers(&alone, 1);
    assert!(expected.iter().all(|text| !text.is_empty()), "{expected:?}");
    assert_eq!(alone.end("-INT"), Some(0));
    let server = Server::start(Program::new(), &["--parallel", "3"]);
    assert_eq!(answers(&server, 3), expected);
    assert_eq!(server.end("-INT"), Some(0));
}

#[test]
fn several_models_take_turns() {
    let program = Program::new();
    let models = "[big]\ntarget = \"demo-target\"\ndrafter = \"demo-drafter\"\nmethod = \"naive\"\n
        [small]\ntarget = \"demo-drafter\"\nmethod = \"autoregressive\"\n";
    program.file("models.toml", models);
    let text = |args: &[&str]| {
        let run = program.run(&[&["caption", "demo", "--quiet"], args].concat()).ok();
        run.stdout.trim().to_owned()
    };
    let small = text(&["--target", "demo-drafter", "--method", "autoregressive"]);
    let big = text(&["--method", "naive"]);
    assert_ne!(small, big);
    let server = Server::start(program, &["--models", "models.toml"]);
    let listed = |server: &Server| -> Vec<(String, bool)> {
        let models = server.get("/v1/models").1;
        let models = models["data"].as_array().unwrap().iter();
        models.map(|model| (model["id"].as_str().unwrap().to_owned(), model["loaded"] == true)).collect()
    };
    let states = |big: bool, small: bool| [("big", big), ("small", small), ("specreel", big)];
    assert!(listed(&server).iter().map(|(id, loaded)| (&**id, *loaded)).eq(states(true, false)));
    let memory = |id: &str| server.get(&format!("/v1/models/{id}")).1["memory_bytes"].as_u64().unwrap();
    assert!(memory("big") > memory("small") && memory("small") > 1_000_000);
    for (model, id, text) in [("specreel", "big", &big), ("small", "small", &small), ("big", "big", &big)] {
        let answer = server.ok("/v1/chat/completions", &ask(&json!({ "model": model }), "demo"));
        let content = answer["choices"][0]["message"]["content"].as_str().unwrap().trim();
        assert_eq!((answer["model"].as_str().unwrap(), content), (id, &**text), "{answer}");
    }
    server.ok(
        "/v1/messages",
        &json!({"model": "small", "max_tokens": 2, "messages": [
        {"role": "user", "content": [{"type": "video", "source": {"type": "url", "url": "demo"}}]}]}),
    );
    assert!(listed(&server).iter().map(|(id, loaded)| (&**id, *loaded)).eq(states(false, true)));
    let (status, answer) = server.post("/v1/chat/completions", &ask(&json!({"model": "other"}), "demo"));
    assert!(status == 404 && answer["error"]["message"].to_string().contains("`big`, `small`"), "{answer}");
    let program = Program::new();
    program.file("models.toml", "[big]\nmethod = \"naive\"\n");
    program.run(&["serve", "--port", "0", "--models", "models.toml"]).ends(3).said("[big] has no target");
    program.run(&["serve", "--models", "models.toml", "--target", "demo-target"]).ends(2);
    program.file("models.toml", "[specreel]\ntarget = \"demo-target\"\n");
    program.run(&["serve", "--port", "0", "--models", "models.toml"]).ends(3).said("always means the first");
}
