//! Clips in segments, the search in the caption, earlier prompts, the filter of saved runs.

use std::{path::Path, sync::Arc};

use super::*;
use crate::tui::{
    SessionEntry, SpeechNews, Studio,
    pane::Pane,
    screens::{segments::SegmentsLine, sessions::SessionList},
    testing::{self, about, config, done, is_shown, notice, press, ready, run_of, shown, step},
    update::export,
};
use specreel_client::Transcript;
use specreel_record::{
    Event, EventKind, RunLog, Segment, Session, Span, Started, StopReason, Turn, Verdict,
    session::RecordedEvent, testing::failure,
};
use specreel_video::{Division, Scenes};

fn span(start: f64, end: f64) -> Span {
    Span { start, end }
}

/// A studio that captions the first clip in three segments; the first one runs.
fn in_segments() -> (Studio, Vec<Effect>) {
    let mut studio = ready();
    // What is typed takes the place of the suggested length.
    let effects = press(&mut studio, "L 1 0 enter");
    assert_eq!(effects, [Effect::Cut("/demo/0.mp4".into(), Division::Even(10.0))]);
    let segments = vec![span(0.0, 10.0), span(10.0, 20.0), span(20.0, 27.0)];
    let effects = studio.handle(Msg::Cut(Ok(segments)));
    (studio, effects)
}

/// Start the run that these effects request.
fn start(studio: &mut Studio, effects: &[Effect]) {
    let request = run_of(effects).unwrap();
    let (span, segment, prompt) = (request.span, request.segment, request.prompt.clone());
    let about = about(&request.video.to_string_lossy(), &request.method.name);
    let kind = EventKind::Started(Started { span, segment, prompt, ..about });
    studio.handle(Msg::Engine(Event::new(request.run, kind)));
}

fn write(studio: &mut Studio, run: u64, text: &str) -> Vec<Effect> {
    studio.handle(step(run, &[(text, Verdict::Exact)], 1));
    studio.handle(done(run, StopReason::Eos, text))
}

fn screen(studio: &Studio) -> String {
    testing::screen(studio, 100, 30)
}

#[test]
fn the_segments_of_a_clip_run_one_after_another() {
    let (mut studio, effects) = in_segments();
    let request = run_of(&effects).unwrap();
    assert_eq!((request.run, request.span), (1, Some(span(0.0, 10.0))));
    assert_eq!(request.segment, Some(Segment { first: 1, index: 0, count: 3 }));
    start(&mut studio, &effects);
    let effects = write(&mut studio, 1, "A ball.");
    assert_eq!(run_of(&effects).unwrap().span, Some(span(10.0, 20.0)));
    start(&mut studio, &effects);
    assert_eq!(studio.model().runs.shown, 1, "the segment that is being written is shown");
    let said = screen(&studio);
    for words in ["0:00 – 0:10", "A ball.", "0:10 – 0:20", "… 1 more segment", "2 of 3 · 0:10 – 0:20"]
    {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
    let effects = write(&mut studio, 2, "It rolls.");
    assert_eq!(run_of(&effects).unwrap().span, Some(span(20.0, 27.0)));
    start(&mut studio, &effects);
    assert!(write(&mut studio, 3, "It stops.").is_empty());
    // All segments are copied and exported.
    let [Effect::Copy(text)] = &press(&mut studio, "y")[..] else { panic!("nothing copied") };
    assert!(text.starts_with("[00:00:00.000 --> 00:00:10.000] A ball.\n[00:00:10.000"), "{text}");
    let [Effect::Write(name, text)] = &press(&mut studio, "s G up up up up enter")[..] else {
        panic!("nothing saved")
    };
    assert_eq!(name, "0-lvspec.srt");
    assert!(text.ends_with("3\n00:00:20,000 --> 00:00:27,000\nIt stops.\n\n"), "{text}");
}

#[test]
fn a_segment_that_is_looked_at_stays_when_the_next_starts() {
    let (mut studio, _) = in_segments();
    write(&mut studio, 1, "A ball.");
    press(&mut studio, "<");
    assert!(run_of(&write(&mut studio, 2, "It rolls.")).is_some());
    assert_eq!((studio.model().runs.all.len(), studio.model().runs.shown), (3, 0));
    write(&mut studio, 3, "It stops.");
    // A follow-up question is about the segment that is shown.
    press(&mut studio, "a");
    for c in "why?".chars() {
        press(&mut studio, &c.to_string());
    }
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.span, request.segment), (Some(span(0.0, 10.0)), None));
    assert_eq!(request.before[0].answer, "A ball.");
}

