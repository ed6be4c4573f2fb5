//! Runs that are watched: what the screen shows while steps are played.

use ratatui::style::Modifier;
use specreel::tui::{ColorDepth, Effect, Msg, Studio, StudioConfig};
use specreel_record::{Pace, Span};

use crate::tui::script::{config, lossy, opened, play, played, press, screen, session, start, watched};

/// The modifiers of the first cell of this word in the right part of the screen; none if it is not there.
fn modifiers(studio: &Studio, word: &str) -> Option<Modifier> {
    let buffer = studio.picture(120, 40);
    let (area, first) = (buffer.area, word.chars().next()?.to_string());
    let at = (area.top()..area.bottom()).find_map(|y| {
        let line = |x: u16| (x..area.right()).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (42..area.right())
            .find(|x| buffer[(*x, y)].symbol() == first && line(*x).starts_with(word))
            .map(|x| (x, y))
    })?;
    Some(buffer[at].modifier)
}

#[test]
fn drafts_become_text_or_are_struck_and_replaced() {
    let mut studio = watched("dark", 120, 40);
    // Everything has been decoded, and nothing is shown yet.
    assert!(studio.is_playing() && studio.caption().is_empty());
    // The clip's name also has the replacement's word, but not what follows it.
    let look = |studio: &Studio| ["small", "drops", "falls down"].map(|word| modifiers(studio, word));
    let mut film = vec![look(&studio)];
    for _ in 0..60 {
        studio.handle(Msg::Advance(10.0));
        let now = look(&studio);
        if film.last() != Some(&now) {
            film.push(now);
        }
    }
    let (ghost, struck, bold) = (Modifier::ITALIC, Modifier::CROSSED_OUT, Modifier::BOLD);
    let plain = Modifier::empty();
    assert_eq!(
        film[..6],
        [
            [None, None, None],
            [Some(ghost), None, None],
            [Some(ghost), Some(ghost), None],
            [Some(plain), Some(ghost), None],
            [Some(plain), Some(struck), None],
            [Some(plain), Some(struck), Some(bold)],
        ]
    );
    assert!(screen(&studio, 120, 40).contains("▶ slowed 15x"), "{}", screen(&studio, 120, 40));
    studio.handle(Msg::Advance(9000.0));
    assert!(!studio.is_playing() && studio.caption().ends_with("until the end."));
    assert!(!screen(&studio, 120, 40).contains("slowed"));
}

#[test]
fn the_result_is_there_at_once_and_the_keys_control_what_is_shown() {
    let mut studio = watched("dark", 120, 40);
    let sees = |studio: &Studio, word: &str| screen(studio, 120, 40).contains(word);
    assert!(sees(&studio, "● ready"), "the engine is done");
    let copied = press(&mut studio, "y");
    assert!(matches!(&copied[..], [Effect::Copy(text)] if text.ends_with("until the end.")));
    // Step by step, from the library.
    press(&mut studio, ".");
    assert_eq!(studio.caption(), "A small green star falls");
    assert!(sees(&studio, "‖ slowed 15x") && sees(&studio, "corrected 1"), "{}", screen(&studio, 120, 40));
    assert!(!sees(&studio, "loosened 1"), "counters follow what is shown");
    press(&mut studio, ". . , ,");
    assert_eq!(studio.caption(), "A small green star falls");
    // In the caption there are more keys.
    press(&mut studio, "tab tab +");
    assert!(sees(&studio, "‖ slowed 7.5x"));
    assert!(!studio.is_playing());
    press(&mut studio, "space");
    assert!(studio.is_playing() && sees(&studio, "▶ slowed 7.5x"));
    assert_eq!(press(&mut studio, "enter"), [], "it does not run again");
    assert!(!studio.is_playing() && studio.caption().ends_with("until the end."));
    // It can be looked at again, and left with Esc.
    press(&mut studio, ", , ,");
    assert!(!studio.caption().ends_with("until the end."));
    assert_eq!(press(&mut studio, "esc"), []);
    assert!(studio.caption().ends_with("until the end."));
    // The inspector's cursor is on tokens that are shown.
    press(&mut studio, ", i");
    assert!(sees(&studio, "loosened"));
}

