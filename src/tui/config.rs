//! What the studio is started with.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{ColorDepth, FrameRequest, ImageProtocol, question::Answers};
use crate::{
    engine::TextSampling,
    record::Span,
    speculate::Method,
    video::{Frame, Rule, Sampling},
};

/// The built-in prepared prompts (TOML).
pub const DEFAULT_PRESETS: &str = include_str!("../../assets/prompts/default.toml");

/// A clip that the library shows under a title of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// What the library shows.
    pub title: String,
    /// The video file.
    pub path: PathBuf,
}

/// A prepared prompt.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptPreset {
    /// One word or two.
    pub name: String,
    /// The prompt.
    pub text: String,
}

impl PromptPreset {
    /// The built-in prepared prompts.
    pub fn built_in() -> Vec<Self> {
        #[derive(serde::Deserialize)]
        struct File {
            prompt: Vec<PromptPreset>,
        }
        toml::from_str::<File>(DEFAULT_PRESETS).map(|file| file.prompt).unwrap_or_default()
    }
}

/// What is known of a clip without decoding it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClipFacts {
    /// Length in seconds.
    pub seconds: Option<f64>,
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
    /// The codec's name.
    pub codec: Option<String>,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Number of frames.
    pub frames: Option<usize>,
    /// Clockwise turn from stored to shown, in degrees.
    pub turned: u32,
}

/// Looks at a clip, or says why it cannot be read; called off the studio's thread, so it may block.
pub type Probe = Arc<dyn Fn(&Path) -> Result<ClipFacts, String> + Send + Sync>;

/// Cuts a clip into pieces of so many seconds, or says why it cannot be; called off the studio's thread, so it may block.
pub type Cut = Arc<dyn Fn(&Path, f64) -> Result<Vec<Span>, String> + Send + Sync>;

/// So many sessions are kept where nobody says otherwise.
pub const DEFAULT_KEEP: usize = 1000;

/// Reads the frames of a wish, each handed over as it comes, until that breaks off; called off the studio's thread. What is
/// wrong with the clip comes back in words.
pub type FrameReader =
    Arc<dyn Fn(&FrameRequest, &mut dyn FnMut(Frame) -> ControlFlow<()>) -> Result<(), String> + Send + Sync>;

/// What the studio is started with.
#[derive(Clone)]
pub struct StudioConfig {
    /// The clip to begin with.
    pub video: Option<PathBuf>,
    /// Clips with titles, shown first.
    pub clips: Vec<Clip>,
    /// Folders whose videos the library shows.
    pub folders: Vec<PathBuf>,
    /// The methods to choose from.
    pub methods: Vec<Method>,
    /// The folder in which the user's own methods are kept; it need not exist.
    pub methods_dir: Option<PathBuf>,
    /// Name of the method to begin with; the first one where there is none of that name.
    pub method: String,
    /// Whether a method writes exactly what the target alone would.
    pub lossless: fn(&Method) -> bool,
    /// The prompt to begin with.
    pub prompt: String,
    /// Prepared prompts.
    pub presets: Vec<PromptPreset>,
    /// Name of the theme; `auto` chooses dark or light by the terminal's word.
    pub theme: String,
    /// Colours of the terminal.
    pub colors: ColorDepth,
    /// Take the mouse from the terminal.
    pub mouse: bool,
    /// Draw with the characters of ASCII alone.
    pub ascii: bool,
    /// Which frames the models look at.
    pub sampling: Sampling,
    /// How the target's family samples frames, for showing which ones it will look at.
    pub rule: Rule,
    /// Upper limit of pixels per frame; none = the checkpoint's own.
    pub max_pixels: Option<usize>,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Sampling of the text.
    pub text: TextSampling,
    /// How many of the target's most likely tokens to ask for with each token.
    pub logprobs: usize,
    /// What to tell at the beginning, such as a file of the user's that cannot be used.
    pub notice: Option<String>,
    /// Looks at a clip for its length; none leaves the column empty.
    pub probe: Option<Probe>,
    /// Reads frames of a clip for pictures; none shows no pictures.
    pub frames: Option<FrameReader>,
    /// How pictures are drawn.
    pub image_protocol: ImageProtocol,
    /// A key map over the built-in one; it need not exist.
    pub keymap: Option<PathBuf>,
    /// A folder of themes; it need not exist.
    pub themes: Option<PathBuf>,
    /// The folder of saved sessions; it need not exist. None: there is no such place.
    pub sessions: Option<PathBuf>,
    /// Keep every run there.
    pub record: bool,
    /// So many sessions are kept; the oldest go.
    pub keep: usize,
    /// Prompts of earlier sittings, the oldest first.
    pub history: Vec<String>,
    /// The file in which prompts are kept; none keeps nothing. It need not exist.
    pub prompts: Option<PathBuf>,
    /// Cuts a clip into pieces of so many seconds.
    pub cut: Option<Cut>,
    /// The list of files that were used last; none keeps none.
    pub recent: Option<PathBuf>,
    /// Where the words of native libraries go while the studio is on the screen.
    pub log: Option<PathBuf>,
}

impl StudioConfig {
    /// How pictures are drawn on a terminal that told this of itself, inside a multiplexer or not; never `Auto`.
    pub(crate) fn images(&self, answers: &Answers, inside: bool) -> ImageProtocol {
        match self.ascii {
            // Half-blocks and kitty's placeholders are none of its characters.
            true => ImageProtocol::None,
            false => self.image_protocol.resolve(self.colors, answers, inside),
        }
    }
}

impl Default for StudioConfig {
    /// No clips, no methods; files of the user in their usual folders.
    fn default() -> Self {
        let base = etcetera::choose_base_strategy().ok();
        let of =
            |f: fn(&etcetera::base_strategy::Xdg) -> PathBuf| base.as_ref().map(|b| f(b).join("specreel"));
        let config = of(etcetera::BaseStrategy::config_dir);
        let data = of(etcetera::BaseStrategy::data_dir);
        let state = of(|b| {
            etcetera::BaseStrategy::state_dir(b).unwrap_or_else(|| etcetera::BaseStrategy::cache_dir(b))
        });
        Self {
            video: None,
            clips: Vec::new(),
            folders: Vec::new(),
            methods: Vec::new(),
            methods_dir: config.as_ref().map(|dir| dir.join("methods")),
            method: String::new(),
            lossless: |_| true,
            prompt: "Describe the video.".into(),
            presets: PromptPreset::built_in(),
            theme: "auto".into(),
            colors: ColorDepth::default(),
            mouse: false,
            ascii: false,
            sampling: Sampling::default(),
            rule: Rule::QWEN_VL,
            max_pixels: None,
            max_new_tokens: 256,
            text: TextSampling::default(),
            logprobs: 5,
            notice: None,
            probe: None,
            frames: None,
            image_protocol: ImageProtocol::Auto,
            keymap: config.as_ref().map(|dir| dir.join("keymap.toml")),
            themes: config.as_ref().map(|dir| dir.join("themes")),
            prompts: data.as_ref().map(|dir| dir.join("prompts.jsonl")),
            sessions: data.as_ref().map(|dir| dir.join("sessions")),
            record: true,
            keep: DEFAULT_KEEP,
            history: Vec::new(),
            cut: None,
            recent: data.map(|dir| dir.join("recent.json")),
            log: state.map(|dir| dir.join("studio.log")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prompts_are_readable() {
        assert!(PromptPreset::built_in().len() >= 5);
    }
}
