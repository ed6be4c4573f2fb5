//! The loaded pair of models: which checkpoints work together, on which devices, and in which weight types.

mod drafters;
mod grammars;
pub mod memory_check;
mod mtp_layer;
pub mod sampling;
mod self_draft;
mod texts;

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use self::{
    grammars::Grammars, memory_check::Footprint, mtp_layer::MtpLayer, self_draft::SelfDrafters, texts::Texts,
};
use crate::events::{CancelToken, EventSender, internal};
use specreel_checkpoint::{LoadProgress, ModelFiles};
use specreel_demo as assets;
use specreel_model::{
    ModelSpec,
    decoder::parts,
    draft_head::{DraftHead, DraftHeadConfig, Recipe, mtp},
    family::{ModelError, Rope, VideoLlm},
};
use specreel_record::{EventKind, Failure, FailureClass, LoadedParts, Stage, Traffic};
use specreel_speculate::{SamplingControls, TextSampling};
use specreel_tensor::{CheckpointError, ComputeDevice, WeightType, gpu::Gpu};

/// Minimum time before the time left is reported.
const PROMPTLY: Duration = Duration::from_millis(500);
/// The time left is not reported before one of this many parts is read either.
const PARTS: usize = 16;

pub struct Models {
    pub target: VideoLlm,
    pub drafter: Option<VideoLlm>,
    /// Heads that may draft from the target's states.
    pub heads: Vec<Arc<DraftHead>>,
    /// Device, to show to users.
    pub device: String,
    /// Weight type, to show to users.
    pub dtype: String,
    /// Memory that the models and a run need; `None` if that is not known (accelerators).
    pub(crate) footprint: Option<Footprint>,
    pub embedded: bool,
    requested: WeightType,
    /// The target in weights of fewer bits, for methods that draft with it.
    pub(crate) self_drafters: SelfDrafters,
    /// The target's own layer for multi-token prediction, for methods that ask for it.
    pub(crate) mtp: MtpLayer,
    /// Texts that the target has written.
    pub(crate) texts: Texts,
    /// Constraints, compiled against the target's vocabulary.
    pub(crate) grammars: Grammars,
    rope: Rope,
}

impl Models {
    /// How a text is sampled with the target.
    pub fn sampling(&self, controls: &SamplingControls) -> TextSampling {
        let tokenizer = self.target.tokenizer();
        let TextSampling { sampler, mut processors, breakers } = controls.resolve(tokenizer.sampling());
        if processors.dry.multiplier != 0.0 {
            processors.dry.breakers = tokenizer.ids_containing(&breakers);
        }
        TextSampling { sampler, processors, breakers }
    }

    /// True if a GPU that holds one of the models is lost: they cannot run again.
    pub(crate) fn are_lost(&self) -> bool {
        self.gpus().any(|gpu| gpu.check().is_err())
    }

    /// Traffic to and from the models' GPUs so far; `None` without a GPU.
    pub fn traffic(&self) -> Option<Traffic> {
        self.gpus().map(Gpu::traffic).reduce(|a, b| a + b)
    }

