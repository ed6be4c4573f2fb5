//! A studio whose engine is a script: what it shows is the same on every machine.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use specreel::tui::{
    BatchNews, Clip, ClipFacts, ColorDepth, Effect, Key, Msg, SessionEntry, Studio, StudioConfig, VideoFile,
};
use specreel_batch::{Outcome, Progress, rows::Caption};
use specreel_engine::RunRequest;
use specreel_record::{
    Event, EventKind, Failure, FailureClass, Limits, Measured, Pace, PromptSeen, Ready, RunLog, Session,
    Speedup, Stage, Started, Stats, Step, StopReason, Token, Verdict, session::RecordedEvent, testing,
};
use specreel_speculate::Method;
use specreel_video::Frame;

use crate::tui::picture;

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
    let clip = |title: &str, path: &str| Clip { title: title.into(), path: path.into() };
    StudioConfig {
        clips: vec![clip("A green star falls", "/demo/0.mp4"), clip("Two shapes meet", "/demo/1.mp4")],
        methods: Method::presets().to_vec(),
        method: "lvspec".into(),
        request: RunRequest {
            prompt: "Describe the video in detail.".into(),
            ..StudioConfig::default().request
        },
        theme: theme.into(),
        colors: if theme == "mono" { ColorDepth::None } else { ColorDepth::True },
        keymap: None,
        themes: None,
        theme_file: None,
        methods_dir: Some("/config/methods".into()),
        sessions: Some("/data/sessions".into()),
        recent: None,
        log: None,
        ..StudioConfig::default()
    }
}

/// A studio of this size whose library is read and whose models still load.
pub fn loading(theme: &str, columns: u16, rows: u16) -> Studio {
    loading_with(&config(theme), columns, rows)
}

fn loading_with(config: &StudioConfig, columns: u16, rows: u16) -> Studio {
    let (mut studio, _) = Studio::new(config).unwrap();
    studio.handle(Msg::Resize(columns, rows));
    let path = |name: &str| PathBuf::from(format!("/videos/scenes/{name}.mp4"));
    let found = TITLES.iter().map(|(name, _, bytes)| VideoFile {
        path: path(name),
        bytes: Some(*bytes),
        modified: None,
    });
    studio.handle(Msg::Scanned { folder: "/videos/scenes".into(), found: Ok(found.collect()), note: None });
    let mut known = |path: &Path, seconds| {
        let facts = ClipFacts { seconds: Some(seconds), size: Some((128, 128)), ..ClipFacts::default() };
        studio.handle(Msg::Probed { path: path.into(), facts: Ok(facts) });
    };
    for (name, seconds, _) in TITLES {
        known(&path(name), seconds);
    }
    known(Path::new("/demo/0.mp4"), 6.0);
    known(Path::new("/demo/1.mp4"), 6.0);
    studio
}

pub fn loaded(studio: &mut Studio) -> Vec<Effect> {
    let ready = EventKind::Ready(Ready {
        target: "target".into(),
        drafter: Some("drafter".into()),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        ..Ready::default()
    });
    engine(studio, 0, ready)
}

/// Width, height and pixels of frame `n` of a clip: four colors that change with the time.
fn pattern(n: usize) -> (u32, u32, Vec<u8>) {
    let pixel = |i: u32| match (i % 16 < 8, i < 16 * 16) {
        (true, true) => [250, (6 * n) as u8, 0],
        (false, true) => [0, 200, 0],
        (true, false) => [0, 0, 220],
        (false, false) => [255, 255, 255],
    };
    (16, 32, (0..16 * 32).flat_map(pixel).collect())
}

/// A studio with frames whose run is over and looked at from its second loosened token.
pub fn inspected(columns: u16, rows: u16) -> Studio {
    let mut studio = with_pictures("dark", columns, rows);
    loaded(&mut studio);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &lossy(), false);
    let effects = press(&mut studio, "i n");
    read_frames(&mut studio, effects);
    studio
}

