//! `POST /v1/messages`: Anthropic's API.

use axum::response::sse::Event as SseEvent;
use serde::Serialize;
use serde_json::{Value, json};

use super::{dialect::Dialect, sse::typed};
use crate::answer::{Added, Piece};
use crate::api::{ChatRequest, messages};
use crate::{error::ApiError, session::Session};

/// A stream of blocks.
#[derive(Default)]
pub struct Messages {
    /// Blocks that are complete.
    blocks: usize,
    /// Whether the open block is what is thought; none if no block is open.
    open: Option<bool>,
}

impl Dialect for Messages {
    const ID: &'static str = "msg_";

    fn read(body: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
        messages::read(body, default_temperature)
    }

    fn whole(session: &Session, text: String, all: Added) -> impl Serialize {
        let Added { thinking, tokens, .. } = all;
        let thoughts = (!thinking.is_empty()).then(|| block(true, &thinking));
        let content: Vec<Value> = thoughts.into_iter().chain([block(false, &text)]).collect();
        let mut message = message(session);
        message["content"] = content.into();
        for (field, value) in ending(session) {
            message[field] = value;
        }
        message["specreel"] = json!(session.answer.report(tokens));
        message
    }

    fn begin(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        sent.extend(typed("message_start", json!({ "message": message(session) })));
    }

    fn part(&mut self, _: &Session, added: Added, sent: &mut Vec<SseEvent>) {
        for piece in added.pieces() {
            self.add(piece, sent);
        }
    }

    fn end(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        self.close(sent);
        let [reason, stop, (_, usage)] = ending(session);
        let delta = Value::Object(
            [reason, stop].map(|(field, value)| (field.to_owned(), value)).into_iter().collect(),
        );
        let report = session.answer.report(Vec::new());
        sent.extend(typed("message_delta", json!({ "delta": delta, "usage": usage, "specreel": report })));
        sent.extend(typed("message_stop", json!({})));
    }

    fn failed(&mut self, _: &Session, error: &ApiError, sent: &mut Vec<SseEvent>) {
        sent.extend(typed("error", json!(error.body())));
    }
}

impl Messages {
    /// Add a piece to the answer, or to what is thought.
    fn add(&mut self, piece: Piece, sent: &mut Vec<SseEvent>) {
        let Piece { thinking, text, report, .. } = piece;
        if self.open != Some(thinking) {
            self.close(sent);
            self.open = Some(thinking);
            let start = json!({ "index": self.blocks, "content_block": block(thinking, "") });
            sent.extend(typed("content_block_start", start));
        }
        let delta = match thinking {
            true => json!({ "type": "thinking_delta", "thinking": text }),
            false => json!({ "type": "text_delta", "text": text }),
        };
        let delta = json!({ "index": self.blocks, "delta": delta, "specreel": report });
        sent.extend(typed("content_block_delta", delta));
    }

    /// Complete the open block.
    fn close(&mut self, sent: &mut Vec<SseEvent>) {
        if self.open.take().is_some() {
            sent.extend(typed("content_block_stop", json!({ "index": self.blocks })));
            self.blocks += 1;
        }
    }
}

fn block(thinking: bool, text: &str) -> Value {
    match thinking {
        // Only Anthropic signs what its models think.
        true => json!({ "type": "thinking", "thinking": text, "signature": "" }),
        false => json!({ "type": "text", "text": text }),
    }
}

/// A message that has no content yet.
fn message(session: &Session) -> Value {
    json!({
        "id": session.id,
        "type": "message",
        "role": "assistant",
        "model": session.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(session),
    })
}

/// How a message ends.
fn ending(session: &Session) -> [(&'static str, Value); 3] {
    let stop = session.answer.stopped_by(&session.stop);
    let reason = match (&stop, session.answer.finish_reason()) {
        (Some(_), _) => "stop_sequence",
        (None, Some("length")) => "max_tokens",
        (None, _) => "end_turn",
    };
    [("stop_reason", reason.into()), ("stop_sequence", stop.into()), ("usage", usage(session))]
}

/// Tokens that an earlier request had read are counted apart.
fn usage(session: &Session) -> Value {
    let usage = session.answer.usage();
    let cached = usage.prompt_tokens_details.cached_tokens;
    json!({
        "input_tokens": usage.prompt_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
    })
}
