//! The header of one file, checked as a whole before anything is used. Tensors may be of types that are not supported.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use super::{MAGIC, Metadata, reader::ByteReader, tensor_type};
use specreel_tensor::{CheckpointError, TensorType, store::FileMap};

/// Most pairs and most tensors of a file; files have some hundred.
const MOST: u64 = 1 << 16;
/// Longest name of a tensor, in bytes: the format says 64.
const NAME: u64 = 256;
/// Largest alignment of tensors, in bytes.
const ALIGNMENT: u64 = 1 << 16;

pub(super) const DAMAGED: &str = "download the file again: this copy is incomplete or damaged";

/// What is wrong with a file, and what to do.
type Refusal = (String, &'static str);

fn damaged(problem: String) -> Refusal {
    (format!("not a valid GGUF file: {problem}"), DAMAGED)
}

/// A tensor in a file's list.
pub(super) struct Listed {
    pub name: String,
    /// Sizes, the slowest first.
    pub shape: Vec<usize>,
    /// The type; the error names one that is not supported.
    pub kind: Result<TensorType, String>,
    /// Offset of the first byte in the file.
    pub at: usize,
    /// Size in bytes; of a type that is not supported, what lies between it and the next tensor.
    pub bytes: usize,
}

impl Listed {
    pub fn values(&self) -> u64 {
        self.shape.iter().fold(1, |product, &size| product.saturating_mul(size as u64))
    }
}

pub(super) struct GgufHeader {
    pub map: Arc<FileMap>,
    pub metadata: Metadata,
    pub tensors: Vec<Listed>,
}

impl GgufHeader {
    /// Map a file and read its header. Fails if it cannot be read, is truncated, or says something that cannot be.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let map = mapped(path)?;
        Self::parse(map).map_err(|(problem, hint)| CheckpointError::file_hint(path, problem, hint))
    }

    fn parse(map: Arc<FileMap>) -> Result<Self, Refusal> {
        let (metadata, at, count) = pairs(&map)?;
        let bytes = map.bytes();
        let mut reader = ByteReader::new(bytes, at);
        let mut tensors = list(&mut reader, count).map_err(damaged)?;
        place(&mut tensors, &metadata, reader.at(), bytes.len()).map_err(damaged)?;
        Ok(Self { map, metadata, tensors })
    }
}

/// The tensors that the header of a file lists, `None` if it is not complete. The tensors themselves may be missing.
pub(super) fn beginning(path: &Path) -> Option<Vec<Listed>> {
    let map = mapped(path).ok()?;
    let (_, at, count) = pairs(&map).ok()?;
    list(&mut ByteReader::new(map.bytes(), at), count).ok()
}

/// The key-value pairs of a file. Fails if it cannot be read, or its pairs are invalid.
pub(super) fn metadata(path: &Path) -> Result<Metadata, CheckpointError> {
    let metadata = pairs(&mapped(path)?).map(|(metadata, ..)| metadata);
    metadata.map_err(|(problem, hint)| CheckpointError::file_hint(path, problem, hint))
}

fn mapped(path: &Path) -> Result<Arc<FileMap>, CheckpointError> {
    FileMap::open(path).map_err(|e| CheckpointError::file(path, &e.to_string()))
}

