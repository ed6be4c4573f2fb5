//! The models that the settings find, on disk and on the hub.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::choices::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, Pulling, StoredFacts,
    StoredModel,
};
use super::local::{self, Candidates, LocalModel};
use super::{advice, spec};
use crate::{Config, PromptPreset, Setting, Settings, asked, dirs::Dirs};
use specreel_checkpoint::gguf::{GgufFile, towers_of};
use specreel_checkpoint::hub::{
    Cache, Hub, ModelId, PullObserver, PullProgress, Settings as HubSettings, free_space,
};
use specreel_demo as assets;
use specreel_engine::{Advisor, Expectation, RunRequest, memory_check};
use specreel_model::known::{KNOWN, KnownModel};
use specreel_model::{ModelSpec, draft_head::DraftHeadConfig, family::Rope};
use specreel_os::memory;
use specreel_record::Failure;
use specreel_speculate::Drafter;
use specreel_tensor::WeightType;

/// The models that settings find.
pub struct Store {
    settings: Settings,
    rope: Option<Rope>,
    config: Config,
}

impl Store {
    pub fn new(settings: &Settings, rope: Option<Rope>, config: &Config) -> Self {
        Self { settings: settings.clone(), rope, config: config.clone() }
    }

    pub fn pair(&self) -> ModelPair {
        let path = |setting: &Setting<PathBuf>| setting.value.clone();
        // The embedded target has a drafter of its own.
        let unnamed =
            if self.settings.target.value.is_some() { DrafterChoice::None } else { DrafterChoice::Best };
        let found = |path: PathBuf| local::directory(&path).unwrap_or(path);
        ModelPair {
            target: path(&self.settings.target).map(found),
            mmproj: path(&self.settings.mmproj),
            drafter: path(&self.settings.drafter).map_or(unnamed, |path| DrafterChoice::Of(found(path))),
        }
    }

    fn spec(&self, pair: &ModelPair) -> Result<ModelSpec, Failure> {
        let target = pair.target.clone().filter(|target| !assets::is_embedded_target(target));
        let drafter = match &pair.drafter {
            DrafterChoice::None => None,
            DrafterChoice::Of(path) => Some(path.clone()),
            // The embedded target brings its own.
            DrafterChoice::Best => target.as_ref().and_then(|target| {
                let fitting = local::drafters(target, &self.config).into_iter();
                fitting.map(|found| found.dir).next()
            }),
        };
        let mut settings = self.settings.clone();
        // A tower and an adapter belong to the target that they were given for.
        if self.pair().target != target {
            settings.lora = Setting::default();
            settings.mmproj = Setting::default();
            drop_dtype(&mut settings, target.as_deref());
        }
        if self.settings.drafter.value != drafter {
            settings.drafter_mmproj = Setting::default();
        }
        settings.mmproj.value = pair.mmproj.clone().or(settings.mmproj.value);
        let without = pair.drafter == DrafterChoice::None && target.is_none();
        (settings.target.value, settings.drafter.value) = (target, drafter);
        let mut spec = spec(&settings, self.rope)?;
        if without {
            spec.drafter = None;
        }
        Ok(spec)
    }

    /// A model of the list; `obstacle` is why it cannot draft for the loaded target.
    fn stored(
        &self,
        found: &LocalModel,
        obstacle: Option<String>,
        candidates: &Candidates,
        (loaded, advisor): (&ModelPair, Option<&Advisor>),
        run: &RunRequest,
    ) -> StoredModel {
        let head = DraftHeadConfig::read(&found.dir).ok();
        let facts = match &head {
            Some(head) => Ok(StoredFacts {
                family: format!("{} head", head.recipe.name()),
                dtype: "-".into(),
                parameters: 0,
                bytes: bytes_in(&found.dir),
                needs: None,
                is_head: true,
                lacks_tower: false,
            }),
            None => self.facts(found, run),
        };
        let no_drafter = match (&head, &facts) {
            (_, Err(problem)) => Some(problem.clone()),
            // What a head was trained for is checked when it is loaded.
            (Some(_), _) => None,
            _ => obstacle,
        };
        let drafters = match &facts {
            Ok(facts) if !facts.is_head => candidates.drafters(&found.dir),
            _ => Vec::new(),
        };
        let advice = match (&head, &no_drafter) {
            (None, None) => advisor.and_then(|advisor| self.advice(loaded, found, advisor)),
            _ => None,
        };
        let origin = found.origin.name();
        let removable = found.origin == local::Origin::Cache;
        StoredModel {
            name: found.name.clone(),
            path: found.dir.clone(),
            origin,
            facts,
            no_drafter,
            advice,
            drafters: drafters.into_iter().map(|drafter| drafter.name.clone()).collect(),
            removable,
        }
    }

    /// What a model is expected to gain as the drafter of the loaded target, with the family's example.
    fn advice(&self, loaded: &ModelPair, found: &LocalModel, advisor: &Advisor) -> Option<String> {
        let pair = ModelPair { drafter: DrafterChoice::Of(found.dir.clone()), ..loaded.clone() };
        let advice = advisor.advise(&self.spec(&pair).ok()?, &[], None).ok()??;
        let drafts = |expected: &&Expectation| expected.drafter == Drafter::Model {};
        Some(advice::words(advice.drafters.iter().find(drafts)?))
    }

