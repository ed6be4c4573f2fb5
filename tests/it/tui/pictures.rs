//! The pictures of the documentation: what the studio draws of recorded runs, kept as files. `SPECREEL_UPDATE_SCREEN=1 cargo test
//! --test it pictures` writes them afresh; look at them before they are kept.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ratatui::buffer::Buffer;
use regex::Regex;
use specreel::tui::{BatchNews, Msg, Studio, StudioConfig};
use specreel_batch::{Outcome, Progress, rows::Caption};
use specreel_client::moments::{Kind, Moment, MomentFinder, Part, Search};
use specreel_record::{EventKind, Failure, Pace, Pieces, RunLog};
use specreel_scenes::{facts, render};

use crate::tui::{
    picture,
    recorded::{CLIPS, Recording, clip, compared_before, feed, opened, press, scene, steps, studio},
    script::{self, asked, choose},
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Fails where the file of this name is not what the studio draws.
fn kept(name: &str, studio: &Studio, (columns, rows): (u16, u16)) {
    kept_as(name, &picture::svg(&studio.picture(columns, rows)));
}

fn kept_as(name: &str, drawn: &str) {
    assert!(!drawn.contains(env!("CARGO_MANIFEST_DIR")), "docs/{name} shows a path of this machine");
    let file = docs().join(name);
    if std::env::var_os("SPECREEL_UPDATE_SCREEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/{name} is not what the studio draws: look at it with SPECREEL_UPDATE_SCREEN=1 cargo test --test it pictures"
    );
}

/// In the middle of the lenient run, or at its end.
fn lenient(until: Option<usize>, size: (u16, u16)) -> Studio {
    let mut studio = compared_before("lenient", Pace::Off, size.0, size.1);
    let run = asked(&choose(&mut studio, "lenient")).unwrap();
    let events = Recording::of("lenient");
    feed(&mut studio, run, until.map_or(events.clone(), |count| steps(events, count)));
    studio
}

#[test]
fn a_batch_in_the_middle() {
    let mut studio = studio("naive", Pace::Auto, 112, 33);
    press(&mut studio, "X enter enter");
    feed(&mut studio, 1, Recording::Batch.run(1));
    let done = &Recording::Batch.logs()[..1];
    let (text, stats) = (done[0].text().to_owned(), Pieces::of(done).stats());
    let progress = Progress {
        total: CLIPS.len(),
        captioned: 1,
        elapsed: Duration::from_secs_f64(stats.timings.total_ms() / 1e3),
        stats,
        ..Progress::default()
    };
    studio.handle(Msg::Batch(BatchNews::Clip {
        video: clip(CLIPS[0]),
        run: 1,
        outcome: Outcome::Captioned(vec![Caption { text, ..Caption::default() }]),
        existing: None,
        progress: Box::new(progress),
    }));
    feed(&mut studio, 2, steps(Recording::Batch.run(2), 9));
    press(&mut studio, "down");
    kept("screens/batch.svg", &studio, (112, 33));
}

#[test]
fn a_caption_as_it_is_written() {
    let mut studio = lenient(Some(7), (112, 33));
    for _ in 0..3 {
        studio.handle(Msg::Tick);
    }
    kept("screen.svg", &studio, (112, 33));
}

/// Largest size of a moving picture in bytes: a page should not wait for it.
const MAX_BYTES: usize = 600_000;
/// Longest moving picture.
const MAX_FRAMES: usize = 400;

/// The pictures of a studio at some times, each with how long it is shown, in milliseconds.
#[derive(Default)]
struct Film(Vec<(Buffer, u32)>);

impl Film {
    fn take(&mut self, studio: &Studio, (columns, rows): (u16, u16), ms: u32) {
        self.0.push((studio.picture(columns, rows), ms));
    }

    fn keep(self, name: &str) {
        let drawn = picture::animated(&self.0);
        assert!(drawn.len() < MAX_BYTES, "docs/{name}: {} bytes", drawn.len());
        kept_as(name, &drawn);
    }
}

#[test]
fn the_first_run_as_it_is_watched() {
    let size = (104, 38);
    let config =
        StudioConfig { is_first: true, method: "auto".into(), pace: Pace::Auto, ..script::config("dark") };
    let mut studio = opened(config, size.0, size.1);
    let mut film = Film::default();
    film.take(&studio, size, 4000);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    film.take(&studio, size, 300);
    feed(&mut studio, run, Recording::of("auto"));
    // A little slower than in the studio: whoever reads a page does not wait for it.
    while studio.is_playing() {
        studio.handle(Msg::Advance(100.0));
        film.take(&studio, size, 150);
    }
    film.take(&studio, size, 6000);
    // Then step by step.
    for (key, ms) in [("d", 900), ("n", 1500), ("n", 3000)] {
        press(&mut studio, key);
        film.take(&studio, size, ms);
    }
    film.keep("watch.svg");
}

#[test]
fn the_steps_of_a_run() {
    let mut studio = lenient(None, (104, 38));
    press(&mut studio, "d n n n");
    kept("screens/steps.svg", &studio, (104, 38));
}

#[test]
fn a_step_that_is_watched() {
    let mut studio = studio("lenient", Pace::Auto, 112, 33);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    feed(&mut studio, run, Recording::of("lenient"));
    press(&mut studio, ". . . .");
    kept("screens/watch.svg", &studio, (112, 33));
}

#[test]
fn a_token_under_the_inspector() {
    let mut studio = lenient(None, (112, 33));
    press(&mut studio, "i n");
    kept("screens/inspector.svg", &studio, (112, 33));
}

#[test]
fn a_clip_before_it_is_captioned() {
    let mut studio = studio("naive", Pace::Auto, 100, 28);
    press(&mut studio, "v space");
    studio.handle(Msg::Advance(2400.0));
    press(&mut studio, "space");
    kept("screens/preview.svg", &studio, (100, 28));
}

#[test]
fn methods_side_by_side() {
    let mut studio = studio("lenient", Pace::Auto, 100, 28);
    // In the order of the list: autoregressive, naive, naive-auto, auto.
    let mut run = asked(&press(&mut studio, "c home down space down down space enter"));
    for name in ["autoregressive", "naive", "auto", "lenient"] {
        run = asked(&feed(&mut studio, run.unwrap(), Recording::of(name)));
    }
    press(&mut studio, "down down down");
    kept("screens/comparison.svg", &studio, (100, 28));
    press(&mut studio, "tab");
    let mut film = Film::default();
    let mut left = MAX_FRAMES;
    while studio.is_playing() && left > 0 {
        film.take(&studio, (100, 28), 100);
        studio.handle(Msg::Advance(100.0));
        left -= 1;
    }
    assert!(left > 0, "the race does not end");
    film.take(&studio, (100, 28), 5000);
    film.keep("race.svg");
}

/// What the batch's recording wrote, searched.
#[test]
fn moments_that_are_found() {
    let config = StudioConfig { finder: Some(Arc::new(NoIndex)), ..script::config("dark") };
    let mut studio = opened(config, 100, 28);
    let keys: Vec<String> = WANTED.chars().map(String::from).collect();
    press(&mut studio, &format!("F {}", keys.join(" ")));
    let found = CLIPS.iter().zip(Recording::Batch.logs()).filter_map(|(name, run)| {
        let text = run.text().to_owned();
        let at = text.find(WANTED)?;
        let part = |text: &str, is_match| Part { text: text.into(), is_match };
        // Some words before it, as the index cuts them.
        let from = text[..at].rmatch_indices(' ').nth(4).map_or(0, |(from, _)| from + 1);
        Some(Moment {
            path: format!("/videos/{name}.mp4").into(),
            start: 0.0,
            end: Some(6.0),
            kind: Kind::Seen,
            parts: vec![
                part(&format!("…{}", &text[from..at]), false),
                part(WANTED, true),
                part(&text[at + WANTED.len()..], false),
            ],
            model: Some("demo-target".into()),
            score: 1.0,
            text,
        })
    });
    studio.handle(Msg::Moments(WANTED.into(), Ok(found.collect())));
    kept("screens/find.svg", &studio, (100, 28));
}

const WANTED: &str = "large";

struct NoIndex;

impl MomentFinder for NoIndex {
    fn find(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
        Ok(Vec::new())
    }

    fn about(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
        Ok(Vec::new())
    }

    fn meaning_models(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

#[test]
fn a_method_taken_apart() {
    let mut studio = lenient(None, (100, 28));
    press(&mut studio, "m tab down down down down down down");
    kept("screens/method.svg", &studio, (100, 28));
}

/// What a picture shows of a recorded run.
enum Shown {
    /// A caption pane with what was written so far, and perhaps the drafts of the next step.
    Pane,
    /// Some words of a caption in a row.
    Words,
    /// A clip, or a method.
    Nothing,
    /// Results of a benchmark or a training, which draws it.
    Chart,
}

const PICTURES: [(&str, Shown); 13] = [
    ("lab/loosening.svg", Shown::Chart),
    ("race.svg", Shown::Words),
    ("screen.svg", Shown::Pane),
    ("screens/batch.svg", Shown::Words),
    ("screens/comparison.svg", Shown::Words),
    ("screens/find.svg", Shown::Words),
    ("screens/inspector.svg", Shown::Pane),
    ("screens/method.svg", Shown::Nothing),
    ("screens/preview.svg", Shown::Nothing),
    ("screens/steps.svg", Shown::Pane),
    ("screens/watch.svg", Shown::Pane),
    ("sparrow.svg", Shown::Chart),
    ("watch.svg", Shown::Words),
];

/// The characters of a picture by rows; of an animation, those of its last screen. Vertical lines are `│`.
fn characters(picture: &str) -> Vec<Vec<char>> {
    let hidden = Regex::new("(?s)<g [^>]*visibility=\"hidden\">.*?</g>").unwrap();
    let text = r#"<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>"#;
    let line = r#"<path d="M([\d.]+) ([\d.]+)v[\d.]+"()"#;
    let element = Regex::new(&format!("{text}|{line}")).unwrap();
    let mut rows: Vec<Vec<char>> = Vec::new();
    for found in element.captures_iter(&hidden.replace_all(picture, "")) {
        let (_, [x, y, text]) = found.extract();
        let at = |position: &str, cell: f64| ((position.parse::<f64>().unwrap() - 14.0) / cell) as usize;
        let (column, row) = (at(x, 8.0), at(y, 17.0));
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let text: Vec<char> = if text.is_empty() { vec!['│'] } else { text.chars().collect() };
        rows.resize(rows.len().max(row + 1), Vec::new());
        let cells = &mut rows[row];
        cells.resize(cells.len().max(column + text.len()), ' ');
        cells[column..column + text.len()].copy_from_slice(&text);
    }
    rows
}

fn pane(rows: &[Vec<char>], title: &str) -> String {
    let title: Vec<char> = title.chars().collect();
    let (top, left) = (0..rows.len())
        .find_map(|row| Some((row, rows[row].windows(title.len()).position(|at| *at == title)?)))
        .unwrap();
    let edge = |row: &&Vec<char>| row.get(left - 2) == Some(&'│');
    let inside = |row: &Vec<char>| row[left - 1..].iter().take_while(|c| **c != '│').collect::<String>();
    rows[top + 1..].iter().take_while(edge).map(inside).collect::<Vec<_>>().join("\n")
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// True if these words are of this run: first those that it wrote, then perhaps drafts of its next step.
fn is_of(words: &str, run: &RunLog) -> bool {
    let written = squeezed(run.text());
    let seen = squeezed(words);
    let same = seen.chars().zip(written.chars()).take_while(|(seen, written)| seen == written).count();
    let drafts = run.steps().iter().map(|step| step.drafted_text.concat()).collect::<Vec<_>>().join(" ");
    let known: HashSet<&str> = run.text().split_whitespace().chain(drafts.split_whitespace()).collect();
    same > 40 && words.split_whitespace().all(|word| known.contains(word))
}

#[test]
fn the_captions_in_pictures_are_those_of_the_recordings() {
    let logs: Vec<RunLog> = Recording::ALL.into_iter().flat_map(Recording::logs).collect();
    for (name, shown) in PICTURES {
        let picture = std::fs::read_to_string(docs().join(name)).unwrap();
        let rows = characters(&picture);
        match shown {
            Shown::Pane => {
                let words = pane(&rows, "Caption");
                assert!(
                    logs.iter().any(|run| is_of(&words, run)),
                    "docs/{name} says what no run wrote:\n{words}"
                );
            }
            Shown::Words => {
                let rows = rows.iter().map(|row| squeezed(&row.iter().collect::<String>()));
                let said = rows.collect::<Vec<_>>().join("\n");
                let some = |run: &RunLog| {
                    let written: Vec<char> = squeezed(run.text()).chars().collect();
                    written.windows(30).any(|words| said.contains(&words.iter().collect::<String>()))
                };
                assert!(logs.iter().any(some), "docs/{name} shows no caption of a run:\n{said}");
            }
            Shown::Nothing | Shown::Chart => {}
        }
    }
    let mut files = Vec::new();
    for folder in [docs(), docs().join("results"), docs().join("screens")] {
        files.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|e| e == "svg"));
    files.retain(|file| PICTURES.iter().all(|(name, _)| docs().join(name) != *file));
    assert_eq!(files, Vec::<PathBuf>::new(), "pictures that are not checked");
}

#[test]
fn the_moving_picture_shows_a_reject_its_correction_and_the_tour() {
    let picture = std::fs::read_to_string(docs().join("watch.svg")).unwrap();
    let said = |attribute: &str, word: &str| Regex::new(&format!("{attribute}[^>]*>{word}<")).unwrap();
    let logs = Recording::Comparison.logs();
    let step = logs[1].steps().iter().find(|step| step.accepted < step.judged).unwrap();
    let [rejected, correction] = [&step.drafted_text[step.accepted], &step.tokens[step.accepted].text];
    assert!(said("line-through", rejected.trim()).is_match(&picture), "{rejected}");
    assert!(said("bold", correction.trim()).is_match(&picture), "{correction}");
    // As the tour says.
    for step in ["1", "2", "3"] {
        let said = Regex::new(&format!(r"(?s)>tour</text>\s*<text [^>]*>{step}</text>")).unwrap();
        assert!(said.is_match(&picture), "{step}");
    }
}

#[test]
fn recordings_are_of_the_embedded_models_and_what_they_say_of_the_first_clip_is_true() {
    for recording in Recording::ALL {
        let session = recording.session();
        let EventKind::Ready(ready) = &session.lines[0].event.kind else { panic!("{recording:?}") };
        let models = (ready.target.as_str(), ready.drafter.as_deref());
        assert_eq!(models, ("demo-target", Some("demo-drafter")), "{recording:?}");
        let clips = session.lines.iter().filter_map(|line| match &line.event.kind {
            EventKind::Started(started) => Some(started.video.trim_end_matches(".mp4").to_owned()),
            _ => None,
        });
        let clips: Vec<String> = clips.collect();
        assert!(clips.iter().all(|clip| CLIPS.contains(&clip.as_str())), "{recording:?}: {clips:?}");
        for (run, name) in recording.logs().iter().zip(&clips) {
            assert!(run.is_finished(), "{recording:?}");
            // The embedded target errs about others.
            if name == CLIPS[0] {
                let score = facts::score(&facts::of(&scene(&clip(name))), run.text());
                assert_eq!((score.right, score.extra), (score.total, 0), "{:?}", score.details);
            }
        }
    }
    let logs = Recording::Comparison.logs();
    assert_eq!([1, 2].map(|at| logs[at].text()), [logs[0].text(); 2], "auto and naive are lossless");
    assert!(logs[3].stats().speedup.is_some() && !logs[3].is_lossless());
}

#[test]
fn the_frames_of_pictures_are_those_of_the_clips() {
    for path in CLIPS.map(clip) {
        let scene = scene(&path);
        for frame in specreel_video::stills(&path, 5, (1000, 1000)).unwrap().map(Result::unwrap) {
            let drawn = render::frame(&scene, frame.timestamp_s, frame.width, frame.height);
            let far: u64 = drawn.iter().zip(&frame.rgb).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            // Compression changes edges a little.
            let mean = far as f64 / drawn.len() as f64;
            assert!(mean < 4.0, "{}: {frame:?} differs by {mean}", path.display());
        }
    }
}
