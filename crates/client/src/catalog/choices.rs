//! The models that can be chosen, on disk and on the hub, as a face shows them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::PromptPreset;
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::Failure;
use specreel_video::Rule;

/// Target and drafter, as they are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPair {
    /// A directory or GGUF file; none is the embedded target with its drafter and heads.
    pub target: Option<PathBuf>,
    /// The vision tower of a target in GGUF; `None`: the mmproj file in its directory.
    pub mmproj: Option<PathBuf>,
    pub drafter: DrafterChoice,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DrafterChoice {
    /// The best of those that are on this machine.
    #[default]
    Best,
    None,
    /// A model, or the directory of a draft head.
    Of(PathBuf),
}

/// A pair whose files are there.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedPair {
    pub spec: ModelSpec,
    pub embedded: bool,
    pub rule: Rule,
    /// The prompts that suit the target.
    pub presets: Vec<PromptPreset>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredModel {
    pub name: String,
    pub path: PathBuf,
    /// Where it is: `embedded`, `cache`, `folder`, `llama.cpp`, `LM Studio`.
    pub origin: &'static str,
    /// What it is, or why it cannot be used.
    pub facts: Result<StoredFacts, String>,
    /// Why it cannot draft for the loaded target; `None` if it can.
    pub no_drafter: Option<String>,
    /// What it is expected to gain as the drafter of the loaded target, by what was measured here; `None` if that is not known.
    pub advice: Option<String>,
    /// Names of the models on this machine that can draft for it, the best first.
    pub drafters: Vec<String>,
    /// It is in the model cache, from which it can be removed.
    pub removable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFacts {
    /// The family; of a draft head, its recipe.
    pub family: String,
    pub dtype: String,
    pub parameters: u64,
    pub bytes: u64,
    /// Bytes that it takes with the selected clip, without a drafter; `None` if that is not known, and for draft heads.
    pub needs: Option<u64>,
    /// A draft head, which is no target.
    pub is_head: bool,
    /// A GGUF file without a vision tower in its directory.
    pub lacks_tower: bool,
}

/// A model that can be downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedModel {
    /// Its id, with the type of a GGUF file.
    pub id: String,
    pub family: String,
    pub parameters: u64,
    /// Bytes to download; estimated for GGUF files.
    pub bytes: u64,
    /// Bytes that it takes with half a minute of 720p.
    pub needs: u64,
    /// Ids of models that can draft for it, the best first.
    pub drafters: &'static [&'static str],
    pub stored: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelList {
    pub stored: Vec<StoredModel>,
    pub published: Vec<PublishedModel>,
    /// Free bytes on the disk of the cache; `None` if they are not known.
    pub disk: Option<u64>,
    /// Bytes of memory for models, including the loaded ones; `None` if unknown.
    pub memory: Option<u64>,
}

impl ModelList {
    /// The model for people who have none: a small one of which everything fits, the largest of those below this size.
    pub fn first(&self) -> Option<&PublishedModel> {
        /// A download of some minutes on a slow line.
        const MOST: u64 = 1 << 30;
        let fits = |model: &&PublishedModel| {
            self.memory.is_none_or(|memory| model.needs <= memory)
                && self.disk.is_none_or(|disk| model.bytes < disk)
        };
        let small = self.published.iter().filter(|model| model.id.contains("SmolVLM2") && model.bytes < MOST);
        small.filter(fits).max_by_key(|model| (model.parameters, std::cmp::Reverse(model.bytes)))
    }
}

/// Progress of a download, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pulling {
    pub done: u64,
    pub total: u64,
    /// Bytes per second; none before it is known.
    pub rate: Option<f64>,
}

/// Finds, downloads and removes models. Every call may block; call none on a face's thread.
pub trait ModelStore: Send + Sync {
    /// The models, judged for the loaded target and for a run on the selected clip.
    fn list(&self, loaded: &ModelPair, run: &RunRequest) -> ModelList;

    /// Find the files of a pair. Fails if they cannot be used together.
    fn open(&self, pair: &ModelPair) -> Result<OpenedPair, Failure>;

    /// Download a model; `Break` cancels it, and the next download resumes. Returns its directory or GGUF file.
    fn pull(
        &self,
        id: &str,
        progress: &mut dyn FnMut(Pulling) -> ControlFlow<()>,
    ) -> Result<PathBuf, Failure>;

    /// Remove a model from the cache. Returns the bytes freed.
    fn remove(&self, path: &Path) -> Result<u64, Failure>;
}
