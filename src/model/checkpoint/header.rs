//! What the safetensors crate does not look for in a header.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

/// A name that stands twice in a header: readers would differ in which of the two they take.
pub(super) fn duplicate(header: &[u8]) -> Option<String> {
    // A header that is no JSON was refused before.
    serde_json::from_slice::<Names>(header).ok().and_then(|names| names.0)
}

struct Names(Option<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let (mut seen, mut twice) = (HashSet::new(), None);
                while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    if !seen.insert(name.clone()) {
                        twice.get_or_insert(name);
                    }
                }
                Ok(Names(twice))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::duplicate;

    #[test]
    fn the_first_name_that_stands_twice_is_found() {
        assert_eq!(duplicate(br#"{"a":1,"b":{"a":[2]},"c":3}"#), None);
        assert_eq!(duplicate(br#"{"a":1,"b":2,"b":3,"a":4}"#).as_deref(), Some("b"));
        assert_eq!(duplicate(b"[1]"), None);
    }
}
