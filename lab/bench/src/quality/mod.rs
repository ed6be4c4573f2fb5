//! Suite `quality`: what weight types, types of keys and values, and a vision tower's types cost in predictions.
//!
//! The reference is the target in f32, with keys and values in f32. Every other form of it predicts the same texts, token by
//! token: a real one, and the reference's own answers about a clip. One thing differs from the reference at a time.

mod score;
mod texts;

use std::path::PathBuf;

use self::{
    score::{Prediction, Scores},
    texts::{Predictor, Text},
};
use super::*;
use crate::figure::Figure;
use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_client::present::{formats, grid::stacked};
use specreel_model::{
    ReadModel as _,
    decoder::States,
    family::{ClipFacts, ModelError, Prompt, VideoLlm},
    processor::Patches,
    vision::Tower,
};
use specreel_scenes::{Scene, render};
use specreel_tensor::{CheckpointError, KvType, WeightType};

/// A text in the public domain: the introduction and the first talks of the Workshop on Electronic Texts (Library of Congress,
/// 1992; Project Gutenberg's etext 53), without headings and lists.
const TEXT: &str = include_str!("../../../../assets/text/workshop.txt");

/// What the reference is asked about the clip.
const QUESTIONS: [&str; 16] = [
    "Describe this video in detail.",
    "What happens in this video, from beginning to end?",
    "Write a short story that begins with this video.",
    "What would you like to know about this video, and why?",
    "Explain to a child what is shown here.",
    "Which objects are in this video? Describe each of them.",
    "Write a poem about this video.",
    "What could have happened before this video begins?",
    "What will happen next?",
    "Compare the first and the last frame.",
    "Write a letter to a friend about this video.",
    "How could this video have been made?",
    "List five questions that this video answers, with the answers.",
    "Describe the colors and the light.",
    "Write a news report about what is shown here.",
    "Summarize this video in three paragraphs.",
];
/// Longest answer in tokens.
const ANSWER: usize = 200;

/// Seed of the clip, the number of its frames, and their width and height.
const SEED: u64 = 1000;
const FRAMES: usize = 4;
const SIZE: u32 = 224;

#[derive(Clone, Debug, PartialEq)]
pub struct QualityOptions {
    /// The real text; `None` for the built-in one.
    pub text: Option<String>,
    /// Predicted tokens of each text, at most; of the real one at least, if it is long enough.
    pub tokens: usize,
    pub dtypes: Vec<WeightType>,
    pub kv_types: Vec<KvType>,
    pub tower_dtypes: Vec<WeightType>,
    /// The same model as GGUF files.
    pub files: Vec<PathBuf>,
}

