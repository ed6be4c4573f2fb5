//! From arguments and configuration to what is run.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    args::{self, CharsetChoice, RunArgs, StudioArgs},
    color,
    config::Config,
    dirs::Dirs,
    models as found,
    part::SpanArgs,
    room,
};
use crate::{
    assets::{self, Clip},
    engine::{RunRequest, TextSampling},
    model::{DeviceChoice, ModelSpec, sparrow::SparrowConfig},
    record::{Failure, FailureClass},
    speculate::{Drafter, Method, MethodError},
    tui::ImageProtocol,
    video::Sampling,
};

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
    caption.request.span = span.of(&caption.request.video)?;
    room::check(&caption.models, &caption.request, args.ignore_memory)?;
    Ok(caption)
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
    let first = args.video.as_deref().map(self::video).transpose()?;
    let run = &args.run;
    let models = models(run.target.as_deref(), run.drafter.as_deref(), run, config)?;
    let request = request(first.clone().unwrap_or_default(), run, config, &models)?;
    let dirs = Dirs::find();
    let clips = assets::demo(dirs.as_ref().map(|d| d.cache.as_path())).map(|d| d.clips).unwrap_or_default();
    let library = if args.library.is_empty() { config.library.clone() } else { args.library.clone() };
    let theme = args.theme.clone().or_else(|| config.theme.clone());
    let image_protocol = args.image_protocol.or(config.image_protocol).unwrap_or_default();
    let (sessions, recent) = (config.sessions.unwrap_or(true), config.recent.unwrap_or(true));
    let mouse = args.mouse || config.mouse.unwrap_or(false);
    let charset = args.charset.or(config.charset).unwrap_or_default();
    let (sessions_keep, prompt_history) = (config.sessions_keep, config.prompt_history.unwrap_or(true));
    let (methods, notice) = own_methods(dirs.as_ref());
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
        Ok(m) if m.is_dir() => Err(input("it is a directory".into(), "name a video file inside it")),
        Ok(m) if m.is_file() && m.len() == 0 => {
            Err(input("the file is empty".into(), "was it copied or downloaded completely?"))
        }
        Ok(_) => Ok(name.to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(input("no such file".into(), "check the path; `demo` is an embedded clip"))
        }
        Err(e) => Err(input(e.to_string(), "make it readable")),
    }
}

/// The models: arguments, then configuration, then the embedded pair.
///
/// # Errors
/// A directory is missing, or nothing is named and nothing is embedded.
pub fn models(
    target: Option<&Path>,
    drafter: Option<&Path>,
    args: &RunArgs,
    config: &Config,
) -> Result<ModelSpec, Failure> {
    let device = |asked: Option<DeviceChoice>, configured: &Option<String>| {
        asked.or_else(|| configured.as_deref().and_then(|text| args::device(text).ok()))
    };
    let drafter_device = device(args.drafter_device, &config.drafter_device);
    let device = device(args.device, &config.device).unwrap_or_default();
    let dtype = match (args.dtype, &config.dtype) {
        (None, Some(text)) => args::dtype(text).unwrap_or_default(),
        (dtype, _) => dtype.unwrap_or_default(),
    };
    let rope = args.rope.unwrap_or_default();
    // A configured drafter belongs to the configured target, not to one that was typed.
    let (target, drafter) = match (target, &config.target) {
        (Some(target), _) => (Some(target), drafter),
        (None, Some(target)) => (Some(target.as_path()), drafter.or(config.drafter.as_deref())),
        (None, None) => (None, drafter),
    };
    let target = target.map(|named| model_directory("target", named)).transpose()?;
    let drafter = drafter.map(|named| model_directory("drafter", named)).transpose()?;
    let head = drafter.clone().filter(|dir| SparrowConfig::is_in(dir));
    let small = drafter.filter(|_| head.is_none());
    if let Some(target) = target {
        return Ok(ModelSpec {
            target,
            drafter: small,
            heads: head.into_iter().collect(),
            device,
            drafter_device,
            dtype,
            rope,
        });
    }
    // The embedded target has a small model and trained layers; what is named takes the place of its own kind.
    let demo = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path()))?;
    let heads = head.map_or(demo.heads, |head| vec![head]);
    let drafter = Some(small.unwrap_or(demo.drafter));
    Ok(ModelSpec { target: demo.target, drafter, heads, device, drafter_device, dtype, rope })
}

/// The directory behind a name that was given: itself, or a model of the cache.
///
/// # Errors
/// There is none, with what there is.
pub fn model_directory(role: &str, named: &Path) -> Result<PathBuf, Failure> {
    found::directory(named).map_err(|(what, hint)| Failure {
        class: FailureClass::Input,
        error: format!("{role} model {}: {what}", named.display()),
        hint: Some(hint),
    })
}