#[test]
fn a_failure_or_a_cancel_ends_all_segments_and_again_restarts_them() {
    let (mut studio, _) = in_segments();
    assert!(studio.handle(Msg::Engine(Event::new(1, EventKind::Failed(failure())))).is_empty());
    assert!(studio.model().queue.runs.is_empty());
    let effects = press(&mut studio, "r");
    let request = run_of(&effects).unwrap();
    assert_eq!(request.segment, Some(Segment { first: 4, index: 0, count: 3 }));
    assert_eq!(studio.model().queue.runs.len(), 2);
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(4)]);
    assert!(studio.handle(done(4, StopReason::Cancelled, "")).is_empty());
    // Adjusting a parameter does not restart them.
    assert!(press(&mut studio, "]").is_empty());
}

#[test]
fn a_clip_is_cut_into_its_scenes() {
    for (typed, threshold) in [("s c e n e s", 27.0), ("s c e n e s space 3 5", 35.0)] {
        let mut studio = ready();
        let effects = press(&mut studio, &format!("L ctrl-u {typed} enter"));
        let scenes = Scenes { threshold, ..Scenes::default() };
        assert_eq!(effects, [Effect::Cut("/demo/0.mp4".into(), Division::Scenes(scenes))]);
    }
}

#[test]
fn an_invalid_segment_length_is_reported() {
    let mut studio = ready();
    for typed in ["0", "x", "1 :", "s c e n e s x", "s c e n e s 0"] {
        assert!(press(&mut studio, &format!("L ctrl-u {typed} enter")).is_empty());
        assert!(notice(&mut studio).contains("at least one second"), "{typed}");
        assert!(is_shown::<SegmentsLine>(&mut studio));
        press(&mut studio, "esc");
    }
    press(&mut studio, "L enter");
    assert!(studio.handle(Msg::Cut(Err("0.mp4: the file is gone".into()))).is_empty());
    assert!(notice(&mut studio).contains("gone"));
    assert!(studio.handle(Msg::Cut(Ok(vec![span(0.0, 1.0)]))).is_empty(), "not requested");
}

/// A saved run of two segments, the second without an end.
fn session() -> Session {
    let mut lines = Vec::new();
    for (run, start) in [(7u64, 0.0), (8, 30.0)] {
        let segment = Some(Segment { first: 7, index: (run - 7) as usize, count: 3 });
        let prompt = format!("What is said in the video:\n[0:01 - 0:02] Word {run}.\n\nDescribe the video.");
        let span = Some(span(start, start + 30.0));
        let about = Started { span, segment, prompt, ..about("/v/clip.mp4", "naive") };
        let kind = EventKind::Started(about);
        let Msg::Engine(one) = step(run, &[("Some words.", Verdict::Exact)], 1) else { panic!("no event") };
        let Msg::Engine(end) = done(run, StopReason::Eos, "Some words.") else { panic!("no event") };
        let at = (run - 7) as f64 * 1000.0;
        lines.push(RecordedEvent { at_ms: Some(at), event: Event::new(run, kind) });
        lines.push(RecordedEvent { at_ms: Some(at + 500.0), event: one });
        if run == 7 {
            lines.push(RecordedEvent { at_ms: Some(at + 600.0), event: end });
        }
    }
    Session { lines, torn: false }
}

