//! When to draw: at once after input, at most 30 times per second while text streams, never without a change.

use std::time::{Duration, Instant};

/// Minimum time between two frames that no input requested.
const GAP: Duration = Duration::from_millis(33);

#[derive(Debug, Default)]
pub(crate) struct Frames {
    wanted: bool,
    urgent: bool,
    last: Option<Instant>,
}

impl Frames {
    pub fn want(&mut self) {
        self.wanted = true;
    }

    pub fn want_now(&mut self) {
        self.wanted = true;
        self.urgent = true;
    }

    pub fn due(&self, now: Instant) -> Option<Instant> {
        if !self.wanted {
            return None;
        }
        match self.last {
            Some(last) if !self.urgent => Some((last + GAP).max(now)),
            _ => Some(now),
        }
    }

    pub fn drawn(&mut self, now: Instant) {
        *self = Self { wanted: false, urgent: false, last: Some(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_limited_and_input_is_not() {
        let start = Instant::now();
        let mut frames = Frames::default();
        assert_eq!(frames.due(start), None);
        frames.want();
        assert_eq!(frames.due(start), Some(start));
        frames.drawn(start);
        assert_eq!(frames.due(start), None);
        frames.want();
        let soon = start + Duration::from_millis(5);
        assert_eq!(frames.due(soon), Some(start + GAP));
        frames.want_now();
        assert_eq!(frames.due(soon), Some(soon));
    }
}
