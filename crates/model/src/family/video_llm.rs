//! A loaded Video-LLM of any family: tokenizer, template, frame processor, tower, decoder.

use std::{path::Path, sync::Arc};

use super::{ClipFacts, Family, ModelError, Prompt, ReadModel as _, Rope, VlConfig, prompt_ids};
use crate::{
    decoder::{Decoder, States, parts, self_test::SelfTest},
    processor::{
        Patches, VideoProcessor,
        layout::{self, VisualRope},
    },
    template::{ChatTemplate, Question},
    text::TextTokenizer,
    vision::{self, EncodeProgress, Tower, TowerConfig},
};
use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_tensor::{CheckpointError, ComputeDevice, WeightType, store::check_maps};

/// A loaded checkpoint.
pub struct VideoLlm {
    name: String,
    stored: Option<&'static str>,
    device: ComputeDevice,
    config: VlConfig,
    rope: Rope,
    decoder: Arc<Decoder>,
    tower_config: TowerConfig,
    tower: Tower,
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    processor: VideoProcessor,
    /// Why its converted weights are not kept.
    cache_note: Option<String>,
}

/// What a device's kept weights have in the name of their variant: a GPU's layout is its own. `None` if none are kept.
pub(super) fn kept_on(device: &ComputeDevice) -> Option<&'static str> {
    match device.gpu() {
        Some(_) => Some(", gpu"),
        None => device.is_batch_invariant().then_some(""),
    }
}

/// Check a GPU before a model is loaded to it. The software adapter is checked by this crate's tests.
fn self_test(device: &ComputeDevice) -> Result<(), ModelError> {
    let Some(gpu) = device.gpu().filter(|gpu| !gpu.is_software()) else { return Ok(()) };
    let found = SelfTest::run(&|dtype| ComputeDevice::gpu_device(gpu.clone(), dtype))?;
    match found.wrong() {
        None => Ok(()),
        Some((dtype, difference)) => Err(ModelError::Gpu {
            device: device.name().to_owned(),
            problem: format!("in {} its logits differ by {:.1} %", dtype.name(), 100.0 * difference),
        }),
    }
}

/// Where the embedding of a prompt's row comes from.
#[derive(Clone, Copy, PartialEq)]
enum RowKind {
    Text,
    Visual,
    Newline,
}

impl VideoLlm {
    /// Load a checkpoint (a directory, or a GGUF file with its mmproj file) on the CPU, with the language model's matrices in `dtype` and the tower in f32.
    /// `progress` counts decoder layers. Fails if a file is missing, damaged, or inconsistent with the others.
    pub fn load(
        dir: &Path,
        dtype: WeightType,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        Self::load_on(dir, &ComputeDevice::cpu(dtype), progress)
    }

    /// Load a checkpoint to a device. The tower is kept in the device's floating-point type. Fails if a file is missing, damaged,
    /// or inconsistent with the others, or the device is out of memory.
    pub fn load_on(
        dir: &Path,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        Self::from_checkpoint(&Self::open(&ModelFiles::open(dir, None)?)?, device, progress)
    }

    /// Open a model of a supported family. Fails if its configuration or its weight files are invalid.
    pub fn open(files: &ModelFiles) -> Result<Checkpoint, ModelError> {
        files.config()?;
        Ok(files.checkpoint()?)
    }

