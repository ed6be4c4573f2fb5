//! Prompts of Qwen3-VL: the time of each pair of frames before it, in text.
//!
//! The form of Qwen's release: the pairs, each between `<|vision_start|>` and `<|vision_end|>`, replace the
//! template's whole `<|vision_start|><|video_pad|><|vision_end|>`. Since transformers 5.10 an outer pair of marks stays.

use crate::family::{ClipFacts, VideoText};

/// The template for checkpoints without one.
pub(super) const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}\
{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The special tokens of prompts.
pub(super) const TOKENS: &[&str] =
    &["<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<|im_start|>", "<|im_end|>"];

/// A clip as text: the mean of each pair's times with one decimal, halves to even, and its placeholder between marks.
pub(in crate::family) fn video_text(clip: &ClipFacts, frames_per_grid: usize) -> VideoText {
    let opening =
        |(first, last): (f64, f64)| format!("<{:.1} seconds><|vision_start|>", (first + last) / 2.0);
    let mut openings = clip.times_of_grids(frames_per_grid).map(opening).peekable();
    VideoText {
        replaces: &["<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>"],
        opening: openings.peek().cloned().unwrap_or_default(),
        text: openings.map(|opening| opening + "<|video_pad|><|vision_end|>").collect(),
        closing: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::VisualGrid;

    #[test]
    fn the_marks_of_the_template_are_replaced_too() {
        let grid = VisualGrid { t: 2, h: 1, w: 1 };
        let video = video_text(&ClipFacts::steady(grid, 4, 2.0), 2);
        assert_eq!(video.opening, "<0.2 seconds><|vision_start|>");
        let pair = |time| format!("<{time} seconds><|vision_start|><|video_pad|><|vision_end|>");
        let both = pair("0.2") + &pair("1.2");
        let rendered = "a <|vision_start|><|video_pad|><|vision_end|> b";
        assert_eq!(video.replace(rendered), format!("a {both} b"));
        assert_eq!(video.replace("a <|video_pad|> b"), format!("a {both} b"));
        assert_eq!(video.replace("a b"), "a b");
    }
}
