use super::*;
use crate::profile::{Tick, ticks};
use specreel_record::{EventKind, FailureClass, PromptSeen, Started, Stats, Step, Token, Verdict, testing};
use specreel_speculate::schedule::{DraftToken, Exact, Limits, Parallel};

/// A preset of the product or the laboratory.
fn named(name: &str) -> Method {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../methods/{name}.toml"));
    Method::preset(name).or_else(|_| Method::from_file(&file)).unwrap()
}

fn near(value: f64, expected: f64, within: f64) -> bool {
    (value / expected - 1.0).abs() <= within
}

#[test]
fn the_profiles_of_this_build_are_valid_and_hold_their_calibration() {
    for name in names() {
        let profile = load(name).unwrap();
        assert!(!profile.about.is_empty() && profile.visual.is_some() && profile.step_ms.is_some(), "{name}");
        assert!(profile.drafter.is_some() == profile.two_devices && profile.heads.len() == 1, "{name}");
        let slots = (profile.visual.unwrap() + profile.text.unwrap()) as f64;
        let one = profile.target.ms(1.0, slots, 1.0);
        // A pass of a tree costs about what one row costs; on A800 the paper's step takes up to 2.4 tokens' time.
        let within = if name.starts_with("a800") { 1.0 } else { 0.5 };
        assert!(near(profile.target.ms(26.0, slots, 1.0), one, within), "{name}");
        let head = profile.heads[""].ms(1.0, slots, 1.0);
        assert!(head < one / 8.0, "{name}: {head} of {one}");
    }
    let pass = |name: &str, slots| load(name).unwrap().target.ms(1.0, slots, 1.0);
    assert!(near(pass("l40s-llava-ov-72b-7b", 25_188.0), 420.0, 1e-9));
    assert!(near(1000.0 / pass("h200-qwen2.5-vl-32b-7b", 12_644.0), 7.95, 1e-3));
}

/// ParallelVLM's Table 3 gives the drafter's pass at three lengths. The profiles are calibrated with the last one.
#[test]
fn the_drafters_passes_are_those_of_the_paper() {
    for (name, papers) in
        [("l40s-llava-ov-72b-7b", [78.3, 57.5, 46.6]), ("l40s-qwen2.5-vl-32b-7b", [63.7, 48.2, 39.8])]
    {
        let drafter = load(name).unwrap().drafter.unwrap();
        for (share, paper) in [1.0, 0.5, 0.1].into_iter().zip(papers) {
            let modelled = drafter.ms(1.0, 100.0 + 25_088.0 * share, 1.0);
            let within = if share == 0.1 { 1e-3 } else { 0.14 };
            assert!(near(modelled, paper, within), "{name} {share}: {modelled} instead of {paper}");
        }
    }
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let failure = load("h300").unwrap_err();
    assert_eq!((failure.class, failure.error.as_str()), (FailureClass::Usage, "unknown profile `h300`"));
    assert!(failure.hint.unwrap().contains("h200-qwen2.5-vl-32b-7b"));
    let missing = load("no/such.toml").unwrap_err();
    assert_eq!(missing.class, FailureClass::Input);
    assert!(missing.error.starts_with("cannot read profile no/such.toml"));
}

/// The schedule's own machine on a text whose tokens the drafter writes rightly or not.
fn machine(passed: &[bool], window: usize) -> Vec<Tick> {
    // Token i has id i + 1; a wrong draft has the id of no token.
    let mut machine: Parallel = Parallel::new(0, Limits { max_new_tokens: passed.len(), ends: vec![] });
    let mut ticks = Vec::new();
    while let Some(tick) = machine.tick(window) {
        let wanted: Vec<u32> =
            (0..tick.target.rows.len()).map(|row| (tick.target.truncate_to + row + 1) as u32).collect();
        let drafts: Vec<DraftToken> = tick.drafter.as_ref().map_or_else(Vec::new, |task| {
            let draft = |at: usize| if passed[at] { at as u32 + 1 } else { 9999 };
            (task.position..task.position + task.draft).map(|at| draft(at).into()).collect()
        });
        let (rows, drafted) = (tick.target.rows.len(), drafts.len());
        let outcome = machine.apply(tick, drafts, &mut Exact { wanted: &wanted });
        ticks.push(Tick { rows, drafted, emitted: outcome.tokens.len() });
    }
    ticks
}

#[test]
fn ticks_are_those_of_the_schedule() {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    for length in 0..40 {
        for window in 1..8 {
            let passed: Vec<bool> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    !(state >> 33).is_multiple_of(4)
                })
                .collect();
            assert_eq!(ticks(&passed, window), machine(&passed, window), "{passed:?}, window of {window}");
        }
    }
}

/// A run of this method: `steps` steps of 4 drafts, of which 3 pass.
fn log(name: &str, steps: usize) -> RunLog {
    let method = named(name);
    let (given, lossless) = (serde_json::to_value(&method).unwrap(), method.lossless());
    let started = Started { method: given, lossless, dtype: "f32".into(), ..testing::about() };
    let mut prompt = testing::prompt(Some(vec![1, 2]).filter(|_| !method.is_autoregressive()));
    if let EventKind::Prompt(PromptSeen { grid, visual_tokens, prompt_ids, .. }) = &mut prompt {
        (*grid, *visual_tokens, *prompt_ids) = ([1, 2, 5], 10, vec![1; 15]);
    }
    let step = |index| {
        let drafts = if method.is_autoregressive() { 0 } else { 4 };
        let accepted = if method.is_autoregressive() { 0 } else { 3 };
        let verdicts = std::iter::repeat_n(Verdict::Exact, accepted).chain([Verdict::Corrected]);
        let tokens = verdicts.map(|verdict| Token::new(1, "a", verdict)).collect();
        Step { index, drafted: vec![1; drafts], judged: drafts, accepted, tokens, ..Step::default() }
    };
    let steps = (0..steps).map(|index| EventKind::Step(step(index)));
    let done = testing::ended(StopReason::Length, "", &[], Stats::default());
    testing::run(1, [EventKind::Started(started), prompt].into_iter().chain(steps).chain([done]))
}

