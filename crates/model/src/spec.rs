//! Which models to run, and on what.

use std::path::PathBuf;

use crate::{draft_head, family::Rope};
use specreel_checkpoint::{ModelFiles, WeightCache};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::{CheckpointError, ComputeDevice, DeviceChoice, DeviceMemory, KvType, WeightType};

/// Which models to run, on what, in which weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSpec {
    /// The target: a directory in Hugging Face layout, or a GGUF file.
    pub target: PathBuf,
    /// The vision tower of a target in GGUF; `None`: the mmproj file in its directory.
    pub mmproj: Option<PathBuf>,
    /// The directory of a LoRA adapter that is added to the target's weights.
    pub lora: Option<PathBuf>,
    /// The drafter, as the target; `None` for methods without a draft model.
    pub drafter: Option<PathBuf>,
    /// The vision tower of a drafter in GGUF; `None`: the mmproj file in its directory.
    pub drafter_mmproj: Option<PathBuf>,
    /// Directories of draft heads ([`draft_head`]).
    pub heads: Vec<PathBuf>,
    pub device: DeviceChoice,
    /// Device of the drafter; `None` = the target's.
    pub drafter_device: Option<DeviceChoice>,
    /// Weight type of the language models.
    pub dtype: WeightType,
    /// Weight type of the drafter, to which a GGUF file is converted; `None` = as the target.
    pub drafter_dtype: Option<WeightType>,
    /// How many ids the drafter's head has rows for, the most frequent ones; `None` = as [`draft_ids`](Self::draft_ids) says.
    pub drafter_vocabulary: Option<usize>,
    /// Weight type of the vision towers on a CPU.
    pub tower_dtype: WeightType,
    /// Type of the KV cache on the CPU.
    pub kv_type: KvType,
    /// Positions of a prompt's tokens, for both models.
    pub rope: Rope,
    /// Where converted weights are kept; none to convert them at every start.
    pub weight_cache: Option<WeightCache>,
}

/// Ids that a draft model drafts from if its vocabulary has at least half as many again. The head of a small model with a large vocabulary
/// is a third of what it reads for a token; all other ids are 2 % of what Qwen2.5-Coder writes in prose and code.
const DRAFT_IDS: usize = 65536;

impl ModelSpec {
    /// How many of a drafter's ids its head has rows for: 65,536 of a vocabulary of at least half as many again, unless
    /// `drafter_vocabulary` says otherwise; `None` = all.
    pub fn draft_ids(&self, vocabulary: usize) -> Option<usize> {
        self.drafter_vocabulary.or((vocabulary >= DRAFT_IDS * 3 / 2).then_some(DRAFT_IDS))
    }

    /// The target's files, with its adapter.
    pub fn target_files(&self) -> Result<ModelFiles, CheckpointError> {
        ModelFiles::open(&self.target, self.mmproj.as_deref())?.with_lora(self.lora.as_deref())
    }

    /// True if the target's checkpoint has a layer for multi-token prediction ([`draft_head::mtp`]); `None` if it cannot be read.
    pub fn target_predicts(&self) -> Option<bool> {
        let checkpoint = self.target_files().ok()?.checkpoint().ok()?;
        Some(draft_head::mtp::is_in(&checkpoint))
    }

    /// The drafter's files; `None` without a drafter.
    pub fn drafter_files(&self) -> Result<Option<ModelFiles>, CheckpointError> {
        let open = |drafter: &PathBuf| ModelFiles::open(drafter, self.drafter_mmproj.as_deref());
        self.drafter.as_ref().map(open).transpose()
    }

    /// Check that the requested weight type applies to a model. GGUF files keep their types; the type of most of their weights
    /// may be requested. Fails if both models are GGUF files of other types (class usage).
    pub fn check_dtype(&self, target: &ModelFiles, drafter: Option<&ModelFiles>) -> Result<(), Failure> {
        let drafter = drafter.filter(|_| self.drafter_dtype.is_none());
        let (dtype, mut files) = (self.dtype, std::iter::once(target).chain(drafter));
        let fixed =
            |files: &ModelFiles| files.gguf().is_some_and(|model| model.main_type().name() != dtype.name());
        if dtype == WeightType::Auto || !files.all(fixed) {
            return Ok(());
        }
        let held = target.gguf().map_or("", |model| model.main_type().name());
        Err(Failure {
            class: FailureClass::Usage,
            error: format!(
                "the weight type {} does not apply to {}: a GGUF file keeps its types (mostly {held})",
                dtype.name(),
                target.path().display()
            ),
            hint: Some(format!("omit it, or use a GGUF file in {}", dtype.name())),
        })
    }

    pub fn open_target_device(&self) -> Result<ComputeDevice, Failure> {
        ComputeDevice::open(self.device, self.dtype)?.with_tower(self.tower_dtype).with_kv_type(self.kv_type)
    }

    /// The memory of the target's device, and of the drafter's.
    pub fn memories(&self) -> [DeviceMemory; 2] {
        [self.device, self.drafter_device.unwrap_or(self.device)].map(DeviceChoice::memory)
    }

    /// Open the drafter's device, with a queue of its own.
    pub fn open_drafter_device(&self) -> Result<ComputeDevice, Failure> {
        let dtype = self.drafter_dtype.unwrap_or(self.dtype);
        let device = ComputeDevice::open(self.drafter_device.unwrap_or(self.device), dtype)?;
        let device = device.with_tower(self.tower_dtype);
        // With a target on the CPU, a drafter on another device has a type of that device if the requested one is not available there.
        Ok(device.clone().with_kv_type(self.kv_type).unwrap_or(device))
    }
}
