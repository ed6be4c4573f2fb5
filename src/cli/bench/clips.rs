//! Clips with known facts, rendered to real video files in a temporary folder that goes when the bench ends.

use std::path::{Path, PathBuf};

use crate::{
    cli::new_file::is_full,
    record::{Failure, FailureClass},
    scenes::{
        Scene, encode,
        facts::{self, Facts},
    },
};

/// The way out of a full or write-protected folder.
const ROOM: &str = "make room there, or point TMPDIR to another folder";

/// Width and height in pixels.
const SIZE: u32 = 224;

/// A rendered clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// The scene's seed.
    pub seed: u64,
    /// The video.
    pub path: PathBuf,
    /// What is true of it.
    pub truth: Facts,
}

/// Renders clips into a folder of its own.
#[derive(Debug)]
pub struct Workshop {
    dir: PathBuf,
}

impl Workshop {
    /// Make the folder.
    ///
    /// # Errors
    /// The temporary directory cannot be written.
    pub fn open() -> Result<Self, Failure> {
        let base = std::env::temp_dir();
        let name = |n: u32| base.join(format!("specreel-bench-{}-{n}", std::process::id()));
        let mut outcome = Ok(base.clone());
        // A folder that is there already may be anybody's.
        for dir in (0..100).map(name) {
            outcome = std::fs::create_dir(&dir).map(|()| dir);
            if !matches!(&outcome, Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        outcome.map(|dir| Self { dir }).map_err(|e| Failure {
            class: if is_full(&e) { FailureClass::Internal } else { FailureClass::Input },
            error: format!("cannot make a folder for clips in {}: {e}", base.display()),
            hint: Some(ROOM.into()),
        })
    }

    /// Render the scene of a seed.
    ///
    /// # Errors
    /// FFmpeg has no encoder, or the folder is full.
    pub fn render(&self, seed: u64) -> Result<Clip, Failure> {
        let scene = Scene::from_seed(seed);
        let path = self.dir.join(format!("{seed}.mp4"));
        encode::mp4(&scene, &path, SIZE, SIZE).map_err(|e| match e.is_full() {
            true => Failure {
                class: FailureClass::Internal,
                error: format!("no room for clips: {e}"),
                hint: Some(ROOM.into()),
            },
            false => Failure {
                class: FailureClass::Input,
                error: format!("clips cannot be rendered: {e}"),
                hint: Some("`specreel doctor` says what this FFmpeg can do".into()),
            },
        })?;
        Ok(Clip { seed, path, truth: facts::of(&scene) })
    }

    /// A clip is done with.
    pub fn discard(&self, clip: &Path) {
        // What stays goes with the folder.
        let _ = std::fs::remove_file(clip);
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_is_a_file_with_facts_and_the_folder_goes() {
        let workshop = Workshop::open().unwrap();
        let other = Workshop::open().unwrap();
        assert_ne!(workshop.dir, other.dir);
        let clip = workshop.render(1000).unwrap();
        assert!(clip.path.metadata().unwrap().len() > 0);
        assert_eq!(clip.truth, facts::of(&Scene::from_seed(1000)));
        drop(workshop);
        assert!(!clip.path.exists() && other.dir.exists());
    }
}
