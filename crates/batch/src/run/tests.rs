use super::*;
use crate::{Existing, Kind, Options, Sidecar, outputs::tests::clips};
use specreel_client::fake::{FakeEngine, done, failed, prompt, request, started, step};
use specreel_engine::Command;
use specreel_record::FailureClass;

#[derive(Default)]
struct Kept {
    events: usize,
    clips: Vec<(String, u64, Outcome)>,
}

impl Report for Kept {
    fn event(&mut self, _: &Event) -> io::Result<()> {
        self.events += 1;
        Ok(())
    }

    fn clip(&mut self, ended: &Ended<'_>, _: &Progress) -> io::Result<()> {
        let name = ended.clip.relative.display().to_string();
        self.clips.push((name, ended.run, ended.outcome.clone()));
        Ok(())
    }
}

/// An engine that captions everything but clips called `bad`.
fn engine() -> (FakeEngine, Client) {
    FakeEngine::answering(|request| {
        if request.video.ends_with("bad.mp4") {
            return vec![failed(FailureClass::Input, "bad.mp4: no video")];
        }
        let text = format!("The video shows {}.", request.prompt);
        vec![started("naive"), prompt(), step("x"), done(StopReason::Eos, &text)]
    })
}

fn run(
    client: &mut Client,
    clips: &[Clip],
    options: Options,
    change: impl FnOnce(&mut Batch<'_>),
) -> (Summary, Kept) {
    let (ended, kept) = attempt(client, clips, options, change);
    (ended.unwrap(), kept)
}

fn batch(interrupt: &Interrupt) -> Batch<'_> {
    let (part, polish) = (Part::default(), Polish::default());
    Batch {
        interrupt,
        request: request(1, "naive"),
        part,
        said: &|_| Ok(None),
        polish,
        limit: None,
        verify: None,
    }
}

fn attempt(
    client: &mut Client,
    clips: &[Clip],
    options: Options,
    change: impl FnOnce(&mut Batch<'_>),
) -> (Result<Summary, Halt>, Kept) {
    let interrupt = Interrupt::default();
    let (mut outputs, mut kept) = (Outputs::open(options, clips).unwrap(), Kept::default());
    let mut batch = batch(&interrupt);
    change(&mut batch);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ended =
        runtime.block_on(batch.run(std::slice::from_mut(client), clips.to_vec(), &mut outputs, &mut kept));
    (ended, kept)
}

fn txt(prompts: &[&str]) -> Options {
    let prompts = prompts.iter().map(|prompt| (*prompt).to_owned()).collect();
    Options { sidecar: Some(Sidecar::Txt), prompts, ..Options::default() }
}

#[test]
fn as_many_clips_are_captioned_at_once_as_there_are_engines() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4", "bad.mp4", "c.mp4", "d.mp4", "e.mp4"]);
    let (first, one) = FakeEngine::silent();
    let (second, two) = engine();
    let interrupt = Interrupt::default();
    let (mut outputs, mut kept) = (Outputs::open(txt(&["p"]), &clips).unwrap(), Kept::default());
    let batch = batch(&interrupt);
    // The first engine answers when all others are captioned.
    let engine = first.clone();
    let answers = std::thread::spawn(move || {
        while second.requests().len() < 4 {
            std::thread::yield_now();
        }
        let run = engine.requests()[0].run;
        for kind in [started("naive"), prompt(), step("x"), done(StopReason::Eos, "late")] {
            engine.emit(run, kind);
        }
        second.requests().iter().map(|request| request.run).collect::<Vec<u64>>()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut engines = [one, two];
    let summary = runtime.block_on(batch.run(&mut engines, clips, &mut outputs, &mut kept)).unwrap();
    assert_eq!(answers.join().unwrap(), [2, 3, 4, 5]);
    assert_eq!((summary.progress.captioned, summary.progress.failed), (4, 1));
    let names: Vec<(&str, u64)> = kept.clips.iter().map(|(name, run, _)| (name.as_str(), *run)).collect();
    assert_eq!(names, [("bad.mp4", 2), ("c.mp4", 3), ("d.mp4", 4), ("e.mp4", 5), ("a.mp4", 1)]);
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap().trim(), "late");
    let reads = |engine: &FakeEngine| engine.commands().iter().any(|c| matches!(c, Command::ReadNext(_)));
    assert!(!reads(&first), "nobody knows which engine has the next clip");
}

#[test]
fn a_bad_clip_stops_nothing_and_done_ones_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4", "bad.mp4", "c.mp4", "d.mp4"]);
    std::fs::write(dir.path().join("c.txt"), "mine").unwrap();
    let (fake, mut client) = engine();
    let (summary, kept) = run(&mut client, &clips, txt(&["p"]), |_| {});
    let Progress { total, captioned, skipped, failed, busy, .. } = summary.progress;
    assert_eq!((total, captioned, skipped, failed, busy), (4, 2, 1, 1, 0));
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!((text("a.txt"), text("c.txt")), ("The video shows p.\n".into(), "mine".into()));
    let runs: Vec<(&str, u64)> = kept.clips.iter().map(|(name, run, _)| (name.as_str(), *run)).collect();
    assert_eq!(runs, [("a.mp4", 1), ("c.mp4", 0), ("bad.mp4", 2), ("d.mp4", 3)]);
    // The engine knew each clip but the first before its turn.
    let ahead = |command: &Command| matches!(command, Command::ReadNext(_));
    assert_eq!(fake.commands().iter().filter(|command| ahead(command)).count(), 2);
    assert_eq!(fake.requests().iter().map(|request| request.run).collect::<Vec<_>>(), [1, 2, 3]);

    let (summary, kept) = run(&mut client, &clips, txt(&["p"]), |_| {});
    assert_eq!((summary.progress.skipped, summary.progress.failed, kept.events), (3, 1, 0));
    assert!(matches!(&kept.clips[1].2, Outcome::FailedBefore(error) if error.contains("no video")));
}

