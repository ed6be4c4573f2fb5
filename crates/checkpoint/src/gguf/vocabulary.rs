//! The tokenizer in a language model's metadata.

use super::GgufFile;

/// What is done with text before tokens are merged, as the published tokenizer does it.
struct Preparation {
    /// Its name in `tokenizer.ggml.pre`.
    name: &'static str,
    split: &'static str,
    /// Text is composed (NFC) first.
    composed: bool,
}

const PREPARATIONS: [Preparation; 3] = [
    Preparation {
        name: "qwen2",
        split: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        composed: true,
    },
    // As Qwen2's, but marks belong to the letters before them.
    Preparation {
        name: "qwen35",
        split: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        composed: true,
    },
    // GPT-2's, after every digit is a piece of its own: what precedes a digit ends there.
    Preparation {
        name: "smollm",
        split: r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
        composed: false,
    },
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

/// A byte-level tokenizer's parts.
#[derive(Debug)]
pub struct Vocabulary<'a> {
    /// Tokens by id; `None` for ids that only pad the embedding table.
    pub tokens: Vec<Option<&'a str>>,
    /// Ids of tokens that are recognized in a template, and whether they are special.
    pub added: Vec<(u32, bool)>,
    /// Merges, the first applied first.
    pub merges: Vec<(&'a str, &'a str)>,
    pub split: &'static str,
    /// Text is composed (NFC) before it is split.
    pub composed: bool,
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
        if model != "gpt2" {
            return Err(format!("unsupported tokenizer `{model}`, expected gpt2 (byte-level)"));
        }
        let pre = m.string("tokenizer.ggml.pre")?.ok_or_else(|| missing("tokenizer.ggml.pre"))?;
        let preparation = PREPARATIONS.iter().find(|known| known.name == pre).ok_or_else(|| {
            let known = PREPARATIONS.map(|known| known.name).join(", ");
            format!("unsupported `tokenizer.ggml.pre` `{pre}`, expected one of: {known}")
        })?;
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
            split: preparation.split,
            composed: preparation.composed,
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
