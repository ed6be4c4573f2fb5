//! `--videos`: the user's own clips instead of synthetic ones. Their facts are unknown.

use std::path::PathBuf;

use super::clips::{Clip, Clips};
use super::*;
use specreel_batch as batch;
use specreel_scenes::facts::Facts;
use specreel_video as video;

/// The clips, numbered from 0, and a further one for the warm-up.
#[derive(Debug)]
pub struct OwnVideos {
    paths: Vec<PathBuf>,
    warm_up: PathBuf,
}

impl OwnVideos {
    /// At most `limit` clips that can be read; `note` gets a line about each that cannot. `warm_up` is another clip, whose
    /// prefill may be kept. Fails if there is none.
    pub fn find(
        arguments: &[PathBuf],
        limit: Option<u32>,
        warm_up: PathBuf,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        let found = batch::find(arguments, &|_| Ok(None))?;
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        let mut paths = Vec::new();
        for path in found.clips.iter().map(batch::Clip::path) {
            if paths.len() == limit {
                break;
            }
            match video::probe(&path) {
                Ok(_) => paths.push(path),
                Err(failure) => note(&format!("skipped: {}", clean(&Failure::from(failure).error))),
            }
        }
        if paths.is_empty() {
            return Err(Failure::input(
                "--videos: none of the videos can be read",
                "specreel caption FILE says why",
            ));
        }
        Ok(Self { paths, warm_up })
    }

    pub(crate) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Their files, as JSON lines name them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }
}

impl Clips for OwnVideos {
    fn take(&mut self, seed: u64) -> Result<Clip, Failure> {
        let path = usize::try_from(seed).ok().and_then(|at| self.paths.get(at));
        Ok(Clip { seed, path: path.unwrap_or(&self.warm_up).clone(), truth: Facts::default() })
    }

    fn give_back(&mut self, _: &Clip) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_are_numbered_and_the_warm_up_uses_another_one() {
        let mut videos = OwnVideos { paths: vec!["a.mp4".into(), "b.mp4".into()], warm_up: "w.mp4".into() };
        let mut path = |seed| videos.take(seed).unwrap().path;
        assert_eq!([path(0), path(1), path(2)], ["a.mp4", "b.mp4", "w.mp4"].map(PathBuf::from));
    }

    #[test]
    fn directories_without_videos_and_files_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let find = || {
            let found = OwnVideos::find(&[dir.path().into()], None, "w.mp4".into(), &mut |_| {});
            found.map(|_| ()).unwrap_err().error
        };
        assert!(find().starts_with("no videos in "));
        std::fs::write(dir.path().join("a.mp4"), "text").unwrap();
        assert_eq!(find(), "--videos: none of the videos can be read");
    }
}
