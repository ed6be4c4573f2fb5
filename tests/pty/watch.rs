//! A run that is watched on the real screen.

use super::{start::clips, terminal::Terminal};

fn watching(columns: u16, rows: u16, variables: &[(&str, &str)]) -> Terminal {
    let clips = clips();
    let args = ["--library", clips.to_str().unwrap(), "--method", "text-only", "--pace", "auto"];
    Terminal::start_with(columns, rows, &args, variables)
}

/// What is before the first rejected draft on its line, the draft, and what is behind it. Without colours it is in brackets.
fn rejected(screen: &str) -> Option<(&str, &str, &str)> {
    screen.lines().find_map(|line| {
        let (before, rest) = line.split_once("[-")?;
        let (word, after) = rest.split_once("-]")?;
        Some((before, word, after))
    })
}

#[test]
fn a_ghost_is_struck_and_then_replaced() {
    let mut t = watching(110, 34, &[("NO_COLOR", "1")]);
    t.wait("● ready");
    t.keys("\r");
    // The playback is over; every frame of it was kept.
    t.wait("state     done");
    assert!(rejected(&t.text()).is_none(), "{}", t.text());
    let caption = t.text();
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
    t.check_restored();
    let frames = t.frames();
    assert!(frames.iter().any(|screen| screen.contains("▶ slowed ")), "not slowed");
    // Some reject is seen as a ghost, then struck, then with the target's token behind it, which is in the caption.
    let story = |struck: usize| {
        let (before, word, _) = rejected(&frames[struck])?;
        let ghost = format!("{before}{word}");
        frames[..struck].iter().position(|s| s.contains(&ghost) && rejected(s).is_none())?;
        frames[struck..].iter().find_map(|screen| {
            let (same, again, after) = rejected(screen)?;
            let next = after.split_whitespace().next()?;
            let text = format!("{before}{next}");
            (same == before && again == word && next != word && caption.contains(&text)).then_some(text)
        })
    };
    let told = (0..frames.len()).find_map(story);
    assert!(told.is_some(), "no ghost was struck and replaced in {} frames", frames.len());
}

#[test]
fn a_strike_is_a_strike_where_there_are_colours_and_a_resize_keeps_the_scene() {
    let mut t = watching(110, 34, &[]);
    t.wait("● ready");
    t.keys("\r");
    t.wait_raw("\u{1b}[9m");
    t.resize(20, 8);
    t.wait("terminal too small");
    t.resize(110, 34);
    t.wait("state     done");
    assert!(!t.has_raw("[-"), "brackets where strike-through is available");
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
    t.check_restored();
}
