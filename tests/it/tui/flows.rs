//! Whole flows: keys in, effects to a scripted engine, its events back, every state drawn.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ratatui::style::Color;
use specreel::tui::{Effect, Key, KeyCode, Msg, Studio, VideoFile};
use specreel_record::{EventKind, Failure, FailureClass, Stage, StopReason};

use crate::tui::script::{
    alone, asked, begin, choose, compared, done, engine, finish_compared, inspected, listed, lossy, play,
    press, read_frames, ready, requested, screen, sees, session, start, streaming, strict, with_pictures,
};

#[test]
fn a_saved_run_once_more() {
    let (columns, rows) = (120, 40);
    let mut studio = ready("dark", columns, rows);
    assert_eq!(press(&mut studio, "S"), [Effect::List("/data/sessions".into())]);
    studio.handle(Msg::Listed(Ok(listed())));
    assert_eq!(press(&mut studio, "down enter"), [Effect::Load("/data/sessions/200.jsonl".into())]);
    studio.handle(Msg::Loaded(Ok(session(&lossy(), false))));
    assert!(studio.is_playing() && studio.caption().is_empty());
    // The stages before the first token also take their time.
    studio.handle(Msg::Advance(500.0));
    sees(&studio, &["slowed 15x", "encoding frames", "harbour"]);
    studio.handle(Msg::Advance(1040.0));
    assert_eq!(studio.caption(), "A small green star falls");
    // Esc ends the replay, not the studio; the run stays, and runs again on the clip that it was of.
    press(&mut studio, "esc");
    assert!(!studio.is_playing() && studio.caption().ends_with("until the end."));
    let request = requested(press(&mut studio, "r"));
    assert_eq!(
        (request.video.to_str(), request.prompt.as_str()),
        (Some("/videos/harbour.mp4"), "What happens?")
    );

    // A file that ends in the middle says so.
    studio.handle(Msg::Loaded(Ok(session(&lossy()[..2], true))));
    studio.handle(Msg::Advance(1e5));
    sees(&studio, &["the recording ends here", "cut off"]);
    // A live run continues meanwhile.
    begin(&mut studio, request.run, None, false);
    engine(&mut studio, request.run, EventKind::Step(alone()[0].clone()));
    press(&mut studio, "<");
    assert_eq!(studio.caption().trim(), "A");
}

#[test]
fn a_caption_token_by_token() {
    let (columns, rows) = (120, 40);
    let mut studio = ready("dark", columns, rows);
    press(&mut studio, "i");
    assert!(screen(&studio, columns, rows).contains("no token to inspect yet"));
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &lossy(), false);
    // It opens at the first token that is not what was drafted, or not what the target would have written.
    press(&mut studio, "i");
    sees(&studio, &["“falls”", "corrected", "“drops”", "nothing drafted here"]);
    press(&mut studio, "n");
    sees(
        &studio,
        &["Inspector", "“through”", "the target's choice is “down”", "31.0 %", "落ちる", "entropy"],
    );
    press(&mut studio, "left");
    sees(&studio, &["“slowly”", "step 2, 1 of 8"]);
    press(&mut studio, "left n n");
    sees(&studio, &["“of”"]);
    press(&mut studio, "N G");
    sees(&studio, &["token 80 of 80", "bonus"]);
    press(&mut studio, "up");
    sees(&studio, &["step 10, 1 of"]);
    press(&mut studio, "v");
    sees(&studio, &["the drafter sees all"]);
    press(&mut studio, "v");
    sees(&studio, &["scores of the visual tokens  not recorded"]);
    // Esc closes it; so does another pane.
    press(&mut studio, "esc");
    assert!(!screen(&studio, columns, rows).contains("Inspector"));
    press(&mut studio, "i tab tab");
    assert!(!screen(&studio, columns, rows).contains("Inspector"));
    // On a low screen the caption scrolls with the cursor.
    studio.handle(Msg::Resize(60, 16));
    press(&mut studio, "i g");
    let at = |studio: &Studio, word: &str| screen(studio, 60, 16).contains(word);
    assert!(at(&studio, "A small green star"));
    press(&mut studio, "G");
    assert!(at(&studio, "until the end.") && !at(&studio, "A small green star"));
}

#[test]
fn methods_side_by_side() {
    let mut studio = ready("dark", 120, 40);
    // The target alone and the chosen method are picked; naive comes with them.
    press(&mut studio, "c home down space");
    compared(&mut studio);
    finish_compared(&mut studio);
    press(&mut studio, "down");
    sees(&studio, &["●  lvspec", "token 17", "identical to the autoregressive caption"]);
    // The race goes by itself, and stops at its end or with the chart.
    press(&mut studio, "tab");
    assert!(studio.is_playing());
    studio.handle(Msg::Advance(1e5));
    assert!(!studio.is_playing());
    sees(&studio, &["1st", "2nd", "3rd", " ms"]);
    press(&mut studio, "left left left left space");
    assert!(studio.is_playing());
    press(&mut studio, "tab");
    assert!(!studio.is_playing());
    // What is selected is shown in the panes.
    press(&mut studio, "down enter");
    assert!(studio.caption().ends_with("until the end."));
    press(&mut studio, "C");
    sees(&studio, &["Compare"]);
    assert_eq!(press(&mut studio, "esc q"), [Effect::Quit]);
}

