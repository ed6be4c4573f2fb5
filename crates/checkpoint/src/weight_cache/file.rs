//! The format of a file: a prefix, arrays at multiples of 4096 bytes, and the index.

use std::{path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::FORMAT;
use specreel_tensor::{kept::KeptMatrix, store::FileMap};

/// The first bytes.
const MAGIC: [u8; 8] = *b"SPCRWGTS";
/// Bytes of the prefix: magic, format, index (place, length, hash), length of the file, hash of all that.
const PREFIX: usize = 8 + 4 + 4 + 5 * 8;
/// Arrays begin at multiples of this.
pub(crate) const ALIGN: u64 = 4096;
/// Limit of the index, in bytes.
const LARGEST_INDEX: u64 = 64 << 20;

/// What a file contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Index {
    pub model: String,
    /// Its weight types, for people.
    pub variant: String,
    pub matrices: Vec<CachedMatrix>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachedMatrix {
    pub key: String,
    pub format: String,
    /// Rows.
    pub outputs: usize,
    /// Columns.
    pub inputs: usize,
    /// Place, length in bytes and hash of each array.
    pub arrays: Vec<(u64, u64, u64)>,
    /// The tensors of the checkpoint that it was made from, and their hashes.
    pub tensors: Vec<(String, u64)>,
}

/// The prefix of a complete file.
pub fn prefix(index_at: u64, index: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    let numbers = [index_at, index.len() as u64, XxHash3_64::oneshot(index), index_at + index.len() as u64];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
    bytes
}

pub(crate) struct CacheFile {
    pub map: Arc<FileMap>,
    pub index: Index,
    pub hash: u64,
}

impl CacheFile {
    /// Map a file and read its index; the arrays are not read.
    pub fn open(path: &Path) -> Result<Self, String> {
        let map = FileMap::open(path).map_err(|e| e.to_string())?;
        let bytes = map.bytes();
        let incomplete = || "incomplete".to_owned();
        let (prefix, hash) =
            bytes.get(..PREFIX).and_then(|prefix| prefix.split_last_chunk()).ok_or_else(incomplete)?;
        if u64::from_le_bytes(*hash) != XxHash3_64::oneshot(prefix) || !prefix.starts_with(&MAGIC) {
            return Err(incomplete());
        }
        let format = u32::from_le_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]);
        if format != FORMAT {
            return Err(format!("of format {format}, this program's is {FORMAT}"));
        }
        let number = |i: usize| prefix[16..].as_chunks().0.get(i).map_or(0, |b| u64::from_le_bytes(*b));
        let [at, length, hash, all] = [0, 1, 2, 3].map(number);
        if all != bytes.len() as u64 {
            return Err(format!("truncated or extended: {} bytes, expected {all}", bytes.len()));
        }
        let end = at.checked_add(length).filter(|end| *end <= all && length <= LARGEST_INDEX);
        let index = end.and_then(|end| bytes.get(at as usize..end as usize));
        let index = index.filter(|index| XxHash3_64::oneshot(index) == hash).ok_or("its index is damaged")?;
        let index = serde_json::from_slice(index).map_err(|e| format!("its index is damaged: {e}"))?;
        Ok(Self { map, index, hash })
    }

    /// A matrix of this name, outputs and inputs.
    pub fn matrix(&self, key: &str, shape: [usize; 2]) -> Option<KeptMatrix> {
        let same = |m: &&CachedMatrix| m.key == key && [m.outputs, m.inputs] == shape;
        let matrix = self.index.matrices.iter().find(same)?;
        let place = |&(at, bytes, _): &(u64, u64, u64)| (at as usize, bytes as usize);
        let (format, map) = (matrix.format.clone(), Arc::clone(&self.map));
        Some(KeptMatrix { format, shape, map, arrays: matrix.arrays.iter().map(place).collect() })
    }

    /// Read all arrays and compare them with their hashes.
    pub fn verify(&self) -> Result<(), String> {
        for matrix in &self.index.matrices {
            for &(at, length, hash) in &matrix.arrays {
                let end = at.saturating_add(length) as usize;
                let array = self.map.bytes().get(at as usize..end);
                if array.is_none_or(|array| XxHash3_64::oneshot(array) != hash) {
                    return Err(format!("the weights of {} are damaged", matrix.key));
                }
            }
        }
        Ok(())
    }
}
