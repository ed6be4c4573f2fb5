//! A run that is watched on the real screen.

use super::{
    start::{clips, studio},
    terminal::Terminal,
};

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
fn a_ghost_is_struck_and_then_replaced_and_stays_in_sight() {
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
    assert!(frames.iter().any(|(screen, _)| screen.contains("▶ slowed ")), "not slowed");
    // Every reject: the frames in which its draft is struck.
    let is_struck = |at: usize| rejected(&frames[at].0).is_some();
    let first = (1..frames.len()).filter(|at| is_struck(*at) && !is_struck(at - 1));
    let spans: Vec<(usize, usize)> =
        first.map(|from| (from, (from..frames.len()).find(|at| !is_struck(*at)).unwrap())).collect();
    assert!(!spans.is_empty(), "no reject in {} frames", frames.len());
    // It is a ghost, then struck before another draft, then struck before the target's token, which is in the caption. A line
    // that breaks there tells less, but not every one does.
    let story = |(from, to): &(usize, usize)| {
        let (before, word, _) = rejected(&frames[*from].0)?;
        let ghost = format!("{before}{word}");
        frames[..*from].iter().position(|(s, _)| s.contains(&ghost) && rejected(s).is_none())?;
        let behind = |at: usize| {
            let (_, _, after) = rejected(&frames[at].0)?;
            Some(after.split_whitespace().next().unwrap_or_default().to_owned())
        };
        let words: Vec<String> = (*from..*to).filter_map(behind).collect();
        let (first, last) = (words.first()?, words.last()?);
        (first != last && caption.contains(&format!("{before}{last}"))).then_some(())
    };
    assert!(
        spans.iter().any(|span| story(span).is_some()),
        "no ghost was struck and then replaced: {spans:?}"
    );
    // A frame may be read late, so that one reject seems shorter, but not all of them.
    let longest = spans.iter().map(|(from, to)| frames[*to].1 - frames[*from].1).max().unwrap();
    assert!(longest.as_millis() >= 400, "the longest reject was seen for {longest:?}");
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

#[test]
#[cfg(unix)]
fn a_pause_of_the_program_takes_no_time_of_a_scene() {
    let mut t = watching(110, 34, &[]);
    t.wait("● ready");
    t.keys("\r");
    // At the first strike the program gets no time for longer than the rest of the playback takes.
    t.wait_raw("\u{1b}[9m");
    t.signal("-STOP");
    std::thread::sleep(std::time::Duration::from_secs(15));
    t.signal("-CONT");
    let begun = std::time::Instant::now();
    t.wait("state     done");
    assert!(begun.elapsed().as_millis() > 1000, "the rest was skipped in {:?}", begun.elapsed());
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
}

#[test]
fn the_first_run_of_a_new_user_has_rejects() {
    let mut t = studio(120, 40, &[]);
    t.wait("▸ three shapes");
    t.wait("● ready");
    t.keys("\r");
    t.wait("state     done");
    t.wait("· corrected");
    t.keys("q");
    assert_eq!(t.exit_code(), 0);
}
