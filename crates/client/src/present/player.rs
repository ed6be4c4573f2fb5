//! The playback of a run: a clock of its own, the log of the played part, and the [`Scene`] of the current step.
//!
//! The one player of live runs, replays and races. It takes events as they come and is asked what to show; nothing waits for
//! it, and the whole log is there at once ([`Player::whole`]). Its clock counts the run's own milliseconds: the times that its
//! steps took, one after another, and before them, in a replay, the stages before the first token. What is on the screen is
//! that clock at a rate:
//!
//! | pace | rate |
//! |---|---|
//! | `auto` | the true speed, slowed so that all steps together take [`SEEN_MS`], one step at most [`LONGEST_MS`]; rejects are held |
//! | a number | this many times the true speed |
//! | `off` | no playback: the log is shown as it grows |
//!
//! How long a live run takes is not known before its end. Until then the rate follows from the steps so far, and a step that
//! takes [`VISIBLE_MS`] is not slowed; a player that falls behind a run of more than [`SEEN_MS`] catches up. It never runs
//! ahead of the events: it waits for the next step, with the drafts in sight where the engine reports them
//! ([`RunLog::draft`]).
//!
//! At the pace `auto` the first [`HELD`] rejects of a run stay in sight for [`REJECT_MS`], and the drafts before them for
//! [`DRAFTS_MS`], however short their steps are. Time that is held comes out of the same step as far as it has any to spare.

mod race;
mod rate;
mod scene;

use std::ops::Deref;

pub use race::Race;
use rate::{duration, in_words};
pub use scene::{Fate, Part, Phase, Scene};
use scene::{JUDGED, LOOKED, SETTLED, STRUCK};
use specreel_record::{Event, Pace, RunLog, RunState, StopReason, log::Added};

/// A run whose steps take less time than this, in milliseconds, is slowed until it takes as long.
pub const SEEN_MS: f64 = 6000.0;
/// No step is slowed to more than this.
pub const LONGEST_MS: f64 = 1000.0;
/// A step that takes as long as this is visible without being slowed.
pub const VISIBLE_MS: f64 = 150.0;
/// A reject that is held is visible for as long as this, from its strike to the end of its step.
pub const REJECT_MS: f64 = 500.0;
/// The drafts of such a step are visible before the strike for as long as this.
pub const DRAFTS_MS: f64 = 200.0;
/// Later rejects of a run are not held: after so many, viewers need not wait for the others.
pub const HELD: usize = 24;
/// The stages before the first token are played in at most this time.
const FRONT_MS: f64 = 1500.0;
/// A player that is further behind a live run catches up.
const LAG_MS: f64 = 1000.0;
/// How often the speed can be doubled, or halved.
const SHIFTS: i32 = 8;

/// The player of one run. It derefs to the log of the played part, which a face shows.
#[derive(Clone, Debug)]
pub struct Player {
    whole: RunLog,
    /// The log at the clock's time; none at the end of all events so far, where it is the whole log.
    played: Option<RunLog>,
    /// The events before the first step with their times, of a replay.
    front: Vec<(f64, Event)>,
    front_ms: f64,
    /// When each step ends on the clock.
    ends: Vec<f64>,
    /// The steps whose reject is held, ascending.
    held: Vec<usize>,
    at: f64,
    pace: Pace,
    /// Doublings of the speed by the user.
    shift: i32,
    playing: bool,
    /// It stays at the end of the events.
    following: bool,
    live: bool,
}

impl Deref for Player {
    type Target = RunLog;

    fn deref(&self) -> &RunLog {
        self.played.as_ref().unwrap_or(&self.whole)
    }
}

impl Player {
    /// The player of a run whose events are still to come.
    pub fn live(log: RunLog, pace: Pace) -> Self {
        Self {
            whole: log,
            played: None,
            front: Vec::new(),
            front_ms: 0.0,
            ends: Vec::new(),
            held: Vec::new(),
            at: 0.0,
            pace,
            shift: 0,
            playing: true,
            following: pace == Pace::Off,
            live: true,
        }
    }

    /// The player of a recorded run, at its beginning: its events, each with its time in milliseconds. With the pace `off` it is
    /// played as with `auto`: a replay is asked for.
    pub fn recorded(log: RunLog, pace: Pace, events: Vec<(f64, Event)>) -> Self {
        let pace = if pace == Pace::Off { Pace::Auto } else { pace };
        let mut player = Self { live: false, following: false, ..Self::live(log, pace) };
        let begun = events.first().map_or(0.0, |(at, _)| *at);
        for (at, event) in events {
            let before = player.whole.steps().len();
            player.whole.apply(&event);
            if player.whole.steps().is_empty() {
                player.front_ms = (at - begun).max(player.front_ms);
                player.front.push((at - begun, event));
            } else if before == 0 {
                // The first step has its time from here on.
                let took = player.whole.steps().iter().map(duration).sum::<f64>();
                player.front_ms = (at - begun - took).max(player.front_ms);
            }
        }
        player.grow();
        player.seek(0.0);
        player
    }

