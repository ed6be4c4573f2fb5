//! A saved run that is played again: its runs, each with a player of its own.

use std::{path::Path, sync::Arc};

use super::methods::Methods;
use super::run::{Run, Subject};
use crate::tui::text;
use specreel_client::present::player::Player;
use specreel_record::{Event, EventKind, Pace, RunLog, Segment, Session, Span, Started};
use specreel_speculate::Method;

/// The runs of a replay: one, or the segments of a clip. Their numbers are consecutive.
pub(crate) type Replay = std::ops::Range<u64>;

/// The first run of a session with those that belong to it, numbered from `first`, each at its beginning.
pub(crate) fn runs(
    first: u64,
    session: Session,
    file: Option<&Path>,
    pace: Pace,
    methods: &Methods,
) -> Option<Vec<Run>> {
    let times = session.times();
    let number = session.runs().first().copied()?;
    let mut numbers = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut group = None;
    for line in &session.lines {
        let (of_run, EventKind::Started(started)) = (line.event.run, &line.event.kind) else { continue };
        let of = started.segment.map(|s| s.first);
        let is_first = of_run == number && runs.is_empty();
        if is_first {
            group = of;
        }
        // A segment that was captioned again takes the place of its earlier run.
        let earlier = runs.iter().position(|earlier| earlier.subject.segment == started.segment);
        let belongs = group.is_some() && of == group && !numbers.contains(&of_run);
        let replayed = |at: usize| {
            let run = described(first + at as u64, started, pace, methods);
            Run { replayed: true, ..run }
        };
        if let Some(at) = earlier.filter(|_| belongs) {
            runs[at] = replayed(at);
            numbers[at] = of_run;
        } else if is_first || belongs {
            runs.push(replayed(runs.len()));
            numbers.push(of_run);
        }
    }
    // Run numbers of another session mean nothing here.
    let segments: Arc<[Span]> =
        runs.iter().filter_map(|run| run.subject.segment.and(run.subject.span)).collect();
    let summary = summary(&session, number);
    let mut events: Vec<Vec<(f64, Event)>> = vec![Vec::new(); runs.len()];
    for (line, at) in session.lines.into_iter().zip(times) {
        if let Some(track) = numbers.iter().position(|n| *n == line.event.run) {
            events[track].push((at, text::clean_event(Event::new(first + track as u64, line.event.kind))));
        }
    }
    for (run, events) in runs.iter_mut().zip(events) {
        run.subject.segments = Arc::clone(&segments);
        run.subject.segment = run.subject.segment.map(|s| Segment { first, ..s });
        run.log = Player::recorded(RunLog::new(run.id()), pace, events);
        run.log.cut_off();
    }
    for (run, number) in runs.iter_mut().zip(numbers) {
        run.saved = file.map(|file| (file.into(), number));
    }
    if let Some(last) = runs.last_mut() {
        last.summary = summary;
    }
    Some(runs)
}

/// What sums up the segments whose first run has this number.
fn summary(session: &Session, first: u64) -> Option<String> {
    let is_summary = |event: &Event| match &event.kind {
        EventKind::Started(started) => started.summary_of == Some(first),
        _ => false,
    };
    let run = session.lines.iter().rfind(|line| is_summary(&line.event))?.event.run;
    let mut log = RunLog::new(run);
    session.lines.iter().for_each(|line| _ = log.apply(&line.event));
    log.is_finished().then(|| text::clean(log.text().trim()))
}

/// A run as its `started` event describes it, before any event.
pub(crate) fn described(id: u64, started: &Started, pace: Pace, methods: &Methods) -> Run {
    let Started { method, lossless, video, prompt, before, span, segment, .. } = started;
    let name = method["name"].as_str().unwrap_or_default();
    // A method of another version may have choices that this one does not know; its name is still useful.
    let known: Option<Method> = serde_json::from_value(method.clone()).ok();
    let label = known.as_ref().map_or_else(|| name.to_owned(), |known| methods.label_of(known));
    Run {
        subject: Subject {
            title: text::clean_line(&Path::new(video).file_stem().unwrap_or_default().to_string_lossy()),
            video: video.into(),
            before: before.iter().map(text::clean_turn).collect(),
            prompt: text::clean(prompt),
            said: None,
            span: *span,
            segment: *segment,
            segments: Arc::default(),
            question: None,
        },
        label: text::clean_line(&label),
        method: known,
        sampling: None,
        autoregressive: method["drafter"]["kind"] == "none",
        lossless: *lossless,
        replayed: false,
        saved: None,
        summary: None,
        cancelling: false,
        log: Player::live(RunLog::new(id), pace),
    }
}
