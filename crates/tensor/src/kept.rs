//! Converted matrices that are kept on disk between starts of the program.

use std::sync::Arc;

use crate::store::FileMap;

/// A converted matrix that can be kept: what it is, and its arrays.
pub trait Keep: Send {
    /// The type and its layout on this processor or device.
    fn format(&self) -> String;

    /// The arrays as bytes.
    fn arrays(&self) -> Vec<&[u8]>;
}

/// A matrix in a file of kept ones.
pub struct KeptMatrix {
    /// As of [`Keep::format`].
    pub format: String,
    /// Outputs and inputs.
    pub shape: [usize; 2],
    pub map: Arc<FileMap>,
    /// Where its arrays are in the file: the first byte and their number. A file that is damaged can claim any place.
    pub arrays: Vec<(usize, usize)>,
}

impl KeptMatrix {
    /// An array's bytes; `None` if it is not in the file.
    pub fn array(&self, index: usize) -> Option<&[u8]> {
        let (at, bytes) = *self.arrays.get(index)?;
        self.map.bytes().get(at..at.checked_add(bytes)?)
    }
}
