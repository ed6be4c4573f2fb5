//! GGUF files of a repository: the language model of a type, whole or in parts, and its vision tower.
//!
//! Files at the top of a repository are used, and those in its folders: publishers put the parts of a large file into a folder
//! for its type. Where both have a type, the top goes first.

use std::path::{Path, PathBuf};

use super::{
    HubError, ModelId,
    disk::names,
    error::Available,
    listing::{Listing, RemoteFile},
};
use crate::gguf::{file_names, towers_of};

pub(super) struct GgufFiles {
    /// The language model: one file, or its parts in order.
    pub text: Vec<RemoteFile>,
    pub tower: Option<RemoteFile>,
}

/// A language model in a repository, whole or in parts.
#[derive(Debug, PartialEq, Eq)]
struct TextModel {
    /// Its type, if its name has one.
    tag: Option<String>,
    /// The paths of its files.
    files: Vec<String>,
    /// Those that are not there.
    missing: Vec<String>,
}

impl TextModel {
    fn depth(&self) -> usize {
        self.files.first().map_or(0, |path| path.matches('/').count())
    }
}

/// True for the name of a language model's file. A layer for multi-token prediction may have a separate file, `mtp-NAME`.
fn is_text(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file_names::is_gguf(name) && !file_names::is_tower(name) && !file.starts_with("mtp-")
}

/// The language models among these paths, by path.
fn text_models(paths: &[String]) -> Vec<TextModel> {
    let near = paths.iter().filter(|path| is_text(path) && path.matches('/').count() <= 1);
    let mut models: Vec<TextModel> = Vec::new();
    for path in near {
        let count = file_names::part_of(path).map_or(1, |(_, count)| count);
        let files: Vec<String> =
            (1..=count.min(file_names::MOST_PARTS)).map(|number| file_names::part(path, number)).collect();
        if models.iter().all(|model| model.files != files) {
            let missing = files.iter().filter(|file| !paths.contains(file)).cloned().collect();
            models.push(TextModel { tag: file_names::tag_of(path), files, missing });
        }
    }
    models.sort_by_key(|model| (model.depth(), model.files.first().cloned()));
    models
}

fn paths(listing: &Listing) -> Vec<String> {
    listing.files.iter().map(|file| file.path.clone()).collect()
}

/// Types of the language models in a listing.
pub(super) fn available(listing: &Listing) -> Vec<Available> {
    let mut all: Vec<Available> = Vec::new();
    for model in text_models(&paths(listing)).into_iter().filter(|model| model.missing.is_empty()) {
        let Some(tag) = model.tag.filter(|tag| all.iter().all(|other| other.tag != *tag)) else { continue };
        let bytes = model.files.iter().filter_map(|path| listing.file(path)).map(|file| file.size).sum();
        all.push(Available { tag, bytes, files: model.files.len() });
    }
    all.sort_by(|a, b| a.tag.cmp(&b.tag));
    all
}

/// True if a listing has a language model as GGUF file, in any directory.
pub(super) fn has_models(listing: &Listing) -> bool {
    listing.files.iter().any(|file| is_text(&file.path))
}

/// The files of the type `tag`.
/// Errors: there is none, there are several or several towers, or parts are missing.
pub(super) fn choose(id: &ModelId, tag: &str, listing: &Listing) -> Result<GgufFiles, HubError> {
    let repository = id.repository();
    let paths = paths(listing);
    let of_type = text_models(&paths).into_iter().filter(|model| model.tag.as_deref() == Some(tag));
    let (whole, partial): (Vec<TextModel>, Vec<TextModel>) =
        of_type.partition(|model| model.missing.is_empty());
    let nearest = whole.first().map_or(0, TextModel::depth);
    let nearest: Vec<TextModel> = whole.into_iter().filter(|model| model.depth() == nearest).collect();
    let text = match &nearest[..] {
        [text] => text,
        [] => {
            let (tag, available) = (tag.to_owned(), available(listing));
            return Err(match partial.into_iter().next() {
                Some(TextModel { missing, .. }) => HubError::Parts { repository, tag, missing, available },
                None => HubError::Type { repository, tag: Some(tag), available },
            });
        }
        several => {
            let files = several.iter().filter_map(|model| model.files.first().cloned()).collect();
            let what = format!("GGUF files of type {tag}");
            return Err(HubError::Several { repository, what, files });
        }
    };
    let (name, folder) = (&text.files[0], folder(&text.files[0]));
    let in_folder = |wanted: &str| -> Vec<String> {
        let is_there = |path: &&String| file_names::is_tower(path) && self::folder(path) == wanted;
        paths.iter().filter(is_there).cloned().collect()
    };
    let mut towers = in_folder(folder);
    if towers.is_empty() {
        towers = in_folder("");
    }
    let tower = match file_names::tower_of(name, &towers) {
        Ok(name) => listing.file(name).cloned(),
        Err(none) if none.is_empty() => None,
        Err(several) => {
            let files = several.into_iter().map(str::to_owned).collect();
            return Err(HubError::Several { repository, what: "mmproj files".into(), files });
        }
    };
    let text = text.files.iter().filter_map(|path| listing.file(path).cloned()).collect();
    Ok(GgufFiles { text, tower })
}

