//! Sizes of a checkpoint, from its configuration and the headers of its weight files.

use crate::ReadModel as _;
use std::{collections::HashSet, path::Path};

use super::{Memory, Need};
use crate::{
    config::TextConfig,
    decoder::parts,
    draft_head::mtp,
    family::{Family, ModelError, VlConfig},
    processor::{FrameLimits, FrameSize, VideoProcessor, layout::Grid},
    vision::{self, TowerConfig, TowerSizes},
};
use specreel_checkpoint::{Checkpoint, ModelFiles, StoredTensor};
use specreel_tensor::{KvType, TensorType, WeightType, ops::WORKSPACE};

/// Extra cache slots: the text of the prompt, and a draft tree.
const EXTRA_SLOTS: usize = 160;

/// Cache slots of the time stamp of a temporal grid, in families that write them.
const STAMP_SLOTS: usize = 16;

/// Patches of one product in a tower.
const TOWER_ROWS: usize = 256;

/// Rows of a prompt in one prefill chunk.
const DECODER_ROWS: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledVideo {
    /// Frames that are sampled without a limit of visual tokens.
    pub frames: usize,
    /// Of its frames.
    pub size: FrameSize,
    /// Maximum pixels per frame, and maximum visual tokens.
    pub limits: FrameLimits,
    /// Maximum length of the caption, in tokens.
    pub new_tokens: usize,
}

/// Sizes of a video's inputs to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoInputs {
    pub visual: usize,
    pub patch_values: usize,
    /// Patches of one temporal grid.
    pub grid_patches: usize,
}

impl VideoInputs {
    /// Of so many visual tokens, and patches of `row` values each.
    pub fn new(visual: usize, patches: Grid, row: usize) -> Self {
        let grid_patches = patches.h * patches.w;
        Self { visual, patch_values: patches.t * grid_patches * row, grid_patches }
    }
}

/// Sizes of a checkpoint.
#[derive(Clone)]
pub struct Facts {
    pub family: &'static Family,
    /// The language model.
    pub text: TextConfig,
    /// Parameters of the language model.
    pub text_parameters: u64,
    /// Those of them that a token takes: not all experts.
    pub active_parameters: u64,
    /// Parameters of the rest: vision tower and projector.
    pub tower_parameters: u64,
    /// Bytes per value of the loaded embedding table.
    pub table: usize,
    /// Bytes of the language model's matrices and the type of most of them, if they are used as a GGUF file has them.
    pub stored: Option<(u64, &'static str)>,
    /// Bytes of the same matrices on a GPU, which stores some types in more; 0 if they are not used as a file has them.
    pub on_gpu: u64,
    tower: TowerConfig,
    tower_dtype: WeightType,
    processor: VideoProcessor,
}

impl Facts {
    /// Read the sizes of a directory, or of a GGUF file with its mmproj file. Missing tensors and wrong shapes are no
    /// errors here.
    pub fn read(dir: &Path) -> Result<Self, ModelError> {
        Self::read_files(&ModelFiles::open(dir, None)?)
    }

    pub fn read_files(files: &ModelFiles) -> Result<Self, ModelError> {
        let config = files.config()?;
        let tower = config.tower()?;
        let processor = files.processor(&tower)?;
        Ok(Self::of(&files.checkpoint()?, config, tower, processor))
    }

    /// The sizes of a published model in 16 bits, from its configuration alone, with its family's frames.
    pub(crate) fn published(config: VlConfig) -> Result<Self, ModelError> {
        let tower = config.tower()?;
        let count =
            |tensors: Vec<(String, Vec<usize>)>| tensors.iter().map(|(_, shape)| product(shape)).sum();
        Ok(Self {
            family: config.family,
            text_parameters: count(parts::tensors(&config.text)),
            active_parameters: count(parts::tensors(&config.text)) - config.text.idle_parameters(),
            tower_parameters: count(vision::parts::tensors(&tower)),
            table: 2,
            stored: None,
            on_gpu: 0,
            processor: VideoProcessor::new(tower.frames())?,
            text: config.text,
            tower,
            tower_dtype: WeightType::F32,
        })
    }

