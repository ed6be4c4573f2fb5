//! A run that is watched on the real screen.

use super::{start::clips, terminal::Terminal};

/// A studio whose runs are slow enough to be seen on a busy machine.
fn watching(columns: u16, rows: u16, variables: &[(&str, &str)]) -> Terminal {
    let clips = clips();
    let args = ["--library", clips.to_str().unwrap(), "--method", "naive", "--pace", "0.002"];
    Terminal::start_with(columns, rows, &args, variables)
}

/// The first rejected draft in brackets on a screen, and what is before it on its line.
fn rejected(screen: &str) -> Option<(&str, &str)> {
    screen.lines().find_map(|line| {
        let (before, rest) = line.split_once("[-")?;
        let (word, _) = rest.split_once("-]")?;
        Some((before, word))
    })
}

#[test]
fn a_ghost_is_struck_and_then_replaced() {
    let mut t = watching(110, 34, &[("NO_COLOR", "1")]);
    t.wait("● ready");
    let before = t.text();
    t.keys("\r");
    t.wait("▶ slowed 500×");
    t.wait("-]");
    // Paused at the verdict, the replacement is there.
    t.keys(",");
    t.wait("‖ slowed 500×");
    t.keys(".");
    t.settled();
    let frames = t.frames();
    let struck = frames.iter().position(|screen| rejected(screen).is_some()).unwrap();
    let (line, word) = rejected(&frames[struck]).unwrap();
    let in_place = format!("{line}{word}");
    let count = |screen: &str| screen.matches(word).count();
    let ghost = frames[..struck].iter().position(|s| count(s) > count(&before) && s.contains(&in_place));
    assert!(ghost.is_some(), "{in_place:?} was no ghost before it was struck:\n{}", frames[struck]);
    // Behind the mark stands the target's token, which is in the caption without the mark later.
    let marked = format!("{line}[-{word}-]");
    let replaced = frames[struck..].iter().find_map(|screen| {
        let line = screen.lines().find(|l| l.starts_with(&marked))?;
        let next = line[marked.len()..].split_whitespace().next()?;
        next.chars().any(char::is_alphanumeric).then(|| next.to_owned())
    });
    assert!(replaced.is_some(), "nothing replaced {word:?}");
    t.keys("\u{1b}");
    t.wait("state     done");
    assert!(rejected(&t.text()).is_none(), "{}", t.text());
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
    t.check_restored();
}

#[test]
fn a_strike_is_a_strike_where_there_are_colours_and_a_resize_keeps_the_scene() {
    let mut t = watching(110, 34, &[]);
    t.wait("● ready");
    t.keys("\r");
    t.wait("▶ slowed 500×");
    t.wait_raw("\u{1b}[9m");
    assert!(!t.text().contains("[-"));
    t.resize(20, 8);
    t.wait("terminal too small");
    t.resize(64, 18);
    t.wait("slowed 500×");
    t.keys("\u{1b}");
    t.gone("slowed 500×");
    t.keys("\u{11}");
    assert_eq!(t.exit_code(), 0);
    t.check_restored();
}
