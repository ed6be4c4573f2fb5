//! Whether the machine has the memory that models and a run need, asked before minutes are spent on loading or prefill.

use super::{command::RunRequest, memory, models::frames};
use crate::{
    model::{
        ComputeDevice, KvType, ModelSpec, WeightType,
        about::{Facts, Need, VideoInputs},
        hub::name_of,
        source::ModelFiles,
    },
    record::{Failure, FailureClass, units::bytes},
    video::{self, Rule},
};

pub use crate::model::about::SampledVideo as Video;

/// Memory left to everything else, in bytes.
const RESERVE: u64 = 64 << 20;

/// Refuse models (and a video, if it is known) that do not fit into the available memory. What cannot be estimated passes:
/// loading it reports what is wrong.
///
/// # Errors
/// Class memory: the estimate, the available memory, and what would fit.
pub fn check(spec: &ModelSpec, video: Option<&Video>) -> Result<(), Failure> {
    let (Some(footprint), Some(available)) = (Footprint::read(spec), usable()) else { return Ok(()) };
    let work = video.and_then(|video| {
        let sample = footprint.target.sample(video)?;
        Some(Work { sample, frames: video.frames, new_tokens: video.new_tokens })
    });
    footprint.fits(true, work.as_ref(), available)
}

/// Available memory without the reserve; none if it is not known.
fn usable() -> Option<u64> {
    Some(memory::available()?.saturating_sub(RESERVE))
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
        limits: request.limits(),
        new_tokens: request.max_new_tokens,
    })
}

/// How the target of these models samples frames.
pub fn rule(spec: &ModelSpec) -> &'static Rule {
    let config = spec.target_files().and_then(|files| files.config());
    config.map_or(&Rule::QWEN_VL, |config| frames(config.family))
}

/// What one run adds to loaded models.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The video as the processor cuts it.
    pub sample: VideoInputs,
    /// Its sampled frames.
    pub frames: usize,
    /// The longest caption, in tokens.
    pub new_tokens: usize,
}

impl Work {
    /// The same video with half of the frames.
    fn half(&self) -> Self {
        let VideoInputs { visual, patch_values, grid_patches } = self.sample;
        let sample = VideoInputs { visual: visual / 2, patch_values: patch_values / 2, grid_patches };
        Self { sample, frames: self.frames / 2, ..*self }
    }
}

/// The memory that a pair of models needs.
#[derive(Clone)]
pub struct Footprint {
    names: String,
    dtype: WeightType,
    kv_type: KvType,
    target: Facts,
    drafter: Option<Facts>,
    /// Bytes of loaded weights that are parts of mapped files. The system counts their memory as available, because it can
    /// read them again; but every pass needs them.
    mapped: u64,
}

impl Footprint {
    /// The same for loaded models of which so many bytes are mapped.
    pub(super) fn with_mapped(self, mapped: u64) -> Self {
        Self { mapped, ..self }
    }

    /// Read the sizes of the models. None if they cannot be read, or run on an accelerator, which refuses for itself what does
    /// not fit its memory.
    pub(super) fn read(spec: &ModelSpec) -> Option<Self> {
        let on_cpu =
            |device: Result<ComputeDevice, Failure>| device.is_ok_and(|device| device.is_batch_invariant());
        if !on_cpu(spec.target_place()) {
            return None;
        }
        let tower = spec.dtype.tower(spec.tower_dtype);
        let read = |files: ModelFiles| Some(Facts::read_files(&files).ok()?.with_tower(tower));
        let drafter = spec.drafter_files().ok().flatten().filter(|_| on_cpu(spec.drafter_place()));
        let dirs = [Some(&spec.target), spec.drafter.as_ref()].into_iter().flatten();
        let names = dirs.map(|dir| name_of(dir)).collect::<Vec<_>>().join(" with ");
        Some(Self {
            names,
            dtype: spec.dtype,
            kv_type: spec.kv_type,
            target: read(spec.target_files().ok()?)?,
            drafter: drafter.and_then(read),
            mapped: 0,
        })
    }