impl Default for QualityOptions {
    /// All types, on 2,000 tokens of each text.
    fn default() -> Self {
        Self {
            text: None,
            tokens: 2000,
            dtypes: Vec::new(),
            kv_types: Vec::new(),
            tower_dtypes: Vec::new(),
            files: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Weights(WeightType),
    Keys(KvType),
    Tower(WeightType),
    File(PathBuf),
    /// Everything as it is used without options.
    Default,
}

impl Form {
    fn kind(&self) -> &'static str {
        match self {
            Self::Weights(_) => "dtype",
            Self::Keys(_) => "kv-type",
            Self::Tower(_) => "tower-dtype",
            Self::File(_) => "file",
            Self::Default => "default",
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Weights(dtype) => dtype.name().to_owned(),
            Self::Keys(kind) => format!("kv {}", kind.name()),
            Self::Tower(dtype) => format!("tower {}", dtype.name()),
            Self::File(path) => {
                clean(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()).into_owned()
            }
            Self::Default => "default".to_owned(),
        }
    }
}

impl QualityOptions {
    /// The forms to measure: those that are named, or all that the target and the device can have.
    fn forms(&self, files: &ModelFiles, device: &ComputeDevice) -> Result<Vec<Form>, Failure> {
        let stored = files.gguf().is_some();
        if stored && !self.dtypes.is_empty() {
            return Err(Failure::usage(
                format!("--dtypes does not apply to {}: a GGUF file keeps its types", files.path().display()),
                "pass the model as a directory in Hugging Face layout, and this file to --gguf",
            ));
        }
        let named = self.dtypes.iter().map(|dtype| Form::Weights(*dtype));
        let named = named.chain(self.kv_types.iter().map(|kind| Form::Keys(*kind)));
        let named = named.chain(self.tower_dtypes.iter().map(|dtype| Form::Tower(*dtype)));
        let named: Vec<Form> = named.chain(self.files.iter().map(|path| Form::File(path.clone()))).collect();
        // A file that cannot be used is refused before the reference is loaded.
        self.files.iter().try_for_each(|path| ModelFiles::open(path, None).map(|_| ()))?;
        if !named.is_empty() {
            return Ok(named);
        }
        let exact = device.is_batch_invariant();
        let kept = |kind: &KvType| device.clone().with_kv_type(*kind).is_ok();
        // The first type of each list is the reference's.
        let dtypes = WeightType::ALL.into_iter().skip(1).filter(|_| !stored).map(Form::Weights);
        let keys = KvType::ALL.into_iter().skip(1).filter(kept).map(Form::Keys);
        let towers = WeightType::TOWERS.into_iter().skip(1).filter(|_| exact).map(Form::Tower);
        Ok(dtypes.chain(keys).chain(towers).chain([Form::Default]).collect())
    }
}

/// A form on a text, as a JSON line.
#[derive(Debug, Serialize)]
struct QualityRow {
    text: &'static str,
    kind: &'static str,
    form: String,
    dtype: String,
    kv_type: &'static str,
    tower_dtype: &'static str,
    /// Of the language model.
    weight_bytes: usize,
    /// Keys and values of a token.
    kv_bytes: usize,
    tower_bytes: usize,
    #[serde(flatten)]
    scores: Scores,
}

/// The target in f32, and the clip that it answers questions about.
struct Reference {
    files: ModelFiles,
    checkpoint: Checkpoint,
    device: ComputeDevice,
    model: VideoLlm,
    patches: Patches,
    visual: States,
    facts: ClipFacts,
}

struct LoadedForm {
    dtype: String,
    kv_type: KvType,
    tower_dtype: WeightType,
    kv_bytes: usize,
    tower_bytes: usize,
    decoder: Arc<Decoder>,
    visual: States,
}

/// Compare forms of the target with it in f32. False if it was interrupted. Fails if the target or a file is unusable, a type does
/// not apply, or the results cannot be written.
pub fn run<R: Reporter>(
    options: &QualityOptions,
    models: &ModelSpec,
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let base = ComputeDevice::open(models.device, WeightType::F32)?;
    let files = models.target_files().map_err(Failure::from)?;
    let forms = options.forms(&files, &base)?;
    let reference = Reference::load(files, base, reporter)?;
    let Some(mut texts) = reference.texts(options, interrupt, reporter)? else { return Ok(false) };
    let mut rows = Vec::new();
    for form in forms {
        let loaded = reference.form(&form, models, reporter)?;
        for text in &mut texts {
            // A real text has no clip.
            if matches!(form, Form::Tower(_)) && text.name == "real" {
                continue;
            }
            let progress = &mut |done: usize, total: usize| {
                reporter.stage(Stage::Prefill, done as u64, total as u64);
            };
            let predictor = reference.predictor(&loaded.decoder, &loaded.visual, interrupt);
            let Some(predictions) = predictor.compare(text, progress)? else { break };
            let Some(scores) = Scores::of(&predictions) else { continue };
            let row = QualityRow {
                text: text.name,
                kind: form.kind(),
                form: form.label(),
                dtype: loaded.dtype.clone(),
                kv_type: loaded.kv_type.name(),
                tower_dtype: loaded.tower_dtype.name(),
                weight_bytes: loaded.decoder.bytes(),
                kv_bytes: loaded.kv_bytes,
                tower_bytes: loaded.tower_bytes,
                scores,
            };
            reporter.line("quality", &row)?;
            rows.push(row);
        }
        if interrupt.asked() {
            break;
        }
    }
    reporter.ended();
    let name = clean(reference.model.name()).into_owned();
    let heading =
        format!("{name} on {}; reference: {}, KV cache f32", reference.device.name(), reference.dtype());
    reporter.table(&table(&heading, &rows, reporter.columns()))?;
    Ok(!interrupt.asked())
}

impl Reference {
    fn load<R: Reporter>(files: ModelFiles, base: ComputeDevice, reporter: &mut R) -> Result<Self, Failure> {
        let device = Self::device(&base, WeightType::F32, WeightType::F32);
        let checkpoint = VideoLlm::open(&files)?;
        let progress = &mut |done: usize, total: usize| {
            reporter.stage(Stage::Load, done as u64, total as u64);
        };
        let model = VideoLlm::from_checkpoint(&checkpoint, &device, progress)?;
        let (patches, facts) = clip(&model)?;
        let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(()))?;
        Ok(Self { files, checkpoint, device, model, patches, visual, facts })
    }

