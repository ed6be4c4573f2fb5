//! Clips with known facts, rendered to video files in a temporary directory that is removed when the bench ends.

use std::path::PathBuf;

use super::*;
use crate::FactCount;
use specreel_batch::is_full;
use specreel_scenes::{
    Scene, encode,
    facts::{self, Facts, Score},
};

const HINT: &str = "free some space there, or set TMPDIR to another directory";

const SIZE: u32 = 224;

#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    pub seed: u64,
    pub path: PathBuf,
    /// Its true facts; empty if they are not known.
    pub truth: Facts,
}

impl Clip {
    pub fn count(&self, text: &str) -> FactCount {
        if self.truth == Facts::default() {
            return FactCount::default();
        }
        let Score { right, wrong, missing, total, extra, .. } = facts::score(&self.truth, text);
        FactCount { right, wrong, missing, total, extra }
    }
}

/// Renders clips into its own temporary directory.
#[derive(Debug)]
pub struct ClipRenderer {
    dir: PathBuf,
    seconds: Option<u32>,
}

impl ClipRenderer {
    /// Create the directory, for clips of `seconds`, or as long as their seeds say. Fails if the temporary directory cannot be written.
    pub fn open(seconds: Option<u32>) -> Result<Self, Failure> {
        let base = std::env::temp_dir();
        let name = |n: u32| base.join(format!("specreel-bench-{}-{n}", std::process::id()));
        let mut outcome = Ok(base.clone());
        // An existing directory may belong to another process.
        for dir in (0..100).map(name) {
            outcome = std::fs::create_dir(&dir).map(|()| dir);
            if !matches!(&outcome, Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        outcome.map(|dir| Self { dir, seconds }).map_err(|e| {
            Failure::new(
                if is_full(&e) { FailureClass::Internal } else { FailureClass::Input },
                format!("cannot create a directory for clips in {}: {e}", base.display()),
                HINT,
            )
        })
    }

    /// Render the scene of a seed. Fails if FFmpeg has no encoder, or the disk is full.
    pub fn render(&self, seed: u64) -> Result<Clip, Failure> {
        let scene = Scene::from_seed(seed).lengthened(self.seconds.unwrap_or_default().into());
        let path = self.dir.join(format!("{seed}.mp4"));
        encode::mp4(&scene, &path, SIZE, SIZE).map_err(|e| match e.is_full() {
            true => Failure::internal(format!("no space for clips: {e}"), HINT),
            false => Failure::input(
                format!("cannot render a clip: {e}"),
                "install an FFmpeg build with libx264; see specreel doctor",
            ),
        })?;
        Ok(Clip { seed, path, truth: facts::of(&scene) })
    }

    pub fn discard(&self, clip: &Path) {
        // A failure is harmless: the directory is removed in the end.
        let _ = std::fs::remove_file(clip);
    }
}

impl Drop for ClipRenderer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) trait Clips {
    /// The clip of a seed. Fails if it cannot be rendered.
    fn take(&mut self, seed: u64) -> Result<Clip, Failure>;

    fn give_back(&mut self, clip: &Clip);
}

impl Clips for ClipRenderer {
    fn take(&mut self, seed: u64) -> Result<Clip, Failure> {
        self.render(seed)
    }

    fn give_back(&mut self, clip: &Clip) {
        self.discard(&clip.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_is_a_file_with_facts_and_the_directory_is_removed() {
        let renderer = ClipRenderer::open(None).unwrap();
        let other = ClipRenderer::open(None).unwrap();
        assert_ne!(renderer.dir, other.dir);
        let clip = renderer.render(1000).unwrap();
        assert!(clip.path.metadata().unwrap().len() > 0);
        assert_eq!(clip.truth, facts::of(&Scene::from_seed(1000)));
        drop(renderer);
        assert!(!clip.path.exists() && other.dir.exists());
    }

    #[test]
    fn a_lengthened_clip_has_the_facts_of_its_scene() {
        let clip = ClipRenderer::open(Some(12)).and_then(|renderer| {
            let clip = renderer.render(1000)?;
            assert_eq!(specreel_video::probe(&clip.path)?.duration_s.round(), 12.0);
            Ok(clip)
        });
        assert_eq!(clip.unwrap().truth, facts::of(&Scene::from_seed(1000)));
    }
}
