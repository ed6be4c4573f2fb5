//! The spectrogram that Whisper hears: powers of 80 or 128 frequency bands, 100 times a second, on a logarithmic scale.

use candle_core::{D, Device, Result, Tensor};
use specreel_video::SAMPLE_RATE;

/// Samples of a window: 30 seconds.
pub const WINDOW: usize = 30 * SAMPLE_RATE as usize;
/// Samples of one transform, and from one to the next.
const TRANSFORM: usize = 400;
const STEP: usize = 160;
/// Frames of a window.
pub const FRAMES: usize = WINDOW / STEP;
/// Frequencies of a transform.
const FREQUENCIES: usize = TRANSFORM / 2 + 1;

/// Turns windows of sound into spectrograms.
pub struct Mel {
    /// `TRANSFORM × 2 FREQUENCIES`: cosines and sines, under a Hann window.
    transform: Tensor,
    /// `FREQUENCIES × bands`.
    bands: Tensor,
}

impl Mel {
    /// For models that hear so many bands.
    pub fn new(bands: usize) -> Result<Self> {
        let angle = std::f64::consts::TAU / TRANSFORM as f64;
        let value = |at: usize| {
            let (n, column) = (at / (2 * FREQUENCIES), at % (2 * FREQUENCIES));
            let hann = 0.5 - 0.5 * (angle * n as f64).cos();
            let turn = angle * ((n * (column % FREQUENCIES)) % TRANSFORM) as f64;
            (hann * if column < FREQUENCIES { turn.cos() } else { turn.sin() }) as f32
        };
        let transform: Vec<f32> = (0..TRANSFORM * 2 * FREQUENCIES).map(value).collect();
        Ok(Self {
            transform: Tensor::from_vec(transform, (TRANSFORM, 2 * FREQUENCIES), &Device::Cpu)?,
            bands: Tensor::from_vec(filters(bands), (FREQUENCIES, bands), &Device::Cpu)?,
        })
    }

    /// The spectrogram of at most [`WINDOW`] samples, with silence behind them: `1 × bands × FRAMES`.
    pub fn spectrogram(&self, samples: &[f32]) -> Result<Tensor> {
        // Frames are centered: the window is reflected at both ends.
        let sample = |at: isize| {
            let at = at.unsigned_abs();
            let at = if at < WINDOW { at } else { 2 * (WINDOW - 1) - at };
            samples.get(at).copied().unwrap_or_default()
        };
        let half = TRANSFORM as isize / 2;
        let frame = |frame: usize| (0..TRANSFORM).map(move |n| (frame * STEP + n) as isize - half);
        let frames: Vec<f32> = (0..FRAMES).flat_map(frame).map(sample).collect();
        let frames =
            Tensor::from_vec(frames, (FRAMES, TRANSFORM), &Device::Cpu)?.matmul(&self.transform)?.sqr()?;
        let power = (frames.narrow(1, 0, FREQUENCIES)? + frames.narrow(1, FREQUENCIES, FREQUENCIES)?)?;
        let log = (power.matmul(&self.bands)?.maximum(1e-10)?.log()? * std::f64::consts::LOG10_E)?;
        let loudest = log.flatten_all()?.max(D::Minus1)?.to_scalar::<f32>()?;
        let scaled = ((log.maximum(f64::from(loudest) - 8.0)? + 4.0)? / 4.0)?;
        scaled.t()?.contiguous()?.unsqueeze(0)
    }
}

/// Triangular filters of Slaney's mel scale, each with an area of one: `FREQUENCIES × bands`.
fn filters(bands: usize) -> Vec<f32> {
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
    let value = |at: usize| {
        let (frequency, band) = (at / bands, at % bands);
        let frequency = frequency as f64 * f64::from(SAMPLE_RATE) / TRANSFORM as f64;
        let (low, middle, high) = (corner(band), corner(band + 1), corner(band + 2));
        let rise = (frequency - low) / (middle - low);
        let fall = (high - frequency) / (high - middle);
        (rise.min(fall).max(0.0) * 2.0 / (high - low)) as f32
    };
    (0..FREQUENCIES * bands).map(value).collect()
}