#[test]
fn a_comparison_that_is_ended_early_keeps_what_it_has() {
    let mut studio = ready("dark", 100, 30);
    let run = asked(&press(&mut studio, "c enter")).unwrap();
    begin(&mut studio, run, None, false);
    engine(&mut studio, run, EventKind::Step(alone()[0].clone()));
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(run)]);
    assert_eq!(done(&mut studio, run, &alone()[..1], StopReason::Cancelled), [], "nothing waits any more");
    assert!(screen(&studio, 100, 30).contains("did not run"));
    press(&mut studio, "esc");
    assert!(!screen(&studio, 100, 30).contains("did not run"));
}

/// On a dark terminal a light theme could not be read where it left the terminal's background.
#[test]
fn light_themes_paint_every_cell() {
    let boxes = [
        "", "m", "m tab", "m ctrl-s", "c", "p", "s", "S", "o", "L", "?", "v", "a", "/", "e ctrl-r", "i",
        "c enter",
    ];
    for theme in ["light", "catppuccin-latte", "solarized-light"] {
        for size in [(60, 16), (100, 30), (200, 60)] {
            for keys in boxes {
                let mut studio = streaming(theme, size.0, size.1);
                done(&mut studio, 3, &lossy(), StopReason::Eos);
                if !keys.is_empty() {
                    press(&mut studio, keys);
                }
                let buffer = studio.picture(size.0, size.1);
                let bare = buffer.content.iter().filter(|cell| cell.bg == Color::Reset).count();
                assert_eq!(bare, 0, "{theme} {size:?} after {keys:?}");
            }
        }
    }
}

/// Where nothing is lost, the chart shows what changes.
#[test]
fn a_lossless_method_is_swept_for_speed_and_length() {
    for (columns, rows) in [(120, 40), (80, 24), (60, 16)] {
        let mut studio = ready("dark", columns, rows);
        press(&mut studio, "m n a i v e ] esc");
        let mut run = asked(&press(&mut studio, "w"));
        while let Some(number) = run {
            let steps = match number {
                1 => alone(),
                _ => lossy().into_iter().map(strict).take(number as usize).collect(),
            };
            run = asked(&play(&mut studio, number, &steps, number > 1));
        }
        let screen = screen(&studio, columns, rows);
        let words = ["the same fidelity at every length", "speedup", "●"];
        let more = if columns > 64 { &["accepted drafts per step"][..] } else { &[] };
        for words in words.iter().chain(more) {
            assert!(screen.contains(words), "no {words:?} in\n{screen}");
        }
    }
}

#[test]
fn a_number_at_all_its_values() {
    let mut studio = ready("dark", 120, 40);
    let mut run = asked(&press(&mut studio, "w"));
    let mut lambdas = Vec::new();
    while let Some(number) = run {
        let screen = screen(&studio, 120, 40);
        assert!(screen.contains("lambda=0.2") && screen.contains("chart"), "{screen}");
        let steps = if number == 1 { alone() } else { lossy()[..number as usize].to_vec() };
        lambdas.push(number);
        run = asked(&play(&mut studio, number, &steps, number > 1));
    }
    assert_eq!(lambdas.len(), 7, "the target alone and six values");
    let screen = screen(&studio, 120, 40);
    assert!(screen.contains("speedup") && screen.contains("lambda=1"), "{screen}");
}

#[test]
fn a_number_turned_runs_again_at_once() {
    let mut studio = ready("dark", 120, 40);
    assert_eq!(press(&mut studio, "]"), [], "there is nothing to run again");
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &lossy(), false);
    let request = requested(press(&mut studio, "]"));
    assert!(request.method.to_toml().contains("lambda = 0.9"), "{}", request.method.to_toml());
    // Quick turns end in one run, and what wrote nothing is forgotten.
    assert_eq!(press(&mut studio, "[ [ ["), [Effect::Cancel(2)]);
    let request = requested(done(&mut studio, 2, &[], StopReason::Cancelled));
    assert!(request.method.to_toml().contains("lambda = 0.6"), "{}", request.method.to_toml());
    play(&mut studio, request.run, &lossy(), true);
    assert!(screen(&studio, 120, 40).contains("run 2 of 2"));
    // In the picker they only turn.
    assert_eq!(press(&mut studio, "m ]"), []);
}