#[test]
fn a_run_is_charged_by_its_method_and_its_prompt() {
    let text = "step_ms = 0\n[target]\npasses = [[0, 1, 10], [0, 9, 10], [15, 1, 25], [15, 9, 25]]\n\
                [drafter]\npasses = [[0, 1, 1], [0, 2, 1], [7, 1, 8], [7, 2, 8]]\n";
    let profile = Profile::parse("p", text, &sizes).unwrap();
    // A target pass takes 10 ms and 1 ms a slot, 15 of the prompt; a drafter pass 1 ms and 1 ms a slot, 5 + 2.
    let naive = charge(&profile, &log("sd-uniform", 1)).unwrap();
    assert_eq!((naive.tokens, naive.verify_ms), (4, 25.0));
    assert_eq!(naive.draft_ms, 8.0 + 9.0 + 10.0 + 11.0);
    assert_eq!(naive.plain_ms, 25.0 + 26.0 + 27.0 + 28.0);
    let own = charge(&profile, &log("streaming", 1)).unwrap();
    assert_eq!(own.draft_ms, 17.0 + 18.0 + 19.0 + 20.0);
    // Each head reads a quarter of the ten visual tokens, regardless of the union of all heads.
    let std = charge(&profile, &log("std", 1)).unwrap();
    assert_eq!(std.draft_ms, 17.5 + 18.5 + 19.5 + 20.5);
    assert_eq!(charge(&profile, &log("lookup", 1)).unwrap().draft_ms, 0.0);
    assert_eq!(speedup(&profile, &log("autoregressive", 3)), Some(1.0));
    // No draft head, no steps, no run.
    assert_eq!(charge(&profile, &log("sparrow", 1)), None);
    assert_eq!(charge(&profile, &log("naive", 0)), None);
    assert_eq!(charge(&profile, &RunLog::new(1)), None);
}

#[test]
fn a_self_draft_of_fewer_bits_moves_fewer_bytes() {
    let method = named("streaming");
    assert_eq!(lighter(&method, "f32"), 1.0);
    assert_eq!(drafting(&Method::preset("sparrow").unwrap(), "f32"), Drafting::Head("sparrow".into()));
    assert_eq!(drafting(&Method::preset("msd").unwrap(), "f32"), Drafting::Head("msd".into()));
    assert_eq!(grown(&Method::preset("naive").unwrap()), None);
    assert!(
        grown(&Method::preset("sparrow").unwrap()).is_some_and(|(levels, width)| levels >= 5 && width == 8)
    );
    assert_eq!(window(&Method::preset("parallelvlm").unwrap()), Some(Window::Auto));
}

#[test]
fn a_reported_acceptance_is_charged_as_a_run_with_it() {
    let method = |sets: &[&str]| Method::preset("naive").unwrap().with_sets(sets.iter().copied()).unwrap();
    let profile = load("h200-qwen2.5-vl-32b-7b").unwrap();
    let naive = method(&["shape.length=3"]);
    // 2.5 tokens per step: steps of three and of two tokens alternate.
    let modelled = replay(&profile, &naive, 1.0, Reported::PerStep(2.5), 10).unwrap();
    let (target, drafter) = (&profile.target, profile.drafter.as_ref().unwrap());
    let slots = 12_644.0;
    let verify: f64 = [0.0, 3.0, 5.0, 8.0].iter().map(|at| target.ms(4.0, slots + at, 1.0)).sum();
    assert!((modelled.verify_ms - verify).abs() < 1e-9, "{modelled:?} {verify}");
    assert_eq!((modelled.tokens, modelled.other_ms), (10, 4.0));
    assert!(near(modelled.draft_ms, 12.0 * drafter.ms(1.0, slots, 1.0), 0.01), "{modelled:?}");
    // Nothing is drafted: one token a step, as fast as autoregressive decoding.
    let plain = Method::preset("autoregressive").unwrap();
    assert_eq!(replay(&profile, &plain, 1.0, Reported::PerStep(1.0), 10).unwrap().speedup(), 1.0);
    // The drafter is hidden behind the target's passes, one for each window.
    let parallel = Method::preset("parallelvlm").unwrap().with_sets(["schedule.window=3"]).unwrap();
    let modelled = replay(&profile, &parallel, 1.0, Reported::PerReject(1e9), 30).unwrap();
    assert!(modelled.speedup() > 2.5 && modelled.speedup() < 3.0, "{modelled:?}");
    // How many tokens an automatic chain drafts is not known, nor how long the prompt of a measured profile is.
    assert_eq!(replay(&profile, &method(&["shape.length=auto"]), 1.0, Reported::PerStep(2.5), 10), None);
    let unknown = Profile { visual: None, ..profile };
    assert_eq!(replay(&unknown, &naive, 1.0, Reported::PerStep(2.5), 10), None);
}
