//! Checks that the machine has the memory that models and a run need, before minutes are spent on loading or
//! prefill.

use super::Kept;
use crate::command::RunRequest;
use specreel_checkpoint::ModelFiles;
use specreel_model::ReadModel as _;
use specreel_model::{
    ModelSpec,
    inspect::{Facts, Need, VideoInputs},
    processor::FrameSize,
};
use specreel_os::memory;
use specreel_record::{Failure, FailureClass, units::bytes};
use specreel_tensor::{DeviceMemory, KvType, WeightType};
use specreel_video::{self as video, Rule};

pub use specreel_model::inspect::SampledVideo as Video;

/// Memory reserved for everything else, in bytes.
const RESERVE: u64 = 64 << 20;

/// Refuse models (and a video, if it is known) that do not fit into the available memory. Models without an
/// estimate pass: loading them reports the problem. The failure (class memory) has the estimate, the
/// available memory, and alternatives that would fit.
pub fn check(spec: &ModelSpec, video: Option<&Video>) -> Result<(), Failure> {
    Footprint::read(spec).map_or(Ok(()), |footprint| footprint.check_loading(video))
}

/// Available memory without the reserve; `None` if it is not known.
fn usable() -> Option<u64> {
    Some(memory::available()?.saturating_sub(RESERVE))
}

/// [`check`] for the video of a request. A video that cannot be read passes: the run itself reports that better.
pub fn check_request(spec: &ModelSpec, request: &RunRequest) -> Result<(), Failure> {
    check(spec, sampled(&rule(spec), request).as_ref())
}

/// Bytes of the system's memory that these models take with a request, or alone if its video cannot be read;
/// `None` if that is not known.
pub fn request_bytes(spec: &ModelSpec, request: &RunRequest) -> Option<u64> {
    let footprint = Footprint::read(spec)?;
    let work = sampled(&rule(spec), request).and_then(|video| footprint.work(&video));
    Some(footprint.need(&Pool::System, true, footprint.dtype, work.as_ref()).total())
}

/// The frames that a request samples from its video. Fails if the video cannot be read.
pub fn request_video(spec: &ModelSpec, request: &RunRequest) -> Result<Video, Failure> {
    sampled_or(&rule(spec), request)
}

/// The frames that a request samples from its video, by a family's rule; `None` if the video cannot be read.
pub(crate) fn sampled(rule: &Rule, request: &RunRequest) -> Option<Video> {
    sampled_or(rule, request).ok()
}

fn sampled_or(rule: &Rule, request: &RunRequest) -> Result<Video, Failure> {
    let probe = match &request.held {
        Some(held) => held.probe().clone(),
        None => video::probe(&request.video)?,
    };
    let all = request.held.as_ref().map_or(probe.frame_count.get(), |held| held.total());
    let total =
        request.span.map_or(all, |span| all.min((span.seconds() * probe.fps).ceil().max(1.0) as usize));
    let plan = video::sampling::plan(total, probe.fps, rule, request.sampling).map_err(video::Error::from)?;
    Ok(Video {
        frames: plan.indices.len(),
        size: FrameSize::new(probe.height as usize, probe.width as usize),
        limits: request.limits(),
        new_tokens: request.max_new_tokens,
    })
}

/// How the target of these models samples frames.
pub fn rule(spec: &ModelSpec) -> Rule {
    let read = || -> Option<Rule> {
        let files = spec.target_files().ok()?;
        let config = files.config().ok()?;
        let processor = files.processor(&config.tower().ok()?).ok()?;
        Some(config.family.rule(processor.config()))
    };
    read().unwrap_or(Rule::QWEN_VL)
}

/// The context window of these models' target, in tokens; `None` if its configuration cannot be read.
pub fn context_window(spec: &ModelSpec) -> Option<usize> {
    Some(spec.target_files().ok()?.config().ok()?.text.max_positions)
}

/// The work that one run adds to loaded models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The video as the processor splits it.
    pub sample: VideoInputs,
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

#[derive(Clone)]
pub(crate) struct Footprint {
    names: String,
    dtype: WeightType,
    /// The drafter's, if it is not the target's.
    drafter_dtype: Option<WeightType>,
    kv_type: KvType,
    target: Facts,
    drafter: Option<Facts>,
    /// Where target and drafter are.
    memories: [DeviceMemory; 2],
    /// Bytes of loaded weights that are parts of mapped files. The system counts their memory as available, because it can
    /// read them again; but every pass needs them.
    mapped: u64,
}

