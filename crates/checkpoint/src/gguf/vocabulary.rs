//! The tokenizer in a language model's metadata.

use super::GgufFile;

/// What tokens are made of, and what is done with text before they are merged, as the published tokenizer does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Every character of a token is a byte.
    Bytes {
        /// The pattern of what is merged apart.
        split: &'static str,
        /// Text is composed (NFC) before it is split.
        composed: bool,
    },
    /// Characters, with U+2581 for blanks; what the vocabulary lacks is bytes (`<0x0A>`). `unknown` is the id of what has no bytes.
    Characters { unknown: Option<u32> },
}

/// The preparation of text for byte-level tokens, by its name in `tokenizer.ggml.pre`.
const PREPARATIONS: [(&str, Pieces); 3] = [
    (
        "qwen2",
        Pieces::Bytes {
            split: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            composed: true,
        },
    ),
    // As Qwen2's, but marks belong to the letters before them.
    (
        "qwen35",
        Pieces::Bytes {
            split: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            composed: true,
        },
    ),
    // GPT-2's, after every digit is a piece of its own: what precedes a digit ends there.
    (
        "smollm",
        Pieces::Bytes {
            split: r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
            composed: false,
        },
    ),
];

/// Numbers that say how to sample, by name.
const SAMPLING: [(&str, &str); 8] = [
    ("temp", "general.sampling.temp"),
    ("top_k", "general.sampling.top_k"),
    ("top_p", "general.sampling.top_p"),
    ("min_p", "general.sampling.min_p"),
    ("penalty_repeat", "general.sampling.penalty_repeat"),
    ("penalty_last_n", "general.sampling.penalty_last_n"),
    ("xtc_probability", "general.sampling.xtc_probability"),
    ("mirostat", "general.sampling.mirostat"),
];

/// Types of tokens.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// A tokenizer's parts.
#[derive(Debug)]
pub struct Vocabulary<'a> {
    /// Tokens by id; `None` for ids that only pad the embedding table.
    pub tokens: Vec<Option<&'a str>>,
    /// Ids of tokens that are recognized in a template, and whether they are special.
    pub added: Vec<(u32, bool)>,
    /// Merges, the first applied first.
    pub merges: Vec<(&'a str, &'a str)>,
    pub pieces: Pieces,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// The file's numbers below `general.sampling`, by name.
    pub sampling: Vec<(&'static str, f64)>,
}

impl<'a> Vocabulary<'a> {
    /// Read the tokenizer of a file; `also_ends` are tokens that end an answer besides the file's end token. Fails if it is of
    /// another kind, or its parts do not agree with each other.
    pub fn read(file: &'a GgufFile, also_ends: &[&str]) -> Result<Self, String> {
        let m = &file.metadata;
        let missing = |key: &str| format!("`{key}` is missing");
        let model = m.string("tokenizer.ggml.model")?.ok_or_else(|| missing("tokenizer.ggml.model"))?;
        let pieces = match model {
            "gpt2" => {
                let pre = m.string("tokenizer.ggml.pre")?.ok_or_else(|| missing("tokenizer.ggml.pre"))?;
                let known = PREPARATIONS.iter().find(|(name, _)| *name == pre);
                known.map(|(_, pieces)| *pieces).ok_or_else(|| {
                    let known = PREPARATIONS.map(|(name, _)| name).join(", ");
                    format!("unsupported `tokenizer.ggml.pre` `{pre}`, expected one of: {known}")
                })?
            }
            "gemma4" => {
                let unknown = m.integer("tokenizer.ggml.unknown_token_id")?;
                Pieces::Characters { unknown: unknown.and_then(|id| u32::try_from(id).ok()) }
            }
            other => {
                return Err(format!(
                    "unsupported tokenizer `{other}`, expected gpt2 (byte-level) or gemma4 (characters)"
                ));
            }
        };
        let texts = m.strings("tokenizer.ggml.tokens")?.ok_or_else(|| missing("tokenizer.ggml.tokens"))?;
        let kinds =
            m.integers("tokenizer.ggml.token_type")?.ok_or_else(|| missing("tokenizer.ggml.token_type"))?;
        if texts.len() != kinds.len() {
            return Err(format!("it has {} tokens, but {} token types", texts.len(), kinds.len()));
        }
        let added = (0..).zip(&kinds).filter(|(_, kind)| matches!(**kind, CONTROL | USER_DEFINED));
        let added: Vec<(u32, bool)> = added.map(|(id, kind)| (id, *kind == CONTROL)).collect();
        let merges = m.strings("tokenizer.ggml.merges")?.ok_or_else(|| missing("tokenizer.ggml.merges"))?;
        let merges = merges.into_iter().map(|merge| {
            // A part may begin with a space, but has no other.
            let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
            at.map(|at| (&merge[..at], &merge[at + 1..])).ok_or_else(|| format!("invalid merge `{merge}`"))
        });
        let merges = merges.collect::<Result<_, _>>()?;
        let mut ends = Vec::new();
        for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
            if let Some(id) = m.integer(key)? {
                let id = u32::try_from(id).ok().filter(|id| (*id as usize) < texts.len());
                ends.push(id.ok_or_else(|| format!("`{key}` is not the id of a token"))?);
            }
        }
        let special =
            added.iter().filter(|(id, _)| also_ends.contains(&texts[*id as usize])).map(|(id, _)| *id);
        ends.extend(special.collect::<Vec<_>>());
        let mut seen = std::collections::HashSet::new();
        ends.retain(|id| seen.insert(*id));
        if ends.is_empty() {
            return Err(missing("tokenizer.ggml.eos_token_id"));
        }
        let mut sampling = Vec::new();
        for (name, key) in SAMPLING {
            sampling.extend(m.number(key)?.map(|value| (name, value)));
        }
        let used = |(text, kind): (&'a str, &u64)| (*kind != UNUSED).then_some(text);
        Ok(Self {
            tokens: texts.into_iter().zip(&kinds).map(used).collect(),
            added,
            merges,
            pieces,
            ends,
            sampling,
        })
    }

    /// The id of a token in a file, without reading the rest of the tokenizer. Fails if the file has no list of tokens.
    pub fn find(file: &GgufFile, token: &str) -> Result<Option<u32>, String> {
        let texts = file.metadata.strings("tokenizer.ggml.tokens")?;
        let texts = texts.ok_or("`tokenizer.ggml.tokens` is missing")?;
        Ok(texts.iter().position(|text| *text == token).map(|id| id as u32))
    }
}
