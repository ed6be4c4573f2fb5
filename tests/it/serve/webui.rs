//! Requests as Open WebUI 0.12 sends them to a connection of the kind OpenAI.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use super::{
    base64,
    server::{Server, chunks},
};
use crate::cli::Program;

fn picture() -> String {
    let mut png = Cursor::new(Vec::new());
    RgbImage::from_pixel(160, 120, Rgb([255, 60, 60])).write_to(&mut png, ImageFormat::Png).unwrap();
    format!("data:image/png;base64,{}", base64(png.get_ref()))
}

/// Tools go along with every question of a chat.
fn chat(messages: Value) -> Value {
    let parameters = json!({"properties": {"days_ago": {"default": 0, "type": "integer"}}, "type": "object"});
    let tool = json!({"name": "calculate_timestamp", "description": "Get the current Unix timestamp.", "parameters": parameters});
    json!({
        "stream": true, "model": "specreel", "messages": messages, "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": tool}],
    })
}

#[test]
fn a_chat_about_a_picture_is_answered_and_text_alone_is_refused_in_words() {
    let server = Server::start(Program::new(), &["--max-new-tokens", "8"]).with_key("none");
    let models = server.get("/v1/models").1;
    assert_eq!(models["data"][1]["id"], "specreel");

    let text = |text: &str| json!({"type": "text", "text": text});
    let first = json!({"role": "user", "content": [text("What is this?"), {"type": "image_url", "image_url": {"url": picture()}}]});
    let answer = |messages: Value| {
        let stream = chunks(&server.raw("/v1/chat/completions", &chat(messages)));
        let [.., last, usage, done] = &stream[..] else { panic!("{stream:?}") };
        assert_eq!((&usage.1["choices"], &done.1), (&json!([]), &json!("[DONE]")));
        assert!(usage.1["usage"]["completion_tokens"].as_u64().unwrap() > 0, "{usage:?}");
        assert!(last.1["choices"][0]["finish_reason"].is_string(), "{last:?}");
        let notes = last.1["specreel"]["notes"].to_string();
        assert!(notes.contains("the tools in the request are not used"), "{notes}");
        let parts = stream.iter().filter_map(|(_, part)| part["choices"][0]["delta"]["content"].as_str());
        parts.collect::<String>()
    };
    let said = answer(json!([first]));
    assert!(!said.is_empty());
    let second = json!({"role": "user", "content": "And its color?"});
    let system = json!({"role": "system", "content": "Be brief."});
    answer(json!([system, first, {"role": "assistant", "content": said}, second]));
    // After an answer that failed.
    answer(json!([first, {"role": "assistant", "content": ""}, second]));

    // Its titles, tags and next questions are asked for without the picture, and "Continue" ends with an answer.
    let title = json!({"role": "user", "content": "### Task:\nGenerate a concise title summarizing the chat history."});
    for (messages, words) in [
        (json!([title]), "there is no video"),
        (json!([first, {"role": "assistant", "content": "A red"}]), "the last message is a question"),
    ] {
        let (status, error) = server.post(
            "/v1/chat/completions",
            &json!({"model": "specreel", "messages": messages, "stream": false, "max_completion_tokens": 1000}),
        );
        assert_eq!(status, 400);
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    }
}
