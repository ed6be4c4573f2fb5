//! Keys or values of one layer, of any type: a plane of numbers by head and slot, or two.

use super::kernels::{self, Held, SLOTS};
use crate::KvType;

/// `heads × capacity` slots of `width` values. The values of one head are rows, or interleaved in blocks of `lanes` slots.
#[derive(Clone, Debug)]
pub(super) struct Plane<T> {
    values: Vec<T>,
    width: usize,
    lanes: usize,
    capacity: usize,
}

impl<T: Copy + Default> Plane<T> {
    fn new(heads: usize, capacity: usize, width: usize, lanes: usize) -> Self {
        Self { values: vec![T::default(); heads * capacity * width], width, lanes, capacity }
    }

    fn at(&self, head: usize, slot: usize, i: usize) -> usize {
        let block = slot / self.lanes * self.lanes;
        (head * self.capacity + block) * self.width + i * self.lanes + slot % self.lanes
    }

    fn head(&self, head: usize) -> &[T] {
        let size = self.capacity * self.width;
        &self.values[head * size..][..size]
    }

    fn set(&mut self, head: usize, slot: usize, values: impl Iterator<Item = T>) {
        let (at, lanes) = (self.at(head, slot, 0), self.lanes);
        for (i, value) in values.enumerate() {
            self.values[at + i * lanes] = value;
        }
    }

    fn copy_to(&self, target: &mut Self, head: usize, from: usize, to: usize) {
        let (from, lanes) = (self.at(head, from, 0), self.lanes);
        target.set(head, to, (0..self.width).map(|i| self.values[from + i * lanes]));
    }

    fn copy(&mut self, head: usize, from: usize, to: usize) {
        let (from, to) = (self.at(head, from, 0), self.at(head, to, 0));
        for i in 0..self.width {
            self.values[to + i * self.lanes] = self.values[from + i * self.lanes];
        }
    }

    fn grow(&mut self, heads: usize, capacity: usize) {
        let mut grown = Self::new(heads, capacity, self.width, self.lanes);
        for head in 0..heads {
            let old = self.head(head);
            grown.values[head * capacity * self.width..][..old.len()].copy_from_slice(old);
        }
        *self = grown;
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<T>()
    }
}

/// Keys or values of one layer.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    F32(Plane<f32>),
    F16(Plane<u16>),
    /// Integers and scales of keys: see [`Held::Fixed`].
    FixedKeys(Plane<[i16; 2]>, Plane<f32>),
    /// The same of values.
    FixedValues(Plane<i16>, Plane<f32>),
    /// Words of four values, and scales: see [`Held::Q8`].
    Q8(Plane<[u8; 4]>, Plane<f32>),
}

/// Evaluate an expression for the single plane, or for each of two.
macro_rules! each {
    ($stored:expr, $plane:ident => $body:expr) => {
        match $stored {
            Self::F32($plane) => $body,
            Self::F16($plane) => $body,
            Self::FixedKeys(words, scales) => each!(words, scales, $plane => $body),
            Self::FixedValues(integers, scales) => each!(integers, scales, $plane => $body),
            Self::Q8(quants, scales) => each!(quants, scales, $plane => $body),
        }
    };
    ($first:ident, $second:ident, $plane:ident => $body:expr) => {{
        {
            let $plane = $first;
            $body
        }
        let $plane = $second;
        $body
    }};
}

impl Stored {
    /// Interleaved keys for `heads × capacity` slots.
    pub fn keys(kind: KvType, heads: usize, d: usize, capacity: usize) -> Self {
        if kind == KvType::F16 && kernels::holds_fixed(d) {
            let scales = Plane::new(heads, capacity, 1, SLOTS);
            return Self::FixedKeys(Plane::new(heads, capacity, d / 2, SLOTS), scales);
        }
        Self::new(kind, heads, d, capacity, SLOTS)
    }

    /// Rows of values for `heads × capacity` slots.
    pub fn values(kind: KvType, heads: usize, d: usize, capacity: usize) -> Self {
        if kind == KvType::F16 && kernels::holds_fixed(d) {
            return Self::FixedValues(Plane::new(heads, capacity, d, 2), Plane::new(heads, capacity, 1, 1));
        }
        Self::new(kind, heads, d, capacity, 1)
    }