/// Say on stderr which model could draft for a target that came without one.
pub fn suggest_drafter(models: &ModelSpec, config: &Config, quiet: bool) {
    if models.drafter.is_none()
        && models.heads.is_empty()
        && !quiet
        && let Some(hint) = found::suggestion(&models.target, config)
    {
        eprintln!("hint: {}", color::plain(&hint));
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
        prompt: prompt(args.prompt.as_deref().or(config.prompt.as_deref()), &mut std::io::stdin())?,
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
    let layer = args.drafter.as_deref().is_some_and(SparrowConfig::is_in);
    let default = match models.drafter {
        _ if layer => "sparrow",
        Some(_) => "naive",
        None => "autoregressive",
    };
    let base = find_method(named.unwrap_or(default), Dirs::find().as_ref())?;
    let method = base.with_sets(args.set.iter().map(String::as_str))?;
    has_drafter(&method, models)?;
    Ok(method)
}

/// A method by name or file; a name may be that of a file in the user's own folder of methods.
///
/// # Errors
/// There is none of that name, or its file cannot be.
fn find_method(name: &str, dirs: Option<&Dirs>) -> Result<Method, Failure> {
    let own = |dirs: &Dirs| dirs.config.join("methods").join(format!("{name}.toml"));
    match (Method::find(name), dirs.map(own).filter(|file| file.is_file())) {
        (Err(MethodError::Unknown { .. }), Some(file)) => Ok(Method::from_file(&file)?),
        (found, _) => Ok(found?),
    }
}

/// The user's own methods in the order of their names, and what is wrong with the first one that cannot be.
fn own_methods(dirs: Option<&Dirs>) -> (Vec<Method>, Option<String>) {
    let entries = dirs.and_then(|dirs| std::fs::read_dir(dirs.config.join("methods")).ok());
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut problem = None;
    let mut read =
        |file: &PathBuf| Method::from_file(file).map_err(|e| problem.get_or_insert(e.to_string()).clone());
    let methods = files.iter().filter_map(|file| read(file).ok()).collect();
    (methods, problem)
}

/// Refuse a method whose drafter is a model where there is none.
///
/// # Errors
/// That (class usage).
pub fn has_drafter(method: &Method, models: &ModelSpec) -> Result<(), Failure> {
    let (what, hint) = match method.drafter {
        Drafter::Model {} if models.drafter.is_none() => (
            "drafts with a small model",
            "add --drafter DIR (specreel models inspect names what fits), or use the method lvspec-self or autoregressive",
        ),
        Drafter::Sparrow { .. } if models.heads.is_empty() => (
            "drafts with a layer trained on the target's states",
            "train one for this target with `specreel train sparrow`, and add --drafter DIR",
        ),
        _ => return Ok(()),
    };
    Err(Failure {
        class: FailureClass::Usage,
        error: format!(
            "method `{}` {what}, but {}",
            method.name,
            if models.drafter.is_some() || !models.heads.is_empty() {
                "--drafter names another kind of drafter"
            } else {
                "--target came without --drafter"
            }
        ),
        hint: Some(hint.into()),
    })
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
    fn methods_of_ones_own_are_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let dirs = Dirs { config: at("config"), data: at("data"), state: at("state"), cache: at("cache") };
        assert_eq!(own_methods(Some(&dirs)), (vec![], None));
        std::fs::create_dir_all(at("config/methods")).unwrap();
        let mine = Method { name: "mine".into(), ..Method::preset("lvspec").unwrap() };
        std::fs::write(at("config/methods/mine.toml"), mine.to_toml()).unwrap();
        std::fs::write(at("config/methods/broken.toml"), "name = 3").unwrap();
        assert_eq!(find_method("mine", Some(&dirs)).unwrap(), mine);
        assert_eq!(find_method("naive", Some(&dirs)).unwrap().name, "naive");
        assert!(find_method("other", Some(&dirs)).is_err() && find_method("mine", None).is_err());
        let (methods, problem) = own_methods(Some(&dirs));
        assert_eq!(methods, [mine]);
        assert!(problem.unwrap().contains("broken.toml"));
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

    #[test]
    fn model_directories_that_are_none_are_named() {
        let args = RunArgs::default();
        let failure = models(Some(Path::new("no/such")), None, &args, &Config::default()).unwrap_err();
        assert_eq!(failure.error, "target model no/such: no such directory, and no such model in the cache");
        let dir = tempfile::tempdir().unwrap();
        let models = models(Some(dir.path()), None, &args, &Config::default()).unwrap();
        assert_eq!(models.drafter, None);
    }
}