#[test]
fn a_caption_that_the_models_left_empty_is_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4", "b.mp4"]);
    let (_, mut client) = FakeEngine::answering(|request| {
        let text = if request.video.ends_with("a.mp4") { " " } else { "A disc." };
        vec![started("naive"), done(StopReason::Eos, text)]
    });
    let polish = Polish { prefix: Some("ohwx".into()), clean: false };
    let options = Options { dataset: Some((Kind::Jsonl, dir.path().join("set.jsonl"))), ..txt(&["p"]) };
    let (summary, kept) = run(&mut client, &clips, options, |batch| batch.polish = polish);
    let Progress { captioned, empty, failed, .. } = summary.progress;
    assert_eq!((captioned, empty, failed), (1, 1, 0));
    assert!(
        matches!(&kept.clips[0].2, Outcome::Empty(captions) if captions[0].is_empty()),
        "{:?}",
        kept.clips
    );
    // What the prefix makes of it is written, and the row says that it is empty.
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "ohwx\n");
    let rows = std::fs::read_to_string(dir.path().join("set.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!((&rows[0]["empty"], rows[1].get("empty")), (&true.into(), None));
    let Outcome::Empty(captions) = &kept.clips[0].2 else { unreachable!() };
    assert!(!captions[0].edited("A ring.").is_empty());
}

#[test]
fn several_prompts_and_changes_of_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let set = dir.path().join("set.jsonl");
    let options = Options { dataset: Some((Kind::Jsonl, set.clone())), ..txt(&["a cat", "a dog"]) };
    let (_, mut client) = engine();
    let polish = Polish { prefix: Some("ohwx,".into()), clean: true };
    let (_, kept) = run(&mut client, &clips, options, |batch| batch.polish = polish);
    let Outcome::Captioned(captions) = &kept.clips[0].2 else { panic!("{:?}", kept.clips) };
    assert_eq!((captions.len(), captions[1].cut.as_deref()), (2, Some("The video shows")));
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "ohwx, A cat.\nohwx, A dog.\n");
    let rows = std::fs::read_to_string(set).unwrap();
    let row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&row["caption"], &row["cut"], &row["method"]),
        (&"ohwx, A cat.".into(), &"The video shows".into(), &"naive".into())
    );
    assert_eq!(
        (&row["video"], &row["reason"], &row["target"]),
        (&"a.mp4".into(), &"eos".into(), &"big".into())
    );
}

