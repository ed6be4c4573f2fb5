//! The local models: the embedded pair, the configured folders, the caches of other programs.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::gguf;
use crate::{Config, dirs::Dirs};
use specreel_checkpoint::ModelFiles;
use specreel_checkpoint::gguf::{GgufModel, MAGIC};
use specreel_checkpoint::hub::{Cache, HubError, ModelId, Settings, name_of};
use specreel_demo as assets;
use specreel_model::inspect::{Facts, Interface};
use specreel_model::{ReadModel as _, family::VlConfig, known::KNOWN};
use specreel_record::Failure;
use specreel_speculate::closest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Embedded,
    Folder,
    Cache,
    LlamaCpp,
    LmStudio,
}

impl Origin {
    /// Where it is, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Folder => "folder",
            Self::Cache => "cache",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "LM Studio",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalModel {
    pub name: String,
    pub dir: PathBuf,
    pub origin: Origin,
}

/// What its files say of a model.
pub struct Summary {
    pub family: String,
    pub dtype: String,
    pub parameters: u64,
    pub bytes: u64,
    pub mmproj: Option<PathBuf>,
}

impl LocalModel {
    pub fn summary(&self) -> Result<Summary, Failure> {
        let files = ModelFiles::open(&self.dir, None)?;
        let config = files.config()?;
        let checkpoint = files.checkpoint()?;
        let facts = Facts::read_files(&files)?;
        Ok(Summary {
            family: config.family.model_type.to_owned(),
            dtype: checkpoint.main_type(),
            parameters: facts.text_parameters + facts.tower_parameters,
            bytes: checkpoint.bytes(),
            mmproj: files.gguf().map(|model| model.tower.path().to_owned()),
        })
    }
}

/// Refuse a model whose configuration is not supported, before its weights are downloaded: a directory, or a vision tower's file.
pub fn check_pulled(path: &Path) -> Result<(), Failure> {
    match path.is_dir() {
        true => {
            VlConfig::read(path)?;
            ModelFiles::of_directory(path).check_quantization()?;
        }
        false => GgufModel::check_tower(path)?,
    }
    Ok(())
}

/// Remove a model from the shared cache. Returns the bytes freed. Fails for models elsewhere (class input).
pub fn remove(dir: &Path) -> Result<u64, Failure> {
    let cache = Settings::from_env().cache.map(Cache::new);
    let cache = cache.ok_or(HubError::NoCache)?;
    Ok(cache.remove(dir)?)
}

pub fn all(config: &Config) -> Vec<LocalModel> {
    let mut found = Vec::new();
    if let Ok(demo) = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path())) {
        for (name, dir) in
            [("target", demo.target), ("drafter", demo.drafter), ("weak drafter", demo.weak_drafter)]
        {
            found.push(LocalModel { name: format!("embedded {name}"), dir, origin: Origin::Embedded });
        }
    }
    found.extend(others(config));
    found
}

/// Names that select a model, and its kind: embedded, in a folder, in a cache. Nothing is unpacked for it.
pub fn names(config: &Config) -> Vec<(String, &'static str)> {
    let embedded = assets::model_names().map(|name| (name, "embedded model"));
    let about = |origin| match origin {
        Origin::Cache => "in the model cache",
        Origin::LlamaCpp => "in llama.cpp's cache",
        Origin::LmStudio => "of LM Studio",
        Origin::Folder | Origin::Embedded => "in a configured folder",
    };
    let others = others(config).into_iter().map(|found| (found.name, about(found.origin)));
    embedded.chain(others).collect()
}

fn others(config: &Config) -> Vec<LocalModel> {
    let mut found = Vec::new();
    for folder in config.values.models.iter().flatten() {
        let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut dirs: Vec<PathBuf> = std::iter::once(folder.clone())
            .chain(inside)
            .filter(|dir| dir.join("config.json").is_file())
            .collect();
        dirs.sort();
        found.extend(dirs.into_iter().map(|dir| LocalModel {
            name: dir.display().to_string(),
            dir,
            origin: Origin::Folder,
        }));
    }
    let files = gguf::models(config);
    let (own, of_others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.origin == Origin::Folder);
    found.extend(own);
    if let Some(cache) = Settings::from_env().cache {
        let cache = Cache::new(cache);
        let models = cache.models().into_iter();
        let listed = models.filter(|m| m.path.is_dir() || gguf::is_listed(&m.path, Origin::Cache));
        found.extend(listed.map(|m| LocalModel {
            // Of several files of one type, the id selects the first.
            name: match m.path.is_dir() || cache.find(&m.id).as_ref() == Some(&m.path) {
                true => m.id.to_string(),
                false => m.path.display().to_string(),
            },
            dir: m.path,
            origin: Origin::Cache,
        }));
    }
    found.extend(of_others);
    found
}