#[test]
fn a_saved_run_of_segments_is_replayed_whole() {
    let mut studio = ready();
    // Numbers of the session mean nothing here: there is a run 7 already.
    studio.model().runs.next = 7;
    studio.handle(Msg::Loaded(Ok(session())));
    assert!(studio.is_playing() && studio.is_replaying());
    assert!(!screen(&studio).contains("0:30 – 1:00"));
    // The stages take 480 ms, and the only step a second.
    studio.handle(Msg::Advance(480.0));
    studio.handle(Msg::Advance(900.0));
    assert_eq!((studio.caption().as_str(), studio.model().runs.shown), ("Some words.", 0));
    assert!(!screen(&studio).contains("0:30 – 1:00"));
    studio.handle(Msg::Advance(200.0));
    studio.handle(Msg::Advance(10_000.0));
    assert_eq!(studio.model().runs.shown, 1, "it follows");
    let said = screen(&studio);
    assert!(said.contains("0:30 – 1:00") && said.contains("the recording ends here"), "{said}");
    // Back into the first segment.
    press(&mut studio, ", ,");
    assert_eq!((studio.caption().as_str(), studio.model().runs.shown), ("", 1));
    press(&mut studio, ",");
    assert_eq!((studio.caption().as_str(), studio.model().runs.shown), ("Some words.", 0));
    assert!(!screen(&studio).contains("0:30 – 1:00"));
    // It re-runs with its own settings.
    let effects = press(&mut studio, "r");
    let segment = run_of(&effects).unwrap().segment.unwrap();
    assert_eq!((segment.count, segment.index), (2, 0), "the known segments");
    assert!(run_of(&effects).unwrap().prompt.contains("Word 7."));
    start(&mut studio, &effects);
    let effects = write(&mut studio, segment.first, "Again.");
    assert!(run_of(&effects).unwrap().prompt.contains("Word 8."), "each with what is said in it");
}

#[test]
fn a_saved_conversation_is_replayed_with_its_questions() {
    let mut studio = ready();
    let before =
        vec![Turn { prompt: "Who is\u{1b}[31m it?".into(), answer: "A ball.".into(), ..Turn::default() }];
    let kind = EventKind::Started(Started { before, ..about("/v/clip.mp4", "naive") });
    let lines = vec![RecordedEvent { at_ms: Some(0.0), event: Event::new(1, kind) }];
    studio.handle(Msg::Loaded(Ok(Session { lines, torn: false })));
    let said = screen(&studio);
    assert!(said.contains("› Who is it?") && said.contains("› Describe the video."), "{said}");
}

/// A studio whose caption is longer than its pane.
fn long() -> Studio {
    let mut studio = ready();
    press(&mut studio, "enter tab tab");
    for i in 0..30 {
        let words = format!(" The ball number {i} rolls over the 緑の星 and goes on.");
        studio.handle(step(1, &[(&words, Verdict::Exact)], 1));
    }
    studio.handle(step(1, &[(" A lone Zeb", Verdict::Exact), ("ra.", Verdict::Loosened)], 2));
    studio.handle(done(1, StopReason::Eos, ""));
    studio
}

#[test]
fn the_caption_is_searched() {
    let mut studio = long();
    assert_eq!(studio.model().focus, Pane::Caption);
    press(&mut studio, "/ z e b r a");
    assert!(screen(&studio).contains("/ zebra▏ 1 of 1"), "across tokens:\n{}", screen(&studio));
    press(&mut studio, "backspace backspace backspace backspace backspace n u m b e r");
    assert!(screen(&studio).contains("of 30"), "{}", screen(&studio));
    press(&mut studio, "enter");
    assert!(studio.model().screens.is_empty());
    studio.model().caption.search.at = 29;
    press(&mut studio, "n");
    let said = screen(&studio);
    assert!(
        said.contains("/ number 1 of 30") && said.contains("number 0 rolls"),
        "round and scrolled:\n{said}"
    );
    press(&mut studio, "N");
    assert!(screen(&studio).contains("30 of 30"));
    let (laid, up) = (view::caption::lay(studio.model()).unwrap(), studio.model().caption.up);
    assert!((laid.top(up)..laid.top(up) + laid.rows).contains(&laid.found[29]), "it is seen");
    press(&mut studio, "esc");
    assert!(studio.model().caption.search.query.is_empty() && !screen(&studio).contains("of 30"));
    press(&mut studio, "/ q q q");
    assert!(screen(&studio).contains("/ qqq▏ no match"));
    press(&mut studio, "esc n");
    assert!(notice(&mut studio).contains("no search"));
    // The library keeps its own.
    press(&mut studio, "shift-tab shift-tab / x");
    assert_eq!(studio.model().library.filter, "x");
}

