//! A report on a checkpoint directory, with all problems at once.

use crate::ReadModel as _;
use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use super::{Conversion, Facts, conversion};
use crate::{
    config::TextConfig,
    decoder::parts,
    draft_head::mtp,
    family::{ClipFacts, Family, VlConfig, prompt_ids},
    processor::{ProcessorConfig, VideoProcessor, VisualGrid},
    template::{ChatTemplate, Question},
    text::TextTokenizer,
    vision::{self, TowerConfig},
};
use specreel_checkpoint::{
    Checkpoint, ModelFiles,
    gguf::{GgufFile, GgufModel},
    hub::name_of,
};
use specreel_record::Failure;
use specreel_tensor::{WeightType, Weights};

/// A problem that makes a checkpoint unusable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or tensor, and its problem.
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Tensors of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DtypeShare {
    /// The type's name in the files.
    pub dtype: String,
    pub tensors: usize,
    pub parameters: u64,
    pub bytes: u64,
}

/// Memory estimate for one weight type, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub dtype: &'static str,
    pub weights: u64,
    /// Weights and a run on the example video.
    pub run: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    pub name: String,
    /// `model_type` of the configuration, if it is valid.
    pub family: Option<String>,
    /// The language model's sizes.
    pub text: Option<TextConfig>,
    /// Parameters of the language model, and of the rest.
    pub parameters: Option<[u64; 2]>,
    /// Of a mixture of experts: parameters of the language model that a token takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_parameters: Option<u64>,
    /// How the weights are quantized in safetensors files, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Tensors by type in the files.
    pub shares: Vec<DtypeShare>,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Size of the tokenizer's vocabulary.
    pub vocabulary: Option<usize>,
    /// Visual tokens and frames of the example video.
    pub example: Option<[usize; 2]>,
    /// Memory estimate by weight type.
    pub memory: Vec<Memory>,
    /// Remarks that do not make the checkpoint unusable.
    pub notes: Vec<String>,
    pub problems: Vec<Problem>,
}

struct Problems(Vec<Problem>);

