//! Finds GGUF files where other programs keep them. Only headers are read.

use std::path::{Path, PathBuf};

use super::local::{LocalModel, Origin};
use crate::Config;
use specreel_checkpoint::gguf::{GgufFile, architecture, file_names, towers_of};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    /// How deep the files may be in it.
    depth: usize,
    origin: Origin,
}

/// The models in configured folders, in the cache of llama.cpp and in the folders of LM Studio.
pub fn models(config: &Config) -> Vec<LocalModel> {
    let home = etcetera::home_dir().ok();
    let own = config.values.models.iter().flatten();
    let mut folders: Vec<Folder> =
        own.map(|path| Folder { path: path.clone(), depth: 1, origin: Origin::Folder }).collect();
    folders.extend(known(&|name| std::env::var_os(name).map(PathBuf::from), home.as_deref()));
    let mut found: Vec<LocalModel> = Vec::new();
    for folder in folders {
        let mut files = Vec::new();
        collect(&folder.path, folder.depth, &mut files);
        files.sort();
        for file in files {
            // A configured folder may be one of the known ones.
            if found.iter().all(|model| model.dir != file) && is_listed(&file, folder.origin) {
                found.push(LocalModel { name: file.display().to_string(), dir: file, origin: folder.origin });
            }
        }
    }
    found
}

/// The folders of other programs, by their variables and the home directory.
fn known(variable: &dyn Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Vec<Folder> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    let caches = specreel_os::dirs::caches(variable, home);
    let llama = set("LLAMA_CACHE").or_else(|| caches.map(|caches| caches.join("llama.cpp")));
    let llama = llama.map(|path| Folder { path, depth: 0, origin: Origin::LlamaCpp });
    let studio = [".lmstudio/models", ".cache/lm-studio/models"].into_iter().filter_map(|folder| {
        // Publisher, repository, file.
        Some(Folder { path: home?.join(folder), depth: 2, origin: Origin::LmStudio })
    });
    llama.into_iter().chain(studio).collect()
}

/// Add the GGUF files in a folder and in those inside it, down to `depth`; `None` for a folder that cannot be read.
/// A folder that is named for a type belongs to the one around it.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let is_type = |folder: &Path| {
        folder.file_name().is_some_and(|name| file_names::type_folder(&name.to_string_lossy()).is_some())
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 || is_type(&path) && !is_type(folder) {
                collect(&path, depth.saturating_sub(1), files);
            }
        } else if path.is_file() && file_names::is_gguf(&entry.file_name().to_string_lossy()) {
            files.push(path);
        }
    }
}

/// True for a file that the list shows: a language model of a supported architecture, one with a vision tower, or a damaged
/// one. Language models without video are not shown, nor is what belongs to another file: vision towers, and all parts of a
/// split model but the first.
pub fn is_listed(path: &Path, origin: Origin) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if file_names::is_tower(&name) || file_names::part_of(&name).is_some_and(|(number, _)| number != 1) {
        return false;
    }
    let Ok(metadata) = GgufFile::metadata(path) else { return true };
    match metadata.string("general.architecture") {
        Ok(Some(architecture::TOWER)) => false,
        Ok(Some(named)) if !architecture::is_supported(named) || architecture::is_shared(named) => {
            has_tower(path, &name, origin)
        }
        _ => true,
    }
}

/// True if there is a vision tower that belongs to a language model. In a folder of one model it has any name.
fn has_tower(path: &Path, name: &str, origin: Origin) -> bool {
    let one_model = matches!(origin, Origin::Cache | Origin::LmStudio);
    let towers = towers_of(path).map_or_else(|_| Vec::new(), |(_, towers)| towers);
    towers.iter().any(|tower| one_model || file_names::are_related(name, tower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parity/fixtures/gguf");
        std::fs::read(folder.join(name)).unwrap()
    }

    /// The fixture's language model with another architecture of as many letters.
    fn other() -> Vec<u8> {
        let mut bytes = fixture("gqa_tied/model-q4_0.gguf");
        let at = bytes.windows(7).position(|part| part == b"qwen2vl").unwrap();
        bytes[at..at + 7].copy_from_slice(b"llama-4");
        bytes
    }

    #[test]
    fn folders_follow_variables_and_home() {
        let home = Path::new("/home/me");
        let paths = |variables: &[(&str, &str)], home: Option<&Path>| {
            let find = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| PathBuf::from(v.1));
            known(&find, home).into_iter().map(|folder| folder.path.display().to_string()).collect::<Vec<_>>()
        };
        let studio = ["/home/me/.lmstudio/models", "/home/me/.cache/lm-studio/models"];
        let with = |llama: &str| [llama, studio[0], studio[1]].map(str::to_owned).to_vec();
        assert_eq!(paths(&[("LLAMA_CACHE", "/llama")], Some(home)), with("/llama"));
        if !cfg!(target_os = "macos") {
            assert_eq!(paths(&[], Some(home)), with("/home/me/.cache/llama.cpp"));
            assert_eq!(
                paths(&[("XDG_CACHE_HOME", "/x"), ("LLAMA_CACHE", "")], Some(home)),
                with("/x/llama.cpp")
            );
        }
        assert_eq!(paths(&[], None), [""; 0]);
    }

    #[test]
    fn language_models_without_video_and_parts_of_models_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let (text, tower) = (fixture("gqa_tied/model-q4_0.gguf"), fixture("gqa_tied/mmproj-f32.gguf"));
        put("me_vl_vl-Q4_0.gguf", &text);
        put("me_vl_mmproj-vl-f32.gguf", &tower);
        put("me_llama_llama-Q4_0.gguf", &other());
        put("me_seer_seer-Q4_0.gguf", &other());
        put("me_seer_mmproj-seer-f16.gguf", &tower);
        put("tower-without-the-word.gguf", &tower);
        put("broken.gguf", b"GGUF and no more");
        put("split-Q8_0-00001-of-00002.gguf", &text);
        put("split-Q8_0-00002-of-00002.gguf", &text);
        put("BF16/vl-BF16-00001-of-00002.gguf", &text);
        put("BF16/vl-BF16-00001-of-00002.gguf", &text);
        put("BF16/vl-BF16-00001-of-00002.gguf", &text);
        put("notes.txt", b"");
        put("deeper/model.gguf", &text);
        let list = |depth: usize, origin: Origin| {
            let mut files = Vec::new();
            collect(dir.path(), depth, &mut files);
            files.retain(|file| is_listed(file, origin));
            files.sort();
            let name = |file: &PathBuf| file.strip_prefix(dir.path()).unwrap().display().to_string();
            files.iter().map(name).collect::<Vec<_>>()
        };
        let flat = [
            "BF16/vl-BF16-00001-of-00002.gguf",
            "broken.gguf",
            "me_seer_seer-Q4_0.gguf",
            "me_vl_vl-Q4_0.gguf",
            "split-Q8_0-00001-of-00002.gguf",
        ];
        assert_eq!(list(0, Origin::LlamaCpp), flat);
        assert_eq!(list(1, Origin::LlamaCpp), [&flat[..2], &["deeper/model.gguf"], &flat[2..]].concat());
        // Where a folder has one model, every tower in it is the model's.
        assert!(list(0, Origin::LmStudio).contains(&"me_llama_llama-Q4_0.gguf".to_owned()));
        let mut none = Vec::new();
        collect(&dir.path().join("no/such"), 2, &mut none);
        assert!(none.is_empty(), "{none:?}");
    }
}
