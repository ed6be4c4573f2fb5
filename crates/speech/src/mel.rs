//! The spectrogram that Whisper hears: powers of 80 or 128 frequency bands, 100 times a second, on a logarithmic scale.

use specreel_tensor::{
    CheckpointError, Importance, KvType, Result, WeightType, Weights,
    cpu::linear::Linear,
    fused::FusedMatrix,
    ops::{CpuOps, CpuWork, Loaded, RowOps as _, TowerOps as _},
    states::States,
};
use specreel_video::SAMPLE_RATE;

/// Samples of a window: 30 seconds.
pub const WINDOW: usize = 30 * SAMPLE_RATE as usize;
/// Samples of one transform, and from one to the next.
const TRANSFORM: usize = 400;
pub const STEP: usize = 160;
/// Samples that a frame sees on either side of its time.
pub const REACH: usize = TRANSFORM / 2;
/// Frames of a window.
pub const FRAMES: usize = WINDOW / STEP;
/// Frequencies of a transform.
const FREQUENCIES: usize = TRANSFORM / 2 + 1;
/// Samples of one transform, with the zeros that make them whole blocks.
const INPUTS: usize = TRANSFORM.next_multiple_of(32);
/// Frames that are transformed at once.
const CHUNK: usize = 500;
/// The lowest power that is distinguished from silence, as a logarithm.
pub const QUIETEST: f32 = -10.0;
/// How far below the loudest band of a video the quietest one is that is heard, as a logarithm.
const RANGE: f32 = 8.0;

/// Turns sound into spectrograms.
pub struct Mel {
    ops: CpuOps,
    work: CpuWork,
    /// `2 FREQUENCIES × INPUTS`: cosines and sines, under a Hann window.
    transform: Linear,
    /// Of each band the first frequency, and weights.
    bands: Vec<(usize, Vec<f32>)>,
}

/// The transform as a source of weights.
struct Transform;

impl Weights for Transform {
    fn f32(&self, _: &str, _: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let angle = std::f64::consts::TAU / TRANSFORM as f64;
        let value = |at: usize| {
            let (row, n) = (at / INPUTS, at % INPUTS);
            if n >= TRANSFORM {
                return 0.0;
            }
            let hann = 0.5 - 0.5 * (angle * n as f64).cos();
            let turn = angle * ((n * (row % FREQUENCIES)) % TRANSFORM) as f64;
            (hann * if row < FREQUENCIES { turn.cos() } else { turn.sin() }) as f32
        };
        Ok((0..2 * FREQUENCIES * INPUTS).map(value).collect())
    }
}

impl Mel {
    /// For models that hear so many bands.
    pub fn new(bands: usize) -> Loaded<Self> {
        let ops = CpuOps::new(WeightType::F32, KvType::F32);
        let list = FusedMatrix {
            tensors: vec![("transform".into(), 2 * FREQUENCIES)],
            inputs: INPUTS,
            bias: false,
            importance: Importance::Usual,
        };
        let transform = ops.tower_matrix(&list, false, &Transform)?;
        Ok(Self { ops, work: Default::default(), transform, bands: filters(bands) })
    }

    /// Logarithms (base 10) of the powers of `frames` frames, the first of which is at sample `start`: `frames × bands`. `sound`
    /// begins with the video, or at least [`REACH`] samples before `start`; behind its end is silence.
    pub fn logarithms(&mut self, sound: &[f32], start: usize, frames: usize) -> Result<Vec<f32>> {
        let mut logarithms = Vec::with_capacity(frames * self.bands.len());
        for first in (0..frames).step_by(CHUNK) {
            let count = CHUNK.min(frames - first);
            let mut inputs = vec![0.0; count * INPUTS];
            for (frame, to) in (first..).zip(inputs.chunks_exact_mut(INPUTS)) {
                let to = &mut to[..TRANSFORM];
                match (start + frame * STEP).checked_sub(REACH) {
                    Some(from) => {
                        let seen = sound.get(from..(from + TRANSFORM).min(sound.len())).unwrap_or_default();
                        to[..seen.len()].copy_from_slice(seen);
                    }
                    // Before its beginning, the video's sound is reflected.
                    None => {
                        let from = (start + frame * STEP) as isize - REACH as isize;
                        let sample = |at: isize| sound.get(at.unsigned_abs()).copied().unwrap_or_default();
                        to.iter_mut().zip(from..).for_each(|(to, at)| *to = sample(at));
                    }
                }
            }
            let inputs = States::new(inputs, INPUTS)?;
            let turned = self.ops.project(&mut self.work, &self.transform, &inputs)?.to_vec()?;
            for row in turned.chunks_exact(2 * FREQUENCIES) {
                let (cosines, sines) = row.split_at(FREQUENCIES);
                let mut powers = [0f32; FREQUENCIES];
                let parts = cosines.iter().zip(sines);
                powers.iter_mut().zip(parts).for_each(|(power, (c, s))| *power = c * c + s * s);
                logarithms.extend(self.bands.iter().map(|(first, weights)| {
                    let power: f32 = powers[*first..].iter().zip(weights).map(|(p, w)| p * w).sum();
                    power.log10().max(QUIETEST)
                }));
            }
        }
        Ok(logarithms)
    }
}

/// The logarithm that the bands of a video must exceed to be heard at all, if this is its loudest.
pub fn floor(loudest: f32) -> f32 {
    (loudest - RANGE).max(QUIETEST)
}

/// Scale logarithms as a model takes them. `loudest` is the largest of the whole video, as in the reference: scaled by its own
/// largest, a silent window would be noise.
pub fn scale(logarithms: &mut [f32], loudest: f32) {
    logarithms.iter_mut().for_each(|log| *log = (log.max(loudest - RANGE) + 4.0) / 4.0);
}

/// Triangular filters of Slaney's mel scale, each with an area of one: of each band the first frequency, and weights.
fn filters(bands: usize) -> Vec<(usize, Vec<f32>)> {
    // Linear below 1,000 Hz, logarithmic above.
    const LINEAR: f64 = 200.0 / 3.0;
    let step = 6.4f64.ln() / 27.0;
    let mel = |hertz: f64| match hertz < 1000.0 {
        true => hertz / LINEAR,
        false => 15.0 + (hertz / 1000.0).ln() / step,
    };
    let hertz = |mel: f64| match mel < 15.0 {
        true => mel * LINEAR,
        false => 1000.0 * (step * (mel - 15.0)).exp(),
    };
    let highest = f64::from(SAMPLE_RATE) / 2.0;
    let corner = |band: usize| hertz(mel(highest) * band as f64 / (bands + 1) as f64);
    let filter = |band: usize| {
        let (low, middle, high) = (corner(band), corner(band + 1), corner(band + 2));
        let weight = |frequency: usize| {
            let frequency = frequency as f64 * f64::from(SAMPLE_RATE) / TRANSFORM as f64;
            let rise = (frequency - low) / (middle - low);
            let fall = (high - frequency) / (high - middle);
            (rise.min(fall).max(0.0) * 2.0 / (high - low)) as f32
        };
        let weights: Vec<f32> = (0..FREQUENCIES).map(weight).collect();
        let first = weights.iter().position(|weight| *weight > 0.0).unwrap_or_default();
        let end = weights.iter().rposition(|weight| *weight > 0.0).map_or(first, |last| last + 1);
        (first, weights[first..end].to_vec())
    };
    (0..bands).map(filter).collect()
}
