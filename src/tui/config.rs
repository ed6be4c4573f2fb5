//! The studio's configuration.

use std::path::{Path, PathBuf};
use std::{ops::ControlFlow, sync::Arc};

use crate::look::ColorDepth;
use crate::tui::images::{self, ImageProtocol};
use crate::tui::{question::Answers, window::Notify};
use specreel_batch::{Existing, Sidecar};
use specreel_client::catalog::{ModelPair, ModelStore};
use specreel_client::{
    Transcript, dirs::Dirs, moments::MomentFinder, sampling::SamplingPresets, user_methods,
};
use specreel_engine::RunRequest;
use specreel_record::{Cues, OnLoop, Pace, Span};
use specreel_speculate::{Method, SamplingControls};
use specreel_video::{Division, Frame, Rule, cuts};

pub use specreel_client::PromptPreset;
pub use specreel_demo::Clip;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClipFacts {
    pub seconds: Option<f64>,
    pub size: Option<(u32, u32)>,
    pub codec: Option<String>,
    pub fps: Option<f64>,
    pub frames: Option<usize>,
    /// Clockwise rotation from stored to shown, in degrees.
    pub turned: u32,
}

impl From<specreel_video::Probe> for ClipFacts {
    fn from(facts: specreel_video::Probe) -> Self {
        Self {
            seconds: Some(facts.duration_s),
            size: Some((facts.width, facts.height)),
            codec: Some(facts.codec),
            fps: Some(facts.fps),
            frames: Some(facts.frame_count.get()).filter(|n| *n > 0),
            turned: facts.rotation_degrees,
        }
    }
}

/// Reads a clip's properties, or returns why it cannot; called off the studio's thread, so it may block.
pub type Probe = Arc<dyn Fn(&Path) -> Result<ClipFacts, String> + Send + Sync>;

/// Divides a clip into segments, or returns why it cannot; called off the studio's thread, so it may block.
pub type Cut = Arc<dyn Fn(&Path, Division) -> Result<Vec<Span>, String> + Send + Sync>;

/// Reads what is said in a clip from a transcript, or has a speech model of this directory or id listen to it, with progress; may
/// block. Returns why it cannot.
pub type Listen = Arc<dyn Fn(&Path, &Path, cuts::Progress<'_>) -> Result<Transcript, String> + Send + Sync>;

/// Which frames of a clip are read to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRequest {
    pub path: PathBuf,
    /// How many frames; a single one is from shortly after the beginning.
    pub count: usize,
    pub max: (u32, u32),
}

