//! The embedded demo: a model pair and a few clips, unpacked once so that they can be opened like any other file.
//!
//! Models and FFmpeg need real files. They go to `demo-<hash>` in the cache directory, or in a directory of the user's own in the
//! temporary directory if that is not writable; others can write neither. Every file is compared with the embedded bytes each
//! time, and a missing or different one is replaced atomically, so that no other process ever sees an incomplete file.
//!
//! ```
//! let dir = tempfile::tempdir()?;
//! let demo = specreel_demo::demo(Some(dir.path()))?;
//! assert!(demo.target.join("model.safetensors").is_file());
//! assert_eq!(demo.clips.len(), specreel_demo::clip_count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use specreel_os::{dirs::UserDir, private};
use specreel_record::{Failure, FailureClass};

struct Embedded {
    /// Path inside the demo folder, with slashes.
    path: &'static str,
    bytes: &'static [u8],
}

/// A `static` is in the program once; a `const`, with all of its bytes, once for each codegen unit that uses it.
static FILES: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/demo_files.rs"));

/// Folders of the models, the target first; draft heads are in [`HEADS`].
const MODELS: [&str; 3] = ["target", "drafter", "drafter-weak"];
const HEADS: [&str; 6] = ["sparrow", "msd", "vispec", "hivis", "eagle3", "dflash"];

const HASH: &str = env!("SPECREEL_DEMO_HASH");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Its file name without extension, hyphens as spaces.
    pub title: String,
    pub path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demo {
    pub target: PathBuf,
    pub drafter: PathBuf,
    /// Directory of a weaker drafter, which states less than half of the facts by itself.
    pub weak_drafter: PathBuf,
    pub heads: Vec<PathBuf>,
    /// The clips in the order of their file names; `demo` is the first.
    pub clips: Vec<Clip>,
}

/// Error of [`demo`] and [`clip_index`].
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    #[error("this build of specreel has no embedded models and clips")]
    Absent,
    #[error("no embedded clip `{asked}`")]
    NoClip { asked: String, count: usize },
    /// Neither the cache nor the temporary directory is writable, or others could change what is there.
    #[error("cannot unpack the embedded demo to {path}: {source}")]
    Unpack { path: PathBuf, source: io::Error },
}

impl From<AssetError> for Failure {
    fn from(error: AssetError) -> Self {
        let (class, hint) = match &error {
            AssetError::Absent => {
                (FailureClass::Input, "pass a video and a model: --target DIR [--drafter DIR]".to_owned())
            }
            AssetError::NoClip { count: 1, .. } => (FailureClass::Usage, "the only one is demo".into()),
            AssetError::NoClip { count, .. } => {
                (FailureClass::Usage, format!("expected demo:1 to demo:{count}"))
            }
            AssetError::Unpack { .. } => (
                FailureClass::Input,
                format!(
                    "free some space there, or set {} to a directory that only you can write",
                    UserDir::Cache.variable()
                ),
            ),
        };
        Failure { class, error: error.to_string(), hint: Some(hint) }
    }
}

/// A note on captions that the embedded models write of other videos than the embedded clips.
pub const LIMITS_NOTE: &str = "the embedded models only know moving colored shapes: what they say about any other video is meaningless \
     (`specreel models known` lists real ones)";

/// True for the embedded target or a copy of it: its configuration, and weights of the same size.
pub fn is_embedded_target(dir: &Path) -> bool {
    let embedded = |name: &str| FILES.iter().find(|file| file.path == name);
    let (Some(config), Some(weights)) =
        (embedded("target/config.json"), embedded("target/model.safetensors"))
    else {
        return false;
    };
    let bytes = fs::metadata(dir.join("model.safetensors")).map(|m| m.len()).ok();
    bytes == Some(weights.bytes.len() as u64) && same(&dir.join("config.json"), config.bytes)
}

/// True for an embedded clip or a copy of it.
pub fn is_embedded_clip(video: &Path) -> bool {
    FILES.iter().filter(|file| clip_name(file).is_some()).any(|clip| same(video, clip.bytes))
}

/// The number of embedded clips. Unpacks nothing.
pub fn clip_count() -> usize {
    FILES.iter().filter_map(clip_name).count()
}

/// A clip's file name; `None` for other files, such as the JSON file with a clip's facts.
fn clip_name(file: &Embedded) -> Option<&'static Path> {
    let name = Path::new(file.path.strip_prefix("clips/")?);
    name.extension().is_some_and(|e| e == "mp4").then_some(name)
}

