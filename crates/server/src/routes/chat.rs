//! `POST /v1/chat/completions`: OpenAI's older API.

use axum::response::sse::Event as SseEvent;
use serde::Serialize;

use super::dialect::Dialect;
use super::sse::data;
use crate::answer::Added;
use crate::api::{self, Chat, ChatRequest, Choice, Chunk, ChunkChoice, Delta, Logprobs, MessageOut, Report};
use crate::{error::ApiError, session::Session};

#[derive(Default)]
pub struct Completions;

impl Dialect for Completions {
    const ID: &'static str = "chatcmpl-";

    fn read(body: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
        api::read(body, default_temperature)
    }

    fn whole(session: &Session, text: String, mut all: Added) -> impl Serialize {
        let logprobs = session.logprobs(&mut all);
        let Added { thinking, tokens, .. } = all;
        let message = MessageOut {
            role: "assistant",
            content: text,
            reasoning_content: Some(thinking).filter(|thinking| !thinking.is_empty()),
            refusal: None,
        };
        let finish_reason = session.answer.finish_reason().unwrap_or("stop");
        Chat {
            id: session.id.clone(),
            object: "chat.completion",
            created: session.created,
            model: session.model.clone(),
            choices: [Choice { index: 0, message, logprobs, finish_reason }],
            usage: session.answer.usage(),
            specreel: session.answer.report(tokens),
        }
    }

    fn begin(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        let delta = Delta { role: Some("assistant"), content: Some(String::new()), ..Delta::default() };
        sent.extend(chunk(session, delta, None, None, None));
    }

    fn part(&mut self, session: &Session, mut added: Added, sent: &mut Vec<SseEvent>) {
        let logprobs = session.logprobs(&mut added);
        let Added { text, thinking, tokens, row, .. } = added;
        let delta = Delta {
            role: None,
            content: Some(text).filter(|text| !text.is_empty()),
            reasoning_content: Some(thinking).filter(|thinking| !thinking.is_empty()),
        };
        sent.extend(chunk(session, delta, logprobs, None, Some(Report { tokens, row, run: None })));
    }

    fn end(&mut self, session: &Session, sent: &mut Vec<SseEvent>) {
        let answer = &session.answer;
        let report = answer.report(Vec::new());
        sent.extend(chunk(session, Delta::default(), None, answer.finish_reason(), Some(report)));
        if session.include_usage {
            sent.extend(data(&Chunk { usage: Some(answer.usage()), ..empty(session) }));
        }
        sent.push(done());
    }

    fn failed(&mut self, _: &Session, error: &ApiError, sent: &mut Vec<SseEvent>) {
        sent.extend(data(&error.body()));
        sent.push(done());
    }
}

fn done() -> SseEvent {
    SseEvent::default().data("[DONE]")
}

fn empty(session: &Session) -> Chunk {
    let Session { id, created, model, .. } = session;
    Chunk {
        id: id.clone(),
        object: "chat.completion.chunk",
        created: *created,
        model: model.clone(),
        choices: Vec::new(),
        usage: None,
        specreel: None,
    }
}

fn chunk(
    session: &Session,
    delta: Delta,
    logprobs: Option<Logprobs>,
    finish_reason: Option<&'static str>,
    specreel: Option<Report>,
) -> Option<SseEvent> {
    let choices = vec![ChunkChoice { index: 0, delta, logprobs, finish_reason }];
    data(&Chunk { choices, specreel, ..empty(session) })
}
