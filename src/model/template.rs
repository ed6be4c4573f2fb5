//! The checkpoint's own chat template: one video and the user's prompt become prompt ids.
//!
//! The user's text never becomes special tokens. The template is rendered with a placeholder in place of the prompt; what
//! stands between the special tokens nearest to the placeholder is encoded together with the prompt as plain text, the rest
//! with special tokens recognised. So words merge across the seam as they would in one string, and a typed `<|im_end|>`
//! stays ten characters. Templates are data from elsewhere: they run with a limit of instructions and without files.

use std::path::{Path, PathBuf};

use minijinja::{Environment, ErrorKind, Value, context, syntax::SyntaxConfig};
use serde_json::Value as Json;

use super::{
    files,
    text::{TextError, TextTokenizer},
};
pub use crate::record::Turn;
use crate::record::{Failure, FailureClass};

/// The template of the Qwen-VL family, for checkpoints that bring none.
pub const QWEN: &str = "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}\
<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}\
{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The template of LLaVA-OneVision, for checkpoints that bring none.
pub const LLAVA_ONEVISION: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<video>\n{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}\
{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Instructions that a template may run; the family's own takes a few hundred.
const FUEL: u64 = 100_000;

/// Bytes that a template may write.
const MOST_WRITTEN: usize = 1 << 20;

/// Bytes of a template file that are read.
const MOST_BYTES: u64 = 1 << 24;

/// What can go wrong with a chat template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold a template in any known form.
    #[error("{path} cannot be used: {problem}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The template does not compile or fails while running.
    #[error("the chat template of {origin} fails: {problem}")]
    Render {
        /// Where the template came from.
        origin: String,
        /// What went wrong, with the line.
        problem: String,
    },
    /// The template ran for too long.
    #[error("the chat template of {origin} does not come to an end")]
    Endless {
        /// Where the template came from.
        origin: String,
    },
    /// The template does not put the prompt into its output exactly once.
    #[error("the chat template of {origin} writes the prompt {found} times instead of once")]
    Prompt {
        /// Where the template came from.
        origin: String,
        /// How often.
        found: usize,
    },
    /// The text around the prompt cannot be encoded.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        let text = error.to_string();
        match error {
            TemplateError::Text(inner) => inner.into(),
            _ => Failure {
                class: FailureClass::Input,
                error: text,
                hint: Some("fetch the checkpoint's chat template again, or choose another model".into()),
            },
        }
    }
}

/// The source without the marks around what an assistant said (`{% generation %}`): the reference's own addition to the
/// language, which changes nothing that is written.
fn without_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        out.push_str(before);
        match word {
            // A tag that does nothing: spaces are cut around it as they were around the mark.
            "generation" | "endgeneration" => {
                out.push_str(&tag.replacen(word, "set generation_mark = 0", 1));
            }
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

/// Stands for the text of this number while a template is rendered: private use, so that no template writes it, and no
/// pre-processing of letters touches it.
fn placeholder(number: usize) -> String {
    let own = char::from_u32(0xf000 + (number as u32 & 0x7ff)).unwrap_or('\u{f8ff}');
    format!("\u{e000}{own}\u{e000}")
}

/// A chat template, not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTemplate {
    source: String,
    origin: String,
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    let failed = |source| TemplateError::Read { path: path.into(), source };
    match files::text(path, MOST_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// `chat_template` of a JSON file: a string, or a list of named templates of which `default` counts.
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
            None => Err(refuse("chat_template lists no template named \"default\"".into())),
        },
        Some(_) => Err(refuse("chat_template is neither a text nor a list".into())),
    }
}

