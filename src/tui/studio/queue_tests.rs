//! Clips that are captioned one after another, and the marks of the library.

use std::path::Path;

use crate::tui::{
    Effect, Msg, SessionEntry, SidecarsWritten, Studio,
    model::library::Kind,
    pane::Pane,
    screens::preview::PreviewScreen,
    testing::{
        self, config, done, five, is_shown, notice, press, prompt, ready_event, run_of, started, step,
    },
};
use specreel_engine::RunRequest;
use specreel_record::{Event, EventKind, RunLog, StopReason, Verdict, testing::failure};

fn asked(request: Option<&RunRequest>) -> (u64, &Path) {
    let request = request.unwrap();
    (request.run, &request.video)
}

fn queued(studio: &mut Studio) -> Vec<String> {
    studio.model().queue.clips.iter().map(|waiting| waiting.run.subject.title.clone()).collect()
}

fn screen(studio: &Studio) -> String {
    testing::screen(studio, 100, 30)
}

/// The run writes two tokens and ends.
fn finish(studio: &mut Studio, run: u64) -> Vec<Effect> {
    studio.handle(step(run, &[("A red", Verdict::Exact), (" ball.", Verdict::Corrected)], 2));
    studio.handle(done(run, StopReason::Eos, "A red ball."))
}

#[test]
fn enter_on_three_clips_runs_three() {
    let mut studio = five();
    let first = press(&mut studio, "enter");
    assert_eq!(asked(run_of(&first)), (1, Path::new("/demo/0.mp4")));
    assert!(press(&mut studio, "down enter").is_empty(), "the first run continues");
    assert!(press(&mut studio, "down e end space M o r e . enter").is_empty());
    assert_eq!(queued(&mut studio), ["Two squares", "a.mp4"]);
    assert!(notice(&mut studio).contains("a.mp4 is queued"));
    press(&mut studio, "esc");
    let shown = screen(&studio);
    assert!(shown.contains("2 queued: Two squares") && shown.contains("Two squares +1"), "{shown}");

    let effects = finish(&mut studio, 1);
    assert_eq!(asked(run_of(&effects)).1, Path::new("/demo/1.mp4"));
    assert_eq!(run_of(&effects).unwrap().prompt, "Describe the video.");
    assert!(screen(&studio).contains("Red ball ✓"));
    let (second, _) = asked(run_of(&effects));
    assert_eq!(studio.model().runs.shown().unwrap().id(), second, "the next run is shown");
    let effects = finish(&mut studio, second);
    assert_eq!(asked(run_of(&effects)).1, Path::new("/v/a.mp4"));
    assert_eq!(run_of(&effects).unwrap().prompt, "Describe the video. More.", "as it was then");
    let last = asked(run_of(&effects)).0;
    assert!(finish(&mut studio, last).is_empty());
    assert!(!studio.model().is_running());
}

#[test]
fn clips_are_marked_one_by_one_or_all_together() {
    let mut studio = five();
    press(&mut studio, "down down x up up space");
    assert!(screen(&studio).contains("*a.mp4") && screen(&studio).contains("*Two squares"));
    // Unmarked again, and marked once more: it goes to the end.
    press(&mut studio, "x x");
    assert_eq!(studio.model().library.marked, [Path::new("/demo/1.mp4"), Path::new("/v/b.mp4")]);
    // All that are shown; the order of the marks stays.
    press(&mut studio, "X");
    assert_eq!(studio.model().library.marked.len(), 5);
    assert_eq!(studio.model().library.marked[1], Path::new("/v/b.mp4"));
    press(&mut studio, "X");
    assert!(studio.model().library.marked.is_empty());
    press(&mut studio, "/ a . m p enter X");
    assert!(studio.model().library.marked.contains(&"/v/a.mp4".into()));
    assert!(!studio.model().library.marked.contains(&"/demo/0.mp4".into()), "it is filtered out");
    // Esc clears the filter, then the marks.
    press(&mut studio, "esc");
    assert!(!studio.model().library.marked.is_empty());
    press(&mut studio, "esc");
    assert!(studio.model().library.marked.is_empty());
}

#[test]
fn esc_drops_the_queue_and_then_cancels_the_run() {
    let mut studio = five();
    press(&mut studio, "enter down enter down enter");
    assert!(screen(&studio).contains("Esc drop the queue") || screen(&studio).contains("esc drop the queue"));
    assert!(press(&mut studio, "esc").is_empty());
    assert_eq!(notice(&mut studio), "2 clips dropped from the queue");
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(1)]);
    assert!(studio.handle(done(1, StopReason::Cancelled, "")).is_empty());
    // Ctrl-C stops everything at once.
    let mut studio = five();
    press(&mut studio, "enter down enter");
    assert_eq!(press(&mut studio, "ctrl-c"), [Effect::Cancel(1)]);
    assert!(studio.handle(done(1, StopReason::Cancelled, "")).is_empty());
}

#[test]
fn a_clip_is_queued_once_and_the_running_one_is_replaced() {
    let mut studio = five();
    press(&mut studio, "enter down enter enter");
    assert_eq!(queued(&mut studio), ["Two squares"]);
    // Another run of the clip that is captioned takes its place; the queue stays.
    assert_eq!(press(&mut studio, "up enter"), [Effect::Cancel(1)]);
    let effects = studio.handle(done(1, StopReason::Cancelled, ""));
    let (again, video) = asked(run_of(&effects));
    assert_eq!((video, queued(&mut studio).len()), (Path::new("/demo/0.mp4"), 1));
    // A failed clip does not keep the next one from being captioned.
    let effects = studio.handle(Msg::Engine(Event::new(again, EventKind::Failed(failure()))));
    assert_eq!(asked(run_of(&effects)).1, Path::new("/demo/1.mp4"));
    assert!(!studio.model().library.captioned.contains(Path::new("/demo/0.mp4")));
}

