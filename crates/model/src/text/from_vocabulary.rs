//! A tokenizer from the parts that a GGUF file has.

use std::collections::HashMap;

use tokenizers::{
    AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer,
    models::bpe::{BPE, Vocab},
    normalizers::{NFC, Replace},
    pre_tokenizers::{
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use specreel_checkpoint::gguf::{Pieces, Vocabulary};

use super::spelling::BLANK;

/// Build the tokenizer, as the published `tokenizer.json` of the family describes it.
/// Errors: a merge or a token is impossible.
pub(super) fn tokenizer(vocabulary: &Vocabulary<'_>) -> Result<Tokenizer, String> {
    let used = (0u32..).zip(&vocabulary.tokens).filter_map(|(id, token)| Some((*token.as_ref()?, id)));
    let ids: HashMap<&str, u32> = used.collect();
    let longest = ids.keys().map(|token| token.len()).max().unwrap_or(0);
    // The builder indexes a buffer of the longest token's length.
    if let Some((a, b)) = vocabulary.merges.iter().find(|(a, b)| a.len() + b.len() > longest) {
        return Err(format!("the merge of `{a}` and `{b}` is no token"));
    }
    let merges = vocabulary.merges.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let ids: Vocab = ids.into_iter().map(|(token, id)| (token.to_owned(), id)).collect();
    let builder = BPE::builder().vocab_and_merges(ids, merges);
    let mut tokenizer = match vocabulary.pieces {
        Pieces::Bytes { split, composed } => {
            let mut tokenizer = Tokenizer::new(builder.build().map_err(|e| e.to_string())?);
            let split = SplitPattern::Regex(split.into());
            let split =
                Split::new(split, SplitDelimiterBehavior::Isolated, false).map_err(|e| e.to_string())?;
            let bytes = ByteLevel::new(false, true, false);
            let parts = vec![PreTokenizerWrapper::Split(split), PreTokenizerWrapper::ByteLevel(bytes)];
            tokenizer.with_pre_tokenizer(Some(Sequence::new(parts)));
            tokenizer.with_normalizer(composed.then_some(NFC)).map_err(|e| e.to_string())?;
            tokenizer.with_decoder(Some(bytes));
            tokenizer
        }
        Pieces::Characters { unknown } => {
            let unknown = unknown.and_then(|id| vocabulary.tokens.get(id as usize).copied().flatten());
            let builder = builder.byte_fallback(true).fuse_unk(true);
            let builder = match unknown {
                Some(token) => builder.unk_token(token.to_owned()),
                None => builder,
            };
            let mut tokenizer = Tokenizer::new(builder.build().map_err(|e| e.to_string())?);
            let blanks = Replace::new(" ", BLANK.to_string()).map_err(|e| e.to_string())?;
            tokenizer.with_normalizer(Some(blanks)).map_err(|e| e.to_string())?;
            tokenizer
        }
    };
    let added = vocabulary.added.iter().filter_map(|(id, special)| {
        let content = vocabulary.tokens.get(*id as usize).copied().flatten()?;
        Some(AddedToken::from(content, *special).normalized(false))
    });
    tokenizer.add_tokens(added.collect::<Vec<_>>()).map_err(|e| e.to_string())?;
    Ok(tokenizer)
}
