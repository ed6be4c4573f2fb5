//! Everything about a checkpoint directory, with all that is wrong with it.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use super::{Facts, Sampled};
use crate::{
    model::{
        ComputeDevice, WeightType,
        checkpoint::{Checkpoint, CheckpointError},
        config::{TextConfig, VlConfig},
        decoder::parts,
        family::Family,
        hub::name_of,
        processor::VideoProcessor,
        template::{self, ChatTemplate},
        text::TextTokenizer,
        vision::{Tower, TowerConfig},
    },
    record::Failure,
};

/// The video for which tokens and memory are told: half a minute of 720p as it is sampled by itself.
pub const EXAMPLE: Sampled = Sampled { frames: 60, size: (720, 1280), max_pixels: None, new_tokens: 256 };

/// Something that keeps a checkpoint from being used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What is wrong with what.
    pub error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Tensors of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The type as the files name it.
    pub dtype: String,
    /// Tensors.
    pub tensors: usize,
    /// Parameters.
    pub parameters: u64,
}

/// Memory in one weight type, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The weight type.
    pub dtype: &'static str,
    /// All weights.
    pub weights: u64,
    /// Weights, and what a run on the example takes.
    pub run: u64,
}

/// What there is to know of a directory.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// Name for people.
    pub name: String,
    /// `model_type` of the configuration, where it can be read.
    pub family: Option<String>,
    /// The language model's sizes.
    pub text: Option<TextConfig>,
    /// Parameters of the language model and of the rest.
    pub parameters: Option<[u64; 2]>,
    /// Tensors by type, as the files have them.
    pub shares: Vec<Share>,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Tokens that the tokenizer knows.
    pub vocabulary: Option<usize>,
    /// Visual tokens of the example video, and its frames.
    pub example: Option<[usize; 2]>,
    /// Memory by weight type.
    pub memory: Vec<Memory>,
    /// What is good to know but keeps nobody from using it.
    pub notes: Vec<String>,
    /// Everything that keeps it from being used.
    pub problems: Vec<Problem>,
}

/// Collects what goes wrong, and goes on.
struct Collector(Vec<Problem>);

impl Collector {
    fn take<T>(&mut self, result: Result<T, impl Into<Failure>>) -> Option<T> {
        result.map_err(|e| self.note(e.into())).ok()
    }

    fn note(&mut self, failure: Failure) {
        let problem = Problem { error: failure.error, hint: failure.hint };
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }
}

impl Inspection {
    /// Look at every file of a directory; weights are looked at by their headers.
    pub fn of(dir: &Path) -> Self {
        let mut wrong = Collector(Vec::new());
        let config = wrong.take(VlConfig::read(dir));
        for problem in Checkpoint::problems(dir) {
            wrong.note(problem.into());
        }
        let checkpoint = Checkpoint::open(dir).ok();
        let tokenizer = wrong.take(TextTokenizer::load(dir));
        let family = config.as_ref().map(|config| config.family);
        let template = wrong.take(ChatTemplate::load(dir, family.map_or(template::QWEN, Family::template)));
        let tower = config.as_ref().and_then(|config| wrong.take(TowerConfig::of(config)));
        let settings = tower.as_ref().map(TowerConfig::processor).unwrap_or_default();
        let processor = wrong.take(VideoProcessor::load(dir, settings));
        if let (Some(config), Some(tokenizer)) = (&config, &tokenizer)
            && let Some(template) = template
        {
            check_text(&mut wrong, config, tokenizer, &template);
        }
        if let (Some(config), Some(tower), Some(processor)) = (&config, &tower, &processor)
            && let Err(problem) = tower.fits(processor.config(), config.text.hidden)
        {
            wrong.note(CheckpointError::file(&dir.join("config.json"), &problem).into());
        }
        if let (Some(config), Some(checkpoint)) = (&config, Checkpoint::open(dir).ok()) {
            check_weights(&mut wrong, config, tower.as_ref(), checkpoint.dry_run());
        }
        let mut notes = Vec::new();
        if let Some(penalty) =
            tokenizer.as_ref().and_then(TextTokenizer::repetition_penalty).filter(|p| *p != 1.0)
        {
            notes.push(format!(
                "generation_config.json asks for a repetition penalty of {penalty}, which is not followed"
            ));
        }
        let mut inspection = Self {
            name: name_of(dir),
            family: family.map(|family| family.model_type().to_owned()),
            text: config.as_ref().map(|c| c.text.clone()),
            parameters: None,
            shares: checkpoint.as_ref().map(shares).unwrap_or_default(),
            bytes: checkpoint.as_ref().map_or(0, Checkpoint::bytes),
            vocabulary: tokenizer.as_ref().map(TextTokenizer::vocabulary),
            example: None,
            memory: Vec::new(),
            notes,
            problems: Vec::new(),
        };
        if let (Some(config), Some(checkpoint), Some(processor)) = (config, &checkpoint, processor) {
            if let Some((held, width)) = parts::fallback(&config.text, WeightType::Q4K) {
                let held = held.name();
                inspection.notes.push(format!(
                    "matrices {width} wide are held as {held} where q4_k, q5_k or q6_k is asked for: 256 does not divide them"
                ));
            }
            inspection.measure(&Facts::of(checkpoint, config, processor));
        }
        inspection.problems = wrong.0;
        inspection
    }