    /// The same from files that are already open.
    pub fn of(
        checkpoint: &Checkpoint,
        config: VlConfig,
        tower: TowerConfig,
        processor: VideoProcessor,
    ) -> Self {
        let listed: u64 = parts::tensors(&config.text).iter().map(|(_, shape)| product(shape)).sum();
        // Neither a layer for multi-token prediction nor a copy of tied embeddings is loaded.
        let is_copy = |name: &str| config.text.tied && name.ends_with("lm_head.weight");
        let loaded = checkpoint.tensors().filter(|t| !mtp::is_of(t.name) && !is_copy(t.name));
        let all: u64 = loaded.map(|tensor| product(tensor.shape)).sum();
        let table = match checkpoint.files().gguf() {
            None => checkpoint.value_bytes("model.embed_tokens.weight"),
            Some(_) => {
                let table = checkpoint.tensors().find(|tensor| tensor.name.ends_with("embed_tokens.weight"));
                table.map_or(4, |table| (table.bytes / product(table.shape).max(1)) as usize)
            }
        };
        let stored = checkpoint.files().gguf().map(|model| {
            let names: HashSet<String> =
                parts::tensors(&config.text).into_iter().map(|(name, _)| name).collect();
            let matrices = checkpoint.tensors().filter(|t| t.shape.len() > 1 && names.contains(t.name));
            let sizes = matrices.map(|tensor| (tensor.bytes, on_gpu(&tensor)));
            (sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1)), model.main_type().name())
        });
        Self {
            family: config.family,
            active_parameters: listed.saturating_sub(config.text.idle_parameters()),
            text: config.text,
            text_parameters: listed,
            tower_parameters: all.saturating_sub(listed),
            table,
            stored: stored.map(|((bytes, _), name)| (bytes, name)),
            on_gpu: stored.map_or(0, |((_, bytes), _)| bytes),
            tower,
            tower_dtype: WeightType::F32,
            processor,
        }
    }

    /// The same sizes with the tower's matrices in this type (not `Auto`). They are f32 unless this says otherwise.
    pub fn with_tower(self, dtype: WeightType) -> Self {
        Self { tower_dtype: dtype, ..self }
    }

    /// Sizes of a video's inputs; `None` if the model cannot take such frames.
    pub fn sample(&self, video: &SampledVideo) -> Option<VideoInputs> {
        let config = self.processor.config();
        let plan = self.processor.plan(video.size, video.frames, video.limits).ok()?;
        Some(VideoInputs::new(plan.tokens, config.grid(plan.size, plan.frames), config.row()))
    }

    /// The frame processor's settings.
    pub fn processor(&self) -> &VideoProcessor {
        &self.processor
    }

    /// The example video for tokens and memory: half a minute of 720p at 30 frames per second, as the family samples it.
    pub fn example(&self) -> SampledVideo {
        let rule = self.family.rule(self.processor.config());
        SampledVideo {
            frames: rule.count(30 * 30, 30.0),
            size: FrameSize::new(720, 1280),
            limits: FrameLimits::default(),
            new_tokens: 256,
        }
    }

    /// Memory estimates of a run on the example in these types, with the tower in the type of each.
    pub(crate) fn memory(&self, types: &[WeightType]) -> Vec<Memory> {
        let example = self.example();
        let sample = self.sample(&example);
        let patches = sample.map_or(0, |sample| 4 * sample.patch_values as u64);
        let memory = |&dtype: &WeightType| {
            let facts = self.clone().with_tower(dtype.tower(WeightType::Auto));
            let need = facts.need(dtype, KvType::Auto, sample.as_ref(), example.new_tokens);
            Memory {
                dtype: self.stored.map_or(dtype.name(), |stored| stored.1),
                weights: need.weights + need.tower,
                run: need.total() + patches,
            }
        };
        types.iter().map(memory).collect()
    }

    /// Memory estimate for types of weights and of keys and values, with a video if there is one.
    pub fn need(
        &self,
        dtype: WeightType,
        kv_type: KvType,
        sample: Option<&VideoInputs>,
        new_tokens: usize,
    ) -> Need {
        let c = &self.text;
        let visual = sample.map_or(0, |sample| sample.visual);
        let grids = sample.map_or(0, |sample| {
            sample.patch_values / (sample.grid_patches * self.processor.config().row()).max(1)
        });
        let stamps = if self.family.writes_stamps() { STAMP_SLOTS * grids } else { 0 };
        let slots = visual + stamps + new_tokens + EXTRA_SLOTS;
        let states = 4 * c.hidden;
        let line = c.heads * c.head_dim + 2 * c.kv_heads * c.head_dim;
        // Embeddings from the tower and in the prompt, and the final states that methods use.
        let kept = visual * (2 * 4 * self.tower.width() + states);
        let experts = c.sparse.as_ref();
        // Every expert of a row has a copy of it, gates and values, and a result.
        let experts = experts.map_or(0, |sparse| (sparse.chosen + 1) * 3 * c.hidden + 4 * sparse.active());
        let rows = DECODER_ROWS * 4 * (6 * c.hidden + 2 * line + 4 * c.intermediate + experts);
        let TowerSizes { hidden, ffn, .. } = self.tower.rules().sizes();
        let tower = sample.map_or(0, |sample| {
            // States, queries, keys, values and sums of the grids that share products.
            let whole = WORKSPACE.min(20 * hidden * sample.patch_values / self.processor.config().row());
            let states = whole.max(20 * hidden * sample.grid_patches);
            // Embeddings of those grids, before they are put together.
            let patches = (sample.patch_values / self.processor.config().row()).max(1);
            let together = states / (20 * hidden).max(1);
            let projected = 4 * self.tower.width() * (together * sample.visual).div_ceil(patches);
            // Buffers of a product, the keys and values of a head, the scores of some queries.
            states
                + projected
                + TOWER_ROWS * (20 * hidden + 13 * ffn)
                + sample.grid_patches * (8 * 128 + 4 * 41)
        });
        Need {
            weights: self.stored.map_or_else(|| parts::bytes(c, dtype, self.table), |stored| stored.0),
            tower: match self.tower_dtype {
                WeightType::F32 => 4 * self.tower_parameters,
                WeightType::F16 | WeightType::Bf16 => 2 * self.tower_parameters,
                // 36 bytes for 32 values; the first and the last matrices have 16 bits.
                _ => {
                    let ends = self.tower.rules().parts().ends() as u64;
                    self.tower_parameters.saturating_sub(ends) * 36 / 32 + 2 * ends
                }
            },
            cache: c.kv_bytes(c.kv_type(kv_type, dtype)) as u64 * slots as u64 + c.recurrent_bytes() as u64,
            work: (kept + rows + tower) as u64,
        }
    }
}