/// The folder of a path; empty at the top.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The language models in a snapshot, as (type, files), those at its top first; without models of which parts are missing.
pub(super) fn cached(dir: &Path) -> Vec<(Option<String>, Vec<PathBuf>)> {
    let mut paths = Vec::new();
    for name in names(dir) {
        let inside = names(&dir.join(&name)).into_iter().map(|file| format!("{name}/{file}"));
        paths.extend(inside.filter(|path| dir.join(path).is_file()));
        if dir.join(&name).is_file() {
            paths.push(name);
        }
    }
    let models = text_models(&paths).into_iter().filter(|model| model.missing.is_empty());
    models.map(|model| (model.tag, model.files.iter().map(|path| dir.join(path)).collect())).collect()
}

/// The vision tower of a language model in a snapshot.
pub(super) fn cached_tower(text: &Path) -> Option<PathBuf> {
    let (dir, towers) = towers_of(text).ok()?;
    let tower = file_names::tower_of(text.file_name()?.to_str()?, &towers).ok()?;
    Some(dir.join(tower)).filter(|tower| tower.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::listing::Checksum;

    fn listing(paths: &[&str]) -> Listing {
        let file = |path: &&str| RemoteFile {
            path: (*path).to_owned(),
            size: 1,
            checksum: Checksum::Git("0".repeat(40)),
        };
        Listing { commit: "0".repeat(40), architecture: None, files: paths.iter().map(file).collect() }
    }

    #[test]
    fn a_type_selects_a_language_model_and_its_tower() {
        let id = ModelId::parse("me/vl").unwrap();
        let all = listing(&[
            "README.md",
            "VL-3B-Q4_K_M.gguf",
            "mtp-VL-3B-Q4_K_M.gguf",
            "VL-3B-Q4_K_S.gguf",
            "VL-3B-q8_0.gguf",
            "mmproj-VL-3B-Q8_0.gguf",
            "mmproj-VL-3B-f16.gguf",
            "BF16/VL-3B-BF16-00001-of-00002.gguf",
            "BF16/VL-3B-BF16-00002-of-00002.gguf",
            "BF16/VL-3B-Q8_0.gguf",
            "sub/VL-3B-Q6_K.gguf",
            "sub/deeper/VL-3B-Q5_0.gguf",
            "Q2_K/VL-3B-Q2_K-00002-of-00003.gguf",
            "VL-3B-Q3_K-00001-of-99999.gguf",
        ]);
        let name = |tag: &str| {
            let files = choose(&id, tag, &all).map_err(|error| error.to_string())?;
            let paths: Vec<String> = files.text.into_iter().map(|file| file.path).collect();
            Ok::<_, String>((paths.join(" "), files.tower.unwrap().path))
        };
        let tower = "mmproj-VL-3B-f16.gguf".to_owned();
        assert_eq!(name("Q4_K_M"), Ok(("VL-3B-Q4_K_M.gguf".into(), tower.clone())));
        assert_eq!(name("Q8_0"), Ok(("VL-3B-q8_0.gguf".into(), tower.clone())));
        assert_eq!(name("Q6_K"), Ok(("sub/VL-3B-Q6_K.gguf".into(), tower.clone())));
        let parts = "BF16/VL-3B-BF16-00001-of-00002.gguf BF16/VL-3B-BF16-00002-of-00002.gguf";
        assert_eq!(name("BF16"), Ok((parts.into(), tower)));
        let missing = "Q2_K of me/vl is incomplete: the repository lacks Q2_K/VL-3B-Q2_K-00001-of-00003.gguf, \
                       Q2_K/VL-3B-Q2_K-00003-of-00003.gguf";
        assert_eq!(name("Q2_K"), Err(missing.into()));
        assert!(name("Q3_K").unwrap_err().len() < 300);
        // One folder is looked into, and a part of a type is no type.
        for tag in ["Q5_0", "Q4_K", "F16"] {
            assert_eq!(name(tag), Err(format!("me/vl has no GGUF file of type {tag}")));
        }
        let types: Vec<String> = available(&all).iter().map(ToString::to_string).collect();
        assert_eq!(
            types,
            ["BF16 (2 B in 2 files)", "Q4_K_M (1 B)", "Q4_K_S (1 B)", "Q6_K (1 B)", "Q8_0 (1 B)"]
        );
        let twice = listing(&["a-Q8_0.gguf", "b-Q8_0.gguf"]);
        assert!(matches!(choose(&id, "Q8_0", &twice), Err(HubError::Several { .. })));
        let towers = listing(&["a-Q8_0.gguf", "mmproj-b-f16.gguf", "mmproj-c-f16.gguf"]);
        let error = choose(&id, "Q8_0", &towers).map(|_| ()).unwrap_err();
        let shown = "me/vl has several mmproj files: mmproj-b-f16.gguf, mmproj-c-f16.gguf";
        assert_eq!(error.to_string(), shown);
        // A tower in the folder of the parts goes before one at the top.
        let nearer = listing(&["Q8_0/a.gguf", "Q8_0/mmproj-b.gguf", "mmproj-a.gguf"]);
        let nearer = choose(&id, "Q8_0", &nearer).unwrap();
        assert_eq!(nearer.tower.unwrap().path, "Q8_0/mmproj-b.gguf");
        let alone = choose(&id, "Q8_0", &listing(&["a-Q8_0.gguf"])).unwrap();
        assert!(alone.tower.is_none());
        assert!(has_models(&twice) && !has_models(&listing(&["mmproj-f16.gguf", "a.bin"])));
    }
}
