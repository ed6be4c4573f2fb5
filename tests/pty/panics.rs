//! What a panic leaves behind: the terminal as it was, a failure in words, and everything else in its place.
//!
//! The program has no mistake to wait for, so here it gets an engine and a prober that have. Each test starts itself once
//! more in a pseudo-terminal, and there it is the program.

use std::{path::Path, sync::Arc};

use specreel::{
    cli,
    tui::{self, StudioConfig},
};
use specreel_client::{Backend, Client, StudioStart};
use specreel_engine::Command;
use specreel_record::{Event, EventKind, Failure, Ready};

use super::{start::clips, terminal::Terminal};

/// Set in the program that a test starts: the folder of its clips.
const CLIPS: &str = "SPECREEL_TEST_CLIPS";

struct Broken;

impl Backend for Broken {
    fn send(&self, _: Command) -> Result<(), Failure> {
        panic!("the port fell off");
    }

    fn cancel(&self, _: u64) {}
}

/// A studio that panics on its own thread when it begins a run, and on another when it cuts a clip.
fn studio(_: StudioStart) -> Result<i32, Failure> {
    let (events, inbox) = tokio::sync::mpsc::channel(4);
    let ready = EventKind::Ready(Ready {
        target: "target".into(),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        ..Ready::default()
    });
    events.blocking_send(Event::new(0, ready)).unwrap();
    let config = StudioConfig {
        folders: std::env::var(CLIPS).into_iter().map(Into::into).collect(),
        methods: specreel_speculate::Method::presets().to_vec(),
        cut: Some(Arc::new(|_: &Path, _| panic!("the scissors broke"))),
        ..StudioConfig::default()
    };
    tui::run(config, Client::new(Broken, inbox)).unwrap();
    drop(events);
    Ok(0)
}

fn be_the_program() {
    if std::env::var_os(CLIPS).is_some() {
        std::process::exit(cli::run(["specreel".into()], studio));
    }
}

/// The program, with the test of this name in its place.
fn start(test: &str) -> Terminal {
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", test, "--nocapture", "--test-threads", "1"];
    let clips = clips();
    Terminal::start_program(program.to_str().unwrap(), 100, 30, &args, &[(CLIPS, clips.to_str().unwrap())])
}

#[test]
fn the_terminal_is_given_back_before_the_words() {
    be_the_program();
    let mut t = start("panics::the_terminal_is_given_back_before_the_words");
    t.wait("cross.mp4");
    t.wait("● ready");
    t.keys("\r");
    assert_eq!(t.exit_code(), 1);
    t.check_restored();
    let screen = t.text();
    assert!(screen.contains("error: internal error: the port fell off"), "{screen}");
    assert!(screen.contains("hint: this is a bug in specreel"), "{screen}");
    // Its place is for the log, and stderr did not say it twice.
    assert!(!screen.contains("panicked at"), "{screen}");
    let log = t.log();
    assert!(log.contains("panicked: the port fell off") && log.contains("panics.rs"), "{log}");
}

#[test]
fn work_that_panics_is_told_and_the_studio_goes_on() {
    be_the_program();
    let mut t = start("panics::work_that_panics_is_told_and_the_studio_goes_on");
    t.wait("cross.mp4");
    t.wait("● ready");
    t.press("L", "Segment length");
    t.press("\u{15}2\r", "internal error: a background task panicked");
    assert!(t.is_taken());
    // It still responds.
    t.press("?", "search ");
    t.keys("\u{1b}");
    t.gone("search ");
    t.quit("q");
    let log = t.log();
    assert!(log.contains("panicked: the scissors broke"), "{log}");
}
