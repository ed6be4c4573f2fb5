//! The messages of a conversation, as templates get them.

use std::borrow::Cow;

use minijinja::{Error, ErrorKind, Value, context, value::Serde};
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};

use super::{ChatTemplate, Question, TemplateError};
use crate::text::TextTokenizer;
use specreel_record::ToolCall;

/// A message; the first of the user comes with the video.
#[derive(Clone)]
pub(super) struct Message<'a> {
    role: &'static str,
    has_video: bool,
    /// None if it only calls tools.
    pub text: Option<Cow<'a, str>>,
    calls: &'a [ToolCall],
}

impl<'a> Question<'a> {
    /// The system message if there is one, then questions and answers in turn, with the calls of tools in between.
    pub(super) fn messages(&self) -> Vec<Message<'a>> {
        let Self { before, text, system, .. } = *self;
        let mut messages = Vec::new();
        let mut has_video = true;
        let mut say = |role, text: Option<&'a str>, calls| {
            let has_video = role == "user" && std::mem::take(&mut has_video);
            messages.push(Message { role, has_video, text: text.map(Cow::Borrowed), calls });
        };
        if let Some(system) = system {
            say("system", Some(system), &[]);
        }
        for turn in before {
            say("user", Some(&turn.prompt), &[]);
            for called in &turn.calls {
                let text = Some(&*called.text).filter(|text| !text.trim().is_empty());
                say("assistant", text, &called.calls);
                called.results.iter().for_each(|result| say("tool", Some(result), &[]));
            }
            if turn.calls.is_empty() || !turn.answer.trim().is_empty() {
                say("assistant", Some(&turn.answer), &[]);
            }
        }
        say("user", Some(text), &[]);
        messages
    }
}

impl Message<'_> {
    /// The message with another text.
    pub(super) fn with_text(&self, text: Option<String>) -> Self {
        Self { text: text.map(Cow::Owned), ..*self }
    }

    pub(super) fn value(&self) -> Value {
        let Self { role, has_video, ref text, calls } = *self;
        let content = match text {
            None => Value::from(""),
            Some(text) => {
                let video = has_video.then(|| context! { type => "video" });
                let text = context! { type => "text", text => &**text };
                video.into_iter().chain([text]).collect()
            }
        };
        if calls.is_empty() {
            return context! { role => role, content => content };
        }
        let calls: Vec<Value> = calls
            .iter()
            .map(|ToolCall { name, arguments }| {
                let arguments = Value::from(Serde(arguments));
                context! { type => "function", function => context! { name => &**name, arguments => arguments } }
            })
            .collect();
        context! { role => role, content => content, tool_calls => calls }
    }
}

impl ChatTemplate {
    /// Check that the template has a form for the calls of a conversation, and that none of them holds special tokens: unlike other
    /// texts, calls are rendered as they are.
    pub(super) fn check_tools(
        &self,
        question: &Question<'_>,
        tokenizer: &TextTokenizer,
    ) -> Result<(), TemplateError> {
        let mut calls = question.before.iter().flat_map(|turn| &turn.calls).peekable();
        if calls.peek().is_some() && !self.offers_tools() {
            return Err(TemplateError::NoTools { origin: self.origin.clone() });
        }
        for ToolCall { name, arguments } in calls.flat_map(|calls| &calls.calls) {
            // Special tokens hold nothing that JSON escapes.
            let arguments = serde_json::to_string(arguments).unwrap_or_default();
            let token = tokenizer.added().find(|token| name.contains(*token) || arguments.contains(*token));
            if let Some(token) = token {
                return Err(TemplateError::CallWithToken { name: name.clone(), token: token.to_owned() });
            }
        }
        Ok(())
    }
}

/// JSON as Python writes it: with blanks after commas and colons, and nothing escaped for HTML.
#[expect(clippy::needless_pass_by_value, reason = "the signature of filters")]
pub(super) fn to_json(value: Value) -> Result<String, Error> {
    let mut out = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut out, Spaced));
    let failed = |e: String| Error::new(ErrorKind::BadSerialization, e);
    written.map_err(|e| failed(e.to_string()))?;
    String::from_utf8(out).map_err(|e| failed(e.to_string()))
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}
