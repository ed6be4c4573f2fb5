//! From arguments and configuration to what is run.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    args::{CharsetChoice, RunArgs, StudioArgs},
    config::Config,
    dirs::Dirs,
    model_args,
    part::SpanArgs,
    user_methods,
};
use crate::{
    assets::{self, Clip},
    engine::{RunRequest, TextSampling, memory_check},
    model::{ModelSpec, draft_head::Recipe},
    record::{Failure, FailureClass},
    speculate::Method,
    tui::ImageProtocol,
    video::Sampling,
};

pub use super::model_args::{has_drafter, model_directory, models, recipe, suggest_drafter, tell_unused};

/// What is asked where nobody asks anything.
pub const DEFAULT_PROMPT: &str = "Describe the video in detail.";

/// Tokens at most where nobody says.
pub const DEFAULT_MAX_NEW_TOKENS: u32 = 256;

/// Longest prompt that is read, in bytes.
const MAX_PROMPT: u64 = 1 << 20;

/// Everything the studio starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Studio {
    /// Video to open at once.
    pub video: Option<PathBuf>,
    /// Embedded clips for the library.
    pub clips: Vec<Clip>,
    /// Folders of videos for the library.
    pub library: Vec<PathBuf>,
    /// Models to load.
    pub models: ModelSpec,
    /// The first run's request; the studio changes prompt, method, video and number.
    pub request: RunRequest,
    /// The user's own methods.
    pub methods: Vec<Method>,
    /// What to tell at the beginning.
    pub notice: Option<String>,
    /// Theme by name.
    pub theme: Option<String>,
    /// How pictures are drawn.
    pub image_protocol: ImageProtocol,
    /// Whether it takes the mouse.
    pub mouse: bool,
    /// With which characters it is drawn.
    pub charset: CharsetChoice,
    /// Keep every run as a session file.
    pub sessions: bool,
    /// How many of them; none is the studio's own number.
    pub sessions_keep: Option<usize>,
    /// Keep the prompts that were run.
    pub prompt_history: bool,
    /// Remember which files were used last.
    pub recent: bool,
    /// Where our files live; none where there is no home.
    pub dirs: Option<Dirs>,
    /// Load and run even if memory seems not to suffice.
    pub ignore_memory: bool,
}

/// One caption to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Caption {
    /// Models to load.
    pub models: ModelSpec,
    /// What to run.
    pub request: RunRequest,
}

/// One run on a video, or on a part of it.
///
/// # Errors
/// The video, its part, the prompt, the method or the models cannot be.
pub fn caption(video: &Path, span: SpanArgs, args: &RunArgs, config: &Config) -> Result<Caption, Failure> {
    span.check()?;
    let mut caption = wanted(video, args, config)?;
    let file = caption.request.video.clone();
    caption.request.span = span.of(&file).map_err(|failure| as_typed(failure, &file, video))?;
    if !args.ignore_memory {
        memory_check::check_request(&caption.models, &caption.request)?;
    }
    Ok(caption)
}

/// A failure about a video that is called as it was typed: `demo`, not where that was unpacked.
pub fn as_typed(failure: Failure, file: &Path, typed: &Path) -> Failure {
    let error = failure.error.replace(&file.display().to_string(), &typed.display().to_string());
    Failure { error, ..failure }
}

/// The same on the whole video, before anybody has asked whether there is memory for it.
///
/// # Errors
/// As [`caption`].
pub fn wanted(video: &Path, args: &RunArgs, config: &Config) -> Result<Caption, Failure> {
    let video = self::video(video)?;
    let models = models(args.target.as_deref(), args.drafter.as_deref(), args, config)?;
    let request = request(video, args, config, &models)?;
    Ok(Caption { models, request })
}

