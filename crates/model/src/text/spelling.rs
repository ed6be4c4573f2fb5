//! How a vocabulary spells the bytes of its tokens.

use serde_json::{Value, json};
use tokenizers::DecoderWrapper;

/// What stands for a blank in [`Spelling::Pieces`].
pub(super) const BLANK: char = '\u{2581}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Every character is a byte, as in GPT-2.
    Bytes,
    /// Characters are themselves, but for blanks; a token such as `<0x0A>` is a byte, as in SentencePiece with
    /// `byte_fallback`.
    Pieces,
}

impl Spelling {
    /// That of this decoder; `None` if it does more than to turn tokens into bytes, or anything else.
    pub fn of(decoder: &DecoderWrapper) -> Option<Self> {
        if matches!(decoder, DecoderWrapper::ByteLevel(_)) {
            return Some(Self::Bytes);
        }
        let blanks = json!({"type": "Replace", "pattern": {"String": BLANK}, "content": " "});
        let pieces =
            json!({"type": "Sequence", "decoders": [blanks, {"type": "ByteFallback"}, {"type": "Fuse"}]});
        let given: Value = serde_json::to_value(decoder).ok()?;
        (given == pieces).then_some(Self::Pieces)
    }

    /// The bytes of a token that is not an added one.
    pub fn bytes(self, token: &str) -> Vec<u8> {
        match self {
            Self::Bytes => byte_level(token),
            Self::Pieces => match fallback(token) {
                Some(byte) => vec![byte],
                None => token.replace(BLANK, " ").into_bytes(),
            },
        }
    }
}

/// The byte of a token `<0xNN>`.
fn fallback(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = digits.len() == 2 && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_byte.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The bytes of a byte-level token: printable Latin-1 characters are themselves, the other bytes are U+0100 and up, in order.
fn byte_level(token: &str) -> Vec<u8> {
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
    use super::*;

    #[test]
    fn byte_level_names_become_bytes() {
        let bytes = |token| Spelling::Bytes.bytes(token);
        assert_eq!(bytes("Ġa"), b" a");
        assert_eq!(bytes("Ċ"), b"\n");
        assert_eq!(bytes("æĹ¥"), "日".as_bytes());
        assert_eq!(bytes("Ń"), [0xad]);
        // Not byte-level encoded.
        assert_eq!(bytes("日"), "日".as_bytes());
    }

    #[test]
    fn pieces_have_blanks_and_bytes() {
        let bytes = |token| Spelling::Pieces.bytes(token);
        assert_eq!(bytes("▁a▁Ġ"), " a Ġ".as_bytes());
        assert_eq!(bytes("日"), "日".as_bytes());
        assert_eq!((bytes("<0x0A>"), bytes("<0xe6>")), (vec![10], vec![0xe6]));
        for text in ["<0x>", "<0x+A>", "<0x0AA>", "<0xGG>", "0x0A"] {
            assert_eq!(bytes(text), text.as_bytes());
        }
    }

    #[test]
    fn a_decoder_that_does_more_has_no_spelling() {
        let of = |decoder: Value| Spelling::of(&serde_json::from_value(decoder).unwrap());
        let blanks = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let (fallback, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
        let pieces = json!({"type": "Sequence", "decoders": [blanks, fallback, fuse]});
        assert_eq!(of(pieces), Some(Spelling::Pieces));
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        for more in [
            json!({"type": "Sequence", "decoders": [blanks, fallback, fuse, strip]}),
            json!({"type": "Sequence", "decoders": [blanks, fuse]}),
            json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ] {
            assert_eq!(of(more), None);
        }
    }
}