impl Footprint {
    /// The same for loaded models that have this many mapped bytes.
    pub(crate) fn with_mapped(self, mapped: u64) -> Self {
        Self { mapped, ..self }
    }

    /// Read the sizes of the models. `None` if they cannot be read, or if the target is on an accelerator
    /// that does not report its memory: such an accelerator refuses what does not fit.
    pub(crate) fn read(spec: &ModelSpec) -> Option<Self> {
        let memories = spec.memories();
        if memories[0] == DeviceMemory::Unknown {
            return None;
        }
        let (files, beside) = (spec.target_files().ok()?, spec.drafter_files().ok().flatten());
        let names = std::iter::once(&files).chain(&beside).map(ModelFiles::name);
        let names = names.collect::<Vec<_>>().join(" with ");
        let read = |files: ModelFiles, dtype: WeightType| {
            Some(Facts::read_files(&files).ok()?.with_tower(dtype.tower(spec.tower_dtype)))
        };
        let read_drafter = |files| {
            let mut facts = read(files, spec.drafter_dtype.unwrap_or(spec.dtype))?;
            if spec.drafter_dtype.is_some() {
                // It is converted from the types of its file.
                (facts.stored, facts.on_gpu) = (None, 0);
            }
            Some(facts)
        };
        let drafter = beside.filter(|_| memories[1] != DeviceMemory::Unknown);
        Some(Self {
            names,
            dtype: spec.dtype,
            drafter_dtype: spec.drafter_dtype,
            kv_type: spec.kv_type,
            target: read(files, spec.dtype)?,
            drafter: drafter.and_then(read_drafter),
            memories,
            mapped: 0,
        })
    }

    /// Both models with their types, if `dtype` is requested.
    fn models(&self, dtype: WeightType) -> impl Iterator<Item = (&Facts, WeightType)> {
        let drafter = self.drafter.iter().map(move |facts| (facts, self.drafter_dtype.unwrap_or(dtype)));
        std::iter::once((&self.target, dtype)).chain(drafter)
    }

    /// Refuse models that do not fit into the available memory, with a video if it is known.
    pub(crate) fn check_loading(&self, video: Option<&Video>) -> Result<(), Failure> {
        let Some(available) = usable() else { return Ok(()) };
        self.fits(true, video.and_then(|video| self.work(video)).as_ref(), available)
    }

    fn work(&self, video: &Video) -> Option<Work> {
        let sample = self.target.sample(video)?;
        Some(Work { sample, frames: video.frames, new_tokens: video.new_tokens })
    }

    /// True if the models that are not kept fit into memory while the old ones are still loaded. A card's
    /// free memory is not known, so the result is false there.
    pub(crate) fn fits_beside(&self, kept: Kept) -> bool {
        let loads = [!kept.target, self.drafter.is_some() && !kept.drafter];
        let mut memories =
            self.memories.iter().zip(loads).filter_map(|(memory, loads)| loads.then_some(memory));
        let Some(available) = usable().filter(|_| memories.all(|memory| *memory == DeviceMemory::System))
        else {
            return false;
        };
        let needs = self.models(self.dtype).zip(loads).filter(|(_, loads)| *loads);
        let needs = needs.map(|((facts, dtype), _)| facts.need(dtype, self.kv_type, None, 0).total());
        needs.sum::<u64>() <= available
    }

    /// Refuse the models that are not kept if they do not fit into the available memory.
    pub(crate) fn check_alone(&self, kept: Kept) -> Result<(), Failure> {
        let (drafter, drafter_dtype) = (self.drafter.clone().filter(|_| !kept.drafter), self.drafter_dtype);
        let other = match (kept.target, drafter) {
            (false, drafter) => Self { drafter, ..self.clone() },
            // The drafter is checked as if it were the target.
            (true, Some(target)) => {
                let [_, memory] = &self.memories;
                let memories = [memory.clone(), memory.clone()];
                let dtype = drafter_dtype.unwrap_or(self.dtype);
                Self { target, drafter: None, dtype, memories, ..self.clone() }
            }
            (true, None) => return Ok(()),
        };
        other.check_loading(None)
    }

