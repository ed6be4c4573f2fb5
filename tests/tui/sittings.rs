//! Whole sittings: keys in, effects to a scripted engine, its events back, every state drawn.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specreel::{
    record::{EventKind, Failure, FailureClass, Stage, StopReason},
    tui::{Effect, Found, Key, KeyCode, Msg, Studio, picture},
};

use crate::script::{alone, asked, begin, done, engine, loading, lossy, press, ready};

fn screen(studio: &Studio, columns: u16, rows: u16) -> String {
    let described = picture::describe(&studio.picture(columns, rows));
    described.split("--- styles ---").next().unwrap().to_owned()
}

#[test]
fn from_the_first_key_to_the_last() {
    let (columns, rows) = (120, 40);
    let mut studio = loading("dark", columns, rows);
    let shows = |studio: &Studio, words: &[&str]| {
        let screen = screen(studio, columns, rows);
        for word in words {
            assert!(screen.contains(word), "no {word:?} in\n{screen}");
        }
    };
    shows(&studio, &["loading models", "Library", "star-and-cross", "Choose a clip"]);

    // A wish before the models are there is kept.
    press(&mut studio, "down e");
    studio.handle(Msg::Paste(" Be brief.".into()));
    assert_eq!(press(&mut studio, "enter"), []);
    shows(&studio, &["then your run"]);
    let effects = engine(
        &mut studio,
        0,
        EventKind::Ready {
            target: "target".into(),
            drafter: None,
            device: "cpu".into(),
            dtype: "f32".into(),
            notes: vec![],
        },
    );
    let Some(Effect::Run(request)) = effects.first() else { panic!("no run: {effects:?}") };
    assert_eq!(request.prompt, "Describe the video in detail. Be brief.");
    assert_eq!(request.video, std::path::Path::new("/demo/1.mp4"));

    // It streams.
    engine(&mut studio, 1, EventKind::Stage { stage: Stage::Encode, done: 2, total: 6 });
    shows(&studio, &["encoding frames", "2/6"]);
    begin(&mut studio, 1, Some(10), false);
    let steps = lossy();
    for step in &steps {
        engine(&mut studio, 1, EventKind::Step(step.clone()));
        screen(&studio, columns, rows);
    }
    shows(
        &studio,
        &["A small green star falls", "corrected", "loosened", "shifted", "tok/s", "drafter sees 10"],
    );
    done(&mut studio, 1, &steps, StopReason::Eos);
    shows(&studio, &["done", "10 steps"]);

    // Another method on the kept context: a baseline, and with it a speedup.
    press(&mut studio, "esc m g enter");
    let run = asked(&press(&mut studio, "r")).unwrap();
    begin(&mut studio, run, None, true);
    for step in alone() {
        engine(&mut studio, run, EventKind::Step(step));
    }
    shows(&studio, &["lossless autoregressive", "this is the baseline", "context kept"]);
    done(&mut studio, run, &alone(), StopReason::Eos);
    press(&mut studio, "<");
    shows(&studio, &["measured", "runs on this clip", "run 1 of 2"]);

    // Cancelled in the middle.
    let run = asked(&press(&mut studio, "r")).unwrap();
    begin(&mut studio, run, None, true);
    engine(&mut studio, run, EventKind::Step(alone()[0].clone()));
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(run)]);
    shows(&studio, &["cancelling"]);
    done(&mut studio, run, &alone()[..1], StopReason::Cancelled);
    shows(&studio, &["— cancelled"]);
    assert!(matches!(press(&mut studio, "y").as_slice(), [Effect::Copy(text)] if text == "A"));
    assert_eq!(press(&mut studio, "q"), [Effect::Quit]);
}

/// Any key, the ones that do something more often than others.
fn any_key(rng: &mut impl Rng) -> Key {
    const KEYS: &str = "enter esc tab shift-tab up down left right home end pageup pagedown backspace delete space ctrl-c \
                        ctrl-u ctrl-w ctrl-j ctrl-l alt-enter alt-up alt-down alt-backspace f1 f2 f3 f4 f5 m m p / ? o e \
                        r r y t q [ ] \\ < > h j k l g G";
    let keys: Vec<&str> = KEYS.split_whitespace().collect();
    if rng.random_bool(0.8) {
        return Key::parse(keys[rng.random_range(0..keys.len())]).unwrap();
    }
    let odd = ['a', 'Z', '日', '\u{301}', '👩', '~', '\u{7f}', '\u{200d}', '-', '"'];
    Key {
        code: KeyCode::Char(odd[rng.random_range(0..odd.len())]),
        ctrl: rng.random_bool(0.1),
        alt: rng.random_bool(0.1),
        shift: false,
    }
}

/// What an engine, a disk and a terminal may say at any time.
fn anything(rng: &mut impl Rng, last_run: u64) -> Msg {
    let run = if rng.random_bool(0.8) { last_run } else { rng.random_range(0..5) };
    let event = |kind| Msg::Engine(specreel::record::Event::new(run, kind));
    let steps = if rng.random_bool(0.5) { lossy() } else { alone() };
    match rng.random_range(0..10) {
        0..3 => event(EventKind::Step(steps[rng.random_range(0..steps.len())].clone())),
        3 => event(EventKind::Stage {
            stage: Stage::Prefill,
            done: rng.random_range(0..9),
            total: rng.random_range(0..3),
        }),
        4 => event(EventKind::Done {
            reason: [StopReason::Eos, StopReason::Length, StopReason::Cancelled][rng.random_range(0..3)],
            text: "\u{1b}]0;x\u{7}A 日本".into(),
            ids: vec![],
            stats: Box::default(),
        }),
        5 => event(EventKind::Failed(Failure {
            class: FailureClass::Internal,
            error: "it\nbroke\u{1b}[2J".into(),
            hint: None,
        })),
        6 => {
            let sizes =
                [(0, 0), (1, 1), (20, 5), (60, 16), (61, 17), (80, 24), (91, 23), (120, 40), (220, 60)];
            let (columns, rows) = sizes[rng.random_range(0..sizes.len())];
            Msg::Resize(columns, rows)
        }
        7 => Msg::Paste(["/v/new.mp4", "a\nb\tc", "", "日本語\u{202e}"][rng.random_range(0..4)].into()),
        8 => Msg::Scanned {
            folder: "/v".into(),
            found: Ok(vec![Found {
                path: format!("/v/{}.mp4", rng.random_range(0..99)).into(),
                bytes: None,
            }]),
        },
        _ => Msg::Tick,
    }
}

#[test]
fn a_thousand_sittings_of_random_keys_never_panic() {
    let sizes = [(60, 16), (80, 24), (100, 30), (160, 50), (20, 5)];
    for seed in 0..1000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut columns, mut rows) = sizes[seed as usize % sizes.len()];
        let mut studio = ready("dark", columns, rows);
        let mut last_run = 0;
        for turn in 0..40 {
            let msg = if rng.random_bool(0.75) {
                Msg::Key(any_key(&mut rng))
            } else {
                anything(&mut rng, last_run)
            };
            if let Msg::Resize(c, r) = msg {
                (columns, rows) = (c, r);
            }
            let effects = studio.handle(msg);
            last_run = asked(&effects).unwrap_or(last_run);
            if turn % 5 == 0 && columns > 0 {
                studio.picture(columns, rows);
            }
        }
        if columns > 0 {
            studio.picture(columns, rows);
        }
    }
}
