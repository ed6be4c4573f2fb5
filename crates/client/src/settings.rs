//! Settings: the command line over the configuration file over defaults. Each value knows where it came from, so that an error
//! names the flag, or the file, line and key.

mod config;

use std::{fmt, path::PathBuf, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};

pub use self::config::Config;
use specreel_record::{Cues, Failure, FailureClass, OnLoop, Pace};
use specreel_tensor::{DeviceChoice, KvType, WeightType};

pub const DEFAULT_PROMPT: &str = "Describe the video in detail.";

pub const DEFAULT_MAX_NEW_TOKENS: u32 = 256;

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The command line, with the flag's name.
    Flag(String),
    Config {
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        key: &'static str,
    },
    /// Nobody has set it.
    #[default]
    Default,
}

impl Origin {
    /// The failure with this origin of the value in front of it. A mistake in the configuration file is an input, not a usage
    /// error.
    pub fn blame(&self, failure: Failure) -> Failure {
        let error = format!("{self}: {}", failure.error);
        match self {
            Self::Default => failure,
            Self::Flag(_) => Failure { error, ..failure },
            Self::Config { .. } => Failure { class: FailureClass::Input, error, ..failure },
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Config { file, line, key } => {
                write!(f, "configuration file {}:{line}: {key}", file.display())
            }
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value, if one is set, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value; none leaves the default.
    pub value: Option<T>,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self { value: None, origin: Origin::Default }
    }
}

impl<T> Setting<T> {
    fn merge(key: &'static str, flag: Option<T>, configured: Option<T>, config: &Config) -> Self {
        match flag {
            Some(_) => Self { value: flag, origin: Origin::Flag(format!("--{}", key.replace('_', "-"))) },
            None => config.setting(key, configured),
        }
    }

    pub fn or(&self, default: T) -> T
    where
        T: Clone,
    {
        self.value.clone().unwrap_or(default)
    }

    /// The value, or the default of its type.
    pub fn or_default(&self) -> T
    where
        T: Clone + Default,
    {
        self.or(T::default())
    }

    /// See [`Origin::blame`].
    pub fn blame(&self, failure: Failure) -> Failure {
        self.origin.blame(failure)
    }
}

/// Makes the two structs of one table: [`Layer`], which one source sets, and [`Settings`], the merged values.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $(#[file($($attribute:meta),*)])? $key:ident: $type:ty,)*) => {
        /// The values of one source. Every key is optional.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(rename = "Config")]
        pub struct Layer {
            $($(#[doc = $doc])* $($(#[$attribute])*)? pub $key: Option<$type>,)*
        }

        impl Layer {
            /// These values over those of another source.
            pub(crate) fn over(self, base: Self) -> Self {
                Self { $($key: self.$key.or(base.$key),)* }
            }
        }

        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc])* pub $key: Setting<$type>,)*
        }

        impl Settings {
            fn merged(flags: Layer, config: &Config) -> Self {
                let file = config.values.clone();
                Self { $($key: Setting::merge(stringify!($key), flags.$key, file.$key, config),)* }
            }
        }
    };
}

