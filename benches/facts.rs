//! How many of the true facts captions state: the embedded pair on held-out scenes, decoded from mp4 like any video.
//!
//! `cargo bench --bench facts [-- CLIPS]` renders scenes that training never saw, captions each with the target alone, the
//! drafter alone, and some methods, and scores the words against the truth.

#[path = "support/engine.rs"]
mod engine;

use specreel::{
    assets,
    record::Stats,
    scenes::{self, Scene, facts},
    speculate::Method,
};

/// Held-out seeds begin here; the embedded clips have others.
const FIRST: u64 = 5_000;
/// Ways to caption: a name, the target to load (drafter in its place where false), a method.
const WAYS: [(&str, bool, &str); 7] = [
    ("target alone", true, "autoregressive"),
    ("drafter alone", false, "autoregressive"),
    ("naive", true, "naive"),
    ("lvspec", true, "lvspec"),
    ("lenient", true, "lenient"),
    ("fly", true, "fly"),
    ("random-loose", true, "random-loose"),
];

fn main() {
    engine::main(bench);
}

fn bench() -> Result<(), String> {
    let clips = engine::number(200);
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let dir = std::env::temp_dir().join(format!("specreel-facts-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    println!("{clips} held-out clips");
    println!("way               facts right    wrong  missing    tau  loosened  equal to the target");
    let mut pair = engine::Loaded::new(&demo.target, Some(&demo.drafter))?;
    let mut alone = engine::Loaded::new(&demo.drafter, None)?;
    let mut rows: Vec<Row> = WAYS.iter().map(|_| Row::default()).collect();
    for seed in FIRST..FIRST + clips as u64 {
        let scene = Scene::from_seed(seed);
        let path = dir.join("clip.mp4");
        scenes::encode::mp4(&scene, &path, 224, 224).map_err(|e| e.to_string())?;
        let truth = facts::of(&scene);
        for (row, (_, target, method)) in rows.iter_mut().zip(WAYS) {
            let models = if target { &mut pair } else { &mut alone };
            let method = Method::preset(method).map_err(|e| e.to_string())?;
            let (text, stats) = models.run(&path, method)?;
            row.add(&facts::score(&truth, &text), &stats);
        }
    }
    for (row, (name, ..)) in rows.iter().zip(WAYS) {
        row.print(name);
    }
    std::fs::remove_dir_all(&dir).map_err(|e| e.to_string())
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
            "{name:<16}  {:>10.1}%  {:>6.1}%  {:>6.1}%  {:>5.2}  {:>7.1}%  {} of {}",
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
