//! GGUF files of a repository: the language model of a type, and the vision tower beside it.
//!
//! Only files at the top of the repository are used: a model and its tower must be in one directory.

use std::path::{Path, PathBuf};

use super::{
    HubError, ModelId,
    cache::names,
    listing::{Listing, RemoteFile},
};
use crate::gguf::file_names;

pub(super) struct GgufFiles {
    pub text: RemoteFile,
    pub tower: Option<RemoteFile>,
}

/// True for the name of a language model's file. A layer for multi-token prediction may have a separate file, `mtp-NAME`.
fn is_text(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file_names::is_gguf(name) && !file_names::is_tower(name) && !file.starts_with("mtp-")
}

/// Types of the language models among these names, sorted; without split models, which cannot be loaded.
fn tags_of<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let whole = names.filter(|name| is_text(name) && file_names::part_of(name).is_none());
    let mut tags: Vec<String> = whole.filter_map(file_names::tag_of).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Types of the language models in a listing.
pub(super) fn tags(listing: &Listing) -> Vec<String> {
    tags_of(listing.files.iter().map(|file| file.path.as_str()).filter(|path| !path.contains('/')))
}

/// True if a listing has a language model as GGUF file, in any directory.
pub(super) fn has_models(listing: &Listing) -> bool {
    listing.files.iter().any(|file| is_text(&file.path))
}

/// The files of the type `tag`.
/// Errors: there is none, there are several or several towers, or the model is split.
pub(super) fn choose(id: &ModelId, tag: &str, listing: &Listing) -> Result<GgufFiles, HubError> {
    let repository = id.repository();
    let of_type =
        |file: &&RemoteFile| is_text(&file.path) && file_names::tag_of(&file.path).as_deref() == Some(tag);
    let (parts, whole): (Vec<&RemoteFile>, Vec<&RemoteFile>) =
        listing.files.iter().filter(of_type).partition(|file| file_names::part_of(&file.path).is_some());
    let whole: Vec<&RemoteFile> = whole.into_iter().filter(|file| !file.path.contains('/')).collect();
    let text = match whole[..] {
        [text] => text.clone(),
        [] => {
            return Err(match parts.first() {
                Some(part) => HubError::Split {
                    repository,
                    tag: tag.into(),
                    parts: file_names::part_of(&part.path).map_or(parts.len(), |(_, count)| count),
                },
                None => HubError::Type { repository, tag: Some(tag.into()), tags: tags(listing) },
            });
        }
        _ => {
            let files = whole.iter().map(|file| file.path.clone()).collect();
            let what = format!("GGUF files of type {tag}");
            return Err(HubError::Several { repository, what, files });
        }
    };
    let towers: Vec<String> = listing
        .files
        .iter()
        .map(|file| file.path.clone())
        .filter(|path| file_names::is_tower(path) && !path.contains('/'))
        .collect();
    let tower = match file_names::tower_of(&text.path, &towers) {
        Ok(name) => listing.file(name).cloned(),
        Err(none) if none.is_empty() => None,
        Err(several) => {
            let files = several.into_iter().map(str::to_owned).collect();
            return Err(HubError::Several { repository, what: "mmproj files".into(), files });
        }
    };
    Ok(GgufFiles { text, tower })
}

/// The language models in a snapshot, as (type, file); without split models.
pub(super) fn cached(dir: &Path) -> Vec<(Option<String>, PathBuf)> {
    let files = names(dir).into_iter().filter(|name| is_text(name) && dir.join(name).is_file());
    let whole = files.filter(|name| file_names::part_of(name).is_none());
    whole.map(|name| (file_names::tag_of(&name), dir.join(&name))).collect()
}

/// The vision tower of a language model in a snapshot.
pub(super) fn cached_tower(text: &Path) -> Option<PathBuf> {
    let (dir, name) = (text.parent()?, text.file_name()?.to_str()?);
    let towers = names(dir).into_iter().filter(|name| file_names::is_tower(name) && dir.join(name).is_file());
    let towers: Vec<String> = towers.collect();
    file_names::tower_of(name, &towers).ok().map(|tower| dir.join(tower))
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
            "sub/VL-3B-Q6_K.gguf",
        ]);
        let name = |tag: &str| {
            let files = choose(&id, tag, &all).map_err(|error| error.to_string())?;
            Ok((files.text.path, files.tower.unwrap().path))
        };
        let tower = "mmproj-VL-3B-f16.gguf".to_owned();
        assert_eq!(name("Q4_K_M"), Ok(("VL-3B-Q4_K_M.gguf".into(), tower.clone())));
        assert_eq!(name("Q8_0"), Ok(("VL-3B-q8_0.gguf".into(), tower)));
        assert_eq!(name("BF16"), Err("BF16 of me/vl is split into 2 files".into()));
        // Only the top directory counts, and a part of a type is no type.
        for tag in ["Q6_K", "Q4_K", "F16"] {
            assert_eq!(name(tag), Err(format!("me/vl has no GGUF file of type {tag}")));
        }
        assert_eq!(tags(&all), ["Q4_K_M", "Q4_K_S", "Q8_0"]);
        let twice = listing(&["a-Q8_0.gguf", "b-Q8_0.gguf"]);
        assert!(matches!(choose(&id, "Q8_0", &twice), Err(HubError::Several { .. })));
        let towers = listing(&["a-Q8_0.gguf", "mmproj-b-f16.gguf", "mmproj-c-f16.gguf"]);
        let error = choose(&id, "Q8_0", &towers).map(|_| ()).unwrap_err();
        let shown = "me/vl has several mmproj files: mmproj-b-f16.gguf, mmproj-c-f16.gguf";
        assert_eq!(error.to_string(), shown);
        let alone = choose(&id, "Q8_0", &listing(&["a-Q8_0.gguf"])).unwrap();
        assert!(alone.tower.is_none());
        assert!(has_models(&twice) && !has_models(&listing(&["mmproj-f16.gguf", "a.bin"])));
    }
}
