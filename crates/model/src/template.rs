//! The checkpoint's chat template: one video and the user's prompt become prompt ids.
//!
//! The user's text never becomes special tokens. The template is rendered with a placeholder for the prompt; the text between
//! the special tokens nearest to the placeholder is encoded together with the prompt as plain text, the rest with special
//! tokens recognized. Tokens merge across the boundary as in one string, and a typed `<|im_end|>` stays ten characters.
//! Templates are untrusted: they run with an instruction limit and without file access.

mod conversation;
mod error;

use std::path::Path;

use minijinja::{Environment, ErrorKind, Value, context, syntax::SyntaxConfig};
use serde_json::Value as Json;

use super::text::TextTokenizer;
use conversation::Message;
pub use error::TemplateError;
use specreel_checkpoint::files;
pub use specreel_record::{ToolCall, ToolCalls, Turn};

/// Maximum number of instructions of a template; the built-in ones take a few hundred.
const FUEL: u64 = 100_000;

/// Maximum length of a template's output, in bytes.
const MAX_OUTPUT: usize = 1 << 20;

/// Maximum size of a template file, in bytes.
const MAX_FILE: u64 = 1 << 24;

/// The source without `{% generation %}` tags: transformers' own extension, which marks the assistant's text and does not
/// change the output.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        out.push_str(before);
        match word {
            // A no-op tag, so that whitespace around it is trimmed in the same way.
            "generation" | "endgeneration" => {
                out.push_str(&tag.replacen(word, "set generation_mark = 0", 1));
            }
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

/// The placeholder of the `number`-th text while a template is rendered: private-use characters, which templates neither
/// contain nor transform.
fn placeholder(number: usize) -> String {
    let own = char::from_u32(0xf000 + (number as u32 & 0x7ff)).unwrap_or('\u{f8ff}');
    format!("\u{e000}{own}\u{e000}")
}

/// What a model is asked about a clip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question<'a> {
    /// Earlier questions and answers about the same clip.
    pub before: &'a [Turn],
    pub text: &'a str,
    /// The system message in front of the conversation; none leaves the template's own, if it has one.
    pub system: Option<&'a str>,
    /// True if the model shall think before it answers, where the template offers that.
    pub thinking: bool,
    /// How much it shall think, in the words of its template; none is the template's default.
    pub effort: Option<&'a str>,
}

/// A chat template, not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTemplate {
    source: String,
    origin: String,
    /// The token that begins a text.
    bos: Option<String>,
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    let failed = |source| TemplateError::Read { path: path.into(), source };
    match files::text(path, MAX_FILE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// `chat_template` of a JSON file: a string, or a list of named templates of which the one named `default` is used.
fn from_json(path: &Path) -> Result<Option<String>, TemplateError> {
    let refuse = |problem: String| TemplateError::Parse { path: path.into(), problem };
    let Some(text) = read(path)? else { return Ok(None) };
    let json: Json = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
    let named = |entry: &Json| {
        (entry.get("name")?.as_str()? == "default")
            .then(|| entry.get("template")?.as_str().map(str::to_owned))?
    };
    match json.get("chat_template") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(template)) => Ok(Some(template.clone())),
        Some(Json::Array(entries)) => match entries.iter().find_map(named) {
            Some(template) => Ok(Some(template)),
            None => Err(refuse("`chat_template` has no template named `default`".into())),
        },
        Some(_) => Err(refuse("`chat_template` is neither a string nor a list".into())),
    }
}

/// The tokenizer's settings.
const SETTINGS: &str = "tokenizer_config.json";

/// The token that begins a text, if the tokenizer's settings name one: a string, or an object with its `content`.
fn bos_token(dir: &Path) -> Result<Option<String>, TemplateError> {
    let path = dir.join(SETTINGS);
    let Some(text) = read(&path)? else { return Ok(None) };
    let json: Json =
        serde_json::from_str(&text).map_err(|e| TemplateError::Parse { path, problem: e.to_string() })?;
    let token = json.get("bos_token");
    Ok(token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str())).map(str::to_owned))
}

