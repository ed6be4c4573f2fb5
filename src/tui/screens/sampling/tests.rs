use super::*;
use crate::tui::testing::{
    after_a_run, config, is_shown, notice, press, ready, ready_event, run_of, screen, shown,
};
use crate::tui::{Msg, Studio, StudioConfig};
use specreel_engine::RunRequest;
use specreel_record::OnLoop;
use specreel_speculate::{SamplingBase, SamplingControls};

/// Keys that go to a row.
fn to(name: &str) -> String {
    let at = (0..ROWS).position(|at| sampling::row(at).name() == name).unwrap();
    ["home"].into_iter().chain(vec!["down"; at]).collect::<Vec<_>>().join(" ")
}

fn preset(controls: &SamplingControls) -> Option<&str> {
    match &controls.base {
        SamplingBase::Preset(name, _) => Some(name),
        SamplingBase::Model | SamplingBase::Greedy => None,
    }
}

#[test]
fn the_next_run_is_sampled_as_chosen() {
    let mut studio = ready();
    press(&mut studio, "% right right");
    press(&mut studio, &format!("{} right", to("temperature")));
    press(&mut studio, &format!("{} enter 4 2 enter", to("seed")));
    press(&mut studio, &format!("{} enter esc", to("on a loop")));
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    let first = studio.model().sampling.bases()[2].to_owned();
    assert_eq!(
        (preset(&request.text), request.text.seed, request.on_loop),
        (Some(&*first), Some(42), OnLoop::Retry)
    );
    assert_eq!(request.text.top_k, None, "it is the preset's");
    assert!(request.text.temperature.is_some());
    assert_eq!(request.logprobs, 5, "everything else is unchanged");
}

#[test]
fn it_starts_with_the_options_and_goes_back_to_them() {
    let text = SamplingControls { temperature: Some(0.3), ..SamplingControls::default() };
    let request = RunRequest { text: text.clone(), ..config().request };
    let (mut studio, _) = Studio::new(&StudioConfig { request, ..config() }).unwrap();
    studio.handle(ready_event());
    studio.handle(Msg::Resize(100, 30));
    assert!(screen(&studio, 120, 40).contains("sampling: temperature 0.3"));
    press(&mut studio, "% right");
    press(&mut studio, &format!("{} backspace", to("temperature")));
    assert_eq!(studio.model().sampling.controls, SamplingControls::greedy());
    press(&mut studio, "home u");
    assert_eq!(studio.model().sampling.controls, text);
}

#[test]
fn values_their_sources_and_what_holds_are_shown() {
    let mut studio = ready();
    let plain = screen(&studio, 100, 30);
    assert!(!plain.contains("sampling:"), "{plain}");
    press(&mut studio, "%");
    let shown = screen(&studio, 100, 30);
    for words in ["‹ model ›", "the model's own", "as the model asks; loops are stopped", "default"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    press(&mut studio, "enter");
    assert!(screen(&studio, 100, 30).contains("temperature 0.7, top-k 20, top-p 0.8, presence penalty 1.5"));
    let at = studio.model().sampling.bases().iter().position(|base| *base == "qwen3-vl").unwrap();
    press(&mut studio, &format!("{} enter", vec!["down"; at].join(" ")));
    press(&mut studio, &format!("{} enter 1 0 enter", to("top-k")));
    let shown = screen(&studio, 100, 30);
    for words in ["‹ 10 ›", "set here", "qwen3-vl", "temperature 0.7, top-k 10", "keep so many"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    press(&mut studio, "%");
    assert!(studio.model().screens.is_empty(), "the key that opens it closes it");
    assert!(screen(&studio, 120, 40).contains("sampling: qwen3-vl, top-k"));
}

#[test]
fn a_wrong_value_says_why_and_is_not_applied() {
    let mut studio = ready();
    press(&mut studio, &format!("% {} enter 7 7 7 enter", to("temperature")));
    assert!(notice(&mut studio).contains("777 is not a number from 0 to 100"), "{}", notice(&mut studio));
    assert_eq!(shown::<ControlLine>(&mut studio).line.text, "777", "it stays, to be corrected");
    assert_eq!(studio.model().sampling, SamplingChoice::default());
    // What contradicts another value.
    press(&mut studio, &format!("esc home right {} right", to("top-k")));
    assert!(
        notice(&mut studio).starts_with("top-k: it has no effect at temperature 0"),
        "{}",
        notice(&mut studio)
    );
    assert_eq!(studio.model().sampling.controls, SamplingControls::greedy());
    press(&mut studio, &format!("home left {} right home enter home down enter", to("top-k")));
    assert!(
        notice(&mut studio).starts_with("top-k: it has no effect at temperature 0"),
        "{}",
        notice(&mut studio)
    );
    assert!(is_shown::<BaseList>(&mut studio), "another one can be chosen");
    let kept = &studio.model().sampling;
    assert_eq!((kept.base(), kept.controls.top_k), ("model", Some(5)));
}

#[test]
fn a_run_is_verified_as_it_was_sampled() {
    let mut studio = after_a_run();
    let before = studio.model().sampling.clone();
    press(&mut studio, "% right esc");
    let verified = press(&mut studio, "=");
    assert_eq!(run_of(&verified).unwrap().text, before.controls);
    let again = press(&mut studio, "r");
    assert_eq!(run_of(&again).map(|request| &request.text), Some(&SamplingControls::greedy()));
}

#[test]
fn the_runs_of_a_server_are_sampled_there() {
    let config = StudioConfig { server: Some("http://host".into()), ..config() };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(Msg::Resize(100, 30));
    press(&mut studio, "%");
    assert!(studio.model().screens.is_empty() && notice(&mut studio).contains("runs are started there"));
}

#[test]
fn each_row_is_shown_on_a_low_screen() {
    let mut studio = ready();
    studio.handle(Msg::Resize(60, 16));
    press(&mut studio, "%");
    for at in 0..ROWS {
        let (picture, name) = (screen(&studio, 60, 16), sampling::row(at).name());
        assert!(picture.contains(name) && picture.contains("‹"), "{name}: {picture}");
        press(&mut studio, "down");
    }
}