    /// The device with these weights, and keys and values in f32 where they can be.
    fn device(base: &ComputeDevice, dtype: WeightType, tower: WeightType) -> ComputeDevice {
        let device = base.with_dtype(dtype).with_tower(tower);
        device.clone().with_kv_type(KvType::F32).unwrap_or(device)
    }

    fn dtype(&self) -> String {
        self.model.stored_type().unwrap_or_else(|| self.device.dtype().name()).to_owned()
    }

    fn predictor<'r>(
        &'r self,
        decoder: &'r Arc<Decoder>,
        visual: &'r States,
        interrupt: &'r Interrupt,
    ) -> Predictor<'r> {
        Predictor { decoder, visual, reference: &self.model, interrupt }
    }

    /// The texts, with the reference's predictions. `None` if interrupted.
    fn texts<R: Reporter>(
        &self,
        options: &QualityOptions,
        interrupt: &Interrupt,
        reporter: &mut R,
    ) -> Result<Option<Vec<Text>>, Failure> {
        let predictor = self.predictor(self.model.decoder(), &self.visual, interrupt);
        let (text, tokens) = (options.text.as_deref().unwrap_or(TEXT), options.tokens);
        let progress = &mut |done: usize, total: usize| {
            reporter.stage(Stage::Prefill, done as u64, total as u64);
        };
        let Some(real) = predictor.real_text(text, tokens, progress)? else { return Ok(None) };
        let prompts: Result<Vec<Prompt>, _> =
            QUESTIONS.iter().map(|question| self.model.prompt(question, &self.facts)).collect();
        let progress = &mut |done: usize, total: usize| {
            reporter.stage(Stage::Generate, done as u64, total as u64);
        };
        let own = predictor.own_text(prompts?, ANSWER, tokens, progress)?;
        Ok(own.map(|own| vec![real, own]))
    }

    /// Load a form. Fails if a file is unusable or another model's, or a type does not apply to the device.
    fn form<R: Reporter>(
        &self,
        form: &Form,
        models: &ModelSpec,
        reporter: &mut R,
    ) -> Result<LoadedForm, Failure> {
        let progress = &mut |done: usize, total: usize| {
            reporter.stage(Stage::Load, done as u64, total as u64);
        };
        let device = match form {
            Form::Weights(dtype) => {
                let resolved = ComputeDevice::open(models.device, *dtype)?.dtype();
                Self::device(&self.device, resolved, WeightType::F32)
            }
            Form::Keys(kind) => self.device.clone().with_kv_type(*kind)?,
            Form::Tower(dtype) => self.device.clone().with_tower(*dtype),
            Form::File(_) => self.device.clone(),
            Form::Default => {
                ComputeDevice::open(models.device, WeightType::Auto)?.with_tower(WeightType::Auto)
            }
        };
        let config = self.model.decoder().config();
        let (decoder, stored) = match form {
            // The reference's weights are as they are needed.
            Form::Tower(_) => (self.model.decoder().clone(), self.model.stored_type()),
            Form::File(path) => {
                let files = ModelFiles::open(path, None)?;
                self.check_same(&files)?;
                let config = files.config()?.text;
                let decoder = Decoder::load(&files.checkpoint()?, &config, &device, progress);
                (Arc::new(decoder?), files.gguf().map(|model| model.main_type().name()))
            }
            _ => {
                let decoder = Decoder::load(&self.checkpoint, config, &device, progress);
                (Arc::new(decoder?), self.model.stored_type())
            }
        };
        let (visual, tower_bytes) = match form {
            Form::Tower(_) | Form::Default => {
                let tower = Tower::load(&self.checkpoint, self.model.tower_config(), &device)?;
                let visual = tower.encode(&self.patches, &mut |_, _| ControlFlow::Continue(()))?;
                (visual, tower.bytes())
            }
            _ => (self.visual.clone(), 0),
        };
        let kv_type = decoder.config().kv_type(device.kv_type(), device.dtype());
        Ok(LoadedForm {
            dtype: stored.unwrap_or_else(|| device.dtype().name()).to_owned(),
            kv_type,
            tower_dtype: device.tower(),
            kv_bytes: decoder.config().kv_bytes(kv_type),
            tower_bytes,
            decoder,
            visual,
        })
    }

    /// Check that a file has the target's vocabulary and width.
    fn check_same(&self, files: &ModelFiles) -> Result<(), Failure> {
        let other = |problem: String| {
            let problem = format!("it is another model than {}: {problem}", self.files.path().display());
            Failure::from(CheckpointError::file_hint(
                files.path(),
                problem,
                "pass GGUF files that were made of the target",
            ))
        };
        let tokenizer = files.tokenizer()?;
        let same = self.model.tokenizer().same_vocabulary(&tokenizer);
        same.map_err(|mismatch| other(format!("the vocabularies differ: {mismatch}")))?;
        let (ours, theirs) = (self.model.input_width(), files.config()?.text.input_width());
        if ours == theirs { Ok(()) } else { Err(other(format!("embeddings are {ours} and {theirs} wide"))) }
    }
}