    /// As [`VideoLlm::load_on`], from a directory that was opened already, perhaps with a progress callback.
    /// [`CheckpointError::Stopped`] if the progress callback stopped the loading.
    pub fn from_checkpoint(
        checkpoint: &Checkpoint,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        let files = checkpoint.files();
        let config = files.config()?;
        if config.text.sparse.is_some() && !device.computes_experts() {
            let problem = format!("a mixture of experts is not available on {}", device.name());
            let hint = "add --device gpu or cpu, or use a dense size; specreel models known lists them";
            return Err(CheckpointError::file_hint(&files.config_path(), problem, hint).into());
        }
        if config.text.gemma.is_some() && !device.computes_windows() {
            let problem = format!("{} is not available on {}", config.family.name, device.name());
            let hint = "add --device cpu";
            return Err(CheckpointError::file_hint(&files.config_path(), problem, hint).into());
        }
        let tokenizer = config.family.prepare_tokenizer(files.tokenizer()?, config.video_token)?;
        let template = files.template(config.family)?;
        let tower_config = config.tower()?;
        let processor = files.processor(&tower_config)?;
        tower_config
            .fits(processor.config(), config.text.hidden)
            .map_err(|problem| VlConfig::refuse(&files.config_path(), problem))?;
        if tokenizer.vocabulary() > config.text.vocab {
            let problem = format!(
                "has {} ids, but the model has {} embeddings",
                tokenizer.vocabulary(),
                config.text.vocab
            );
            return Err(CheckpointError::file(tokenizer.path(), &problem).into());
        }
        let tensors = parts::tensors(&config.text).into_iter();
        checkpoint.check_adapter(tensors.chain(vision::parts::tensors(&tower_config)))?;
        if let Some(place) = kept_on(device) {
            let (dtype, tower) = (device.dtype(), device.tower());
            let variant = match tower == dtype {
                true => format!("{}{place}", dtype.name()),
                false => format!("{}, tower {}{place}", dtype.name(), tower.name()),
            };
            let table = checkpoint.value_bytes("model.embed_tokens.weight");
            // The tower is small in comparison.
            let expected = parts::bytes(&config.text, dtype, table);
            checkpoint.open_weight_cache(&variant, expected, device.gpu().is_none())?;
        }
        parts::check_tied(&config.text, checkpoint)?;
        self_test(device)?;
        let tower = Tower::load(checkpoint, &tower_config, device);
        if checkpoint.stopped() {
            return Err(CheckpointError::Stopped.into());
        }
        let tower = tower?;
        let decoder = Arc::new(Decoder::load(checkpoint, &config.text, device, progress)?);
        check_maps().map_err(specreel_tensor::Error::from)?;
        checkpoint.kept().finish(checkpoint);
        Ok(Self {
            name: files.name(),
            stored: files
                .gguf()
                .filter(|_| checkpoint.keeps_own_types())
                .map(|model| model.main_type().name()),
            device: device.clone(),
            config,
            rope: Rope::Auto,
            decoder,
            tower_config,
            tower,
            tokenizer,
            template,
            processor,
            cache_note: checkpoint.kept().note(),
        })
    }

    /// The same model with different positions. Fails with [`ModelError::Rope`] for three axes in a model that has one.
    pub fn with_rope(mut self, rope: Rope) -> Result<Self, ModelError> {
        if rope == Rope::Mrope && self.config.text.mrope_section.is_none() {
            let problem = "it has 1-D positions";
            return Err(ModelError::Rope { model: self.name, problem });
        }
        self.rope = rope;
        Ok(self)
    }

    /// The same model for drafting, with a head for the `size` ids that come first in its vocabulary, which tokenizers order by frequency, and for
    /// those that end a text. The whole head is not kept. `checkpoint` is its own. Fails if the head cannot be read.
    pub fn with_vocabulary(mut self, checkpoint: &Checkpoint, size: usize) -> Result<Self, ModelError> {
        let all = self.tokenizer.vocabulary();
        if size < all {
            let ends = self.tokenizer.end_ids().iter().copied().filter(|id| *id as usize >= size);
            let mut ids: Vec<u32> = (0..size as u32).chain(ends).collect();
            ids.sort_unstable();
            ids.dedup();
            self.decoder = Arc::new(self.decoder.with_vocabulary(checkpoint, ids)?);
        }
        Ok(self)
    }

    /// Display name: the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The token that holds the place of a visual token in a prompt. It is never written.
    pub fn visual_token(&self) -> u32 {
        self.config.video_token
    }