/// Collects a template's output, up to [`MAX_OUTPUT`] bytes.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::Error::other("the output is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ChatTemplate {
    /// A template from its source; `origin` names it in errors.
    pub fn new(source: impl Into<String>, origin: impl Into<String>) -> Self {
        Self { source: source.into(), origin: origin.into(), bos: None }
    }

    /// The same with the token that begins a text, which some templates write.
    #[must_use]
    pub fn with_bos(self, bos: Option<String>) -> Self {
        Self { bos, ..self }
    }

    /// The template of the checkpoint in `dir`, from `chat_template.jinja`, `chat_template.json` or `tokenizer_config.json`;
    /// `fallback` if none of these has one.
    pub fn load(dir: &Path, fallback: &str) -> Result<Self, TemplateError> {
        let bos = bos_token(dir)?;
        let path = dir.join("chat_template.jinja");
        if let Some(source) = read(&path)? {
            return Ok(Self::new(source, path.display().to_string()).with_bos(bos));
        }
        for file in ["chat_template.json", SETTINGS] {
            let path = dir.join(file);
            if let Some(source) = from_json(&path)? {
                return Ok(Self::new(source, path.display().to_string()).with_bos(bos));
            }
        }
        Ok(Self::new(fallback, "the built-in family").with_bos(bos))
    }

    /// True if answers can begin with thoughts, or without them.
    pub fn offers_thinking(&self) -> bool {
        self.source.contains("enable_thinking")
    }

    /// True if the template can ask for more or less thinking.
    pub fn offers_effort(&self) -> bool {
        self.source.contains("reasoning_effort")
    }

    /// True if the template has a form for calls of tools.
    pub fn offers_tools(&self) -> bool {
        self.source.contains("tool_calls")
    }

    /// The conversation as text: one video, `prompt`, and the start of the answer, without thinking.
    pub fn render(&self, prompt: &str) -> Result<String, TemplateError> {
        let question = Question { text: prompt, ..Question::default() };
        self.render_all(&question.messages(), &question)
    }

    /// The messages as text, and the start of the next answer, with or without thinking as in `question`.
    fn render_all(&self, messages: &[Message<'_>], question: &Question<'_>) -> Result<String, TemplateError> {
        let failed = |error: minijinja::Error| {
            let origin = self.origin.clone();
            if error.kind() == ErrorKind::OutOfFuel {
                return TemplateError::Endless { origin };
            }
            let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
            TemplateError::Render { origin, problem: format!("{error}{line}") }
        };
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        // The whitespace rules of transformers.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(failed)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", conversation::to_json);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        let source = without_generation_tags(&self.source);
        let template = environment.template_from_named_str("chat", &source).map_err(failed)?;
        let messages: Vec<Value> = messages.iter().map(Message::value).collect();
        let context = context! {
            messages => messages, add_generation_prompt => true, enable_thinking => question.thinking,
            // Where templates have a default, it is for an undefined one.
            reasoning_effort => question.effort.map_or(Value::UNDEFINED, Value::from),
            bos_token => self.bos.as_deref().map_or(Value::UNDEFINED, Value::from),
        };
        let mut out = Bounded(Vec::new());
        template.render_captured_to(context, &mut out).map_err(failed)?;
        String::from_utf8(out.0)
            .map_err(|e| TemplateError::Render { origin: self.origin.clone(), problem: e.to_string() })
    }

    /// The prompt's ids, with a single video token in place of the video. [`TemplateError::Prompt`] if the template omits or
    /// repeats the prompt.
    pub fn ids(&self, tokenizer: &TextTokenizer, prompt: &str) -> Result<Vec<u32>, TemplateError> {
        self.ids_after(tokenizer, &[], prompt)
    }

    /// As [`Self::ids`], after earlier questions and answers about the same video.
    pub(crate) fn ids_after(
        &self,
        tokenizer: &TextTokenizer,
        before: &[Turn],
        prompt: &str,
    ) -> Result<Vec<u32>, TemplateError> {
        let question = Question { before, text: prompt, ..Question::default() };
        self.ids_with(tokenizer, &question, &|rendered| rendered)
    }

    /// The ids of a question's prompt; `rewrite` may change the rendered text, in which placeholders stand for questions and
    /// answers.
    pub(crate) fn ids_with(
        &self,
        tokenizer: &TextTokenizer,
        question: &Question<'_>,
        rewrite: &dyn Fn(String) -> String,
    ) -> Result<Vec<u32>, TemplateError> {
        self.check_tools(question, tokenizer)?;
        let said = question.messages();
        let texts: Vec<&str> = said.iter().filter_map(|message| message.text.as_deref()).collect();
        let placeholders: Vec<String> = (0..texts.len()).map(placeholder).collect();
        // Blanks around a text are the template's to keep or to trim.
        let blank = |text: &str, placeholder: &String| {
            let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
            format!("{}{placeholder}{}", &text[..start], &text[end.max(start)..])
        };
        let mut left = placeholders.iter();
        let shown = said.iter().map(|message| {
            message.with_text(message.text.as_deref().and_then(|text| Some(blank(text, left.next()?))))
        });
        let rendered = rewrite(self.render_all(&shown.collect::<Vec<_>>(), question)?);
        let mut ids = Vec::new();
        // Text between special tokens, encoded in one piece, so that tokens merge across its parts.
        let mut plain = String::new();
        let mut rest = rendered.as_str();
        for (i, (placeholder, text)) in placeholders.iter().zip(&texts).enumerate() {
            let parts: Vec<&str> = rest.split(placeholder.as_str()).collect();
            let [segment, after] = parts[..] else {
                let (origin, found) = (self.origin.clone(), parts.len().saturating_sub(1));
                return Err(match question.system.filter(|_| i == 0) {
                    Some(_) => TemplateError::System { origin, found },
                    None => TemplateError::Prompt { origin, found },
                });
            };
            let (first, last) = special_tokens(tokenizer, segment);
            if i == 0 {
                ids.extend(tokenizer.encode(&segment[..last])?);
                plain.push_str(&segment[last..]);
            } else if last == 0 {
                plain.push_str(segment);
            } else {
                plain.push_str(&segment[..first]);
                ids.extend(tokenizer.encode_plain(&std::mem::take(&mut plain))?);
                ids.extend(tokenizer.encode(&segment[first..last])?);
                plain.push_str(&segment[last..]);
            }
            plain.push_str(text.trim());
            rest = after;
        }
        let (first, _) = special_tokens(tokenizer, rest);
        plain.push_str(&rest[..first]);
        ids.extend(tokenizer.encode_plain(&plain)?);
        ids.extend(tokenizer.encode(&rest[first..])?);
        Ok(ids)
    }
}