/// What the studio starts with.
///
/// # Errors
/// As [`caption`].
pub fn studio(args: &StudioArgs, config: &Config) -> Result<Studio, Failure> {
    // A folder is opened as one of videos.
    let folder = args.video.as_deref().filter(|path| path.is_dir());
    let first = args.video.as_deref().filter(|_| folder.is_none()).map(self::video).transpose()?;
    let run = &args.run;
    let models = models(run.target.as_deref(), run.drafter.as_deref(), run, config)?;
    let request = request(first.clone().unwrap_or_default(), run, config, &models)?;
    let dirs = Dirs::find();
    let clips = assets::demo(dirs.as_ref().map(|d| d.cache.as_path())).map(|d| d.clips).unwrap_or_default();
    let mut library: Vec<PathBuf> = folder.map(Path::to_owned).into_iter().collect();
    library.extend(args.library.iter().cloned());
    if library.is_empty() {
        library.clone_from(&config.library);
    }
    let theme = args.theme.clone().or_else(|| config.theme.clone());
    let image_protocol = args.image_protocol.or(config.image_protocol).unwrap_or_default();
    let (sessions, recent) = (config.sessions.unwrap_or(true), config.recent.unwrap_or(true));
    let mouse = args.mouse || config.mouse.unwrap_or(false);
    let charset = args.charset.or(config.charset).unwrap_or_default();
    let (sessions_keep, prompt_history) = (config.sessions_keep, config.prompt_history.unwrap_or(true));
    let (methods, problems) = user_methods::all(dirs.as_ref());
    let notice = problems.into_iter().next().map(|problem| problem.error);
    let ignore_memory = run.ignore_memory;
    Ok(Studio {
        video: first,
        clips,
        library,
        models,
        request,
        methods,
        notice,
        theme,
        image_protocol,
        mouse,
        charset,
        sessions,
        sessions_keep,
        prompt_history,
        recent,
        dirs,
        ignore_memory,
    })
}

/// The file behind a video's name; `demo` and `demo:N` are embedded clips.
///
/// # Errors
/// There is no such file or clip, or it is a directory.
pub fn video(name: &Path) -> Result<PathBuf, Failure> {
    if !name.exists()
        && let Some(index) = name.to_str().and_then(assets::clip_index)
    {
        let index = index?;
        let demo = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path()))?;
        return demo
            .clips
            .get(index)
            .map(|clip| clip.path.clone())
            .ok_or_else(|| assets::AssetError::Absent.into());
    }
    let input = |what: String, hint: &str| Failure {
        class: FailureClass::Input,
        error: format!("video {}: {what}", name.display()),
        hint: Some(hint.into()),
    };
    match std::fs::metadata(name) {
        Ok(m) if m.is_dir() => Err(input(
            "it is a directory".into(),
            "name a video file inside it; the studio opens folders: specreel DIR",
        )),
        Ok(m) if m.is_file() && m.len() == 0 => {
            Err(input("the file is empty".into(), "was it copied or downloaded completely?"))
        }
        Ok(_) => Ok(name.to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(input("no such file".into(), "check the path; `demo` is an embedded clip"))
        }
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Err(input(e.to_string(), "a link there leads back to itself; name the file itself"))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Err(input(e.to_string(), "a part of the path is a file; check the path"))
        }
        Err(e) => Err(input(e.to_string(), "make it readable")),
    }
}

/// The request for a video.
///
/// # Errors
/// The prompt or the method cannot be.
pub fn request(
    video: PathBuf,
    args: &RunArgs,
    config: &Config,
    models: &ModelSpec,
) -> Result<RunRequest, Failure> {
    Ok(RunRequest {
        span: None,
        segment: None,
        before: Vec::new(),
        run: 1,
        video,
        prompt: prompt(args.prompt.as_deref().or(config.prompt.as_deref()), &mut std::io::stdin()).map_err(
            |failure| match &config.prompt {
                Some(configured) if args.prompt.is_none() => Config::blame("prompt", configured, failure),
                _ => failure,
            },
        )?,
        method: method(args, config, models)?,
        sampling: match (args.frames, args.fps) {
            (Some(n), _) => Sampling::Frames(n as usize),
            (None, Some(fps)) => Sampling::Fps(fps),
            (None, None) => Sampling::Auto,
        },
        max_pixels: args.max_pixels.map(|n| n as usize),
        max_new_tokens: args.max_new_tokens.or(config.max_new_tokens).unwrap_or(DEFAULT_MAX_NEW_TOKENS)
            as usize,
        text: TextSampling { temperature: args.temperature, top_p: args.top_p, seed: args.seed },
        logprobs: 0,
    })
}