    /// Bytes that a run adds to the loaded models.
    pub(super) fn run_bytes(&self, work: &Work) -> u64 {
        self.need(false, self.dtype, Some(work)).total()
    }

    /// Bytes of the models and a run of them.
    pub(super) fn peak_bytes(&self, work: &Work) -> u64 {
        self.need(true, self.dtype, Some(work)).total()
    }

    /// True if the machine has this many bytes, or does not say.
    pub(super) fn check_available(&self, bytes: u64) -> bool {
        self.usable().is_none_or(|available| bytes <= available)
    }

    /// Refuse a run of the loaded models that does not fit into the available memory.
    ///
    /// # Errors
    /// As [`check`].
    pub(super) fn check_run(&self, work: &Work) -> Result<(), Failure> {
        self.usable().map_or(Ok(()), |available| self.fits(false, Some(work), available))
    }

    /// Available memory without the reserve and the weights that stay mapped; none if it is not known.
    fn usable(&self) -> Option<u64> {
        usable().map(|available| available.saturating_sub(self.mapped))
    }

    /// Bytes of both models, with their weights or without, and of a run. The models share the video's patches.
    fn need(&self, weights: bool, dtype: WeightType, work: Option<&Work>) -> Need {
        let one = |facts: &Facts| {
            let (sample, new_tokens) =
                (work.map(|work| &work.sample), work.map_or(0, |work| work.new_tokens));
            let need = facts.need(dtype, self.kv_type, sample, new_tokens);
            if weights { need } else { Need { weights: 0, tower: 0, ..need } }
        };
        let patches = work.map_or(0, |work| 4 * work.sample.patch_values as u64);
        let shared = Need { work: patches, ..Need::default() };
        self.drafter.iter().map(one).fold(one(&self.target) + shared, |a, b| a + b)
    }

    fn fits(&self, weights: bool, work: Option<&Work>, available: u64) -> Result<(), Failure> {
        let need = self.need(weights, self.dtype, work);
        let total = need.total();
        if total <= available {
            return Ok(());
        }
        let dtype = if self.dtype == WeightType::Auto { WeightType::Q8_0 } else { self.dtype };
        let (names, needs) = (&self.names, if self.drafter.is_some() { "need" } else { "needs" });
        let error = if weights {
            let held = need.weights + need.tower;
            format!(
                "{names} in {} {needs} about {} ({} weights, {} for the video and buffers), but {} are available",
                self.target.stored.map_or(dtype.name(), |stored| stored.1),
                bytes(total),
                bytes(held),
                bytes(total - held),
                bytes(available)
            )
        } else {
            format!(
                "{names} {needs} about {} for this video, but {} are available",
                bytes(total),
                bytes(available)
            )
        };
        let hint = Some(self.alternatives(weights, dtype, work, available));
        Err(Failure { class: FailureClass::Memory, error, hint })
    }