#[test]
fn a_method_of_ones_own() {
    let mut studio = ready("dark", 120, 40);
    // lvspec with another context and another rule.
    press(&mut studio, "m tab");
    sees(&studio, &["which visual tokens does the drafter see?"]);
    sees(&studio, &["‹ model ›"]);
    press(&mut studio, "down right down right right");
    sees(&studio, &["lvspec*"]);
    press(&mut studio, "G left");
    press(&mut studio, "s");
    sees(&studio, &["my-lvspec"]);
    press(&mut studio, "/ enter");
    sees(&studio, &["a name consists of letters"]);
    let effects = press(&mut studio, "backspace 2 enter");
    let Some(Effect::SaveMethod(file, method)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(file, std::path::Path::new("/config/methods/my-lvspec2.toml"));
    assert_eq!(method.name, "my-lvspec2");
    method.validate().unwrap();
    studio.handle(Msg::MethodSaved(Ok((file.clone(), (**method).clone()))));
    sees(&studio, &["saved as /config/methods/my-lvspec2.toml"]);
    press(&mut studio, "m");
    sees(&studio, &["● my-lvspec2"]);
    let request = requested(press(&mut studio, "enter"));
    assert_eq!(request.method.name, "my-lvspec2");
}

#[test]
fn what_is_shown_goes_to_files_and_the_prompt_to_an_editor() {
    let mut studio = ready("dark", 120, 40);
    assert_eq!(press(&mut studio, "s"), []);
    assert!(screen(&studio, 120, 40).contains("no caption to export"));
    let Some(Effect::Editor(text)) = press(&mut studio, "E").pop() else { panic!("no editor") };
    assert_eq!(text, "Describe the video in detail.");
    studio.handle(Msg::Edited(Ok("Why?\n".into())));
    assert_eq!(studio.prompt(), "Why?");
    studio.handle(Msg::Edited(Err("cannot run the editor vi".into())));
    assert!(screen(&studio, 120, 40).contains("cannot run the editor") && studio.prompt() == "Why?");
    let effects = press(&mut studio, "enter");
    let run = start(&mut studio, &effects);
    play(&mut studio, run, &lossy(), false);
    press(&mut studio, "esc");
    for (keys, name, word) in [
        ("s enter", "0-lvspec.txt", "A small green star falls"),
        ("s down enter", "0-lvspec.md", "> Why?"),
        ("s down down enter", "0-lvspec.html", "title=\"loosened: differs"),
        ("s G enter", "0-lvspec.trace.json", "\"name\":\"target 2\""),
    ] {
        let effects = press(&mut studio, keys);
        let Some(Effect::Write(file, text)) = effects.first() else { panic!("{effects:?}") };
        assert!(file == name && text.contains(word), "{file}: {text}");
    }
    studio.handle(Msg::Written(Ok("0-lvspec.html".into())));
    assert!(screen(&studio, 120, 40).contains("saved as 0-lvspec.html"));
    assert!(!screen(&studio, 120, 40).contains("falls╎ slowly"));
    press(&mut studio, "b");
    assert!(screen(&studio, 120, 40).contains("falls╎ slowly"));
}

#[test]
fn questions_go_on_with_the_conversation() {
    let mut studio = ready("dark", 120, 40);
    press(&mut studio, "a");
    assert!(screen(&studio, 120, 40).contains("no caption to ask about"));
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &alone(), false);
    let request = requested(press(&mut studio, "a W h y ? enter"));
    assert_eq!((request.prompt.as_str(), request.before.len()), ("Why?", 1));
    assert_eq!(request.before[0].prompt, "Describe the video in detail.");
    assert!(request.before[0].answer.starts_with("A small green star"));
    play(&mut studio, request.run, &lossy()[..1], true);
    let seen = screen(&studio, 120, 40);
    for words in ["› Describe the video in detail.", "› Why?", "prefill reused"] {
        assert!(seen.contains(words), "no {words:?} in\n{seen}");
    }
    // Asked again, it is the same conversation; one more question continues it.
    let request = requested(press(&mut studio, "r"));
    assert_eq!(request.before.len(), 1);
    play(&mut studio, request.run, &lossy()[..1], true);
    let request = requested(press(&mut studio, "a H o w ? enter"));
    assert_eq!(
        request.before.iter().map(|t| t.prompt.as_str()).collect::<Vec<_>>(),
        ["Describe the video in detail.", "Why?"]
    );
}