impl Problems {
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
    /// Check every file of a directory, or a GGUF file and its mmproj file (by default the one in its directory); of the weights it
    /// reads only the headers, and the scales of quantized ones.
    pub fn of(dir: &Path, mmproj: Option<&Path>) -> Self {
        let mut problems = Problems(Vec::new());
        let files = match dir.is_file().then(|| ModelFiles::open(dir, mmproj)) {
            Some(Ok(files)) => files,
            // All problems of a directory are found below.
            None => ModelFiles::of_directory(dir),
            Some(Err(problem)) => {
                GgufModel::problems(dir, mmproj)
                    .into_iter()
                    .for_each(|problem| problems.note(problem.into()));
                if problems.0.is_empty() {
                    problems.note(problem.into());
                }
                let shares = gguf_shares(&[dir]);
                let bytes = shares.iter().map(|share| share.bytes).sum();
                return Self { shares, bytes, problems: problems.0, ..Self::unknown(dir) };
            }
        };
        let config = problems.take(files.config());
        for problem in Checkpoint::problems(dir) {
            problems.note(problem.into());
        }
        let checkpoint = files.checkpoint().ok();
        let prepared = |tokenizer| match &config {
            Some(config) => config.family.prepare_tokenizer(tokenizer, config.video_token),
            None => Ok(tokenizer),
        };
        let tokenizer = problems.take(files.tokenizer().and_then(prepared));
        let family = config.as_ref().map(|config| config.family);
        let template = problems.take(files.template(family.unwrap_or(Family::ALL[0])));
        let tower = config.as_ref().and_then(|config| problems.take(config.tower()));
        let processor = match (&tower, files.gguf()) {
            (Some(tower), _) => problems.take(files.processor(tower)),
            (None, None) => problems.take(VideoProcessor::load(dir, ProcessorConfig::default())),
            (None, Some(_)) => None,
        };
        if let (Some(config), Some(tokenizer)) = (&config, &tokenizer)
            && let Some(template) = template
        {
            check_text(&mut problems, config, tokenizer, &template);
        }
        if let (Some(config), Some(tower), Some(processor)) = (&config, &tower, &processor)
            && let Err(problem) = tower.fits(processor.config(), config.text.hidden)
        {
            problems.note(VlConfig::refuse(&files.config_path(), problem).into());
        }
        if let (Some(config), Some(checkpoint)) = (&config, files.checkpoint().ok()) {
            check_weights(&mut problems, config, tower.as_ref(), &checkpoint);
        }
        let mut notes = Vec::new();
        let unsupported = tokenizer.iter().flat_map(|tokenizer| &tokenizer.sampling().unsupported);
        notes.extend(unsupported.map(|field| format!("it asks for {field}, which is not supported")));
        if checkpoint.as_ref().is_some_and(Checkpoint::has_activation_scales) {
            notes.push("it has scales of activations (input_scale), which are ignored: activations are not quantized to them".to_owned());
        }
        if checkpoint.as_ref().is_some_and(mtp::is_in) {
            notes.push(
                "it has a layer for multi-token prediction, which the method mtp drafts with".to_owned(),
            );
        }
        let mut inspection = Self {
            family: family.map(|family| family.model_type.to_owned()),
            text: config.as_ref().map(|c| c.text.clone()),
            quantization: checkpoint.as_ref().and_then(Checkpoint::quantization),
            shares: match (files.gguf(), &checkpoint) {
                (Some(model), _) => gguf_shares(&[model.text.path(), model.tower.path()]),
                (None, Some(checkpoint)) => shares(checkpoint),
                (None, None) => Vec::new(),
            },
            bytes: checkpoint.as_ref().map_or(0, Checkpoint::bytes),
            vocabulary: tokenizer.as_ref().map(TextTokenizer::vocabulary),
            notes,
            ..Self::unknown(dir)
        };
        if let (Some(config), Some(checkpoint), Some(tower), Some(processor)) =
            (config, &checkpoint, tower, processor)
        {
            let fallback = parts::fallback(&config.text, WeightType::Q4K);
            if let Some((_, width)) = fallback.filter(|_| files.gguf().is_none()) {
                inspection.notes.push(format!(
                    "matrices of width {width} are stored in larger types than {}: the width is not a multiple of 256; --dtype lists them",
                    wide_types()
                ));
            }
            inspection.measure(&Facts::of(checkpoint, config, tower, processor));
        }
        inspection.problems = problems.0;
        inspection
    }