    /// Bytes of the weights of the models that are not kept.
    pub(crate) fn weights(&self, kept: Kept) -> u64 {
        let needs = self.models(self.dtype).zip([kept.target, kept.drafter]).filter(|(_, kept)| !kept);
        let needs = needs.map(|((facts, dtype), _)| facts.need(dtype, self.kv_type, None, 0));
        needs.map(|need| need.weights + need.tower).sum()
    }

    /// Refuse models that do not fit into the available memory, including the bytes that are freed before loading.
    pub(crate) fn check_replacing(&self, freed: u64) -> Result<(), Failure> {
        let Some(available) = usable() else { return Ok(()) };
        self.fits(true, None, available + freed)
    }

    /// Bytes that a run adds to the loaded models.
    pub(crate) fn run_bytes(&self, work: &Work) -> u64 {
        self.need(&Pool::System, false, self.dtype, Some(work)).total()
    }

    /// Peak memory of the process during a run of the loaded models.
    pub(crate) fn peak_bytes(&self, work: &Work) -> u64 {
        memory::peak().max(memory::resident(self.mapped) + self.run_bytes(work))
    }

    /// True if the machine has this many bytes available, or does not report it.
    pub(crate) fn check_available(&self, bytes: u64) -> bool {
        self.usable().is_none_or(|available| bytes <= available)
    }

    /// Refuse a run of the loaded models that does not fit into the available memory.
    pub(crate) fn check_run(&self, work: &Work) -> Result<(), Failure> {
        self.usable().map_or(Ok(()), |available| self.fits(false, Some(work), available))
    }

    /// Refuse a caption of up to `new_tokens` in a kept context if `wanted` more bytes are not available.
    pub(crate) fn check_growth(&self, wanted: u64, new_tokens: usize) -> Result<(), Failure> {
        // A card's free memory is not known.
        let available = self.usable().filter(|_| self.memories[0] == DeviceMemory::System);
        let Some(available) = available.filter(|available| wanted > *available) else { return Ok(()) };
        Err(Failure {
            class: FailureClass::Memory,
            error: format!(
                "a caption of up to {new_tokens} tokens takes about {} more, but {} are available",
                bytes(wanted),
                bytes(available)
            ),
            hint: Some("use a lower --max-new-tokens; or --ignore-memory tries it anyway".into()),
        })
    }

    /// Available memory without the reserve and the weights that stay mapped; `None` if it is not known.
    fn usable(&self) -> Option<u64> {
        usable().map(|available| available.saturating_sub(self.mapped))
    }

    /// Bytes that kept contexts may use, out of the available bytes.
    pub(crate) fn budget(&self, available: Option<u64>) -> Option<u64> {
        // Contexts on a card share what its weights leave.
        let left = self.cards().into_iter().map(|card| {
            let Need { weights, tower, .. } = self.need(&card, true, self.dtype, None);
            card.size(u64::MAX).saturating_sub(weights + tower)
        });
        left.chain(available).min()
    }

    fn cards(&self) -> Vec<Pool> {
        let used = if self.drafter.is_some() { 2 } else { 1 };
        let mut cards = Vec::new();
        for memory in &self.memories[..used] {
            if let DeviceMemory::Own { device, bytes } = memory {
                let card = Pool::Card { device: device.clone(), bytes: *bytes };
                if !cards.contains(&card) {
                    cards.push(card);
                }
            }
        }
        cards
    }

    /// Bytes that both models, with or without their weights, and a run need in one memory. The models share
    /// the video's patches.
    fn need(&self, pool: &Pool, weights: bool, dtype: WeightType, work: Option<&Work>) -> Need {
        let one = |((facts, dtype), memory): ((&Facts, WeightType), &DeviceMemory)| {
            let (sample, new_tokens) =
                (work.map(|work| &work.sample), work.map_or(0, |work| work.new_tokens));
            let mut need = facts.need(dtype, self.kv_type, sample, new_tokens);
            if facts.stored.is_some() && matches!(pool, Pool::Card { .. }) {
                need.weights = facts.on_gpu;
            }
            let need = pool.part(memory, need);
            if weights { need } else { Need { weights: 0, tower: 0, ..need } }
        };
        let patches = work.map_or(0, |work| 4 * work.sample.patch_values as u64);
        let shared = Need { work: if *pool == Pool::System { patches } else { 0 }, ..Need::default() };
        let both = self.models(dtype).zip(&self.memories);
        both.map(one).fold(shared, |a, b| a + b)
    }