/// The pairs, the position after them, and the number of tensors.
fn pairs(map: &Arc<FileMap>) -> Result<(Metadata, usize, u64), Refusal> {
    let bytes = map.bytes();
    if !bytes.starts_with(MAGIC) {
        let hint = "pass a GGUF file, or a directory in Hugging Face layout";
        return Err(("not a GGUF file".into(), hint));
    }
    let mut reader = ByteReader::new(bytes, MAGIC.len());
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

/// The tensors; where they are counts from the first one, and sizes of types that are not supported are 0.
fn list(reader: &mut ByteReader<'_>, count: u64) -> Result<Vec<Listed>, String> {
    let mut listed = Vec::new();
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let name = reader.name("the name of a tensor", NAME)?.to_owned();
        let refuse = |problem: &str| Err(format!("tensor `{name}` {problem}"));
        if !names.insert(name.clone()) {
            return Err(format!("it has the tensor `{name}` twice"));
        }
        let dims = reader.u32()?;
        if !(1..=4).contains(&dims) {
            return refuse(&format!("has {dims} dimensions, expected 1 to 4"));
        }
        let mut shape = Vec::new();
        for _ in 0..dims {
            match usize::try_from(reader.u64()?) {
                Ok(size @ 1..) => shape.push(size),
                _ => return refuse("has an empty dimension"),
            }
        }
        let (kind, offset) = (tensor_type::numbered(reader.u32()?), reader.u64()?);
        let mut bytes = Some(0);
        if let Ok(kind) = &kind {
            if !shape[0].is_multiple_of(kind.block()) {
                let (row, block) = (shape[0], kind.block());
                return refuse(&format!("has rows of {row} values, which are no blocks of {block}"));
            }
            let values = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
            bytes = values.and_then(|values| kind.bytes(values));
        }
        shape.reverse();
        let (Ok(at), Some(bytes)) = (usize::try_from(offset), bytes) else {
            return refuse(&format!("{shape:?} is too large"));
        };
        listed.push(Listed { name, shape, kind, at, bytes });
    }
    Ok(listed)
}

/// Check where the tensors are, and find their places in the file; `header` is where the list of tensors ends.
fn place(listed: &mut [Listed], metadata: &Metadata, header: usize, length: usize) -> Result<(), String> {
    let alignment = metadata.integer("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > ALIGNMENT {
        return Err(format!("`general.alignment` is {alignment}, expected a power of two up to {ALIGNMENT}"));
    }
    let alignment = alignment as usize;
    let start = header.next_multiple_of(alignment);
    let mut last = 0;
    for tensor in listed.iter_mut() {
        let name = &tensor.name;
        if !tensor.at.is_multiple_of(alignment) {
            let at = tensor.at;
            return Err(format!(
                "tensor `{name}` is at offset {at}, which is not aligned to {alignment} bytes"
            ));
        }
        let end = start.checked_add(tensor.at).and_then(|at| at.checked_add(tensor.bytes));
        last = last.max(end.ok_or_else(|| format!("tensor `{name}` {:?} is too large", tensor.shape))?);
        tensor.at += start;
    }
    if last > length {
        let beyond = listed.iter().filter(|tensor| tensor.at + tensor.bytes > length).count();
        let (count, missing) = (listed.len(), last - length);
        return Err(format!(
            "it is truncated: the last {missing} bytes are missing, with all or a part of {beyond} of {count} tensors"
        ));
    }
    let mut order: Vec<usize> = (0..listed.len()).collect();
    order.sort_by_key(|&i| (listed[i].at, listed[i].bytes));
    let mut next = length;
    for &i in order.iter().rev() {
        let tensor = &mut listed[i];
        if tensor.at + tensor.bytes > next {
            return Err(format!("two of its tensors overlap at byte {next}"));
        }
        if tensor.kind.is_err() {
            tensor.bytes = next - tensor.at;
        }
        next = tensor.at;
    }
    Ok(())
}

/// Tensors of one type in GGUF files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeShare {
    /// The type's name, in lower case.
    pub dtype: String,
    pub tensors: usize,
    pub values: u64,
    pub bytes: u64,
}

/// The tensors of files by type, the largest part first.
pub(super) fn shares<'a>(headers: impl IntoIterator<Item = &'a GgufHeader>) -> Vec<TypeShare> {
    let mut shares: BTreeMap<String, TypeShare> = BTreeMap::new();
    for tensor in headers.into_iter().flat_map(|header| &header.tensors) {
        let dtype = tensor.kind.as_ref().map_or_else(|name| name.to_lowercase(), |kind| kind.name().into());
        let new = TypeShare { dtype: dtype.clone(), tensors: 0, values: 0, bytes: 0 };
        let share = shares.entry(dtype).or_insert(new);
        share.tensors += 1;
        share.values = share.values.saturating_add(tensor.values());
        share.bytes += tensor.bytes as u64;
    }
    let mut shares: Vec<TypeShare> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}