#[test]
fn matches_are_marked_over_line_ends_and_wide_characters() {
    let mut studio = long();
    press(&mut studio, "/ 緑 の 星");
    let wide = view::caption::lay(studio.model()).unwrap();
    assert_eq!(wide.found.len(), 30);
    for (line, from) in wide.found.iter().zip(0..) {
        let here: String = wide.lines[*line..].iter().take(2).map(ToString::to_string).collect();
        assert!(here.contains('緑'), "match {from}: {here}");
    }
    // A blank of the query also matches a line end, and every letter of a match is marked.
    press(&mut studio, "ctrl-u");
    studio.model().caption.search.query = "over the 緑の星 and goes on".into();
    let laid = view::caption::lay(studio.model()).unwrap();
    assert_eq!(laid.found.len(), 30);
    let theme = studio.model().theme().clone();
    let current = theme.style(crate::look::Role::Selection).bg;
    let marked: String = laid
        .lines
        .iter()
        .flat_map(|l| &l.spans)
        .filter(|s| s.style.bg == current)
        .map(|s| s.content.as_ref())
        .collect();
    assert_eq!(marked.replace(' ', ""), "overthe緑の星andgoeson");
}

#[test]
fn earlier_prompts_come_back() {
    let history = vec!["Who is it?".to_owned(), "What moves\nand why?".into()];
    let (mut studio, _) = Studio::new(&config()).unwrap();
    studio.handle(Msg::EarlierPrompts(history));
    studio.handle(Msg::Resize(100, 30));
    press(&mut studio, "e alt-up");
    assert_eq!(studio.prompt(), "What moves\nand why?");
    press(&mut studio, "ctrl-r w h o");
    assert!(screen(&studio).contains("Earlier prompts"), "{}", screen(&studio));
    press(&mut studio, "enter");
    assert_eq!((studio.prompt().as_str(), studio.model().focus), ("Who is it?", Pane::Prompt));
    press(&mut studio, "ctrl-r z z z enter");
    assert_eq!(studio.prompt(), "Who is it?");
    press(&mut studio, "ctrl-r enter");
    assert_eq!(studio.prompt(), "What moves\nand why?", "the newest");
    press(&mut studio, "ctrl-r down enter");
    assert_eq!(studio.prompt(), "Who is it?", "the one before");
}

fn entry(name: &str, text: &str) -> SessionEntry {
    let span = Some(Span { start: 0.0, end: 30.0 });
    let segment = Some(Segment { first: 1, index: 0, count: 3 });
    let kind = EventKind::Started(Started { span, segment, ..about(&format!("{name}.mp4"), "naive") });
    let Msg::Engine(end) = done(1, StopReason::Eos, text) else { panic!("no event") };
    let runs = [1, 2].map(|run| {
        let mut log = RunLog::new(run);
        log.apply(&Event::new(run, kind.clone()));
        log.apply(&Event::new(run, end.kind.clone()));
        log
    });
    SessionEntry::new(&Path::new("/sessions").join(name), 5, 2_000_000, runs.to_vec()).unwrap()
}

#[test]
fn saved_runs_are_filtered_by_what_they_say() {
    let mut studio = ready();
    press(&mut studio, "S");
    studio.handle(Msg::Listed(Ok(vec![
        entry("harbour", "A ship."),
        entry("park", "A red ball."),
        entry("sea", "Red ships."),
    ])));
    let said = screen(&studio);
    assert!(said.contains("3 runs, 5.7 MiB") || said.contains("3 runs, 6"), "{said}");
    assert!(said.contains("2 of 3 segments"), "{said}");
    press(&mut studio, "/ r e d");
    assert_eq!(studio.model().sessions.shown, [1, 2]);
    press(&mut studio, "space s h i p enter");
    assert!(shown::<SessionList>(&mut studio).typing.is_none());
    assert_eq!(studio.model().sessions.shown, [2]);
    assert_eq!(press(&mut studio, "d y"), [Effect::Delete("/sessions/sea".into())]);
    studio.handle(Msg::Listed(Ok(vec![entry("harbour", "A ship."), entry("park", "A red ball.")])));
    assert!(studio.model().sessions.shown.is_empty(), "the filter stays");
    assert!(press(&mut studio, "enter").is_empty());
    // Esc clears it, then closes.
    press(&mut studio, "esc");
    assert!(shown::<SessionList>(&mut studio).typing.is_none());
    assert_eq!(studio.model().sessions.shown.len(), 2);
    press(&mut studio, "esc");
    assert!(studio.model().screens.is_empty());
}

