//! From arguments and configuration to runs.

mod constraint;
#[cfg(feature = "find")]
pub mod library;
mod models;
mod part;
pub mod stdin_video;

use std::path::{Path, PathBuf};

use crate::cli::args::{StudioArgs, part::SpanArgs, run::RunArgs};
use crate::cli::terminal;
use specreel_client::asked::{self, Asked};
use specreel_client::catalog::{self, Store, remembered};
use specreel_client::{
    Config, DEFAULT_MAX_NEW_TOKENS, PromptPreset, Settings, StudioStart,
    dirs::Dirs,
    sampling::{self, SamplingPresets},
    user_methods,
};
use specreel_demo as assets;
use specreel_engine::{RunRequest, memory_check};
use specreel_model::ModelSpec;
use specreel_record::Failure;
use specreel_speculate::Method;
use specreel_video::Sampling;

pub use models::{suggest_drafter, tell_unused};
pub use part::summary;
pub use specreel_engine::has_drafter;

#[derive(Clone, Debug, PartialEq)]
pub struct Caption {
    pub models: ModelSpec,
    pub request: RunRequest,
}

/// One run on a video, or on a part of it, checked against the available memory.
pub fn caption(video: &Path, span: SpanArgs, args: &RunArgs, config: &Config) -> Result<Caption, Failure> {
    span.check()?;
    let mut caption = whole_video(video, args, config)?;
    let file = caption.request.video.clone();
    caption.request.span = span.of(&file).map_err(|failure| as_typed(failure, &file, video))?;
    if !args.ignore_memory {
        memory_check::check_request(&caption.models, &caption.request)?;
    }
    Ok(caption)
}

/// A failure that names a video as it was typed: `demo`, not the file it was unpacked to.
pub fn as_typed(failure: Failure, file: &Path, typed: &Path) -> Failure {
    let error = failure.error.replace(&file.display().to_string(), &typed.display().to_string());
    Failure { error, ..failure }
}

/// One run on the whole video, not yet checked against the available memory.
pub fn whole_video(video: &Path, args: &RunArgs, config: &Config) -> Result<Caption, Failure> {
    captioned(video, &|| self::video(video), args, config)
}

/// Runs on a stream that is called so; nothing of it is read.
pub fn stream(typed: &Path, name: &Path, args: &RunArgs, config: &Config) -> Result<Caption, Failure> {
    captioned(typed, &|| Ok(name.into()), args, config)
}

fn captioned(
    video: &Path,
    file: &dyn Fn() -> Result<PathBuf, Failure>,
    args: &RunArgs,
    config: &Config,
) -> Result<Caption, Failure> {
    let settings = Settings::merge(args.layer(), config);
    if stdin_video::is_meant(video) && settings.prompt.value.as_deref() == Some(stdin_video::NAME) {
        let failure = Failure::usage(
            "video and prompt cannot both be read from stdin",
            "name the video, or use --prompt TEXT",
        );
        return Err(failure);
    }
    let video = file()?;
    let models = catalog::spec(&settings, args.rope)?;
    let request = request(video, args, &settings, &models)?;
    Ok(Caption { models, request })
}

/// What the studio starts with.
pub fn studio(args: &StudioArgs, config: &Config) -> Result<StudioStart, Failure> {
    // A folder is opened as one of videos.
    let folder = args.video.as_deref().filter(|path| path.is_dir());
    let video = args.video.as_deref().filter(|_| folder.is_none()).map(self::video).transpose()?;
    let mut settings = Settings::merge(args.layer(), config);
    let server = args.connect.clone();
    if server.is_some() {
        // Locally configured models are not loaded.
        (settings.target.value, settings.mmproj.value, settings.drafter.value) = (None, None, None);
    }
    let dirs = Dirs::find();
    // A pair that is named is not forgotten for one that was chosen once.
    let is_named = server.is_some() || settings.target.value.is_some() || settings.drafter.value.is_some();
    let models_file = dirs.as_ref().filter(|_| !is_named).map(Dirs::models);
    if let Some((target, mmproj, drafter)) = models_file.as_deref().and_then(remembered::read) {
        catalog::drop_dtype(&mut settings, Some(&target));
        settings.target.value = Some(target);
        settings.mmproj.value = mmproj;
        settings.drafter.value = drafter;
    }
    let store = Store::new(&settings, args.run.rope, config);
    let models = catalog::spec(&settings, args.run.rope)?;
    let request = request(video.clone().unwrap_or_default(), &args.run, &settings, &models)?;
    let library = match folder {
        Some(folder) => [folder.to_owned()].into_iter().chain(args.library.iter().cloned()).collect(),
        None => settings.library.or_default(),
    };
    let (methods, problems) = methods(dirs.as_ref(), &request.method);
    let embedded = server.is_none() && assets::is_embedded_target(&models.target);
    // A broken file is reported as methods are: the built-in presets are there all the same.
    let own = PromptPreset::all(embedded, asked::file(dirs.as_ref()).as_deref());
    let (presets, problem) = match own {
        Ok(presets) => (presets, None),
        Err(failure) => (PromptPreset::built_in(embedded), Some(failure)),
    };
    let own = SamplingPresets::with_file(sampling::file(dirs.as_ref()).as_deref());
    let (sampling_presets, unsampled) = match own {
        Ok(presets) => (presets, None),
        Err(failure) => (SamplingPresets::built_in(), Some(failure)),
    };
    #[cfg(feature = "find")]
    let is_own = server.is_none();
    Ok(StudioStart {
        models,
        ignore_memory: args.run.ignore_memory,
        server,
        api_key: args.api_key.clone(),
        video,
        folder: folder.map(Path::to_owned),
        library,
        methods,
        embedded,
        loaded: store.pair(),
        store,
        models_file,
        presets,
        sampling_presets,
        #[cfg(feature = "find")]
        finder: if is_own { library::finder(None).ok() } else { None },
        #[cfg(not(feature = "find"))]
        finder: None,
        // A preset's system message belongs to its prompt, which may be another one by the next run.
        request: RunRequest { system: settings.system.value.clone(), ..request },
        ascii: !terminal::draws_unicode(settings.charset.or_default()),
        settings,
        problems: problems.into_iter().chain(problem).chain(unsampled).collect(),
    })
}