    /// What would fit, for people.
    fn alternatives(&self, weights: bool, dtype: WeightType, work: Option<&Work>, available: u64) -> String {
        let need = |dtype, work: Option<&Work>| self.need(weights, dtype, work).total();
        let mut ways = Vec::new();
        // Loaded weights stay as they are.
        let smaller = WeightType::ALL.into_iter().skip_while(|other| *other != dtype).skip(1);
        let mut smaller = smaller
            .map(|dtype| (dtype.name(), need(dtype, work)))
            .filter(|_| weights && self.target.stored.is_none());
        if let Some((dtype, needed)) = smaller.find(|way| way.1 <= available) {
            ways.push(format!("--dtype {dtype} needs {}", bytes(needed)));
        }
        if weights && self.kv_type != KvType::Q8_0 {
            let smaller = Self { kv_type: KvType::Q8_0, ..self.clone() };
            let needed = smaller.need(weights, dtype, work).total();
            if needed <= available {
                ways.push(format!("--kv-type q8_0 needs {}", bytes(needed)));
            }
        }
        let halves = std::iter::successors(work.map(Work::half), |work| Some(work.half()));
        let mut fewer =
            halves.take_while(|work| work.frames >= 4).map(|work| (work.frames, need(dtype, Some(&work))));
        if let Some((frames, needed)) = fewer.find(|way| way.1 <= available) {
            ways.push(format!("--frames {frames} needs {}", bytes(needed)));
        }
        if self.drafter.is_some() {
            let alone = Self { drafter: None, ..self.clone() };
            let needed = alone.need(weights, dtype, work).total();
            if needed <= available {
                ways.push(format!("without a drafter it needs {}", bytes(needed)));
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
    use std::path::Path;

    use super::*;
    use crate::model::processor::FrameLimits;

    fn pair(dtype: WeightType) -> Footprint {
        let read = |part: &str| {
            Facts::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo").join(part)).unwrap()
        };
        let (target, drafter) = (read("target"), Some(read("drafter")));
        Footprint { names: "a with b".into(), dtype, kv_type: KvType::Auto, target, drafter, mapped: 0 }
    }

    fn long(pair: &Footprint) -> Work {
        let video = Video { frames: 512, size: (720, 1280), limits: FrameLimits::default(), new_tokens: 256 };
        Work { sample: pair.target.sample(&video).unwrap(), frames: 512, new_tokens: 256 }
    }

    #[test]
    fn what_fits_passes() {
        let pair = pair(WeightType::Auto);
        let work = long(&pair);
        let need = pair.need(true, WeightType::Auto, Some(&work)).total();
        assert_eq!(pair.fits(true, Some(&work), need), Ok(()));
        let failure = pair.fits(true, Some(&work), need - 1).unwrap_err();
        assert_eq!((failure.class, failure.class.exit_code()), (FailureClass::Memory, 4));
        assert!(failure.error.starts_with("a with b in q8_0 need about "), "{}", failure.error);
    }

    #[test]
    fn a_run_of_loaded_models_needs_no_weights() {
        let pair = pair(WeightType::Auto);
        let work = long(&pair);
        let (whole, run) = (pair.need(true, WeightType::Auto, Some(&work)), pair.run_bytes(&work));
        assert_eq!(run, whole.total() - whole.weights - whole.tower);
        assert_eq!(pair.fits(false, Some(&work), run), Ok(()));
        let failure = pair.fits(false, Some(&work), run - 1).unwrap_err();
        assert!(failure.error.contains("for this video"), "{}", failure.error);
        let hint = failure.hint.unwrap();
        assert!(hint.contains("--frames 256 needs") && !hint.contains("--dtype"), "{hint}");
    }

    #[test]
    fn mapped_weights_are_not_available_to_a_run() {
        let pair = pair(WeightType::Auto);
        let Some(available) = usable() else { return };
        assert!(pair.check_available(available / 4));
        let pair = pair.with_mapped(available);
        assert!(!pair.check_available(available / 4));
        assert!(pair.check_run(&long(&pair)).is_err());
    }

    #[test]
    fn the_alternatives_fit() {
        let pair = pair(WeightType::F32);
        let work = long(&pair);
        let at = |dtype, work: &Work| pair.need(true, dtype, Some(work)).total();
        // A little less than f32 takes: bf16 fits, and so do fewer frames.
        let available = at(WeightType::F32, &work) - 1;
        let hint = pair.fits(true, Some(&work), available).unwrap_err().hint.unwrap();
        assert!(hint.contains("--dtype bf16 needs") && hint.contains("--frames 256 needs"), "{hint}");
        assert!(
            hint.contains("without a drafter it needs") && hint.ends_with("--ignore-memory tries it anyway")
        );
        assert!(at(WeightType::F32, &work.half()) <= available && at(WeightType::Bf16, &work) <= available);
        assert!(hint.contains("; or --kv-type q8_0 needs "), "{hint}");
        let nothing = pair.fits(true, Some(&work), 1).unwrap_err().hint.unwrap();
        assert!(nothing.contains("a smaller model"), "{nothing}");
    }
}
