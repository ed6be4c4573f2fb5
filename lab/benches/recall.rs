//! What a search finds: by words, by what captions are about, by what frames are about, and by both.
//!
//! `cargo bench -p specreel-lab --bench recall [-- CLIPS]` has the embedded target caption 150 clips whose facts are known, and looks for each
//! clip by a short text of its facts: in the words of the captions, and in other words. It prints how often the clip is among the first
//! one, five and ten that are found.

#[path = "support/clip.rs"]
#[expect(dead_code, reason = "its facts are not counted here")]
mod clip;
#[path = "support/engine.rs"]
mod engine;
mod kept {
    pub type Problem = Box<dyn std::error::Error>;
}

use std::ops::ControlFlow::Continue;
use std::path::Path;

use clip::Clip;
use kept::Problem;
use specreel_batch::Clip as Found;
use specreel_client::moments::{Filter, Kind, Meaning, Moment, MomentFinder, Search};
use specreel_library::{Import, Index, IndexFile};
use specreel_model::{decoder::Sequence, family::VideoLlm};
use specreel_scenes::{Scene, author::Author, caption, encode};
use specreel_speculate::Method;
use specreel_tensor::WeightType;

/// Scenes that the embedded models were not trained on begin here.
const FIRST: u64 = 9_000_000;
const SIZE: u32 = 224;
const RANKS: [usize; 3] = [1, 5, 10];

fn main() {
    engine::main(|| bench().map_err(|problem| problem.to_string()));
}

fn bench() -> Result<(), Problem> {
    let clips = engine::number(150);
    let dir = tempfile::tempdir()?;
    let demo = specreel_demo::demo(None)?;
    let model = VideoLlm::load(&demo.target, WeightType::Q8_0, &mut |_, _| {})?;
    let mut captioning = engine::Loaded::new(&demo.target, None)?;
    let file = |name: &str| dir.path().join(name);
    let index = |name: &str| Index::open(&file(name)).map_err(|failure| failure.error);
    let names = ["captions.db", "last.db", "pooled.db"];
    let mut indexes = [index(names[0])?, index(names[1])?, index(names[2])?];
    for number in 0..clips {
        let path = file(&format!("{number}.mp4"));
        encode::mp4(&Scene::from_seed(FIRST + number as u64), &path, SIZE, SIZE)?;
        let (text, _) = captioning.run(&path, Method::preset("autoregressive")?)?;
        let clip = Clip::render(FIRST + number as u64, dir.path(), model.processor())?;
        let [last, pooled] = of_frames(&model, &clip)?;
        let vectors = [model.meaning(&text)?, last, pooled];
        for (index, vector) in indexes.iter_mut().zip(vectors) {
            put(index, &path, &text, vector)?;
        }
    }
    drop(indexes);
    let finders = names.map(|name| IndexFile(file(name)));
    println!("{clips} clips; the clip is among the first 1, 5, 10");
    for (what, query) in [
        (
            "in the words of the captions",
            &(|scene: &Scene| caption::short(scene, 1)) as &dyn Fn(&Scene) -> String,
        ),
        ("in other words", &|scene: &Scene| Author(1).short(scene).text),
    ] {
        println!("{what}");
        let mut ranks: Vec<(&str, Vec<Option<usize>>)> = Vec::new();
        for number in 0..clips {
            let text = query(&Scene::from_seed(FIRST + number as u64));
            let path = file(&format!("{number}.mp4"));
            let near = Meaning { model: "m".into(), vector: model.meaning(&text)? };
            for (at, (name, found)) in searches(&finders, &text, &near)?.into_iter().enumerate() {
                if ranks.len() <= at {
                    ranks.push((name, Vec::new()));
                }
                ranks[at].1.push(found.iter().position(|moment| moment.path == path));
            }
        }
        for (name, ranks) in ranks {
            let share = |most: usize| {
                ranks.iter().filter(|rank| rank.is_some_and(|rank| rank < most)).count() as f64 / clips as f64
            };
            let [one, five, ten] = RANKS.map(share);
            println!("  {name:<36} {one:.2}  {five:.2}  {ten:.2}");
        }
    }
    Ok(())
}

/// What each kind of search finds.
fn searches(
    [captions, last, pooled]: &[IndexFile; 3],
    text: &str,
    near: &Meaning,
) -> Result<Vec<(&'static str, Vec<Moment>)>, Problem> {
    let all = Filter::default();
    let read = |_: &str| Ok(Some(near.clone()));
    let words = Search { filter: &all, most: 100, read: None };
    let both = Search { read: Some(&read), ..words };
    // No clip has this word: what is near counts alone.
    let alone = "nothing";
    let of = |found: Result<Vec<Moment>, specreel_record::Failure>| found.map_err(|failure| failure.error);
    let plain = text.replace(['-', '"', '*'], " ");
    Ok(vec![
        ("all words", of(captions.find(&plain, words))?),
        ("any words (BM25)", of(captions.about(text, words))?),
        ("meaning of captions", of(captions.find(alone, both))?),
        ("meaning of frames, last state", of(last.find(alone, both))?),
        ("meaning of frames, pooled tokens", of(pooled.find(alone, both))?),
        ("any words, and captions", of(captions.about(text, both))?),
        ("any words, and frames", of(last.about(text, both))?),
    ])
}

fn put(index: &mut Index, path: &Path, text: &str, vector: Vec<f32>) -> Result<(), Problem> {
    let import = Import { kind: Kind::Seen, from: "bench".into(), lines: vec![(None, text.to_owned())] };
    index.import(&Found::of_file(path), &import).map_err(|failure| failure.error)?;
    let lacking = index.without_meaning("m").map_err(|failure| failure.error)?;
    let known: Vec<(i64, Vec<f32>)> = lacking.iter().map(|(id, _)| (*id, vector.clone())).collect();
    Ok(index.put_meanings("m", &known).map_err(|failure| failure.error)?)
}

/// What the frames of a clip are about: the state from which the model would answer in one word, and the mean of the states of the visual
/// tokens.
fn of_frames(model: &VideoLlm, clip: &Clip) -> Result<[Vec<f32>; 2], Problem> {
    let prompt = model.prompt("In one word, what is the video about?", &clip.facts)?;
    let visual = model.encode(&clip.patches, &mut |_, _| Continue(()))?;
    let rows: Vec<usize> = (0..prompt.ids.len()).collect();
    let embeddings = model.embed(&prompt, Some(&visual), &rows)?;
    let width = model.decoder().config().hidden;
    let mut sequence = Sequence::new(model.decoder().clone(), rows.len());
    let (mut last, mut pooled) = (Vec::new(), vec![0f32; width]);
    let mut read = |first: usize, states: &[f32]| {
        for (row, state) in (first..).zip(states.chunks_exact(width)) {
            last = state.to_vec();
            if prompt.visual.contains(row) {
                pooled.iter_mut().zip(state).for_each(|(sum, value)| *sum += value);
            }
        }
    };
    sequence.prefill(&embeddings, &prompt.positions, prompt.next, &mut read, &mut |_, _| Continue(()))?;
    Ok([last, pooled].map(|vector| {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.into_iter().map(|value| value / length).collect()
    }))
}
