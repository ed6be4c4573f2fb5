//! How many of the true facts captions state: the embedded models on held-out scenes, decoded from mp4 like any video.
//!
//! `cargo bench --bench facts [-- CLIPS]` renders scenes that training never saw, captions each with the target alone, with both
//! drafters alone, and with some methods on both pairs, and scores the words against the truth.

#[path = "support/engine.rs"]
mod engine;

use engine::Loaded;
use specreel_demo as assets;
use specreel_record::Stats;
use specreel_scenes::{self as scenes, Scene, facts};
use specreel_speculate::Method;

/// Held-out seeds begin here; the embedded clips have others.
const FIRST: u64 = 5_000;
/// What runs on a pair: first what the others are compared with.
const METHODS: [&str; 6] = ["autoregressive", "naive", "lvspec", "lenient", "fly", "random-loose"];

fn main() {
    engine::main(bench);
}

fn bench() -> Result<(), String> {
    let clips = engine::number(200);
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let dir = std::env::temp_dir().join(format!("specreel-facts-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    println!("{clips} held-out clips");
    println!("way                   facts right    wrong  missing    tau  loosened  equal to the target");
    let drafters = [("", &demo.drafter), (", weak", &demo.weak_drafter)];
    let mut ways = Vec::new();
    for (which, dir) in drafters {
        ways.push(Way::new(format!("drafter alone{which}"), Loaded::new(dir, None)?, &METHODS[..1]));
    }
    for (which, dir) in drafters {
        ways.push(Way::new(which.into(), Loaded::new(&demo.target, Some(dir))?, &METHODS));
    }
    for seed in FIRST..FIRST + clips as u64 {
        let scene = Scene::from_seed(seed);
        let path = dir.join("clip.mp4");
        scenes::encode::mp4(&scene, &path, 224, 224).map_err(|e| e.to_string())?;
        let truth = facts::of(&scene);
        for way in &mut ways {
            for (method, _, row) in &mut way.rows {
                let (text, stats) =
                    way.models.run(&path, Method::preset(method).map_err(|e| e.to_string())?)?;
                row.add(&facts::score(&truth, &text), &stats);
            }
        }
    }
    for (_, name, row) in ways.iter().flat_map(|way| &way.rows) {
        row.print(name);
    }
    std::fs::remove_dir_all(&dir).map_err(|e| e.to_string())
}

/// Loaded models and what runs on them: a method, the name of its row, the row.
struct Way {
    models: Loaded,
    rows: Vec<(&'static str, String, Row)>,
}

impl Way {
    /// One method is named after the models, several by their own names and which pair it is.
    fn new(models_name: String, models: Loaded, methods: &[&'static str]) -> Self {
        let name = |method: &str| match methods.len() {
            1 => models_name.clone(),
            _ => format!("{method}{models_name}"),
        };
        Self { models, rows: methods.iter().map(|method| (*method, name(method), Row::default())).collect() }
    }
}

#[derive(Default)]
struct Row {
    right: usize,
    wrong: usize,
    missing: usize,
    total: usize,
    accepted: u64,
    steps: u64,
    loosened: u64,
    emitted: u64,
    equal: usize,
    compared: usize,
}

impl Row {
    fn add(&mut self, score: &facts::Score, stats: &Stats) {
        self.right += score.right;
        self.wrong += score.wrong;
        self.missing += score.missing;
        self.total += score.total;
        self.accepted += stats.accepted;
        self.steps += stats.steps;
        self.loosened += stats.verdicts.loosened();
        self.emitted += stats.emitted;
        if let Some(equality) = &stats.equality {
            self.compared += 1;
            self.equal += usize::from(equality.equal);
        }
    }

    fn print(&self, name: &str) {
        let share = |part: usize| 100.0 * part as f64 / self.total.max(1) as f64;
        println!(
            "{name:<20}  {:>10.1}%  {:>6.1}%  {:>6.1}%  {:>5.2}  {:>7.1}%  {} of {}",
            share(self.right),
            share(self.wrong),
            share(self.missing),
            self.accepted as f64 / self.steps.max(1) as f64,
            100.0 * self.loosened as f64 / self.emitted.max(1) as f64,
            self.equal,
            self.compared,
        );
    }
}
