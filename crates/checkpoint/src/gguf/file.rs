//! One GGUF file: its header, checked as a whole before anything is used.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{MAGIC, Metadata, reader::Reader, tensor_type};
use specreel_tensor::{CheckpointError, TensorType, cpu::table::Values, store::FileMap};

/// Most pairs and most tensors of a file; files have some hundred.
const MOST: u64 = 1 << 16;
/// Longest name of a tensor, in bytes: the format says 64.
const NAME: u64 = 256;
/// Largest alignment of tensors, in bytes.
const ALIGNMENT: u64 = 1 << 16;

/// What is wrong with a file, and what to do.
type Refusal = (String, &'static str);

fn damaged(problem: String) -> Refusal {
    (
        format!("not a valid GGUF file: {problem}"),
        "download the file again: this copy is incomplete or damaged",
    )
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Sizes, the slowest first (as in a safetensors file; a GGUF file has them in reverse).
    pub shape: Vec<usize>,
    /// The type.
    pub kind: TensorType,
    /// Its first byte in the file.
    at: usize,
}

impl GgufTensor {
    /// Number of values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.values() / self.kind.block() * self.kind.block_bytes()
    }
}

/// A mapped file.
pub struct GgufFile {
    map: Arc<FileMap>,
    /// The key-value pairs.
    pub metadata: Metadata,
    /// The tensors by name.
    pub tensors: BTreeMap<String, GgufTensor>,
}

impl GgufFile {
    /// Map a file and read its header. Fails if it cannot be read, is truncated, or says something that cannot be.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let map = FileMap::open(path).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
        Self::parse(&map).map_err(|(problem, hint)| CheckpointError::file_hint(path, problem, hint))
    }

    /// The key-value pairs of a file. Its tensors may be of any type, and it may be a part of a split model. Fails if it cannot
    /// be read, or its pairs are invalid.
    pub fn metadata(path: &Path) -> Result<Metadata, CheckpointError> {
        let map = FileMap::open(path).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
        let header = Self::header(&map).map(|(metadata, ..)| metadata);
        header.map_err(|(problem, hint)| CheckpointError::file_hint(path, problem, hint))
    }

    /// The pairs, the position after them, and the number of tensors.
    fn header(map: &Arc<FileMap>) -> Result<(Metadata, usize, u64), Refusal> {
        let bytes = map.bytes();
        if !bytes.starts_with(MAGIC) {
            let hint = "pass a GGUF file, or a directory in Hugging Face layout";
            return Err(("not a GGUF file".into(), hint));
        }
        let mut reader = Reader::new(bytes, MAGIC.len());
        match reader.u32().map_err(damaged)? {
            2 | 3 => {}
            1 => {
                let hint = "convert the model again with a current version of llama.cpp";
                return Err(("GGUF version 1 is not supported, expected 2 or 3".into(), hint));
            }
            version if matches!(version.swap_bytes(), 1..=9) => {
                return Err((
                    "big-endian GGUF files are not supported".into(),
                    "use the little-endian file of this model",
                ));
            }
            version => {
                let problem = format!("GGUF version {version} is not supported, expected 2 or 3");
                return Err((problem, "update specreel, or use an older file of this model"));
            }
        }
        let (tensors, pairs) = (reader.u64().map_err(damaged)?, reader.u64().map_err(damaged)?);
        for (what, count) in [("tensors", tensors), ("keys", pairs)] {
            if count > MOST {
                return Err(damaged(format!("it claims {count} {what}, the limit is {MOST}")));
            }
        }
        let metadata = Metadata::read(map, &mut reader, pairs).map_err(damaged)?;
        Ok((metadata, reader.at(), tensors))
    }

    fn parse(map: &Arc<FileMap>) -> Result<Self, Refusal> {
        let (metadata, at, tensors) = Self::header(map)?;
        let bytes = map.bytes();
        let mut reader = Reader::new(bytes, at);
        if let Some(count) = metadata.integer("split.count").map_err(damaged)?.filter(|count| *count > 1) {
            let problem = format!("it is one of {count} parts of a split model");
            return Err((
                problem,
                "merge the parts with: llama-gguf-split --merge FIRST-PART.gguf MERGED.gguf",
            ));
        }
        let listed = list(&mut reader, tensors)?;
        let tensors = place(listed, &metadata, reader.at(), bytes.len()).map_err(damaged)?;
        Ok(Self { map: Arc::clone(map), metadata, tensors })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.map.bytes().len() as u64
    }

    /// The mapped file.
    pub fn map(&self) -> &Arc<FileMap> {
        &self.map
    }

    /// The values of a tensor; a copy if the file does not align them. None if they are not whole blocks.
    pub(crate) fn values(&self, tensor: &GgufTensor) -> Option<Values> {
        Values::mapped(tensor.kind, &self.map, (tensor.at, tensor.bytes()))
            .or_else(|| Values::copied(tensor.kind, self.raw(tensor)))
    }

    /// The bytes of a tensor.
    pub(crate) fn raw(&self, tensor: &GgufTensor) -> &[u8] {
        &self.map.bytes()[tensor.at..tensor.at + tensor.bytes()]
    }
}