/// Reads frames and passes each on until asked to stop; may block. Returns why the clip cannot be read.
pub type FrameReader =
    Arc<dyn Fn(&FrameRequest, &mut dyn FnMut(Frame) -> ControlFlow<()>) -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub struct StudioConfig {
    pub video: Option<PathBuf>,
    pub clips: Vec<Clip>,
    /// Directories whose videos the library shows.
    pub folders: Vec<PathBuf>,
    /// The one of them that the library opens in.
    pub folder: Option<PathBuf>,
    pub methods: Vec<Method>,
    /// The directory of the user's methods; it need not exist.
    pub methods_dir: Option<PathBuf>,
    /// Name of the method selected at the start; the first one if it is unknown.
    pub method: String,
    /// Finds other models; none leaves the loaded ones.
    pub models: Option<Arc<dyn ModelStore>>,
    /// Finds moments of the library, if there is an index of it.
    pub finder: Option<Arc<dyn MomentFinder>>,
    /// The server whose runs are followed; none has an engine of its own.
    pub server: Option<String>,
    pub loaded: ModelPair,
    /// The file that remembers the pair chosen last; it need not exist. None remembers none.
    pub models_file: Option<PathBuf>,
    /// What every run is asked for; video, prompt and method are those on the screen.
    pub request: RunRequest,
    /// The models are the embedded ones, which know only the clips with titles.
    pub embedded: bool,
    pub presets: Vec<PromptPreset>,
    /// What texts can be sampled by.
    pub sampling_presets: Arc<SamplingPresets>,
    /// Name of the theme; `auto` is dark or light, depending on the terminal.
    pub theme: String,
    /// The file that remembers the theme chosen last, used instead of `theme`; it need not exist. None remembers none.
    pub theme_file: Option<PathBuf>,
    /// Show a line for people who have never opened the studio.
    pub is_first: bool,
    pub colors: ColorDepth,
    pub mouse: bool,
    /// The notification when work ends while the terminal is not focused.
    pub notify: Notify,
    pub ascii: bool,
    /// How the target's family samples frames, to show which ones it will see.
    pub rule: Rule,
    pub pace: Pace,
    /// The form of the files that a batch writes next to its clips; `None` writes none.
    pub sidecar: Option<Sidecar>,
    /// What a batch does about clips that have one.
    pub existing: Existing,
    pub cues: Cues,
    /// A notice at the start, such as an invalid file of the user's.
    pub notice: Option<String>,
    /// Reads a clip's properties; none leaves the library's columns empty.
    pub probe: Option<Probe>,
    /// Reads frames of a clip; none shows no pictures.
    pub frames: Option<FrameReader>,
    pub image_protocol: ImageProtocol,
    /// A key map that overrides the built-in one; it need not exist.
    pub keymap: Option<PathBuf>,
    /// The directory of the user's themes; it need not exist.
    pub themes: Option<PathBuf>,
    /// The directory of saved runs; it need not exist.
    pub sessions: Option<PathBuf>,
    /// Save every run there.
    pub record: bool,
    /// How many saved runs are kept; the oldest are deleted.
    pub keep: usize,
    /// The file of earlier prompts; it need not exist. None saves none.
    pub prompts: Option<PathBuf>,
    pub cut: Option<Cut>,
    pub listen: Option<Listen>,
    /// The list of recent files; none saves none.
    pub recent: Option<PathBuf>,
    /// Where standard error goes while the studio is on the screen.
    pub log: Option<PathBuf>,
}

impl StudioConfig {
    /// How pictures are drawn on a terminal with these answers, inside a multiplexer or not; never `Auto`.
    pub(crate) fn images(&self, answers: &Answers, inside: bool) -> ImageProtocol {
        match self.ascii {
            // Half-blocks and kitty's placeholders are not ASCII.
            true => ImageProtocol::None,
            false => images::resolve(self.image_protocol, self.colors, answers, inside),
        }
    }
}

impl Default for StudioConfig {
    /// No clips, no methods, no playback; the user's files in their default directories.
    fn default() -> Self {
        let dirs = Dirs::find();
        let of = |dir: fn(&Dirs) -> &PathBuf, name: &str| dirs.as_ref().map(|dirs| dir(dirs).join(name));
        Self {
            video: None,
            clips: Vec::new(),
            folders: Vec::new(),
            folder: None,
            methods: Vec::new(),
            methods_dir: dirs.as_ref().map(user_methods::folder),
            method: String::new(),
            request: RunRequest {
                prompt: "Describe the video.".into(),
                text: SamplingControls::default(),
                on_loop: OnLoop::Stop,
                logprobs: 5,
                ..RunRequest::default()
            },
            models: None,
            finder: None,
            server: None,
            loaded: ModelPair::default(),
            models_file: dirs.as_ref().map(Dirs::models),
            embedded: false,
            presets: PromptPreset::built_in(false),
            sampling_presets: Arc::new(SamplingPresets::built_in()),
            theme: "auto".into(),
            theme_file: of(|dirs| &dirs.state, "theme"),
            is_first: false,
            colors: ColorDepth::default(),
            mouse: true,
            notify: Notify::Auto,
            ascii: false,
            rule: Rule::QWEN_VL,
            pace: Pace::Off,
            sidecar: Some(Sidecar::Txt),
            existing: Existing::Skip,
            cues: Cues::Clip,
            notice: None,
            probe: None,
            frames: None,
            image_protocol: ImageProtocol::Auto,
            keymap: of(|dirs| &dirs.config, "keymap.toml"),
            themes: of(|dirs| &dirs.config, "themes"),
            prompts: of(|dirs| &dirs.data, "prompts.jsonl"),
            sessions: of(|dirs| &dirs.data, "sessions"),
            record: true,
            keep: 1000,
            cut: None,
            listen: None,
            recent: of(|dirs| &dirs.data, "recent.json"),
            log: of(|dirs| &dirs.state, "studio.log"),
        }
    }
}
