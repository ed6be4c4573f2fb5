//! How a checkpoint writes prompts, by the rules of its family.

use super::{ClipFacts, Family, ModelError, VideoText};
use crate::{
    config::VlConfig,
    template::{ChatTemplate, Question},
    text::{TextError, TextTokenizer},
};

impl Family {
    /// The tokenizer of a checkpoint whose `config.json` names this placeholder, once it has the tokens of the family's prompts.
    /// Errors: [`TextError::MissingToken`] for the first that it lacks, [`TextError::Placeholder`] for another placeholder.
    pub(crate) fn prepare(
        self,
        tokenizer: TextTokenizer,
        video_token: u32,
    ) -> Result<TextTokenizer, TextError> {
        let rules = self.rules();
        for (i, token) in rules.tokens().iter().enumerate() {
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
        match rules.end_of_turn() {
            Some(token) => tokenizer.ending_with(token),
            None => Ok(tokenizer),
        }
    }

    /// True if prompts take [`Self::template`] whatever the checkpoint's own.
    pub(crate) fn forces_template(self) -> bool {
        self.rules().forces_template()
    }
}

/// The ids of a question about a clip, and what the family wrote of the clip. There is one
/// placeholder for each temporal grid where it wrote something, else one for the clip.
/// Errors: the template or the tokenizer fails, or the clip's times cannot be written.
pub(crate) fn write(
    config: &VlConfig,
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    question: &Question<'_>,
    (clip, frames_per_grid): (&ClipFacts, usize),
) -> Result<(Vec<u32>, Option<VideoText>), ModelError> {
    clip.check()?;
    let video = config.family.rules().video_text(clip, frames_per_grid);
    let rewrite = |rendered: String| match &video {
        Some(video) => video.replace(&rendered),
        None => rendered,
    };
    let ids = template.ids_with(tokenizer, question, &rewrite)?;
    Ok((ids, video))
}

#[cfg(test)]
#[path = "writing_tests.rs"]
mod tests;
