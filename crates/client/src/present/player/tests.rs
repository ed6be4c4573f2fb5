use super::*;
use specreel_record::{
    Draft, EventKind, Started, Step, Token, Verdict,
    testing::{self, done, ended, failure, started},
};

/// A step of 10 ms: its drafts, and its tokens with their verdicts.
fn step(drafted: &[&str], tokens: &[(&str, Verdict)]) -> Step {
    Step { draft_ms: 5.0, verify_ms: 5.0, ..testing::drafted(drafted, tokens) }
}

/// "A red ball rolls": a reject in the first step, none in the second.
fn steps() -> Vec<Step> {
    vec![
        step(
            &[" A", " red", " cube", " is"],
            &[(" A", Verdict::Exact), (" red", Verdict::Loosened), (" ball", Verdict::Corrected)],
        ),
        step(&[" rolls"], &[(" rolls", Verdict::Exact), (".", Verdict::Bonus)]),
    ]
}

fn events(steps: Vec<Step>) -> Vec<Event> {
    let text: String = steps.iter().flat_map(|s| &s.tokens).map(|t| t.text.as_str()).collect();
    let kinds = std::iter::once(started()).chain(steps.into_iter().map(EventKind::Step)).chain([done(&text)]);
    kinds.map(|kind| Event::new(1, kind)).collect()
}

fn live(events: &[Event], pace: Pace) -> Player {
    let mut player = Player::live(RunLog::new(1), pace);
    events.iter().for_each(|event| {
        player.apply(event);
    });
    player
}