/// A rendered clip as the model's patches.
fn clip(model: &VideoLlm) -> Result<(Patches, ClipFacts), Failure> {
    let (scene, processor) = (Scene::from_seed(SEED), model.processor());
    let size = SIZE as usize;
    let mut builder = processor.patches(processor.target_size(size, size, FRAMES, None)?)?;
    let second = |frame: usize| scene.duration_s * frame as f64 / FRAMES as f64;
    let timestamps_s: Vec<f64> = (0..FRAMES).map(second).collect();
    for at in &timestamps_s {
        builder.push(&render::frame(&scene, *at, SIZE, SIZE), size, size)?;
    }
    let patches = builder.finish()?;
    let grid = processor.visual_grid(patches.grid)?;
    let sample_fps = FRAMES as f64 / scene.duration_s;
    let duration_s = scene.duration_s;
    Ok((patches, ClipFacts { grid, sample_fps, timestamps_s, duration_s }))
}

/// A table for each text.
fn table(heading: &str, rows: &[QualityRow], columns: Option<usize>) -> String {
    let mut out = format!("{heading}\n");
    for (name, title) in [("real", "real text"), ("own", "own answers")] {
        let rows: Vec<&QualityRow> = rows.iter().filter(|row| row.text == name).collect();
        let Some(first) = rows.first() else { continue };
        let head = ["size", "KL", "95 %", "p99", "same top", "95 %", "perplexity"];
        let title = format!(
            "{title}, {}, perplexity {:.2}",
            formats::plural(first.scores.tokens as u64, "token"),
            first.scores.reference_perplexity
        );
        let mut cells = vec![[""].into_iter().chain(head).map(str::to_owned).collect::<Vec<_>>()];
        cells.extend(rows.into_iter().map(QualityRow::cells));
        out += &format!("\n{title}\n{}", stacked(&cells, columns));
    }
    out
}

impl QualityRow {
    fn cells(&self) -> Vec<String> {
        let Scores { kl, kl_p99, same_top, perplexity, .. } = &self.scores;
        let ends = |figure: &Figure, write: &dyn Fn(f64) -> String| match figure.interval {
            Some((low, high)) => format!("{}–{}", write(low), write(high)),
            None => formats::NOTHING.to_owned(),
        };
        let size = match self.kind {
            "kv-type" => format!("{:.1} kB/token", self.kv_bytes as f64 / 1e3),
            "tower-dtype" => format!("{:.1} MB", self.tower_bytes as f64 / 1e6),
            _ => format!("{:.1} MB", self.weight_bytes as f64 / 1e6),
        };
        vec![
            self.form.clone(),
            size,
            nats(kl.value),
            ends(kl, &nats),
            nats(*kl_p99),
            formats::percent(same_top.value),
            ends(same_top, &|share| format!("{:.1}", 100.0 * share)),
            format!("{:.2}", perplexity.value),
        ]
    }
}

/// Three digits at any size. Rounding may leave a divergence of 0 below it.
fn nats(value: f64) -> String {
    match value.abs() {
        size if size < 1e-9 => "0".to_owned(),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests;
