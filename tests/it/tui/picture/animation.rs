//! Screens one after another as one SVG document that plays in a loop, without a script: what differs between screens is shown
//! and hidden by CSS keyframes, so a browser plays it wherever it shows a picture.

use std::collections::HashMap;

use ratatui::buffer::Buffer;

use super::{BACKGROUND, CELL, MARGIN, grounds, opening, runs};

/// What is drawn in the same frames.
struct Group {
    /// Whether it is shown, frame by frame.
    shown: Vec<bool>,
    elements: Vec<String>,
}

/// Screens of the same size, each with the time for which it is shown in milliseconds, as an SVG document. It plays in a loop;
/// viewers that play nothing, and people who prefer no motion, see the last screen.
pub(crate) fn animated(frames: &[(Buffer, u32)]) -> String {
    let Some((first, _)) = frames.first() else { return String::new() };
    let total: u32 = frames.iter().map(|(_, ms)| ms).sum::<u32>().max(1);
    // Backgrounds are below all words, however they are grouped.
    let below = groups(frames, |buffer, y, top| grounds(&runs(buffer, y), top));
    let above = groups(frames, |buffer, y, top| {
        // A word has no spaces to keep.
        let draw = |run: &super::Run| Some(run.draw(top)?.replace(" xml:space=\"preserve\"", ""));
        runs(buffer, y).iter().filter_map(draw).collect()
    });
    let (head, size) = opening(first.area);
    let mut style = format!(
        "g{{animation:{:.2}s step-end infinite}}@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}}}",
        f64::from(total) / 1000.0
    );
    let mut body = String::new();
    for (number, group) in below.iter().chain(&above).enumerate() {
        let lines = group.elements.concat();
        if group.shown.iter().all(|shown| *shown) {
            body += &lines;
        } else {
            style += &keyframes(number, &group.shown, frames, total);
            let hidden = if group.shown.last() == Some(&true) { "" } else { " visibility=\"hidden\"" };
            body += &format!("<g style=\"animation-name:k{number}\"{hidden}>\n{lines}</g>\n");
        }
    }
    let ground = format!("<rect {size} rx=\"8\" fill=\"{BACKGROUND}\"/>");
    format!("{head}\n<style>{style}</style>\n{ground}\n{body}</svg>\n")
}

/// The elements of all frames, those together that are shown in the same ones, in the order in which they appear.
fn groups(frames: &[(Buffer, u32)], draw: impl Fn(&Buffer, u16, f64) -> Vec<String>) -> Vec<Group> {
    let mut order = Vec::new();
    let mut shown: HashMap<String, Vec<bool>> = HashMap::new();
    for (at, (buffer, _)) in frames.iter().enumerate() {
        for y in 0..buffer.area.height {
            for element in draw(buffer, buffer.area.y + y, MARGIN + f64::from(y) * CELL.1) {
                let in_frames = shown.entry(element).or_insert_with_key(|element| {
                    order.push(element.clone());
                    vec![false; frames.len()]
                });
                in_frames[at] = true;
            }
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Vec<bool>, usize> = HashMap::new();
    for element in order {
        let Some(shown) = shown.remove(&element) else { continue };
        let group = *known.entry(shown).or_insert_with_key(|shown| {
            groups.push(Group { shown: shown.clone(), elements: Vec::new() });
            groups.len() - 1
        });
        groups[group].elements.push(element + "\n");
    }
    groups
}

/// The times at which a group appears and disappears, in percent of the loop.
fn keyframes(number: usize, shown: &[bool], frames: &[(Buffer, u32)], total: u32) -> String {
    let mut out = format!("@keyframes k{number}{{");
    let mut at = 0;
    let mut before = None;
    for (shown, (_, ms)) in shown.iter().zip(frames) {
        if before != Some(shown) {
            let percent = 100.0 * f64::from(at) / f64::from(total);
            let percent = format!("{percent:.3}");
            let percent = percent.trim_end_matches('0').trim_end_matches('.');
            out += &format!("{percent}%{{visibility:{}}}", if *shown { "visible" } else { "hidden" });
        }
        before = Some(shown);
        at += ms;
    }
    out + "}"
}

#[cfg(test)]
mod tests {
    use ratatui::{
        layout::Rect,
        style::{Color, Style},
    };

    use super::*;

    fn screen(words: &str) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 2));
        buffer.set_string(0, 0, "title", Style::new());
        buffer.set_string(0, 1, words, Style::new().bg(Color::Blue));
        buffer
    }

    #[test]
    fn what_changes_has_keyframes_and_the_rest_is_drawn_once() {
        let frames = [(screen("one"), 250), (screen("one two"), 250), (screen("two"), 500)];
        let picture = animated(&frames);
        assert_eq!(picture.matches(">title<").count(), 1, "{picture}");
        assert_eq!(picture.matches(">one<").count(), 1, "{picture}");
        assert!(picture.contains("animation:1.00s step-end infinite"), "{picture}");
        assert!(picture.contains("{0%{visibility:visible}50%{visibility:hidden}}"), "“one” goes: {picture}");
        // "two" of the second screen is at another place than the third's.
        assert_eq!(picture.matches(">two<").count(), 2, "{picture}");
        assert!(
            picture.contains("{0%{visibility:hidden}25%{visibility:visible}50%{visibility:hidden}}"),
            "{picture}"
        );
        let ground = picture.find("<rect x=").unwrap();
        assert!(ground < picture.find("<text").unwrap(), "backgrounds are below words: {picture}");
        assert_eq!(picture, animated(&frames));
    }

    #[test]
    fn without_animation_the_last_screen_is_shown() {
        let picture = animated(&[(screen("one"), 250), (screen("two"), 250)]);
        let group = |word: &str| {
            let at = picture.find(&format!(">{word}<")).unwrap();
            picture[..at].rfind("<g ").map(|from| picture[from..at].contains("visibility=\"hidden\""))
        };
        assert_eq!((group("one"), group("two")), (Some(true), Some(false)), "{picture}");
        assert_eq!(animated(&[]), "");
        assert!(!animated(&[(screen("one"), 0)]).contains("<g "), "a single screen does not move");
    }
}
