//! Marked clips, captioned together.

use std::path::{Path, PathBuf};

use crate::tui::{
    BatchJob, BatchNews, Effect, Msg, Studio,
    model::batch::{ClipState, Phase},
    pane::Pane,
    screens::{batch::BatchScreen, caption_editor::CaptionEditor},
    testing::{self, done, five, is_shown, notice, press, run_of, started, step},
};
use specreel_batch::{Existing, Outcome, Progress, Sidecar, Summary, rows::Caption};
use specreel_record::{Event, Failure, FailureClass, Stats, StopReason, Verdict};

/// A ready studio with two embedded clips and three files, all but the first of which are marked.
fn marked() -> Studio {
    let mut studio = five();
    press(&mut studio, "X g space");
    studio
}

/// The marked clips, started.
fn running() -> (Studio, BatchJob) {
    let mut studio = marked();
    assert!(press(&mut studio, "enter").is_empty(), "first the box");
    let job = job_of(&press(&mut studio, "enter"));
    (studio, job)
}

fn job_of(effects: &[Effect]) -> BatchJob {
    match effects {
        [Effect::Batch(job)] => (**job).clone(),
        others => panic!("no batch: {others:?}"),
    }
}

fn screen(studio: &Studio) -> String {
    testing::screen(studio, 100, 30)
}

fn states(studio: &mut Studio) -> Vec<ClipState> {
    let batch = studio.model().batches.last.as_ref().unwrap();
    batch.clips.iter().map(|clip| clip.state.clone()).collect()
}

/// The run on a clip begins and writes two tokens.
fn begin(studio: &mut Studio, run: u64, video: &str) {
    studio.handle(Msg::Engine(Event::new(run, started(video, "lvspec"))));
    studio.handle(step(run, &[("A red", Verdict::Exact), (" ball.", Verdict::Corrected)], 2));
}

/// A clip is over; `captioned` and `failed` are the batch's counts then.
fn over(studio: &mut Studio, video: &str, run: u64, outcome: Outcome, (captioned, failed): (usize, usize)) {
    let stats = Stats { tau: 2.5, tokens_per_second: 80.0, ..Stats::default() };
    let elapsed = std::time::Duration::from_secs(2 * captioned as u64);
    let progress = Progress { total: 4, captioned, failed, stats, elapsed, ..Progress::default() };
    let existing = (outcome == Outcome::Skipped).then(|| "Mine.".to_owned());
    let news = BatchNews::Clip { video: video.into(), run, outcome, existing, progress: Box::new(progress) };
    assert!(studio.handle(Msg::Batch(news)).is_empty());
}

fn captioned(text: &str) -> Outcome {
    Outcome::Captioned(vec![Caption { text: text.into(), ..Caption::default() }])
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed(Failure { class: FailureClass::Input, error: error.into(), hint: None })
}

fn end(studio: &mut Studio, interrupted: bool) -> Vec<Effect> {
    let summary = Summary { interrupted, ..Summary::default() };
    studio.handle(Msg::Batch(BatchNews::Ended(Ok(Box::new(summary)))))
}

#[test]
fn enter_opens_the_batch_and_starts_it_with_the_chosen_files() {
    let mut studio = marked();
    assert_eq!(studio.model().library.marked.len(), 4);
    press(&mut studio, "enter");
    let shown = screen(&studio);
    for words in ["Batch of 4 clips", "captions 4 clips with lvspec", "a .txt file next to each clip"] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    // Closed again: nothing is lost.
    press(&mut studio, "esc");
    assert!(studio.model().screens.is_empty() && studio.model().library.marked.len() == 4);
    press(&mut studio, "enter f x");
    assert!(screen(&studio).contains("a .json file") && screen(&studio).contains("are overwritten"));
    let job = job_of(&press(&mut studio, "enter"));
    assert_eq!((job.options.sidecar, job.options.existing), (Some(Sidecar::Json), Existing::Overwrite));
    assert_eq!(job.options.prompts, ["Describe the video."]);
    let paths: Vec<PathBuf> = job.clips.iter().map(|clip| clip.path()).collect();
    assert_eq!(paths, ["/demo/1.mp4", "/v/a.mp4", "/v/b.mp4", "/v/c.mp4"].map(PathBuf::from));
    // The sidecar of an embedded clip is written to the working directory.
    assert_eq!(Sidecar::Txt.path(&job.clips[0], None), Path::new("1.txt"));
    assert_eq!(Sidecar::Txt.path(&job.clips[1], None), Path::new("/v/a.txt"));
    assert!(studio.model().library.marked.is_empty());
    // Numbers for all of its runs are taken.
    assert_eq!((job.request.run, studio.model().runs.next), (1, 5));
}

