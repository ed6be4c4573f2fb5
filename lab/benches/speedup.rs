//! Whether the speedups that users see are true, on a quiet machine and on a busy one.
//!
//! `cargo bench -p specreel-lab --bench speedup [-- FIGURES METHOD TARGET DRAFTER]` captions one clip again and again: each time a figure is
//! measured as for a user, and around it alternating pairs of whole runs are timed, three for each figure. The median of all
//! those pairs is taken as the truth. Then the same again while two other processes keep processors busy. Wanted in both: at
//! least 90 of 100 intervals contain the truth of their state, and no figure is impossible: above the tokens emitted per target
//! pass. `--quiet` and `--busy` run one of the two.
//!
//! With the method `naive-auto`, it also says how many drafts were accepted per step in either state.

#[path = "support/engine.rs"]
mod engine;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
};

use specreel_demo as assets;
use specreel_record::{EventKind, Interval, Limits, PairedRatio, Speedup, Stats, StopReason};
use specreel_speculate::Method;

/// Pairs of whole runs around each figure.
const PAIRS: usize = 3;
/// Figures before and after one, whose pairs are near it.
const NEARBY: usize = 8;
/// Figures may be this far from the truth.
const FAR: f64 = 0.1;
/// Other processes of the busy state.
const OTHERS: usize = 2;
/// Makes this program one of them.
const SPIN: &str = "--spin";

fn main() {
    if std::env::args().any(|word| word == SPIN) {
        spin();
    }
    engine::main(bench);
}

/// Keep a processor busy, for an hour at most should nobody end it.
fn spin() {
    let started = std::time::Instant::now();
    while started.elapsed().as_secs() < 3600 {
        std::hint::black_box((0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
    }
    std::process::exit(0);
}

/// Processes that end with this value.
struct Others(Vec<Child>);

impl Others {
    fn start() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let start = |_| Command::new(&program).arg(SPIN).spawn().map_err(|e| e.to_string());
        (0..OTHERS).map(start).collect::<Result<_, _>>().map(Self)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bench() -> Result<(), String> {
    let figures = engine::number(100);
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word.parse::<usize>().is_err() && !word.starts_with("--"))
        .collect();
    let asked = |mode: &str| std::env::args().any(|word| word == mode);
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
    for is_busy in [false, true] {
        if asked(if is_busy { "--quiet" } else { "--busy" }) {
            continue;
        }
        let _others = if is_busy { Some(Others::start()?) } else { None };
        println!("{}", if is_busy { "next to two busy processes" } else { "as the machine is" });
        let mut state = State::default();
        for _ in 0..figures {
            let mut run = None;
            models.request(clip, method.clone(), true, &mut |kind| match kind {
                EventKind::Done { stats, reason, .. } => {
                    run = Some((*stats, reason));
                    false
                }
                EventKind::Speed { speedup, measuring: false } => {
                    if let Some((stats, reason)) = run.take() {
                        state.told.push(Told { stats, reason, speedup, at: state.pairs.len() });
                    }
                    true
                }
                _ => false,
            })?;
            for _ in 0..PAIRS {
                let plain = models.run(clip, plain.clone())?.1.tokens_per_second;
                state.pairs.push(models.run(clip, method.clone())?.1.tokens_per_second / plain);
            }
        }
        state.report(&method)?;
    }
    Ok(())
}

/// The reported results of one run; `at` pairs had been timed before.
struct Told {
    stats: Stats,
    reason: StopReason,
    speedup: Option<Speedup>,
    at: usize,
}

#[derive(Default)]
struct State {
    told: Vec<Told>,
    pairs: Vec<f64>,
}

impl State {
    fn report(&self, method: &Method) -> Result<(), String> {
        let truth = PairedRatio::of(&self.pairs).ok_or("too few pairs")?;
        let tau = self.told.iter().map(|told| told.stats.tau).sum::<f64>() / self.told.len() as f64;
        println!(
            "  {}: truth {:.3} ({:.3} to {:.3}), {} pairs of whole runs, single pairs {:.2} to {:.2}; tau {tau:.2}",
            method.name,
            truth.middle,
            truth.low,
            truth.high,
            truth.pairs,
            self.pairs.iter().copied().fold(f64::INFINITY, f64::min),
            self.pairs.iter().copied().fold(0.0, f64::max),
        );
        let known: Vec<(&Told, &Speedup)> =
            self.told.iter().filter_map(|told| Some((told, told.speedup.as_ref()?))).collect();
        let count = |is: &dyn Fn(&Told, &Speedup) -> bool| {
            known.iter().filter(|(told, speedup)| is(told, speedup)).count()
        };
        let contains = |interval: &Interval, ratio: f64| interval.low <= ratio && ratio <= interval.high;
        // A machine that is shared or gets hot has another truth a minute later: the truth of the pairs around the figure.
        let nearby = |at: usize| {
            let (from, to) =
                (at.saturating_sub(NEARBY * PAIRS), (at + (NEARBY + 1) * PAIRS).min(self.pairs.len()));
            middle(&self.pairs[from..to])
        };
        let impossible = |told: &Told, speedup: &Speedup| {
            let limits = Limits::of(&told.stats, told.reason);
            speedup.decode > limits.high || speedup.interval.high > limits.high
        };
        println!(
            "  {} of {} figures told, {} of them impossible; median {:.3}, from {:.3} to {:.3}; {} within {:.0} % of the truth\n  \
             {} intervals contain the truth, {} reach its own interval, {} contain the pairs nearby\n  \
             {} shown with their interval, median width {:.1} %, median number of pairs {:.0}; waited {:.0} % of the time",
            known.len(),
            self.told.len(),
            count(&|told, speedup| impossible(told, speedup)),
            middle(&decodes(&known)),
            decodes(&known).into_iter().fold(f64::INFINITY, f64::min),
            decodes(&known).into_iter().fold(0.0, f64::max),
            count(&|_, speedup| (speedup.decode / truth.middle - 1.0).abs() <= FAR),
            FAR * 100.0,
            count(&|_, speedup| contains(&speedup.interval, truth.middle)),
            // The truth is also measured: an interval that reaches the interval of the truth does not contradict it.
            count(&|_, speedup| speedup.interval.low <= truth.high && truth.low <= speedup.interval.high),
            count(&|told, speedup| contains(&speedup.interval, nearby(told.at))),
            count(&|_, speedup| !speedup.is_rough()),
            100.0 * middle(&each(&known, |s| (s.interval.high - s.interval.low) / s.decode)),
            middle(&each(&known, |s| s.interval.pairs as f64)),
            100.0 * middle(&each(&known, |s| s.contention.unwrap_or_default())),
        );
        Ok(())
    }
}

fn decodes(known: &[(&Told, &Speedup)]) -> Vec<f64> {
    each(known, |speedup| speedup.decode)
}

fn each(known: &[(&Told, &Speedup)], figure: fn(&Speedup) -> f64) -> Vec<f64> {
    known.iter().map(|(_, speedup)| figure(speedup)).collect()
}

/// The median; 0 of nothing.
fn middle(values: &[f64]) -> f64 {
    specreel_record::median(values.iter().copied()).unwrap_or_default()
}
