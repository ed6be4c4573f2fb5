//! What is said about the models of a run.

use crate::cli::args::run::RunArgs;
use specreel_client::catalog::{local, recipe};
use specreel_client::{Config, present::text::clean};
use specreel_model::ModelSpec;
use specreel_speculate::{Drafter, Method};

/// Suggest a drafter on stderr if the target has none.
pub fn suggest_drafter(models: &ModelSpec, config: &Config, quiet: bool) {
    if models.drafter.is_none()
        && models.heads.is_empty()
        && !quiet
        && let Some(hint) = local::suggestion(&models.target, config)
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
    let drafts = methods.iter().any(|m| matches!(m.drafter, Drafter::Auto {} | Drafter::Model {}));
    let options = [
        ("--drafter-device", args.drafter_device.is_some()),
        ("--drafter-dtype", args.drafter_dtype.is_some()),
        ("--drafter-vocabulary", args.drafter_vocabulary.is_some()),
    ];
    for (option, _) in options.into_iter().filter(|(_, is_given)| *is_given && !drafts) {
        let not = if methods.len() == 1 { " has no" } else { " has a" };
        notes.push(format!("{option} is not used: {which}{not} draft model"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_client::{Settings, catalog};
    use specreel_demo as assets;
    use specreel_engine::has_drafter;
    use specreel_model::draft_head::Recipe;
    use specreel_record::Failure;
    use specreel_tensor::DeviceChoice;
    use std::path::Path;

    fn of(target: Option<&Path>, drafter: Option<&Path>) -> Result<ModelSpec, Failure> {
        let [target, drafter] = [target, drafter].map(|dir| dir.map(Path::to_owned));
        let args = RunArgs { target, drafter, ..RunArgs::default() };
        catalog::spec(&Settings::merge(args.layer(), &Config::default()), None)
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
