use super::*;
use crate::api::{self, messages, responses};
use specreel_record::ToolCall;

fn said(messages: &str) -> Result<Conversation, ApiError> {
    let request = api::read(format!(r#"{{"messages": {messages}}}"#).as_bytes(), 0.0)?;
    of(request)
}

fn of(request: ChatRequest) -> Result<Conversation, ApiError> {
    conversation(request.system, request.messages, "Describe it.")
}

const VIDEO: &str = r#"{"type": "video_url", "video_url": {"url": "demo"}}"#;

#[test]
fn messages_become_turns_about_one_video() {
    let messages = format!(
        r#"[
        {{"role": "system", "content": "Be kind."}},
        {{"role": "developer", "content": [{{"type": "text", "text": "Be brief."}}]}},
        {{"role": "user", "content": [{VIDEO}]}},
        {{"role": "assistant", "content": "A circle."}},
        {{"role": "user", "content": [{{"type": "text", "text": "Sure?"}}, {VIDEO}]}},
        {{"role": "user", "content": " Really? "}}
    ]"#
    );
    let turn = Turn { prompt: "Describe it.".into(), answer: "A circle.".into(), ..Turn::default() };
    let expected = Conversation {
        system: Some("Be kind.\n\nBe brief.".into()),
        before: vec![turn],
        prompt: "Sure?\n Really?".into(),
        video: Source::Url("demo".into()),
        at: "messages[2].content[0].video_url".into(),
    };
    assert_eq!(said(&messages).unwrap(), expected);
}

#[test]
fn all_kinds_of_parts_name_a_video() {
    let url = |url: &str| Source::Url(url.into());
    for (part, source) in [
        (r#"{"type": "video_url", "video_url": "demo"}"#, url("demo")),
        (r#"{"type": "image_url", "image_url": {"url": "a.png", "detail": "low"}}"#, url("a.png")),
        (
            r#"{"type": "input_video", "input_video": {"data": "AAAA", "format": "mp4"}}"#,
            Source::Data("AAAA".into()),
        ),
        (r#"{"type": "input_video", "input_video": {"url": "https://a.b/c"}}"#, url("https://a.b/c")),
        (r#"{"type": "file", "file": {"file_id": "file-1-2"}}"#, url("file-1-2")),
        (
            r#"{"type": "file", "file": {"file_data": "data:video/mp4;base64,AA", "filename": "a"}}"#,
            url("data:video/mp4;base64,AA"),
        ),
    ] {
        let messages =
            format!(r#"[{{"role": "user", "content": [{part}, {{"type": "text", "text": "x"}}]}}]"#);
        assert_eq!(said(&messages).unwrap().video, source, "{part}");
    }
}

#[test]
fn what_is_wrong_with_messages_is_named() {
    let user = |content: &str| format!(r#"{{"role": "user", "content": {content}}}"#);
    let with_video = user(&format!("[{VIDEO}]"));
    let answer = r#"{"role": "assistant", "content": "x"}"#;
    let other = user(r#"[{"type": "video_url", "video_url": {"url": "demo:2"}}]"#);
    for (messages, param) in [
        ("[]".to_owned(), "messages"),
        (format!("[{}]", user("\"hello\"")), "messages"),
        (format!("[{with_video}, {answer}]"), "messages[1].role"),
        (format!("[{answer}]"), "messages[0].role"),
        (format!("[{with_video}, {{\"role\": \"system\", \"content\": \"x\"}}]"), "messages[1].role"),
        (format!("[{with_video}, {answer}, {other}]"), "messages[2].content[0].video_url"),
        (format!("[{}, {answer}, {with_video}]", user("\"hello\"")), "messages[2].content[0].video_url"),
        (
            format!("[{{\"role\": \"assistant\", \"content\": [{VIDEO}]}}]"),
            "messages[0].content[0].video_url",
        ),
        (
            format!("[{}]", user(r#"[{"type": "input_video", "input_video": {}}]"#)),
            "messages[0].content[0].input_video",
        ),
        (format!("[{}]", user(r#"[{"type": "audio"}]"#)), "messages[0].content[0].type"),
        (format!("[{}]", user(r#"[{"type": "text"}]"#)), "messages[0].content[0].text"),
        (format!("[{}]", user("7")), "messages[0].content"),
        ("[{\"role\": \"tool\"}]".to_owned(), "messages[0].role"),
        ("7".to_owned(), "messages"),
    ] {
        let error = said(&messages).unwrap_err();
        assert_eq!(
            (error.param.as_deref(), error.status.as_u16()),
            (Some(param), 400),
            "{messages}: {error:?}"
        );
        assert!(!error.message.is_empty());
    }
}

const CALL: &str = r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function",
    "function": {"name": "now", "arguments": "{\"zone\": \"UTC\"}"}}]}"#;
const RESULT: &str =
    r#"{"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "12:30"}]}"#;

#[test]
fn calls_of_tools_belong_to_the_turn_in_which_they_were_made() {
    let first = format!(r#"{{"role": "user", "content": [{VIDEO}, {{"type": "text", "text": "When?"}}]}}"#);
    let answer = r#"{"role": "assistant", "content": "At noon."}"#;
    let next = r#"{"role": "user", "content": "Sure?"}"#;
    let arguments = serde_json::json!({"zone": "UTC"}).as_object().unwrap().clone();
    let called = ToolCalls {
        text: String::new(),
        calls: vec![ToolCall { name: "now".into(), arguments }],
        results: vec!["12:30".into()],
    };
    let turn =
        |calls: Vec<ToolCalls>, answer: &str| Turn { prompt: "When?".into(), calls, answer: answer.into() };
    for (messages, expected) in [
        (format!("[{first}, {CALL}, {RESULT}, {answer}, {next}]"), turn(vec![called.clone()], "At noon.")),
        (
            format!("[{first}, {CALL}, {RESULT}, {CALL}, {RESULT}, {answer}, {next}]"),
            turn(vec![called.clone(), called.clone()], "At noon."),
        ),
        // The user continues without an answer.
        (format!("[{first}, {CALL}, {RESULT}, {next}]"), turn(vec![called.clone()], "")),
    ] {
        let said = said(&messages).unwrap();
        assert_eq!((said.before, &*said.prompt), (vec![expected], "Sure?"), "{messages}");
    }
    for (messages, param, words) in [
        (
            format!("[{first}, {RESULT}]"),
            "messages[1].role",
            "follows a message of the assistant with `tool_calls`",
        ),
        (format!("[{RESULT}]"), "messages[0].role", "follows a message of the assistant with `tool_calls`"),
        (format!("[{first}, {answer}, {RESULT}]"), "messages[2].role", "`tool_calls`"),
        (format!("[{first}, {CALL}]"), "messages[1].role", "write what they returned into a question"),
        (
            format!("[{first}, {CALL}, {RESULT}]"),
            "messages[2].role",
            "write what they returned into a question",
        ),
        (format!("[{CALL}]"), "messages[0].role", "an answer follows a question"),
        (
            format!(r#"[{{"role": "user", "content": "When?"}}, {CALL}, {RESULT}, {first}]"#),
            "messages[3].content[0].video_url",
            "the video comes with the first question",
        ),
    ] {
        let error = said(&messages).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{messages}: {error:?}");
        assert!(error.message.contains(words), "{}", error.message);
    }
}

#[test]
fn other_apis_ask_the_same() {
    let chat = said(&format!(
        r#"[
        {{"role": "system", "content": "Be kind."}},
        {{"role": "user", "content": [{VIDEO}, {{"type": "text", "text": "What is it?"}}]}},
        {{"role": "assistant", "content": "", "tool_calls": [{{"function": {{"name": "now", "arguments": "{{\"zone\": 1}}"}}}}]}},
        {{"role": "tool", "content": "12:30"}},
        {{"role": "assistant", "content": "A clock."}},
        {{"role": "user", "content": "Sure?"}}
    ]"#
    ));
    let responses = responses::read(
        br#"{
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": [{"type": "input_video", "video_url": "demo"}, {"type": "input_text", "text": "What is it?"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "a", "name": "now", "arguments": "{\"zone\": 1}"},
            {"type": "function_call_output", "call_id": "a", "output": "12:30"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A clock.", "annotations": []}]},
            {"role": "user", "content": "Sure?"}
        ]}"#,
        0.0,
    );
    let messages = messages::read(
        br#"{
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": [
                {"type": "video", "source": {"type": "url", "url": "demo"}}, {"type": "text", "text": "What is it?"}
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "tool_use", "id": "a", "name": "now", "input": {"zone": 1}}
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "12:30"}]},
            {"role": "assistant", "content": "A clock."},
            {"role": "user", "content": "Sure?"}
        ]}"#,
        0.0,
    );
    let chat = chat.unwrap();
    assert_eq!((chat.before.len(), chat.before[0].calls.len()), (1, 1));
    for (request, at) in [(responses, "input[0].content[0]"), (messages, "messages[0].content[0].source")] {
        let request = request.unwrap();
        assert_eq!(request.notes, [""; 0]);
        assert_eq!(of(request).unwrap(), Conversation { at: at.into(), ..chat.clone() });
    }
    let problem = of(responses::read(br#"{"input": "What is it?"}"#, 0.0).unwrap()).unwrap_err();
    assert_eq!((problem.param.as_deref(), problem.code), (Some("input"), "missing_video"));
}
