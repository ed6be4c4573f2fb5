//! The methods that come with the program.

use std::{path::Path, sync::OnceLock};

use super::{Method, MethodError};

/// Embedded files in the order in which people see them: baselines, lossless, loosened.
const FILES: [(&str, &str); 30] = [
    ("autoregressive", include_str!("../../../assets/methods/autoregressive.toml")),
    ("naive", include_str!("../../../assets/methods/naive.toml")),
    ("naive-auto", include_str!("../../../assets/methods/naive-auto.toml")),
    ("naive-tree", include_str!("../../../assets/methods/naive-tree.toml")),
    ("sd-random", include_str!("../../../assets/methods/sd-random.toml")),
    ("sd-uniform", include_str!("../../../assets/methods/sd-uniform.toml")),
    ("sd-frames", include_str!("../../../assets/methods/sd-frames.toml")),
    ("sd-random-tree", include_str!("../../../assets/methods/sd-random-tree.toml")),
    ("sd-uniform-tree", include_str!("../../../assets/methods/sd-uniform-tree.toml")),
    ("text-only", include_str!("../../../assets/methods/text-only.toml")),
    ("lookup", include_str!("../../../assets/methods/lookup.toml")),
    ("streaming", include_str!("../../../assets/methods/streaming.toml")),
    ("layerskip", include_str!("../../../assets/methods/layerskip.toml")),
    ("specvlm", include_str!("../../../assets/methods/specvlm.toml")),
    ("specvlm-self", include_str!("../../../assets/methods/specvlm-self.toml")),
    ("sparrow", include_str!("../../../assets/methods/sparrow.toml")),
    ("sparrow-chain", include_str!("../../../assets/methods/sparrow-chain.toml")),
    ("msd", include_str!("../../../assets/methods/msd.toml")),
    ("parallelvlm", include_str!("../../../assets/methods/parallelvlm.toml")),
    ("parallelvlm-self", include_str!("../../../assets/methods/parallelvlm-self.toml")),
    ("std", include_str!("../../../assets/methods/std.toml")),
    ("lvspec", include_str!("../../../assets/methods/lvspec.toml")),
    ("lvspec-tree", include_str!("../../../assets/methods/lvspec-tree.toml")),
    ("lvspec-self", include_str!("../../../assets/methods/lvspec-self.toml")),
    ("fly", include_str!("../../../assets/methods/fly.toml")),
    ("fly-entropy", include_str!("../../../assets/methods/fly-entropy.toml")),
    ("lenient", include_str!("../../../assets/methods/lenient.toml")),
    ("divergence", include_str!("../../../assets/methods/divergence.toml")),
    ("glance", include_str!("../../../assets/methods/glance.toml")),
    ("random-loose", include_str!("../../../assets/methods/random-loose.toml")),
];

impl Method {
    /// All presets, baselines first.
    pub fn presets() -> &'static [Method] {
        static PRESETS: OnceLock<Vec<Method>> = OnceLock::new();
        // A preset that did not parse would be missing here; a test sees to it that none is.
        PRESETS.get_or_init(|| {
            FILES.iter().filter_map(|(name, text)| Method::from_toml(text, Path::new(name)).ok()).collect()
        })
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// [`MethodError::Unknown`] with the names there are.
    pub fn preset(name: &str) -> Result<Method, MethodError> {
        Self::presets().iter().find(|m| m.name == name).cloned().ok_or_else(|| MethodError::Unknown {
            name: name.into(),
            known: Self::presets().iter().map(|m| m.name.clone()).collect(),
        })
    }

    /// A preset by name, or a file: whatever ends in `.toml` or contains a path separator is a file.
    ///
    /// # Errors
    /// As [`Method::preset`] and [`Method::from_file`].
    pub fn find(name_or_file: &str) -> Result<Method, MethodError> {
        let path = Path::new(name_or_file);
        let is_file = path.components().count() > 1
            || name_or_file.contains(std::path::MAIN_SEPARATOR)
            || path.extension().is_some_and(|e| e == "toml");
        if is_file { Self::from_file(path) } else { Self::preset(name_or_file) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_parses_and_is_named_after_its_file() {
        for (name, text) in FILES {
            let method = Method::from_toml(text, Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(method.name, name);
            assert!(!method.about.is_empty());
        }
        assert_eq!(Method::presets().len(), FILES.len());
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = Method::preset("lvspce").unwrap_err();
        assert!(
            error.hint().starts_with("did you mean `lvspec`? there are: autoregressive, naive"),
            "{}",
            error.hint()
        );
        assert_eq!(crate::record::Failure::from(error).class.exit_code(), 2);
    }

    #[test]
    fn paths_are_files_and_bare_words_are_presets() {
        assert!(matches!(Method::find("lvspec"), Ok(m) if m.name == "lvspec"));
        assert!(matches!(Method::find("no/such"), Err(MethodError::Read { .. })));
        assert!(matches!(Method::find("such.toml"), Err(MethodError::Read { .. })));
        assert!(matches!(Method::find("such"), Err(MethodError::Unknown { .. })));
    }
}