    /// The type of most of the language model's weights, if they are used as a GGUF file has them.
    pub fn stored_type(&self) -> Option<&'static str> {
        self.stored.filter(|_| self.device.is_batch_invariant())
    }

    /// Why its converted weights are not kept for the next start, if they should be.
    pub fn cache_note(&self) -> Option<&str> {
        self.cache_note.as_deref()
    }

    pub fn device(&self) -> &ComputeDevice {
        &self.device
    }

    pub fn family(&self) -> &'static Family {
        self.config.family
    }

    /// The language model.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// True if it can think before it answers, as its chat template says.
    pub fn offers_thinking(&self) -> bool {
        self.template.offers_thinking()
    }

    /// True if it can be asked to think more or less, as its chat template says.
    pub fn offers_effort(&self) -> bool {
        self.template.offers_effort()
    }

    pub fn processor(&self) -> &VideoProcessor {
        &self.processor
    }

    /// The dimensions of the vision tower.
    pub fn tower_config(&self) -> &TowerConfig {
        &self.tower_config
    }

    /// Width of a prompt's rows: the decoder's, or 1 + n times as wide in a model with n DeepStack levels.
    pub fn input_width(&self) -> usize {
        self.config.text.input_width()
    }

    /// Visual embeddings, `visual tokens × input width`, of a clip's patches: f32, on the model's device. Fails if the patches do
    /// not fit the tower, or `progress` breaks.
    pub fn encode(&self, patches: &Patches, progress: &mut EncodeProgress<'_>) -> Result<States, ModelError> {
        let embeddings = self.tower.encode(patches, progress)?;
        let embeddings = match self.config.text.per_layer() {
            Some(_) => self.decoder.prompt_rows(&embeddings, None)?,
            None => embeddings,
        };
        // Wait for the accelerator, so that measured times include the work.
        self.device.synchronize()?;
        check_maps().map_err(specreel_tensor::Error::from)?;
        Ok(embeddings)
    }

    /// Lay out a prompt for a clip: ids from the chat template, positions of the checkpoint or of [`Self::with_rope`].
    /// Qwen2.5-VL's time axis is the original one: a grid every `temporal patch / sample_fps` seconds.
    pub fn prompt(&self, text: &str, clip: &ClipFacts) -> Result<Prompt, ModelError> {
        self.prompt_for(&Question { text, ..Question::default() }, clip)
    }

    /// As [`Self::prompt`], for a question that may follow others about the same clip.
    pub fn prompt_for(&self, question: &Question<'_>, clip: &ClipFacts) -> Result<Prompt, ModelError> {
        let (pad, frames_per_grid) = (self.config.video_token, self.processor.config().temporal);
        let (ids, video) =
            prompt_ids(&self.config, &self.tokenizer, &self.template, question, (clip, frames_per_grid))?;
        let axes = self.config.text.mrope_section.filter(|_| self.rope != Rope::Sequential);
        let seconds = layout::seconds_per_grid(frames_per_grid, clip.sample_fps);
        let rope = axes
            .map_or(VisualRope::Sequential, |_| (self.config.family.positions)(&self.tower_config, seconds));
        let newline = self.tower.newline().is_some();
        let per_span = if video.is_some() { 1 } else { clip.grid.t };
        let mut prompt = Prompt::lay_out(&ids, pad, clip.grid, per_span, newline, rope)?;
        if let (Some(video), Some(first)) = (video, ids.iter().position(|id| *id == pad)) {
            prompt.mark_stamps(self.tokenizer.tokens_within(&ids[..first], &video.opening), video.closing);
        }
        Ok(prompt)
    }

    /// Embeddings of the given prompt rows (ascending), `rows × input width`: text from the table, with zeros for DeepStack
    /// levels, visual rows from `visual` (`tokens × input width`), the newline from the tower. Fails if an id is outside of the
    /// embedding table, a row outside of the prompt, or `visual` has another number of tokens.
    pub fn embed(
        &self,
        prompt: &Prompt,
        visual: Option<&States>,
        rows: &[usize],
    ) -> Result<States, ModelError> {
        self.embed_with(&self.decoder, prompt, visual, rows)
    }

    /// As [`Self::embed`], with the text from the table of another decoder of the same sizes.
    pub fn embed_with(
        &self,
        decoder: &Decoder,
        prompt: &Prompt,
        visual: Option<&States>,
        rows: &[usize],
    ) -> Result<States, ModelError> {
        let kind = |row: usize| match () {
            () if prompt.is_text(row) => RowKind::Text,
            () if prompt.visual.contains(row) => RowKind::Visual,
            () => RowKind::Newline,
        };
        let fail = |problem: String| Err(specreel_tensor::Error::Message(problem).into());
        let (length, tokens) = (prompt.ids.len(), prompt.visual.len());
        if let Some(row) = rows.iter().find(|row| **row >= length) {
            return fail(format!("row {row} is outside of a prompt of {length} rows"));
        }
        if let Some(count) = visual.map(States::rows).filter(|n| *n != tokens) {
            return fail(format!("{count} visual embeddings for {tokens} visual tokens"));
        }
        let newline = self.tower.newline();
        let is_visual = |row: usize| visual.is_some() && kind(row) == RowKind::Visual;
        let is_newline = |row: usize| newline.is_some() && kind(row) == RowKind::Newline;
        // One look-up for all of the text, and one selection: a prompt may have a time stamp in every frame.
        let in_table = |row: &&usize| !is_visual(**row) && !is_newline(**row);
        let ids: Vec<u32> = rows.iter().filter(in_table).map(|&row| prompt.ids[row]).collect();
        let text = match ids.is_empty() {
            true => None,
            false => Some(decoder.prompt_rows(&decoder.embed(&ids)?, Some(&ids))?),
        };
        let tokens: Vec<usize> = rows.iter().filter_map(|&row| prompt.visual.token(row)).collect();
        let chosen = match visual {
            Some(visual) if tokens.len() < visual.rows() => Some(visual.select(&tokens)?),
            visual => visual.cloned(),
        };
        let mut parts: Vec<States> = Vec::new();
        let (mut text_done, mut visual_done) = (0, 0);
        for run in rows.chunk_by(|&a, &b| kind(a) == kind(b)) {
            let (source, done) = match (&chosen, newline, &text) {
                (Some(visual), ..) if is_visual(run[0]) => (visual, &mut visual_done),
                (_, Some(newline), _) if is_newline(run[0]) => {
                    parts.push(newline.clone());
                    continue;
                }
                (.., Some(text)) => (text, &mut text_done),
                _ => continue,
            };
            parts.push(source.narrow(*done, run.len())?);
            *done += run.len();
        }
        Ok(States::cat(&parts)?)
    }
}
