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