/// The parts of the scene: `_` ghosts, `-` the rejected one, `~` dropped ones, `+` the next window's, bare what is in the text.
fn shown(player: &Player) -> String {
    let Some(scene) = player.scene() else { return "no scene".into() };
    let one = |part: &Part| match part.fate {
        Fate::Ghost => format!("_{}", part.text.trim()),
        Fate::Rejected => format!("-{}", part.text.trim()),
        Fate::Dropped => format!("~{}", part.text.trim()),
        Fate::Ahead => format!("+{}", part.text.trim()),
        Fate::Emitted(_) => part.text.trim().to_owned(),
    };
    scene.parts.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Everything that a player shows, each once, in order.
fn film(player: &mut Player) -> Vec<String> {
    let mut frames = vec![shown(player)];
    while player.is_playing() {
        player.advance(20.0);
        let frame = shown(player);
        if frames.last() != Some(&frame) {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn a_step_is_drafted_judged_struck_and_replaced_in_that_order() {
    let mut player = live(&events(steps()), Pace::Auto);
    assert_eq!(
        film(&mut player),
        [
            "_A",
            "_A _red",
            "_A _red _cube",
            "_A _red _cube _is",
            "A _red _cube _is",
            "A red _cube _is",
            "A red -cube ~is",
            "A red -cube ball ~is",
            "_rolls",
            "rolls",
            "rolls .",
            "no scene",
        ]
    );
    assert_eq!(*player, *player.whole(), "nothing is lost");
    assert_eq!(player.shown(), "A red ball rolls.");
}

#[test]
fn the_counters_follow_the_judgement() {
    let mut player = live(&events(steps()), Pace::Auto);
    let mut counted = vec![(0, player.shown())];
    while player.is_playing() {
        player.advance(20.0);
        let now = (player.stats().emitted, player.shown());
        // The text of a step is in the log when its last draft has been judged.
        let is_running = player.scene().is_none_or(|scene| scene.phase == Phase::Settling);
        if counted.last() != Some(&now) {
            assert!(is_running);
            counted.push(now);
        }
    }
    // The figures of the end are the engine's own, which are empty here.
    let texts: Vec<_> = counted.iter().map(|(n, text)| (*n, text.as_str())).collect();
    assert_eq!(texts, [(0, ""), (3, "A red ball"), (5, "A red ball rolls."), (0, "A red ball rolls.")]);
    assert!(player.whole().is_finished(), "the result is available at any position");
}

#[test]
fn a_short_run_takes_as_long_as_a_person_needs_and_a_slow_one_is_left_alone() {
    let played = |step_ms: f64, n: usize| {
        let one = Step { draft_ms: step_ms / 2.0, verify_ms: step_ms / 2.0, ..steps().remove(1) };
        let mut player = live(&events(vec![one; n]), Pace::Auto);
        let words = player.speed_words();
        let mut ms = 0.0;
        while player.is_playing() {
            player.advance(10.0);
            ms += 10.0;
        }
        (f64::round(ms / 100.0) / 10.0, words.unwrap_or_default())
    };
    assert_eq!(played(1.0, 15), (6.0, "slowed 400x".into()));
    assert_eq!(played(1.0, 3), (3.0, "slowed 1000x".into()), "one step takes at most a second");
    assert_eq!(played(200.0, 15), (6.0, "slowed 2x".into()));
    assert_eq!(played(500.0, 20), (10.0, String::new()));
    assert_eq!(played(0.0, 6).0, 6.0, "steps without times are also seen");
    assert_eq!(played(f64::NAN, 6).0, 6.0);
}

/// How long each step's drafts, its strike alone, and its strike with the replacement are shown, in milliseconds.
fn times(player: &mut Player) -> Vec<[f64; 3]> {
    let mut times = vec![[0.0; 3]; player.whole().steps().len()];
    while player.is_playing() {
        player.advance(1.0);
        let Some(scene) = player.scene() else { continue };
        let struck = scene.parts.iter().any(|part| part.fate == Fate::Rejected);
        let replaced = scene.parts.iter().any(|part| part.fate == Fate::Emitted(Verdict::Corrected));
        times[scene.step][usize::from(struck) + usize::from(struck && replaced)] += 1.0;
    }
    times
}

#[test]
fn a_reject_is_seen_for_half_a_second_however_short_its_step_is() {
    let own = |accepted: usize, step_ms: f64| {
        let drafts: Vec<String> = (0..10).map(|i| format!(" {i}")).collect();
        let mut tokens: Vec<_> =
            drafts[..accepted].iter().map(|text| (text.as_str(), Verdict::Exact)).collect();
        tokens.push((" own", Verdict::Corrected));
        let drafts: Vec<&str> = drafts.iter().map(String::as_str).collect();
        Step { draft_ms: step_ms / 2.0, verify_ms: step_ms / 2.0, ..step(&drafts, &tokens) }
    };
    for (accepted, step_ms, n) in [(0, 0.2, 3), (9, 1.0, 15), (3, 20.0, 24), (5, 300.0, 8), (2, 3000.0, 4)] {
        let mut player = live(&events(vec![own(accepted, step_ms); n]), Pace::Auto);
        for [drafts, struck, replaced] in times(&mut player) {
            assert!(struck + replaced >= 0.99 * REJECT_MS, "{step_ms} ms: {struck} + {replaced}");
            // Longer than the longest time between two frames.
            assert!(struck > 100.0 && replaced > 100.0, "{step_ms} ms: {struck} + {replaced}");
            assert!(drafts >= 0.99 * DRAFTS_MS, "{step_ms} ms: {drafts}");
        }
    }
    // Only so many are held, none at a speed that was asked for, and faster is faster.
    let many = events(vec![own(4, 1.0); 2 * HELD]);
    let times = |player: &mut Player| times(player).iter().map(|t| t[1] + t[2]).collect::<Vec<_>>();
    let all = times(&mut live(&many, Pace::Auto));
    assert!(all[HELD - 1] > 490.0 && all[HELD] < 100.0, "{all:?}");
    assert!(times(&mut live(&many, Pace::Speed(0.01)))[0] < 50.0);
    let mut faster = live(&many, Pace::Auto);
    faster.change_speed(true);
    assert!((240.0..260.0).contains(&times(&mut faster)[0]));
}

#[test]
fn a_number_is_a_factor_of_the_true_speed() {
    let mut player = live(&events(steps()), Pace::Speed(0.1));
    assert_eq!(player.speed_words().unwrap(), "slowed 10x");
    player.advance(50.0);
    assert_eq!(player.time(), (5.0, 20.0));
    player.change_speed(true);
    player.advance(25.0);
    assert_eq!((player.time().0, player.speed_words().unwrap().as_str()), (10.0, "slowed 5x"));
    (0..40).for_each(|_| player.change_speed(false));
    assert_eq!(player.speed_words().unwrap(), "slowed 2600x");
    (0..40).for_each(|_| player.change_speed(true));
    assert_eq!(player.speed_words().unwrap(), "26x speed");
    assert_eq!(live(&events(steps()), Pace::Speed(1.0)).speed_words(), None);
}

#[test]
fn without_playback_everything_is_there_at_once() {
    let all = events(steps());
    let mut player = live(&all[..2], Pace::Off);
    assert_eq!((player.shown().as_str(), shown(&player).as_str()), ("A red ball", "no scene"));
    assert!(!player.is_playing());
    player.apply(&all[2]);
    assert_eq!(player.shown(), "A red ball rolls.");
    // It can be looked at again all the same.
    player.apply(&all[3]);
    player.step(false);
    assert_eq!(shown(&player), "rolls .");
    player.step(false);
    assert_eq!(shown(&player), "A red -cube ball ~is");
    player.toggle();
    assert!(player.is_playing());
}

#[test]
fn a_live_run_is_never_played_ahead_of_its_events() {
    let all = events(steps());
    let mut player = live(&all[..1], Pace::Auto);
    player.advance(5000.0);
    assert_eq!((shown(&player).as_str(), player.time()), ("no scene", (0.0, 0.0)));
    player.apply(&all[1]);
    player.advance(5000.0);
    assert_eq!((player.shown().as_str(), player.time()), ("A red ball", (10.0, 10.0)));
    assert!(!player.is_playing() && !player.is_over(), "it waits");
    player.apply(&all[2]);
    assert!(player.is_playing());
    player.advance(1.0);
    assert_eq!(shown(&player), "_rolls");
}

#[test]
fn a_player_that_is_behind_a_long_live_run_catches_up() {
    let fast = Step { draft_ms: 25.0, verify_ms: 25.0, ..steps().remove(0) };
    let all = events(vec![fast; 400]);
    let mut player = Player::live(RunLog::new(1), Pace::Auto);
    for event in &all[..all.len() - 1] {
        player.apply(event);
        player.advance(50.0);
    }
    let (at, end) = player.time();
    assert_eq!(end, 20_000.0);
    assert!(end - at < 1100.0, "{} ms behind", end - at);
    player.apply(all.last().unwrap());
    assert_eq!(player.speed_words(), None, "a long run has its true speed");
}

#[test]
fn drafts_that_are_reported_are_seen_while_they_are_verified() {
    let all = events(steps());
    let slow = |event: &Event| match event.kind.clone() {
        EventKind::Step(step) => {
            Event::new(1, EventKind::Step(Step { draft_ms: 200.0, verify_ms: 300.0, ..step }))
        }
        kind => Event::new(1, kind),
    };
    let draft = |index, texts: &[&str], parents: &[Option<usize>]| {
        let drafted_text: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let drafted = vec![1; texts.len()];
        Event::new(1, EventKind::Draft(Draft { index, drafted, drafted_text, parents: parents.to_vec() }))
    };
    let mut player = live(&[all[0].clone(), draft(0, &[" A", " red", " cube", " is"], &[])], Pace::Auto);
    assert_eq!(shown(&player), "_A");
    assert_eq!(film(&mut player).last().unwrap(), "_A _red _cube _is");
    assert_eq!(player.scene().unwrap().phase, Phase::Verifying);
    player.apply(&slow(&all[1]));
    assert_eq!(shown(&player), "_A _red _cube _is", "they are not drafted again");
    assert_eq!(player.speed_words(), None, "what is slow enough is not slowed");
    assert_eq!(
        film(&mut player)[1..],
        ["A _red _cube _is", "A red _cube _is", "A red -cube ~is", "A red -cube ball ~is", "no scene"]
    );
    // Of a tree the first branch is shown.
    player.apply(&draft(1, &[" rolls", " falls", " away"], &[None, None, Some(0)]));
    player.advance(200.0);
    assert_eq!((shown(&player).as_str(), player.scene().unwrap().others), ("_rolls _away", 1));
    // Without playback they are not shown.
    assert_eq!(shown(&live(&[all[0].clone(), draft(0, &[" A"], &[])], Pace::Off)), "no scene");
    // The run ends instead.
    player.apply(&Event::new(1, EventKind::Failed(failure())));
    assert_eq!((shown(&player).as_str(), player.failure()), ("no scene", Some(&failure())));
}

#[test]
fn a_run_that_breaks_off_in_the_middle_of_a_scene_says_so_at_once() {
    let all = events(steps());
    let cancelled = ended(StopReason::Cancelled, " A red ball", &[], specreel_record::Stats::default());
    for end in [EventKind::Failed(failure()), cancelled] {
        let mut player = live(&all[..2], Pace::Auto);
        player.advance(600.0);
        assert_eq!(player.scene().unwrap().phase, Phase::Judging);
        player.apply(&Event::new(1, end));
        assert!(player.is_over() && !player.is_playing() && player.scene().is_none());
        assert_eq!(player.shown(), "A red ball");
    }
}

#[test]
fn stepping_stops_where_the_judgement_is_seen() {
    let mut player = live(&events(steps()), Pace::Auto);
    player.advance(100.0);
    player.step(true);
    assert_eq!((shown(&player).as_str(), player.is_paused()), ("A red -cube ball ~is", true));
    player.advance(9000.0);
    assert_eq!(shown(&player), "A red -cube ball ~is", "it is paused");
    player.step(true);
    assert_eq!(shown(&player), "rolls .");
    player.step(true);
    assert!(player.is_at_end() && player.is_over());
    player.step(false);
    player.step(false);
    player.step(false);
    assert_eq!((player.shown().as_str(), player.time().0), ("", 0.0));
    player.jump(20.0);
    assert_eq!(player.time(), (10.0, 20.0));
    assert_eq!(player.shown(), "A red ball");
    player.jump(-50.0);
    assert_eq!(player.time().0, 0.0);
    player.skip();
    assert_eq!(*player, *player.whole());
    // From the end it begins again.
    player.toggle();
    assert!(player.is_playing() && player.is_unseen());
}

#[test]
fn of_a_tree_the_branch_is_seen_that_is_judged() {
    // The root's children are 0 and 1; 1 leads to 2 and 3, 2 to 4.
    let mut tree = step(
        &[" a", " red", " cube", " box", " is"],
        &[(" red", Verdict::Exact), (" ball", Verdict::Corrected)],
    );
    tree.parents = vec![None, None, Some(1), Some(1), Some(2)];
    tree.path = vec![1];
    let mut player = live(&events(vec![tree.clone()]), Pace::Auto);
    player.step(true);
    assert_eq!(shown(&player), "red -cube ball ~is");
    assert_eq!(player.scene().unwrap().others, 2);
    // Accepted to its leaf.
    tree.path = vec![1, 3];
    tree.tokens = [(" red", Verdict::Exact), (" box", Verdict::Exact), (" is", Verdict::Bonus)]
        .map(|(text, verdict)| Token::new(1, text, verdict))
        .to_vec();
    tree.accepted = 2;
    let mut player = live(&events(vec![tree.clone()]), Pace::Auto);
    player.step(true);
    assert_eq!(shown(&player), "red box is");
    // Damaged files have no end of a branch, or none at all.
    for parents in [vec![Some(0); 5], vec![Some(9); 5], vec![None; 2], vec![Some(1), Some(0)]] {
        let damaged = Step { parents, path: vec![7, 0], ..tree.clone() };
        film(&mut live(&events(vec![damaged]), Pace::Auto));
    }
}

#[test]
fn where_drafting_and_verifying_overlap_the_next_window_is_seen() {
    let windows = vec![
        step(&[" A"], &[(" A", Verdict::Exact)]),
        step(&[" red", " ball"], &[(" red", Verdict::Exact), (" ball", Verdict::Exact)]),
        step(&[" falls"], &[(" rolls", Verdict::Corrected)]),
    ];
    let mut all = events(windows);
    let method = serde_json::json!({"name": "parallelvlm", "schedule": {"kind": "parallel"}});
    all[0].kind = EventKind::Started(Started { method, ..testing::about() });
    assert_eq!(
        film(&mut live(&all, Pace::Auto)),
        [
            "_A",
            "_A +red",
            "A +red",
            "A +red +ball",
            "_red _ball",
            "red _ball",
            "red ball",
            "red ball +falls",
            "_falls",
            "-falls",
            "-falls rolls",
            "no scene"
        ]
    );
}

#[test]
fn a_recording_plays_its_stages_and_then_its_steps() {
    let mut all: Vec<(f64, Event)> = Vec::new();
    let stage = EventKind::Stage { stage: specreel_record::Stage::Encode, done: 6, total: 6, left_ms: None };
    for (i, event) in events(steps()).into_iter().enumerate() {
        all.push(([100.0, 1110.0, 1120.0, 1121.0][i], event));
        if i == 0 {
            all.push((500.0, Event::new(1, stage.clone())));
        }
    }
    let mut player = Player::recorded(RunLog::new(1), Pace::Off, all);
    assert!(player.is_unseen() && player.started().is_some() && player.stage().is_none());
    assert_eq!(player.time(), (0.0, 1020.0));
    player.advance(400.0);
    assert_eq!((player.stage().is_some(), player.speed_words().unwrap().as_str()), (true, "slowed 100x"));
    player.advance(600.0);
    assert_eq!(player.time().0, 1000.0);
    player.advance(100.0);
    assert_eq!((player.time().0, shown(&player).as_str()), (1001.4, "_A _red _cube"));
    player.seek_generation(10.0);
    assert_eq!(player.shown(), "A red ball");
    film(&mut player);
    assert_eq!(*player, *player.whole());
}

/// A text that repeats itself, withdrawn, and the one that is written in its place.
fn written_again() -> Vec<Event> {
    let mut all = events(vec![step(&[" no"], &[(" no", Verdict::Exact), (" no", Verdict::Bonus)]); 3]);
    all.pop();
    let sampling = Box::default();
    all.push(Event::new(1, EventKind::Retry { tokens: 6, sampling, note: "again".into() }));
    all.extend(events(steps()).into_iter().skip(1));
    all
}

#[test]
fn a_withdrawn_text_is_played_no_more() {
    let mut fresh = live(&events(steps()), Pace::Auto);
    let scenes = film(&mut fresh);
    for pace in [Pace::Auto, Pace::Off, Pace::Speed(0.1)] {
        let mut player = Player::live(RunLog::new(1), pace);
        for event in &written_again() {
            player.apply(event);
            // In the middle of anything.
            player.advance(7.0);
            shown(&player);
        }
        film(&mut player);
        assert_eq!(player.shown(), " A red ball rolls.".trim_start());
        assert_eq!((player.steps().len(), player.notes()), (2, &["again".to_owned()][..]));
    }
    let timed =
        written_again().into_iter().enumerate().map(|(at, event)| (20.0 * at as f64, event)).collect();
    let mut recorded = Player::recorded(RunLog::new(1), Pace::Auto, timed);
    let frames = film(&mut recorded);
    assert!(frames.ends_with(&scenes[1..]), "{frames:?} {scenes:?}");
    assert_eq!(recorded.shown(), "A red ball rolls.");
}
