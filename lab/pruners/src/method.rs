//! A method with the pruner of its target: files and built-in ones.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use toml::{Table, Value};

use crate::TargetPruner;
use specreel_speculate::{
    Method, MethodError,
    context::Pruner,
    method::{Origin, Problem},
};

const KEY: &str = "pruner";
/// How a change of the pruner begins.
const PREFIX: &str = "pruner.";

macro_rules! presets {
    ($($name:literal)+) => {
        /// Names and embedded files of `lab/methods` in the order in which people see them: lossless, lossy, those that prune their
        /// target.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../methods/", $name, ".toml"))),)+];
    };
}

presets! {
    "sd-random" "sd-uniform" "sd-frames" "sd-random-tree" "sd-uniform-tree" "sd-window-front" "sd-window-middle" "sd-window-end"
    "sd-attention" "sd-fastvid" "sd-dycoke" "viskip" "streaming" "layerskip" "twin" "sparrow-chain" "dflash-tree" "pearl"
    "parallelvlm-self" "lvspec-tree" "lvspec-self" "fly" "fly-entropy" "typical" "divergence" "glance" "random-loose"
    "fastv" "pdrop" "sparsevlm" "dycoke"
}

/// A method, and the pruner of its target if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct LabMethod {
    pub method: Method,
    pub pruner: Option<TargetPruner>,
}

impl From<Method> for LabMethod {
    fn from(method: Method) -> Self {
        Self { method, pruner: None }
    }
}

impl LabMethod {
    /// All methods that the laboratory has built in; those that prune their target are last.
    pub fn all() -> &'static [LabMethod] {
        // A preset that does not parse is missing here; a test checks that all parse.
        static PRESETS: LazyLock<Vec<LabMethod>> = LazyLock::new(|| {
            FILES.iter().filter_map(|(name, text)| LabMethod::from_toml(text, Path::new(name)).ok()).collect()
        });
        &PRESETS
    }

    /// The built-in methods that prune their target.
    pub fn presets() -> &'static [LabMethod] {
        let all = Self::all();
        &all[all.partition_point(|own| own.pruner.is_none())..]
    }

    /// The method of this name that prunes its target, or of a file with a pruner. `None` if there is neither; it may be another method.
    /// Fails if the file is invalid.
    pub fn find(name_or_file: &str) -> Result<Option<LabMethod>, MethodError> {
        if let Some(preset) = Self::presets().iter().find(|preset| preset.method.name == name_or_file) {
            return Ok(Some(preset.clone()));
        }
        let path = Path::new(name_or_file);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Ok(None);
        }
        // What cannot be read is no file of the laboratory.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let prunes = text.parse::<Table>().is_ok_and(|table| table.contains_key(KEY));
        prunes.then(|| Self::from_toml(&text, path)).transpose()
    }

    /// Read a method's file, with a pruner or without; `path` names it in errors. Fails if it is invalid, or there are a pruner and a
    /// drafter.
    pub fn from_toml(text: &str, path: &Path) -> Result<LabMethod, MethodError> {
        let mut table: Table = text.parse().unwrap_or_default();
        match table.remove(KEY) {
            None => Ok(Method::from_toml(text, path)?.into()),
            Some(pruner) => {
                let method = Method::from_toml(&table.to_string(), path)?;
                with_pruner(method, pruner).map_err(|problem| invalid(Origin::File(path.into()), problem))
            }
        }
    }

    /// With several values changed: `axis.key=value` of the method, `pruner.key=value` of the pruner. Fails if a key does not exist, or
    /// the changed method or pruner is invalid.
    pub fn with_sets<'a>(&self, sets: impl IntoIterator<Item = &'a str>) -> Result<LabMethod, MethodError> {
        let sets: Vec<&str> = sets.into_iter().collect();
        let origin = || Origin::Set(sets.join(" --set "));
        let (own, others): (Vec<&str>, Vec<&str>) =
            sets.iter().partition(|set| set.trim_start().starts_with(PREFIX));
        let method = self.method.with_sets(others)?;
        let mut pruner = match &self.pruner {
            Some(pruner) => Table::try_from(pruner).unwrap_or_default(),
            None if own.is_empty() => return Ok(method.into()),
            None => Table::new(),
        };
        for set in &own {
            let place = set.trim_start().trim_start_matches(PREFIX).split_once('=');
            let Some((key, value)) = place else {
                return Err(invalid(origin(), Problem::Form { text: (*set).into() }));
            };
            pruner.insert(key.trim().to_owned(), value_of(value.trim()));
        }
        with_pruner(method, Value::Table(pruner)).map_err(|problem| invalid(origin(), problem))
    }

    /// True if its text is certain to be autoregressive decoding's.
    pub fn lossless(&self) -> bool {
        // What a pruned target does not read it may have needed.
        self.pruner.is_none() && self.method.lossless()
    }

    /// The method as the text of a file.
    pub fn to_toml(&self) -> String {
        let pruner = self.pruner.as_ref().and_then(|pruner| Value::try_from(pruner).ok());
        self.method.to_toml() + &pruner.map_or_else(String::new, |pruner| format!("{KEY} = {pruner}\n"))
    }

    /// The pruner as an engine takes it.
    pub fn pruner(&self) -> Option<Arc<dyn Pruner>> {
        self.pruner.clone().map(|pruner| Arc::new(pruner) as Arc<dyn Pruner>)
    }

    /// Share of the visual tokens that the target keeps.
    pub fn target_share(&self) -> f64 {
        self.pruner.as_ref().map_or(1.0, TargetPruner::keep)
    }
}