    /// The GPU of each model that is on one.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = &Gpu> {
        self.all().filter_map(|model| model.device().gpu())
    }

    fn all(&self) -> impl Iterator<Item = &VideoLlm> {
        std::iter::once(&self.target).chain(&self.drafter)
    }

    /// The loaded parts that methods can draft with.
    pub fn parts(&self) -> LoadedParts {
        LoadedParts {
            drafter: self.drafter.is_some(),
            heads: self.heads.iter().map(|head| head.config().recipe.name().to_owned()).collect(),
            mtp: self.mtp.exists(),
            linear_attention: self.target.decoder().config().linear.is_some(),
        }
    }

    /// Notes for users about how these checkpoints are used.
    pub fn notes(&self) -> Vec<String> {
        let rope = (self.rope == Rope::Sequential && self.target.decoder().config().mrope_section.is_some())
            .then(|| "positions use one axis (--rope sequential) instead of the model's three".to_owned());
        let odd = |model: &VideoLlm| {
            let WeightType::Of(requested) = self.requested else { return None };
            if model.stored_type().is_some() {
                return None;
            }
            let (held, width) = parts::fallback(model.decoder().config(), self.requested)?;
            let (name, asked, held) = (model.name(), requested.name(), held.name());
            let block = requested.block();
            Some(format!(
                "{name}: matrices of width {width} are stored as {held}: the width is not a multiple of {block}, the block size of \
                 {asked}"
            ))
        };
        let odd = self.all().filter_map(odd);
        let range = |model: &VideoLlm| model.decoder().config().max_positions;
        let short = self.drafter.as_ref().filter(|drafter| range(drafter) < range(&self.target));
        let short = short.map(|drafter| {
            format!(
                "{} has a context window of {} positions, but {} has {}: on longer prompts few of its drafts are accepted; let the \
                 drafter see less (context.keep, with context.positions=compact) or draft with the target (std, specvlm-self)",
                drafter.name(),
                range(drafter),
                self.target.name(),
                range(&self.target)
            )
        });
        let kept = self.all().filter_map(|model| model.cache_note().map(str::to_owned));
        // Both models may be on one GPU.
        let gpus: BTreeSet<String> = self.gpus().flat_map(Gpu::notes).collect();
        rope.into_iter().chain(odd).chain(short).chain(kept).chain(gpus).collect()
    }

    /// Load models of this footprint, checking that the drafter can draft for the target. Fails if a device
    /// is missing, a checkpoint cannot be used, or the two models do not fit together.
    pub fn load(
        spec: &ModelSpec,
        footprint: Option<Footprint>,
        sender: &EventSender,
        cancel: &CancelToken,
    ) -> Result<Self, Failure> {
        let halves = Halves::load(spec, Kept::default(), sender, cancel)?;
        Self::pair(spec, halves, footprint, &mut None)
    }

    /// Complete these halves with the loaded models, which are left unchanged on failure. Fails if the
    /// drafter cannot draft for the target, or a draft head does not belong to the target.
    pub(crate) fn pair(
        spec: &ModelSpec,
        halves: Halves,
        footprint: Option<Footprint>,
        loaded: &mut Option<Self>,
    ) -> Result<Self, Failure> {
        let target = halves.target.as_ref().map(|(target, _)| target);
        let Some(target) = target.or(loaded.as_ref().map(|models| &models.target)) else {
            return Err(internal("a target is kept, but none is loaded".into()));
        };
        let kept = || loaded.as_ref().and_then(|models| models.drafter.as_ref());
        let drafter = spec.drafter.as_ref().and_then(|_| halves.drafter.as_ref().or_else(kept));
        if let Some(drafter) = drafter {
            check_pair(target, drafter)?;
        }
        let stored = [target.stored_type(), drafter.and_then(VideoLlm::stored_type)];
        let (device, dtype) = describe(target.device(), drafter.map(VideoLlm::device), stored);
        let mapped = std::iter::once(target).chain(drafter);
        let mapped = mapped.map(|model| model.decoder().mapped_bytes() as u64).sum();
        let head = |dir| DraftHead::load(dir, target.decoder()).map(Arc::new);
        let heads = spec.heads.iter().map(|dir| head(dir).map_err(|e| refused(dir, e)));
        let heads = heads.collect::<Result<_, _>>()?;
        // From here on nothing fails.
        let (kept_target, kept_drafter) = match loaded.take() {
            Some(Self { target, drafter, mtp, .. }) => (Some((target, mtp.exists())), drafter),
            None => (None, None),
        };
        let Some((target, has_mtp)) = halves.target.or(kept_target) else {
            return Err(internal("a target is kept, but none is loaded".into()));
        };
        Ok(Self {
            requested: target.device().dtype(),
            target,
            drafter: halves.drafter.or(kept_drafter).filter(|_| spec.drafter.is_some()),
            heads,
            device,
            dtype,
            self_drafters: SelfDrafters::new(spec),
            mtp: MtpLayer::new(spec, has_mtp),
            texts: Texts::default(),
            grammars: Grammars::default(),
            footprint: footprint.map(|footprint| footprint.with_mapped(mapped)),
            embedded: assets::is_embedded_target(&spec.target),
            rope: spec.rope,
        })
    }
}

/// Which of the loaded models are kept for a new pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub target: bool,
    pub drafter: bool,
}

impl Kept {
    /// The models of the pair `old` that are also in `new`, loaded in the same way.
    pub fn between(old: &ModelSpec, new: &ModelSpec) -> Self {
        let ways = |spec: &ModelSpec| (spec.dtype, spec.tower_dtype, spec.kv_type, spec.rope);
        let target = |spec: &ModelSpec| {
            (spec.target.clone(), spec.mmproj.clone(), spec.lora.clone(), spec.device, ways(spec))
        };
        let drafter = |spec: &ModelSpec| {
            let device = spec.drafter_device.unwrap_or(spec.device);
            (
                spec.drafter.clone(),
                spec.drafter_mmproj.clone(),
                device,
                (spec.drafter_dtype, spec.drafter_vocabulary),
                ways(spec),
            )
        };
        Self {
            target: target(old) == target(new),
            drafter: new.drafter.is_some() && drafter(old) == drafter(new),
        }
    }
}

