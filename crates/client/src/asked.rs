//! What is asked: a prompt or a preset, a system message, and a limit of words.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{DEFAULT_PROMPT, Origin, PromptPreset, Setting, Settings, dirs::Dirs};
use specreel_record::{Failure, FailureClass};

const MAX_PROMPT: u64 = 1 << 20;

/// The file of the user's presets; it need not exist.
pub fn file(dirs: Option<&Dirs>) -> Option<PathBuf> {
    dirs.map(|dirs| dirs.config.join("prompts.toml"))
}

/// What a run asks.
#[derive(Debug, PartialEq)]
pub struct Asked {
    pub prompt: String,
    pub system: Option<String>,
    pub preset: Option<String>,
}

impl Asked {
    /// From the settings. A configured preset goes before a configured prompt, but not before a prompt on the command line.
    pub fn of(settings: &Settings, max_words: Option<u32>, embedded: bool) -> Result<Self, Failure> {
        let file = file(Dirs::find().as_ref());
        Self::from(settings, max_words, embedded, file.as_deref(), &mut std::io::stdin())
    }

    fn from(
        settings: &Settings,
        max_words: Option<u32>,
        embedded: bool,
        file: Option<&Path>,
        stdin: &mut dyn Read,
    ) -> Result<Self, Failure> {
        let typed = matches!(settings.prompt.origin, Origin::Flag(_));
        let named = settings.preset.value.as_deref().filter(|_| !typed);
        let preset = named.map(|name| PromptPreset::find(name, embedded, file)).transpose();
        let preset = preset.map_err(|failure| settings.preset.blame(failure))?;
        let prompt = match &preset {
            Some(preset) => preset.text.trim().to_owned(),
            None => self::prompt(&settings.prompt, stdin)?,
        };
        let system = settings.system.value.as_deref().map(str::trim);
        if system == Some("") {
            let failure = Failure::usage("the system message is empty", "write one, or leave it out");
            return Err(settings.system.blame(failure));
        }
        let own = preset.as_ref().and_then(|preset| preset.system.clone());
        let system = system.map(str::to_owned).or(own);
        system.as_deref().map_or(Ok(()), check_prompt).map_err(|failure| settings.system.blame(failure))?;
        Ok(Self { prompt: limited(prompt, max_words), system, preset: preset.map(|preset| preset.name) })
    }
}

/// A prompt that also asks for at most so many words.
pub fn limited(prompt: String, max_words: Option<u32>) -> String {
    let Some(words) = max_words else { return prompt };
    let prompt = prompt.trim();
    let stop = if prompt.ends_with(['.', '!', '?', ':', '"']) { "" } else { "." };
    format!("{prompt}{stop} Use at most {words} words.")
}

fn prompt(given: &Setting<String>, stdin: &mut dyn Read) -> Result<String, Failure> {
    let usage = |error: &str, hint: &str| {
        let hint = Some(hint.into());
        given.blame(Failure { class: FailureClass::Usage, error: error.into(), hint })
    };
    let mut text = given.or(DEFAULT_PROMPT.into());
    if text == "-" {
        let mut bytes = Vec::new();
        stdin.take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(|e| {
            usage(
                &format!("cannot read the prompt from stdin: {e}"),
                "pipe some text in, or use --prompt TEXT",
            )
        })?;
        // What is cut off in a character is too long, not malformed.
        text = match bytes.len() as u64 > MAX_PROMPT {
            true => String::from_utf8_lossy(&bytes).into_owned(),
            false => String::from_utf8(bytes)
                .map_err(|_| usage("the prompt on stdin is not UTF-8 text", "pipe plain text in"))?,
        };
    }
    check_prompt(&text).map_err(|failure| given.blame(failure))?;
    match text.trim() {
        "" => Err(usage("the prompt is empty", "for example: --prompt \"Describe the video.\"")),
        text => Ok(text.to_owned()),
    }
}

/// Refuse a prompt that no context window holds, before time is spent on its tokens. Fails if it is too long (class usage).
pub fn check_prompt(text: &str) -> Result<(), Failure> {
    if text.len() as u64 <= MAX_PROMPT {
        return Ok(());
    }
    Err(Failure::usage("the prompt is longer than 1 MiB, more than a context window holds", "shorten it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Layer};

    #[test]
    fn prompts_from_flags_and_stdin() {
        let given =
            |text: &str| Setting { value: Some(text.to_owned()), origin: Origin::Flag("--prompt".into()) };
        let stdin = |text: &[u8]| prompt(&given("-"), &mut std::io::Cursor::new(text.to_vec()));
        assert_eq!(prompt(&Setting::default(), &mut std::io::empty()).unwrap(), DEFAULT_PROMPT);
        assert_eq!(prompt(&given(" What? \n"), &mut std::io::empty()).unwrap(), "What?");
        assert_eq!(stdin(b"Who is it?\n").unwrap(), "Who is it?");
        for bad in [&b""[..], b" \n", b"\xff\xfe", &vec![b'a'; (MAX_PROMPT + 1) as usize]] {
            let failure = stdin(bad).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage);
            assert!(failure.error.starts_with("--prompt: the prompt "), "{}", failure.error);
        }
    }

    #[test]
    fn presets_systems_and_limits() {
        let asked = |flags: Layer, config: &str, words: Option<u32>| {
            let config = Config::parse(config, "c.toml".as_ref()).unwrap();
            let settings = Settings::merge(flags, &config);
            Asked::from(&settings, words, false, None, &mut std::io::empty())
        };
        let flag = |prompt: Option<&str>, preset: Option<&str>, system: Option<&str>| {
            let [prompt, preset, system] = [prompt, preset, system].map(|text| text.map(str::to_owned));
            Layer { prompt, preset, system, ..Layer::default() }
        };
        let none = || flag(None, None, None);
        let summary = "Summarize the video in one sentence.";
        let preset = asked(flag(None, Some("summary"), Some(" Be kind. ")), "", None).unwrap();
        assert_eq!(
            (&*preset.prompt, preset.system.as_deref(), preset.preset.as_deref()),
            (summary, Some("Be kind."), Some("summary"))
        );
        let both = "prompt = \"Why?\"\npreset = \"summary\"";
        assert_eq!(asked(none(), both, None).unwrap().prompt, summary);
        let typed = asked(flag(Some("Who?"), None, None), both, Some(9)).unwrap();
        assert_eq!((&*typed.prompt, typed.preset), ("Who? Use at most 9 words.", None));
        assert_eq!(
            asked(flag(Some("Tell me"), None, None), "", Some(9)).unwrap().prompt,
            "Tell me. Use at most 9 words."
        );

        let failure = asked(none(), "preset = \"sumary\"", None).unwrap_err();
        assert_eq!(failure.class, FailureClass::Input);
        assert!(
            failure.error.starts_with("configuration file c.toml:1: preset: unknown preset"),
            "{}",
            failure.error
        );
        let failure = asked(flag(None, None, Some(" ")), "", None).unwrap_err();
        assert_eq!(failure.error, "--system: the system message is empty");
    }
}
