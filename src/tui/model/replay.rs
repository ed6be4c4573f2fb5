//! A saved session that is shown once more: its events, fed to a run of their own as the clock goes.

use std::path::Path;

use serde_json::Value;

use super::{
    methods::Methods,
    player::Player,
    run::{About, Run, RunState},
};
use crate::{
    record::{EventKind, Session},
    speculate::Method,
    tui::text,
};

/// The replay.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// Number of the run that it feeds.
    pub run: u64,
    about: About,
    events: Vec<(f64, EventKind)>,
    /// Events fed so far.
    fed: usize,
    /// The events end without a last word.
    torn: bool,
    pub player: Player,
}

impl Replay {
    /// The first run of a session, as the run of this number; none where the session does not say what it is.
    pub fn new(run: u64, session: Session, methods: &Methods) -> Option<Self> {
        let times = session.times();
        let number = session.runs().first().copied()?;
        let lines = session.lines.into_iter().zip(times).filter(|(l, _)| l.event.run == number);
        let events: Vec<(f64, EventKind)> = lines.map(|(l, at)| (at, l.event.kind)).collect();
        let begun = events.first()?.0;
        let about = events.iter().find_map(|(_, kind)| about(kind, methods))?;
        let length = events.last()?.0 - begun;
        let torn = !matches!(events.last()?.1, EventKind::Done { .. } | EventKind::Failed(_));
        let events = events.into_iter().map(|(at, kind)| (at - begun, kind)).collect();
        Some(Self { run, about, events, fed: 0, torn, player: Player::new(length) })
    }

    /// A run of which nothing is known yet but what it is about.
    pub fn fresh(&self) -> Run {
        Run::new(self.run, self.about.clone())
    }

    /// Bring a run to the clock's time.
    pub fn sync(&mut self, run: &mut Run) {
        let wanted = self.events.partition_point(|(at, _)| *at <= self.player.at);
        if wanted < self.fed {
            *run = self.fresh();
            self.fed = 0;
        }
        for (_, kind) in &self.events[self.fed..wanted] {
            run.take_in(kind.clone());
        }
        self.fed = wanted;
        if self.torn && wanted == self.events.len() {
            run.state = RunState::CutOff;
        }
    }

    /// Go to the next step, or to the one before.
    pub fn step(&mut self, forward: bool) {
        let mut steps =
            self.events.iter().filter(|(_, k)| matches!(k, EventKind::Step(_))).map(|(at, _)| *at);
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
    let EventKind::Started { method, lossless, video, prompt, .. } = kind else { return None };
    let name = method.get("name").and_then(Value::as_str).unwrap_or_default();
    // A method of another version may have choices that this one does not know; its name is still good.
    let known: Option<Method> = serde_json::from_value(method.clone()).ok();
    let label = known.as_ref().map_or_else(|| name.to_owned(), |known| methods.label_of(known));
    let drafts = method.get("drafter").and_then(|d| d.get("kind")).and_then(Value::as_str) != Some("none");
    Some(About {
        title: text::clean_line(&Path::new(video).file_stem().unwrap_or_default().to_string_lossy()),
        video: video.into(),
        before: Vec::new(),
        prompt: text::clean(prompt),
        label: text::clean_line(&label),
        method: known,
        autoregressive: !drafts,
        lossless: *lossless,
        replayed: true,
    })
}