/// Takes what a template writes, up to [`MOST_WRITTEN`] bytes.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_WRITTEN {
            return Err(std::io::Error::other("it writes more than a prompt"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ChatTemplate {
    /// A template given as text; `origin` names it in errors.
    pub fn new(source: impl Into<String>, origin: impl Into<String>) -> Self {
        Self { source: source.into(), origin: origin.into() }
    }

    /// The template of the checkpoint in `dir`, from `chat_template.jinja`, `chat_template.json` or `tokenizer_config.json`;
    /// `fallback` ([`QWEN`]) if none of them has one.
    ///
    /// # Errors
    /// [`TemplateError::Read`] or [`TemplateError::Parse`] for files that are there but unusable.
    pub fn load(dir: &Path, fallback: &str) -> Result<Self, TemplateError> {
        let path = dir.join("chat_template.jinja");
        if let Some(source) = read(&path)? {
            return Ok(Self::new(source, path.display().to_string()));
        }
        for file in ["chat_template.json", "tokenizer_config.json"] {
            let path = dir.join(file);
            if let Some(source) = from_json(&path)? {
                return Ok(Self::new(source, path.display().to_string()));
            }
        }
        Ok(Self::new(fallback, "the built-in family"))
    }

    /// The conversation of one video followed by `prompt`, as text, ready for the answer.
    ///
    /// # Errors
    /// [`TemplateError::Render`] or [`TemplateError::Endless`].
    pub fn render(&self, prompt: &str) -> Result<String, TemplateError> {
        self.render_all(&[prompt])
    }

    /// The conversation of one video, questions and answers in turn, ready for the next answer.
    fn render_all(&self, texts: &[impl AsRef<str>]) -> Result<String, TemplateError> {
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
        // the same whitespace rules as the reference's
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(failed)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        let source = without_marks(&self.source);
        let template = environment.template_from_named_str("chat", &source).map_err(failed)?;
        let message = |(i, text): (usize, &dyn AsRef<str>)| {
            let text = context! { type => "text", text => text.as_ref() };
            let video = (i == 0).then(|| context! { type => "video" });
            let content: Vec<Value> = video.into_iter().chain([text]).collect();
            context! { role => if i % 2 == 0 { "user" } else { "assistant" }, content => content }
        };
        let texts = texts.iter().map(|t| t as &dyn AsRef<str>);
        let messages: Vec<Value> = texts.enumerate().map(message).collect();
        let context = context! { messages => messages, add_generation_prompt => true };
        let mut out = Bounded(Vec::new());
        template.render_captured_to(context, &mut out).map_err(failed)?;
        String::from_utf8(out.0)
            .map_err(|e| TemplateError::Render { origin: self.origin.clone(), problem: e.to_string() })
    }

    /// The prompt's ids with the video's token where the template puts it (once, in the family's templates; expanding it
    /// refuses any other number).
    ///
    /// # Errors
    /// As of [`Self::render`]; [`TemplateError::Prompt`] if the template drops or repeats the prompt;
    /// [`TemplateError::Text`] if encoding fails.
    pub fn ids(&self, tokenizer: &TextTokenizer, prompt: &str) -> Result<Vec<u32>, TemplateError> {
        self.ids_after(tokenizer, &[], prompt)
    }

    /// As [`Self::ids`], for a prompt that follows earlier questions and answers about the same video.
    ///
    /// # Errors
    /// As [`Self::ids`].
    pub fn ids_after(
        &self,
        tokenizer: &TextTokenizer,
        before: &[Turn],
        prompt: &str,
    ) -> Result<Vec<u32>, TemplateError> {
        let said = before.iter().flat_map(|turn| [turn.prompt.as_str(), turn.answer.as_str()]);
        let texts: Vec<&str> = said.chain([prompt]).collect();
        let places: Vec<String> = (0..texts.len()).map(placeholder).collect();
        let rendered = self.render_all(&places)?;
        let mut ids = Vec::new();
        // Text between special tokens; it is encoded in one piece, so that words that meet become what they would anyway.
        let mut plain = String::new();
        let mut rest = rendered.as_str();
        for (i, (place, text)) in places.iter().zip(&texts).enumerate() {
            let parts: Vec<&str> = rest.split(place.as_str()).collect();
            let [segment, after] = parts[..] else {
                let (origin, found) = (self.origin.clone(), parts.len().saturating_sub(1));
                return Err(TemplateError::Prompt { origin, found });
            };
            let (first, last) = special(tokenizer, segment);
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
            plain.push_str(text);
            rest = after;
        }
        let (first, _) = special(tokenizer, rest);
        plain.push_str(&rest[..first]);
        ids.extend(tokenizer.encode_plain(&plain)?);
        ids.extend(tokenizer.encode(&rest[first..])?);
        Ok(ids)
    }
}

/// Where the first special token of a text begins and the last one ends; its end and 0 where there is none.
fn special(tokenizer: &TextTokenizer, text: &str) -> (usize, usize) {
    let (mut first, mut last) = (text.len(), 0);
    for token in tokenizer.added() {
        last = last.max(text.rfind(token).map_or(0, |at| at + token.len()));
        first = first.min(text.find(token).unwrap_or(text.len()));
    }
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, TemplateError> {
        ChatTemplate::new(source, "a test").render("P")
    }

    #[test]
    fn the_family_s_own_template_reads_as_documented() {
        assert_eq!(
            render(QWEN).unwrap(),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n\
             <|vision_start|><|video_pad|><|vision_end|>P<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn a_conversation_is_rendered_turn_by_turn() {
        for (source, wanted) in [
            (
                QWEN,
                "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n\
                 <|vision_start|><|video_pad|><|vision_end|>Q<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n\
                 <|im_start|>user\nP<|im_end|>\n<|im_start|>assistant\n",
            ),
            (
                LLAVA_ONEVISION,
                "<|im_start|>user\n<video>\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n\
                 <|im_start|>user\nP<|im_end|>\n<|im_start|>assistant\n",
            ),
        ] {
            let text = ChatTemplate::new(source, "a test").render_all(&["Q", "A", "P"]).unwrap();
            let loose = |text: &str| text.replace("\n", "").replace(' ', "");
            assert_eq!(loose(&text), loose(wanted));
        }
    }

    #[test]
    fn marks_around_what_is_learned_change_nothing() {
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
    fn the_other_built_in_template_reads_as_documented() {
        assert_eq!(
            render(LLAVA_ONEVISION).unwrap(),
            "<|im_start|>user\n<video>\nP<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn broken_and_endless_templates_are_errors() {
        for source in
            ["{% if %}", "{{ nothing.at.all }}", "{{ raise_exception('no videos') }}", "{{ 1 / 0 }}"]
        {
            assert!(matches!(render(source), Err(TemplateError::Render { .. })), "{source}");
        }
        assert!(render("{{ raise_exception('no videos') }}").unwrap_err().to_string().contains("no videos"));
        let endless = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
        assert!(matches!(render(endless), Err(TemplateError::Endless { .. })));
        // Longer than any prompt, from few instructions.
        assert!(matches!(render("{{ 'ab' * 1000000 }}"), Err(TemplateError::Render { .. })));
        assert!(matches!(render("{{ 'ab' * 10000000000 }}"), Err(TemplateError::Render { .. })));
        let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
        assert!(render(deep).is_err());
    }

    #[test]
    fn python_methods_work() {
        // a truth is written as the reference's Jinja writes it
        assert_eq!(render("{{ messages[0]['role'].upper().startswith('US') }}").unwrap(), "True");
    }
}
