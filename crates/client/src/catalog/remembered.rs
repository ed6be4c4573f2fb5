//! The pair chosen last: a JSON file in the state directory. A pair whose files are gone is forgotten.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::choices::{DrafterChoice, ModelPair};
use crate::private;

pub fn write(file: &Path, pair: &ModelPair) -> std::io::Result<()> {
    let drafter = match &pair.drafter {
        DrafterChoice::Of(path) => Some(path),
        DrafterChoice::Best | DrafterChoice::None => None,
    };
    let text = json!({ "target": pair.target, "mmproj": pair.mmproj, "drafter": drafter }).to_string() + "\n";
    private::write(file, text.as_bytes())
}

/// The pair of a file: target, its vision tower, drafter. `None` if there is none, or one of its files is gone.
pub fn read(file: &Path) -> Option<(PathBuf, Option<PathBuf>, Option<PathBuf>)> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    let path = |key: &str| value[key].as_str().map(PathBuf::from);
    let (target, mmproj, drafter) = (path("target")?, path("mmproj"), path("drafter"));
    let is_there = |path: &Option<PathBuf>| path.as_ref().is_none_or(|path| path.exists());
    (target.exists() && is_there(&mmproj) && is_there(&drafter)).then_some((target, mmproj, drafter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_comes_back_while_its_files_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let [file, target, drafter] =
            ["state/models.json", "target", "drafter"].map(|name| dir.path().join(name));
        assert_eq!(read(&file), None);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::create_dir(&target).unwrap();
        std::fs::create_dir(&drafter).unwrap();
        let pair = ModelPair {
            target: Some(target.clone()),
            mmproj: None,
            drafter: DrafterChoice::Of(drafter.clone()),
        };
        write(&file, &pair).unwrap();
        assert_eq!(read(&file), Some((target.clone(), None, Some(drafter.clone()))));
        std::fs::remove_dir(&drafter).unwrap();
        assert_eq!(read(&file), None);
        for text in ["", "{", "[1]", "{\"target\": 7}"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file), None, "{text}");
        }
        // The embedded pair is the usual one.
        write(&file, &ModelPair::default()).unwrap();
        assert_eq!(read(&file), None);
    }
}
