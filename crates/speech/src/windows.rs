//! The windows in which a video is heard: 30 seconds of its sound from any place on.

use specreel_tensor::Result;
use specreel_video::{SAMPLE_RATE, Sound};

use crate::mel::{FRAMES, Mel, REACH, STEP, WINDOW, floor};

/// Silence at the beginning of a window that is skipped, and what is left of it, in frames.
const SKIPPED: usize = 100;
const LEFT: usize = 20;

/// A sound, and where in it the next window begins.
pub struct Windows {
    sound: Sound,
    /// Samples that are heard in all.
    wanted: usize,
    /// What is read: a little before the window, the window, and a little behind it.
    buffer: Vec<f32>,
    /// Where the window begins in the buffer, and in the sound.
    start: usize,
    heard: usize,
}

impl Windows {
    /// The windows of so many seconds of a sound.
    pub fn new(sound: Sound, seconds: f64) -> Self {
        let wanted = (seconds * f64::from(SAMPLE_RATE)) as usize;
        Self { sound, wanted, buffer: Vec::new(), start: 0, heard: 0 }
    }

    /// Read the window. Returns its samples; none at the end.
    pub fn fill(&mut self) -> usize {
        let begin = self.heard - self.start;
        let end = (self.heard + WINDOW + REACH).min(self.wanted);
        let missing = end.saturating_sub(begin + self.buffer.len());
        self.buffer.extend(self.sound.read(missing));
        (self.buffer.len() - self.start).min(WINDOW)
    }

    /// Logarithms of the window's powers, without the silence behind the sound's end: `frames × bands`.
    pub fn logarithms(&self, mel: &mut Mel) -> Result<Vec<f32>> {
        let seen = self.buffer.len() - self.start + REACH;
        mel.logarithms(&self.buffer, self.start, seen.div_ceil(STEP).min(FRAMES))
    }

    /// Begin the next window so many samples later.
    pub fn advance(&mut self, samples: usize) {
        self.heard += samples;
        self.start += samples;
        self.buffer.drain(..self.start.saturating_sub(REACH).min(self.buffer.len()));
        self.start = self.start.min(REACH);
    }

    /// Seconds before the window.
    pub fn start_s(&self) -> f64 {
        self.heard as f64 / f64::from(SAMPLE_RATE)
    }

    /// Samples before the window.
    pub fn heard(&self) -> usize {
        self.heard
    }

    /// The same windows from the beginning. Fails if the file is no longer what it was.
    pub fn again(self) -> std::result::Result<Self, specreel_video::Error> {
        let Self { sound, wanted, .. } = self;
        Ok(Self { sound: sound.again()?, wanted, buffer: Vec::new(), start: 0, heard: 0 })
    }
}

/// Samples of a window of these logarithms at whose beginning nothing is heard: all, or so many that a moment before the first sound
/// is left; none if that is soon.
pub fn silent_samples(logarithms: &[f32], bands: usize, loudest: f32) -> usize {
    let is_heard = |frame: &[f32]| frame.iter().any(|log| *log > floor(loudest));
    let frames = logarithms.chunks_exact(bands);
    let all = frames.len();
    let silent = match frames.enumerate().find(|(_, frame)| is_heard(frame)) {
        None => all,
        Some((first, _)) if first >= SKIPPED => first - LEFT,
        Some(_) => 0,
    };
    silent * STEP
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::mel::QUIETEST;

    #[test]
    fn a_window_has_the_same_powers_as_the_whole_sound_there() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/whisper/sound.mp4");
        let mut windows = Windows::new(Sound::open(Path::new(file), 0.0, None).unwrap().unwrap(), 6.5);
        let mut mel = Mel::new(80).unwrap();
        let samples = windows.fill();
        assert_eq!((samples, windows.heard()), (6 * 16_000 + 8_000, 0));
        let whole = windows.logarithms(&mut mel).unwrap();
        assert_eq!(whole.len(), 652 * 80, "the last two see the end of the sound");
        for (step, frame) in [(160, 1), (320, 3), (16_000, 103)] {
            windows.advance(step);
            assert_eq!(windows.fill(), samples - frame * STEP);
            let logarithms = windows.logarithms(&mut mel).unwrap();
            assert!(logarithms == whole[frame * 80..], "from frame {frame}");
        }
        let mut again = windows.again().unwrap();
        assert_eq!(again.fill(), samples);
        assert!(again.logarithms(&mut mel).unwrap() == whole);
        again.advance(samples);
        assert_eq!(again.fill(), 0);
    }

    #[test]
    fn silence_at_the_beginning_is_skipped() {
        // Two bands; the loudest power of the video is 10.
        let (loud, quiet, silent) = ([1.0, 0.0], [QUIETEST, -6.9], [QUIETEST, -7.1]);
        let frames = |count: usize, then: [f32; 2]| [vec![silent; count], vec![then; 10]].concat().concat();
        let skipped = |logarithms: &[f32]| silent_samples(logarithms, 2, 1.0) / STEP;
        assert_eq!(skipped(&frames(0, loud)), 0);
        assert_eq!(skipped(&frames(99, loud)), 0, "a short pause is heard");
        assert_eq!(skipped(&frames(100, loud)), 80);
        assert_eq!(skipped(&frames(2_000, quiet)), 1_980);
        assert_eq!(skipped(&frames(2_000, silent)), 2_010, "all of it");
        // In a video that is quiet as a whole, everything but nothing is heard.
        assert_eq!(silent_samples(&[QUIETEST; 400], 2, -9.0), 200 * STEP);
        assert_eq!(silent_samples(&[-9.5; 400], 2, -9.0), 0);
    }
}
