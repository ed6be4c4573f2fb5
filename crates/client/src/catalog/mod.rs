//! The models of a run, and those that can be chosen: named on the command line or in the configuration, embedded, in folders, in the
//! caches of other programs, on the hub.

pub mod advice;
mod choices;
mod gguf;
pub mod local;
pub mod remembered;
mod store;

use std::path::{Path, PathBuf};

use crate::{Setting, Settings, dirs::Dirs, weight_cache};
use specreel_checkpoint::ModelFiles;
use specreel_demo as assets;
use specreel_model::draft_head::{DraftHeadConfig, Recipe};
use specreel_model::{ModelSpec, family::Rope};
use specreel_record::Failure;
use specreel_tensor::WeightType;

pub use choices::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, Pulling, StoredFacts,
    StoredModel,
};
pub use store::{Store, drop_dtype, published_models};

/// The recipe of the draft head in a directory; `None` if there is no draft head.
pub fn recipe(dir: &Path) -> Option<Recipe> {
    let dir = local::directory(dir).ok()?;
    DraftHeadConfig::read(&dir).ok().map(|config| config.recipe)
}

/// The models of the settings, or the embedded pair.
pub fn spec(settings: &Settings, rope: Option<Rope>) -> Result<ModelSpec, Failure> {
    let found_in = |role: &str, named: &Setting<PathBuf>| {
        let found = named.value.as_deref().map(|dir| self::directory(role, dir)).transpose();
        found.map_err(|failure| named.blame(failure))
    };
    let target = found_in("target", &settings.target)?;
    let drafter = found_in("drafter", &settings.drafter)?;
    let recipe_of = |dir: &PathBuf| DraftHeadConfig::read(dir).ok().map(|config| config.recipe);
    let head = drafter.clone().filter(|dir| DraftHeadConfig::is_in(dir));
    let small = drafter.filter(|_| head.is_none());
    let (target, drafter, heads) = match target {
        Some(target) => (target, small, head.into_iter().collect()),
        // The embedded target has a draft model and draft heads; a named one replaces the one of its kind: a head the one of its
        // recipe.
        None => {
            let demo = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path()))?;
            let mut heads = demo.heads;
            if let Some(head) = head {
                heads.retain(|embedded| recipe_of(embedded) != recipe_of(&head));
                heads.push(head);
            }
            (demo.target, Some(small.unwrap_or(demo.drafter)), heads)
        }
    };
    let of_file = |mmproj: &Setting<PathBuf>, role: &str, file: Option<&PathBuf>| {
        let Some(path) = mmproj.value.clone() else { return Ok(None) };
        if file.is_some_and(|file| file.is_file()) {
            return Ok(Some(path));
        }
        let failure = Failure::usage(
            format!("the {role} is not a GGUF file: {} is not used", path.display()),
            format!("omit it, or pass a GGUF file to --{role}"),
        );
        Err(mmproj.blame(failure))
    };
    let mmproj = of_file(&settings.mmproj, "target", Some(&target))?;
    let drafter_mmproj = of_file(&settings.drafter_mmproj, "drafter", drafter.as_ref())?;
    let lora = settings.lora.value.clone();
    if lora.is_some() {
        // Before anything is loaded, and with the place where it was set.
        let files =
            ModelFiles::open(&target, mmproj.as_deref()).and_then(|files| files.with_lora(lora.as_deref()));
        files.map_err(|error| settings.lora.blame(error.into()))?;
    }
    Ok(ModelSpec {
        target,
        mmproj,
        lora,
        drafter,
        drafter_mmproj,
        heads,
        device: settings.device.or_default(),
        drafter_device: settings.drafter_device.value,
        dtype: settings.dtype.or_default(),
        drafter_dtype: settings.drafter_dtype.value.filter(|dtype| *dtype != WeightType::Auto),
        drafter_vocabulary: settings.drafter_vocabulary.value.map(|size| size as usize),
        tower_dtype: settings.tower_dtype.or_default(),
        kv_type: settings.kv_type.or_default(),
        rope: rope.unwrap_or_default(),
        weight_cache: weight_cache::of(settings),
    })
}

/// The directory or GGUF file of a model: as named, or from the cache.
pub fn directory(role: &str, named: &Path) -> Result<PathBuf, Failure> {
    local::directory(named)
        .map_err(|(what, hint)| Failure::input(format!("{role} model {}: {what}", named.display()), hint))
}
