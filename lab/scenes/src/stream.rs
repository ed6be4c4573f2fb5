//! Training samples as an endless stream of raw bytes.
//!
//! Layout, repeated until the reader closes the pipe or `count` samples are written:
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | `n`, little-endian length of the header |
//! | `n` | header, JSON (see [`Header`]) |
//! | `frames * height * width * 3` | pixels, RGB, frame by frame, row by row |
//!
//! Frames are drawn directly at the size a model sees, then degraded so that they resemble frames that were encoded at a
//! larger size, decoded and scaled down: softened edges, softer color edges, small shifts of brightness and tint, noise.

use std::io::{self, Write};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::author::Author;
use super::caption::{self, Caption};
use super::phrases::{LONG_PROMPTS, SHORT_PROMPTS};
use super::world::{Scene, pick};
use super::{facts, render};

/// Frames that a model of the second world samples of a second.
pub const FRAMES_PER_SECOND: f64 = 2.0;

/// Frames, height and width of a sample, written `8x112x112`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub frames: usize,
    pub height: u32,
    pub width: u32,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> =
            text.split('x').map(|part| part.parse().ok().filter(|n| *n > 0)).collect();
        match numbers.as_deref() {
            Some(&[frames, height, width]) => Ok(Self { frames: frames as usize, height, width }),
            _ => Err(format!("expected FRAMESxHEIGHTxWIDTH, such as 8x112x112, got `{text}`")),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the first scene; the following ones count up.
    pub first_seed: u64,
    /// Number of samples; `None` writes until the reader closes the pipe.
    pub count: Option<u64>,
    /// Formats with their weights; every run of `group` samples shares one.
    pub formats: Vec<(Format, f64)>,
    /// Samples that share a format.
    pub group: u64,
    /// Share of short captions; samples that are neither short captions nor questions are long captions.
    pub short: f64,
    /// Share of questions; without an author.
    pub question: f64,
    /// Who words the captions; `None` draws their phrases at random. With an author, clips are as long as their frames are at
    /// [`FRAMES_PER_SECOND`].
    pub author: Option<Author>,
    /// Scenes with more figures are left out, for a curriculum that starts with easy scenes.
    pub figures: usize,
    /// Scenes with more shots are left out.
    pub shots: usize,
    /// Degrade the pixels and shift the sampling times a little.
    pub degrade: bool,
}

impl Default for Options {
    fn default() -> Self {
        let format = Format { frames: 8, height: 112, width: 112 };
        Self {
            first_seed: super::world::TRAINING_SEEDS.start,
            count: None,
            formats: vec![(format, 1.0)],
            group: 64,
            short: 0.08,
            question: 0.10,
            author: None,
            figures: usize::MAX,
            shots: usize::MAX,
            degrade: true,
        }
    }
}

/// The header of a sample, before its pixels.
#[derive(Debug, Serialize)]
pub struct Header {
    pub seed: u64,
    /// `long`, `short` or `question`.
    pub kind: &'static str,
    pub prompt: String,
    /// The expected text.
    pub answer: String,
    /// Byte ranges in `answer` of the words that carry facts.
    pub(crate) fact_ranges: Vec<(usize, usize)>,
    pub frames: usize,
    pub height: u32,
    pub width: u32,
    /// Number of frames of the nominal video, for the time scale of positions.
    pub total_frames: usize,
    /// Frames per second of the nominal video.
    pub fps: f64,
    pub facts: facts::Facts,
    /// For every pair of frames, row and column of cells of 28 pixels: the figure there (its place in the clip), or -1.
    pub cells: Vec<i8>,
    /// For every pair of frames: its shot.
    pub shots: Vec<usize>,
}

