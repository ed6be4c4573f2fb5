//! The built-in methods.

use std::{path::Path, sync::OnceLock};

use super::{Method, MethodError};

macro_rules! presets {
    ($($name:literal)+) => {
        /// Names and embedded files in the order in which people see them: baselines, lossless, lossy.
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../assets/methods/", $name, ".toml"))),)+];
    };
}

presets! {
    "autoregressive" "naive" "naive-auto" "auto" "naive-tree" "text-only" "lookup" "specvlm" "specvlm-self" "sparrow" "msd"
    "vispec" "hivis" "eagle3" "mtp" "dflash" "assistant" "parallelvlm" "std" "lvspec" "lenient"
}

impl Method {
    /// All presets, baselines first.
    pub fn presets() -> &'static [Method] {
        static PRESETS: OnceLock<Vec<Method>> = OnceLock::new();
        // A preset that does not parse is missing here; a test checks that all parse.
        PRESETS.get_or_init(|| {
            FILES.iter().filter_map(|(name, text)| Method::from_toml(text, Path::new(name)).ok()).collect()
        })
    }

    /// The preset of this name. Fails with [`MethodError::Unknown`] with the known names.
    pub fn preset(name: &str) -> Result<Method, MethodError> {
        Self::presets().iter().find(|m| m.name == name).cloned().ok_or_else(|| MethodError::Unknown {
            name: name.into(),
            known: Self::presets().iter().map(|m| m.name.clone()).collect(),
        })
    }

    /// A preset by name, or a file: anything that ends in `.toml` or contains a path separator is a file.
    pub fn find(name_or_file: &str) -> Result<Method, MethodError> {
        let path = Path::new(name_or_file);
        let is_file = path.components().count() > 1
            || name_or_file.contains(std::path::MAIN_SEPARATOR)
            || path.extension().is_some_and(|e| e == "toml");
        if is_file { Self::from_file(path) } else { Self::preset(name_or_file) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A preset of the laboratory.
    pub(crate) fn of_the_laboratory(name: &str) -> Method {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/methods"));
        Method::from_file(&folder.join(format!("{name}.toml"))).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn every_preset_parses_and_is_named_after_its_file() {
        for (name, text) in FILES {
            let method = Method::from_toml(text, Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(method.name, *name);
            assert!(!method.about.is_empty());
        }
        assert_eq!(Method::presets().len(), FILES.len());
        assert_eq!(Method::default(), Method::presets()[0]);
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("assets/methods");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len(), "files and presets");
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = Method::preset("lvspce").unwrap_err();
        assert_eq!(error.hint(), "did you mean `lvspec`? `specreel methods` lists all methods");
        assert_eq!(specreel_record::Failure::from(error).class.exit_code(), 2);
    }

    #[test]
    fn paths_are_files_and_bare_words_are_presets() {
        assert!(matches!(Method::find("lvspec"), Ok(m) if m.name == "lvspec"));
        assert!(matches!(Method::find("no/such"), Err(MethodError::Read { .. })));
        assert!(matches!(Method::find("such.toml"), Err(MethodError::Read { .. })));
        assert!(matches!(Method::find("such"), Err(MethodError::Unknown { .. })));
    }
}