#[test]
fn a_queued_run_does_not_take_away_what_the_user_reads() {
    let mut studio = five();
    press(&mut studio, "enter");
    finish(&mut studio, 1);
    let second = asked(run_of(&press(&mut studio, "down enter"))).0;
    press(&mut studio, "down enter");
    // Reading the first caption.
    press(&mut studio, "<");
    let third = asked(run_of(&finish(&mut studio, second))).0;
    assert_eq!(studio.model().runs.shown().unwrap().id(), 1);
    finish(&mut studio, third);
    assert_eq!(studio.model().runs.shown().unwrap().id(), 1);
}

#[test]
fn while_the_models_load_clips_are_queued_too() {
    let (mut studio, _) = Studio::new(&config()).unwrap();
    studio.handle(Msg::Resize(80, 24));
    assert!(press(&mut studio, "enter").is_empty());
    studio.model().focus = Pane::Library;
    assert!(press(&mut studio, "down enter").is_empty());
    assert_eq!(asked(run_of(&studio.handle(ready_event()))).1, Path::new("/demo/0.mp4"));
    assert_eq!(queued(&mut studio), ["Two squares"]);
}

#[test]
fn the_preview_captions_its_own_clip_only() {
    let mut studio = five();
    press(&mut studio, "down x g v");
    assert!(is_shown::<PreviewScreen>(&mut studio));
    let effects = press(&mut studio, "enter");
    assert_eq!(asked(run_of(&effects)).1, Path::new("/demo/0.mp4"));
    assert_eq!(studio.model().library.marked.len(), 1);
}

#[test]
fn clips_of_saved_runs_are_marked_unless_nothing_was_written() {
    let mut studio = five();
    let entry = |video: &str, ends: bool| {
        let mut log = RunLog::new(1);
        log.apply(&Event::new(1, started(video, "lvspec")));
        if ends {
            let Msg::Engine(event) = done(1, StopReason::Eos, "A red ball.") else { unreachable!() };
            log.apply(&event);
        }
        SessionEntry::new(Path::new("/sessions/1.jsonl"), 0, 0, vec![log]).unwrap()
    };
    studio.handle(Msg::Listed(Ok(vec![entry("/v/b.mp4", true), entry("/v/c.mp4", false)])));
    let shown = screen(&studio);
    assert!(shown.contains("b.mp4 ✓") && !shown.contains("c.mp4 ✓"), "{shown}");
    // Its only run was deleted.
    studio.handle(Msg::Listed(Ok(vec![])));
    assert!(!screen(&studio).contains('✓'));
}

#[test]
fn clips_that_the_embedded_models_cannot_know_have_a_badge() {
    let mut studio = five();
    studio.model().config.embedded = true;
    assert!(!screen(&studio).contains("toy models"));
    press(&mut studio, "G");
    assert_eq!(studio.model().library.selected().unwrap().kind, Kind::File);
    let shown = screen(&studio);
    assert!(shown.contains("toy models") && shown.contains("the embedded models only know"), "{shown}");
    assert!(testing::screen(&studio, 60, 16).contains("toy models"));
    // It stays while the caption of such a clip is shown, wherever the cursor is.
    let run = asked(run_of(&press(&mut studio, "enter"))).0;
    studio.handle(Msg::Engine(Event::new(run, prompt(&[specreel_demo::LIMITS_NOTE]))));
    finish(&mut studio, run);
    press(&mut studio, "g");
    assert!(screen(&studio).contains("toy models"));
    studio.model().config.embedded = false;
    let mut others = five();
    press(&mut others, "G");
    assert!(!screen(&others).contains("toy models"), "other models may know it");
}

#[test]
fn captions_of_files_are_written_beside_them() {
    let mut studio = five();
    // An embedded clip, two files of the three, and one whose run is cancelled.
    press(&mut studio, "enter down down enter down enter down enter");
    let mut effects = finish(&mut studio, 1);
    for _ in 0..2 {
        let run = asked(run_of(&effects)).0;
        effects = finish(&mut studio, run);
    }
    let last = asked(run_of(&effects)).0;
    studio.handle(step(last, &[("A red", Verdict::Exact)], 1));
    studio.handle(done(last, StopReason::Cancelled, "A red"));
    let want = ["/v/a.mp4", "/v/b.mp4"].map(|path| (path.into(), "A red ball.".to_owned()));
    assert!(press(&mut studio, "s").is_empty() && screen(&studio).contains("captions of 2 clips"));
    assert_eq!(press(&mut studio, "G enter"), [Effect::Sidecars(want.into())]);
    let failed = vec!["cannot write /v/b.txt: full".to_owned()];
    let outcome = SidecarsWritten { written: 1, kept: 0, failed };
    studio.handle(Msg::Sidecars(Ok(outcome)));
    assert_eq!(notice(&mut studio), "1 caption written, 1 failed: cannot write /v/b.txt: full");
    studio.handle(Msg::Sidecars(Ok(SidecarsWritten { written: 0, kept: 2, failed: Vec::new() })));
    assert_eq!(notice(&mut studio), "0 captions written, 2 existing left alone");
}
