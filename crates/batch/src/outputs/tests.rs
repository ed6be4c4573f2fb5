use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Kind;

/// Clips of these names, each written with its name.
pub fn clips(dir: &Path, names: &[&str]) -> Vec<Clip> {
    let clip = |name: &&str| {
        std::fs::write(dir.join(name), name).unwrap();
        Clip { root: dir.into(), relative: name.into(), file: None }
    };
    names.iter().map(clip).collect()
}

fn caption(prompt: &str, text: &str) -> Caption {
    Caption { prompt: prompt.into(), text: text.into(), ..Caption::default() }
}

fn options(existing: Existing) -> Options {
    Options { sidecar: Some(Sidecar::Txt), existing, prompts: vec!["p".into()], ..Options::default() }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_missing_row_is_written_beside_an_existing_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let set = dir.path().join("set.jsonl");
    std::fs::write(dir.path().join("a.txt"), "mine").unwrap();
    let options = Options {
        dataset: Some((Kind::Jsonl, set.clone())),
        prompts: vec!["p".into(), "q".into()],
        ..options(Existing::Skip)
    };
    let mut outputs = Outputs::open(options.clone(), &clips).unwrap();
    assert_eq!(outputs.need(&clips[0]).unwrap(), Need::Captions(vec![0, 1]));
    outputs.write(&clips[0], &[caption("p", "one")]).unwrap();
    assert_eq!(outputs.need(&clips[0]).unwrap(), Need::Captions(vec![1]));
    // Another process sees it as well.
    let mut other = Outputs::open(options, &clips).unwrap();
    assert_eq!(other.need(&clips[0]).unwrap(), Need::Captions(vec![1]));
    outputs.write(&clips[0], &[caption("q", "two")]).unwrap();
    assert_eq!(other.need(&clips[0]).unwrap(), Need::Nothing);
    assert_eq!((read(&dir.path().join("a.txt")), read(&set).lines().count()), ("mine".into(), 2));
}

#[test]
fn clips_that_failed_are_remembered_until_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let need = |retry_failed| {
        let options = Options { retry_failed, ..options(Existing::Skip) };
        Outputs::open(options, &clips).unwrap().need(&clips[0]).unwrap()
    };
    let mut outputs = Outputs::open(options(Existing::Skip), &clips).unwrap();
    let failure = |class| Failure { class, error: "bad".into(), hint: None };
    outputs.fail(&clips[0], &failure(FailureClass::Memory));
    assert_eq!(need(false), Need::Captions(vec![0]), "the next machine may have more memory");
    outputs.fail(&clips[0], &failure(FailureClass::Input));
    assert_eq!(need(false), Need::FailedBefore("bad".into()));
    assert_eq!(need(true), Need::Captions(vec![0]));
    std::fs::write(dir.path().join("a.mp4"), "another").unwrap();
    assert_eq!(need(false), Need::Captions(vec![0]));
    outputs.write(&clips[0], &[caption("p", "one")]).unwrap();
    outputs.finish(true, 0).unwrap();
    assert_eq!(names(dir.path()), ["a.mp4", "a.txt"]);
}

#[test]
fn a_claimed_clip_is_busy_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let options =
        Options { dataset: Some((Kind::Csv, dir.path().join("set.csv"))), ..options(Existing::Skip) };
    let mut one = Outputs::open(options.clone(), &clips).unwrap();
    let mut two = Outputs::open(options, &clips).unwrap();
    let claims = one.claim(&clips[0]).unwrap().unwrap();
    assert!(claims.len() == 2 && two.claim(&clips[0]).unwrap().is_none());
    drop(claims);
    assert!(two.claim(&clips[0]).unwrap().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// A run is killed after any number of clips, before or after the last sidecar was replaced; the same run resumes, and a
    /// later one starts over.
    #[test]
    fn an_unfinished_run_goes_on(
        stops in prop::collection::vec((0usize..4, any::<bool>()), 0..4),
        mode in 0usize..3,
    ) {
        let existing = [Existing::Append, Existing::Prepend, Existing::Overwrite][mode];
        let dir = tempfile::tempdir().unwrap();
        let clips = clips(dir.path(), &["a.mp4", "b.mp4", "c.mp4"]);
        for clip in &clips {
            std::fs::write(clip.path().with_extension("txt"), "old\n").unwrap();
        }
        let expected = ["old new\n", "new old\n", "new\n"][mode];
        let go = |upto: usize, undo: bool| {
            let mut outputs = Outputs::open(options(existing), &clips).unwrap();
            for clip in &clips[..upto] {
                let claims = outputs.claim(clip).unwrap().unwrap();
                if outputs.need(clip).unwrap() != Need::Nothing {
                    let sidecar = clip.path().with_extension("txt");
                    let before = read(&sidecar);
                    outputs.write(clip, &[caption("p", "new")]).unwrap();
                    if undo && clip == &clips[upto - 1] && existing != Existing::Overwrite {
                        // It was killed before the sidecar was replaced.
                        std::fs::write(sidecar, before).unwrap();
                    }
                }
                drop(claims);
            }
            outputs
        };
        for (upto, undo) in stops {
            drop(go(upto, undo));
        }
        go(3, false).finish(true, 0).unwrap();
        for clip in &clips {
            prop_assert_eq!(read(&clip.path().with_extension("txt")), expected);
        }
        prop_assert_eq!(names(dir.path()).len(), 6);
        // It is over: the next one is another run.
        let mut outputs = Outputs::open(options(existing), &clips).unwrap();
        prop_assert_eq!(outputs.need(&clips[0]).unwrap(), Need::Captions(vec![0]));
    }
}

#[test]
fn clips_that_a_trainer_would_confuse_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clip = |name: &str| Clip { root: dir.path().into(), relative: name.into(), file: None };
    let clips = ["a/x.mp4", "b/x.mp4", "a/x.mkv", "a/y.mp4"].map(clip);
    let refused = |kind: Kind| {
        let options = Options {
            dataset: Some((kind, dir.path().join("set.jsonl"))),
            prompts: vec!["p".into()],
            ..Options::default()
        };
        let mut outputs = Outputs::open(options, &clips).unwrap();
        clips.each_ref().map(|clip| outputs.need(clip).is_err())
    };
    assert_eq!(refused(Kind::Musubi), [false, true, true, false]);
    assert_eq!(refused(Kind::Ltx), [false, false, true, false]);
    assert_eq!(refused(Kind::Jsonl), [false; 4]);
}