/// An embedded model by the name of its directory, such as `demo-target`.
fn embedded(named: &Path) -> Option<PathBuf> {
    assets::model_names().find(|name| named == Path::new(name))?;
    let demo = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path())).ok()?;
    demo.models().find(|dir| dir.file_name() == Some(named.as_os_str())).cloned()
}

/// True for a regular file that begins as a GGUF file does, or is named like one.
fn is_gguf(path: &Path) -> bool {
    use std::io::Read;

    let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let begins = || {
        let mut magic = [0; 4];
        std::fs::File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .is_ok_and(|()| magic == *MAGIC)
    };
    path.is_file() && (named || begins())
}

/// Resolve the argument of a speech model: an existing directory, or the id of a cached model.
pub fn speech_model(named: &Path) -> Result<PathBuf, (String, String)> {
    let problem = match std::fs::metadata(named) {
        Ok(about) if about.is_dir() => return Ok(named.to_owned()),
        Ok(_) => "not a directory".to_owned(),
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => e.to_string(),
        Err(_) => match named.to_str().and_then(|text| ModelId::parse(text).ok()) {
            None => "no such directory".to_owned(),
            Some(id) if only_gguf(&id) => "the model cache has GGUF files of it only".to_owned(),
            Some(_) => return directory(named),
        },
    };
    let expected = "pass a directory with a Whisper model (config.json, tokenizer.json and *.safetensors), or a model id, for \
                    example openai/whisper-base";
    Err((problem, expected.to_owned()))
}

/// True if the shared cache has a model, but not as a directory.
fn only_gguf(id: &ModelId) -> bool {
    let Some(cache) = Settings::from_env().cache.map(Cache::new) else { return false };
    match cache.find(id) {
        Some(found) => !found.is_dir(),
        None => id.tag.is_none() && !cache.tags(id).is_empty(),
    }
}

/// Resolve a model argument: an existing directory or GGUF file, the name of an embedded model, or the id of a cached one
/// (`OWNER/NAME:TYPE` for its GGUF file of a type).
pub fn directory(named: &Path) -> Result<PathBuf, (String, String)> {
    let layout = "pass a directory with config.json, tokenizer.json and *.safetensors (Hugging Face layout), a GGUF file, or a \
                  model id";
    if !named.exists()
        && let Some(dir) = embedded(named)
    {
        return Ok(dir);
    }
    let id = named.to_str().and_then(|text| ModelId::parse(text).ok());
    match (std::fs::metadata(named), id) {
        (Ok(about), _) if about.is_dir() || is_gguf(named) => Ok(named.to_owned()),
        (Ok(_), _) => Err(("is a file, but no GGUF file".into(), layout.into())),
        (Err(e), Some(id)) if e.kind() == std::io::ErrorKind::NotFound => {
            let settings = Settings::from_env();
            let pull = match settings.offline {
                false => format!("download it with: specreel models pull {id}"),
                true => format!("unset HF_HUB_OFFLINE, then run: specreel models pull {id}"),
            };
            let cache = settings.cache.map(Cache::new);
            if let Some(found) = cache.as_ref().and_then(|cache| cache.find(&id)) {
                return Ok(found);
            }
            let tags = cache.filter(|_| id.tag.is_none()).map(|cache| cache.tags(&id)).unwrap_or_default();
            Err(match tags.first() {
                Some(first) => (
                    "the model cache has GGUF files of it only".into(),
                    format!("add a type, for example {id}:{first}; available: {}", tags.join(", ")),
                ),
                None => ("no such directory, and not in the model cache".into(), published(&id, pull)),
            })
        }
        (Err(e), None) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(("no such directory".into(), layout.into()))
        }
        (Err(e), _) => Err((e.to_string(), layout.into())),
    }
}

/// The id of a model that is named, but neither on this machine nor a file or directory.
pub fn absent(named: &Path) -> Option<ModelId> {
    if named.exists() || assets::model_names().any(|name| named == Path::new(&name)) {
        return None;
    }
    let id = ModelId::parse(named.to_str()?).ok()?;
    let cache = Cache::new(Settings::from_env().cache?);
    let has_files = || id.tag.is_none() && !cache.tags(&id).is_empty();
    (cache.find(&id).is_none() && !has_files()).then_some(id)
}

