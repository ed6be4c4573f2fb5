//! What the studio starts with, as the command line and the configuration say it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::{ModelPair, Store};
use crate::{PromptPreset, Settings, moments::MomentFinder, sampling::SamplingPresets};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::Failure;
use specreel_speculate::Method;

pub struct StudioStart {
    pub models: ModelSpec,
    /// Load and run even if the available memory seems too small.
    pub ignore_memory: bool,
    /// The server whose runs are followed; none has an engine of its own.
    pub server: Option<String>,
    /// Key of that server.
    pub api_key: Option<String>,
    pub video: Option<PathBuf>,
    /// The folder that the library opens in.
    pub folder: Option<PathBuf>,
    /// Folders of videos.
    pub library: Vec<PathBuf>,
    pub methods: Vec<Method>,
    /// The models are the embedded ones.
    pub embedded: bool,
    pub loaded: ModelPair,
    /// Finds other models.
    pub store: Store,
    /// The file that remembers the pair chosen last; none if a pair was named.
    pub models_file: Option<PathBuf>,
    pub presets: Vec<PromptPreset>,
    pub sampling_presets: SamplingPresets,
    /// What finds moments of the library.
    pub finder: Option<Arc<dyn MomentFinder>>,
    /// What every run is asked for.
    pub request: RunRequest,
    /// Only ASCII characters can be drawn.
    pub ascii: bool,
    pub settings: Settings,
    /// Files of the user's that cannot be used.
    pub problems: Vec<Failure>,
}