settings! {
    /// Decoding method: a name, or a TOML file.
    method: String,
    prompt: String,
    /// Prompt by its name, as a preset.
    preset: String,
    /// System message; default the chat template's own.
    system: String,
    /// Target model: a directory, a GGUF file, or the id of a model in the cache.
    target: PathBuf,
    /// The vision tower of a target in GGUF; default the mmproj file in its directory.
    mmproj: PathBuf,
    /// LoRA adapter (PEFT) that is added to that target: a directory; not used without `target`.
    lora: PathBuf,
    /// Drafter for that target, as `target`; not used without it.
    drafter: PathBuf,
    /// The vision tower of a drafter in GGUF; default the mmproj file in its directory.
    drafter_mmproj: PathBuf,
    /// Folders of models, for `specreel models` and for suggested drafters.
    models: Vec<PathBuf>,
    /// Device: auto, cpu, gpu, gpu:N, cuda, cuda:N or metal.
    #[file(serde(deserialize_with = "device"), schemars(with = "Option<String>"))]
    device: DeviceChoice,
    /// The drafter's device, if not the target's.
    #[file(serde(deserialize_with = "device"), schemars(with = "Option<String>"))]
    drafter_device: DeviceChoice,
    /// Weight type of the language models: auto, f32, bf16, f16, q8_0, q6_k, q5_1, q5_k, q5_0, q4_1, q4_k, iq4_nl, q4_0 or q3_k.
    #[file(serde(deserialize_with = "named"), schemars(with = "Option<String>"))]
    dtype: WeightType,
    /// The drafter's weight type, if not the target's; a GGUF file is converted to it.
    #[file(serde(deserialize_with = "named"), schemars(with = "Option<String>"))]
    drafter_dtype: WeightType,
    /// How many ids the drafter drafts from, the most frequent ones, at least 256; default 65536 if there are more than 98303, else all.
    #[file(serde(deserialize_with = "draft_ids"))]
    drafter_vocabulary: u32,
    /// Weight type of the vision towers on cpu and gpu: auto, f32, bf16, f16 or q8_0.
    #[file(serde(deserialize_with = "tower_dtype"), schemars(with = "Option<String>"))]
    tower_dtype: WeightType,
    /// Whether converted weights are kept on disk, so that the next start maps them; default true.
    weight_cache: bool,
    /// Limit of all converted weights on disk in GB; the least recently used are removed; default 32.
    weight_cache_size: u64,
    /// Whether prompt lookup also searches what was written for earlier clips of a folder and segments of a video; default true.
    reuse_texts: bool,
    /// Type of the KV cache on the CPU: auto, f32, f16 or q8_0.
    #[file(serde(deserialize_with = "named"), schemars(with = "Option<String>"))]
    kv_type: KvType,
    /// Limit of new tokens, from 1 to 65536.
    #[file(serde(deserialize_with = "new_tokens"))]
    max_new_tokens: u32,
    /// Where the sampling comes from that these settings leave open: model (its `generation_config.json`), greedy, or the name of a preset.
    sampling: String,
    /// Sampling temperature, from 0 (greedy) to 100.
    temperature: f32,
    /// Keep so many of the most likely tokens; 0 keeps all.
    top_k: u32,
    /// Nucleus sampling: keep the most likely tokens up to this total probability, above 0, up to 1.
    top_p: f32,
    /// Keep the tokens of at least this share of the most likely one's probability, from 0 to 1.
    min_p: f32,
    /// Penalty on tokens that occur in the prompt or text: divides positive logits, multiplies negative ones; 1 is none.
    repetition_penalty: f32,
    /// The repetition penalty counts so many of the last tokens; 0 counts all.
    repetition_window: u32,
    /// Subtracted from the logits of tokens that occur in the text.
    presence_penalty: f32,
    /// Subtracted from the logit of a token for each time it occurs in the text.
    frequency_penalty: f32,
    /// No sequence of so many tokens is written twice; 0 allows it.
    no_repeat_ngram: u32,
    /// DRY: penalty on a token that would extend a repetition, times the base to the power of the length beyond what is allowed.
    dry_multiplier: f32,
    dry_base: f32,
    /// Repetitions of fewer tokens cost nothing.
    dry_allowed_length: u32,
    /// DRY looks at so many of the last tokens; 0 looks at all.
    dry_window: u32,
    /// Texts that no repetition extends over.
    dry_breakers: Vec<String>,
    /// Random seed.
    seed: u64,
    /// What becomes of a caption that repeats itself without end: stop (it ends after the first of the repeated passages), retry (it is written again, up to twice, with another seed and a DRY penalty) or keep; default stop.
    on_loop: OnLoop,
    /// Limit of visual tokens of a video: frames become smaller, then fewer; default no limit.
    #[file(serde(deserialize_with = "visual_tokens"))]
    max_visual_tokens: u32,
    /// Whether models that can think do so before they answer; default false.
    thinking: bool,
    /// How much such models think, in the words of their chat template; default the template's.
    reasoning_effort: String,
    /// How the studio plays runs: auto, off, or a playback speed, where 1 is the true speed; default auto.
    #[file(serde(deserialize_with = "pace"), schemars(with = "Option<Written>"))]
    pace: Pace,
    theme: String,
    /// How the studio draws pictures.
    image_protocol: ImageProtocol,
    /// Whether the studio takes the mouse; default true.
    mouse: bool,
    /// Notification when a batch or a long run ends while the terminal is not focused: auto, bell or off; default auto.
    notify: Notify,
    /// The studio's characters.
    charset: Charset,
    /// The studio's library folders.
    library: Vec<PathBuf>,
    /// The files that the studio writes next to the clips of a batch: txt, json, srt, vtt or none; default txt.
    sidecar: SidecarChoice,
    /// A studio batch's treatment of clips that have such a file: skip or overwrite; default skip.
    existing: Existing,
    /// The cues of a caption in subtitles: clip or sentences; default clip.
    cues: Cues,
    /// Whether the studio saves every run to a file; default true.
    sessions: bool,
    /// Maximum number of saved runs; the oldest are removed.
    #[file(serde(deserialize_with = "sessions"))]
    sessions_keep: usize,
    /// Whether the studio keeps the prompts that were run; default true.
    prompt_history: bool,
    /// Whether the studio remembers recently used files; default true.
    recent: bool,
}

