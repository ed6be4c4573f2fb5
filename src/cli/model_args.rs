//! Which models run together: arguments, configuration, the embedded pair; and whether a method has the drafter it needs.

use std::path::{Path, PathBuf};

use super::{
    args::{self, RunArgs},
    color,
    config::Config,
    dirs::Dirs,
    models as found,
};
use crate::{
    assets,
    model::{
        DeviceChoice, ModelSpec,
        draft_head::{DraftHeadConfig, Recipe},
    },
    record::{Failure, FailureClass},
    speculate::{Drafter, Method},
};

/// The recipe of the trained layer in a directory; none where there is no such layer.
pub fn recipe(dir: &Path) -> Option<Recipe> {
    let dir = found::directory(dir).ok()?;
    DraftHeadConfig::read(&dir).ok().map(|config| config.recipe)
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
    let directory = |role: &str, named: Option<&Path>, configured: &Option<PathBuf>| {
        named
            .map(|named| {
                model_directory(role, named).map_err(|failure| match configured {
                    Some(dir) if std::ptr::eq(dir.as_path(), named) => {
                        Config::blame(role, &dir.display(), failure)
                    }
                    _ => failure,
                })
            })
            .transpose()
    };
    let target = directory("target", target, &config.target)?;
    let drafter = directory("drafter", drafter, &config.drafter)?;
    let recipe_of = |dir: &PathBuf| DraftHeadConfig::read(dir).ok().map(|config| config.recipe);
    let head = drafter.clone().filter(|dir| DraftHeadConfig::is_in(dir));
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
    // The embedded target has a small model and trained layers; what is named takes the place of its own kind: a layer that of
    // its own recipe.
    let demo = assets::demo(Dirs::find().as_ref().map(|d| d.cache.as_path()))?;
    let mut heads = demo.heads;
    if let Some(head) = head {
        heads.retain(|embedded| recipe_of(embedded) != recipe_of(&head));
        heads.push(head);
    }
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
        tell!("hint: {}", color::plain(&hint));
    }
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
        // A layer that cannot be read is told when it is loaded.
        Drafter::Sparrow { recipe }
            if models.heads.iter().all(|head| self::recipe(head).is_some_and(|own| own != recipe)) =>
        {
            match recipe {
                Recipe::Sparrow => (
                    "drafts with a layer trained on the target's states (recipe sparrow)",
                    "train one for this target with `specreel train sparrow`, and add --drafter DIR",
                ),
                Recipe::Msd => (
                    "drafts with a layer trained on the target's states (recipe msd)",
                    "train one for this target with `specreel train msd`, and add --drafter DIR",
                ),
            }
        }
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

/// Say on stderr that a drafter that was asked for has no part in any of these methods.
pub fn tell_unused(args: &RunArgs, methods: &[&Method], quiet: bool) {
    if !quiet {
        unused(args, methods).iter().for_each(|note| tell!("note: {}", color::plain(note)));
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
            Drafter::Model {} => kind.is_none(),
            Drafter::Sparrow { recipe } => kind == Some(recipe),
            _ => false,
        };
        if !methods.iter().any(uses) {
            let what = match kind {
                None => "a small model".to_owned(),
                Some(recipe) => format!("a layer of the recipe {}", name(recipe)),
            };
            let not = if methods.len() == 1 { " does not draft" } else { " drafts" };
            notes.push(format!("--drafter {} is not used: {which}{not} with {what}", drafter.display()));
        }
    }
    if args.drafter_device.is_some() && !methods.iter().any(|m| matches!(m.drafter, Drafter::Model {})) {
        let not = if methods.len() == 1 { " has no" } else { " has a" };
        notes.push(format!("--drafter-device is not used: {which}{not} small model"));
    }
    notes
}

fn name(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Sparrow => "sparrow",
        Recipe::Msd => "msd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_directories_that_are_none_are_named() {
        let args = RunArgs::default();
        let failure = models(Some(Path::new("no/such")), None, &args, &Config::default()).unwrap_err();
        assert_eq!(failure.error, "target model no/such: no such directory, and no such model in the cache");
        let dir = tempfile::tempdir().unwrap();
        let models = models(Some(dir.path()), None, &args, &Config::default()).unwrap();
        assert_eq!(models.drafter, None);
    }

    #[test]
    fn a_layer_takes_the_place_of_its_own_recipe_and_what_is_not_used_is_told() {
        let demo = assets::demo(None).unwrap();
        let layer = demo.heads.iter().find(|head| recipe(head) == Some(Recipe::Sparrow)).unwrap();
        let args = RunArgs { drafter: Some(layer.clone()), ..RunArgs::default() };
        let spec = models(None, args.drafter.as_deref(), &args, &Config::default()).unwrap();
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
        assert!(
            notes(&args, &["sparrow"]).is_empty() && notes(&args, &["naive", "sparrow-chain"]).is_empty()
        );
        for names in [&["msd"][..], &["naive"], &["naive", "autoregressive"]] {
            assert!(notes(&args, names)[0].contains("is not used"), "{names:?}");
        }
        let small = RunArgs { drafter: Some(demo.drafter), ..RunArgs::default() };
        assert!(notes(&small, &["naive"]).is_empty() && notes(&small, &["sparrow"]).len() == 1);
        let device = RunArgs { drafter_device: Some(DeviceChoice::Cpu), ..RunArgs::default() };
        assert_eq!(
            notes(&device, &["autoregressive"]),
            ["--drafter-device is not used: `autoregressive` has no small model"]
        );
    }
}