/// Name, shape, type, and offset from the first tensor.
type Listed = (String, Vec<usize>, TensorType, u64);

fn list(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Listed>, Refusal> {
    let mut listed = Vec::new();
    let mut unsupported: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..count {
        let name = reader.name("the name of a tensor", NAME).map_err(damaged)?.to_owned();
        let refuse = |problem: &str| damaged(format!("tensor `{name}` {problem}"));
        let dims = reader.u32().map_err(damaged)?;
        if !(1..=4).contains(&dims) {
            return Err(refuse(&format!("has {dims} dimensions, expected 1 to 4")));
        }
        let mut shape = Vec::new();
        for _ in 0..dims {
            let size = usize::try_from(reader.u64().map_err(damaged)?).ok().filter(|size| *size > 0);
            shape.push(size.ok_or_else(|| refuse("has an empty dimension"))?);
        }
        let kind = reader.u32().map_err(damaged)?;
        let offset = reader.u64().map_err(damaged)?;
        let kind = match tensor_type::numbered(kind) {
            Ok(kind) => kind,
            Err(kind) => {
                *unsupported.entry(kind).or_default() += 1;
                continue;
            }
        };
        if !shape[0].is_multiple_of(kind.block()) {
            return Err(refuse(&format!(
                "has rows of {} values, which are no blocks of {}",
                shape[0],
                kind.block()
            )));
        }
        shape.reverse();
        listed.push((name, shape, kind, offset));
    }
    match unsupported.is_empty() {
        true => Ok(listed),
        false => Err(refused_types(unsupported)),
    }
}

/// All types at once, the most frequent first.
fn refused_types(unsupported: BTreeMap<String, usize>) -> Refusal {
    let mut types: Vec<(String, usize)> = unsupported.into_iter().collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = |(kind, count): &(String, usize)| {
        format!("{kind} ({count} tensor{})", if *count == 1 { "" } else { "s" })
    };
    let told: Vec<String> = types.iter().map(told).collect();
    let (told, known) = (told.join(", "), tensor_type::supported());
    let problem = format!("unsupported tensor types: {told}, expected one of: {known}");
    (problem, "use a file of this model with supported types only, as most named Q8_0, F16 or BF16 are")
}

/// Check where the tensors are; `header` is where the list of tensors ends.
fn place(
    listed: Vec<Listed>,
    metadata: &Metadata,
    header: usize,
    length: usize,
) -> Result<BTreeMap<String, GgufTensor>, String> {
    let alignment = metadata.integer("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > ALIGNMENT {
        return Err(format!("`general.alignment` is {alignment}, expected a power of two up to {ALIGNMENT}"));
    }
    let start = (header as u64).next_multiple_of(alignment);
    let mut ranges = Vec::with_capacity(listed.len());
    let mut tensors = BTreeMap::new();
    for (name, shape, kind, offset) in listed {
        let values = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let bytes = values.and_then(|values| kind.bytes(values));
        let at = start.checked_add(offset).and_then(|at| usize::try_from(at).ok());
        let end = at.zip(bytes).and_then(|(at, bytes)| at.checked_add(bytes));
        let (Some(at), Some(end)) = (at, end) else {
            return Err(format!("tensor `{name}` {shape:?} is too large"));
        };
        if !offset.is_multiple_of(alignment) {
            return Err(format!(
                "tensor `{name}` is at offset {offset}, which is not aligned to {alignment} bytes"
            ));
        }
        if end > length {
            let missing = end - length;
            return Err(format!("it is truncated: tensor `{name}` ends {missing} bytes after the file"));
        }
        ranges.push((at, end));
        if tensors.insert(name.clone(), GgufTensor { shape, kind, at }).is_some() {
            return Err(format!("it has the tensor `{name}` twice"));
        }
    }
    ranges.sort_unstable();
    if let Some(pair) = ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        return Err(format!("two of its tensors overlap at byte {}", pair[1].0));
    }
    Ok(tensors)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