/// Estimates the remaining time of a load from the tensors read so far.
#[derive(Clone, Copy, Debug, Default)]
struct LoadPace {
    /// Tensors read at the first report of any, and when: earlier work, such as the tokenizer, does not
    /// predict the rest.
    first: Option<(usize, Duration)>,
    /// Tensors read at the last report.
    last: usize,
}

impl LoadPace {
    /// Milliseconds left, where `now` is the time since the start; `None` until enough is read for an
    /// estimate.
    fn left_ms(&mut self, done: usize, total: usize, now: Duration) -> Option<f64> {
        // The count restarts if kept weights are compared first. Threads may report out of order.
        let goes_on = done >= self.last / 2;
        self.first = self.first.filter(|_| goes_on).or((done > 0).then_some((done, now)));
        self.last = done;
        let (before, since) = self.first?;
        let (read, passed) = (done.saturating_sub(before), now.saturating_sub(since));
        let enough = passed > PROMPTLY && read * PARTS >= total && read > 0;
        enough.then(|| passed.as_secs_f64() * 1e3 * total.saturating_sub(done) as f64 / read as f64)
    }
}

/// Reports the progress of a load from any thread; breaks if the load is cancelled.
pub(crate) fn load_progress(sender: &EventSender, cancel: &CancelToken) -> LoadProgress {
    let (sender, cancel, begun) = (sender.clone(), cancel.clone(), Instant::now());
    let (percent, pace) = (AtomicUsize::new(usize::MAX), Mutex::new(LoadPace::default()));
    Arc::new(move |done, total| {
        if cancel.is_cancelled() {
            return ControlFlow::Break(());
        }
        // Checkpoints call this often.
        let now = done * 100 / total.max(1);
        if percent.swap(now, Ordering::Relaxed) != now {
            let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
            let left_ms = pace.left_ms(done, total, begun.elapsed());
            let (done, total) = (done as u64, total as u64);
            sender.offer(EventKind::Stage { stage: Stage::Load, done, total, left_ms });
        }
        ControlFlow::Continue(())
    })
}

/// The models of a pair that are not kept from another one; the target's flag says whether it has a layer for multi-token prediction.
pub(crate) struct Halves {
    target: Option<(VideoLlm, bool)>,
    drafter: Option<VideoLlm>,
}

impl Halves {
    /// Load the models. Fails if a device is missing, a checkpoint cannot be used, or loading is cancelled.
    pub fn load(
        spec: &ModelSpec,
        kept: Kept,
        sender: &EventSender,
        cancel: &CancelToken,
    ) -> Result<Self, Failure> {
        // Open both before either model is read, so that a missing device is reported at once.
        let target_device = (!kept.target).then(|| spec.open_target_device()).transpose()?;
        let loads_drafter = spec.drafter.is_some() && !kept.drafter;
        let beside = loads_drafter.then(|| spec.open_drafter_device()).transpose()?;
        let read = |files: &ModelFiles, device: &ComputeDevice, [requantized, drafts]: [bool; 2]| {
            let checkpoint = VideoLlm::open(files)?;
            let checkpoint = if requantized { checkpoint.requantized() } else { checkpoint };
            let checkpoint = checkpoint
                .with_progress(load_progress(sender, cancel))
                .with_weight_cache(spec.weight_cache.clone());
            let model = VideoLlm::from_checkpoint(&checkpoint, device, &mut |_, _| {})?;
            let ids = spec.draft_ids(model.decoder().config().vocab);
            let model = match ids.filter(|_| drafts) {
                Some(size) => model.with_vocabulary(&checkpoint, size)?,
                None => model,
            };
            Ok::<_, ModelError>((model, mtp::is_in(&checkpoint)))
        };
        let (files, drafter_files) = (spec.target_files()?, spec.drafter_files()?);
        spec.check_dtype(&files, drafter_files.as_ref())?;
        let target = target_device.map(|device| {
            let (target, has_mtp) = read(&files, &device, [false; 2])?;
            Ok::<_, ModelError>((target.with_rope(spec.rope)?, has_mtp))
        });
        let target = target.transpose()?;
        let drafter = drafter_files.as_ref().zip(beside.as_ref());
        let requantized = spec.drafter_dtype.is_some();
        let drafter =
            drafter.map(|(files, device)| Ok::<_, ModelError>(read(files, device, [requantized, true])?.0));
        let drafter = drafter.transpose()?;
        Ok(Self { target, drafter })
    }