impl Settings {
    /// The command line's values over the configuration file's. A configured drafter belongs to the configured target;
    /// it is dropped if the target comes from elsewhere.
    pub fn merge(flags: Layer, config: &Config) -> Self {
        let mut settings = Self::merged(flags, config);
        let configured = |origin: &Origin| matches!(origin, Origin::Config { .. });
        if configured(&settings.drafter.origin) && !configured(&settings.target.origin) {
            settings.drafter = Setting::default();
        }
        // A tower and an adapter belong to their language model.
        if configured(&settings.mmproj.origin) && !configured(&settings.target.origin) {
            settings.mmproj = Setting::default();
        }
        if configured(&settings.lora.origin) && !configured(&settings.target.origin) {
            settings.lora = Setting::default();
        }
        if configured(&settings.drafter_mmproj.origin) && !configured(&settings.drafter.origin) {
            settings.drafter_mmproj = Setting::default();
        }
        settings
    }
}

/// How the studio draws pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageProtocol {
    /// The best one that the terminal is known to support
    #[default]
    Auto,
    /// kitty, Ghostty
    Kitty,
    /// iTerm2, WezTerm, and others with its protocol
    Iterm2,
    /// Sixels
    Sixel,
    /// Two pixels in each character, in true color or 256 colors
    Halfblocks,
    /// No pictures
    None,
}

/// The studio's notification when a batch or a long run ends while the terminal is not focused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notify {
    /// A desktop notification if the terminal is known to support them, otherwise the bell
    #[default]
    Auto,
    /// The terminal's bell
    Bell,
    /// None
    Off,
}

/// The form of the file next to each clip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SidecarChoice {
    /// The caption
    #[default]
    Txt,
    /// The caption with prompt, method and statistics
    Json,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
    /// No file
    None,
}

/// The treatment of clips that have such a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", rename = "ExistingChoice")]
pub enum Existing {
    /// They are left alone
    #[default]
    Skip,
    /// They are captioned again
    Overwrite,
    /// The new caption follows the existing one; not a setting.
    #[serde(skip)]
    Append,
    /// The new caption precedes the existing one; not a setting.
    #[serde(skip)]
    Prepend,
}

/// The characters that the studio draws with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Charset {
    /// As the locale allows; all without one
    #[default]
    Auto,
    /// All
    #[serde(rename = "utf-8")]
    Utf8,
    /// ASCII only
    Ascii,
}

/// Parse a device. Fails if the expected values, for people.
pub fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    let text = text.to_lowercase();
    let number = |kind: &str| text.strip_prefix(kind)?.parse().ok().filter(|number: &usize| *number < 1024);
    match text.as_str() {
        "auto" => return Ok(DeviceChoice::Auto),
        "cpu" => return Ok(DeviceChoice::Cpu),
        "gpu" => return Ok(DeviceChoice::Gpu(None)),
        "cuda" => return Ok(DeviceChoice::Cuda(0)),
        "metal" => return Ok(DeviceChoice::Metal),
        "cpu-tensors" => return Ok(DeviceChoice::CpuTensors),
        _ => {}
    }
    let gpu = number("gpu:").map(|number| DeviceChoice::Gpu(Some(number)));
    let numbered = gpu.or_else(|| number("cuda:").map(DeviceChoice::Cuda));
    numbered.ok_or_else(|| "expected one of: auto, cpu, gpu[:N], cuda[:N], metal".into())
}

fn device<'de, D: Deserializer<'de>>(value: D) -> Result<Option<DeviceChoice>, D::Error> {
    parse_device(&String::deserialize(value)?).map(Some).map_err(D::Error::custom)
}

fn named<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(value: D) -> Result<Option<T>, D::Error> {
    String::deserialize(value)?.parse().map(Some).map_err(D::Error::custom)
}

