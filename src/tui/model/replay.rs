//! A saved session that is played again: its events, fed to runs of their own as the clock advances.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use super::{
    methods::Methods,
    player::Player,
    run::{Run, Runs, Subject},
};
use crate::{
    record::{Event, EventKind, RunLog, Segment, Session, Span},
    speculate::Method,
    tui::text,
};

/// The replay.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// Its runs before their first event: one, or the segments of a clip. Their numbers are consecutive.
    fresh: Vec<Run>,
    /// Each event with its time, for the run at this index.
    events: Vec<(f64, usize, Event)>,
    /// Events fed so far.
    fed: usize,
    /// The recording ends before the run's last event.
    cut_off: bool,
    pub player: Player,
}

impl Replay {
    /// The first run of a session with all that belong together with it, numbered from `first`; none if the session does not
    /// say what it is about.
    pub fn new(first: u64, session: Session, methods: &Methods) -> Option<Self> {
        let times = session.times();
        let number = session.runs().first().copied()?;
        let mut numbers = Vec::new();
        let mut fresh: Vec<Run> = Vec::new();
        let mut group = None;
        for line in &session.lines {
            let (run, EventKind::Started { segment, .. }) = (line.event.run, &line.event.kind) else {
                continue;
            };
            let of = segment.map(|s| s.first);
            let is_first = run == number && fresh.is_empty();
            if is_first {
                group = of;
            }
            if is_first || (group.is_some() && of == group && !numbers.contains(&run)) {
                fresh.push(waiting_run(first + numbers.len() as u64, &line.event.kind, methods)?);
                numbers.push(run);
            }
        }
        // Run numbers of another session mean nothing here.
        let segments: Arc<[Span]> =
            fresh.iter().filter_map(|run| run.subject.segment.and(run.subject.span)).collect();
        for run in &mut fresh {
            run.subject.segments = Arc::clone(&segments);
            run.subject.segment = run.subject.segment.map(|s| Segment { first, ..s });
        }
        let lines = session.lines.into_iter().zip(times);
        let events = lines.filter_map(|(line, at)| {
            let track = numbers.iter().position(|n| *n == line.event.run)?;
            Some((at, track, text::clean_event(Event::new(first + track as u64, line.event.kind))))
        });
        let mut events: Vec<_> = events.collect();
        let (begun, (end, _, last)) = (events.first()?.0, events.last()?);
        let (length, cut_off) =
            (end - begun, !matches!(last.kind, EventKind::Done { .. } | EventKind::Failed(_)));
        events.iter_mut().for_each(|(at, ..)| *at -= begun);
        Some(Self { fresh, events, fed: 0, cut_off, player: Player::to_be_seen(length) })
    }

    /// The numbers of the runs that it feeds.
    pub fn runs(&self) -> std::ops::Range<u64> {
        let first = self.fresh.first().map_or(0, Run::id);
        first..first + self.fresh.len() as u64
    }

    /// Its runs before their first event.
    pub fn fresh(&self) -> &[Run] {
        &self.fresh
    }

    /// Bring its runs to the clock's time; false if they have been forgotten. If the run that was being written is shown, the
    /// one that is being written now is.
    pub fn sync(&mut self, runs: &mut Runs) -> bool {
        let first = self.runs().start;
        let Some(base) = runs.all.iter().position(|r| r.id() == first) else { return false };
        let own = base..base + self.fresh.len();
        if runs.all.len() < own.end {
            return false;
        }
        let wanted = self.events.partition_point(|(at, ..)| *at <= self.player.at);
        let before = self.track(self.fed);
        if wanted < self.fed {
            runs.all[own.clone()].clone_from_slice(&self.fresh);
            self.fed = 0;
        }
        for (_, track, event) in &self.events[self.fed..wanted] {
            runs.all[base + track].apply(event);
        }
        self.fed = wanted;
        let now = self.track(wanted);
        if self.cut_off && wanted == self.events.len() {
            runs.all[base + now].log.cut_off();
        }
        if runs.shown == base + before || (own.contains(&runs.shown) && runs.shown > base + now) {
            runs.shown = base + now;
        }
        true
    }

    /// Index of the run that the last of so many events belongs to.
    fn track(&self, fed: usize) -> usize {
        fed.checked_sub(1).and_then(|i| self.events.get(i)).map_or(0, |(_, track, _)| *track)
    }

    /// Go to the next step, or to the previous one.
    pub fn step(&mut self, forward: bool) {
        let steps = self.events.iter().filter(|(.., event)| matches!(event.kind, EventKind::Step(_)));
        let mut steps = steps.map(|(at, ..)| *at);
        let now = self.player.at;
        let to = match forward {
            true => steps.find(|at| *at > now).unwrap_or(self.player.length),
            // Just before the last step that is shown.
            false => steps.take_while(|at| *at <= now).last().map_or(0.0, f64::next_down),
        };
        self.player.playing = false;
        self.player.seek(to);
    }
}

/// A run as its `started` event describes it, before any event.
fn waiting_run(id: u64, kind: &EventKind, methods: &Methods) -> Option<Run> {
    let EventKind::Started { method, lossless, video, prompt, before, span, segment, .. } = kind else {
        return None;
    };
    let name = method.get("name").and_then(Value::as_str).unwrap_or_default();
    // A method of another version may have choices that this one does not know; its name is still useful.
    let known: Option<Method> = serde_json::from_value(method.clone()).ok();
    let label = known.as_ref().map_or_else(|| name.to_owned(), |known| methods.label_of(known));
    Some(Run {
        subject: Subject {
            title: text::clean_line(&Path::new(video).file_stem().unwrap_or_default().to_string_lossy()),
            video: video.into(),
            before: before.iter().map(text::clean_turn).collect(),
            prompt: text::clean(prompt),
            span: *span,
            segment: *segment,
            segments: Arc::default(),
        },
        label: text::clean_line(&label),
        method: known,
        autoregressive: method["drafter"]["kind"] == "none",
        lossless: *lossless,
        replayed: true,
        cancelling: false,
        log: RunLog::new(id),
    })
}
