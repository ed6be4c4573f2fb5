//! Prompts of SmolVLM2: a sentence with the number of frames and the length of the video, and the time before each frame.

use crate::family::{ClipFacts, VideoText};

/// The template of prompts with a video, in place of the checkpoint's own.
pub(super) const TEMPLATE: &str = "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}: \
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<video>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}\
{% endif %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

/// The special tokens of prompts.
pub(super) const TOKENS: &[&str] =
    &["<image>", "<fake_token_around_image>", "<global-img>", "<|im_start|>", END_OF_TURN];

/// Ends every turn.
pub(super) const END_OF_TURN: &str = "<end_of_utterance>";

/// A clip as text: the sentence, and for each frame its time (minutes and seconds, floored) and its placeholder between marks.
pub(super) fn video_text(clip: &ClipFacts, frames_per_grid: usize) -> VideoText {
    let opening = |(first, _): (f64, f64)| {
        let seconds = first as u64;
        format!("\nFrame from {:02}:{:02}:<fake_token_around_image><global-img>", seconds / 60, seconds % 60)
    };
    let mut openings = clip.times_of_grids(frames_per_grid).map(opening).peekable();
    let (frames, length) = (words(clip.grid.t), clock(clip.duration_s as u64));
    let mut text = format!(
        "You are provided the following series of {frames} frames from a {length} [H:MM:SS] video.\n"
    );
    let first = openings.peek().cloned().unwrap_or_default();
    for opening in openings {
        text += &opening;
        text += "<image><fake_token_around_image>";
    }
    VideoText { replaces: &["<video>"], text: text + "\n\n", opening: first, closing: 1 }
}

/// Hours, minutes and seconds, after days where there are any.
fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let days = match days {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        days => format!("{days} days, "),
    };
    format!("{days}{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A number below a million in words, as `num2words` writes it.
fn words(n: usize) -> String {
    const SMALL: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen \
        fifteen sixteen seventeen eighteen nineteen";
    const TENS: [&str; 10] =
        ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let and = |whole: String, rest: usize, join: &str| match rest {
        0 => whole,
        rest => format!("{whole}{join}{}", words(rest)),
    };
    match n {
        0..20 => SMALL.split(' ').nth(n).unwrap_or_default().to_owned(),
        20..100 => and(TENS[n / 10].to_owned(), n % 10, "-"),
        100..1000 => and(format!("{} hundred", words(n / 100)), n % 100, " and "),
        1000..1_000_000 => {
            let join = if n % 1000 < 100 { " and " } else { ", " };
            and(format!("{} thousand", words(n / 1000)), n % 1000, join)
        }
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_words() {
        // From num2words 0.5.
        let table = [
            (999, "nine hundred and ninety-nine"),
            (1000, "one thousand"),
            (1001, "one thousand and one"),
            (1234, "one thousand, two hundred and thirty-four"),
            (9999, "nine thousand, nine hundred and ninety-nine"),
            (10_000, "ten thousand"),
        ];
        for (number, want) in table {
            assert_eq!(words(number), want);
        }
    }

    #[test]
    fn lengths_are_those_of_python() {
        let table = [
            (0, "0:00:00"),
            (61, "0:01:01"),
            (3600, "1:00:00"),
            (86_399, "23:59:59"),
            (86_400, "1 day, 0:00:00"),
            (180_061, "2 days, 2:01:01"),
        ];
        for (seconds, want) in table {
            assert_eq!(clock(seconds), want);
        }
    }
}