/// A studio that still loads, with frames of the first clip.
pub fn with_pictures(theme: &str, columns: u16, rows: u16) -> Studio {
    let config = StudioConfig { frames: Some(Arc::new(|_, _| Ok(()))), ..config(theme) };
    let (mut studio, _) = Studio::new(&config).unwrap();
    let facts = ClipFacts {
        seconds: Some(6.0),
        size: Some((1080, 1920)),
        codec: Some("h264".into()),
        fps: Some(29.97),
        frames: Some(180),
        turned: 90,
    };
    studio.handle(Msg::Probed { path: "/demo/0.mp4".into(), facts: Ok(facts) });
    let asked = studio.handle(Msg::Resize(columns, rows));
    read_frames(&mut studio, asked);
    studio
}

/// Answer the request for frames among these effects.
pub fn read_frames(studio: &mut Studio, effects: Vec<Effect>) {
    for effect in effects {
        let Effect::Frames(Some(request)) = effect else { continue };
        for n in 0..request.count {
            let (width, height, rgb) = pattern(n);
            let timestamp_s = 6.0 * n as f64 / request.count as f64;
            let frame = Frame { index: n, timestamp_s, width, height, rgb };
            studio.handle(Msg::FrameRead(request.clone(), Arc::new(frame)));
        }
        studio.handle(Msg::FramesRead(request, Ok(())));
    }
}

/// The same with its models there.
pub fn ready(theme: &str, columns: u16, rows: u16) -> Studio {
    let mut studio = loading(theme, columns, rows);
    loaded(&mut studio);
    studio
}

pub fn write(studio: &mut Studio, run: u64, steps: &[Step]) {
    for step in steps {
        engine(studio, run, EventKind::Step(step.clone()));
    }
}

pub fn engine(studio: &mut Studio, run: u64, kind: EventKind) -> Vec<Effect> {
    studio.handle(Msg::Engine(Event::new(run, kind)))
}

/// The screen as text, without its styles.
pub fn screen(studio: &Studio, columns: u16, rows: u16) -> String {
    let described = picture::describe(&studio.picture(columns, rows));
    described.split("--- styles ---").next().unwrap().to_owned()
}

/// Fails unless a screen of 120 x 40 shows all of these.
pub fn sees(studio: &Studio, words: &[&str]) {
    let screen = screen(studio, 120, 40);
    words.iter().for_each(|word| assert!(screen.contains(word), "no {word:?} in\n{screen}"));
}

/// Press keys as key maps write them, separated by blanks.
pub fn press(studio: &mut Studio, keys: &str) -> Vec<Effect> {
    keys.split(' ').flat_map(|key| studio.handle(Msg::Key(Key::parse(key).unwrap()))).collect()
}

/// Type a method's name into the picker and run it.
pub fn choose(studio: &mut Studio, name: &str) -> Vec<Effect> {
    press(studio, "m");
    for letter in name.chars() {
        press(studio, &letter.to_string());
    }
    press(studio, "enter")
}

/// The run that the first of these effects asks for.
pub fn requested(effects: Vec<Effect>) -> Box<RunRequest> {
    match effects.into_iter().next() {
        Some(Effect::Run(request)) => request,
        other => panic!("no run: {other:?}"),
    }
}

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
            // The same word is the same token.
            let id = text.trim().bytes().fold(7u32, |id, b| id.wrapping_mul(31).wrapping_add(b.into()))
                % 2000
                + 100;
            Token::new(id, text, verdict)
        })
        .collect();
    let accepted = tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count();
    let drafted = vec![1; judged];
    Step { drafted, judged, accepted, tokens, draft_ms, verify_ms, other_ms: 0.1, ..Step::default() }
}

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
    lines.iter().enumerate().map(|(i, (n, t))| told(i, step(*n, t.trim_end_matches('|'), time(i)))).collect()
}

/// Drafts that the target rejected, step by step.
const LEFTOVERS: [&str; 10] = [
    "drops down to the left side",
    "and then stops",
    "",
    "A small ring is moving from the",
    "rolls to the",
    "",
    "the ring and then all of it",
    "a",
    "then it",
    "",
];

