//! How long a search in a large library takes.
//!
//! `cargo bench -p specreel-lab --bench find [-- SEGMENTS]` fills an index with 100,000 captions of 24 words
//! each, drawn from 5,000 words with the frequencies of a natural language, and searches for one to three of
//! them: frequent ones, rare ones, and both. It prints the median and the longest time of each kind of
//! search; as in the program, each search opens the file again.

use std::path::Path;
use std::time::Instant;

use specreel_batch::Clip;
use specreel_client::moments::{Filter, Kind, Meaning, MomentFinder, Search};
use specreel_library::{Import, Index, IndexFile};
use specreel_record::Span;

const WORDS: usize = 5000;
const LENGTH: usize = 24;
/// Captions of a video.
const OF_A_VIDEO: usize = 100;
const SEARCHES: usize = 30;
/// Values of a vector.
const WIDTH: usize = 1536;

fn main() {
    // `cargo test --benches` starts benches with --test: nothing to test here.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    if let Err(problem) = bench() {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The rank of a word: each rank is as frequent as its inverse says.
    fn rank(&mut self) -> usize {
        ((WORDS as f64).powf(self.next()) as usize).min(WORDS - 1)
    }
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let segments = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(100_000);
    let dir = std::env::temp_dir().join(format!("specreel-find-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let outcome = measure(&dir, segments);
    std::fs::remove_dir_all(&dir)?;
    outcome
}

fn measure(dir: &Path, segments: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = Numbers(1);
    let file = dir.join("library.db");
    let mut index = Index::open(&file).map_err(|failure| failure.error)?;
    let begun = Instant::now();
    for video in 0..segments.div_ceil(OF_A_VIDEO) {
        let path = dir.join(format!("{video}.mp4"));
        std::fs::write(&path, video.to_le_bytes())?;
        let line = |at: usize| {
            let words: Vec<String> = (0..LENGTH).map(|_| format!("w{:04}", numbers.rank())).collect();
            let start = at as f64 * 10.0;
            (Some(Span { start, end: start + 10.0 }), words.join(" "))
        };
        let lines = (0..OF_A_VIDEO).map(line).collect();
        let import = Import { kind: Kind::Seen, from: "bench".into(), lines };
        index.import(&Clip::of_file(&path), &import).map_err(|failure| failure.error)?;
    }
    drop(index);
    let bytes = std::fs::metadata(&file)?.len();
    println!("{segments} captions, {} MiB, written in {:.1} s", bytes >> 20, begun.elapsed().as_secs_f64());
    for (what, ranks) in [
        ("the most frequent word", &[(1, 2)][..]),
        ("a frequent word", &[(20, 100)]),
        ("a rare word", &[(2000, 5000)]),
        ("two frequent words", &[(20, 100), (20, 100)]),
        ("three words, one rare", &[(20, 100), (100, 500), (1000, 3000)]),
    ] {
        let (mut times, mut found) = (Vec::new(), 0);
        for _ in 0..SEARCHES {
            let word = |(least, end): &(usize, usize)| {
                format!("w{:04}", least + (numbers.next() * (end - least) as f64) as usize)
            };
            let words = ranks.iter().map(word).collect::<Vec<_>>().join(" ");
            let begun = Instant::now();
            let hits = IndexFile(file.clone())
                .find(&words, Search { filter: &Filter::default(), most: 20, read: None });
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            found += hits.map_err(|failure| failure.error)?.len();
        }
        times.sort_by(f64::total_cmp);
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{what:<24} {median:>7.2} ms, at most {most:>7.2} ms; {:.1} found",
            found as f64 / SEARCHES as f64
        );
    }
    near(&file, &mut numbers)
}

/// The time of a search by what captions are about, with vectors of a target of 2 billion parameters.
fn near(file: &Path, numbers: &mut Numbers) -> Result<(), Box<dyn std::error::Error>> {
    let mut index = Index::open(file).map_err(|failure| failure.error)?;
    let mut vector = || (0..WIDTH).map(|_| numbers.next() as f32 - 0.5).collect::<Vec<f32>>();
    let lacking = index.without_meaning("m").map_err(|failure| failure.error)?;
    for captions in lacking.chunks(1000) {
        let known: Vec<(i64, Vec<f32>)> = captions.iter().map(|(id, _)| (*id, vector())).collect();
        index.put_meanings("m", &known).map_err(|failure| failure.error)?;
    }
    drop(index);
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..SEARCHES {
        let vector = vector();
        let read = |_: &str| Ok(Some(Meaning { model: "m".into(), vector: vector.clone() }));
        let begun = Instant::now();
        // A word that no caption has.
        let search = Search { filter: &Filter::default(), most: 20, read: Some(&read) };
        IndexFile(file.to_owned()).find("none", search).map_err(|failure| failure.error)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let bytes = std::fs::metadata(file)?.len();
    println!(
        "what captions are about  {:>7.2} ms, at most {:>7.2} ms; {WIDTH} values each, {} MiB with the captions",
        times[times.len() / 2],
        times[times.len() - 1],
        bytes >> 20
    );
    Ok(())
}