    pub fn apply(&mut self, event: &Event) -> Added {
        let added = self.whole.apply(event);
        if self.whole.steps().len() < self.ends.len() {
            self.begin_again();
        }
        self.grow();
        added
    }

    /// The text so far was withdrawn: the steps that follow are the first ones.
    fn begin_again(&mut self) {
        self.ends.clear();
        self.held.clear();
        self.at = self.at.min(self.front_ms);
        self.played = None;
    }

    /// Mark the run as cut off: its recording ends before the run does.
    pub fn cut_off(&mut self) {
        self.whole.cut_off();
        self.grow();
    }

    /// All events so far, played or not.
    pub fn whole(&self) -> &RunLog {
        &self.whole
    }

    fn grow(&mut self) {
        let edge = self.edge();
        // How far the drafts of the first new step were played while it was verified.
        let ahead = (self.at - edge).max(0.0) / self.usual();
        let mut end = edge;
        for step in self.whole.steps().iter().skip(self.ends.len()) {
            end += duration(step);
            if self.held.len() < HELD && scene::rejects(step) {
                self.held.push(self.ends.len());
            }
            self.ends.push(end);
        }
        if end > edge {
            let first = self.ends[self.ends.partition_point(|e| *e <= edge)];
            self.at = if ahead > 0.0 { edge + ahead * (first - edge) } else { self.at };
        }
        // After a cancel or a failure, nobody waits for the rest of the run.
        let is_broken =
            matches!(self.whole.state(), RunState::Failed(_) | RunState::Done(StopReason::Cancelled));
        if self.following || (self.live && is_broken) {
            self.at = self.edge();
        }
        self.settle();
    }

    fn edge(&self) -> f64 {
        self.ends.last().copied().unwrap_or(self.front_ms)
    }

    fn usual(&self) -> f64 {
        match self.ends.len() {
            0 => LONGEST_MS,
            n => (self.edge() - self.front_ms) / n as f64,
        }
    }

    /// How far the clock may go: to the end of the events, and into a step whose drafts are known.
    fn reach(&self) -> f64 {
        match self.whole.draft() {
            Some(_) if !self.following => self.edge() + LOOKED * self.usual(),
            _ => self.edge(),
        }
    }

    /// Bring the log to the clock's time.
    fn settle(&mut self) {
        self.at = self.at.clamp(0.0, self.reach());
        if self.at >= self.edge() {
            self.played = None;
            return;
        }
        if self.at < self.front_ms {
            let mut log = RunLog::new(self.whole.run());
            for (_, event) in self.front.iter().take_while(|(at, _)| *at <= self.at) {
                log.apply(event);
            }
            self.played = Some(log);
            return;
        }
        let (step, share) = self.place();
        let steps = step + usize::from(share >= JUDGED);
        match &mut self.played {
            Some(played) if (1..=steps).contains(&played.steps().len()) => played.follow(&self.whole, steps),
            played => *played = Some(self.whole.rewound(steps)),
        }
    }

    /// The step that the clock is in, and which share of its time has passed.
    fn place(&self) -> (usize, f64) {
        let step = self.ends.partition_point(|end| *end <= self.at);
        let begin = self.begin(step);
        let took = self.ends.get(step).map_or(self.usual(), |end| end - begin);
        (step, ((self.at - begin) / took).clamp(0.0, 1.0))
    }

    fn begin(&self, step: usize) -> f64 {
        step.checked_sub(1).and_then(|i| self.ends.get(i)).copied().unwrap_or(self.front_ms)
    }

    /// The scene of the current step; none before the first one, at the end, and without playback.
    pub fn scene(&self) -> Option<Scene> {
        if self.at < self.front_ms || self.following {
            return None;
        }
        let (step, share) = self.place();
        match (&self.played, self.whole.draft()) {
            (Some(_), _) => Scene::of_step(&self.whole, step, share),
            (None, Some(draft)) => Some(Scene::of_draft(&self.whole, draft, share)),
            (None, None) => None,
        }
    }

    /// Advance the playback by a time on the screen, in milliseconds.
    pub fn advance(&mut self, ms: f64) {
        let mut left = if ms.is_finite() { ms.max(0.0) } else { 0.0 };
        if !self.playing {
            return;
        }
        if self.at < self.front_ms {
            let rate = (self.front_ms / FRONT_MS).max(1.0) * self.factor().max(1.0);
            let needed = (self.front_ms - self.at) / rate;
            self.at += left.min(needed) * rate;
            left -= left.min(needed);
            if left > 0.0 {
                self.at = self.front_ms;
            }
        }
        while left > 0.0 {
            let (until, rate) = self.stretch();
            let needed = (until - self.at) / rate;
            if left < needed {
                self.at += left * rate;
                break;
            }
            self.at = until;
            left -= needed;
        }
        self.settle();
    }

