//! Whether there is room: what a pair of models will take, against what the machine has.

use std::path::Path;

use super::{command::RunRequest, memory, models::frames};
use crate::{
    model::{
        ComputeDevice, ModelSpec, WeightType,
        about::{Facts, Need},
        config::VlConfig,
        hub::name_of,
    },
    record::{Failure, FailureClass, units::bytes},
    video::{self, Rule},
};

pub use crate::model::about::Sampled as Video;

/// Memory that is left to everything else, in bytes.
const LEFT: u64 = 64 << 20;

/// Refuse models (and a video, if it is known) that will not fit into the memory that is available now. What cannot be
/// estimated is let pass: loading it says what is wrong.
///
/// # Errors
/// Class memory: the estimate, what is there, and what would fit.
pub fn check(spec: &ModelSpec, video: Option<&Video>) -> Result<(), Failure> {
    // An accelerator's memory is its own to refuse.
    let exact = |place: Result<ComputeDevice, Failure>| place.is_ok_and(|place| place.is_batch_invariant());
    if !exact(spec.target_place()) {
        return Ok(());
    }
    let read = |dir: &Path| Facts::read(dir).ok();
    let (Some(target), Some(available)) = (read(&spec.target), memory::available()) else { return Ok(()) };
    let drafter = spec.drafter.as_deref().filter(|_| exact(spec.drafter_place())).and_then(read);
    let names: Vec<String> =
        [Some(&spec.target), spec.drafter.as_ref()].into_iter().flatten().map(|d| name_of(d)).collect();
    Pair { target, drafter }.fits(&names.join(" with "), spec.dtype, video, available.saturating_sub(LEFT))
}

/// [`check`] for the video of a request. A video that cannot be read passes: the run itself reports that better.
///
/// # Errors
/// As [`check`].
pub fn check_request(spec: &ModelSpec, request: &RunRequest) -> Result<(), Failure> {
    check(spec, sampled(rule(spec), request).as_ref())
}

/// What a request samples of its video, by a family's rule; none if the video cannot be read.
pub(super) fn sampled(rule: &Rule, request: &RunRequest) -> Option<Video> {
    let probe = video::probe(&request.video).ok()?;
    let all = probe.frame_count.get();
    let total =
        request.span.map_or(all, |span| all.min((span.seconds() * probe.fps).ceil().max(1.0) as usize));
    let plan = video::sampling::plan(total, probe.fps, rule, request.sampling).ok()?;
    Some(Video {
        frames: plan.indices.len(),
        size: (probe.height as usize, probe.width as usize),
        max_pixels: request.max_pixels,
        new_tokens: request.max_new_tokens,
    })
}

/// How the target of these models samples frames.
pub fn rule(spec: &ModelSpec) -> &'static Rule {
    VlConfig::read(&spec.target).map_or(&Rule::QWEN_VL, |config| frames(config.family))
}

/// The models of a run.
struct Pair {
    target: Facts,
    drafter: Option<Facts>,
}

impl Pair {
    /// Bytes of both models and the video's patches, which they share.
    fn need(&self, dtype: WeightType, video: Option<&Video>) -> Need {
        let one = |facts: &Facts| {
            let sample = video.and_then(|video| facts.sample(video));
            facts.need(dtype, sample.as_ref(), video.map_or(0, |video| video.new_tokens))
        };
        let patches =
            video.and_then(|video| self.target.sample(video)).map_or(0, |s| 4 * s.patch_values as u64);
        let shared = Need { work: patches, ..Need::default() };
        self.drafter.iter().map(one).fold(one(&self.target) + shared, |a, b| a + b)
    }

