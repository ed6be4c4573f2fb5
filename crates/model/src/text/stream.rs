//! Text from a stream of tokens.

use super::TextTokenizer;

/// Decodes a stream of tokens: returns text as soon as its bytes form characters.
///
/// A character that spans several tokens is returned with the last of them. Bytes that cannot become a character are
/// returned as U+FFFD, as soon as that is certain.
#[derive(Clone, Debug)]
pub struct TextStream {
    tokenizer: TextTokenizer,
    /// At most three bytes: the start of a character.
    pending: Vec<u8>,
}

impl TextStream {
    pub(super) fn new(tokenizer: TextTokenizer) -> Self {
        Self { tokenizer, pending: Vec::new() }
    }

    /// The text that `id` completes.
    pub fn push(&mut self, id: u32) -> String {
        self.pending.extend(self.tokenizer.written(id));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let (whole, rest) = self.pending.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    let Some(broken) = error.error_len() else {
                        self.pending = rest.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.pending = rest[broken..].to_vec();
                }
            }
        }
    }

    /// The rest of the text after the last token: empty, or one U+FFFD for a broken character.
    pub fn finish(&mut self) -> String {
        let left = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        left
    }
}

/// The bytes of a byte-level token: printable Latin-1 characters are themselves, the other bytes are U+0100 and up, in order.
pub(super) fn token_bytes(token: &str) -> Vec<u8> {
    let is_itself = |c: u32| matches!(c, 33..=126 | 161..=172 | 174..=255);
    let byte = |c: char| {
        let c = u32::from(c);
        if is_itself(c) {
            return u8::try_from(c).ok();
        }
        let nth = c.checked_sub(256)? as usize;
        (0..=255u8).filter(|b| !is_itself(u32::from(*b))).nth(nth)
    };
    // A token with any other character is not byte-level encoded.
    let bytes: Option<Vec<u8>> = token.chars().map(byte).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::token_bytes;

    #[test]
    fn byte_level_names_become_bytes() {
        assert_eq!(token_bytes("Ġa"), b" a");
        assert_eq!(token_bytes("Ċ"), b"\n");
        assert_eq!(token_bytes("æĹ¥"), "日".as_bytes());
        assert_eq!(token_bytes("Ń"), [0xad]);
        // Not byte-level encoded.
        assert_eq!(token_bytes("日"), "日".as_bytes());
    }
}