/// Three segments, of which two are captioned and one is running.
fn two_of_three() -> Studio {
    let (mut studio, effects) = in_segments();
    start(&mut studio, &effects);
    let effects = write(&mut studio, 1, "A ball.");
    start(&mut studio, &effects);
    let effects = write(&mut studio, 2, "It rolls.");
    start(&mut studio, &effects);
    studio
}

#[test]
fn the_timeline_lists_segments_and_goes_to_one() {
    let mut studio = two_of_three();
    press(&mut studio, "T");
    let said = screen(&studio);
    for words in
        ["Timeline · 2 of 3 segments", "0:00 – 0:10", "A ball.", "0:10 – 0:20", "It rolls.", "0:20 – 0:27"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("━") && said.contains("┃") && said.contains("──"), "{said}");
    // The cursor is on the shown segment; the first one is chosen.
    press(&mut studio, "home enter");
    assert_eq!((studio.model().runs.shown, studio.model().screens.is_empty()), (0, true));
    // A search goes over all captions.
    press(&mut studio, "T R o l l enter");
    assert_eq!(studio.model().runs.shown, 1);
    press(&mut studio, "T x x x");
    assert!(screen(&studio).contains("no match"));
    press(&mut studio, "enter");
    assert!(notice(&mut studio).contains("not captioned yet"));
    // Without segments there is no timeline.
    let mut alone = testing::after_a_run();
    press(&mut alone, "T");
    assert!(notice(&mut alone).contains("not captioned in segments"));
}

#[test]
fn a_segment_is_captioned_again_in_its_place() {
    let mut studio = two_of_three();
    assert!(press(&mut studio, "T ctrl-r").is_empty());
    assert!(notice(&mut studio).contains("being captioned"));
    // It waits for the segments that are left, and is asked for once.
    assert!(press(&mut studio, "up ctrl-r ctrl-r").is_empty());
    assert!(notice(&mut studio).contains("waits for its turn"));
    press(&mut studio, "esc");
    let effects = write(&mut studio, 3, "It stops.");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.run, request.span), (4, Some(span(10.0, 20.0))));
    assert_eq!(request.segment, Some(Segment { first: 1, index: 1, count: 3 }));
    start(&mut studio, &effects);
    assert!(write(&mut studio, 4, "It jumps.").is_empty());
    let [Effect::Copy(text)] = &press(&mut studio, "y")[..] else { panic!("nothing copied") };
    let captions: Vec<&str> = text.lines().map(|line| line.split("] ").nth(1).unwrap()).collect();
    assert_eq!(captions, ["A ball.", "It jumps.", "It stops."]);
}

#[test]
fn a_segments_caption_is_edited_in_its_place() {
    let mut studio = two_of_three();
    press(&mut studio, "T ctrl-e");
    assert!(notice(&mut studio).contains("no caption that can be edited"), "it is running");
    press(&mut studio, "up ctrl-e");
    assert!(screen(&studio).contains("Caption of Red ball · 0:10 – 0:20"), "{}", screen(&studio));
    press(&mut studio, "space T w i c e .");
    press(&mut studio, "esc");
    assert!(notice(&mut studio).ends_with("again to discard your changes"));
    let effects = press(&mut studio, "ctrl-s");
    let edited = Event::new(2, EventKind::Edited { text: "It rolls. Twice.".into() });
    assert_eq!(effects, [Effect::SaveEdit(Box::new(edited), None)]);
    // Back on the timeline, which finds it.
    press(&mut studio, "t w i c e");
    assert!(screen(&studio).contains("(edited) It rolls. Twice."), "{}", screen(&studio));
    press(&mut studio, "enter");
    assert!(screen(&studio).contains("It rolls. Twice. (edited)"), "{}", screen(&studio));
    let log = studio.model().runs.all[1].log.whole();
    assert_eq!((log.text(), log.chunks()[0].text.as_str()), ("It rolls. Twice.", "It rolls."));
    let json = export::write(studio.model(), specreel_client::present::export::Format::Json);
    assert_eq!(json.matches("\"edited\": true").count(), 1, "{json}");
    // Unchanged, nothing is saved.
    assert!(press(&mut studio, "T home ctrl-e ctrl-s").is_empty());
    assert!(studio.model().runs.all[0].log.edited().is_none());
}