/// The step with what is known of its tokens.
fn told(index: usize, mut step: Step) -> Step {
    let ln = |p: f32| p.ln();
    step.index = index;
    step.drafted_text = step.tokens.iter().map(|t| t.text.clone()).collect();
    // What the drafter wrote instead of the target's own token, and after it.
    if step.accepted < step.judged {
        let drafts = LEFTOVERS[index % LEFTOVERS.len()]
            .split_inclusive(' ')
            .map(|word| format!(" {}", word.trim_end()));
        step.drafted_text.truncate(step.accepted);
        step.drafted_text.extend(drafts.cycle().take(step.judged - step.accepted));
    }
    step.root_nearest_visual = vec![(8 * index as u32 % 96, 0.7), (8 * index as u32 % 96 + 1, 0.6)];
    let n = step.tokens.len();
    for (i, token) in step.tokens.iter_mut().enumerate() {
        let strict = token.verdict.is_strict();
        let other = if strict { " small" } else { " down" }.to_owned();
        let (first, second) = if strict { (token.text.clone(), other) } else { (other, token.text.clone()) };
        let ids = if strict { [token.id, 2, 3] } else { [2, token.id, 3] };
        token.target_text = (!strict).then(|| first.clone());
        token.logprob_texts = vec![first, second, "\n".into()];
        token.logprobs = ids.iter().zip([0.52, 0.31, 0.04]).map(|(id, p)| (*id, ln(p))).collect();
        token.entropy = Some(0.9 + 0.1 * i as f32);
        token.probability = Some(if strict { 0.52 } else { 0.31 });
        if token.verdict.is_accepted_draft() {
            token.drafter_texts = vec![token.text.clone(), " 落ちる".into()];
            token.drafter_logprobs = vec![(token.id, ln(0.61)), (7, ln(0.22))];
            token.drafter_probability = Some(0.61);
            token.relevance = Some(0.2 + 0.05 * i as f32);
            token.relevance_rank = Some(i as u32);
            if i + 1 < n {
                token.nearest_visual =
                    (0..8).map(|k| ((17 * i as u32 + 3 * k) % 96, 0.8 - 0.05 * k as f32)).collect();
            }
        }
    }
    step
}

/// The steps of a run that drafts trees of three leaves.
pub fn branched() -> Vec<Step> {
    let draft = |step: Step, drafts: [&str; 5], path: &[usize]| Step {
        drafted: vec![1; 5],
        drafted_text: drafts.map(Into::into).to_vec(),
        // Two drafts at the root, two below the first and one below the second.
        parents: vec![None, None, Some(0), Some(0), Some(1)],
        path: path.to_vec(),
        ..step
    };
    let time = (4.2, 33.1);
    vec![
        draft(step(5, "=A|= small|! star", time), ["A", "The", " small", " green", " star"], &[0, 2]),
        draft(step(5, "= falls|! slowly", time), [" falls", " moves", " down", " fast", " down"], &[0]),
        draft(step(5, "! and", time), [" through", " to", " the", " a", " the"], &[]),
        draft(step(5, "= turns|= around|+.", time), [" goes", " turns", " on", " away", " around"], &[1, 4]),
    ]
}

pub fn alone() -> Vec<Step> {
    let words = "A small green star falls slowly through the middle of the picture , turning as it moves .";
    let step = |(i, word): (usize, &str)| step(0, &format!(". {word}"), (0.0, 11.2 + 0.3 * (i % 5) as f64));
    words.split(' ').enumerate().map(step).collect()
}

fn text(steps: &[Step]) -> String {
    steps.iter().flat_map(|s| &s.tokens).map(|t| t.text.as_str()).collect()
}

fn about(method: serde_json::Value, lossless: bool, video: &str, prompt: &str) -> Started {
    let (video, prompt) = (video.into(), prompt.into());
    let (target, drafter) = ("target".into(), Some("drafter".into()));
    Started { method, lossless, target, drafter, video, prompt, ..testing::about() }
}

