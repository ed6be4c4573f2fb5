//! LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! A matrix W with an adapter is used as W + s · B A, where A is `[r, in]` (`….lora_A.weight`), B is `[out, r]`
//! (`….lora_B.weight`), and s = alpha / r, or alpha / √r with `use_rslora` (Hu et al., 2021; Kalajdzievski, 2023). The sum is
//! computed in f32 while W is read. For an embedding table, `….lora_embedding_A` is `[r, rows]` and `….lora_embedding_B` is
//! `[width, r]`. Tensors without such an ending (`modules_to_save`, biases) replace the model's.

mod config;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use specreel_tensor::CheckpointError;

use crate::{quantized::FileTensor, shard::Shard};
use config::{AdapterConfig, MERGE};

const WEIGHTS: &str = "adapter_model.safetensors";

/// What PEFT puts in front of the names of modules.
const PREFIX: &str = "base_model.model.";

/// An opened adapter, whose weight file is a shard of the checkpoint.
#[derive(Debug)]
pub(crate) struct Adapter {
    dir: PathBuf,
    config: AdapterConfig,
    /// By names of modules.
    pairs: BTreeMap<String, AdapterPair>,
    /// Tensors that replace the model's, by the model's names.
    pub replaced: BTreeMap<String, FileTensor>,
}

#[derive(Clone, Debug)]
pub(crate) struct AdapterPair {
    pub a: FileTensor,
    pub b: FileTensor,
    /// Of an embedding table.
    pub embedding: bool,
    pub factor: f32,
}

impl AdapterPair {
    /// The rank, and the shape of the matrix that it is added to.
    fn sizes(&self) -> Option<(usize, [usize; 2])> {
        let [a, b] = [&self.a, &self.b].map(|part| &part.info.shape[..]);
        let (&[a, ref inputs @ ..], &[outputs, b, ref rest @ ..]) = (a, b) else { return None };
        if a != b || a == 0 || rest.iter().any(|size| *size != 1) {
            return None;
        }
        let inputs = inputs.iter().product();
        Some((a, if self.embedding { [inputs, outputs] } else { [outputs, inputs] }))
    }
}

impl Adapter {
    /// Open the adapter in `dir`, whose weight file becomes the shard of number `shard`. Fails if a file is missing or damaged,
    /// or the adapter is of a kind that is not supported.
    pub fn open(dir: &Path, shard: usize) -> Result<(Self, Shard), CheckpointError> {
        let config = AdapterConfig::read(dir)?;
        let path = std::path::absolute(dir.join(WEIGHTS)).unwrap_or_else(|_| dir.join(WEIGHTS));
        if !path.exists() && dir.join("adapter_model.bin").exists() {
            let hint = "load it with peft and save it again with save_pretrained, which writes safetensors";
            return Err(CheckpointError::file_hint(
                dir,
                format!("it has no {WEIGHTS}, only adapter_model.bin"),
                hint,
            ));
        }
        let file = Shard::open(&path)?;
        let refuse = |problem: String| {
            let hint = "copy the whole adapter again: its files do not belong together, or one is incomplete";
            CheckpointError::file_hint(&path, problem, hint)
        };
        let (mut halves, mut replaced) =
            (BTreeMap::<String, [Option<FileTensor>; 4]>::new(), BTreeMap::new());
        for (name, info) in &file.tensors {
            let part = FileTensor { name: name.clone(), shard, info: info.clone() };
            let inner = name.strip_prefix(PREFIX).unwrap_or(name);
            if inner.contains("lora_magnitude_vector") {
                let problem = format!("`{name}` is of a DoRA adapter, which is not supported");
                return Err(CheckpointError::file_hint(&path, problem, MERGE));
            }
            match half(inner) {
                Some((module, index)) => halves.entry(module.to_owned()).or_default()[index] = Some(part),
                None => {
                    let inner =
                        inner.replace(".modules_to_save.default.", ".").replace(".modules_to_save.", ".");
                    replaced.insert(inner.replace(".base_layer.", "."), part);
                }
            }
        }
        let mut pairs = BTreeMap::new();
        for (module, halves) in halves {
            let (a, b, embedding) = match halves {
                [Some(a), Some(b), None, None] => (a, b, false),
                [None, None, Some(a), Some(b)] => (a, b, true),
                _ => return Err(refuse(format!("`{module}` has not both of lora_A and lora_B"))),
            };
            let (rank, factor) = config.scaling(&module);
            let pair = AdapterPair { a, b, embedding, factor };
            let [a, b] = [&pair.a, &pair.b].map(|part| &part.info.shape);
            match pair.sizes() {
                Some((found, _)) if found == rank => {}
                _ => {
                    let problem =
                        format!("`{module}` has lora_A {a:?} and lora_B {b:?}, expected the rank {rank}");
                    return Err(refuse(problem));
                }
            }
            pairs.insert(module, pair);
        }
        if pairs.is_empty() && replaced.is_empty() {
            return Err(refuse("it has no tensors".into()));
        }
        Ok((Self { dir: dir.to_owned(), config, pairs, replaced }, file))
    }

