//! Whether the speedups that users see are true.
//!
//! `cargo bench --bench speedup [-- FIGURES METHOD TARGET DRAFTER]` captions one clip again and again: each time a figure is
//! measured as for a user, and around it alternating pairs of whole runs are timed, three for each figure. The median of all
//! those pairs is taken as the truth. Wanted: at least 90 of 100 intervals contain it, and the figures themselves are within
//! a tenth of it.

#[path = "support/engine.rs"]
mod engine;

use std::path::{Path, PathBuf};

use specreel::{
    assets,
    record::{EventKind, Interval, PairedRatio, Speedup, paired},
    speculate::Method,
};

/// Pairs of whole runs around each figure.
const PAIRS: usize = 3;
/// Figures before and after one, whose pairs are near it.
const NEARBY: usize = 8;
/// Figures may be this far from the truth.
const FAR: f64 = 0.1;

fn main() {
    engine::main(bench);
}

fn bench() -> Result<(), String> {
    let figures = engine::number(100);
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word.parse::<usize>().is_err() && !word.starts_with("--"))
        .collect();
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let path = |at: usize, own: &Path| words.get(at).map_or_else(|| own.to_owned(), PathBuf::from);
    let method = Method::preset(words.first().map_or("lvspec", String::as_str)).map_err(|e| e.to_string())?;
    let plain = Method::preset("autoregressive").map_err(|e| e.to_string())?;
    let mut models = engine::Loaded::new(&path(1, &demo.target), Some(&path(2, &demo.drafter)))?;
    let clip = &demo.clips[0].path;
    // Decode, encode and prefill once, so that all runs start from the kept context.
    for method in [&plain, &method] {
        models.run(clip, method.clone())?;
    }
    let (mut told, mut pairs) = (Vec::new(), Vec::new());
    for _ in 0..figures {
        models.request(clip, method.clone(), true, &mut |kind| {
            let EventKind::Speed { speedup, measuring: false } = kind else { return false };
            told.extend(speedup);
            true
        })?;
        for _ in 0..PAIRS {
            let plain = models.run(clip, plain.clone())?.1.tokens_per_second;
            pairs.push(models.run(clip, method.clone())?.1.tokens_per_second / plain);
        }
    }
    report(&method, &told, &pairs)
}

fn report(method: &Method, told: &[Speedup], pairs: &[f64]) -> Result<(), String> {
    let truth = PairedRatio::of(pairs).ok_or("too few pairs")?;
    println!(
        "{}: truth {:.3} ({:.3} to {:.3}), {} pairs of whole runs, single pairs {:.2} to {:.2}",
        method.name,
        truth.middle,
        truth.low,
        truth.high,
        truth.pairs,
        pairs.iter().copied().fold(f64::INFINITY, f64::min),
        pairs.iter().copied().fold(0.0, f64::max),
    );
    let with: Vec<_> = told.iter().filter_map(|s| Some((s.decode, s.interval?))).collect();
    let shown = told.iter().filter(|speedup| !speedup.is_rough()).count();
    // A machine that is shared or gets hot has another truth a minute later: that of the pairs around the figure.
    let nearby = |at: usize| {
        let (from, to) = (at.saturating_sub(NEARBY) * PAIRS, ((at + NEARBY + 1) * PAIRS).min(pairs.len()));
        paired::middle(&pairs[from..to]).unwrap_or_default()
    };
    let of_now = |(at, told): (usize, &Speedup)| {
        told.interval.is_some_and(|i| i.low <= nearby(at) && nearby(at) <= i.high)
    };
    let now = told.iter().enumerate().filter(|one| of_now(*one)).count();
    // The truth is measured, too: an interval that reaches the interval of the truth does not contradict it.
    let contain = with.iter().filter(|(_, i)| i.low <= truth.middle && truth.middle <= i.high).count();
    let reach = with.iter().filter(|(_, i)| i.low <= truth.high && truth.low <= i.high).count();
    let near = told.iter().filter(|s| (s.decode / truth.middle - 1.0).abs() <= FAR).count();
    let width = |(decode, i): &(f64, Interval)| (i.high - i.low) / decode;
    let middle = |values: Vec<f64>| paired::middle(&values).unwrap_or_default();
    println!(
        "{} figures, median {:.3}, {} with an interval, {shown} shown with it (the others as rough)\n\
         {contain} intervals contain the truth, {reach} reach its own interval; {now} contain that of the pairs nearby\n\
         {near} figures are within {:.0} % of the truth; they range from {:.3} to {:.3}\n\
         median width of an interval {:.1} %, median number of pairs {:.0}",
        told.len(),
        middle(told.iter().map(|speedup| speedup.decode).collect()),
        with.len(),
        FAR * 100.0,
        told.iter().map(|s| s.decode).fold(f64::INFINITY, f64::min),
        told.iter().map(|s| s.decode).fold(0.0, f64::max),
        100.0 * middle(with.iter().map(width).collect()),
        middle(with.iter().map(|(_, i)| i.pairs as f64).collect()),
    );
    Ok(())
}
