//! The shared cache of the Hugging Face tools: `models--owner--name/{blobs,refs,snapshots}`.
//!
//! A blob is a file named after its checksum; a snapshot is a directory of links to blobs, named after its commit; a ref holds
//! the commit of a branch or tag. Any program may have written the names, so all of them are validated.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{HubError, ModelId, id::MAIN};

/// A cache directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Owner, name and revision (the commit itself if no ref points to it).
    pub id: ModelId,
    /// The snapshot's directory.
    pub dir: PathBuf,
}

impl Cache {
    /// The cache at `root`, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a model.
    pub fn folder(&self, id: &ModelId) -> PathBuf {
        self.root.join(id.folder())
    }

    /// The commit of a revision when it was last downloaded.
    pub fn commit(&self, id: &ModelId) -> Option<String> {
        let folder = self.folder(id);
        let stored = fs::read_to_string(folder.join("refs").join(&id.revision)).ok();
        let commit = stored.map_or_else(|| id.revision.clone(), |text| text.trim().to_owned());
        is_commit(&commit).then_some(commit)
    }

    /// The directory of a commit's files, whether it exists or not.
    pub fn snapshot(&self, id: &ModelId, commit: &str) -> PathBuf {
        self.folder(id).join("snapshots").join(commit)
    }

    /// The directory of a cached model; none without a `config.json`.
    pub fn find(&self, id: &ModelId) -> Option<PathBuf> {
        let dir = self.snapshot(id, &self.commit(id)?);
        dir.join("config.json").is_file().then_some(dir)
    }

    /// All cached models, by name; empty if the cache cannot be read.
    pub fn models(&self) -> Vec<Cached> {
        let mut models = Vec::new();
        for folder in names(&self.root) {
            let Some(main) = ModelId::from_folder(&folder, MAIN) else { continue };
            let mut revisions: Vec<String> = names(&self.folder(&main).join("refs"));
            // Of several refs to one commit, the main branch is shown.
            revisions.sort_by_key(|revision| (revision != MAIN, revision.clone()));
            revisions.extend(names(&self.folder(&main).join("snapshots")));
            let mut seen: Vec<PathBuf> = Vec::new();
            for revision in revisions {
                let Some(id) = ModelId::from_folder(&folder, &revision) else { continue };
                let Some(dir) = self.find(&id) else { continue };
                if !seen.contains(&dir) {
                    seen.push(dir.clone());
                    models.push(Cached { id, dir });
                }
            }
        }
        models
    }

    /// Store the commit of a revision.
    pub(super) fn set_ref(&self, id: &ModelId, commit: &str) -> Result<(), HubError> {
        if id.revision == commit {
            return Ok(());
        }
        let path = self.folder(id).join("refs").join(&id.revision);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, commit));
        made.map_err(|e| HubError::io(&path, e))
    }
}

/// Display name of a model: the model's name for a cache snapshot, else the directory's, or that of a GGUF file without
/// `.gguf`.
pub fn name_of(dir: &Path) -> String {
    if dir.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
        && let Some(name) = dir.file_stem()
    {
        return name.to_string_lossy().into_owned();
    }
    let part =
        |dir: Option<&Path>| dir.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let snapshots = dir.parent().filter(|parent| parent.ends_with("snapshots"));
    let id = snapshots.and_then(|snapshots| ModelId::from_folder(&part(snapshots.parent())?, MAIN));
    id.map(|id| id.name).or_else(|| part(Some(dir))).unwrap_or_else(|| dir.display().to_string())
}

/// True for a commit hash: forty hexadecimal digits.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Names of a directory's entries, sorted; empty if it cannot be read.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_its_models_name() {
        assert_eq!(name_of(Path::new("/c/models--a--b.c/snapshots/0123")), "b.c");
        for plain in ["/models/b.c", "/c/snapshots/b.c", "b.c"] {
            assert_eq!(name_of(Path::new(plain)), "b.c");
        }
    }

    #[test]
    fn models_are_found_by_ref_and_by_commit() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().into());
        let id = ModelId::parse("a/b").unwrap();
        assert_eq!((cache.find(&id), cache.models()), (None, Vec::new()));
        for commit in ["1".repeat(40), "2".repeat(40)] {
            let snapshot = cache.snapshot(&id, &commit);
            fs::create_dir_all(&snapshot).unwrap();
            fs::write(snapshot.join("config.json"), "{}").unwrap();
        }
        let old = ModelId::parse(&format!("a/b@{}", "2".repeat(40))).unwrap();
        cache.set_ref(&id, &"1".repeat(40)).unwrap();
        fs::create_dir_all(dir.path().join("models--a--empty/snapshots")).unwrap();
        fs::create_dir_all(dir.path().join("datasets--a--b")).unwrap();
        assert_eq!(cache.find(&id), Some(cache.snapshot(&id, &"1".repeat(40))));
        assert_eq!(cache.models().into_iter().map(|m| m.id).collect::<Vec<_>>(), [id.clone(), old]);

        // A tampered ref is ignored.
        fs::write(cache.folder(&id).join("refs/main"), "../../../etc").unwrap();
        assert_eq!(cache.find(&id), None);
    }
}
