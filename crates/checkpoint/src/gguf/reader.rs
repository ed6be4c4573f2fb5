//! Reading numbers and strings from untrusted bytes.

use std::ops::Range;

/// A position in some bytes. Nothing is read beyond their end.
pub(super) struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Skip `count` bytes; returns where they are.
    pub fn skip(&mut self, count: u64) -> Result<Range<usize>, String> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let end =
            end.filter(|end| *end <= self.bytes.len()).ok_or("it is truncated: it ends within its header")?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let range = self.skip(N as u64)?;
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[range]);
        Ok(array)
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// Where a string of at most `longest` bytes is.
    pub fn string(&mut self, longest: u64) -> Result<Range<usize>, String> {
        let length = self.u64()?;
        if length > longest {
            return Err(format!("it has a string of {length} bytes, the limit is {longest}"));
        }
        self.skip(length)
    }

    /// A name: a string that is not empty.
    pub fn name(&mut self, what: &str, longest: u64) -> Result<&'a str, String> {
        let range = self.string(longest)?;
        let name =
            std::str::from_utf8(&self.bytes[range]).map_err(|_| format!("{what} is not UTF-8 text"))?;
        if name.is_empty() { Err(format!("{what} is empty")) } else { Ok(name) }
    }
}