#[test]
fn a_saved_run_is_deleted_only_when_asked_twice() {
    let mut studio = ready("dark", 100, 30);
    press(&mut studio, "S");
    assert_eq!(press(&mut studio, "d y"), [], "there is nothing to delete yet");
    studio.handle(Msg::Listed(Ok(listed())));
    assert_eq!(press(&mut studio, "d n"), []);
    assert_eq!(press(&mut studio, "d esc y"), []);
    assert_eq!(press(&mut studio, "down d y"), [Effect::Delete("/data/sessions/200.jsonl".into())]);
    let mut rest = listed();
    rest.remove(1);
    studio.handle(Msg::Listed(Ok(rest)));
    assert_eq!(press(&mut studio, "enter"), [Effect::Load("/data/sessions/9000.jsonl".into())]);
    press(&mut studio, "S");
    studio.handle(Msg::Listed(Err("cannot delete it".into())));
    assert!(screen(&studio, 100, 30).contains("cannot delete it"));
}

/// Any key, the ones that do something more often than others.
fn any_key(rng: &mut impl Rng) -> Key {
    const KEYS: &str = "enter esc tab shift-tab up down left right home end pageup pagedown backspace delete space ctrl-c \
                        ctrl-u ctrl-w ctrl-j ctrl-l alt-enter alt-up alt-down alt-backspace f1 f2 f3 f4 f5 f6 m m p / ? o e \
                        r r y t q [ ] \\ < > h j k l g G S d n , . + minus \
                        i i n N v c C w x e s b E % %";
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
    let event = |kind| Msg::Engine(specreel_record::Event::new(run, kind));
    let steps = if rng.random_bool(0.5) { lossy() } else { alone() };
    match rng.random_range(0..13) {
        10 => Msg::Listed(Ok(listed())),
        11 => Msg::Loaded(Ok(session(&steps[..rng.random_range(0..steps.len())], rng.random_bool(0.5)))),
        12 => Msg::Advance(rng.random_range(0.0..400.0)),
        0..3 => event(EventKind::Step(steps[rng.random_range(0..steps.len())].clone())),
        3 => event(EventKind::Stage {
            stage: Stage::Prefill,
            done: rng.random_range(0..9),
            total: rng.random_range(0..3),
            left_ms: rng.random_bool(0.5).then(|| f64::from(rng.random_range(0..9_999_999u32))),
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
            found: Ok(vec![VideoFile {
                path: format!("/v/{}.mp4", rng.random_range(0..99)).into(),
                bytes: None,
                modified: None,
            }]),
            note: None,
        },
        _ => Msg::Tick,
    }
}

#[test]
fn a_thousand_flows_of_random_keys_never_panic() {
    let sizes = [(60, 16), (80, 24), (100, 30), (160, 50), (20, 5)];
    for seed in 0..1000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut columns, mut rows) = sizes[seed as usize % sizes.len()];
        let mut studio = match seed % 4 {
            0 => inspected(columns, rows),
            1 => with_pictures("dark", columns, rows),
            _ => ready("dark", columns, rows),
        };
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
            if rng.random_bool(0.5) {
                read_frames(&mut studio, effects);
            }
            if turn % 5 == 0 && columns > 0 {
                studio.picture(columns, rows);
            }
        }
        if columns > 0 {
            studio.picture(columns, rows);
        }
    }
}

#[test]
fn wide_screens_show_every_column_and_every_name_and_use_their_width() {
    for (columns, rows) in [(170, 50), (200, 60), (240, 60)] {
        let mut studio = streaming("dark", columns, rows);
        done(&mut studio, 3, &lossy(), StopReason::Eos);
        let mut choose_all = Vec::new();
        for name in ["parallelvlm", "lenient"] {
            let run = asked(&choose(&mut studio, name)).unwrap();
            play(&mut studio, run, &lossy(), false);
            choose_all.push(name);
        }
        let screen = screen(&studio, columns, rows);
        let words = [
            "runs on this clip",
            "tokens/s",
            "tau",
            "decode",
            "loosened",
            "autoregressive",
            "naive",
            "lvspec",
        ];
        for word in words.into_iter().chain(choose_all) {
            let row = screen
                .lines()
                .find(|line| line.contains(&format!("  {word} ")) || line.contains(&format!("▸ {word} ")));
            assert!(row.is_some(), "{columns}x{rows}: no {word:?} in\n{screen}");
        }
        // Text and steps take the middle, not a third of it each.
        let width = |title: &str| {
            let line = screen.lines().find(|line| line.contains(title)).unwrap();
            let from = &line[line.find(title).unwrap()..];
            from.chars().take_while(|c| *c != '╮').count()
        };
        assert!(width("╭ Caption") >= 68 && width("╭ Steps") == width("╭ Caption"), "{screen}");
    }
    // On a small screen numbers are left out before names are.
    let mut studio = ready("dark", 60, 16);
    press(&mut studio, "c home down space");
    compared(&mut studio);
    finish_compared(&mut studio);
    let screen = screen(&studio, 60, 16);
    for words in ["autoregressive", "naive", "lvspec", "2.4x (2.2–2.5)"] {
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
}
