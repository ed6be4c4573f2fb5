//! A saved session that is shown once more: its events, fed to a run of their own as the clock goes.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use super::{
    methods::Methods,
    player::Player,
    run::{About, Run, RunState, Runs},
};
use crate::{
    record::{EventKind, Segment, Session, Span, Turn},
    speculate::Method,
    tui::text,
};

/// The replay.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// What its runs are about: one, or the pieces of a clip; their numbers follow each other.
    abouts: Vec<About>,
    first: u64,
    /// When each event comes, and of which run it is.
    events: Vec<(f64, usize, EventKind)>,
    /// Events fed so far.
    fed: usize,
    /// The events end without a last word.
    torn: bool,
    pub player: Player,
}

impl Replay {
    /// The first run of a session, with all that belong together with it, as runs from this number on; none where the session
    /// does not say what it is.
    pub fn new(first: u64, session: Session, methods: &Methods) -> Option<Self> {
        let times = session.times();
        let number = session.runs().first().copied()?;
        let mut numbers = Vec::new();
        let mut abouts: Vec<About> = Vec::new();
        let mut group = None;
        for line in &session.lines {
            let (run, EventKind::Started { segment, .. }) = (line.event.run, &line.event.kind) else {
                continue;
            };
            let of = segment.map(|s| s.first);
            if run == number && abouts.is_empty() {
                group = of;
            }
            if (run == number && abouts.is_empty())
                || (group.is_some() && of == group && !numbers.contains(&run))
            {
                numbers.push(run);
                abouts.push(about(&line.event.kind, methods)?);
            }
        }
        // Numbers of another sitting mean nothing here.
        let pieces: Arc<[Span]> = abouts.iter().filter_map(|a| a.segment.and(a.span)).collect();
        for about in &mut abouts {
            about.pieces = Arc::clone(&pieces);
            about.segment = about.segment.map(|s| Segment { first, ..s });
        }
        let lines = session.lines.into_iter().zip(times);
        let events = lines.filter_map(|(l, at)| {
            let track = numbers.iter().position(|n| *n == l.event.run)?;
            Some((at, track, l.event.kind))
        });
        let events: Vec<_> = events.collect();
        let (begun, (end, _, last)) = (events.first()?.0, events.last()?);
        let (length, torn) = (end - begun, !matches!(last, EventKind::Done { .. } | EventKind::Failed(_)));
        let events = events.into_iter().map(|(at, track, kind)| (at - begun, track, kind)).collect();
        Some(Self { abouts, first, events, fed: 0, torn, player: Player::to_be_seen(length) })
    }

    /// The numbers of the runs that it feeds.
    pub fn runs(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.abouts.len() as u64
    }

    /// Its runs, of which nothing is known yet but what they are about.
    pub fn fresh(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs().zip(&self.abouts).map(|(id, about)| Run::new(id, about.clone()))
    }

    /// Bring its runs to the clock's time; false if they were forgotten meanwhile. The run that is being written is shown, where
    /// the one before it was.
    pub fn sync(&mut self, runs: &mut Runs) -> bool {
        let Some(base) = runs.all.iter().position(|r| r.id == self.first) else { return false };
        let own = base..base + self.abouts.len();
        if runs.all.len() < own.end {
            return false;
        }
        let wanted = self.events.partition_point(|(at, ..)| *at <= self.player.at);
        let before = self.track(self.fed);
        if wanted < self.fed {
            for (run, fresh) in runs.all[own.clone()].iter_mut().zip(self.fresh()) {
                *run = fresh;
            }
            self.fed = 0;
        }
        for (_, track, kind) in &self.events[self.fed..wanted] {
            runs.all[base + track].take_in(kind.clone());
        }
        self.fed = wanted;
        let now = self.track(wanted);
        if self.torn && wanted == self.events.len() {
            runs.all[base + now].state = RunState::CutOff;
        }
        if runs.shown == base + before || (own.contains(&runs.shown) && runs.shown > base + now) {
            runs.shown = base + now;
        }
        true
    }

    /// The run of the last of so many events.
    fn track(&self, fed: usize) -> usize {
        fed.checked_sub(1).and_then(|i| self.events.get(i)).map_or(0, |(_, track, _)| *track)
    }

    /// Go to the next step, or to the one before.
    pub fn step(&mut self, forward: bool) {
        let mut steps =
            self.events.iter().filter(|(.., k)| matches!(k, EventKind::Step(_))).map(|(at, ..)| *at);
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

/// What a run is about, from its first event.
fn about(kind: &EventKind, methods: &Methods) -> Option<About> {
    let EventKind::Started { method, lossless, video, prompt, before, span, segment, .. } = kind else {
        return None;
    };
    let clean = |turn: &Turn| Turn { prompt: text::clean(&turn.prompt), answer: text::clean(&turn.answer) };
    let name = method.get("name").and_then(Value::as_str).unwrap_or_default();
    // A method of another version may have choices that this one does not know; its name is still good.
    let known: Option<Method> = serde_json::from_value(method.clone()).ok();
    let label = known.as_ref().map_or_else(|| name.to_owned(), |known| methods.label_of(known));
    let drafts = method.get("drafter").and_then(|d| d.get("kind")).and_then(Value::as_str) != Some("none");
    Some(About {
        title: text::clean_line(&Path::new(video).file_stem().unwrap_or_default().to_string_lossy()),
        video: video.into(),
        before: before.iter().map(clean).collect(),
        prompt: text::clean(prompt),
        span: *span,
        segment: *segment,
        pieces: Arc::default(),
        label: text::clean_line(&label),
        method: known,
        autoregressive: !drafts,
        lossless: *lossless,
        replayed: true,
    })
}
