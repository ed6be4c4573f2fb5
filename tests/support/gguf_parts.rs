//! Splits GGUF files as llama.cpp's gguf-split does.

use std::ops::Range;

const ALIGNMENT: usize = 32;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> usize {
        u64::from_le_bytes(self.take(8).try_into().unwrap()) as usize
    }

    fn string(&mut self) -> &'a [u8] {
        let length = self.u64();
        self.take(length)
    }

    fn value(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            10..=12 => drop(self.take(8)),
            8 => drop(self.string()),
            9 => {
                let (kind, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.value(kind));
            }
            other => panic!("a value of type {other}"),
        }
    }
}

/// A pair of a key and a 16-bit number (type 2) or a 32-bit number (type 5).
fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&(key.len() as u64).to_le_bytes()[..], key.as_bytes(), &kind.to_le_bytes(), value].concat()
}

/// The files of a model in `count` parts, of equally many tensors but in the last one.
pub fn split(bytes: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut reader = Reader { bytes, at: 8 };
    let (tensors, pairs) = (reader.u64(), reader.u64());
    let start = reader.at;
    for _ in 0..pairs {
        assert_ne!(reader.string(), b"general.alignment");
        let kind = reader.u32();
        reader.value(kind);
    }
    let metadata = &bytes[start..reader.at];
    // Each tensor's name, shape and type, and its offset.
    let mut listed: Vec<(&[u8], usize)> = Vec::new();
    for _ in 0..tensors {
        let start = reader.at;
        reader.string();
        let dims = reader.u32() as usize;
        reader.take(8 * dims + 4);
        listed.push((&bytes[start..reader.at], reader.u64()));
    }
    let data = reader.at.next_multiple_of(ALIGNMENT);
    let range = |at: usize| -> Range<usize> {
        let next = listed.iter().map(|tensor| tensor.1).filter(|next| *next > at).min();
        data + at..next.map_or(bytes.len(), |next| data + next)
    };
    let chunks: Vec<_> = listed.chunks(tensors.div_ceil(count)).collect();
    let part = |(number, tensors): (usize, &&[(&[u8], usize)])| {
        let own = [
            pair("split.no", 2, &(number as u16).to_le_bytes()),
            pair("split.count", 2, &(count as u16).to_le_bytes()),
            pair("split.tensors.count", 5, &(listed.len() as i32).to_le_bytes()),
        ];
        let pairs = if number == 0 { pairs + own.len() } else { own.len() };
        let mut file = bytes[..8].to_vec();
        file.extend((tensors.len() as u64).to_le_bytes());
        file.extend((pairs as u64).to_le_bytes());
        file.extend(if number == 0 { metadata } else { &[] });
        file.extend(own.concat());
        let mut all = Vec::new();
        for (about, at) in tensors.iter() {
            file.extend(*about);
            file.extend((all.len() as u64).to_le_bytes());
            all.extend(&bytes[range(*at)]);
            all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
        }
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        [file, all].concat()
    };
    assert_eq!(chunks.len(), count);
    chunks.iter().enumerate().map(part).collect()
}

/// The name of part `number` (from 1) of `count`.
pub fn part_name(stem: &str, number: usize, count: usize) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}
