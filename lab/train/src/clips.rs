//! The clips that the target captions: synthetic scenes by seed, or the videos of a folder.

use std::path::{Path, PathBuf};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::TrainError;
use specreel_model::{
    family::Family,
    processor::{Patches, VideoProcessor},
};
use specreel_record::Failure;
use specreel_scenes::{Scene, render, world::TRAINING_SEEDS};
use specreel_video::{Plan, Rule, Sampling, Video, sampling};

/// Sizes of rendered scenes, in turn.
const SIZES: [(u32, u32); 4] = [(224, 224), (224, 224), (288, 176), (176, 288)];
/// File extensions of videos.
const VIDEOS: [&str; 10] = ["mp4", "mkv", "mov", "webm", "avi", "m4v", "gif", "mpg", "mpeg", "ts"];

#[derive(Clone, Debug, PartialEq)]
pub enum Clips {
    /// Synthetic scenes of the training seeds, from the first on.
    Scenes { count: usize },
    /// Videos of a directory.
    Folder {
        /// In the order of use.
        files: Vec<PathBuf>,
        dir: PathBuf,
    },
}

/// A clip as the target's tower takes it.
pub struct Pixels {
    pub patches: Patches,
    /// The frames that they were cut from.
    pub plan: Plan,
}

impl Clips {
    /// The videos of a directory (not of its subdirectories), shuffled. Fails if it cannot be listed, or holds none.
    pub fn folder(dir: &Path, seed: u64) -> Result<Self, TrainError> {
        let unreadable = |source| TrainError::Unreadable { dir: dir.to_owned(), source };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
            if path.is_file() && end.is_some_and(|end| VIDEOS.contains(&end.as_str())) {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(TrainError::NoClips { dir: dir.to_owned() });
        }
        files.sort();
        files.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Ok(Self::Folder { files, dir: dir.to_owned() })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Scenes { count } => *count,
            Self::Folder { files, .. } => files.len(),
        }
    }

    /// True if there are no clips.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source, as typed.
    pub fn describe(&self) -> String {
        match self {
            Self::Scenes { count } => format!("scenes:{count}"),
            Self::Folder { dir, .. } => dir.display().to_string(),
        }
    }

    pub fn name(&self, index: usize) -> String {
        match self {
            Self::Scenes { .. } => format!("the scene of seed {}", TRAINING_SEEDS.start + index as u64),
            Self::Folder { files, .. } => {
                files.get(index).map(|f| f.display().to_string()).unwrap_or_default()
            }
        }
    }

    /// One clip, sampled by the family's rule and cut into patches. Fails if it cannot be decoded, or does not fit the model.
    pub fn pixels(
        &self,
        index: usize,
        family: &'static Family,
        processor: &VideoProcessor,
    ) -> Result<Pixels, Failure> {
        let rule = &family.rule(processor.config());
        match self {
            Self::Scenes { .. } => scene(index, rule, processor),
            Self::Folder { files, .. } => files.get(index).map_or_else(
                || Err(broken("the clip does not exist")),
                |file| decoded(file, rule, processor),
            ),
        }
    }
}

fn scene(index: usize, rule: &Rule, processor: &VideoProcessor) -> Result<Pixels, Failure> {
    let scene = Scene::from_seed(TRAINING_SEEDS.start + index as u64);
    let plan = sampling::plan(scene.total_frames(), scene.fps, rule, Sampling::Auto);
    let plan = plan.map_err(|e| broken(&e.to_string()))?;
    let (width, height) = SIZES[index % SIZES.len()];
    let frames: Vec<Vec<u8>> =
        plan.timestamps_s.par_iter().map(|&t| render::frame(&scene, t, width, height)).collect();
    let (rows, columns) = (height as usize, width as usize);
    let size = processor.target_size(rows, columns, frames.len(), None)?;
    let mut builder = processor.patches(size)?;
    for frame in &frames {
        builder.push(frame, rows, columns)?;
    }
    Ok(Pixels { patches: builder.finish()?, plan })
}

fn decoded(file: &Path, rule: &Rule, processor: &VideoProcessor) -> Result<Pixels, Failure> {
    let video = Video::open(file)?;
    let plan = video.plan(None, rule, Sampling::Auto)?;
    let (height, width) = (video.probe().height as usize, video.probe().width as usize);
    let mut builder = processor.patches(processor.target_size(height, width, plan.indices.len(), None)?)?;
    let mut frames = video.frames(plan, None)?;
    for frame in &mut frames {
        let frame = frame?;
        builder.push(&frame.rgb, frame.height as usize, frame.width as usize)?;
    }
    Ok(Pixels { patches: builder.finish()?, plan: frames.finish().plan })
}

fn broken(why: &str) -> Failure {
    Failure { class: specreel_record::FailureClass::Input, error: why.into(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_videos_in_one_order() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Clips::folder(dir.path(), 0), Err(TrainError::NoClips { .. })));
        assert!(matches!(Clips::folder(&dir.path().join("no"), 0), Err(TrainError::Unreadable { .. })));
        for name in ["a.mp4", "b.MKV", "c.txt", "d.mov"] {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        let clips = Clips::folder(dir.path(), 3).unwrap();
        assert_eq!((clips.len(), clips.clone()), (3, Clips::folder(dir.path(), 3).unwrap()));
        assert!((0..3).any(|i| clips.name(i).ends_with("b.MKV")));
    }
}
