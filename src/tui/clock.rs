//! A playback clock: it can be paused, moved, and made faster or slower.

const SPEEDS: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clock {
    pub at: f64,
    pub length: f64,
    pub speed: f64,
    pub playing: bool,
}

impl Clock {
    pub fn new(length: f64) -> Self {
        Self { at: 0.0, length: length.max(0.0), speed: 1.0, playing: true }
    }

    pub fn advance(&mut self, ms: f64) {
        if self.playing {
            self.seek(self.at + ms.max(0.0) * self.speed);
            self.playing = !self.is_over();
        }
    }

    pub fn toggle(&mut self) {
        if self.is_over() {
            self.at = 0.0;
            self.playing = true;
        } else {
            self.playing = !self.playing;
        }
    }

    pub fn seek(&mut self, at: f64) {
        self.at = at.clamp(0.0, self.length);
    }

    /// Jump by fortieths of the length.
    pub fn jump(&mut self, steps: f64) {
        self.seek(self.at + steps * (self.length / 40.0).max(1.0));
    }

    pub fn change_speed(&mut self, up: bool) {
        let at = SPEEDS.iter().position(|s| *s >= self.speed).unwrap_or(SPEEDS.len() - 1);
        let at = if up { (at + 1).min(SPEEDS.len() - 1) } else { at.saturating_sub(1) };
        self.speed = SPEEDS[at];
    }

    pub fn is_over(&self) -> bool {
        self.at >= self.length
    }

    pub fn share(&self) -> f64 {
        if self.length > 0.0 { self.at / self.length } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_limited() {
        let mut player = Clock::new(1000.0);
        player.change_speed(true);
        player.advance(10.0);
        assert_eq!((player.speed, player.at), (2.0, 20.0));
        (0..20).for_each(|_| player.change_speed(true));
        assert_eq!(player.speed, 16.0);
        (0..20).for_each(|_| player.change_speed(false));
        assert_eq!(player.speed, 0.05);
        player.jump(-5.0);
        assert_eq!(player.at, 0.0);
        player.jump(2.0);
        assert_eq!(player.at, 50.0);
    }
}