/// The method: arguments, then configuration, then `lvspec`, or `autoregressive` where there is no drafter.
fn method(args: &RunArgs, config: &Config, models: &ModelSpec) -> Result<Method, Failure> {
    let named = args.method.as_deref().or(config.method.as_deref());
    // Lossy methods are for those who ask for them.
    let layer = args.drafter.as_deref().and_then(model_args::recipe);
    let default = match (layer, &models.drafter) {
        (Some(Recipe::Sparrow), _) => "sparrow",
        (Some(Recipe::Msd), _) => "msd",
        (None, Some(_)) => "naive",
        (None, None) => "autoregressive",
    };
    let base =
        user_methods::find(named.unwrap_or(default), Dirs::find().as_ref()).map_err(
            |failure| match &config.method {
                Some(configured) if args.method.is_none() => Config::blame("method", configured, failure),
                _ => failure,
            },
        )?;
    let method = base.with_sets(args.set.iter().map(String::as_str))?;
    has_drafter(&method, models)?;
    Ok(method)
}

fn prompt(given: Option<&str>, stdin: &mut dyn Read) -> Result<String, Failure> {
    let usage = |error: &str, hint: &str| Failure {
        class: FailureClass::Usage,
        error: error.into(),
        hint: Some(hint.into()),
    };
    let text = match given {
        None => DEFAULT_PROMPT.to_owned(),
        Some("-") => {
            let mut bytes = Vec::new();
            stdin.take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(|e| {
                usage(
                    &format!("cannot read the prompt from stdin: {e}"),
                    "pipe some text in, or use --prompt TEXT",
                )
            })?;
            if bytes.len() as u64 > MAX_PROMPT {
                return Err(usage(
                    "the prompt on stdin is longer than 1 MiB",
                    "a prompt is a question, not a file",
                ));
            }
            String::from_utf8(bytes)
                .map_err(|_| usage("the prompt on stdin is not UTF-8 text", "pipe plain text in"))?
        }
        Some(text) => text.to_owned(),
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(usage(
            "the prompt is empty",
            "say what to write, for example --prompt \"Describe the video.\"",
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(drafter: bool) -> ModelSpec {
        ModelSpec {
            target: "t".into(),
            drafter: drafter.then(|| "d".into()),
            heads: Vec::new(),
            device: Default::default(),
            drafter_device: None,
            dtype: Default::default(),
            rope: Default::default(),
        }
    }

    #[test]
    fn prompts() {
        let stdin = |text: &[u8]| prompt(Some("-"), &mut std::io::Cursor::new(text.to_vec()));
        assert_eq!(prompt(None, &mut std::io::empty()).unwrap(), DEFAULT_PROMPT);
        assert_eq!(prompt(Some(" What? \n"), &mut std::io::empty()).unwrap(), "What?");
        assert_eq!(stdin(b"Who is it?\n").unwrap(), "Who is it?");
        for bad in [&b""[..], b" \n", b"\xff\xfe", &vec![b'a'; (MAX_PROMPT + 1) as usize]] {
            assert_eq!(stdin(bad).unwrap_err().class, FailureClass::Usage);
        }
    }

    #[test]
    fn the_method_follows_arguments_then_configuration_then_what_is_there() {
        let mut args = RunArgs::default();
        let mut config = Config::default();
        assert_eq!(method(&args, &config, &spec(true)).unwrap().name, "naive");
        assert_eq!(method(&args, &config, &spec(false)).unwrap().name, "autoregressive");
        config.method = Some("fly".into());
        assert_eq!(method(&args, &config, &spec(true)).unwrap().name, "fly");
        args.method = Some("naive".into());
        args.set = vec!["shape.length=3".into()];
        assert_eq!(method(&args, &config, &spec(true)).unwrap().shape.describe(), "chain of 3");
        let failure = method(&args, &config, &spec(false)).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().contains("--drafter DIR"));
    }

    #[test]
    fn videos_that_cannot_be_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.mp4");
        std::fs::write(&empty, b"").unwrap();
        for (path, part) in [
            (dir.path().to_owned(), "it is a directory"),
            (empty, "the file is empty"),
            (dir.path().join("no.mp4"), "no such file"),
        ] {
            let failure = video(&path).unwrap_err();
            assert_eq!(failure.class, FailureClass::Input);
            assert!(failure.error.ends_with(part), "{}", failure.error);
        }
    }
}
