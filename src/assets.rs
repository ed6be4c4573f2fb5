//! The embedded demo: a model pair and a few clips, unpacked once so that they can be opened like any other file.
//!
//! Models and videos are opened by path, so they must be real files. They go to `demo-<hash>` in the cache directory,
//! or in the temporary directory where that is not writable. Every file is compared with the embedded bytes each time, and
//! one that is missing or differs is written anew: first beside its place, then moved there, so that no other process ever
//! sees half a file.

use std::{
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use crate::record::{Failure, FailureClass};

/// One embedded file.
struct Embedded {
    /// Path inside the demo folder, with slashes.
    path: &'static str,
    bytes: &'static [u8],
}

const FILES: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/demo_files.rs"));

/// Folders of layers that draft from the target's states.
const HEADS: [&str; 2] = ["sparrow", "msd"];

/// Changes with every change of the embedded files.
const HASH: &str = env!("SPECREEL_DEMO_HASH");

/// An embedded clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Its file name without extension, hyphens as spaces.
    pub title: String,
    /// The unpacked file.
    pub path: PathBuf,
}

/// The unpacked demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demo {
    /// Directory of the target model.
    pub target: PathBuf,
    /// Directory of the drafter model.
    pub drafter: PathBuf,
    /// Directories of the layers that draft from the target's states.
    pub heads: Vec<PathBuf>,
    /// The clips in the order of their file names; `demo` is the first.
    pub clips: Vec<Clip>,
}

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// This build has none.
    #[error("this build of specreel has no embedded models and clips")]
    Absent,
    /// No such clip.
    #[error("there is no embedded clip `{asked}`")]
    NoClip {
        /// What was asked for.
        asked: String,
        /// How many there are.
        count: usize,
    },
    /// Neither the cache nor the temporary directory takes the files.
    #[error("cannot unpack the embedded demo to {path}: {source}")]
    Unpack {
        /// The last folder tried.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<AssetError> for Failure {
    fn from(error: AssetError) -> Self {
        let (class, hint) = match &error {
            AssetError::Absent => {
                (FailureClass::Input, "name a video and a model: --target DIR [--drafter DIR]".to_owned())
            }
            AssetError::NoClip { count: 1, .. } => (FailureClass::Usage, "there is one: demo".into()),
            AssetError::NoClip { count, .. } => {
                (FailureClass::Usage, format!("there are demo:1 to demo:{count}"))
            }
            AssetError::Unpack { .. } => (
                FailureClass::Input,
                "free some space there, or point XDG_CACHE_HOME to a writable folder".into(),
            ),
        };
        Failure { class, error: error.to_string(), hint: Some(hint) }
    }
}

/// How many clips are embedded. Unpacks nothing.
pub fn clip_count() -> usize {
    FILES.iter().filter_map(clip_name).count()
}

/// A clip's file name; none for other files. The true facts of a clip lie beside it as JSON.
fn clip_name(file: &Embedded) -> Option<&'static Path> {
    let name = Path::new(file.path.strip_prefix("clips/")?);
    name.extension().is_some_and(|e| e == "mp4").then_some(name)
}

/// The number of an embedded clip if `name` has the form `demo` or `demo:N`, from 0; none for any other name.
///
/// # Errors
/// It has that form, but there is no such clip.
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

/// Unpack the demo (or find it unpacked) below `cache`, or below the temporary directory.
///
/// # Errors
/// This build has no demo, or neither place is writable.
pub fn demo(cache: Option<&Path>) -> Result<Demo, AssetError> {
    if !FILES.iter().any(|f| f.path == "target/config.json") {
        return Err(AssetError::Absent);
    }
    let user = std::env::var("USER").unwrap_or_default().replace(['/', '\\'], "_");
    let places = cache
        .map(|dir| dir.join(format!("demo-{HASH}")))
        .into_iter()
        .chain([std::env::temp_dir().join(format!("specreel-{user}-demo-{HASH}"))]);
    let mut failed = None;
    for place in places {
        match unpack(FILES, &place) {
            Ok(()) => return Ok(open(&place)),
            Err(source) => failed = Some(AssetError::Unpack { path: place, source }),
        }
    }
    Err(failed.unwrap_or(AssetError::Absent))
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
        heads: HEADS
            .iter()
            .filter(|name| there(name))
            .map(|name| place.join(format!("demo-{name}")))
            .collect(),
        clips: clips.collect(),
    }
}

/// Where an embedded file goes. A model is called by its directory's name, hence the longer ones.
fn placed(path: &str) -> String {
    let model = path.split_once('/').map_or("", |(folder, _)| folder);
    if ["target", "drafter"].contains(&model) || HEADS.contains(&model) {
        format!("demo-{path}")
    } else {
        path.to_owned()
    }
}

fn unpack(files: &[Embedded], place: &Path) -> io::Result<()> {
    for file in files {
        let path = place.join(placed(file.path));
        if same(&path, file.bytes) {
            continue;
        }
        let folder = path.parent().unwrap_or(place);
        fs::create_dir_all(folder)?;
        let half = folder.join(format!(".half-{}", std::process::id()));
        let written = fs::write(&half, file.bytes).and_then(|()| fs::rename(&half, &path));
        if written.is_err() {
            // A full disk must not be left fuller.
            let _ = fs::remove_file(&half);
        }
        written?;
    }
    Ok(())
}

/// True if the file has exactly these bytes.
fn same(path: &Path, bytes: &[u8]) -> bool {
    let Ok(mut file) = fs::File::open(path) else { return false };
    if !file.metadata().is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64) {
        return false;
    }
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
    fn files_are_written_once_and_healed() {
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
        assert_eq!(fs::read_dir(place.join("demo-target")).unwrap().count(), 1, "no half file is left");
    }

    #[test]
    fn an_unwritable_place_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(unpack(SMALL, &file.join("demo")).is_err());
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
