use super::*;
use crate::tui::{
    Msg, Studio, StudioConfig,
    testing::{self, done, press, screen, step},
};
use specreel_record::{Event, EventKind, Started, StopReason, Verdict, testing as events};

/// A pass of any rows takes 100 ms, a draft 10 ms.
fn profile() -> Profile {
    let text =
        "step_ms = 0\n[target]\npasses = [[0, 1, 100], [0, 32, 100]]\n[drafter]\npasses = [[0, 1, 10]]\n";
    Profile::parse("a GPU", text, &|_| None).unwrap()
}

/// A comparison of the target alone with naive speculation, which passes five drafts a step.
fn compared(profile: Option<Profile>) -> Studio {
    let config = StudioConfig { profile, method: "naive".into(), ..testing::config() };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(Msg::Resize(120, 40));
    studio.handle(testing::ready_event());
    press(&mut studio, "c enter");
    let drafts: Vec<_> =
        std::iter::repeat_n((" a", Verdict::Exact), 5).chain([(" b", Verdict::Bonus)]).collect();
    for (run, name, steps, tokens) in
        [(1, "autoregressive", 18, vec![(" a", Verdict::Plain)]), (2, "naive", 3, drafts)]
    {
        let method = serde_json::to_value(Method::preset(name).unwrap()).unwrap();
        let started = Started { method, ..testing::about("/demo/0.mp4", name) };
        for kind in [EventKind::Started(started), events::prompt(None)] {
            studio.handle(Msg::Engine(Event::new(run, kind)));
        }
        (0..steps).for_each(|_| drop(studio.handle(step(run, &tokens, tokens.len() - 1))));
        studio.handle(done(run, StopReason::Length, &" a".repeat(18)));
    }
    studio
}

fn shown(studio: &Studio) -> String {
    screen(studio, 120, 40)
}

#[test]
fn the_race_runs_on_the_clock_of_the_chosen_hardware() {
    let mut studio = compared(Some(profile()));
    let table = shown(&studio);
    for part in
        ["modelled on a GPU", "4.0x", "A pass of 6 rows takes 1.0 times as long", "1.0 times on a GPU"]
    {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
    press(&mut studio, "tab");
    studio.handle(Msg::Advance(0.0));
    studio.handle(Msg::Advance(1e6));
    let race = shown(&studio);
    for part in ["1st    450 ms", "2nd   1800 ms", "modelled on a GPU"] {
        assert!(race.contains(part), "no {part} in\n{race}");
    }
    assert!(!race.contains("fastest"), "nothing of it is measured");
    // Measured here, the race is over sooner.
    press(&mut studio, "P");
    studio.handle(Msg::Advance(1e6));
    let race = shown(&studio);
    assert!(!race.contains("modelled") && !race.contains("1800 ms"), "{race}");
}

#[test]
fn runs_without_modelled_times_take_no_part_in_the_race() {
    let mut studio = compared(Some(Profile { drafter: None, ..profile() }));
    press(&mut studio, "tab");
    studio.handle(Msg::Advance(1e6));
    let lanes = |studio: &mut Studio| studio.model().comparison.as_ref().unwrap().race.clone().unwrap().0;
    assert_eq!(lanes(&mut studio), [0]);
    press(&mut studio, "P");
    studio.handle(Msg::Advance(0.0));
    assert_eq!(lanes(&mut studio), [0, 1]);
}

#[test]
fn the_keys_go_through_all_hardware_and_back() {
    let name = |studio: &mut Studio| {
        let profile = studio.model().comparison.as_ref().unwrap().profile.as_ref();
        profile.map(|profile| profile.name.clone())
    };
    let built_in = modelled::names();
    for own in [None, Some(profile())] {
        let mut studio = compared(own.clone());
        let first = own.as_ref().map(|own| own.name.clone());
        assert_eq!(name(&mut studio), first, "the configured one is chosen at the start");
        press(&mut studio, "p");
        assert_eq!(name(&mut studio).as_deref(), Some(built_in[0]));
        press(&mut studio, "P");
        assert_eq!(name(&mut studio), first);
        let all = built_in.len() + 1 + usize::from(own.is_some());
        (0..all).for_each(|_| drop(press(&mut studio, "p")));
        assert_eq!(name(&mut studio), first, "all of them once");
        if own.is_some() {
            press(&mut studio, "P P");
            assert_eq!(name(&mut studio).as_deref(), built_in.last().copied());
        }
    }
}
