//! Runs on one clock, from their first draft on.

use super::{Player, SEEN_MS, SHIFTS, rate::in_words};

/// The race: every run in the time that it was measured to take, all slowed by the same factor if the slowest would be over
/// before it is seen. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Race {
    lanes: Vec<Player>,
    /// When each run ends.
    ends: Vec<f64>,
    at: f64,
    length: f64,
    shift: i32,
    playing: bool,
}

impl Race {
    /// A race between these runs, at its start. Each takes so many milliseconds.
    pub fn new(runs: Vec<(Player, f64)>) -> Self {
        let (lanes, ends): (Vec<Player>, Vec<f64>) = runs.into_iter().unzip();
        let mut race = Self { lanes, ends: Vec::new(), at: 0.0, length: 0.0, shift: 0, playing: true };
        race.take(ends);
        race.seek(0.0);
        race
    }

    /// The runs take this long: their speed has been measured since. The race continues at the same share of its length.
    pub fn take(&mut self, ends: Vec<f64>) {
        if ends == self.ends {
            return;
        }
        let share = if self.length > 0.0 { self.at / self.length } else { 0.0 };
        self.length = ends.iter().copied().fold(0.0, f64::max);
        self.ends = ends;
        self.seek(share * self.length);
    }

    /// The players of the runs, in the order in which they were given.
    pub fn lanes(&self) -> &[Player] {
        &self.lanes
    }

    /// Advance the playback by a time on the screen.
    pub fn advance(&mut self, ms: f64) {
        if self.playing {
            self.seek(self.at + ms.max(0.0) * self.rate());
            self.playing = !self.is_over();
        }
    }

    pub fn seek(&mut self, at: f64) {
        self.at = at.clamp(0.0, self.length);
        for (lane, end) in self.lanes.iter_mut().zip(&self.ends) {
            match self.at < *end {
                true => lane.seek_generation(self.at / end * lane.generation_ms()),
                false => lane.skip(),
            }
        }
    }

    /// Pause or resume; at the end, start again.
    pub fn toggle(&mut self) {
        if self.is_over() {
            self.seek(0.0);
            self.playing = true;
        } else {
            self.playing = !self.playing;
        }
    }

    pub fn pause(&mut self) {
        self.playing = false;
    }

    /// Go back or on by so many fortieths of the race.
    pub fn jump(&mut self, fortieths: f64) {
        self.seek(self.at + fortieths * self.length / 40.0);
    }

    /// Twice as fast, or half as fast.
    pub fn change_speed(&mut self, up: bool) {
        self.shift = (self.shift + if up { 1 } else { -1 }).clamp(-SHIFTS, SHIFTS);
    }

    /// Milliseconds of the runs in one on the screen.
    pub fn rate(&self) -> f64 {
        let base = if self.length > 0.0 { (self.length / SEEN_MS).min(1.0) } else { 1.0 };
        base * 2f64.powi(self.shift)
    }

    /// The rate in words, if it is not the true speed.
    pub fn speed_words(&self) -> Option<String> {
        in_words(self.rate())
    }

    /// The time, and the time at which the slowest run ends.
    pub fn time(&self) -> (f64, f64) {
        (self.at, self.length)
    }

    /// True while it is not paused.
    pub fn is_playing(&self) -> bool {
        self.playing
    }

    /// True if every run is at its end.
    pub fn is_over(&self) -> bool {
        self.at >= self.length
    }

    /// How long a run takes.
    pub fn duration(&self, lane: usize) -> f64 {
        self.ends.get(lane).copied().unwrap_or_default()
    }

    /// When a run finishes, and its place, from 1, which runs that finish at the same time share; none while it is running.
    pub fn finish(&self, lane: usize) -> Option<(usize, f64)> {
        let own = *self.ends.get(lane)?;
        let faster = self.ends.iter().filter(|other| **other < own).count();
        (self.at >= own).then_some((1 + faster, own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{
        Verdict,
        testing::{done, run, started, step},
    };

    /// A run of so many steps of 100 ms.
    fn lane(steps: usize) -> Player {
        let one = || step(&[(" a", Verdict::Exact), (" b", Verdict::Bonus)]);
        let log = run(1, std::iter::once(started()).chain((0..steps).map(|_| one())).chain([done("")]));
        let mut player = Player::live(log, specreel_record::Pace::Off);
        player.cut_off();
        player
    }

    #[test]
    fn all_runs_share_one_slowed_clock() {
        let timed = |lane: Player| (lane.clone(), lane.generation_ms());
        let mut race = Race::new([20, 10, 15].map(|steps| timed(lane(steps))).into());
        assert_eq!((race.time(), race.speed_words().unwrap().as_str()), ((0.0, 2000.0), "slowed 3x"));
        assert!((0..3).all(|i| race.finish(i).is_none()));
        race.advance(3000.0);
        assert_eq!(race.time().0, 1000.0);
        assert_eq!([0, 1, 2].map(|i| race.lanes()[i].token_count()), [20; 3]);
        assert_eq!([0, 1, 2].map(|i| race.finish(i)), [None, Some((1, 1000.0)), None]);
        race.advance(9000.0);
        assert_eq!([0, 2].map(|i| race.finish(i)), [Some((3, 2000.0)), Some((2, 1500.0))]);
        assert!(race.is_over() && !race.is_playing());
        assert!(race.lanes().iter().all(|lane| **lane == *lane.whole()), "every caption is complete");
        race.toggle();
        assert_eq!((race.time().0, race.is_playing()), (0.0, true));
        race.jump(20.0);
        race.change_speed(true);
        assert_eq!((race.time().0, race.speed_words().unwrap().as_str()), (1000.0, "slowed 1.5x"));
        // The single run of the second lane was slow by accident: it takes half as long.
        race.take(vec![2000.0, 500.0, 1500.0]);
        assert_eq!((race.time().0, race.finish(1)), (1000.0, Some((1, 500.0))));
        race.seek(250.0);
        assert_eq!([0, 1, 2].map(|i| race.lanes()[i].token_count()), [4, 10, 4]);
    }

    #[test]
    fn a_race_of_nothing_is_over() {
        let mut race = Race::new(vec![(lane(0), 0.0)]);
        race.advance(1.0);
        assert!(race.is_over() && !race.is_playing() && race.speed_words().is_none());
        assert_eq!((race.finish(0), race.finish(9)), (Some((1, 0.0)), None));
    }
}
