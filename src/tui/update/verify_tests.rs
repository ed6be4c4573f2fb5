use super::*;
use crate::tui::{
    Msg, Studio,
    testing::{after_a_run, done, notice, press, run_of, screen, started, step},
};
use specreel_record::{
    EventKind, Failure, Promise, StopReason, Verdict, Verification,
    testing::{ended, verified},
};

/// The number of the first run that verifies another one, after one run.
const PLAIN: u64 = UNSEEN + 2;

fn send(studio: &mut Studio, run: u64, kind: EventKind) {
    studio.handle(Msg::Engine(Event::new(run, kind)));
}

/// What is found about run 1, and the end of the run that found it.
fn finish(studio: &mut Studio, promises: Promise, ids: &[u32], plain: &[u32]) {
    let EventKind::Verified(found) = verified(ids, plain) else { panic!() };
    send(studio, 1, EventKind::Verified(Verification { promises, ..found }));
    studio.handle(done(PLAIN, StopReason::Eos, "unseen"));
}

#[test]
fn a_run_is_verified_unseen_and_keeps_what_was_found() {
    let mut studio = after_a_run();
    let request = run_of(&press(&mut studio, "=")).unwrap().clone();
    assert!(request.method.is_autoregressive() && !request.measure && request.logprobs == 0);
    assert_eq!((request.run, request.verifies.as_ref().unwrap().run), (PLAIN, 1));
    let first = run_of(&press(&mut after_a_run(), "r")).unwrap().clone();
    assert_eq!((&request.prompt, &request.text, &request.video), (&first.prompt, &first.text, &first.video));

    send(&mut studio, PLAIN, started("/demo/0.mp4", "autoregressive"));
    studio.handle(step(PLAIN, &[("unseen", Verdict::Plain)], 0));
    assert!(screen(&studio, 120, 40).contains("verifying"));
    finish(&mut studio, Promise::Tokens, &[1, 2, 3], &[1, 2, 3]);
    assert_eq!(notice(&mut studio), "identical, 3 of 3 tokens");
    assert_eq!((studio.caption(), studio.model().runs.all.len()), ("A red ball. rolls.".into(), 1));
    let screen = screen(&studio, 120, 40);
    assert!(screen.contains("verified  identical, 3 of 3 tokens") && !screen.contains("unseen"), "{screen}");

    // It is known from now on.
    assert_eq!(press(&mut studio, "tab tab ="), []);
    assert_eq!(notice(&mut studio), "identical, 3 of 3 tokens");
}

#[test]
fn what_was_found_is_said_with_what_was_promised() {
    use Promise::{Nothing, Tokens};
    for (promises, ids, tone, words) in [
        (Nothing, [1, 2], Tone::Info, "lossy"),
        (Nothing, [1, 3], Tone::Info, "expected: the method is lossy"),
        (Tokens, [1, 3], Tone::Bad, "please report this"),
    ] {
        let mut studio = after_a_run();
        press(&mut studio, "=");
        finish(&mut studio, promises, &ids, &[1, 2]);
        let (found, text) = studio.model().notices.shown.clone().unwrap();
        assert!(found == tone && text.contains(words), "{found:?} {text}");
    }
}

#[test]
fn escape_and_other_runs_cancel_a_verification() {
    let mut studio = after_a_run();
    press(&mut studio, "=");
    assert_eq!(press(&mut studio, "="), [], "one at a time");
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(PLAIN)]);
    // Its last events change nothing, and another one can begin.
    send(&mut studio, PLAIN, ended(StopReason::Cancelled, "", &[], specreel_record::Stats::default()));
    assert!(studio.model().runs.proof.is_none() && studio.model().runs.all.len() == 1);
    assert!(run_of(&press(&mut studio, "=")).is_some());

    let effects = press(&mut studio, "r");
    assert_eq!(effects[0], Effect::Cancel(PLAIN + 1));
    let again = run_of(&effects).unwrap();
    assert!(again.verifies.is_none() && !again.method.is_autoregressive());

    let mut studio = after_a_run();
    press(&mut studio, "=");
    send(&mut studio, PLAIN, ended(StopReason::Cancelled, "", &[], specreel_record::Stats::default()));
    assert_eq!(notice(&mut studio), "not verified: cancelled");
    press(&mut studio, "=");
    let failure = Failure::internal("no memory", "close something");
    send(&mut studio, PLAIN + 1, EventKind::Failed(failure));
    assert_eq!(notice(&mut studio), "not verified: no memory");
    assert!(press(&mut studio, "=").len() == 1 && press(&mut studio, "q q").contains(&Effect::Quit));
}

#[test]
fn what_cannot_be_verified_says_why() {
    let mut studio = crate::tui::testing::ready();
    let said = |studio: &mut Studio, words: &str| {
        assert_eq!(run_of(&press(studio, "=")), None);
        assert!(notice(studio).contains(words), "{}", notice(studio));
    };
    said(&mut studio, "no run");
    press(&mut studio, "enter");
    said(&mut studio, "busy");
    studio.handle(done(1, StopReason::Cancelled, "A"));
    said(&mut studio, "finished");
    let mut plain = crate::tui::testing::ready();
    press(&mut plain, "m a u t o r e g enter");
    plain.handle(done(1, StopReason::Eos, "A"));
    said(&mut plain, "autoregressive decoding itself");
}
