//! The body of `POST /v1/chat/completions`.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::error::ApiError;

/// A request for an answer about a video. Fields that are not listed are ignored; those of OpenAI that would change the answer and
/// are not supported are refused.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ChatRequest {
    /// `specreel`, or an id of `/v1/models`.
    pub model: Option<String>,
    /// System messages first, then questions and answers in turn; the last one is a question. The first question has the video.
    pub messages: Vec<Message>,
    /// Send the answer in parts, as server-sent events.
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    /// Maximum number of new tokens; `--max-new-tokens` by default.
    pub max_completion_tokens: Option<u32>,
    /// Older name of `max_completion_tokens`.
    pub max_tokens: Option<u32>,
    /// 0 always takes the most likely token; the default is `--temperature`.
    pub temperature: Option<f32>,
    /// Nucleus sampling, above 0, up to 1.
    pub top_p: Option<f32>,
    /// Random seed; `--seed` by default.
    pub seed: Option<i64>,
    /// The answer ends before one of these texts.
    pub stop: Option<Stop>,
    /// Report the log-probability of each token.
    pub logprobs: Option<bool>,
    /// Report so many of the most likely tokens, up to 20; needs `logprobs`.
    pub top_logprobs: Option<u32>,
    /// 1.
    pub n: Option<u32>,
    /// `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "json_schema": {"schema": …}}`: only such answers
    /// can be written then.
    pub response_format: Option<Value>,
    /// How much to think, in the words of the model's chat template; `none` does not think.
    pub reasoning_effort: Option<String>,
    pub chat_template_kwargs: Option<TemplateOptions>,
    /// Tools that may be called. Models are not told of them, and call none.
    pub tools: Option<Value>,
    /// `none` or `auto`: a call cannot be demanded.
    pub tool_choice: Option<Value>,
    /// specreel's own options.
    pub specreel: Option<Extension>,
    /// Not supported.
    #[schemars(skip)]
    pub functions: Option<Value>,
    #[schemars(skip)]
    pub logit_bias: Option<Value>,
    #[schemars(skip)]
    pub frequency_penalty: Option<f64>,
    #[schemars(skip)]
    pub presence_penalty: Option<f64>,
    #[schemars(skip)]
    pub modalities: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct StreamOptions {
    /// End the stream with a chunk that has the usage.
    pub include_usage: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct TemplateOptions {
    /// Think before the answer, where the model can.
    pub enable_thinking: Option<bool>,
}

/// Where a generation ends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Stop {
    One(String),
    Several(Vec<String>),
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    /// The same as `system`.
    Developer,
    User,
    Assistant,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Message {
    pub role: Role,
    #[serde(default)]
    pub content: Option<Content>,
}

/// Text, or parts.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    VideoUrl {
        video_url: MediaUrl,
    },
    /// A picture is a video of one frame.
    ImageUrl {
        image_url: MediaUrl,
    },
    InputVideo {
        input_video: InputVideo,
    },
    File {
        file: InputVideo,
    },
}

/// A data URL, the id of an uploaded file, a path or `file:` URL below `--allow-dir`, an http(s) URL with `--allow-url`, or an
/// embedded clip (`demo`, `demo:2`).
#[derive(Debug, JsonSchema)]
pub struct MediaUrl {
    pub url: String,
}

/// One of its fields names the video.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct InputVideo {
    /// The file in base64.
    #[serde(alias = "file_data")]
    pub data: Option<String>,
    /// As in `video_url`.
    pub url: Option<String>,
    /// The id of an uploaded file.
    pub file_id: Option<String>,
}

/// specreel's own options.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Decoding method, by name.
    pub method: Option<String>,
    /// Changes of the method's values, each as `axis.key=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Also send the events of `specreel caption --json`; needs `stream`.
    #[serde(default)]
    pub events: bool,
    /// Also send what the page at `/` shows: the reason for each token, a row for each step, and the figures of the run in words;
    /// needs `stream`.
    #[serde(default)]
    pub display: bool,
    /// Sample this many frames.
    pub frames: Option<u32>,
    /// Sample this many frames per second.
    pub fps: Option<f64>,
    /// Maximum number of pixels per frame.
    pub max_pixels: Option<u32>,
    /// Maximum number of visual tokens.
    pub max_visual_tokens: Option<u32>,
    /// The part of the video, in seconds from its first frame.
    pub start: Option<f64>,
    pub end: Option<f64>,
    /// What is said in the video: a list of `{"start": …, "end": …, "text": …}`, in seconds from its first frame, a text of SubRip,
    /// WebVTT or Whisper's JSON, or the `{"path": …}` of such a file. It precedes the first question.
    pub transcript: Option<Value>,
    /// Have the server's speech model (`--transcribe`) listen to the video instead.
    #[serde(default)]
    pub transcribe: bool,
}

/// Read JSON; an error names the field at fault.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let invalid =
            ApiError::invalid(&path, "invalid_json", format!("invalid request body: {}", error.inner()));
        ApiError { param: Some(path).filter(|path| path != "." && path != "?"), ..invalid }
    })?;
    json.end().map_err(|e| ApiError {
        param: None,
        ..ApiError::invalid("", "invalid_json", format!("invalid request body: {e}"))
    })?;
    Ok(parsed)
}

// By hand: an untagged enum does not know where in it an error is.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
                let mut all = Vec::new();
                while let Some(part) = parts.next_element()? {
                    all.push(part);
                }
                Ok(Content::Parts(all))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de> Deserialize<'de> for MediaUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Object {
            url: String,
        }
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = MediaUrl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL or an object with a `url`")
            }

            fn visit_str<E>(self, url: &str) -> Result<MediaUrl, E> {
                Ok(MediaUrl { url: url.to_owned() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MediaUrl, A::Error> {
                let Object { url } = Object::deserialize(MapAccessDeserializer::new(map))?;
                Ok(MediaUrl { url })
            }
        }
        deserializer.deserialize_any(Read)
    }
}