/// The run that these effects request starts.
pub fn start(studio: &mut Studio, effects: &[Effect]) -> u64 {
    let request =
        effects.iter().find_map(|e| if let Effect::Run(request) = e { Some(request) } else { None });
    let request = request.unwrap();
    let method = serde_json::to_value(&request.method).unwrap();
    let video = request.video.to_string_lossy();
    let about = about(method, request.method.lossless(), &video, &request.prompt);
    let (before, span, segment) = (request.before.clone(), request.span, request.segment);
    engine(studio, request.run, EventKind::Started(Started { before, span, segment, ..about }));
    request.run
}

pub fn begin(studio: &mut Studio, run: u64, kept: Option<usize>, reused: bool) {
    for (stage, total) in [(Stage::Decode, 12), (Stage::Encode, 6), (Stage::Prefill, 96)] {
        engine(studio, run, EventKind::Stage { stage, done: total, total, left_ms: None });
    }
    engine(
        studio,
        run,
        EventKind::Prompt(PromptSeen {
            frames: (0..12).map(|i| f64::from(i) / 2.0).collect(),
            grid: [6, 4, 4],
            visual_tokens: 96,
            kept: kept.map(|n| (0..n as u32).collect()),
            reused,
            ..PromptSeen::default()
        }),
    );
    engine(studio, run, EventKind::Stage { stage: Stage::Generate, done: 0, total: 256, left_ms: None });
}

/// The end of a run, and its measured speed if it drafted.
pub fn done(studio: &mut Studio, run: u64, steps: &[Step], reason: StopReason) -> Vec<Effect> {
    let mut stats = Stats::default();
    for step in steps {
        stats.add(step);
    }
    stats.timings.decode_video_ms = 58.0;
    stats.timings.encode_target_ms = 96.0;
    stats.timings.prefill_target_ms = 81.0;
    let (measures, speedup) = (stats.judged > 0 && reason != StopReason::Cancelled, speedup(&stats));
    let kind = EventKind::Done { reason, text: text(steps), ids: vec![], stats: Box::new(stats) };
    let effects = engine(studio, run, kind);
    if measures {
        engine(studio, run, EventKind::Speed { speedup, measuring: false });
    }
    effects
}

/// The speedup of a run over the target alone, by the run's own clock.
fn speedup(stats: &Stats) -> Option<Speedup> {
    let mut plain = Stats::default();
    alone().iter().for_each(|step| plain.add(step));
    let decode = stats.tokens_per_second / plain.tokens_per_second;
    let measured = Measured {
        ratios: &[0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03].map(|noise| noise * decode),
        generate_ms: stats.timings.generate_ms(),
        limits: Limits::NONE,
        contention: None,
        front_ms: 235.0,
        drafter_ms: 60.0,
    };
    Speedup::of("autoregressive", stats.emitted, &measured)
}

pub fn play(studio: &mut Studio, run: u64, steps: &[Step], reused: bool) -> Vec<Effect> {
    begin(studio, run, None, reused);
    write(studio, run, steps);
    done(studio, run, steps, StopReason::Eos)
}

/// A studio of this size whose models are loaded.
pub fn opened(config: &StudioConfig, columns: u16, rows: u16) -> Studio {
    let (mut studio, _) = Studio::new(config).unwrap();
    studio.handle(Msg::Resize(columns, rows));
    loaded(&mut studio);
    studio
}

/// The same, once a lossy run has been decoded.
pub fn played(config: &StudioConfig, columns: u16, rows: u16) -> Studio {
    let mut studio = opened(config, columns, rows);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &lossy(), false);
    studio
}

/// A studio that plays a lossy run, at its beginning: all of it has been decoded.
pub fn watched(theme: &str, columns: u16, rows: u16) -> Studio {
    played(&StudioConfig { pace: Pace::Auto, ..config(theme) }, columns, rows)
}

/// See what is played to its end.
pub fn watch_all(studio: &mut Studio) {
    while studio.is_playing() {
        studio.handle(Msg::Advance(1000.0));
    }
}

