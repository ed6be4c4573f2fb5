//! A studio whose engine is a script: what it shows is the same on every machine.

use std::path::{Path, PathBuf};

use specreel::{
    record::{Event, EventKind, Stage, Stats, Step, StopReason, Token, Verdict},
    speculate::Method,
    tui::{Clip, ClipFacts, ColorDepth, DEFAULT_PRESETS, Effect, Found, Key, Msg, Studio, StudioConfig},
};

const TITLES: [(&str, f64, u64); 9] = [
    ("red-circle-rolls", 6.0, 41_300),
    ("two-squares", 6.0, 52_900),
    ("star-and-cross", 8.0, 70_800),
    ("triangle-turns", 4.0, 26_100),
    ("three-shots", 12.0, 118_200),
    ("green-ring", 6.0, 33_400),
    ("blue-on-blue", 6.0, 29_700),
    ("nothing-moves", 4.0, 17_800),
    ("many-small-dots", 8.0, 161_000),
];

/// What a test's studio starts with: nothing of the user's.
pub fn config(theme: &str) -> StudioConfig {
    assert!(DEFAULT_PRESETS.contains("[[prompt]]"));
    let clip = |title: &str, path: &str| Clip { title: title.into(), path: path.into() };
    StudioConfig {
        clips: vec![clip("A green star falls", "/demo/0.mp4"), clip("Two shapes meet", "/demo/1.mp4")],
        methods: Method::presets().to_vec(),
        method: "lvspec".into(),
        lossless: Method::lossless,
        prompt: "Describe the video in detail.".into(),
        theme: theme.into(),
        colors: if theme == "mono" { ColorDepth::None } else { ColorDepth::True },
        keymap: None,
        themes: None,
        log: None,
        ..StudioConfig::default()
    }
}

/// A studio of this size whose library is read and whose models still load.
pub fn loading(theme: &str, columns: u16, rows: u16) -> Studio {
    let (mut studio, _) = Studio::new(&config(theme)).unwrap();
    studio.handle(Msg::Resize(columns, rows));
    let path = |name: &str| PathBuf::from(format!("/videos/scenes/{name}.mp4"));
    let found = TITLES.iter().map(|(name, _, bytes)| Found { path: path(name), bytes: Some(*bytes) });
    studio.handle(Msg::Scanned { folder: "/videos/scenes".into(), found: Ok(found.collect()) });
    let mut known = |path: &Path, seconds| {
        let facts = ClipFacts { seconds: Some(seconds), size: Some((128, 128)) };
        studio.handle(Msg::Probed { path: path.into(), facts });
    };
    for (name, seconds, _) in TITLES {
        known(&path(name), seconds);
    }
    known(Path::new("/demo/0.mp4"), 6.0);
    known(Path::new("/demo/1.mp4"), 6.0);
    studio
}

/// The same with its models there.
pub fn ready(theme: &str, columns: u16, rows: u16) -> Studio {
    let mut studio = loading(theme, columns, rows);
    engine(
        &mut studio,
        0,
        EventKind::Ready {
            target: "target".into(),
            drafter: Some("drafter".into()),
            device: "cpu".into(),
            dtype: "q8_0".into(),
            notes: vec![],
        },
    );
    studio
}

pub fn engine(studio: &mut Studio, run: u64, kind: EventKind) -> Vec<Effect> {
    studio.handle(Msg::Engine(Event::new(run, kind)))
}

/// Press keys as key maps write them, separated by blanks.
pub fn press(studio: &mut Studio, keys: &str) -> Vec<Effect> {
    keys.split(' ').flat_map(|key| studio.handle(Msg::Key(Key::parse(key).unwrap()))).collect()
}

/// The number of the run that these effects ask for.
pub fn asked(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|e| if let Effect::Run(request) = e { Some(request.run) } else { None })
}

/// One step: how many drafts were judged, and the tokens; a letter before each token is its verdict.
fn step(judged: usize, tokens: &str, (draft_ms, verify_ms): (f64, f64)) -> Step {
    let tokens: Vec<Token> = tokens
        .split('|')
        .map(|token| {
            let (verdict, text) = token.split_at(1);
            let verdict = match verdict {
                "=" => Verdict::Exact,
                "~" => Verdict::Loosened,
                ">" => Verdict::Shifted,
                "!" => Verdict::Corrected,
                "+" => Verdict::Bonus,
                _ => Verdict::Plain,
            };
            Token::new(1, text, verdict)
        })
        .collect();
    let accepted = tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count();
    Step {
        index: 0,
        drafted: vec![1; judged],
        parents: vec![],
        path: vec![],
        drafted_text: Vec::new(),
        judged,
        accepted,
        tokens,
        draft_ms,
        verify_ms,
        other_ms: 0.1,
    }
}