/// Start of the first special token in a text and end of the last one; the text's length and 0 if there is none.
fn special_tokens(tokenizer: &TextTokenizer, text: &str) -> (usize, usize) {
    let (mut first, mut last) = (text.len(), 0);
    for token in tokenizer.added() {
        last = last.max(text.rfind(token).map_or(0, |at| at + token.len()));
        first = first.min(text.find(token).unwrap_or(text.len()));
    }
    (first, last)
}

#[cfg(test)]
mod published_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        family::{llava_onevision, qwen2_vl},
        testing::fixture,
    };
    use specreel_record::Failure;

    fn render(source: &str) -> Result<String, TemplateError> {
        ChatTemplate::new(source, "a test").render("P")
    }

    #[test]
    fn a_conversation_is_rendered_turn_by_turn() {
        for (source, wanted) in [
            (
                qwen2_vl::TEMPLATE,
                "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n\
                 <|vision_start|><|video_pad|><|vision_end|>Q<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n\
                 <|im_start|>user\nP<|im_end|>\n<|im_start|>assistant\n",
            ),
            (
                llava_onevision::TEMPLATE,
                "<|im_start|>user\n<video>\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n\
                 <|im_start|>user\nP<|im_end|>\n<|im_start|>assistant\n",
            ),
        ] {
            let before = [Turn { prompt: "Q".into(), answer: "A".into(), ..Turn::default() }];
            let question = Question { before: &before, text: "P", ..Question::default() };
            let text =
                ChatTemplate::new(source, "a test").render_all(&question.messages(), &question).unwrap();
            let loose = |text: &str| text.replace("\n", "").replace(' ', "");
            assert_eq!(loose(&text), loose(wanted));
        }
    }

    #[test]
    fn a_system_message_comes_first_or_is_refused() {
        let question = Question { text: "P", system: Some("S"), ..Question::default() };
        let text = ChatTemplate::new(qwen2_vl::TEMPLATE, "a test")
            .render_all(&question.messages(), &question)
            .unwrap();
        assert_eq!(
            text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n\
             <|vision_start|><|video_pad|><|vision_end|>P<|im_end|>\n<|im_start|>assistant\n"
        );
        let deaf = "{% for m in messages if m.role == 'user' %}{{ m.content[-1].text }}{% endfor %}";
        let tokenizer = TextTokenizer::load(&fixture("published/qwen"));
        let ids = ChatTemplate::new(deaf, "a test").ids_with(&tokenizer.unwrap(), &question, &|text| text);
        let failure = Failure::from(ids.unwrap_err());
        assert_eq!(
            failure.error,
            "the chat template of a test outputs the system message 0 times, expected 1"
        );
        assert!(failure.hint.unwrap().contains("put it into the prompt"));
    }

    #[test]
    fn generation_tags_change_nothing() {
        assert_eq!(
            render("a {%- generation -%} P {% endgeneration %} b {% if 0 %}{% endif %}").unwrap(),
            "aP  b "
        );
        assert!(
            matches!(render("P {% generation"), Err(TemplateError::Render { .. })),
            "an open tag is an error"
        );
        assert_eq!(render("{% generation %}{{ '\n' + 'x' }}{% endgeneration %}P").unwrap(), "\nxP");
    }

    #[test]
    fn the_llava_template_renders_as_documented() {
        assert_eq!(
            render(llava_onevision::TEMPLATE).unwrap(),
            "<|im_start|>user\n<video>\nP<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn invalid_and_endless_templates_are_errors() {
        for source in
            ["{% if %}", "{{ nothing.at.all }}", "{{ raise_exception('no videos') }}", "{{ 1 / 0 }}"]
        {
            assert!(matches!(render(source), Err(TemplateError::Render { .. })), "{source}");
        }
        assert!(render("{{ raise_exception('no videos') }}").unwrap_err().to_string().contains("no videos"));
        let endless = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
        assert!(matches!(render(endless), Err(TemplateError::Endless { .. })));
        // Too much output from few instructions.
        assert!(matches!(render("{{ 'ab' * 1000000 }}"), Err(TemplateError::Render { .. })));
        assert!(matches!(render("{{ 'ab' * 10000000000 }}"), Err(TemplateError::Render { .. })));
        let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
        assert!(render(deep).is_err());
    }

    #[test]
    fn an_effort_is_asked_for_where_the_template_has_one() {
        let source = "{% if enable_thinking %}{{ reasoning_effort|default('xhigh') }}{% endif %}";
        let template = ChatTemplate::new(source, "a test");
        assert!(template.offers_effort() && template.offers_thinking());
        let render = |thinking, effort| {
            let question = Question { text: "P", thinking, effort, ..Question::default() };
            template.render_all(&question.messages(), &question).unwrap()
        };
        assert_eq!([render(true, None), render(true, Some("low"))], ["xhigh", "low"]);
        assert_eq!([render(false, None), render(false, Some("low"))], ["", ""]);
    }

    #[test]
    fn python_methods_work() {
        // Booleans are rendered as in Python's Jinja.
        assert_eq!(render("{{ messages[0]['role'].upper().startswith('US') }}").unwrap(), "True");
    }
}