    fn fits(&self, weights: bool, work: Option<&Work>, available: u64) -> Result<(), Failure> {
        self.fits_in(&Pool::System, weights, work, available)?;
        // A card's total memory is known, but not its free memory, so weights are counted for a run as well.
        self.cards().iter().try_for_each(|card| self.fits_in(card, true, work, 0))
    }

    fn fits_in(
        &self,
        pool: &Pool,
        weights: bool,
        work: Option<&Work>,
        available: u64,
    ) -> Result<(), Failure> {
        let available = pool.size(available);
        let need = self.need(pool, weights, self.dtype, work);
        let total = need.total();
        if total <= available {
            return Ok(());
        }
        let dtype = if self.dtype == WeightType::Auto { WeightType::Q8_0 } else { self.dtype };
        let (names, needs) = (&self.names, if self.drafter.is_some() { "need" } else { "needs" });
        let but = match pool {
            Pool::System => format!("but {} are available", bytes(available)),
            Pool::Card { device, bytes: all } => format!("but {device} has {}", bytes(*all)),
        };
        let error = if weights {
            let held = need.weights + need.tower;
            format!(
                "{names} in {} {needs} about {} ({} weights, {} for the video and buffers), {but}",
                self.target.stored.map_or(dtype.name(), |stored| stored.1),
                bytes(total),
                bytes(held),
                bytes(total - held),
            )
        } else {
            format!("{names} {needs} about {} for this video, {but}", bytes(total))
        };
        let hint = Some(self.alternatives(pool, weights, dtype, work, available));
        Err(Failure { class: FailureClass::Memory, error, hint })
    }

    /// Alternatives that would fit, to show to users.
    fn alternatives(
        &self,
        pool: &Pool,
        weights: bool,
        dtype: WeightType,
        work: Option<&Work>,
        available: u64,
    ) -> String {
        let need = |dtype, work: Option<&Work>| self.need(pool, weights, dtype, work).total();
        let mut ways = Vec::new();
        // The type of loaded weights does not change.
        let smaller = WeightType::ALL.into_iter().skip_while(|other| *other != dtype).skip(1);
        let mut smaller = smaller
            .map(|dtype| (dtype.name(), need(dtype, work)))
            .filter(|_| weights && self.target.stored.is_none());
        if let Some((dtype, needed)) = smaller.find(|way| way.1 <= available) {
            ways.push(format!("--dtype {dtype} needs {}", bytes(needed)));
        }
        if weights && pool.has_kv_types() && self.kv_type != KvType::Q8_0 {
            let smaller = Self { kv_type: KvType::Q8_0, ..self.clone() };
            let needed = smaller.need(pool, weights, dtype, work).total();
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
            let needed = alone.need(pool, weights, dtype, work).total();
            if needed <= available {
                ways.push(format!("without a drafter it needs {}", bytes(needed)));
            }
        }
        if *pool != Pool::System {
            ways.push("--device cpu uses the system's memory".into());
        }
        if ways.is_empty() {
            ways.push("use a smaller model, or free memory".into());
        }
        ways.push("--ignore-memory tries it anyway".into());
        ways.join("; or ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pool {
    System,
    Card { device: String, bytes: u64 },
}

impl Pool {
    /// True if the type of keys and values can be chosen, which candle's devices do not support.
    fn has_kv_types(&self) -> bool {
        match self {
            Pool::System => true,
            Pool::Card { device, .. } => device.starts_with("gpu:"),
        }
    }

    /// Bytes that may be used: the available bytes of the system, or all of a card except a share for its
    /// driver and the desktop.
    fn size(&self, available: u64) -> u64 {
        match self {
            Pool::System => available,
            Pool::Card { bytes, .. } => bytes - bytes / 16,
        }
    }

    /// The part of a model's need that falls on this pool if the model is in `memory`. Rows pass through
    /// both.
    fn part(&self, memory: &DeviceMemory, need: Need) -> Need {
        match (self, memory) {
            (Pool::System, DeviceMemory::System) => need,
            (Pool::System, DeviceMemory::Own { .. }) => Need { work: need.work, ..Need::default() },
            (Pool::Card { device, .. }, DeviceMemory::Own { device: other, .. }) if device == other => need,
            _ => Need::default(),
        }
    }
}

#[cfg(test)]
#[path = "memory_check_tests.rs"]
mod tests;