#[test]
fn a_limit_leaves_the_rest_and_an_interrupt_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4", "b.mp4", "c.mp4"]);
    let (fake, mut client) = engine();
    let (summary, _) = run(&mut client, &clips, txt(&["p"]), |batch| batch.limit = Some(2));
    assert!(summary.limited && summary.progress.captioned == 2 && fake.requests().len() == 2);
    let (_, mut client) =
        FakeEngine::answering(|_| vec![started("naive"), done(StopReason::Cancelled, "half")]);
    let (summary, kept) = run(&mut client, &clips, txt(&["p"]), |_| {});
    assert!(summary.interrupted && kept.clips.len() == 2, "{:?}", kept.clips);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(
        !left.iter().any(|name| name == "c.txt" || name.to_string_lossy().ends_with(".lock")),
        "{left:?}"
    );
}

#[test]
fn a_file_that_changes_or_another_process_has() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4", "b.mp4"]);
    let mut other = Outputs::open(txt(&["p"]), &clips).unwrap();
    let claims = other.claim(&clips[0]).unwrap();
    let changing = clips[1].path();
    let (_, mut client) = FakeEngine::answering(move |_| {
        std::fs::write(&changing, "more of it").unwrap();
        vec![started("naive"), done(StopReason::Eos, "text")]
    });
    let (summary, kept) = run(&mut client, &clips, txt(&["p"]), |_| {});
    assert_eq!((summary.progress.busy, summary.progress.failed), (1, 1));
    let [(_, _, Outcome::Failed(failure)), (_, _, Outcome::Busy)] = &kept.clips[..] else {
        panic!("{:?}", kept.clips)
    };
    assert!(failure.error.ends_with("it changed while it was captioned"));
    assert!(!dir.path().join("b.txt").exists());
    drop(claims);
}

#[test]
fn models_that_cannot_be_loaded_end_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let (fake, mut client) = FakeEngine::silent();
    fake.emit(0, failed(FailureClass::Input, "model not found"));
    let options = Options { existing: Existing::Overwrite, ..txt(&["p"]) };
    let (ended, _) = attempt(&mut client, &clips, options, |_| {});
    assert!(matches!(ended, Err(Halt::Failed(failure)) if failure.error == "model not found"));
}

#[test]
fn every_nth_clip_is_verified() {
    use specreel_record::testing::verified;
    let names = ["a.mp4", "b.mp4", "bad.mp4", "d.mp4", "e.mp4"];
    for (every, compared, differing) in [(1, "abde", "b"), (2, "ae", ""), (3, "ad", ""), (9, "a", "")] {
        let dir = tempfile::tempdir().unwrap();
        let clips = clips(dir.path(), &names);
        let (fake, mut client) = FakeEngine::answering(|request| {
            let is = |name| request.video.ends_with(name);
            match request.verifies {
                _ if is("bad.mp4") => vec![failed(FailureClass::Input, "bad.mp4: no video")],
                Some(_) => {
                    let plain = if is("b.mp4") { 2 } else { 1 };
                    vec![started("plain"), verified(&[1], &[plain]), done(StopReason::Eos, "A")]
                }
                None => vec![started("naive"), prompt(), step("x"), done(StopReason::Eos, "A")],
            }
        });
        let (summary, kept) = run(&mut client, &clips, txt(&["p"]), |batch| batch.verify = Some(every));
        let plain = fake.requests().into_iter().filter(|request| request.verifies.is_some());
        let stem = |request: RunRequest| request.video.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(plain.map(stem).collect::<String>(), compared, "every {every}");
        let progress = &summary.progress;
        assert_eq!((progress.verified, progress.differing.len()), (compared.len(), differing.len()));
        assert!(progress.differing.iter().all(|found| found.video.ends_with("b.mp4") && found.is_broken));
        assert_eq!(progress.broken(), differing.len());
        let words = if differing.is_empty() { "identical" } else { "1 differs" };
        assert!(progress.verifications().contains(words), "{}", progress.verifications());
        assert_eq!(kept.clips.iter().map(|clip| clip.1).max(), Some(5), "runs are counted as without it");
    }
}

#[test]
fn an_interrupted_verification_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clips = clips(dir.path(), &["a.mp4"]);
    let (_fake, mut client) = FakeEngine::answering(|request| match request.verifies {
        Some(_) => vec![started("plain"), done(StopReason::Cancelled, "")],
        None => vec![started("naive"), prompt(), step("x"), done(StopReason::Eos, "A")],
    });
    let (summary, _) = run(&mut client, &clips, txt(&["p"]), |batch| batch.verify = Some(1));
    assert!(summary.interrupted && summary.progress.verified == 0);
    assert!(!dir.path().join("a.txt").exists());
}