/// The published model whose id is nearest to one that is not known.
fn nearest(id: &ModelId) -> Option<String> {
    let (named, ids) = (id.repository(), KNOWN.map(|known| known.id.to_owned()));
    closest(&named, &ids).filter(|near| !near.eq_ignore_ascii_case(&named)).map(str::to_owned)
}

/// True for an id that is not known, but near to one that is.
pub fn is_misspelled(id: &ModelId) -> bool {
    nearest(id).is_some()
}

/// A hint that asks for the published model whose id is nearest, unless it is this one; not everything that is published is known.
fn published(id: &ModelId, pull: String) -> String {
    match nearest(id) {
        Some(near) => format!("did you mean `{near}`? If not, {pull}"),
        None => pull,
    }
}

/// The local models, to look for drafters among them. What was read of one is kept.
pub struct Candidates(Vec<Candidate>);

struct Candidate {
    model: LocalModel,
    active_parameters: Option<u64>,
    interface: OnceCell<Result<Interface, String>>,
}

impl Candidate {
    fn new(model: LocalModel) -> Self {
        let active_parameters = Facts::read(&model.dir).ok().map(|facts| facts.active_parameters);
        Self { model, active_parameters, interface: OnceCell::new() }
    }

    fn interface(&self) -> Result<&Interface, String> {
        self.interface.get_or_init(|| Interface::read(&self.model.dir)).as_ref().map_err(String::clone)
    }

    /// Why another model cannot draft for this one; none if it can.
    fn obstacle(&self, drafter: &Self) -> Option<String> {
        if self.model.dir == drafter.model.dir {
            return Some("it is the target".into());
        }
        let check = || self.interface()?.check_drafter(drafter.interface()?);
        match (drafter.active_parameters.zip(self.active_parameters), check()) {
            (_, Err(problem)) => Some(problem),
            (Some((theirs, ours)), Ok(())) if theirs < ours => None,
            _ => Some("it is not smaller than the target".into()),
        }
    }
}

impl Candidates {
    pub fn find(config: &Config) -> Self {
        Self(all(config).into_iter().map(Candidate::new).collect())
    }

    pub fn models(&self) -> impl Iterator<Item = &LocalModel> {
        self.0.iter().map(|candidate| &candidate.model)
    }

    /// For every model, in the order of [`models`](Self::models), why it cannot draft for the one in `target`; none if it can.
    pub fn obstacles(&self, target: &Path) -> Vec<Option<String>> {
        self.of(target, |target| self.0.iter().map(|candidate| target.obstacle(candidate)).collect())
    }

    /// The models that can draft for the one in `target`, best first: a fifth of its size is best, of which experts that a token does
    /// not take are no part.
    pub fn drafters(&self, target: &Path) -> Vec<&LocalModel> {
        self.of(target, |target| {
            let parameters = target.active_parameters.unwrap_or(0);
            let is_smaller = |candidate: &&Candidate| {
                candidate.active_parameters.is_some_and(|theirs| theirs < parameters)
            };
            let smaller = self.0.iter().filter(is_smaller);
            let mut fitting: Vec<_> =
                smaller.filter(|candidate| target.obstacle(candidate).is_none()).collect();
            // Distance from a fifth, by ratio.
            let distance = |candidate: &&Candidate| {
                let theirs = candidate.active_parameters.unwrap_or(0);
                ((theirs.max(1) * 5) as f64 / parameters.max(1) as f64).ln().abs()
            };
            fitting.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
            fitting.into_iter().map(|candidate| &candidate.model).collect()
        })
    }

    /// Ask about a target, which need not be among the local models.
    fn of<T>(&self, target: &Path, ask: impl FnOnce(&Candidate) -> T) -> T {
        match self.0.iter().find(|candidate| candidate.model.dir == target) {
            Some(target) => ask(target),
            None => ask(&Candidate::new(LocalModel {
                name: name_of(target),
                dir: target.to_owned(),
                origin: Origin::Folder,
            })),
        }
    }
}

/// The models that can draft for the one in `target`, best first.
pub fn drafters(target: &Path, config: &Config) -> Vec<LocalModel> {
    Candidates::find(config).drafters(target).into_iter().cloned().collect()
}

/// A hint that names a model that can draft for a target without drafter, if there is one.
pub fn suggestion(target: &Path, config: &Config) -> Option<String> {
    let best = drafters(target, config).into_iter().find(|found| found.origin != Origin::Embedded)?;
    Some(format!("{} can draft for {}: add --drafter {}", name_of(&best.dir), name_of(target), best.name))
}