/// What a server starts with.
pub struct Served {
    pub models: ModelSpec,
    /// The name under which the target was given.
    pub target: Option<String>,
    /// What requests do not say themselves; it has no video.
    pub request: RunRequest,
    pub methods: Vec<Method>,
    /// User-defined methods that cannot be used.
    pub problems: Vec<Failure>,
}

pub fn served(args: &RunArgs, config: &Config) -> Result<Served, Failure> {
    let settings = Settings::merge(args.layer(), config);
    let models = catalog::spec(&settings, args.rope)?;
    let request = request(PathBuf::new(), args, &settings, &models)?;
    let (methods, problems) = methods(Dirs::find().as_ref(), &request.method);
    let target = settings.target.value.as_ref().map(|target| target.display().to_string());
    Ok(Served { models, target, request, methods, problems })
}

/// All methods by name: the built-in ones, replaced by the user's and by the chosen one; and files that cannot be used.
fn methods(dirs: Option<&Dirs>, chosen: &Method) -> (Vec<Method>, Vec<Failure>) {
    let (own, problems) = user_methods::all(dirs);
    let mut methods = Method::presets().to_vec();
    for method in own {
        match methods.iter_mut().find(|m| m.name == method.name) {
            Some(same) => *same = method,
            None => methods.push(method),
        }
    }
    match methods.iter_mut().find(|m| m.name == chosen.name) {
        Some(preset) => *preset = chosen.clone(),
        None => methods.insert(0, chosen.clone()),
    }
    (methods, problems)
}

/// The file of a video; `demo` and `demo:N` are embedded clips, `-` is read from stdin.
pub fn video(name: &Path) -> Result<PathBuf, Failure> {
    if stdin_video::is_meant(name) {
        return stdin_video::read();
    }
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
    let input = |what: String, hint: &str| Failure::input(format!("video {}: {what}", name.display()), hint);
    match std::fs::metadata(name) {
        Ok(m) if m.is_dir() => Err(input(
            "it is a directory".into(),
            "name a video file in it; to browse it in the studio: specreel DIR",
        )),
        Ok(m) if m.is_file() && m.len() == 0 => {
            Err(input("the file is empty".into(), "was it copied or downloaded completely?"))
        }
        Ok(_) => Ok(name.to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(input("no such file".into(), "check the path; `demo` is an embedded clip"))
        }
        Err(e) if specreel_os::file::is_link_loop(&e) => {
            Err(input(e.to_string(), "a symbolic link leads back to itself; name the file itself"))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Err(input(e.to_string(), "part of the path is a file; check the path"))
        }
        Err(e) => Err(input(e.to_string(), "make it readable")),
    }
}

pub fn request(
    video: PathBuf,
    args: &RunArgs,
    settings: &Settings,
    models: &ModelSpec,
) -> Result<RunRequest, Failure> {
    let asked = Asked::of(settings, args.max_words, assets::is_embedded_target(&models.target))?;
    Ok(RunRequest {
        video,
        prompt: asked.prompt,
        system: asked.system,
        preset: asked.preset,
        method: method(args, settings, models)?,
        sampling: match (args.frames, args.fps) {
            (Some(n), _) => Sampling::Frames(n as usize),
            (None, Some(fps)) => Sampling::Fps(fps),
            (None, None) => Sampling::Auto,
        },
        max_pixels: args.max_pixels.map(|n| n as usize),
        max_visual_tokens: settings.max_visual_tokens.value.map(|n| n as usize),
        thinking: settings.thinking.or(false),
        effort: settings.reasoning_effort.value.clone(),
        constraint: constraint::of(args)?,
        max_new_tokens: settings.max_new_tokens.or(DEFAULT_MAX_NEW_TOKENS) as usize,
        reuse_texts: settings.reuse_texts.or(true),
        stop: args.stop.clone(),
        on_loop: settings.on_loop.or_default(),
        text: sampling::controls(
            settings,
            args.sampling.logit_bias.clone(),
            sampling::file(Dirs::find().as_ref()).as_deref(),
        )?,
        ..RunRequest::default()
    })
}