#[test]
fn every_state_is_shown_and_failed_clips_are_tried_again() {
    let (mut studio, _) = running();
    begin(&mut studio, 1, "/demo/1.mp4");
    let shown = screen(&studio);
    assert!(
        shown.contains("running") && shown.contains("A red ball.") && shown.contains("clip 1 of 4"),
        "{shown}"
    );
    let effects = studio.handle(done(1, StopReason::Eos, "A red ball."));
    assert!(effects.is_empty(), "the batch continues by itself: {effects:?}");
    over(&mut studio, "/demo/1.mp4", 1, captioned("A red ball."), (1, 0));
    over(&mut studio, "/v/a.mp4", 0, Outcome::Skipped, (1, 0));
    over(&mut studio, "/v/b.mp4", 2, failed("/v/b.mp4: no video"), (1, 1));
    let shown = screen(&studio);
    for words in
        ["3/4, 1 failed, 0:04 left", "2.0 s a video, tau 2.50", "Mine.", "b.mp4: no video", "waiting"]
    {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    over(&mut studio, "/v/c.mp4", 0, Outcome::Busy, (1, 1));
    end(&mut studio, false);
    let words = "batch done: 4 videos: 1 captioned, 1 had captions, 1 captioned by another process, 1 failed";
    assert_eq!(notice(&mut studio), words);
    assert!(studio.model().library.captioned.contains(Path::new("/v/a.mp4")));

    let job = job_of(&press(&mut studio, "r"));
    let paths: Vec<PathBuf> = job.clips.iter().map(|clip| clip.path()).collect();
    assert_eq!(paths, ["/v/b.mp4", "/v/c.mp4"].map(PathBuf::from));
    assert!(job.options.retry_failed && job.request.run == 5);
    use ClipState::{Done, Skipped, Waiting};
    assert_eq!(states(&mut studio), [Done, Skipped, Waiting, Waiting]);
    over(&mut studio, "/v/b.mp4", 5, captioned("B."), (1, 0));
    over(&mut studio, "/v/c.mp4", 6, captioned("C."), (2, 0));
    end(&mut studio, false);
    press(&mut studio, "r");
    assert_eq!(notice(&mut studio), "no clip failed or was left");
}

#[test]
fn the_stream_is_one_key_away_and_the_studio_stays_usable() {
    let (mut studio, _) = running();
    begin(&mut studio, 1, "/demo/1.mp4");
    assert!(press(&mut studio, "enter").is_empty());
    assert_eq!((studio.model().screens.is_empty(), studio.model().focus), (true, Pane::Caption));
    assert_eq!(studio.caption(), "A red ball.");
    studio.handle(done(1, StopReason::Eos, "A red ball."));
    over(&mut studio, "/demo/1.mp4", 1, captioned("A red ball."), (1, 0));
    begin(&mut studio, 2, "/v/a.mp4");
    assert_eq!(studio.model().runs.shown().unwrap().id(), 2, "the newest is shown");
    // Another run waits for the end of the batch, or is refused.
    assert!(press(&mut studio, "r").is_empty());
    assert!(notice(&mut studio).starts_with("a batch is running"));
    studio.model().focus = Pane::Library;
    assert!(press(&mut studio, "g enter").is_empty());
    assert!(notice(&mut studio).contains("is queued"));
    studio.handle(done(2, StopReason::Eos, "A red ball."));
    press(&mut studio, "B");
    assert!(is_shown::<BatchScreen>(&mut studio));
    let effects = end(&mut studio, false);
    let queued = run_of(&effects).unwrap();
    assert_eq!((queued.run, queued.video.as_path()), (5, Path::new("/demo/0.mp4")));
}

#[test]
fn a_batch_waits_for_the_active_run_and_a_cancelled_one_goes_on() {
    let mut studio = marked();
    press(&mut studio, "v");
    assert_eq!(run_of(&press(&mut studio, "enter")).unwrap().run, 1);
    assert!(press(&mut studio, "enter enter").is_empty());
    assert!(screen(&studio).contains("waiting for the engine"));
    let job = job_of(&studio.handle(done(1, StopReason::Eos, "A ball.")));
    assert_eq!(job.request.run, 2);
    begin(&mut studio, 2, "/demo/1.mp4");
    over(&mut studio, "/demo/1.mp4", 2, captioned("A red ball."), (1, 0));
    studio.handle(done(2, StopReason::Eos, "A red ball."));
    begin(&mut studio, 3, "/v/a.mp4");
    // Esc closes the box, Ctrl-C cancels.
    assert!(press(&mut studio, "esc").is_empty());
    assert_eq!(press(&mut studio, "B ctrl-c"), [Effect::CancelBatch]);
    assert!(studio.model().batches.last.as_ref().unwrap().phase == Phase::Cancelling);
    assert!(press(&mut studio, "ctrl-c").is_empty() && notice(&mut studio).contains("to quit"));
    studio.handle(done(3, StopReason::Cancelled, "A red"));
    assert!(end(&mut studio, true).is_empty());
    assert_eq!(notice(&mut studio), "batch cancelled: 4 videos: 1 captioned, 3 left");
    let job = job_of(&press(&mut studio, "r"));
    assert_eq!(job.clips.len(), 3);
}

#[test]
fn a_batch_that_cannot_go_on_says_why() {
    let (mut studio, _) = running();
    begin(&mut studio, 1, "/demo/1.mp4");
    studio.handle(Msg::Batch(BatchNews::Ended(Err("cannot write /v/a.txt: disk full".into()))));
    assert_eq!(notice(&mut studio), "the batch has stopped: cannot write /v/a.txt: disk full");
    assert!(screen(&studio).contains("disk full") && states(&mut studio)[0] == ClipState::Waiting);
    assert!(!studio.model().batches.has_engine());
}

#[test]
fn a_caption_is_edited_and_saved() {
    let (mut studio, _) = running();
    over(&mut studio, "/demo/1.mp4", 1, captioned("A ball."), (1, 0));
    over(&mut studio, "/v/a.mp4", 2, captioned("A disc."), (2, 0));
    press(&mut studio, "down e");
    assert!(screen(&studio).contains("Caption of a.mp4") && screen(&studio).contains("A disc."));
    press(&mut studio, "enter R e d . q");
    studio.handle(Msg::Paste(" More.".into()));
    // Changes are not discarded by one key.
    press(&mut studio, "esc");
    assert!(notice(&mut studio).ends_with("again to discard your changes"));
    let effects = press(&mut studio, "ctrl-s");
    let [Effect::SaveCaption(edit)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((edit.sidecar, edit.clip.path()), (Sidecar::Txt, PathBuf::from("/v/a.mp4")));
    assert_eq!(edit.caption.text, "A disc.\nRed.q More.");
    assert_eq!(edit.caption.made["generated"], "A disc.");
    let saved = |outcome| Msg::CaptionSaved {
        video: "/v/a.mp4".into(),
        caption: Box::new(edit.caption.clone()),
        outcome,
    };
    // It stays in the editor if it cannot be saved.
    studio.handle(saved(Err("cannot write /v/a.txt: read-only".into())));
    assert!(is_shown::<CaptionEditor>(&mut studio));
    studio.handle(saved(Ok(Some("/v/a.txt".into()))));
    assert_eq!(notice(&mut studio), "saved as /v/a.txt");
    assert!(screen(&studio).contains("✓ edited") && is_shown::<BatchScreen>(&mut studio));
    // Unchanged, one key is enough.
    press(&mut studio, "e esc");
    assert!(is_shown::<BatchScreen>(&mut studio));
    press(&mut studio, "end e");
    assert!(notice(&mut studio).contains("no caption"));
}