/// The steps of a lossy run.
pub fn lossy() -> Vec<Step> {
    let lines = [
        (10, "=A|= small|= green|= star|! falls|"),
        (10, "= slowly|~ through|= the|= middle|~ of|= the|= picture|!,|"),
        (10, "= turning|~ as|= it|= goes|=.|= The|= background|~ stays|= light|= gray|+ all|"),
        (10, "= the|~ time|=.|! Behind|"),
        (10, "= it|=,|= a|= large|> dotted|= purple|= circle|! moves|"),
        (10, "= from|= left|~ to|= right|=,|~ and|= for|= a|~ short|= while|+ the|"),
        (10, "= star|= hides|! its|"),
        (10, "~ upper|= edge|=.|= When|~ the|= circle|= has|= gone|=,|! the|"),
        (10, "= star|~ comes|= to|= rest|= at|= the|> lower|= edge|! and|"),
        (10, "= begins|~ to|= shrink|=;|= nothing|~ else|= moves|= until|= the|= end|+.|"),
    ];
    let time = |i: usize| (5.1 + 0.3 * (i % 3) as f64, 31.4 + 2.3 * (i % 4) as f64);
    lines.iter().enumerate().map(|(i, (n, t))| step(*n, t.trim_end_matches('|'), time(i))).collect()
}

/// The steps of the target alone.
pub fn alone() -> Vec<Step> {
    let words = "A small green star falls slowly through the middle of the picture , turning as it moves .";
    let step = |(i, word): (usize, &str)| step(0, &format!(". {word}"), (0.0, 11.2 + 0.3 * (i % 5) as f64));
    words.split(' ').enumerate().map(step).collect()
}

fn text(steps: &[Step]) -> String {
    steps.iter().flat_map(|s| &s.tokens).map(|t| t.text.as_str()).collect()
}

/// The engine's words of a run up to its steps.
pub fn begin(studio: &mut Studio, run: u64, kept: Option<usize>, reused: bool) {
    for (stage, total) in [(Stage::Decode, 12), (Stage::Encode, 6), (Stage::Prefill, 96)] {
        engine(studio, run, EventKind::Stage { stage, done: total, total });
    }
    engine(
        studio,
        run,
        EventKind::Prompt {
            frames: (0..12).map(|i| f64::from(i) / 2.0).collect(),
            grid: [6, 4, 4],
            visual_tokens: 96,
            prompt_ids: vec![],
            kept: kept.map(|n| (0..n as u32).collect()),
            scores: None,
            reused,
        },
    );
    engine(studio, run, EventKind::Stage { stage: Stage::Generate, done: 0, total: 256 });
}

/// The engine's last word of a run.
pub fn done(studio: &mut Studio, run: u64, steps: &[Step], reason: StopReason) -> Vec<Effect> {
    let mut stats = Stats::default();
    for step in steps {
        stats.add(step);
    }
    stats.timings.decode_video_ms = 58.0;
    stats.timings.encode_target_ms = 96.0;
    stats.timings.prefill_target_ms = 81.0;
    engine(studio, run, EventKind::Done { reason, text: text(steps), ids: vec![], stats: Box::new(stats) })
}

/// A whole run of these steps.
pub fn play(studio: &mut Studio, run: u64, steps: &[Step], reused: bool) {
    begin(studio, run, None, reused);
    for step in steps {
        engine(studio, run, EventKind::Step(step.clone()));
    }
    done(studio, run, steps, StopReason::Eos);
}

/// In the middle of a lossy run, after a run of the target alone on the same clip.
pub fn streaming(theme: &str, columns: u16, rows: u16) -> Studio {
    let mut studio = ready(theme, columns, rows);
    press(&mut studio, "m g enter");
    let run = asked(&press(&mut studio, "r")).unwrap();
    play(&mut studio, run, &alone(), false);
    press(&mut studio, "m g down enter");
    let run = asked(&press(&mut studio, "r")).unwrap();
    let drafted: Vec<Step> = lossy().into_iter().map(strict).collect();
    play(&mut studio, run, &drafted, true);
    let at = Method::presets().iter().position(|m| m.name == "lvspec").unwrap();
    press(&mut studio, "m g");
    for _ in 0..at {
        press(&mut studio, "down");
    }
    press(&mut studio, "enter");
    let run = asked(&press(&mut studio, "r")).unwrap();
    begin(&mut studio, run, Some(10), true);
    let steps = lossy();
    for (i, step) in steps[..9].iter().enumerate() {
        engine(&mut studio, run, EventKind::Step(step.clone()));
        let done = 8 * (i as u64 + 1);
        engine(&mut studio, run, EventKind::Stage { stage: Stage::Generate, done, total: 256 });
    }
    for _ in 0..3 {
        studio.handle(Msg::Tick);
    }
    studio
}

/// The step as an exact method would have it: it ends at the first difference.
fn strict(mut step: Step) -> Step {
    if let Some(at) = step.tokens.iter().position(|t| !t.verdict.is_strict()) {
        step.tokens.truncate(at + 1);
        step.tokens[at].verdict = Verdict::Corrected;
        step.accepted = at;
    }
    step.judged = 5.max(step.accepted);
    step.draft_ms = 2.6;
    step.verify_ms = 15.2;
    step
}
