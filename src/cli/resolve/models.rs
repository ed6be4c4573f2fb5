//! The models of a run.

use std::path::{Path, PathBuf};

use super::weight_cache;
use crate::cli::{args::run::RunArgs, dirs::Dirs, resolve::local_models};
use specreel_checkpoint::ModelFiles;
use specreel_client::{Config, Setting, Settings, present::text::clean};
use specreel_demo as assets;
use specreel_model::{
    ModelSpec,
    draft_head::{DraftHeadConfig, Recipe},
    family::Rope,
};
use specreel_record::Failure;
use specreel_speculate::{Drafter, Method};

/// The recipe of the draft head in a directory; `None` if there is no draft head.
pub fn recipe(dir: &Path) -> Option<Recipe> {
    let dir = local_models::directory(dir).ok()?;
    DraftHeadConfig::read(&dir).ok().map(|config| config.recipe)
}

/// The models of the settings, or the embedded pair.
pub fn models(settings: &Settings, rope: Option<Rope>) -> Result<ModelSpec, Failure> {
    let directory = |role: &str, named: &Setting<PathBuf>| {
        let found = named.value.as_deref().map(|dir| model_directory(role, dir)).transpose();
        found.map_err(|failure| named.blame(failure))
    };
    let target = directory("target", &settings.target)?;
    let drafter = directory("drafter", &settings.drafter)?;
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
        tower_dtype: settings.tower_dtype.or_default(),
        kv_type: settings.kv_type.or_default(),
        rope: rope.unwrap_or_default(),
        weight_cache: weight_cache::of(settings),
    })
}

/// The directory or GGUF file of a model: as named, or from the cache.
pub fn model_directory(role: &str, named: &Path) -> Result<PathBuf, Failure> {
    local_models::directory(named)
        .map_err(|(what, hint)| Failure::input(format!("{role} model {}: {what}", named.display()), hint))
}

/// Suggest a drafter on stderr if the target has none.
pub fn suggest_drafter(models: &ModelSpec, config: &Config, quiet: bool) {
    if models.drafter.is_none()
        && models.heads.is_empty()
        && !quiet
        && let Some(hint) = local_models::suggestion(&models.target, config)
    {
        tell!("hint: {}", clean(&hint));
    }
}

/// Say on stderr that a named drafter is not used by any of these methods.
pub fn tell_unused(args: &RunArgs, methods: &[&Method], quiet: bool) {
    if !quiet {
        unused(args, methods).iter().for_each(|note| tell!("note: {}", clean(note)));
    }
}

fn unused(args: &RunArgs, methods: &[&Method]) -> Vec<String> {
    let which = match methods {
        [one] => format!("`{}`", one.name),
        _ => "none of the methods".to_owned(),
    };
    let mut notes = Vec::new();
    if let Some(drafter) = &args.drafter {
        let kind = recipe(drafter);
        let uses = |method: &&Method| match method.drafter {
            Drafter::Auto {} => true,
            Drafter::Model {} => kind.is_none(),
            Drafter::Head { recipe } => kind == Some(recipe),
            _ => false,
        };
        if !methods.iter().any(uses) {
            let what = match kind {
                None => "a draft model".to_owned(),
                Some(recipe) => format!("a draft head of the recipe {}", recipe.name()),
            };
            let not = if methods.len() == 1 { " does not draft" } else { " drafts" };
            notes.push(format!("--drafter {} is not used: {which}{not} with {what}", drafter.display()));
        }
    }
    if args.drafter_device.is_some()
        && !methods.iter().any(|m| matches!(m.drafter, Drafter::Auto {} | Drafter::Model {}))
    {
        let not = if methods.len() == 1 { " has no" } else { " has a" };
        notes.push(format!("--drafter-device is not used: {which}{not} draft model"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_engine::has_drafter;
    use specreel_tensor::DeviceChoice;

    fn of(target: Option<&Path>, drafter: Option<&Path>) -> Result<ModelSpec, Failure> {
        let [target, drafter] = [target, drafter].map(|dir| dir.map(Path::to_owned));
        let args = RunArgs { target, drafter, ..RunArgs::default() };
        models(&Settings::merge(args.layer(), &Config::default()), None)
    }

    #[test]
    fn a_draft_head_replaces_the_one_of_its_recipe_and_unused_drafters_are_reported() {
        let demo = assets::demo(None).unwrap();
        let layer = demo.heads.iter().find(|head| recipe(head) == Some(Recipe::Sparrow)).unwrap();
        let args = RunArgs { drafter: Some(layer.clone()), ..RunArgs::default() };
        let spec = of(None, args.drafter.as_deref()).unwrap();
        assert_eq!((spec.heads.len(), spec.drafter.is_some()), (demo.heads.len(), true));
        let method = |name: &str| Method::preset(name).unwrap();
        assert!(has_drafter(&method("msd"), &spec).is_ok());
        let alone = ModelSpec { heads: vec![layer.clone()], drafter: None, ..spec };
        assert!(has_drafter(&method("sparrow"), &alone).is_ok());
        let failure = has_drafter(&method("msd"), &alone).unwrap_err();
        assert!(failure.error.contains("recipe msd") && failure.hint.unwrap().contains("train msd"));

        let notes = |args: &RunArgs, names: &[&str]| {
            let methods: Vec<Method> = names.iter().map(|name| method(name)).collect();
            unused(args, &methods.iter().collect::<Vec<_>>())
        };
        assert!(notes(&args, &["sparrow"]).is_empty() && notes(&args, &["naive", "sparrow"]).is_empty());
        for names in [&["msd"][..], &["naive"], &["naive", "autoregressive"]] {
            assert!(notes(&args, names)[0].contains("is not used"), "{names:?}");
        }
        let small = RunArgs { drafter: Some(demo.drafter), ..RunArgs::default() };
        assert!(notes(&small, &["naive"]).is_empty() && notes(&small, &["sparrow"]).len() == 1);
        let device = RunArgs { drafter_device: Some(DeviceChoice::Cpu), ..RunArgs::default() };
        assert_eq!(
            notes(&device, &["autoregressive"]),
            ["--drafter-device is not used: `autoregressive` has no draft model"]
        );
    }
}
