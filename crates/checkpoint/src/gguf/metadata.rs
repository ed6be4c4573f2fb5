//! The key-value pairs at the start of a GGUF file. Strings and arrays stay where they are and are read when they are asked for.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::reader::ByteReader;
use specreel_tensor::store::FileMap;

/// Longest key, in bytes.
const KEY: u64 = 1 << 16;
/// Longest string, in bytes: chat templates have some thousand.
const STRING: u64 = 1 << 24;
/// Most elements of an array: the largest vocabularies have a quarter of a million tokens.
const ELEMENTS: u64 = 1 << 22;

/// A value. Ranges are bytes of the file.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(Range<usize>),
    Array { kind: u32, len: usize, bytes: Range<usize> },
}

const STRING_KIND: u32 = 8;
const ARRAY_KIND: u32 = 9;

impl Value {
    fn word(&self) -> &'static str {
        match self {
            Self::Unsigned(_) | Self::Signed(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Bool(_) => "a boolean",
            Self::String(_) => "a string",
            Self::Array { .. } => "an array",
        }
    }
}

/// Bytes of a scalar type; `None` for strings, arrays and unknown types.
fn width(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// The scalar of a type in `bytes`, which has its width.
fn scalar(kind: u32, bytes: &[u8]) -> Result<Value, String> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let word = u64::from_le_bytes(wide);
    // Shifted up and down again, so that the sign is extended.
    let unused = 64 - 8 * bytes.len() as u32;
    Ok(match kind {
        1 | 3 | 5 | 11 => Value::Signed(((word << unused) as i64) >> unused),
        6 => Value::Float(f64::from(f32::from_bits(word as u32))),
        12 => Value::Float(f64::from_bits(word)),
        7 if word > 1 => return Err(format!("has the boolean {word}")),
        7 => Value::Bool(word == 1),
        _ => Value::Unsigned(word),
    })
}

#[derive(Clone)]
pub struct Metadata {
    map: Arc<FileMap>,
    values: BTreeMap<String, Value>,
}

impl Metadata {
    /// Read `count` pairs.
    pub(super) fn read(map: &Arc<FileMap>, reader: &mut ByteReader<'_>, count: u64) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = reader.name("a key", KEY)?.to_owned();
            let kind = reader.u32()?;
            let value =
                Self::value(map.bytes(), reader, kind).map_err(|problem| format!("`{key}`: {problem}"))?;
            if values.contains_key(&key) {
                return Err(format!("it has the key `{key}` twice"));
            }
            values.insert(key, value);
        }
        Ok(Self { map: Arc::clone(map), values })
    }

    fn value(bytes: &[u8], reader: &mut ByteReader<'_>, kind: u32) -> Result<Value, String> {
        if let Some(width) = width(kind) {
            return scalar(kind, &bytes[reader.skip(width as u64)?]);
        }
        match kind {
            STRING_KIND => reader.string(STRING).map(Value::String),
            ARRAY_KIND => {
                let (kind, len) = (reader.u32()?, reader.u64()?);
                if len > ELEMENTS {
                    return Err(format!("an array of {len} elements, the limit is {ELEMENTS}"));
                }
                let start = reader.at();
                match (width(kind), kind) {
                    (Some(width), _) => {
                        reader.skip(len * width as u64)?;
                    }
                    (None, STRING_KIND) => {
                        for _ in 0..len {
                            reader.string(STRING)?;
                        }
                    }
                    (None, ARRAY_KIND) => return Err("arrays of arrays are not supported".into()),
                    (None, other) => return Err(format!("unknown type {other}")),
                }
                Ok(Value::Array { kind, len: len as usize, bytes: start..reader.at() })
            }
            other => Err(format!("unknown type {other}")),
        }
    }

    /// True if there is a value of this key.
    pub fn contains(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn get<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let wrong = || format!("`{key}` is {}, expected {expected}", value.word());
        read(value).map(Some).ok_or_else(wrong)
    }

    /// An integer of any type; `None` if the key is missing. Fails if the value has another type or is negative.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<u64>, String> {
        self.get(key, "an integer from 0 on", integer)
    }

    /// A number of any type; `None` if the key is missing. Fails if the value has another type.
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.get(key, "a number", number)
    }

    /// A string; `None` if the key is missing. Fails if the value has another type or is not UTF-8.
    pub fn string(&self, key: &str) -> Result<Option<&str>, String> {
        self.get(key, "a UTF-8 string", |value| match value {
            Value::String(range) => std::str::from_utf8(&self.map.bytes()[range.clone()]).ok(),
            _ => None,
        })
    }

    fn array<T>(
        &self,
        key: &str,
        expected: &str,
        element: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, String> {
        self.get(key, expected, |value| {
            let Value::Array { kind, bytes, .. } = value else { return None };
            let width = width(*kind)?;
            let scalars = self.map.bytes()[bytes.clone()].chunks_exact(width);
            scalars.map(|bytes| element(&scalar(*kind, bytes).ok()?)).collect()
        })
    }

    /// An array of integers; `None` if the key is missing. Fails if the value is not such an array, or has negative elements.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<u64>>, String> {
        self.array(key, "an array of integers", integer)
    }

    /// An array of booleans; `None` if the key is missing. Fails if the value is not such an array.
    pub(crate) fn booleans(&self, key: &str) -> Result<Option<Vec<bool>>, String> {
        self.array(key, "an array of booleans", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// An array of numbers; `None` if the key is missing. Fails if the value is not such an array.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, String> {
        self.array(key, "an array of numbers", number)
    }

    /// An array of strings; `None` if the key is missing. Fails if the value is not such an array, or an element is not UTF-8.
    pub(crate) fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, String> {
        self.get(key, "an array of UTF-8 strings", |value| {
            let Value::Array { kind: STRING_KIND, len, bytes } = value else { return None };
            let mut reader = ByteReader::new(&self.map.bytes()[..bytes.end], bytes.start);
            let mut strings = Vec::with_capacity(*len);
            for _ in 0..*len {
                strings.push(std::str::from_utf8(&self.map.bytes()[reader.string(STRING).ok()?]).ok()?);
            }
            Some(strings)
        })
    }
}

fn integer(value: &Value) -> Option<u64> {
    match *value {
        Value::Unsigned(n) => Some(n),
        Value::Signed(n) => u64::try_from(n).ok(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match *value {
        Value::Unsigned(n) => Some(n as f64),
        Value::Signed(n) => Some(n as f64),
        Value::Float(n) => Some(n),
        _ => None,
    }
}
