//! The header of a safetensors file: read apart from the data, and stricter than the safetensors crate, which takes the last of
//! two tensors of one name.

use std::{collections::HashMap, fmt};

use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The key next to the tensors; its value is a map of strings.
const METADATA: &str = "__metadata__";

/// Parse a header and check that its tensors lie one after the other, without gaps or overlaps. Returns the tensors, and the
/// length of their data in bytes.
pub(crate) fn parse(json: &[u8]) -> Result<(HashMap<String, TensorInfo>, usize), String> {
    let Header { tensors, duplicate } = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    if let Some(name) = duplicate {
        return Err(format!("the header names `{name}` twice"));
    }
    let mut in_order: Vec<(&String, &TensorInfo)> = tensors.iter().collect();
    in_order.sort_by_key(|(_, info)| info.data_offsets);
    let mut end = 0;
    for (name, info) in in_order {
        let (start, stop) = info.data_offsets;
        let values = info.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let bits = values.and_then(|values| values.checked_mul(info.dtype.bitsize()));
        if start != end || stop < start || bits != (stop - start).checked_mul(8) {
            return Err(format!(
                "tensor `{name}` ({:?} {:?}) cannot be at bytes {start}..{stop}",
                info.dtype, info.shape
            ));
        }
        end = stop;
    }
    Ok((tensors, end))
}

struct Header {
    tensors: HashMap<String, TensorInfo>,
    /// The first name that occurs a second time.
    duplicate: Option<String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut tensors, mut metadata, mut duplicate) = (HashMap::new(), None, None);
                while let Some(name) = map.next_key::<String>()? {
                    let again = if name == METADATA {
                        metadata.replace(map.next_value::<Option<HashMap<String, String>>>()?).is_some()
                    } else {
                        tensors.insert(name.clone(), map.next_value()?).is_some()
                    };
                    if again {
                        duplicate.get_or_insert(name);
                    }
                }
                Ok(Header { tensors, duplicate })
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn tensor(name: &str, dtype: &str, shape: &str, start: u64, stop: u64) -> String {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{stop}]}}"#)
    }

    fn end(tensors: &[String]) -> Result<usize, String> {
        parse(format!("{{{}}}", tensors.join(",")).as_bytes()).map(|(_, end)| end)
    }

    #[test]
    fn tensors_must_be_contiguous_and_of_their_size() {
        let (a, b) = (tensor("a", "F32", "[2,3]", 0, 24), tensor("b", "BF16", "[]", 24, 26));
        let metadata = r#""__metadata__":{"format":"pt"}"#.to_owned();
        assert_eq!(end(&[b.clone(), metadata, a.clone()]), Ok(26));
        assert_eq!(end(&[]), Ok(0));
        for (name, bad) in [
            ("gap", tensor("b", "BF16", "[]", 26, 28)),
            ("overlap", tensor("b", "BF16", "[]", 22, 24)),
            ("too short", tensor("b", "F32", "[]", 24, 26)),
            ("backwards", tensor("b", "BF16", "[]", 24, 22)),
            ("overflow", tensor("b", "BF16", "[4294967296,4294967296]", 24, 26)),
        ] {
            assert!(end(&[a.clone(), bad]).unwrap_err().contains("cannot be at bytes"), "{name}");
        }
    }

    #[test]
    fn a_name_that_occurs_twice_is_refused() {
        let (a, b) = (tensor("a", "F32", "[1]", 0, 4), tensor("b", "F32", "[1]", 4, 8));
        assert_eq!(end(&[a.clone(), b.clone(), b, a]), Err("the header names `b` twice".into()));
        let metadata = || r#""__metadata__":{}"#.to_owned();
        assert!(end(&[metadata(), metadata()]).unwrap_err().contains("`__metadata__` twice"));
        assert!(parse(b"[1]").is_err());
    }
}