/// The number of an embedded clip if `name` has the form `demo` or `demo:N`, from 0; `None` for any other name.
///
/// # Errors
/// The name has that form, but the clip does not exist.
pub fn clip_index(name: &str) -> Option<Result<usize, AssetError>> {
    let number = match name.strip_prefix("demo")? {
        "" => Some(1),
        rest => rest.strip_prefix(':')?.parse().ok(),
    };
    let count = clip_count();
    if count == 0 {
        return Some(Err(AssetError::Absent));
    }
    Some(match number {
        Some(n) if (1..=count).contains(&n) => Ok(n - 1),
        _ => Err(AssetError::NoClip { asked: name.into(), count }),
    })
}

/// Unpack the demo below `cache`, or below the temporary directory, unless it is there already.
///
/// # Errors
/// This build has no demo, or neither directory is writable by this user alone.
pub fn demo(cache: Option<&Path>) -> Result<Demo, AssetError> {
    if !FILES.iter().any(|f| f.path == "target/config.json") {
        return Err(AssetError::Absent);
    }
    let name = format!("demo-{HASH}");
    if let Some(place) = cache.map(|dir| dir.join(&name))
        && unpack(FILES, &place).is_ok()
    {
        return Ok(open(&place));
    }
    let own = std::env::temp_dir().join(private::user_directory());
    let place = own.join(&name);
    match private::directory(&own).and_then(|()| unpack(FILES, &place)) {
        Ok(()) => Ok(open(&place)),
        Err(source) => Err(AssetError::Unpack { path: place, source }),
    }
}

/// The names of the embedded models, draft heads last: the names of their directories, such as `demo-target`. Unpacks nothing.
pub fn model_names() -> impl Iterator<Item = String> {
    let there = |name: &&str| FILES.iter().any(|f| f.path == format!("{name}/config.json"));
    MODELS.iter().chain(&HEADS).copied().filter(there).map(|name| format!("demo-{name}"))
}

impl Demo {
    /// Directories of all models: target, drafters, draft heads.
    pub fn models(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.target, &self.drafter, &self.weak_drafter].into_iter().chain(&self.heads)
    }
}

fn open(place: &Path) -> Demo {
    let clips = FILES.iter().filter_map(|f| {
        let path = clip_name(f)?;
        let title = path.file_stem()?.to_string_lossy().replace(['-', '_'], " ");
        Some(Clip { title, path: place.join("clips").join(path) })
    });
    let there = |name: &str| FILES.iter().any(|f| f.path == format!("{name}/config.json"));
    Demo {
        target: place.join("demo-target"),
        drafter: place.join("demo-drafter"),
        weak_drafter: place.join("demo-drafter-weak"),
        heads: HEADS
            .iter()
            .filter(|name| there(name))
            .map(|name| place.join(format!("demo-{name}")))
            .collect(),
        clips: clips.collect(),
    }
}

/// Destination of an embedded file. Models are named after their directory, hence the `demo-` prefix.
fn placed(path: &str) -> String {
    let model = path.split_once('/').map_or("", |(folder, _)| folder);
    if MODELS.contains(&model) || HEADS.contains(&model) { format!("demo-{path}") } else { path.to_owned() }
}

/// Unpack what is missing. On an error what was written is removed: half a demo would only fill a full disk.
fn unpack(files: &[Embedded], place: &Path) -> io::Result<()> {
    let mut written = Vec::new();
    let result = write_missing(files, place, &mut written);
    if result.is_err() {
        for path in &written {
            let _ = fs::remove_file(path);
        }
        // Only directories that are empty now.
        for folder in written.iter().filter_map(|path| path.parent()).chain([place]) {
            let _ = fs::remove_dir(folder);
        }
    }
    result
}

fn write_missing(files: &[Embedded], place: &Path, written: &mut Vec<PathBuf>) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    private::directory(place)?;
    for file in files {
        let path = place.join(placed(file.path));
        let folder = path.parent().unwrap_or(place);
        private::directory(folder)?;
        if private::is_file(&path) && same(&path, file.bytes) {
            continue;
        }
        // Under a name that nobody can know; it goes if this fails.
        let mut whole = tempfile::NamedTempFile::new_in(folder)?;
        whole.write_all(file.bytes)?;
        whole.persist(&path)?;
        written.push(path);
    }
    Ok(())
}