#[test]
fn a_saved_segment_is_edited_in_its_file_and_a_summary_is_shown() {
    let mut session = session();
    let about = Started { summary_of: Some(7), ..about("/v/clip.mp4", "naive") };
    let mut add = |run, kind| session.lines.push(RecordedEvent { at_ms: None, event: Event::new(run, kind) });
    let ends = |run, text| match done(run, StopReason::Eos, text) {
        Msg::Engine(end) => end.kind,
        _ => panic!("no event"),
    };
    add(8, ends(8, "Some words."));
    add(9, EventKind::Started(about));
    add(9, ends(9, "Words in all."));
    let mut studio = ready();
    studio.model().sessions.loading = Some("/sessions/a.jsonl".into());
    studio.handle(Msg::Loaded(Ok(session)));
    assert!(!screen(&studio).contains("Words in all."), "it is not played yet");
    for _ in 0..4 {
        studio.handle(Msg::Advance(10_000.0));
    }
    let said = screen(&studio);
    assert!(said.contains("Summary") && said.contains("Words in all."), "{said}");
    let effects = press(&mut studio, "T home ctrl-e ! ctrl-s");
    let edited = Event::new(7, EventKind::Edited { text: "Some words.!".into() });
    assert_eq!(effects, [Effect::SaveEdit(Box::new(edited), Some("/sessions/a.jsonl".into()))]);
}

#[test]
fn what_is_said_in_a_clip_goes_into_its_prompts() {
    let mut studio = ready();
    let clip = Path::new("/demo/0.mp4");
    let effects = press(&mut studio, "W");
    assert!(effects.is_empty() && screen(&studio).contains("What is said"), "{}", screen(&studio));
    studio.handle(Msg::Paste("said.srt".into()));
    assert_eq!(press(&mut studio, "enter"), [Effect::Listen(clip.into(), "said.srt".into())]);
    studio.handle(Msg::Speech(clip.into(), SpeechNews::Progress(0.4)));
    assert_eq!(notice(&mut studio), "listening to Red ball: 40 %");
    let lines = vec![(span(0.5, 2.0), "Look.".into()), (span(12.0, 15.0), "A ball.".into())];
    let said = Arc::new(Transcript::heard("said.srt", lines, Vec::new()));
    studio.handle(Msg::Speech(clip.into(), SpeechNews::Heard(Ok(said))));
    assert!(screen(&studio).contains("+ speech"), "{}", screen(&studio));

    let prompt = |effects: &[Effect]| run_of(effects).unwrap().prompt.clone();
    let effects = press(&mut studio, "enter");
    let whole =
        "What is said in the video:\n[0:00.5 - 0:02] Look.\n[0:12 - 0:15] A ball.\n\nDescribe the video.";
    assert_eq!(prompt(&effects), whole);
    start(&mut studio, &effects);
    write(&mut studio, 1, "A ball.");
    // A conversation keeps it where it was.
    press(&mut studio, "a");
    studio.handle(Msg::Paste("Who speaks?".into()));
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.before[0].prompt.as_str(), request.prompt.as_str()), (whole, "Who speaks?"));
    start(&mut studio, &effects);
    write(&mut studio, 2, "Nobody.");

    press(&mut studio, "L ctrl-u 1 0 enter");
    let effects = studio.handle(Msg::Cut(Ok(vec![span(0.0, 10.0), span(10.0, 20.0)])));
    assert!(prompt(&effects).contains("\n[0:00.5 - 0:02] Look.\n\n"), "{effects:?}");
    start(&mut studio, &effects);
    let effects = write(&mut studio, 3, "A ball.");
    assert!(prompt(&effects).contains("\n[0:02 - 0:05] A ball.\n\n"), "{effects:?}");
    start(&mut studio, &effects);
    write(&mut studio, 4, "A ball.");

    // An empty line ends it.
    assert_eq!(press(&mut studio, "W backspace enter"), [Effect::Listen(clip.into(), String::new())]);
    assert_eq!(prompt(&press(&mut studio, "enter")), "Describe the video.");
}