    fn facts(&self, found: &LocalModel, run: &RunRequest) -> Result<StoredFacts, String> {
        match found.summary() {
            Ok(summary) => {
                let alone = ModelPair {
                    target: Some(found.dir.clone()),
                    drafter: DrafterChoice::None,
                    ..ModelPair::default()
                };
                let needs = self.spec(&alone).ok();
                Ok(StoredFacts {
                    family: summary.family,
                    dtype: summary.dtype,
                    parameters: summary.parameters,
                    bytes: summary.bytes,
                    needs: needs.and_then(|spec| memory_check::request_bytes(&spec, run)),
                    is_head: false,
                    lacks_tower: false,
                })
            }
            // Its tower may be elsewhere.
            Err(failure) => match GgufFile::metadata(&found.dir) {
                Ok(file)
                    if found.dir.is_file()
                        && towers_of(&found.dir).is_ok_and(|(_, towers)| towers.is_empty()) =>
                {
                    Ok(StoredFacts {
                        family: file.string("general.architecture").ok().flatten().unwrap_or("-").to_owned(),
                        dtype: "-".into(),
                        parameters: 0,
                        bytes: std::fs::metadata(&found.dir).map_or(0, |about| about.len()),
                        needs: None,
                        is_head: false,
                        lacks_tower: true,
                    })
                }
                _ => Err(failure.error),
            },
        }
    }
}

impl ModelStore for Store {
    fn list(&self, loaded: &ModelPair, run: &RunRequest) -> ModelList {
        let candidates = Candidates::find(&self.config);
        let spec = self.spec(loaded).unwrap_or_default();
        let held = memory_check::request_bytes(&spec, run);
        let obstacles = candidates.obstacles(&spec.target);
        // A damaged file of measured speeds costs the advice only.
        let advisor = Advisor::open(Dirs::speeds().as_deref()).ok();
        let advisor = (loaded, advisor.as_ref());
        let stored = candidates.models().zip(obstacles);
        ModelList {
            stored: stored
                .map(|(found, obstacle)| self.stored(found, obstacle, &candidates, advisor, run))
                .collect(),
            memory: memory::available().map(|free| free + held.unwrap_or(0)),
            ..published_models()
        }
    }

    fn open(&self, pair: &ModelPair) -> Result<OpenedPair, Failure> {
        let spec = self.spec(pair)?;
        // So that what cannot be read is known before anything is loaded.
        spec.target_files()?;
        spec.drafter_files()?;
        let embedded = assets::is_embedded_target(&spec.target);
        let file = asked::file(Dirs::find().as_ref());
        let presets = PromptPreset::all(embedded, file.as_deref());
        Ok(OpenedPair {
            embedded,
            rule: memory_check::rule(&spec),
            presets: presets.unwrap_or_else(|_| PromptPreset::built_in(embedded)),
            spec,
        })
    }

    fn pull(
        &self,
        id: &str,
        progress: &mut dyn FnMut(Pulling) -> ControlFlow<()>,
    ) -> Result<PathBuf, Failure> {
        let id = ModelId::parse(id)?;
        let pulled = Hub::new(HubSettings::from_env())?.pull(&id, &mut Watch { progress })?;
        Ok(pulled.path().to_owned())
    }

    fn remove(&self, path: &Path) -> Result<u64, Failure> {
        local::remove(path)
    }
}

/// Forget the weight type of the settings for a target that they do not name and that keeps its types: a GGUF file.
pub fn drop_dtype(settings: &mut Settings, target: Option<&Path>) {
    if target.is_some_and(Path::is_file) {
        settings.dtype = Setting::default();
    }
}

struct Watch<'a> {
    progress: &'a mut dyn FnMut(Pulling) -> ControlFlow<()>,
}

impl PullObserver for Watch<'_> {
    fn progress(&mut self, progress: &PullProgress) -> ControlFlow<()> {
        (self.progress)(Pulling { done: progress.done, total: progress.total, rate: None })
    }

    fn check(&mut self, path: &Path) -> Result<(), Failure> {
        local::check_pulled(path)
    }
}

/// The published models, and the disk and memory that there are for them.
pub fn published_models() -> ModelList {
    let cache = HubSettings::from_env().cache;
    ModelList {
        stored: Vec::new(),
        published: KNOWN.iter().flat_map(|known| published(known, cache.clone().map(Cache::new))).collect(),
        disk: cache.as_deref().and_then(free_space),
        memory: memory::available(),
    }
}

/// A published model: its GGUF files, the smallest first, then its safetensors.
fn published(known: &'static KnownModel, cache: Option<Cache>) -> Vec<PublishedModel> {
    let Some(sizes) = known.sizes() else { return Vec::new() };
    let needs = |dtype| known.memory(&[dtype]).and_then(|memory| Some(memory.first()?.run)).unwrap_or(0);
    let of = |id: String, bytes: u64, needs: u64| {
        let found = ModelId::parse(&id).ok().and_then(|id| cache.as_ref()?.find(&id));
        PublishedModel {
            id,
            family: sizes.family.name.to_owned(),
            parameters: sizes.text + sizes.tower,
            bytes,
            needs,
            drafters: known.drafters,
            stored: found.is_some(),
        }
    };
    let files = known.gguf_files().map(|(repository, files)| {
        files.into_iter().map(move |(kind, bytes)| {
            let dtype = WeightType::ALL
                .into_iter()
                .find(|dtype| kind.name().to_lowercase().starts_with(dtype.name()));
            (format!("{repository}:{}", kind.name()), bytes, needs(dtype.unwrap_or(WeightType::Bf16)))
        })
    });
    let own = (known.id.to_owned(), sizes.bytes, needs(WeightType::Q8_0));
    files.into_iter().flatten().chain([own]).map(|(id, bytes, needs)| of(id, bytes, needs)).collect()
}

/// Bytes of the files in a directory.
fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.len())).sum()
}