    /// A report that says nothing yet.
    fn unknown(dir: &Path) -> Self {
        Self {
            name: name_of(dir),
            family: None,
            text: None,
            parameters: None,
            active_parameters: None,
            quantization: None,
            shares: Vec::new(),
            bytes: 0,
            vocabulary: None,
            example: None,
            memory: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// What the language model's tensors become if this type is requested; `None` if the configuration is invalid.
    pub fn conversions(&self, dtype: WeightType) -> Vec<Conversion> {
        self.text.as_ref().map(|text| conversion::of(text, dtype)).unwrap_or_default()
    }

    fn measure(&mut self, facts: &Facts) {
        let example = facts.example();
        let sample = facts.sample(&example);
        self.parameters = Some([facts.text_parameters, facts.tower_parameters]);
        self.active_parameters = facts.text.sparse.is_some().then_some(facts.active_parameters);
        self.example = sample.map(|sample| [sample.visual, example.frames]);
        // A GGUF file has one form, regardless of the request.
        let types: &[WeightType] =
            if facts.stored.is_some() { &[WeightType::Auto] } else { &WeightType::ALL };
        self.memory = facts.memory(types);
    }
}

/// The tensors of a checkpoint by type, the largest share first.
fn shares(checkpoint: &Checkpoint) -> Vec<DtypeShare> {
    let tensors = checkpoint.tensors().map(|tensor| DtypeShare {
        dtype: tensor.dtype,
        tensors: 1,
        parameters: tensor.shape.iter().map(|&n| n as u64).product(),
        bytes: tensor.bytes,
    });
    summed(tensors)
}

/// The tensors of GGUF files by type, as the files have them; also of types that are not supported.
fn gguf_shares(files: &[&Path]) -> Vec<DtypeShare> {
    let types = files.iter().flat_map(|file| GgufFile::types(file));
    summed(types.map(|share| DtypeShare {
        dtype: share.dtype,
        tensors: share.tensors,
        parameters: share.values,
        bytes: share.bytes,
    }))
}

fn summed(parts: impl Iterator<Item = DtypeShare>) -> Vec<DtypeShare> {
    let mut shares: BTreeMap<String, DtypeShare> = BTreeMap::new();
    for part in parts {
        match shares.get_mut(&part.dtype) {
            Some(share) => {
                share.tensors += part.tensors;
                share.parameters = share.parameters.saturating_add(part.parameters);
                share.bytes += part.bytes;
            }
            None => {
                shares.insert(part.dtype.clone(), part);
            }
        }
    }
    let mut shares: Vec<DtypeShare> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

/// The weight types with blocks of 256.
fn wide_types() -> String {
    let wide = WeightType::ALL
        .into_iter()
        .filter(|dtype| matches!(dtype, WeightType::Of(kind) if kind.block() == 256));
    wide.map(WeightType::name).collect::<Vec<_>>().join(", ")
}

/// Check that tokenizer, template and configuration are consistent.
fn check_text(
    problems: &mut Problems,
    config: &VlConfig,
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
) {
    let problem = |error: String| Failure {
        class: specreel_record::FailureClass::Input,
        error,
        hint: Some("download the checkpoint again: its files do not belong together".into()),
    };
    let (known, vocab) = (tokenizer.vocabulary(), config.text.vocab);
    if known > vocab {
        let path = tokenizer.path().display();
        problems.note(problem(format!("{path}: has {known} ids, but the model has {vocab} embeddings")));
    }
    let clip = ClipFacts::steady(VisualGrid { t: 1, h: 1, w: 1 }, 1, 1.0);
    let written = prompt_ids(
        config,
        tokenizer,
        template,
        &Question { text: "What happens?", ..Question::default() },
        (&clip, 1),
    );
    if let Some((ids, _)) = problems.take(written) {
        let found = ids.iter().filter(|id| **id == config.video_token).count();
        if found != 1 {
            problems.note(problem(format!(
                "the chat template outputs the video token ({}) {found} times, expected 1",
                config.video_token
            )));
        }
    }
}

/// Check every tensor that loading needs.
fn check_weights(
    problems: &mut Problems,
    config: &VlConfig,
    tower: Option<&TowerConfig>,
    checkpoint: &Checkpoint,
) {
    for (name, shape) in parts::tensors(&config.text) {
        problems.take(checkpoint.verify(&name, &shape));
    }
    if problems.0.is_empty() {
        problems.take(parts::check_tied(&config.text, checkpoint));
    }
    for (name, shape) in tower.map(vision::parts::tensors).unwrap_or_default() {
        problems.take(checkpoint.verify(&name, &shape));
    }
    for problem in checkpoint.scale_problems() {
        problems.note(problem.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        family::VideoLlm,
        testing::{copy, fixture, repository},
    };

    #[test]
    fn a_complete_checkpoint_has_no_problems() {
        for dir in [repository("assets/demo/target"), fixture("sharded_untied"), fixture("nested_bf16")] {
            let found = Inspection::of(&dir, None);
            assert_eq!(found.problems, [], "{}", dir.display());
            assert_eq!(found.family.as_deref(), Some("qwen2_5_vl"));
            assert_eq!(found.memory.len(), WeightType::ALL.len());
            let parameters: u64 = found.shares.iter().map(|share| share.parameters).sum();
            assert_eq!(found.parameters.unwrap().iter().sum::<u64>(), parameters);
            assert!(found.memory.iter().all(|m| m.run > m.weights && m.weights > 0));
        }
    }

    #[test]
    fn gguf_files_are_inspected_with_their_tower() {
        let of = |file: &str| Inspection::of(&fixture("gguf").join(file), None);
        let found = of("mix/model-q4_k_m.gguf");
        assert_eq!(found.problems, []);
        assert_eq!((found.name.as_str(), found.family.as_deref()), ("model-q4_k_m", Some("qwen2_5_vl")));
        let types: Vec<&str> = found.shares.iter().map(|share| share.dtype.as_str()).collect();
        assert!(
            ["q4_k", "q5_k", "q6_k", "q8_0", "q4_0", "f32"].iter().all(|kind| types.contains(kind)),
            "{types:?}"
        );
        let parameters: u64 = found.shares.iter().map(|share| share.parameters).sum();
        assert_eq!(found.parameters.unwrap().iter().sum::<u64>(), parameters);
        assert!(found.memory.len() == 1 && found.memory[0].run > found.memory[0].weights);
        let alone = of("gqa_tied/mmproj-f32.gguf");
        assert!(
            alone.problems.len() == 1 && alone.problems[0].error.contains("vision tower"),
            "{:?}",
            alone.problems
        );
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let dir = copy("sharded_untied");
        std::fs::remove_file(dir.path().join("model-00002-of-00003.safetensors")).unwrap();
        std::fs::write(dir.path().join("model-00003-of-00003.safetensors"), b"short").unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), b"{").unwrap();
        std::fs::write(dir.path().join("preprocessor_config.json"), b"[1]").unwrap();
        let found = Inspection::of(dir.path(), None);
        for part in ["00002-of-00003", "00003-of-00003", "tokenizer.json", "preprocessor_config.json"] {
            assert!(found.problems.iter().any(|p| p.error.contains(part)), "{part}: {:?}", found.problems);
        }
        assert_eq!(found.problems.len(), 4);
    }

    #[test]
    fn every_missing_or_wrong_tensor_is_named() {
        let dir = copy("gqa_tied");
        let path = dir.path().join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let layers = config["num_hidden_layers"].as_u64().unwrap();
        config["num_hidden_layers"] = (layers + 1).into();
        let depth = config["vision_config"]["depth"].as_u64().unwrap();
        config["vision_config"]["depth"] = (depth + 1).into();
        std::fs::write(&path, config.to_string()).unwrap();
        let errors: Vec<String> =
            Inspection::of(dir.path(), None).problems.into_iter().map(|p| p.error).collect();
        for part in [
            format!("model.layers.{layers}.mlp.up_proj.weight"),
            format!("visual.blocks.{depth}.attn.qkv.bias"),
        ] {
            assert!(errors.iter().any(|e| e.contains(&part)), "{part}: {errors:?}");
        }
        assert!(errors.len() > 15);
    }

    #[test]
    fn an_lm_head_beside_tied_embeddings_is_a_copy_of_them() {
        let dir = copy("gqa_untied_f16");
        let path = dir.path().join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(Inspection::of(dir.path(), None).problems, []);
        config["tie_word_embeddings"] = true.into();
        std::fs::write(&path, config.to_string()).unwrap();
        let problems = Inspection::of(dir.path(), None).problems;
        assert!(problems.len() == 1 && problems[0].error.contains("lm_head.weight"), "{problems:?}");
        let error = VideoLlm::load(dir.path(), WeightType::F32, &mut |_, _| {}).err().unwrap().to_string();
        assert!(error.contains("`tie_word_embeddings` is true"), "{error}");

        // The table's bytes in place of the head's.
        let path = dir.path().join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let json: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
        let place = |name: &str| {
            let place = json[name]["data_offsets"].as_array().unwrap();
            let [start, end] = [0, 1].map(|i| header + place[i].as_u64().unwrap() as usize);
            start..end
        };
        let table = bytes[place("model.embed_tokens.weight")].to_vec();
        bytes[place("lm_head.weight")].copy_from_slice(&table);
        std::fs::write(&path, bytes).unwrap();
        let found = Inspection::of(dir.path(), None);
        assert_eq!(found.problems, []);
        let parameters: u64 = found.shares.iter().map(|share| share.parameters).sum();
        let text = found.text.unwrap();
        let copied = (text.vocab * text.hidden) as u64;
        assert_eq!(found.parameters.unwrap().iter().sum::<u64>(), parameters - copied);
    }

    #[test]
    fn a_missing_directory_is_a_problem() {
        let found = Inspection::of(Path::new("/no/such/model"), None);
        assert!(!found.problems.is_empty() && found.memory.is_empty());
    }
}
