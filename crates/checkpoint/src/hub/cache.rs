//! The shared cache of the Hugging Face tools: `models--owner--name/{blobs,refs,snapshots}`.
//!
//! A blob is a file named after its checksum; a snapshot is a directory of links to blobs, named after its commit; a ref holds
//! the commit of a branch or tag. Any program may have written the names, so all of them are validated.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use super::{
    HubError, ModelId,
    disk::names,
    gguf,
    id::{MAIN, is_commit},
};
use crate::gguf::file_names;
use specreel_os::file;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Owner, name, revision (the commit itself if no ref points to it), and the type of a GGUF file.
    pub id: ModelId,
    /// The snapshot's directory, or a GGUF file in it: the first part of a split one.
    pub path: PathBuf,
}

impl Cache {
    /// The cache at `root`, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

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
    pub(crate) fn snapshot(&self, id: &ModelId, commit: &str) -> PathBuf {
        self.folder(id).join("snapshots").join(commit)
    }

    /// A cached model: its directory if that has a `config.json`, or the GGUF file of the type in the id, the first part if it is
    /// split and all parts are there.
    pub fn find(&self, id: &ModelId) -> Option<PathBuf> {
        let dir = self.snapshot(id, &self.commit(id)?);
        match &id.tag {
            None => dir.join("config.json").is_file().then_some(dir),
            Some(tag) => {
                let mut files = gguf::cached(&dir).into_iter();
                files.find(|(held, _)| held.as_ref() == Some(tag))?.1.into_iter().next()
            }
        }
    }

    /// Types of a model's cached GGUF files.
    pub fn tags(&self, id: &ModelId) -> Vec<String> {
        let Some(commit) = self.commit(id) else { return Vec::new() };
        let files = gguf::cached(&self.snapshot(id, &commit)).into_iter();
        files.filter_map(|(tag, _)| tag).collect()
    }

    /// All cached models, by name, directories before GGUF files; empty if the cache cannot be read.
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
                let Some(commit) = self.commit(&id) else { continue };
                let dir = self.snapshot(&id, &commit);
                if seen.contains(&dir) {
                    continue;
                }
                let files = gguf::cached(&dir);
                // Repositories of GGUF files may also have a `config.json`.
                if self.find(&id).is_some() && (files.is_empty() || has_safetensors(&dir)) {
                    models.push(Cached { id: id.clone(), path: dir.clone() });
                }
                let files = files.into_iter();
                models.extend(files.filter_map(|(tag, files)| {
                    let path = files.into_iter().next()?;
                    Some(Cached { id: id.clone().with_tag(tag), path })
                }));
                seen.push(dir);
            }
        }
        models
    }

    /// Remove a cached model from the disk: its directory, or a GGUF file with all its parts, and the blobs that nothing else in
    /// the cache links to. Files that only belong to it, such as the vision tower of the last GGUF file, are removed as well. Returns
    /// the bytes freed. Fails if the path is not a model of this cache, or a file cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<u64, HubError> {
        let mut models = self.models().into_iter().filter(|model| model.path == path);
        let Some(model) = models.next() else { return Err(HubError::NotCached(path.to_owned())) };
        let folder = self.folder(&model.id);
        let dir =
            path.ancestors().find(|dir| dir.parent() == Some(&folder.join("snapshots"))).unwrap_or(path);
        let files = links(dir);
        let is_gguf = |file: &Path| file_names::is_gguf(&file.to_string_lossy());
        let mut removed: Vec<PathBuf> = match path.is_dir() {
            true => files.iter().filter(|file| !is_gguf(file)).cloned().collect(),
            false => {
                let mut held = gguf::cached(dir).into_iter().map(|(_, parts)| parts);
                held.find(|parts| parts.first().map(PathBuf::as_path) == Some(path)).unwrap_or_default()
            }
        };
        // Without a model, the rest is of no use.
        let is_left = |file: &PathBuf| !removed.contains(file);
        let others = gguf::cached(dir).into_iter().any(|(_, parts)| parts.iter().all(is_left));
        if !(others || has_safetensors(dir) && !path.is_dir()) {
            removed = files;
        }
        // A link of the snapshot is a symbolic link, or another name of the blob.
        let identity = |path: &Path| file::identity_at(path).ok();
        let blobs = folder.join("blobs");
        let stored = names(&blobs).into_iter().map(|name| blobs.join(name));
        let stored: HashMap<_, _> = stored.filter_map(|blob| Some((identity(&blob)?, blob))).collect();
        let blob = |link: &PathBuf| {
            let stored = identity(link).and_then(|identity| stored.get(&identity).cloned());
            stored.or_else(|| fs::canonicalize(link).ok()).unwrap_or_else(|| link.clone())
        };
        let blobs: BTreeSet<PathBuf> = removed.iter().map(blob).collect();
        let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
        for link in &removed {
            fs::remove_file(link).map_err(|e| HubError::io(link, e))?;
        }
        let linked: BTreeSet<PathBuf> = links(&folder.join("snapshots")).iter().map(blob).collect();
        let mut freed = 0;
        for blob in blobs.difference(&linked) {
            freed += size(blob);
            if let Err(error) = fs::remove_file(blob)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(HubError::io(blob, error));
            }
        }
        remove_empty(&folder.join("snapshots"));
        if names(&folder.join("snapshots")).is_empty() {
            fs::remove_dir_all(&folder).map_err(|e| HubError::io(&folder, e))?;
        }
        Ok(freed)
    }

    pub(super) fn set_ref(&self, id: &ModelId, commit: &str) -> Result<(), HubError> {
        if id.revision == commit {
            return Ok(());
        }
        let path = self.folder(id).join("refs").join(&id.revision);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, commit));
        made.map_err(|e| HubError::io(&path, e))
    }
}