    /// How far the clock goes at one rate from here, and that rate: to the strike of a reject that is held, from there to the
    /// end of its step, or to the next such step.
    fn stretch(&self) -> (f64, f64) {
        let rate = self.rate();
        let (step, _) = self.place();
        let is_held = !matches!(self.pace, Pace::Speed(_)) && !self.is_catching_up();
        let next = self.held.iter().copied().find(|held| *held >= step).filter(|_| is_held);
        match next {
            Some(held) if held == step => {
                let (begin, end) = (self.begin(step), self.ends[step]);
                let strike = begin + STRUCK * (end - begin);
                let (drafts, reject) = ((strike - begin) / rate, (end - strike) / rate);
                let (least, most) = (DRAFTS_MS / self.factor(), REJECT_MS / self.factor());
                if reject >= most {
                    (end, rate)
                } else if self.at < strike {
                    (strike, (strike - begin) / (drafts + reject - most).max(least))
                } else {
                    (end, (end - strike) / most)
                }
            }
            Some(held) => (self.begin(held), rate),
            None => (f64::INFINITY, rate),
        }
    }

    fn factor(&self) -> f64 {
        2f64.powi(self.shift)
    }

    /// Milliseconds of the run in one on the screen: 1 is the true speed, less is slower.
    pub fn rate(&self) -> f64 {
        let base = match self.pace {
            Pace::Speed(speed) => speed,
            Pace::Auto | Pace::Off => 1.0 / self.slowing(),
        };
        base * self.factor()
    }

    /// How many times the pace `auto` is slower than the run; less than 1 to catch up with it.
    fn slowing(&self) -> f64 {
        let (took, n) = (self.edge() - self.front_ms, self.ends.len() as f64);
        if took <= 0.0 {
            return 1.0;
        }
        if self.is_catching_up() {
            return 0.5;
        }
        if self.live && !self.whole.is_over() && took >= VISIBLE_MS * n {
            return 1.0;
        }
        ((LONGEST_MS * n).min(SEEN_MS) / took).max(1.0)
    }

    /// True if it is too far behind a live run of more than [`SEEN_MS`].
    fn is_catching_up(&self) -> bool {
        let took = self.edge() - self.front_ms;
        self.live && !self.whole.is_over() && took >= SEEN_MS && self.edge() - self.at > LAG_MS
    }

    /// The rate in words, if it is not the true speed: `slowed 400x`, `2x speed`.
    pub fn speed_words(&self) -> Option<String> {
        in_words(self.rate())
    }

    /// True while there is something to play and it is not paused.
    pub fn is_playing(&self) -> bool {
        self.playing && self.at < self.reach()
    }

    /// True at the end of the events so far.
    pub fn is_at_end(&self) -> bool {
        self.played.is_none()
    }

    /// True if nothing of it has been played.
    pub fn is_unseen(&self) -> bool {
        self.played.is_some() && self.at <= 0.0
    }

    /// True if it is paused before the run's end.
    pub fn is_paused(&self) -> bool {
        !(self.playing || self.is_at_end() && self.whole.is_over())
    }

    /// The share that has been played, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.edge() > 0.0 { (self.at / self.edge()).min(1.0) } else { 1.0 }
    }

    /// The time of the clock, and how long the run is so far, both in milliseconds of the run.
    pub fn time(&self) -> (f64, f64) {
        (self.at.min(self.edge()), self.edge())
    }

    /// The time that its steps took, in milliseconds.
    pub fn generation_ms(&self) -> f64 {
        self.edge() - self.front_ms
    }

    /// Pause or resume; at the end of the run, play it again.
    pub fn toggle(&mut self) {
        if self.is_at_end() && self.whole.is_over() {
            self.seek(0.0);
            self.playing = true;
        } else {
            self.playing = !self.playing;
            self.following = false;
        }
    }

    pub fn pause(&mut self) {
        self.playing = false;
    }

    /// Go to a time of the clock.
    pub fn seek(&mut self, at: f64) {
        self.following = false;
        self.at = at;
        self.settle();
    }

    /// Go to a time counted from the first draft.
    pub fn seek_generation(&mut self, ms: f64) {
        self.seek(self.front_ms + ms);
    }

    /// Go back or on by so many fortieths of the run.
    pub fn jump(&mut self, fortieths: f64) {
        self.seek(self.at.min(self.edge()) + fortieths * self.edge() / 40.0);
    }

    /// Pause at the verdict on the next step's drafts, or on the previous one's.
    pub fn step(&mut self, forward: bool) {
        let now = self.at.min(self.edge());
        let stop = |step: usize| {
            let begin = self.begin(step);
            begin + SETTLED * (self.ends[step] - begin)
        };
        let to = match forward {
            true => (0..self.ends.len()).map(stop).find(|at| *at > now).unwrap_or(self.edge()),
            false => (0..self.ends.len()).rev().map(stop).find(|at| *at < now).unwrap_or(0.0),
        };
        self.playing = false;
        self.seek(to);
    }

    /// Twice as fast, or half as fast.
    pub fn change_speed(&mut self, up: bool) {
        self.shift = (self.shift + if up { 1 } else { -1 }).clamp(-SHIFTS, SHIFTS);
    }

    /// Go to the end, and stay there.
    pub fn skip(&mut self) {
        self.following = true;
        self.at = self.edge();
        self.settle();
    }
}

#[cfg(test)]
mod tests;
