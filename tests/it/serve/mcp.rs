//! `specreel mcp`, as its clients speak with it: a line of JSON each way.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
};

use serde_json::{Value, json};

use crate::cli::{Program, events};

#[test]
fn tools_caption_answer_and_compare() {
    let program = Program::new();
    let caption = program.run(&["caption", "demo", "--json", "--method", "naive"]).ok();
    let done = events(&caption.stdout).pop().unwrap();
    // Out of order, which is noted.
    let said = "00:02 --> 00:03\nA star.\n\n00:00 --> 00:01\nLook.\n";
    std::fs::write(program.home().join("said.srt"), said).unwrap();
    let whisper = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/whisper");
    let mut child =
        program.spawn(&["mcp", "--allow-dir", ".", "--transcribe", &whisper.display().to_string()]);
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut lines = stdout.lines();
    let mut notifications = Vec::new();
    let mut id = 0;
    let mut call = |method: &str, params: Value, notifications: &mut Vec<Value>| -> Value {
        id += 1;
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
        loop {
            let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
            notifications.push(answer);
        }
    };
    let client = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let hello = call("initialize", client, &mut notifications);
    assert_eq!(hello["serverInfo"]["name"], "specreel");
    let tools = call("tools/list", json!({}), &mut notifications);
    let mut names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ask_library", "ask_video", "caption_video", "compare_methods", "find_moments"]);

    let mut tool = |name: &str, arguments: Value, notifications: &mut Vec<Value>| {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": name}});
        call("tools/call", params, notifications)
    };
    let answer = tool("caption_video", json!({"path": "demo", "method": "naive"}), &mut notifications);
    let text = done["text"].as_str().unwrap().trim();
    assert_eq!(answer["content"][0]["text"], text);
    assert_eq!(answer["structuredContent"]["tau"], done["stats"]["tau"]);
    let progress: Vec<f64> = notifications
        .iter()
        .filter(|notification| notification["params"]["progressToken"] == "caption_video")
        .map(|notification| notification["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(progress.len() > 2 && progress.is_sorted(), "{progress:?}");

    let compared = tool(
        "compare_methods",
        json!({"path": "demo", "methods": ["autoregressive", "naive"], "max_new_tokens": 8}),
        &mut notifications,
    );
    let rows = compared["structuredContent"]["methods"].as_array().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["same_text_as_first"] == true), "{compared}");
    let asked = tool(
        "ask_video",
        json!({"path": "demo", "question": "What moves?", "max_new_tokens": 4}),
        &mut notifications,
    );
    assert_eq!(asked["structuredContent"]["finish_reason"], "length");

    let sampled = |seed: u64| json!({"path": "demo", "temperature": 1.5, "seed": seed, "max_new_tokens": 12});
    let [first, same, other] = [1, 1, 2].map(|seed| tool("caption_video", sampled(seed), &mut notifications));
    let text = |told: &Value| told["structuredContent"]["text"].as_str().unwrap().to_owned();
    assert!(text(&first) == text(&same) && text(&first) != text(&other), "{first} {other}");
    let stop = &text(&first)[3..6];
    let mut arguments = sampled(1);
    arguments["stop"] = json!([stop]);
    let cut = tool("caption_video", arguments, &mut notifications);
    assert_eq!(text(&cut), text(&first)[..text(&first).find(stop).unwrap()].trim());
    assert_eq!(cut["structuredContent"]["reason"], "stop");

    for (name, own, note) in [
        ("ask_video", json!({"question": "What moves?", "transcript": "said.srt"}), "out of order"),
        ("caption_video", json!({"transcribe": true}), "the video has no sound"),
    ] {
        let mut arguments = json!({"path": "demo", "max_new_tokens": 2});
        arguments.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let told = tool(name, arguments, &mut notifications);
        assert!(told["structuredContent"]["notes"].to_string().contains(note), "{told}");
    }

    std::fs::copy(whisper.join("sound.mp4"), program.home().join("sound.mp4")).unwrap();
    notifications.clear();
    let listen = json!({"path": "sound.mp4", "max_new_tokens": 2, "transcribe": true});
    let told = tool("caption_video", listen, &mut notifications);
    assert!(told["structuredContent"]["notes"].to_string().contains("the spoken language is"), "{told}");
    let messages = notifications.iter().filter_map(|told| told["params"]["message"].as_str());
    let messages: Vec<&str> = messages.collect();
    assert!(messages.contains(&"listening 7/7"), "{messages:?}");

    // What was captioned before is found, once there is an index.
    let looked = || json!({"words": "lefts", "said": true, "limit": 5, "path": "."});
    let absent = tool("find_moments", looked(), &mut notifications);
    assert!(
        absent["isError"] == true && absent["content"].to_string().contains("specreel index DIR"),
        "{absent}"
    );
    let said = "1\n00:00:01,000 --> 00:00:02,000\nTurn left.\n";
    std::fs::write(program.home().join("sound.srt"), said).unwrap();
    program.run(&["index", "sound.mp4", "--import", "speech"]).ok();
    let moments = tool("find_moments", looked(), &mut notifications);
    assert_eq!(moments["structuredContent"]["moments"][0]["start"], 1.0, "{moments}");
    let text = moments["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("sound.mp4  0:01–0:02  said: Turn left."), "{text}");
    let asked = json!({"question": "Which way do they turn?", "max_new_tokens": 8});
    let answer = tool("ask_library", asked, &mut notifications);
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("[1] ") && text.ends_with("sound.mp4  0:01–0:02\n"), "{answer}");
    assert_eq!(answer["structuredContent"]["moments"][0]["number"], 1);
    let nothing = tool("ask_library", json!({"question": "Is there a zebra?"}), &mut notifications);
    assert_eq!(nothing["content"][0]["text"], "nothing found");

    // What the model that calls can react to.
    for (name, arguments, words) in [
        ("caption_video", json!({"path": "/etc/passwd"}), "no such file"),
        ("caption_video", json!({"path": "demo", "method": "nope"}), "no method `nope`"),
        ("caption_video", json!({"path": "demo", "transcript": "/etc/passwd"}), "no such file"),
        ("compare_methods", json!({"path": "demo", "methods": []}), "at least one"),
        ("compare_methods", json!({"path": "demo", "methods": [7]}), "methods[0]: expected a string, got 7"),
        ("ask_video", json!({"path": "demo"}), "question: missing; expected a string"),
        ("find_moments", json!({"words": "-"}), "it contains no words"),
        ("find_moments", json!({"words": "left", "path": "/../etc"}), "path: not below"),
        ("ask_library", json!({"question": "?"}), "it contains no words"),
        ("ask_video", json!({"path": 7, "question": "x"}), "path: expected a string, got 7"),
        (
            "caption_video",
            json!({"path": "demo", "max_new_tokens": "many"}),
            "max_new_tokens: expected an integer from 1 to 65536, got \"many\"",
        ),
        ("caption_video", json!({"path": "demo", "top_p": 2}), "top_p: expected a number above 0, up to 1"),
        (
            "caption_video",
            json!({"path": "demo", "typo": 1}),
            "typo: unknown field; expected one of: path, prompt,",
        ),
    ] {
        let refused = tool(name, arguments, &mut notifications);
        let error = refused["content"][0]["text"].as_str().unwrap();
        assert!(refused["isError"] == true && error.contains(words), "{refused}");
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
