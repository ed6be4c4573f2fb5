//! A GGUF file, or the parts of a split one as one file.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{
    Metadata,
    header::{self, TypeShare},
    parts, published,
};
use specreel_tensor::{CheckpointError, TensorType, cpu::table::Values, store::FileMap};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Sizes, the slowest first (as in a safetensors file; a GGUF file has them in reverse).
    pub shape: Vec<usize>,
    pub kind: TensorType,
    /// Index of the part that it is in.
    part: usize,
    /// Offset of the first byte in that part.
    at: usize,
}

impl GgufTensor {
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn bytes(&self) -> usize {
        self.values() / self.kind.block() * self.kind.block_bytes()
    }

    /// A matrix of some of its rows; `None` if rows are not whole blocks.
    pub(super) fn rows(&self, first: usize, shape: [usize; 2]) -> Option<Self> {
        let whole = shape[1].is_multiple_of(self.kind.block());
        let row = shape[1] / self.kind.block() * self.kind.block_bytes();
        whole.then(|| Self { shape: shape.to_vec(), at: self.at + first * row, ..self.clone() })
    }
}

/// A mapped file, or all parts of a split one.
pub struct GgufFile {
    /// The parts: one of a file that is not split.
    maps: Vec<Arc<FileMap>>,
    /// The key-value pairs of the first part.
    pub metadata: Metadata,
    pub tensors: BTreeMap<String, GgufTensor>,
}

impl GgufFile {
    /// Map a file and read its header; with any part of a split model, all parts. Fails if one is missing or cannot be read, is
    /// truncated, says something that cannot be, belongs to another model, or has tensors of types that are not supported.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::read(path).map_err(as_one)
    }

    /// As [`GgufFile::open`], with everything that is wrong.
    pub(super) fn read(path: &Path) -> Result<Self, Vec<CheckpointError>> {
        let (headers, mut problems) = parts::open(path);
        problems.extend(published::unsupported_types(&headers));
        let metadata = headers.first().map(|header| header.metadata.clone());
        let (Some(metadata), true) = (metadata, problems.is_empty()) else { return Err(problems) };
        let maps = headers.iter().map(|header| Arc::clone(&header.map)).collect();
        let mut tensors = BTreeMap::new();
        for (part, header) in headers.into_iter().enumerate() {
            for listed in header.tensors {
                if let Ok(kind) = listed.kind {
                    tensors
                        .insert(listed.name, GgufTensor { shape: listed.shape, kind, part, at: listed.at });
                }
            }
        }
        Ok(Self { maps, metadata, tensors })
    }

    /// The key-value pairs of a file, of the first part if it is a part of a split model. Its tensors may be of any type, and
    /// other parts may be missing. Fails if it cannot be read, or its pairs are invalid.
    pub fn metadata(path: &Path) -> Result<Metadata, CheckpointError> {
        header::metadata(&parts::first(path))
    }

    /// The tensors of a file by type, supported or not, the largest share first; of all parts of a split model that can be read.
    pub fn types(path: &Path) -> Vec<TypeShare> {
        header::shares(&parts::open(path).0)
    }

    /// Check the types of the tensors that the header of a partial download lists. `None` if the header is not complete.
    pub(crate) fn check_beginning(path: &Path) -> Option<Result<(), String>> {
        let tensors = header::beginning(path)?;
        Some(published::problem(&tensors).map_or(Ok(()), Err))
    }

    /// The path; of the first part.
    pub fn path(&self) -> &Path {
        self.maps[0].path()
    }

    /// Size in bytes, of all parts.
    pub fn size(&self) -> u64 {
        self.maps.iter().map(|map| map.bytes().len() as u64).sum()
    }

    /// The values of a tensor; a copy if the file does not align them. `None` if they are not whole blocks.
    pub(crate) fn values(&self, tensor: &GgufTensor) -> Option<Values> {
        Values::mapped(tensor.kind, &self.maps[tensor.part], (tensor.at, tensor.bytes()))
            .or_else(|| Values::copied(tensor.kind, self.raw(tensor)))
    }

    pub(crate) fn raw(&self, tensor: &GgufTensor) -> &[u8] {
        &self.maps[tensor.part].bytes()[tensor.at..tensor.at + tensor.bytes()]
    }
}

/// Several problems as one error of the first one's file, with all ways out.
pub(super) fn as_one(problems: Vec<CheckpointError>) -> CheckpointError {
    let mut rest = problems.into_iter();
    let Some(mut one) = rest.next() else { unreachable!("a failure has a problem") };
    for other in rest {
        if let CheckpointError::File { path, problem, hint } = &mut one
            && let CheckpointError::File { path: of, problem: more, hint: way_out } = other
        {
            let of = match *path == of {
                true => String::new(),
                false => format!("{}: ", of.file_name().unwrap_or_default().to_string_lossy()),
            };
            *problem = format!("{problem}; {of}{more}");
            *hint = match (hint.take(), way_out) {
                (Some(hint), Some(way_out)) if !hint.contains(&way_out) => Some(format!("{hint}; {way_out}")),
                (hint, way_out) => hint.or(way_out),
            };
        }
    }
    one
}

#[cfg(test)]
mod tests;