/// True if the file has exactly these bytes.
fn same(path: &Path, bytes: &[u8]) -> bool {
    // Before it is opened: a named pipe would wait for its writer.
    if !fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64) {
        return false;
    }
    let Ok(mut file) = fs::File::open(path) else { return false };
    let mut buffer = vec![0; 1 << 20];
    bytes.chunks(buffer.len()).all(|wanted| {
        let read = &mut buffer[..wanted.len()];
        file.read_exact(read).is_ok() && read == wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[Embedded] =
        &[Embedded { path: "target/a", bytes: b"one" }, Embedded { path: "clips/b.mp4", bytes: b"two" }];

    #[test]
    fn files_are_written_once_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("demo-x");
        unpack(SMALL, &place).unwrap();
        let a = place.join("demo-target/a");
        assert_eq!(fs::read(&a).unwrap(), b"one");
        let before = fs::metadata(&a).unwrap().modified().unwrap();
        unpack(SMALL, &place).unwrap();
        assert_eq!(fs::metadata(&a).unwrap().modified().unwrap(), before);

        fs::write(&a, b"ome").unwrap();
        fs::remove_file(place.join("clips/b.mp4")).unwrap();
        unpack(SMALL, &place).unwrap();
        assert_eq!(fs::read(&a).unwrap(), b"one");
        assert_eq!(fs::read(place.join("clips/b.mp4")).unwrap(), b"two");
        assert_eq!(fs::read_dir(place.join("demo-target")).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn a_failed_attempt_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("demo-x");
        fs::create_dir(&place).unwrap();
        // The second file cannot be written: its directory is a file.
        fs::write(place.join("clips"), b"").unwrap();
        assert!(unpack(SMALL, &place).is_err());
        assert!(!place.join("demo-target").exists(), "what was written is removed");
        assert!(place.join("clips").exists(), "what was there stays");

        fs::remove_file(place.join("clips")).unwrap();
        fs::create_dir(place.join("demo-target")).unwrap();
        fs::write(place.join("demo-target/a"), b"one").unwrap();
        fs::write(place.join("clips"), b"").unwrap();
        assert!(unpack(SMALL, &place).is_err());
        assert!(place.join("demo-target/a").exists(), "an earlier start wrote it");
    }

    /// Somebody else's links lead out of the directory.
    #[cfg(unix)]
    #[test]
    fn nothing_is_written_or_read_through_links() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let [place, folder, theirs] =
            ["demo-x", "demo-x/demo-target", "theirs"].map(|at| dir.path().join(at));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&theirs, b"one").unwrap();
        symlink(&theirs, folder.join(format!(".half-{}", std::process::id()))).unwrap();
        symlink(&theirs, folder.join("a")).unwrap();
        unpack(SMALL, &place).unwrap();
        // It could be changed after it was compared.
        assert!(fs::symlink_metadata(folder.join("a")).unwrap().is_file());
        unpack(&[Embedded { path: "target/a", bytes: b"new" }], &place).unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"one");

        let [link, others] = ["demo-y", "others"].map(|at| dir.path().join(at));
        fs::create_dir(&others).unwrap();
        symlink(&others, &link).unwrap();
        assert!(unpack(SMALL, &link).is_err());
        assert_eq!(fs::read_dir(&others).unwrap().count(), 0);
    }

    #[test]
    fn an_unwritable_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(unpack(SMALL, &file.join("demo")).is_err());
    }

    #[test]
    fn the_demo_is_known_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("clip.mp4");
        fs::write(&other, b"no clip").unwrap();
        assert!(
            !is_embedded_clip(&other) && !is_embedded_clip(dir.path()) && !is_embedded_target(dir.path())
        );
        let Ok(demo) = demo(Some(dir.path())) else { return };
        assert!(is_embedded_target(&demo.target) && !is_embedded_target(&demo.drafter));
        let names: Vec<_> = demo.models().map(|dir| dir.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, model_names().collect::<Vec<_>>(), "what has a name is unpacked under it");
        assert!(demo.models().all(|dir| dir.join("config.json").is_file()));
        fs::copy(&demo.clips[1].path, &other).unwrap();
        assert!(demo.clips.iter().all(|clip| is_embedded_clip(&clip.path)) && is_embedded_clip(&other));
    }

    #[test]
    fn names_of_clips() {
        assert!(clip_index("holiday.mp4").is_none());
        assert!(clip_index("demonstration.mp4").is_none());
        assert!(clip_index("demo:0").unwrap().is_err());
        assert!(clip_index("demo:x").unwrap().is_err());
        assert!(clip_index("demo:999").unwrap().is_err());
        match clip_count() {
            0 => assert!(clip_index("demo").unwrap().is_err()),
            _ => assert_eq!(clip_index("demo").unwrap().unwrap(), 0),
        }
    }
}