fn invalid(origin: Origin, problem: Problem) -> MethodError {
    MethodError::Invalid { origin, problem }
}

/// The method with this pruner, if that is one and nothing drafts.
fn with_pruner(method: Method, pruner: Value) -> Result<LabMethod, Problem> {
    let pruner: TargetPruner = pruner.try_into().map_err(|error: toml::de::Error| Problem::Syntax {
        message: format!("`{KEY}`: {}", error.message()),
    })?;
    if let Some(problem) = pruner.problem() {
        return Err(problem);
    }
    if method.drafts() {
        return Err(Problem::Clash {
            first: format!("drafter = {}", method.drafter.kind()),
            second: KEY.into(),
            why: "a pruned target decodes alone",
            instead: "pick drafter = none, or remove the pruner",
        });
    }
    Ok(LabMethod { method, pruner: Some(pruner) })
}

/// A TOML value; a bare word is a string.
fn value_of(text: &str) -> Value {
    let table = format!("v = {text}").parse::<Table>().ok();
    table.and_then(|mut table| table.remove("v")).unwrap_or_else(|| Value::String(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_method_of_its_name() {
        for (name, text) in FILES {
            let own = LabMethod::from_toml(text, Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(own.method.name, *name);
            assert_eq!(LabMethod::from_toml(&own.to_toml(), Path::new(name)).unwrap(), own);
            assert!(!own.method.about.is_empty() && Method::preset(name).is_err(), "{name}");
        }
        assert_eq!(LabMethod::all().len(), FILES.len());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../methods");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len(), "files and presets");
    }

    #[test]
    fn what_prunes_its_target_is_last_and_decodes_alone() {
        let pruned = LabMethod::all().iter().filter(|own| own.pruner.is_some());
        assert_eq!(pruned.collect::<Vec<_>>(), LabMethod::presets().iter().collect::<Vec<_>>());
        assert_eq!(LabMethod::presets().len(), 4);
        for own in LabMethod::presets() {
            assert!(own.method.is_autoregressive() && !own.lossless(), "{}", own.method.name);
        }
    }

    #[test]
    fn values_are_changed_and_checked() {
        let fastv = LabMethod::find("fastv").unwrap().unwrap();
        let less = fastv.with_sets(["pruner.keep=0.25", "pruner.layer = 3"]).unwrap();
        assert_eq!(less.pruner, Some(TargetPruner::FastV { keep: 0.25, layer: 3 }));
        for (set, part) in [
            ("pruner.keep=2", "must be 0 to 1"),
            ("pruner.layer=0", "must be at least 1"),
            ("pruner.kep=0.1", "unknown field `kep`"),
            ("pruner.keep", "expected AXIS.KEY=VALUE"),
            ("pruner.kind=fastest", "unknown variant `fastest`"),
            ("drafter.kind=model", "clash"),
            ("context.keep=0.1", "context"),
        ] {
            let error = fastv.with_sets([set]).unwrap_err().to_string();
            assert!(error.contains(part), "{set}: {error}");
        }
    }

    #[test]
    fn a_file_without_a_pruner_is_any_method() {
        let naive = Method::preset("naive").unwrap();
        let read = LabMethod::from_toml(&naive.to_toml(), Path::new("naive.toml")).unwrap();
        assert_eq!(read, LabMethod { method: naive.clone(), pruner: None });
        assert!(read.lossless());
        let drafts = naive.to_toml() + "pruner = { kind = \"pdrop\", keep = 0.5 }\n";
        let error = LabMethod::from_toml(&drafts, Path::new("both.toml")).unwrap_err().to_string();
        assert_eq!(
            error,
            "method file both.toml: `drafter = model` and `pruner` clash: a pruned target decodes alone"
        );
        assert_eq!(LabMethod::find("naive").unwrap(), None);
        assert_eq!(LabMethod::find("no-such-file.toml").unwrap(), None);
    }
}