/// Display name of a model: the model's name for a cache snapshot, else the directory's, or a GGUF file's without
/// `.gguf` and the number of a part.
pub fn name_of(dir: &Path) -> String {
    if let Some(name) = dir.file_name().map(|name| name.to_string_lossy())
        && file_names::is_gguf(&name)
    {
        return file_names::model_name(&name).to_owned();
    }
    let part =
        |dir: Option<&Path>| dir.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let snapshots = dir.parent().filter(|parent| parent.ends_with("snapshots"));
    let id = snapshots.and_then(|snapshots| ModelId::from_folder(&part(snapshots.parent())?, MAIN));
    id.map(|id| id.name).or_else(|| part(Some(dir))).unwrap_or_else(|| dir.display().to_string())
}

/// True for a directory with weights in Hugging Face layout.
fn has_safetensors(dir: &Path) -> bool {
    names(dir).iter().any(|name| name.ends_with(".safetensors"))
}

/// The files and links in a directory and those inside it.
fn links(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in names(dir).into_iter().map(|name| dir.join(name)) {
        // A link to a directory is not followed.
        match fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => found.extend(links(&path)),
            _ => found.push(path),
        }
    }
    found
}

/// Remove the empty directories in a directory; one that has something stays.
fn remove_empty(dir: &Path) {
    for inside in names(dir).into_iter().map(|name| dir.join(name)) {
        remove_empty(&inside);
        let _ = fs::remove_dir(inside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_its_models_name() {
        assert_eq!(name_of(Path::new("/c/models--a--b.c/snapshots/0123")), "b.c");
        for plain in ["/models/b.c", "/c/snapshots/b.c", "b.c", "/m/b.c.gguf", "b.c-00001-of-00002.gguf"] {
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
        let old_text = old.to_string();
        cache.set_ref(&id, &"1".repeat(40)).unwrap();
        fs::create_dir_all(dir.path().join("models--a--empty/snapshots")).unwrap();
        fs::create_dir_all(dir.path().join("datasets--a--b")).unwrap();
        assert_eq!(cache.find(&id), Some(cache.snapshot(&id, &"1".repeat(40))));
        assert_eq!(cache.models().into_iter().map(|m| m.id).collect::<Vec<_>>(), [id.clone(), old]);

        // GGUF files, alone or next to a directory's files.
        let snapshot = cache.snapshot(&id, &"1".repeat(40));
        fs::create_dir(snapshot.join("BF16")).unwrap();
        for file in [
            "m-Q4_K_M.gguf",
            "m-q8_0.gguf",
            "mmproj-f16.gguf",
            "m-F16-00001-of-00002.gguf",
            "BF16/m-BF16-00001-of-00002.gguf",
            "BF16/m-BF16-00002-of-00002.gguf",
        ] {
            fs::write(snapshot.join(file), "").unwrap();
        }
        let shown = || cache.models().into_iter().map(|m| m.id.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(), ["a/b:Q4_K_M", "a/b:Q8_0", "a/b:BF16", &old_text]);
        fs::write(snapshot.join("model.safetensors"), "").unwrap();
        assert_eq!(shown(), ["a/b", "a/b:Q4_K_M", "a/b:Q8_0", "a/b:BF16", &old_text]);
        let of = |text: &str| cache.find(&ModelId::parse(text).unwrap());
        assert_eq!(of("a/b:q4_k_m"), Some(snapshot.join("m-Q4_K_M.gguf")));
        let parts = snapshot.join("BF16/m-BF16-00001-of-00002.gguf");
        assert_eq!(
            (of("a/b:bf16"), gguf::cached_tower(&parts)),
            (Some(parts), Some(snapshot.join("mmproj-f16.gguf")))
        );
        assert_eq!((of("a/b:F16"), of("a/b:Q4_K")), (None, None));
        assert_eq!(cache.tags(&id), ["Q4_K_M", "Q8_0", "BF16"]);

        // A tampered ref is ignored.
        fs::write(cache.folder(&id).join("refs/main"), "../../../etc").unwrap();
        assert_eq!(cache.find(&id), None);
    }

    #[test]
    fn a_removed_model_takes_only_what_nothing_else_links() {
        removes(|blob, path| file::link(blob, path).unwrap());
        // As on Windows.
        removes(|blob, path| fs::hard_link(blob, path).unwrap());
    }

    fn removes(link: impl Fn(&Path, &Path)) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().into());
        let id = ModelId::parse("a/b").unwrap();
        let blobs = cache.folder(&id).join("blobs");
        fs::create_dir_all(&blobs).unwrap();
        let [old, new] = ["1", "2"].map(|digit| cache.snapshot(&id, &digit.repeat(40)));
        let put = |snapshot: &Path, name: &str, blob: &str| {
            fs::create_dir_all(snapshot.join(name).parent().unwrap()).unwrap();
            fs::write(blobs.join(blob), vec![0; 10 * blob.len()]).unwrap();
            link(&blobs.join(blob), &snapshot.join(name));
        };
        for snapshot in [&old, &new] {
            put(snapshot, "config.json", "c");
        }
        put(&old, "model.safetensors", "ww");
        put(&new, "model.safetensors", "www");
        for (name, blob) in [("m-Q8_0.gguf", "gggg"), ("mmproj-f16.gguf", "ttttt")] {
            put(&new, name, blob);
        }
        for part in 1..=2 {
            put(&new, &format!("F16/m-F16-0000{part}-of-00002.gguf"), &"p".repeat(5 + part));
        }
        cache.set_ref(&id, &"2".repeat(40)).unwrap();
        let left = || names(&blobs).join(" ");
        for stranger in [dir.path(), &blobs, Path::new("/etc"), &new.join("mmproj-f16.gguf")] {
            assert!(matches!(cache.remove(stranger), Err(HubError::NotCached(_))), "{stranger:?}");
        }
        // The configuration is also the new snapshot's.
        assert_eq!(cache.remove(&old).unwrap(), 20);
        assert_eq!(left(), "c gggg pppppp ppppppp ttttt www");
        assert_eq!(cache.remove(&new.join("F16/m-F16-00001-of-00002.gguf")).unwrap(), 130);
        assert_eq!(left(), "c gggg ttttt www");
        assert_eq!(cache.remove(&new).unwrap(), 40);
        assert_eq!(left(), "gggg ttttt");
        // The last one takes the tower with it, and the folder.
        assert_eq!(cache.remove(&new.join("m-Q8_0.gguf")).unwrap(), 90);
        assert!(!cache.folder(&id).exists() && cache.models().is_empty());
    }
}