    fn measure(&mut self, facts: &Facts) {
        let sample = facts.sample(&EXAMPLE);
        self.parameters = Some([facts.text_parameters, facts.tower_parameters]);
        self.example = sample.map(|sample| [sample.visual, EXAMPLE.frames]);
        self.memory = WeightType::ALL
            .into_iter()
            .map(|dtype| {
                let need = facts.need(dtype, sample.as_ref(), EXAMPLE.new_tokens);
                let patches = sample.map_or(0, |sample| 4 * sample.patch_values as u64);
                Memory {
                    dtype: dtype.name(),
                    weights: need.weights + need.tower,
                    run: need.total() + patches,
                }
            })
            .collect();
    }
}

fn shares(checkpoint: &Checkpoint) -> Vec<Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    for (_, info) in checkpoint.tensors() {
        let dtype = format!("{:?}", info.dtype).to_lowercase();
        let share = shares.entry(dtype.clone()).or_insert(Share { dtype, tensors: 0, parameters: 0 });
        share.tensors += 1;
        share.parameters += info.shape.iter().map(|&n| n as u64).product::<u64>();
    }
    let mut shares: Vec<Share> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.parameters));
    shares
}

/// Tokenizer, template and configuration beside each other.
fn check_text(wrong: &mut Collector, config: &VlConfig, tokenizer: &TextTokenizer, template: &ChatTemplate) {
    let problem = |error: String| Failure {
        class: crate::record::FailureClass::Input,
        error,
        hint: Some("fetch the checkpoint again; its files do not belong together".into()),
    };
    let (known, vocab) = (tokenizer.vocabulary(), config.text.vocab);
    if known > vocab {
        let path = tokenizer.path().display();
        wrong.note(problem(format!("{path}: holds {known} ids, but the model has {vocab} embeddings")));
    }
    if let Some(ids) = wrong.take(template.ids(tokenizer, "What happens?")) {
        let found = ids.iter().filter(|id| **id == config.video_token).count();
        if found != 1 {
            wrong.note(problem(format!(
                "the chat template writes the video's token ({}) {found} times instead of once",
                config.video_token
            )));
        }
    }
}

/// Every tensor that loading would ask for.
fn check_weights(
    wrong: &mut Collector,
    config: &VlConfig,
    tower: Option<&TowerConfig>,
    checkpoint: Checkpoint,
) {
    for (name, shape) in parts::tensors(&config.text) {
        wrong.take(checkpoint.verify(&name, &shape));
    }
    if let Some(tower) = tower {
        wrong.take(Tower::load(&checkpoint, tower, &ComputeDevice::cpu(WeightType::F32)));
    }
    for problem in checkpoint.take_problems() {
        wrong.note(problem.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(of: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(of)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        dir
    }

    #[test]
    fn a_whole_checkpoint_has_no_problems() {
        for part in [
            "assets/demo/target",
            "tests/parity/fixtures/sharded_untied",
            "tests/parity/fixtures/nested_bf16",
        ] {
            let found = Inspection::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part));
            assert_eq!(found.problems, [], "{part}");
            assert_eq!(found.family.as_deref(), Some("qwen2_5_vl"));
            assert_eq!(found.memory.len(), WeightType::ALL.len());
            let parameters: u64 = found.shares.iter().map(|share| share.parameters).sum();
            assert_eq!(found.parameters.unwrap().iter().sum::<u64>(), parameters);
            assert!(found.memory.iter().all(|m| m.run > m.weights && m.weights > 0));
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let dir = copy("tests/parity/fixtures/sharded_untied");
        std::fs::remove_file(dir.path().join("model-00002-of-00003.safetensors")).unwrap();
        std::fs::write(dir.path().join("model-00003-of-00003.safetensors"), b"short").unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), b"{").unwrap();
        std::fs::write(dir.path().join("preprocessor_config.json"), b"[1]").unwrap();
        let found = Inspection::of(dir.path());
        for part in ["00002-of-00003", "00003-of-00003", "tokenizer.json", "preprocessor_config.json"] {
            assert!(found.problems.iter().any(|p| p.error.contains(part)), "{part}: {:?}", found.problems);
        }
        assert_eq!(found.problems.len(), 4);
    }

    #[test]
    fn every_tensor_that_is_missing_or_wrong_is_named() {
        let dir = copy("tests/parity/fixtures/gqa_tied");
        let path = dir.path().join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let layers = config["num_hidden_layers"].as_u64().unwrap();
        config["num_hidden_layers"] = (layers + 1).into();
        let depth = config["vision_config"]["depth"].as_u64().unwrap();
        config["vision_config"]["depth"] = (depth + 1).into();
        std::fs::write(&path, config.to_string()).unwrap();
        let errors: Vec<String> = Inspection::of(dir.path()).problems.into_iter().map(|p| p.error).collect();
        for part in [
            format!("model.layers.{layers}.mlp.up_proj.weight"),
            format!("visual.blocks.{depth}.attn.qkv.bias"),
        ] {
            assert!(errors.iter().any(|e| e.contains(&part)), "{part}: {errors:?}");
        }
        assert!(errors.len() > 15);
    }

    #[test]
    fn a_directory_that_is_none() {
        let found = Inspection::of(Path::new("/no/such/model"));
        assert!(!found.problems.is_empty() && found.memory.is_empty());
    }
}