    fn fits(
        &self,
        names: &str,
        dtype: WeightType,
        video: Option<&Video>,
        available: u64,
    ) -> Result<(), Failure> {
        let need = self.need(dtype, video);
        if need.total() <= available {
            return Ok(());
        }
        let asked = if dtype == WeightType::Auto { WeightType::Q8_0 } else { dtype };
        let weights = need.weights + need.tower;
        Err(Failure {
            class: FailureClass::Memory,
            error: format!(
                "{names} in {} {} about {} ({} weights, {} for the video and buffers), but {} are available",
                asked.name(),
                if self.drafter.is_some() { "need" } else { "needs" },
                bytes(need.total()),
                bytes(weights),
                bytes(need.total() - weights),
                bytes(available)
            ),
            hint: Some(self.ways_out(asked, video, available)),
        })
    }

    /// What would fit, in words.
    fn ways_out(&self, asked: WeightType, video: Option<&Video>, available: u64) -> String {
        let mut ways = Vec::new();
        let smaller = WeightType::ALL.into_iter().skip_while(|dtype| *dtype != asked).skip(1);
        let mut smaller = smaller.map(|dtype| (dtype.name(), self.need(dtype, video).total()));
        if let Some((dtype, needed)) = smaller.find(|way| way.1 <= available) {
            ways.push(format!("--dtype {dtype} needs {}", bytes(needed)));
        }
        let half = |video: &Video| Some(Video { frames: video.frames / 2, ..*video });
        let halves = std::iter::successors(video.and_then(half), half).take_while(|video| video.frames >= 4);
        let mut fewer = halves.map(|video| (video.frames, self.need(asked, Some(&video)).total()));
        if let Some((frames, needed)) = fewer.find(|way| way.1 <= available) {
            ways.push(format!("--frames {frames} needs {}", bytes(needed)));
        }
        if self.drafter.is_some() {
            let alone = Pair { target: self.target.clone(), drafter: None };
            let bytes_alone = alone.need(asked, video).total();
            if bytes_alone <= available {
                ways.push(format!("without a drafter it needs {}", bytes(bytes_alone)));
            }
        }
        if ways.is_empty() {
            ways.push("use a smaller model, or free memory".into());
        }
        ways.push("--ignore-memory tries it anyway".into());
        ways.join("; or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        let read = |part: &str| {
            Facts::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo").join(part)).unwrap()
        };
        Pair { target: read("target"), drafter: Some(read("drafter")) }
    }

    const LONG: Video = Video { frames: 512, size: (720, 1280), max_pixels: None, new_tokens: 256 };

    #[test]
    fn what_fits_is_let_pass() {
        let pair = pair();
        let need = pair.need(WeightType::Auto, Some(&LONG)).total();
        assert_eq!(pair.fits("a", WeightType::Auto, Some(&LONG), need), Ok(()));
        let failure = pair.fits("a with b", WeightType::Auto, Some(&LONG), need - 1).unwrap_err();
        assert_eq!((failure.class, failure.class.exit_code()), (FailureClass::Memory, 4));
        assert!(failure.error.starts_with("a with b in q8_0 need about "), "{}", failure.error);
    }

    #[test]
    fn the_ways_out_are_ways_out() {
        let pair = pair();
        let at = |dtype, video: &Video| pair.need(dtype, Some(video)).total();
        // A little less than f32 takes: bf16 fits, and so do fewer frames.
        let available = at(WeightType::F32, &LONG) - 1;
        let hint = pair.fits("a", WeightType::F32, Some(&LONG), available).unwrap_err().hint.unwrap();
        assert!(hint.contains("--dtype bf16 needs") && hint.contains("--frames 256 needs"), "{hint}");
        assert!(
            hint.contains("without a drafter it needs") && hint.ends_with("--ignore-memory tries it anyway")
        );
        let short = Video { frames: 256, ..LONG };
        assert!(pair.fits("a", WeightType::F32, Some(&short), available).is_ok());
        assert!(pair.fits("a", WeightType::Bf16, Some(&LONG), available).is_ok());
        let nothing = pair.fits("a", WeightType::Q4_0, Some(&LONG), 1).unwrap_err().hint.unwrap();
        assert!(nothing.contains("a smaller model"), "{nothing}");
    }
}