/// Bytes of a matrix on a GPU.
pub(super) fn on_gpu(tensor: &StoredTensor<'_>) -> u64 {
    let kind = TensorType::ALL.into_iter().find(|kind| kind.name() == tensor.dtype);
    let (outputs, inputs) = (tensor.shape[0], tensor.shape[1..].iter().product());
    kind.map_or(tensor.bytes, |kind| kind.bytes_on_gpu(outputs, inputs) as u64)
}

fn product(shape: &[usize]) -> u64 {
    shape.iter().map(|&n| n as u64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::repository, vision::Tower};
    use specreel_tensor::ComputeDevice;

    fn facts(part: &str) -> Facts {
        Facts::read(&repository(part)).unwrap()
    }

    #[test]
    fn parameters_are_those_of_the_files() {
        for part in [
            "assets/demo/target",
            "tests/parity/fixtures/sharded_untied",
            "tests/parity/fixtures/qwen3_vl",
            "tests/parity/fixtures/smolvlm_untied",
        ] {
            let facts = facts(part);
            let dir = repository(part);
            let loaded = crate::family::VideoLlm::load(&dir, WeightType::F32, &mut |_, _| {}).unwrap();
            let need = facts.need(WeightType::F32, KvType::Auto, None, 0);
            assert_eq!(need.weights, loaded.decoder().bytes() as u64);
            assert!(facts.tower_parameters > 0 && facts.text_parameters > facts.tower_parameters / 4);
        }
    }

    #[test]
    fn every_embedding_of_a_visual_token_takes_memory() {
        let facts = facts("tests/parity/fixtures/qwen3_vl");
        let work = |visual| {
            let inputs = VideoInputs { visual, patch_values: 0, grid_patches: 0 };
            facts.need(WeightType::F32, KvType::Auto, Some(&inputs), 0).work
        };
        // Four from the tower, four in the prompt, and one final state.
        assert_eq!(work(10) - work(0), 10 * 9 * 4 * facts.text.hidden as u64);
    }

    #[test]
    fn the_example_is_sampled_as_the_family_does() {
        let frames = |part| facts(part).example().frames;
        assert_eq!(frames("assets/demo/target"), 60);
        assert_eq!(frames("tests/parity/fixtures/minicpmv4_6"), 30);
        assert_eq!(frames("tests/parity/fixtures/llava_ov"), 32);
    }

    #[test]
    fn a_longer_video_needs_more_cache_and_the_same_weights() {
        let facts = facts("assets/demo/target");
        let video = |frames| SampledVideo {
            frames,
            size: FrameSize::new(144, 192),
            limits: FrameLimits::default(),
            new_tokens: 64,
        };
        let (short, long) = (facts.sample(&video(8)).unwrap(), facts.sample(&video(64)).unwrap());
        assert_eq!(short.visual * 8, long.visual);
        let need = |sample| facts.need(WeightType::Q8_0, KvType::Auto, Some(sample), 64);
        let (a, b) = (need(&short), need(&long));
        assert_eq!((a.weights, a.tower), (b.weights, b.tower));
        let slot = (facts.text.layers * 2 * facts.text.kv_heads * facts.text.head_dim * 4) as u64;
        assert_eq!(b.cache - a.cache, slot * (long.visual - short.visual) as u64);
        assert!(b.work > a.work);
        let stamped = self::facts("tests/parity/fixtures/smolvlm");
        let (few, many) = (stamped.sample(&video(8)).unwrap(), stamped.sample(&video(64)).unwrap());
        let [a8, b64] = [few, many]
            .map(|sample| stamped.need(WeightType::Q8_0, KvType::F32, Some(&sample), 64).cache as usize);
        let slot = stamped.text.layers * 2 * stamped.text.kv_heads * stamped.text.head_dim * 4;
        assert_eq!(b64 - a8, slot * (many.visual - few.visual + 56 * STAMP_SLOTS), "each frame has its time");
    }

    #[test]
    fn a_tower_takes_the_memory_of_its_matrices() {
        let video = SampledVideo {
            frames: 8,
            size: FrameSize::new(144, 192),
            limits: FrameLimits::default(),
            new_tokens: 64,
        };
        for part in [
            "assets/demo/target",
            "tests/parity/fixtures/qwen3_vl",
            "tests/parity/fixtures/smolvlm",
            "tests/parity/fixtures/minicpmv4_6",
        ] {
            let facts = facts(part);
            let checkpoint = Checkpoint::open(&repository(part)).unwrap();
            let sample = facts.sample(&video).unwrap();
            let need = |dtype| {
                let facts = facts.clone().with_tower(dtype);
                facts.need(WeightType::Q8_0, KvType::Auto, Some(&sample), 64)
            };
            for dtype in WeightType::TOWERS {
                let device = ComputeDevice::cpu(WeightType::F32).with_tower(dtype);
                let loaded = Tower::load(&checkpoint, &facts.tower, &device).unwrap().bytes() as u64;
                let found = need(dtype);
                // Norms, biases and positions count as well, and matrices are padded.
                let near = found.tower.abs_diff(loaded) * 20 <= loaded;
                assert!(near, "{part} {}: {} for {loaded}", dtype.name(), found.tower);
                assert_eq!(found.work, need(WeightType::F32).work);
            }
        }
    }
}
