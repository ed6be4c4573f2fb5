//! Qwen2.5-VL: window-attention tower, M-RoPE, the Qwen2 decoder.

use std::{ops::Range, path::Path, sync::Arc};

use candle_core::{Device, Tensor};

use super::ModelError;
use crate::model::{
    WeightType,
    checkpoint::{Checkpoint, CheckpointError},
    config::VlConfig,
    decoder::{Decoder, Positions},
    hub,
    processor::{
        Patches, ProcessorConfig, VideoProcessor,
        layout::{self, PromptLayout, VisualGrid, VisualRope},
    },
    template::{self, ChatTemplate},
    text::TextTokenizer,
    vision::{
        VisionConfig,
        qwen2_5_vit::{Progress, QwenVit},
    },
};

/// A loaded Qwen2.5-VL checkpoint.
pub struct QwenVl {
    name: String,
    config: VlConfig,
    decoder: Arc<Decoder>,
    tower: QwenVit,
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    processor: VideoProcessor,
}

/// A prompt as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// All ids; visual tokens carry the placeholder's id.
    pub ids: Vec<u32>,
    /// Rows of the visual tokens.
    pub visual: Range<usize>,
    /// Positions of all rows.
    pub positions: Positions,
    /// Position of the first generated token.
    pub next: u32,
}

/// Whether tower, frame processor and a language model `width` wide belong together.
///
/// # Errors
/// In words, what differs.
pub fn fits(tower: &VisionConfig, frames: &ProcessorConfig, width: usize) -> Result<(), String> {
    let pairs = [
        ("output width", tower.out, width),
        ("patch size", tower.patch, frames.patch),
        ("merge size", tower.merge, frames.merge),
        ("temporal patch size", tower.temporal, frames.temporal),
    ];
    match pairs.into_iter().find(|(_, tower, other)| tower != other) {
        None => Ok(()),
        Some((what, tower, other)) => {
            Err(format!("the vision tower's {what} is {tower}, but {other} is expected beside it"))
        }
    }
}

impl QwenVl {
    /// Load a checkpoint directory; matrices of the language model become `dtype`, the tower stays f32.
    /// `progress` counts decoder layers.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(
        dir: &Path,
        dtype: WeightType,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        Self::from_checkpoint(&Self::open(dir)?, dtype, progress)
    }

    /// Open a checkpoint directory of a family that is known.
    ///
    /// # Errors
    /// What is wrong with its configuration, or else with its weight files.
    pub fn open(dir: &Path) -> Result<Checkpoint, ModelError> {
        VlConfig::read(dir)?;
        Ok(Checkpoint::open(dir)?)
    }

    /// As [`QwenVl::load`], from a directory that was opened already, perhaps with a watch.
    ///
    /// # Errors
    /// As of [`QwenVl::load`]; [`CheckpointError::Stopped`] if the watch stopped the reading.
    pub fn from_checkpoint(
        checkpoint: &Checkpoint,
        dtype: WeightType,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        let dir = checkpoint.dir();
        let config = VlConfig::read(dir)?;
        let tokenizer = TextTokenizer::load(dir)?;
        let template = ChatTemplate::load(dir, template::QWEN)?;
        let processor = VideoProcessor::load(dir)?;
        let vision = config.raw.get("vision_config").cloned().unwrap_or(serde_json::Value::Null);
        let vision = VisionConfig::from_json(&vision)?;
        fits(&vision, processor.config(), config.text.hidden)
            .map_err(|problem| CheckpointError::file(&dir.join("config.json"), &problem))?;
        if tokenizer.vocabulary() > config.text.vocab {
            let problem = format!(
                "holds {} ids, but the model has {} embeddings",
                tokenizer.vocabulary(),
                config.text.vocab
            );
            return Err(CheckpointError::file(tokenizer.path(), &problem).into());
        }
        let tower = QwenVit::load(checkpoint.var_builder("visual")?, &vision);
        if checkpoint.stopped() {
            return Err(CheckpointError::Stopped.into());
        }
        let tower = tower?;
        let decoder = Arc::new(Decoder::load(checkpoint, &config.text, dtype, progress)?);
        let name = hub::name_of(dir);
        Ok(Self { name, config, decoder, tower, tokenizer, template, processor })
    }

    /// Name for people: the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The language model.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The frame processor.
    pub fn processor(&self) -> &VideoProcessor {
        &self.processor
    }

    /// Visual embeddings, `tokens × width`, of a clip's patches.
    ///
    /// # Errors
    /// If the patches do not fit the tower, or `progress` breaks.
    pub fn encode(&self, patches: &Patches, progress: &mut Progress<'_>) -> Result<Tensor, ModelError> {
        let rows = patches.data.len() / patches.row.max(1);
        let tensor = Tensor::from_slice(&patches.data, (rows, patches.row), &Device::Cpu)?;
        Ok(self.tower.forward(&tensor, patches.grid, progress)?)
    }

    /// Lay out a prompt over a clip: ids through the chat template, original M-RoPE positions with a grid every
    /// `temporal patch / sample_fps` seconds.
    ///
    /// # Errors
    /// If the template or the tokenizer fails.
    pub fn prompt(&self, text: &str, grid: VisualGrid, sample_fps: f64) -> Result<Prompt, ModelError> {
        let ids = self.template.ids(&self.tokenizer, text)?;
        let layout = PromptLayout::expand(&ids, self.config.video_token, grid.len())?;
        let vision = self.tower.config();
        let rope = match self.config.text.mrope_section {
            Some(_) => VisualRope::Multimodal {
                seconds_per_grid: layout::seconds_per_grid(vision.temporal, sample_fps),
                tokens_per_second: vision.tokens_per_second,
            },
            None => VisualRope::Sequential,
        };
        let at = layout::positions(layout.before(), grid, layout.after(), rope)?;
        Ok(Prompt {
            positions: Positions { axes: at.axes },
            next: at.next,
            visual: layout.visual.clone(),
            ids: layout.ids,
        })
    }

    /// Embeddings of the given prompt rows (ascending): text from the table, visual rows from `visual` (`tokens × width`).
    ///
    /// # Errors
    /// If an id is outside of the table, or a row outside of the prompt.
    pub fn embed(
        &self,
        prompt: &Prompt,
        visual: Option<&Tensor>,
        rows: &[usize],
    ) -> Result<Tensor, ModelError> {
        let mut parts: Vec<Tensor> = Vec::new();
        for run in rows.chunk_by(|&a, &b| prompt.visual.contains(&a) == prompt.visual.contains(&b)) {
            match visual {
                Some(visual) if prompt.visual.contains(&run[0]) => {
                    let index: Vec<u32> = run.iter().map(|&row| (row - prompt.visual.start) as u32).collect();
                    let index = Tensor::from_vec(index, run.len(), visual.device())?;
                    parts.push(visual.index_select(&index, 0)?);
                }
                _ => {
                    let ids: Vec<u32> = run.iter().filter_map(|&row| prompt.ids.get(row).copied()).collect();
                    parts.push(self.decoder.embed(&ids)?);
                }
            }
        }
        Ok(Tensor::cat(&parts, 0)?)
    }
}
