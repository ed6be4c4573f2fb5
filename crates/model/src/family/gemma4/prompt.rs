//! Prompts of Gemma 4: the time before every frame, minutes and seconds, and marks around its visual tokens.

use crate::family::{ClipFacts, VideoText};

/// The template for checkpoints without one. As in the published one, an answer begins with an empty thought unless `enable_thinking`
/// is true.
pub(super) const TEMPLATE: &str = "<bos>{% if enable_thinking is defined and enable_thinking %}\
<|turn>system\n<|think|>\n<turn|>\n{% endif %}{% for message in messages %}\
<|turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|video|>{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}\
{% endfor %}{% endif %}<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n\
{% if not (enable_thinking is defined and enable_thinking) %}<|channel>thought\n<channel|>{% endif %}{% endif %}";

/// The token that ends an answer.
pub(super) const END_OF_TURN: &str = "<turn|>";

/// The special tokens of prompts, and the marks around thoughts.
pub(super) const TOKENS: &[&str] =
    &["<|video|>", "<|image>", "<image|>", "<|turn>", END_OF_TURN, "<|channel>", "<channel|>"];

/// A clip as text: for each frame its time, floored, and its placeholder between marks.
pub(super) fn video_text(clip: &ClipFacts, frames_per_grid: usize) -> VideoText {
    let opening = |(first, _): (f64, f64)| {
        let seconds = first as u64;
        format!("{:02}:{:02} <|image>", seconds / 60, seconds % 60)
    };
    let openings: Vec<String> = clip.times_of_grids(frames_per_grid).map(opening).collect();
    let frames: Vec<String> = openings.iter().map(|opening| format!("{opening}<|video|><image|>")).collect();
    VideoText {
        replaces: &["<|video|>"],
        text: frames.join(" "),
        opening: openings.into_iter().next().unwrap_or_default(),
        closing: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::VisualGrid;

    #[test]
    fn every_frame_has_its_time() {
        let clip = ClipFacts {
            timestamps_s: vec![0.9, 61.2],
            ..ClipFacts::steady(VisualGrid { t: 2, h: 2, w: 3 }, 2, 1.0)
        };
        let text = video_text(&clip, 1);
        let want = "00:00 <|image><|video|><image|> 01:01 <|image><|video|><image|>";
        assert_eq!((text.text.as_str(), text.opening.as_str()), (want, "00:00 <|image>"));
    }
}
