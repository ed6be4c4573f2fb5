//! `POST /v1/responses`: OpenAI's newer API. Responses are not stored.

use axum::response::sse::Event as SseEvent;
use serde::Serialize;
use serde_json::{Value, json};

use super::{dialect::Dialect, sse::typed};
use crate::answer::{Added, Piece};
use crate::api::{ChatRequest, Logprob, Report, responses};
use crate::{error::ApiError, session::Session};

/// A stream of events, which are numbered.
#[derive(Default)]
pub struct Responses {
    sent: u64,
    /// Items that are complete.
    output: Vec<Value>,
    open: Option<Item>,
}

/// The item that is being written: a message, or what is thought before it.
struct Item {
    thinking: bool,
    text: String,
    logprobs: Vec<Logprob>,
}

impl Dialect for Responses {
    const ID: &'static str = "resp_";

    fn read(body: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
        responses::read(body, default_temperature)
    }

    fn whole(session: &Session, text: String, all: Added) -> impl Serialize {
        let Added { thinking, tokens, logprobs, .. } = all;
        let thoughts = Item { thinking: true, text: thinking, logprobs: Vec::new() };
        let message = Item { thinking: false, text, logprobs };
        let items = [thoughts, message].into_iter().filter(|item| !item.thinking || !item.text.is_empty());
        let output = items.map(|item| item.value(session, "completed")).collect();
        ended(session, output, session.answer.report(tokens))
    }

    fn begin(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        for kind in ["response.created", "response.in_progress"] {
            let response = response(session, "in_progress", Vec::new());
            self.send(kind, json!({ "response": response }), sent);
        }
    }

    fn part(&mut self, session: &Session, added: Added, sent: &mut Vec<SseEvent>) {
        for piece in added.pieces() {
            self.add(session, piece, sent);
        }
    }

    fn end(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        if self.open.is_none() && self.output.is_empty() {
            self.open(session, false, sent);
        }
        self.close(session, sent);
        let response = ended(session, std::mem::take(&mut self.output), session.answer.report(Vec::new()));
        let kind = format!("response.{}", response["status"].as_str().unwrap_or_default());
        self.send(&kind, json!({ "response": response }), sent);
    }

    fn failed(&mut self, session: &Session, error: &ApiError, sent: &mut Vec<SseEvent>) {
        let mut response = response(session, "failed", std::mem::take(&mut self.output));
        response["error"] = json!({ "code": error.code, "message": error.message });
        self.send("response.failed", json!({ "response": response }), sent);
    }
}

impl Responses {
    fn send(&mut self, kind: &str, mut event: Value, sent: &mut Vec<SseEvent>) {
        event["sequence_number"] = self.sent.into();
        self.sent += 1;
        sent.extend(typed(kind, event));
    }

    /// Send something about the open item's only part.
    fn send_part(&mut self, kind: &str, session: &Session, more: Value, sent: &mut Vec<SseEvent>) {
        let Some(item) = &self.open else { return };
        let mut event =
            json!({ "item_id": item.id(session), "output_index": self.output.len(), "content_index": 0 });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        self.send(kind, event, sent);
    }

    /// Add a piece to the message, or to what is thought.
    fn add(&mut self, session: &Session, piece: Piece, sent: &mut Vec<SseEvent>) {
        let Piece { thinking, text, logprobs, report } = piece;
        if self.open.as_ref().is_none_or(|item| item.thinking != thinking) {
            self.close(session, sent);
            self.open(session, thinking, sent);
        }
        let mut more = json!({ "delta": text, "specreel": report });
        let kind = if thinking { "response.reasoning_text.delta" } else { "response.output_text.delta" };
        if !thinking {
            more["logprobs"] = json!(logprobs);
        }
        if let Some(item) = &mut self.open {
            item.text.push_str(&text);
            item.logprobs.extend(logprobs);
        }
        self.send_part(kind, session, more, sent);
    }

    fn open(&mut self, session: &Session, thinking: bool, sent: &mut Vec<SseEvent>) {
        let item = Item { thinking, text: String::new(), logprobs: Vec::new() };
        let mut value = item.value(session, "in_progress");
        let part = value["content"][0].take();
        value["content"] = json!([]);
        self.open = Some(item);
        let added = json!({ "output_index": self.output.len(), "item": value });
        self.send("response.output_item.added", added, sent);
        self.send_part("response.content_part.added", session, json!({ "part": part }), sent);
    }

    /// Complete the open item.
    fn close(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        let Some(item) = &self.open else { return };
        let value = item.value(session, "completed");
        let (thinking, text) = (item.thinking, item.text.clone());
        let (kind, done) = match thinking {
            true => ("response.reasoning_text.done", json!({ "text": text })),
            false => ("response.output_text.done", json!({ "text": text, "logprobs": item.logprobs })),
        };
        self.send_part(kind, session, done, sent);
        self.send_part("response.content_part.done", session, json!({ "part": value["content"][0] }), sent);
        let done = json!({ "output_index": self.output.len(), "item": value });
        self.send("response.output_item.done", done, sent);
        self.output.push(value);
        self.open = None;
    }
}

impl Item {
    fn id(&self, session: &Session) -> String {
        let number = session.id.trim_start_matches(Responses::ID);
        format!("{}{number}", if self.thinking { "rs_" } else { "msg_" })
    }

    fn value(&self, session: &Session, status: &str) -> Value {
        let Self { thinking, text, logprobs } = self;
        let id = self.id(session);
        match thinking {
            true => {
                let content = json!([{ "type": "reasoning_text", "text": text }]);
                json!({ "type": "reasoning", "id": id, "summary": [], "content": content, "status": status })
            }
            false => {
                let content =
                    json!([{ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs }]);
                json!({ "type": "message", "id": id, "role": "assistant", "content": content, "status": status })
            }
        }
    }
}

/// The response of a run that has come to its end.
fn ended(session: &Session, output: Vec<Value>, report: Report) -> Value {
    let is_cut = session.answer.finish_reason() == Some("length");
    let mut response = response(session, if is_cut { "incomplete" } else { "completed" }, output);
    if is_cut {
        response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    let usage = session.answer.usage();
    response["usage"] = json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.prompt_tokens_details.cached_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": usage.completion_tokens_details,
        "total_tokens": usage.total_tokens,
    });
    response["specreel"] = json!(report);
    response
}

fn response(session: &Session, status: &str, output: Vec<Value>) -> Value {
    let Session { id, created, model, max_new_tokens, .. } = session;
    json!({
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": max_new_tokens,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": false,
        "previous_response_id": null,
        "store": false,
        "temperature": null,
        "text": { "format": { "type": "text" } },
        "tool_choice": "none",
        "tools": [],
        "top_p": null,
        "truncation": "disabled",
        "usage": null,
    })
}