#[test]
fn a_resize_in_the_middle_of_a_scene_loses_nothing() {
    let mut studio = watched("dark", 120, 40);
    studio.handle(Msg::Advance(400.0));
    for size in [(60, 16), (20, 8), (4, 2), (200, 60), (80, 24)] {
        studio.handle(Msg::Resize(size.0, size.1));
        screen(&studio, size.0, size.1);
        studio.handle(Msg::Advance(34.0));
    }
    studio.handle(Msg::Advance(9000.0));
    assert!(studio.caption().ends_with("until the end."));
}

#[test]
fn a_smaller_screen_never_hides_the_caption_that_was_in_sight() {
    for (from, to) in
        [((120, 40), (80, 24)), ((170, 50), (80, 24)), ((120, 40), (60, 16)), ((200, 60), (120, 40))]
    {
        for tabs in 0..5 {
            for keys in ["", "d i"] {
                let mut studio = watched("dark", from.0, from.1);
                studio.handle(Msg::Advance(700.0));
                (0..tabs).for_each(|_| drop(press(&mut studio, "tab")));
                if !keys.is_empty() {
                    press(&mut studio, keys);
                }
                let before = screen(&studio, from.0, from.1).contains("╭ Caption");
                studio.handle(Msg::Resize(to.0, to.1));
                let after = screen(&studio, to.0, to.1);
                assert!(!before || after.contains("╭ Caption"), "{from:?} {to:?} {tabs} {keys}:\n{after}");
            }
        }
    }
}

#[test]
fn the_segments_of_a_clip_are_played_one_after_another() {
    let mut studio = opened(&StudioConfig { pace: Pace::Auto, ..config("dark") }, 120, 40);
    press(&mut studio, "L enter");
    let segments = [0.0, 30.0, 60.0].windows(2).map(|w| Span { start: w[0], end: w[1] }).collect();
    let mut effects = studio.handle(Msg::Cut(Ok(segments)));
    for steps in [&lossy()[..4], &lossy()[4..]] {
        let run = start(&mut studio, &effects);
        effects = play(&mut studio, run, steps, false);
    }
    let sees = |studio: &Studio, word: &str| screen(studio, 120, 40).contains(word);
    assert!(sees(&studio, "0:00 – 0:30") && !sees(&studio, "0:30 – 1:00"));
    studio.handle(Msg::Advance(3900.0));
    assert!(!sees(&studio, "0:30 – 1:00"));
    studio.handle(Msg::Advance(200.0));
    assert!(studio.is_playing() && sees(&studio, "0:30 – 1:00") && studio.caption().is_empty());
    studio.handle(Msg::Advance(9000.0));
    assert!(!studio.is_playing() && studio.caption().ends_with("until the end."));
}

#[test]
fn where_a_strike_may_not_be_seen_the_rejected_draft_is_in_brackets() {
    let cases = [(ColorDepth::None, false), (ColorDepth::Ansi, false), (ColorDepth::True, true)];
    for (colors, ascii) in cases {
        let config = StudioConfig { pace: Pace::Auto, colors, ascii, ..config("dark") };
        let mut studio = played(&config, 120, 40);
        press(&mut studio, ".");
        let screen = screen(&studio, 120, 40);
        assert!(screen.contains("A small green star [-drops-] falls down to"), "{colors:?}:\n{screen}");
        assert!(!ascii || screen.is_ascii());
        // Ghosts, the rejected draft and its replacement also differ without color.
        let looks = ["star", "drops", "falls", "down"].map(|word| modifiers(&studio, word));
        let different: std::collections::HashSet<_> = looks.iter().collect();
        assert_eq!(different.len(), 4, "{colors:?}: {looks:?}");
    }
    let mut studio = watched("dark", 120, 40);
    press(&mut studio, ".");
    assert!(screen(&studio, 120, 40).contains("A small green star drops falls down to"));
}

#[test]
fn the_pace_is_what_was_asked_for() {
    let paced = |pace| played(&StudioConfig { pace, ..config("dark") }, 120, 40);
    assert!(screen(&paced(Pace::Speed(0.01)), 120, 40).contains("▶ slowed 100x"));
    let mut studio = paced(Pace::Off);
    assert!(!studio.is_playing() && studio.caption().ends_with("until the end."));
    // A replay is played all the same.
    studio.handle(Msg::Loaded(Ok(session(&lossy(), false))));
    assert!(studio.is_playing());
}