/// Start the comparison that is picked (the target alone, naive, lvspec), and play it until the third is in its middle.
pub fn compared(studio: &mut Studio) {
    let run = asked(&press(studio, "enter")).unwrap();
    let run = asked(&play(studio, run, &alone(), false)).unwrap();
    let run = asked(&play(studio, run, &drafted_alone(), true)).unwrap();
    begin(studio, run, Some(10), true);
    write(studio, run, &lossy()[..4]);
}

/// Play the third run of [`compared`] to its end.
pub fn finish_compared(studio: &mut Studio) {
    let steps = lossy();
    write(studio, 3, &steps[4..]);
    done(studio, 3, &steps, StopReason::Eos);
}

/// The text of the target alone, drafted and verified in steps of three.
fn drafted_alone() -> Vec<Step> {
    let tokens: Vec<Token> = alone().into_iter().flat_map(|s| s.tokens).collect();
    let step = |tokens: &[Token]| {
        let mut step = step(5, "=x", (2.6, 15.2));
        step.tokens = tokens.to_vec();
        let last = step.tokens.len() - 1;
        for (i, token) in step.tokens.iter_mut().enumerate() {
            token.verdict = if i == last { Verdict::Corrected } else { Verdict::Exact };
        }
        step.accepted = last;
        step
    };
    tokens.chunks(3).map(step).collect()
}

/// A saved run of these steps, a second of stages before them; without a last word if it is torn.
pub fn session(steps: &[Step], torn: bool) -> Session {
    let mut at = 0.0;
    let mut lines = Vec::new();
    let mut say = |after: f64, kind| {
        at += after;
        lines.push(RecordedEvent { at_ms: Some(at), event: Event::new(1, kind) });
    };
    let method = Method::presets().iter().find(|m| m.name == "lvspec").unwrap();
    let method = serde_json::to_value(method).unwrap();
    say(0.0, EventKind::Started(about(method, false, "/videos/harbour.mp4", "What happens?")));
    say(400.0, EventKind::Stage { stage: Stage::Encode, done: 6, total: 6, left_ms: None });
    say(600.0, EventKind::Stage { stage: Stage::Generate, done: 0, total: 256, left_ms: None });
    for step in steps {
        say(step.draft_ms + step.verify_ms, EventKind::Step(step.clone()));
    }
    if !torn {
        let mut stats = Stats::default();
        steps.iter().for_each(|step| stats.add(step));
        let text = text(steps);
        say(0.1, EventKind::Done { reason: StopReason::Eos, text, ids: vec![], stats: Box::new(stats) });
    }
    Session { lines, torn }
}

pub fn listed() -> Vec<SessionEntry> {
    let entry = |age_s: u64, clip: &str, method: &str, end: Option<EventKind>| {
        let mut log = RunLog::new(1);
        let (lossless, video) = (method == "naive", format!("/videos/{clip}"));
        let method = serde_json::json!({ "name": method, "drafter": { "kind": "model" } });
        let started = about(method, lossless, &video, "Describe the video in detail.");
        std::iter::once(EventKind::Started(started)).chain(end).for_each(|kind| {
            log.apply(&Event::new(1, kind));
        });
        let path = format!("/data/sessions/{age_s}.jsonl");
        SessionEntry::new(Path::new(&path), age_s, 41_000 + 7 * age_s, vec![log]).unwrap()
    };
    let ended = |steps: &[Step], reason| {
        let mut stats = Stats::default();
        steps.iter().for_each(|step| stats.add(step));
        EventKind::Done { reason, text: text(steps), ids: vec![], stats: Box::new(stats) }
    };
    let done = || Some(ended(&lossy(), StopReason::Eos));
    let error = "notes.mp4: not a video".to_owned();
    let failed = EventKind::Failed(Failure { class: FailureClass::Input, error, hint: None });
    let long = "a-very-long-name-of-a-clip-that-does-not-fit.mp4";
    vec![
        entry(20, "harbour.mp4", "lvspec", done()),
        entry(200, "日本の港.mp4", "naive", done()),
        entry(9_000, "harbour.mp4", "specvlm-self", None),
        entry(90_000, long, "naive", Some(ended(&[], StopReason::Cancelled))),
        entry(900_000, "notes.mp4", "naive", Some(failed)),
    ]
}

