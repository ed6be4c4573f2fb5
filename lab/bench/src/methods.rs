//! The methods that tables name: the product's presets, and in `lab/methods` those that only reproduce a row.

use std::{path::Path, sync::OnceLock};

use specreel_speculate::{Method, MethodError};

macro_rules! presets {
    ($($name:literal)+) => {
        /// Names and embedded files in the order in which people see them: lossless, lossy.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../methods/", $name, ".toml"))),)+];
    };
}

presets! {
    "sd-random" "sd-uniform" "sd-frames" "sd-random-tree" "sd-uniform-tree" "sd-window-front" "sd-window-middle" "sd-window-end"
    "sd-attention" "sd-fastvid" "sd-dycoke" "viskip" "streaming" "layerskip" "twin" "sparrow-chain" "dflash-tree" "pearl"
    "parallelvlm-self" "lvspec-tree" "lvspec-self" "fly" "fly-entropy" "typical" "divergence" "glance" "random-loose"
}

/// The presets of the laboratory alone, without those that prune their target ([`specreel_pruners::LabMethod`]).
pub fn of_the_laboratory() -> &'static [Method] {
    static PRESETS: OnceLock<Vec<Method>> = OnceLock::new();
    // A preset that does not parse is missing here; a test checks that all parse.
    PRESETS.get_or_init(|| {
        FILES.iter().filter_map(|(name, text)| Method::from_toml(text, Path::new(name)).ok()).collect()
    })
}

/// All presets: the product's, then the laboratory's.
pub fn presets() -> impl Iterator<Item = &'static Method> {
    Method::presets().iter().chain(of_the_laboratory())
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = String> {
    presets().map(|method| method.name.clone())
}

/// The preset of this name. Fails with [`MethodError::Unknown`] with the known names.
pub fn preset(name: &str) -> Result<Method, MethodError> {
    let found = presets().find(|method| method.name == name).cloned();
    found.ok_or_else(|| MethodError::Unknown { name: name.into(), known: names().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_parses_and_is_named_after_its_file() {
        for (name, text) in FILES {
            let method = Method::from_toml(text, Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(method.name, *name);
            assert!(!method.about.is_empty() && Method::preset(name).is_err(), "{name}");
        }
        assert_eq!(of_the_laboratory().len(), FILES.len());
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../methods"));
        let pruned = specreel_pruners::LabMethod::presets().len();
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len() + pruned, "files and presets");
    }
}