/// Parse the weight type of a vision tower. Fails if the expected values, for people.
pub fn parse_tower_dtype(text: &str) -> Result<WeightType, String> {
    let expected =
        || format!("expected one of: auto, {}", WeightType::TOWERS.map(WeightType::name).join(", "));
    let known = |dtype: &WeightType| *dtype == WeightType::Auto || WeightType::TOWERS.contains(dtype);
    text.parse().ok().filter(known).ok_or_else(expected)
}

fn tower_dtype<'de, D: Deserializer<'de>>(value: D) -> Result<Option<WeightType>, D::Error> {
    parse_tower_dtype(&String::deserialize(value)?).map(Some).map_err(D::Error::custom)
}

fn pace<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Pace>, D::Error> {
    Pace::deserialize(value).map(Some)
}

/// A word or a number, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Written {
    Word(String),
    Number(f64),
}

/// A number that is checked; the problem of others.
fn checked<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
    is_good: impl FnOnce(&T) -> bool,
    problem: &str,
) -> Result<Option<T>, D::Error> {
    let number = T::deserialize(value)?;
    is_good(&number).then_some(Some(number)).ok_or_else(|| D::Error::custom(problem))
}

fn new_tokens<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    checked(value, |n| (1..=65536).contains(n), "expected a number from 1 to 65536")
}

fn draft_ids<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    checked(value, |n| *n >= 256, "expected a number from 256")
}

fn visual_tokens<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    checked(value, |n| *n > 0, "expected a number from 1")
}

fn sessions<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    checked(value, |n| *n > 0, "expected a number from 1; sessions = false keeps none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure { class: FailureClass::Usage, error: "unknown method".into(), hint: None }
    }

    #[test]
    fn flags_win_over_the_file_and_every_value_knows_its_origin() {
        let config = Config::parse("theme = \"dark\"\n\nmethod = \"fly\"\nmouse = true\n", "c.toml".as_ref());
        let flags = Layer { method: Some("naive".into()), ..Layer::default() };
        let settings = Settings::merge(flags, &config.unwrap());
        assert_eq!(settings.method.value.as_deref(), Some("naive"));
        assert_eq!(settings.method.blame(failure()).error, "--method: unknown method");
        assert_eq!(settings.method.blame(failure()).class, FailureClass::Usage);

        let mouse = settings.mouse.blame(failure());
        assert_eq!(mouse.error, "configuration file c.toml:4: mouse: unknown method");
        assert_eq!(mouse.class, FailureClass::Input);
        assert_eq!(settings.theme.or("auto".into()), "dark");
        assert_eq!((settings.prompt.value.clone(), &settings.prompt.origin), (None, &Origin::Default));
        assert_eq!(settings.prompt.blame(failure()), failure());
        let long = Layer { max_new_tokens: Some(3), ..Layer::default() };
        let settings = Settings::merge(long, &Config::default());
        assert_eq!(settings.max_new_tokens.origin, Origin::Flag("--max-new-tokens".into()));
    }

    #[test]
    fn a_configured_drafter_belongs_to_the_configured_target() {
        let config = Config::parse("target = \"t\"\ndrafter = \"d\"", "c.toml".as_ref()).unwrap();
        let drafter = |target: Option<&str>, drafter: Option<&str>, config: &Config| {
            let [target, drafter] = [target, drafter].map(|name| name.map(PathBuf::from));
            Settings::merge(Layer { target, drafter, ..Layer::default() }, config).drafter.value
        };
        assert_eq!(drafter(None, None, &config), Some("d".into()));
        assert_eq!(drafter(None, Some("e"), &config), Some("e".into()));
        assert_eq!(drafter(Some("u"), None, &config), None);
        let alone = Config::parse("drafter = \"d\"", "c.toml".as_ref()).unwrap();
        assert_eq!(drafter(None, None, &alone), None);
    }

    #[test]
    fn devices() {
        assert_eq!(parse_device("CUDA:3"), Ok(DeviceChoice::Cuda(3)));
        assert_eq!(parse_device("cuda"), Ok(DeviceChoice::Cuda(0)));
        assert_eq!(parse_device("gpu"), Ok(DeviceChoice::Gpu(None)));
        assert_eq!(parse_device("GPU:1"), Ok(DeviceChoice::Gpu(Some(1))));
        for bad in ["cuda:", "cuda:-1", "gpu:", "gpu:x", "gpu:1024", "gpu0", "tpu", ""] {
            assert!(parse_device(bad).is_err(), "{bad}");
        }
    }
}
