//! A run that is watched on the real screen.

use super::{
    start::{library, studio},
    terminal::Terminal,
};

fn watching() -> Terminal {
    library(110, 34, &["--method", "text-only", "--pace", "auto"], &[])
}

#[test]
fn a_strike_is_a_strike_where_there_are_colors_and_a_resize_keeps_the_scene() {
    let mut t = watching();
    t.keys("\r");
    t.wait_raw("\u{1b}[9m");
    t.resize(20, 8);
    t.wait("terminal too small");
    t.resize(110, 34);
    t.wait("state     done");
    assert!(!t.has_raw("[-"), "brackets where strike-through is available");
    t.quit("q");
}

#[test]
fn a_pause_of_the_program_takes_no_time_of_a_scene() {
    let mut t = watching();
    t.keys("\r");
    // At the first strike the program gets no time for longer than the rest of the playback takes.
    t.wait_raw("\u{1b}[9m");
    t.signal("-STOP");
    std::thread::sleep(std::time::Duration::from_secs(15));
    t.signal("-CONT");
    let begun = std::time::Instant::now();
    t.wait("state     done");
    assert!(begun.elapsed().as_millis() > 1000, "the rest was skipped in {:?}", begun.elapsed());
    t.quit("q");
}

#[test]
fn the_first_run_of_a_new_user_has_rejects() {
    let mut t = studio(120, 40, &[]);
    t.wait("▸ three shapes");
    t.press("\r", "state     done");
    t.wait("· corrected");
    t.quit("q");
}
