//! Events with times in a caption: as Marlin writes them, `<1.5 - 4> A dog jumps.`, or as JSON of the schema `events`.

use serde_json::Value;

use specreel_record::{Span, span::seconds};

/// The parts of a caption with their times in the video: its events, whose times count from the beginning of the captioned part;
/// a caption without any is one over the whole part, an empty list is none. Events that begin past its end are left out, as is text before the first event.
pub fn timed(part: Span, caption: &str) -> Vec<(Span, String)> {
    let found = match list(caption) {
        Some(items) if items.is_empty() => return Vec::new(),
        Some(items) => items.iter().filter_map(event).collect(),
        None => tagged(caption),
    };
    let inside = |(start, end, text): (f64, f64, String)| {
        let span = Span { start: part.start + start, end: (part.start + end).min(part.end) };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (span.is_sound() && !text.is_empty()).then_some((span, text))
    };
    let mut events: Vec<(Span, String)> = found.into_iter().filter_map(inside).collect();
    if events.is_empty() {
        return vec![(part, caption.to_owned())];
    }
    events.sort_by(|(a, _), (b, _)| a.start.total_cmp(&b.start));
    events
}

/// The items of a caption that is a JSON list, or has one under `events`.
fn list(caption: &str) -> Option<Vec<Value>> {
    let mut value: Value = serde_json::from_str(caption.trim()).ok()?;
    let value = value.get_mut("events").map(Value::take).unwrap_or(value);
    serde_json::from_value(value).ok()
}

fn event(item: &Value) -> Option<(f64, f64, String)> {
    let text = ["text", "description", "caption"].iter().find_map(|key| item[key].as_str())?;
    Some((item["start"].as_f64()?, item["end"].as_f64()?, text.to_owned()))
}

/// Each `<start - end>` with the text up to the next one.
fn tagged(caption: &str) -> Vec<(f64, f64, String)> {
    let tags: Vec<(usize, usize, f64, f64)> = caption
        .match_indices('<')
        .filter_map(|(open, _)| {
            let length = caption[open..].find('>')?;
            let (start, end) = caption[open + 1..open + length].split_once(['-', '–'])?;
            let time = |text: &str| seconds(text.trim().trim_end_matches('s').trim_end());
            Some((open, open + length + 1, time(start)?, time(end)?))
        })
        .collect();
    let text = |i: usize| {
        let end = tags.get(i + 1).map_or(caption.len(), |next| next.0);
        // Of a list, the bullet of the next event.
        caption[tags[i].1..end]
            .trim_start_matches([':', ' '])
            .trim_end()
            .trim_end_matches("\n-")
            .trim_end_matches("\n*")
            .to_owned()
    };
    tags.iter().enumerate().map(|(i, tag)| (tag.2, tag.3, text(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(caption: &str) -> Vec<(f64, f64, String)> {
        let events = timed(Span { start: 10.0, end: 20.0 }, caption);
        events.into_iter().map(|(span, text)| (span.start, span.end, text)).collect()
    }

    #[test]
    fn events_have_the_times_of_the_video() {
        let both = [(10.0, 12.5, "A dog runs.".to_owned()), (14.0, 20.0, "It jumps.".to_owned())];
        for caption in [
            "Scene: A park.\n\nEvents:\n<0.0 - 2.5> A dog runs.\n<4 - 10.0> It jumps.",
            "- <0:00 – 0:02.5>: A dog\nruns.\n- <4s - 12s> It jumps.\n",
            "<4 - 10> It jumps. <0 - 2.5> A dog runs.",
            r#"[{"start": 0.0, "end": 2.5, "text": "A dog runs."}, {"start": 4, "end": 11, "text": "It jumps."}]"#,
            r#"{"events": [{"start": 0.0, "end": 2.5, "description": "A dog runs."}, {"start": 4, "end": 10, "caption": "It jumps."}]}"#,
        ] {
            assert_eq!(events(caption), both, "{caption}");
        }
    }

    #[test]
    fn an_empty_list_of_events_has_no_captions() {
        for caption in ["[]", r#" {"events": []}"#] {
            assert!(events(caption).is_empty(), "{caption}");
        }
    }

    #[test]
    fn a_caption_without_events_is_one() {
        for caption in [
            "A <b> dog.",
            "",
            "<9 - 3> back",
            "<10 - 12> past the end",
            "<1 - 2>",
            "[1, 2]",
            r#"[{"start": 0"#,
        ] {
            assert_eq!(events(caption), [(10.0, 20.0, caption.to_owned())], "{caption}");
        }
    }
}