/// The method of the settings, or the default one.
fn method(args: &RunArgs, settings: &Settings, models: &ModelSpec) -> Result<Method, Failure> {
    let sets = || args.set.iter().map(String::as_str);
    let method = match &settings.method.value {
        None => default_method(args, sets, models)?,
        Some(name) => {
            let named = user_methods::find(name, Dirs::find().as_ref());
            named.map_err(|failure| settings.method.blame(failure))?.with_sets(sets())?
        }
    };
    has_drafter(&method, models)?;
    Ok(method)
}

/// The default method: the method of a named draft head, `auto` if something can draft, or else
/// `autoregressive`. It is lossless unless `sets` make it lossy. Sets that leave `auto` nothing to choose
/// change the plain method instead.
fn default_method<'a, S: Iterator<Item = &'a str>>(
    args: &RunArgs,
    sets: impl Fn() -> S,
    models: &ModelSpec,
) -> Result<Method, Failure> {
    if let Some(recipe) = args.drafter.as_deref().and_then(catalog::recipe) {
        return Ok(Method::preset(recipe.name())?.with_sets(sets())?);
    }
    let plain = if models.drafter.is_some() { "naive" } else { "autoregressive" };
    let plain = Method::preset(plain)?;
    let drafts =
        models.drafter.is_some() || !models.heads.is_empty() || models.target_predicts() == Some(true);
    match Method::preset("auto")?.with_sets(sets()) {
        Ok(auto) if drafts => Ok(auto),
        _ => Ok(plain.with_sets(sets())?),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use specreel_record::FailureClass;

    /// Models at paths that are never read.
    pub fn spec(drafter: bool) -> ModelSpec {
        ModelSpec { target: "t".into(), drafter: drafter.then(|| "d".into()), ..ModelSpec::default() }
    }

    #[test]
    fn the_method_comes_from_arguments_then_configuration_then_the_models() {
        let mut args = RunArgs::default();
        let mut config = Config::default();
        let method = |args: &RunArgs, config: &Config, models: &ModelSpec| {
            method(args, &Settings::merge(args.layer(), config), models)
        };
        assert_eq!(method(&args, &config, &spec(true)).unwrap().name, "auto");
        assert_eq!(method(&args, &config, &spec(false)).unwrap().name, "autoregressive");
        config.values.method = Some("lvspec".into());
        assert_eq!(method(&args, &config, &spec(true)).unwrap().name, "lvspec");
        args.method = Some("naive".into());
        args.set = vec!["shape.length=3".into()];
        assert_eq!(method(&args, &config, &spec(true)).unwrap().shape.describe(), "chain of 3");
        let failure = method(&args, &config, &spec(false)).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().contains("--drafter DIR"));
    }

    #[test]
    fn the_default_method_is_automatic_where_something_can_draft_and_nothing_else_is_set() {
        let of = |sets: &[&str], models: &ModelSpec| {
            let args =
                RunArgs { set: sets.iter().map(|set| (*set).to_owned()).collect(), ..RunArgs::default() };
            method(&args, &Settings::merge(args.layer(), &Config::default()), models)
        };
        let pair = spec(true);
        let head = ModelSpec { heads: vec!["h".into()], ..spec(false) };
        for (sets, models, name, lossless) in [
            (&[][..], &pair, "auto", true),
            (&[], &head, "auto", true),
            (&[], &spec(false), "autoregressive", true),
            (&["shape.length=3"], &pair, "auto", true),
            // What leaves it nothing to choose.
            (&["context.kind=uniform", "context.keep=0.1"], &pair, "naive", true),
            (&["shape.kind=static_tree"], &pair, "naive", true),
            (&["acceptance.kind=lenient", "acceptance.rho=0.2"], &pair, "naive", false),
            (&["schedule.kind=parallel", "schedule.window=4"], &pair, "naive", true),
        ] {
            let method = of(sets, models).unwrap_or_else(|failure| panic!("{sets:?}: {failure:?}"));
            assert_eq!((method.name.as_str(), method.lossless()), (name, lossless), "{sets:?}");
        }
        let failure = of(&["acceptance.kind=lenient", "acceptance.rho=0.2"], &spec(false)).unwrap_err();
        assert!(failure.error.contains("drafter = none"), "{failure:?}");
    }
}