    fn new(kind: KvType, heads: usize, d: usize, capacity: usize, lanes: usize) -> Self {
        match kind {
            KvType::Auto | KvType::F32 => Self::F32(Plane::new(heads, capacity, d, lanes)),
            KvType::F16 => Self::F16(Plane::new(heads, capacity, d, lanes)),
            KvType::Q8_0 => {
                assert!(d.is_multiple_of(4), "a head is not whole words");
                let scales = Plane::new(heads, capacity, kernels::scales_of(d), lanes);
                Self::Q8(Plane::new(heads, capacity, d / 4, lanes), scales)
            }
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(plane) => plane.bytes(),
            Self::F16(plane) => plane.bytes(),
            Self::FixedKeys(words, scales) => words.bytes() + scales.bytes(),
            Self::FixedValues(integers, scales) => integers.bytes() + scales.bytes(),
            Self::Q8(quants, scales) => quants.bytes() + scales.bytes(),
        }
    }

    pub fn head(&self, head: usize) -> Held<'_> {
        match self {
            Self::F32(plane) => Held::F32(plane.head(head)),
            Self::F16(plane) => Held::F16(plane.head(head)),
            Self::FixedKeys(words, scales) => {
                Held::Fixed { integers: words.head(head).as_flattened(), scales: scales.head(head) }
            }
            Self::FixedValues(integers, scales) => {
                Held::Fixed { integers: integers.head(head), scales: scales.head(head) }
            }
            Self::Q8(quants, scales) => Held::Q8 { quants: quants.head(head), scales: scales.head(head) },
        }
    }

    /// Round a head's row to the type and write it to a slot.
    pub fn write(&mut self, head: usize, slot: usize, row: &[f32], buffer: &mut RowBuffer) {
        match self {
            Self::F32(plane) => plane.set(head, slot, row.iter().copied()),
            Self::F16(plane) => {
                buffer.half.resize(row.len(), 0);
                kernels::narrow(row, &mut buffer.half);
                plane.set(head, slot, buffer.half.iter().copied());
            }
            Self::FixedKeys(words, scales) => {
                buffer.fixed.resize(row.len(), 0);
                let scale = kernels::fix_key(row, &mut buffer.fixed);
                words.set(head, slot, buffer.fixed.as_chunks::<2>().0.iter().copied());
                scales.set(head, slot, [scale].into_iter());
            }
            Self::FixedValues(integers, scales) => {
                buffer.fixed.resize(row.len(), 0);
                let scale = kernels::fix_values(row, &mut buffer.fixed);
                integers.set(head, slot, buffer.fixed.iter().copied());
                scales.set(head, slot, [scale].into_iter());
            }
            Self::Q8(quants, scales) => {
                buffer.quants.resize(row.len(), 0);
                buffer.scales.resize(scales.width, 0.0);
                kernels::quantize_chunks(row, &mut buffer.quants, &mut buffer.scales);
                let words = buffer.quants.as_chunks::<4>().0.iter();
                quants.set(head, slot, words.map(|word| word.map(|q| q as u8 ^ kernels::SIGN)));
                scales.set(head, slot, buffer.scales.iter().copied());
            }
        }
    }

    /// Copy a slot to another place.
    pub fn copy(&mut self, head: usize, from: usize, to: usize) {
        each!(self, plane => plane.copy(head, from, to));
    }

    /// Copy a slot to another layer of the same type. Panics if the types differ.
    pub(crate) fn copy_to(&self, target: &mut Self, head: usize, from: usize, to: usize) {
        match (self, target) {
            (Self::F32(ours), Self::F32(theirs)) => ours.copy_to(theirs, head, from, to),
            (Self::F16(ours), Self::F16(theirs)) => ours.copy_to(theirs, head, from, to),
            (Self::FixedKeys(words, scales), Self::FixedKeys(their_words, their_scales)) => {
                words.copy_to(their_words, head, from, to);
                scales.copy_to(their_scales, head, from, to);
            }
            (Self::FixedValues(integers, scales), Self::FixedValues(their_integers, their_scales)) => {
                integers.copy_to(their_integers, head, from, to);
                scales.copy_to(their_scales, head, from, to);
            }
            (Self::Q8(quants, scales), Self::Q8(their_quants, their_scales)) => {
                quants.copy_to(their_quants, head, from, to);
                scales.copy_to(their_scales, head, from, to);
            }
            _ => unreachable!("caches of different types were compared before"),
        }
    }

    /// Allocate `capacity` slots for each head and keep the earlier ones' contents.
    pub fn grow(&mut self, heads: usize, capacity: usize) {
        each!(self, plane => plane.grow(heads, capacity));
    }
}

/// Buffers for a row in the type of a cache.
#[derive(Default)]
pub(super) struct RowBuffer {
    half: Vec<u16>,
    fixed: Vec<i16>,
    quants: Vec<i8>,
    scales: Vec<f32>,
}
