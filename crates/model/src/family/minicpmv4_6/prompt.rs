//! Prompts of MiniCPM-V 4.6: every frame is a picture between marks, as for a video without slices and picture numbers.

use crate::family::{ClipFacts, VideoText};

/// The template for checkpoints without one. As in the published one, an answer begins with an empty thought unless
/// `enable_thinking` is true.
pub(super) const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if not loop.first %}{{ '\\n' }}{% endif %}{% if part['type'] == 'video' %}<|video_pad|>\
{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\
{% if not (enable_thinking is defined and enable_thinking) %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}";

/// The token that ends an answer.
pub(super) const END_OF_TURN: &str = "<|im_end|>";

/// The special tokens of prompts, and the marks around thoughts.
pub(super) const TOKENS: &[&str] =
    &["<|video_pad|>", "<image>", "</image>", "<|im_start|>", END_OF_TURN, "<think>", "</think>"];

/// A clip as text: a placeholder between marks for each frame. No time is written.
pub(super) fn video_text(clip: &ClipFacts, _: usize) -> VideoText {
    VideoText {
        replaces: &["<|video_pad|>"],
        text: "<image><|video_pad|></image>".repeat(clip.grid.t),
        opening: "<image>".to_owned(),
        closing: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{processor::VisualGrid, template::ChatTemplate};

    #[test]
    fn every_frame_is_a_picture_between_marks() {
        let clip = ClipFacts::steady(VisualGrid { t: 2, h: 2, w: 3 }, 2, 1.0);
        let rendered = ChatTemplate::new(TEMPLATE, "test").render("What?").unwrap();
        let want = "<|im_start|>user\n<image><|video_pad|></image><image><|video_pad|></image>\nWhat?<|im_end|>\n\
                    <|im_start|>assistant\n<think>\n\n</think>\n\n";
        assert_eq!(video_text(&clip, 1).replace(&rendered), want);
    }
}