    /// Target and drafter, if they were loaded.
    pub fn models(&self) -> [Option<&VideoLlm>; 2] {
        [self.target.as_ref().map(|(target, _)| target), self.drafter.as_ref()]
    }
}

/// Refuse a drafter of another family or vocabulary, or one that splits frames differently.
fn check_pair(target: &VideoLlm, drafter: &VideoLlm) -> Result<(), Failure> {
    let refuse = |problem: String| Failure {
        class: FailureClass::Input,
        error: format!("{} cannot draft for {}: {problem}", drafter.name(), target.name()),
        hint: Some("use a smaller checkpoint of the target's family".into()),
    };
    if target.family() != drafter.family() {
        let [ours, theirs] = [target, drafter].map(|model| model.family().name);
        return Err(refuse(format!("its family is {theirs}, not {ours}")));
    }
    target.tokenizer().same_vocabulary(drafter.tokenizer()).map_err(|e| refuse(e.to_string()))?;
    if target.processor().config().temporal != drafter.processor().config().temporal {
        return Err(refuse("its patches span a different number of frames".into()));
    }
    Ok(())
}

/// The failure of a draft head that does not fit the target.
fn refused(dir: &Path, error: CheckpointError) -> Failure {
    let failure = Failure::from(error);
    let recipe = DraftHeadConfig::read(dir).map_or(Recipe::Sparrow, |config| config.recipe);
    let hint = format!("a draft head works with the target it was trained for; {}", recipe.hint());
    Failure { error: format!("drafter {}: {}", dir.display(), failure.error), hint: Some(hint), ..failure }
}

/// Device and weight type to show to users, with the drafter's if they differ; `stored` are the types that
/// GGUF files have.
fn describe(
    target: &ComputeDevice,
    drafter: Option<&ComputeDevice>,
    stored: [Option<&str>; 2],
) -> (String, String) {
    let with = |ours: &str, theirs: Option<&str>| match theirs.filter(|theirs| *theirs != ours) {
        Some(theirs) => format!("{ours}, drafter {theirs}"),
        None => ours.to_owned(),
    };
    let dtype = |device: &ComputeDevice| device.dtype().name();
    let types =
        (stored[0].unwrap_or(dtype(target)), drafter.map(|device| stored[1].unwrap_or(dtype(device))));
    (with(target.name(), drafter.map(ComputeDevice::name)), with(types.0, types.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_tensor::{DeviceChoice, WeightType};

    #[test]
    fn the_time_left_of_a_load_follows_the_tensors_and_not_what_came_before_them() {
        let at = Duration::from_millis;
        let mut pace = LoadPace::default();
        // A second for the tokenizer; then 400 tensors in two seconds.
        assert_eq!(pace.left_ms(0, 401, at(0)), None);
        assert_eq!(pace.left_ms(1, 401, at(1000)), None);
        assert_eq!(pace.left_ms(5, 401, at(1020)), None, "too early");
        let left = pace.left_ms(201, 401, at(2000)).unwrap();
        assert!((left - 1000.0).abs() < 1e-6, "{left}");
        assert_eq!(pace.left_ms(401, 401, at(3000)), Some(0.0));
        // Slow loads report the time once enough tensors are read.
        let mut slow = LoadPace::default();
        assert_eq!((slow.left_ms(1, 401, at(0)), slow.left_ms(9, 401, at(9000))), (None, None));
        assert!(slow.left_ms(41, 401, at(40_000)).is_some_and(|left| (left - 360_000.0).abs() < 1e-3));
        // The count restarts.
        assert_eq!(slow.left_ms(2, 401, at(41_000)), None);
        assert!(slow.left_ms(102, 401, at(42_000)).is_some_and(|left| (left - 2990.0).abs() < 1.0));
    }

    #[test]
    fn the_drafters_device_is_named_if_it_differs() {
        let device = |choice| ComputeDevice::open(choice, WeightType::Auto).unwrap();
        let (cpu, tensors) = (device(DeviceChoice::Cpu), device(DeviceChoice::CpuTensors));
        assert_eq!(describe(&cpu, Some(&cpu), [None; 2]), ("cpu".into(), "q8_0".into()));
        assert_eq!(describe(&cpu, None, [None; 2]).0, "cpu");
        let both = describe(&tensors, Some(&cpu), [None; 2]);
        assert_eq!(both, ("cpu tensors, drafter cpu".into(), "bf16, drafter q8_0".into()));
        assert_eq!(describe(&cpu, Some(&cpu), [Some("q4_k"), None]).1, "q4_k, drafter q8_0");
    }
}