/// After a run of the target alone and one of an exact method on the same clip, with `lvspec` selected. Runs are played at this
/// pace.
pub fn baselines(theme: &str, pace: Pace, columns: u16, rows: u16) -> Studio {
    let mut studio = loading_with(&StudioConfig { pace, ..config(theme) }, columns, rows);
    loaded(&mut studio);
    let run = asked(&choose(&mut studio, "autoregressive")).unwrap();
    play(&mut studio, run, &alone(), false);
    let run = asked(&choose(&mut studio, "naive")).unwrap();
    let drafted: Vec<Step> = lossy().into_iter().map(strict).collect();
    play(&mut studio, run, &drafted, true);
    watch_all(&mut studio);
    studio
}

/// In the middle of a lossy run, after a run of the target alone on the same clip.
pub fn streaming(theme: &str, columns: u16, rows: u16) -> Studio {
    let mut studio = baselines(theme, Pace::Off, columns, rows);
    let run = asked(&choose(&mut studio, "lvspec")).unwrap();
    begin(&mut studio, run, Some(10), true);
    let steps = lossy();
    for (i, step) in steps[..9].iter().enumerate() {
        engine(&mut studio, run, EventKind::Step(step.clone()));
        let done = 8 * (i as u64 + 1);
        engine(
            &mut studio,
            run,
            EventKind::Stage { stage: Stage::Generate, done, total: 256, left_ms: None },
        );
    }
    for _ in 0..3 {
        studio.handle(Msg::Tick);
    }
    studio
}

/// The step as an exact method would have it: it ends at the first difference.
pub fn strict(mut step: Step) -> Step {
    if let Some(at) = step.tokens.iter().position(|t| !t.verdict.is_strict()) {
        step.tokens.truncate(at + 1);
        step.tokens[at].verdict = Verdict::Corrected;
        step.drafted_text[at] = " down".into();
        step.accepted = at;
    }
    step.judged = 5.max(step.accepted);
    step.drafted.truncate(step.judged);
    step.drafted_text.truncate(step.judged);
    step.draft_ms = 2.6;
    step.verify_ms = 15.2;
    step
}

/// Start the batch of all clips that is open, and play it until its fourth clip is being captioned.
pub fn batched(studio: &mut Studio) {
    press(studio, "enter");
    let mut over = |video: &str, run, outcome, failed| {
        let stats = Stats { tau: 3.25, tokens_per_second: 81.4, ..Stats::default() };
        let elapsed = Duration::from_secs(4);
        let progress = Progress { total: 11, captioned: 1, failed, stats, elapsed, ..Progress::default() };
        let (video, progress) = (video.into(), Box::new(progress));
        let news = BatchNews::Clip { video, run, outcome, existing: None, progress };
        studio.handle(Msg::Batch(news));
    };
    let text = "A green star falls through the picture.\nIt turns as it moves.".to_owned();
    let caption = Caption { text, ..Caption::default() };
    over("/demo/0.mp4", 1, Outcome::Captioned(vec![caption]), 0);
    over("/demo/1.mp4", 0, Outcome::Skipped, 0);
    let error = "video /videos/scenes/red-circle-rolls.mp4: the file is damaged or no video".into();
    let failure = Failure { class: FailureClass::Input, error, hint: None };
    over("/videos/scenes/red-circle-rolls.mp4", 2, Outcome::Failed(failure), 1);
    let method = serde_json::to_value(Method::preset("lvspec").unwrap()).unwrap();
    let about = about(method, false, "/videos/scenes/two-squares.mp4", "What happens?");
    engine(studio, 3, EventKind::Started(about));
    write(studio, 3, &lossy()[..4]);
    press(studio, "down down down");
}