/// Writes samples to `out`. The stream ends without an error when the reader closes the pipe.
pub fn stream(out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let scenes = (options.first_seed..=u64::MAX)
        .map(Scene::from_seed)
        .filter(|scene| scene.shots.len() <= options.shots && scene.figures().count() <= options.figures)
        .zip(0..options.count.unwrap_or(u64::MAX));
    let mut bytes = Vec::new();
    for (scene, index) in scenes {
        bytes.clear();
        sample(&mut bytes, options, &scene, index)?;
        match out.write_all(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Appends sample number `index` to `bytes`.
fn sample(bytes: &mut Vec<u8>, options: &Options, scene: &Scene, index: u64) -> io::Result<()> {
    let format = format_of(options, index)?;
    let long = options.author.map(|_| scene.lengthened(format.frames as f64 / FRAMES_PER_SECOND));
    let scene = long.as_ref().unwrap_or(scene);
    // Not the scene's own generator: words and degradation are independent of the scene.
    let mut rng = ChaCha8Rng::seed_from_u64(scene.seed ^ 0x5eed_0ff1_11e5);
    let (kind, prompt, answer) = words(&mut rng, options, scene);
    let look = Look::random(&mut rng);
    let phase = if options.degrade { rng.random_range(-0.5..0.5) } else { 0.0 };
    let moments: Vec<f64> = uniform(scene.total_frames(), format.frames)
        .map(|index| (index as f64 + phase) / scene.fps)
        .collect();
    let header = Header {
        seed: scene.seed,
        kind,
        prompt,
        fact_ranges: answer.facts.iter().map(|range| (range.start, range.end)).collect(),
        answer: answer.text,
        frames: format.frames,
        height: format.height,
        width: format.width,
        total_frames: scene.total_frames(),
        fps: scene.fps,
        facts: facts::of(scene),
        cells: moments.chunks(2).flat_map(|pair| cells(scene, pair, format)).collect(),
        shots: moments.chunks(2).map(|pair| shot_index(scene, pair[0])).collect(),
    };
    let header = serde_json::to_vec(&header)?;
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&header);
    for t in moments {
        let mut frame = render::frame(scene, t, format.width, format.height);
        if options.degrade {
            look.apply(&mut frame, format.width as usize, &mut rng);
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(())
}

fn cells(scene: &Scene, pair: &[f64], format: Format) -> Vec<i8> {
    let cover = |t| render::cover(scene, t, format.width / 28, format.height / 28);
    let (first, last) = (cover(pair[0]), cover(pair[pair.len() - 1]));
    first.into_iter().zip(last).map(|(a, b)| a.or(b).map_or(-1, |figure| figure as i8)).collect()
}

fn shot_index(scene: &Scene, t: f64) -> usize {
    scene.shots.iter().take_while(|shot| shot.end <= t).count().min(scene.shots.len() - 1)
}

/// Indices of `n` frames spread evenly over `total`, both ends included: `round(linspace(0, total - 1, n))`, halves to even.
fn uniform(total: usize, n: usize) -> impl Iterator<Item = usize> {
    let step = if n > 1 { (total - 1) as f64 / (n - 1) as f64 } else { 0.0 };
    (0..n).map(move |index| (index as f64 * step).round_ties_even() as usize)
}

fn format_of(options: &Options, index: u64) -> io::Result<Format> {
    let group = index / options.group.max(1);
    let mut rng = ChaCha8Rng::seed_from_u64(options.first_seed.wrapping_add(group).wrapping_mul(0x9e37_79b9));
    let all: f64 = options.formats.iter().map(|(_, weight)| weight).sum();
    let mut at = rng.random_range(0.0..1.0) * all;
    for (format, weight) in &options.formats {
        at -= weight;
        if at <= 0.0 {
            return Ok(*format);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "no format; expected at least one, such as 8x112x112"))
}

fn words(rng: &mut impl Rng, options: &Options, scene: &Scene) -> (&'static str, String, Caption) {
    let kind = rng.random_range(0.0..1.0);
    let wording = rng.random();
    if let Some(author) = options.author {
        return if kind < options.short {
            ("short", pick(rng, SHORT_PROMPTS).to_owned(), author.short(scene))
        } else {
            ("long", pick(rng, LONG_PROMPTS).to_owned(), author.long(scene, wording))
        };
    }
    if kind < options.short {
        ("short", pick(rng, SHORT_PROMPTS).to_owned(), caption::short_with_facts(scene, wording))
    } else if kind < options.short + options.question {
        let (question, answer) = pick(rng, &caption::questions_with_facts(scene));
        ("question", question, answer)
    } else {
        ("long", pick(rng, LONG_PROMPTS).to_owned(), caption::long_with_facts(scene, wording))
    }
}

/// How the pixels of one clip are degraded.
struct Look {
    /// Weight of a pixel's neighbors in brightness and in color, 0 to 1.
    soft: f32,
    soft_colour: f32,
    gain: f32,
    shift: [f32; 3],
    /// Largest amount that noise adds or subtracts.
    noise: u8,
}

impl Look {
    fn random(rng: &mut impl Rng) -> Self {
        let mut shift = || rng.random_range(-3.0..3.0);
        let shift = [shift(), shift(), shift()];
        Self {
            soft: if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..0.45) },
            soft_colour: rng.random_range(0.0..0.8),
            gain: rng.random_range(0.95..1.05),
            shift,
            noise: rng.random_range(0..4),
        }
    }

    fn apply(&self, frame: &mut [u8], width: usize, rng: &mut impl Rng) {
        let clean: Vec<[f32; 3]> = frame
            .chunks_exact(3)
            .map(|pixel| [f32::from(pixel[0]), f32::from(pixel[1]), f32::from(pixel[2])])
            .collect();
        let rows: Vec<&[[f32; 3]]> = clean.chunks_exact(width).collect();
        let (soft, soft_colour) = (self.soft * 0.8, self.soft_colour * 0.8);
        let (noise, mut dice) = (self.noise as u32, rng.random::<u32>());
        for (y, line) in frame.chunks_exact_mut(3 * width).enumerate() {
            let (above, row, below) = (rows[y.saturating_sub(1)], rows[y], rows[(y + 1).min(rows.len() - 1)]);
            for (x, pixel) in line.chunks_exact_mut(3).enumerate() {
                let (before, own, after) = (row[x.saturating_sub(1)], row[x], row[(x + 1).min(width - 1)]);
                let mean: [f32; 3] =
                    std::array::from_fn(|c| (above[x][c] + below[x][c] + before[c] + after[c]) * 0.25);
                let (own_luma, mean_luma) = (luma(own), luma(mean));
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let grain = (((dice >> 16) * (2 * noise + 1)) >> 16) as f32 - noise as f32;
                let light = own_luma + soft * (mean_luma - own_luma);
                for c in 0..3 {
                    let own_tint = own[c] - own_luma;
                    let tint = own_tint + soft_colour * (mean[c] - mean_luma - own_tint);
                    pixel[c] = ((light + tint) * self.gain + self.shift[c] + grain) as u8;
                }
            }
        }
    }
}

fn luma([red, green, blue]: [f32; 3]) -> f32 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_can_be_read_back() {
        let options = Options { count: Some(3), ..Options::default() };
        let mut bytes = Vec::new();
        stream(&mut bytes, &options).unwrap();
        let mut rest = bytes.as_slice();
        for seed in options.first_seed..options.first_seed + 3 {
            let (length, tail) = rest.split_at(4);
            let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
            let header: serde_json::Value = serde_json::from_slice(&tail[..length]).unwrap();
            assert_eq!(header["seed"], seed);
            rest = &tail[length + 8 * 112 * 112 * 3..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn clips_of_an_author_are_as_long_as_their_frames() {
        let read = |author, frames| {
            let formats = vec![(Format { frames, height: 28, width: 28 }, 1.0)];
            let options = Options { count: Some(1), formats, short: 0.0, author, ..Options::default() };
            let mut bytes = Vec::new();
            stream(&mut bytes, &options).unwrap();
            let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            assert_eq!(bytes.len(), 4 + length + frames * 28 * 28 * 3);
            serde_json::from_slice::<serde_json::Value>(&bytes[4..4 + length]).unwrap()
        };
        let long = read(Some(Author(1)), 128);
        let seconds = long["total_frames"].as_f64().unwrap() / long["fps"].as_f64().unwrap();
        assert_eq!((seconds, long["kind"].as_str()), (64.0, Some("long")));
        let plain = read(None, 128);
        assert!(plain["total_frames"].as_f64().unwrap() / plain["fps"].as_f64().unwrap() <= 8.0);
        assert_eq!(plain["facts"], long["facts"]);
        assert_ne!(plain["answer"], long["answer"]);
    }

    #[test]
    fn sampling_is_that_of_the_models() {
        assert_eq!(uniform(10, 4).collect::<Vec<_>>(), [0, 3, 6, 9]);
        assert_eq!(uniform(6, 3).collect::<Vec<_>>(), [0, 2, 5]); // 2.5 rounds to even
        assert_eq!(uniform(5, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn formats_are_read_from_text() {
        assert_eq!("4x84x140".parse(), Ok(Format { frames: 4, height: 84, width: 140 }));
        assert!("8x112".parse::<Format>().is_err());
    }

    #[test]
    fn a_group_shares_its_format() {
        let formats = vec![("8x112x112".parse().unwrap(), 1.0), ("4x84x140".parse().unwrap(), 1.0)];
        let options = Options { formats, group: 4, ..Options::default() };
        for group in 0..20 {
            let of = |place: u64| format_of(&options, 4 * group + place).unwrap();
            assert!((1..4).all(|place| of(place) == of(0)));
        }
    }
}