    /// The matrices for a tensor with one of these names.
    pub fn pair(&self, names: &[String]) -> Option<&AdapterPair> {
        names.iter().find_map(|name| self.pairs.get(name.strip_suffix(".weight")?))
    }

    /// The settings that its sums depend on, for cache keys.
    pub fn settings(&self) -> String {
        let factors: Vec<(&String, f32)> =
            self.pairs.iter().map(|(module, pair)| (module, pair.factor)).collect();
        format!("{factors:?}")
    }

    /// Check that every tensor of the adapter belongs to a tensor of the model and has its shape. For each of the model's tensors,
    /// `tensors` has the names and the shape.
    pub fn check(
        &self,
        model: &str,
        tensors: impl Iterator<Item = (Vec<String>, Vec<usize>)>,
    ) -> Result<(), CheckpointError> {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut wrong: BTreeSet<String> = BTreeSet::new();
        for (names, shape) in tensors {
            let matrix = [shape.first().copied().unwrap_or(1), shape.iter().skip(1).product()];
            for name in &names {
                if let Some((module, pair)) =
                    name.strip_suffix(".weight").and_then(|module| self.pairs.get_key_value(module))
                {
                    used.insert(module);
                    if let Some((_, found)) = pair.sizes().filter(|(_, found)| *found != matrix) {
                        wrong.insert(format!(
                            "{} is for {found:?}, the model has {matrix:?}",
                            pattern(module)
                        ));
                    }
                }
                if let Some((name, part)) = self.replaced.get_key_value(name) {
                    used.insert(name);
                    if part.info.shape.iter().product::<usize>() != shape.iter().product::<usize>() {
                        let found = &part.info.shape;
                        wrong.insert(format!(
                            "{} has shape {found:?}, the model has {shape:?}",
                            pattern(name)
                        ));
                    }
                }
            }
        }
        let unknown =
            self.pairs.keys().chain(self.replaced.keys()).filter(|name| !used.contains(name.as_str()));
        let unknown: BTreeSet<String> = unknown.map(|name| pattern(name)).collect();
        let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        let problem = match (unknown.is_empty(), wrong.is_empty()) {
            (true, true) => return Ok(()),
            (false, _) => format!("the adapter is not of {model}, which has no {}", list(unknown)),
            (true, false) => format!("the adapter is not of {model}: {}", list(wrong)),
        };
        let hint = match &self.config.base {
            Some(base) => format!("use it with the model that it was trained on ({base}), or omit --lora"),
            None => "use it with the model that it was trained on, or omit --lora".to_owned(),
        };
        Err(CheckpointError::file_hint(&self.dir, problem, hint))
    }
}

/// The module of a tensor, and which of its matrices it is.
fn half(name: &str) -> Option<(&str, usize)> {
    const ENDINGS: [&str; 4] = [".lora_A", ".lora_B", ".lora_embedding_A", ".lora_embedding_B"];
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let name = name.strip_suffix(".default").unwrap_or(name);
    ENDINGS.iter().enumerate().find_map(|(index, ending)| Some((name.strip_suffix(ending)?, index)))
}

/// A name with `*` for the numbers of layers, so that a list of all layers is short.
fn pattern(name: &str) -> String {
    let part = |part: &str| {
        if part.bytes().all(|byte| byte.is_ascii_digit()) { "*".into() } else { part.to_owned() }
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests;
