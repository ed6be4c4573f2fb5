//! The ids of a prompt, by the rules of a checkpoint's family.

use super::{ClipFacts, Family, ModelError, VideoText, VlConfig};
use crate::{
    template::{ChatTemplate, Question},
    text::{TextError, TextTokenizer},
};

impl Family {
    /// The tokenizer of a checkpoint whose `config.json` names this placeholder, once it has the tokens of the family's prompts.
    /// Fails with [`TextError::MissingToken`] for the first that it lacks, [`TextError::Placeholder`] for another placeholder.
    pub(crate) fn prepare_tokenizer(
        &self,
        tokenizer: TextTokenizer,
        video_token: u32,
    ) -> Result<TextTokenizer, TextError> {
        for (i, token) in self.tokens.iter().enumerate() {
            let id = tokenizer.require(token)?;
            if i == 0 && id != video_token {
                let path = tokenizer.path().to_owned();
                return Err(TextError::Placeholder {
                    path,
                    token: (*token).into(),
                    id,
                    expected: video_token,
                });
            }
        }
        match self.end_of_turn {
            Some(token) => tokenizer.ending_with(token),
            None => Ok(tokenizer),
        }
    }
}

/// The ids of a question about a clip, and the family's text for the clip. There is one
/// placeholder for each temporal grid where it wrote something, else one for the clip.
pub(crate) fn prompt_ids(
    config: &VlConfig,
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    question: &Question<'_>,
    (clip, frames_per_grid): (&ClipFacts, usize),
) -> Result<(Vec<u32>, Option<VideoText>), ModelError> {
    clip.check()?;
    let video = config.family.video_text.map(|write| write(clip, frames_per_grid));
    let rewrite = |rendered: String| match &video {
        Some(video) => video.replace(&rendered),
        None => rendered,
    };
    let ids = template.ids_with(tokenizer, question, &rewrite)?;
    Ok((ids, video))
}

#[cfg(test)]
mod tests;
