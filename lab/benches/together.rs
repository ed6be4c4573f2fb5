//! What texts gain that are written together.
//!
//! `cargo bench -p specreel-lab --bench together [-- SHAPE [TYPE [SLOTS [ROUNDS [ROWS]]]]]` writes texts after SLOTS tokens (512) with
//! random weights in a shape (`qwen2-vl-2b`, in q8_0), ROWS rows per step (1, as without drafts), alternately one after another and
//! together. A step is a pass and its logits. It prints the time of a step of all texts both ways, and their ratio: the median of the
//! rounds, and their range.

use std::{error::Error, sync::Arc, sync::Barrier, thread, time::Instant};

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Decoder, LogitNeeds, LogitRow, Sequence, Taps, together::Together},
    shapes,
};
use specreel_record::median;
use specreel_tensor::{ComputeDevice, WeightType};

/// Texts at once.
const TEXTS: [usize; 5] = [1, 2, 4, 8, 16];
/// Steps of a round.
const STEPS: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let text = |at: usize, default: &str| given.get(at).map_or(default, String::as_str).to_owned();
    let (shape, dtype) = (text(0, "qwen2-vl-2b"), text(1, "q8_0"));
    let (slots, rounds): (usize, usize) = (text(2, "512").parse()?, text(3, "5").parse()?);
    let rows: usize = text(4, "1").parse()?;
    let config = shapes::find(&shape).ok_or_else(|| format!("shapes: {}", shapes::names().join(", ")))?;
    let dtype: WeightType = dtype.parse().map_err(|_| format!("no weight type {dtype}"))?;
    let device = ComputeDevice::cpu(dtype);
    let decoder = Arc::new(Decoder::load(&Checkpoint::random(), &config, &device, &mut |_, _| {})?);
    let most = TEXTS.iter().copied().max().unwrap_or(1);
    let prompt: Vec<u32> = (0..slots as u32).map(|at| at * 7 % config.vocab as u32).collect();
    let mut first = Sequence::new(decoder.clone(), slots + STEPS * rows);
    for part in prompt.chunks(128) {
        first.feed(part, &Taps::default())?;
    }
    let mut texts = vec![first];
    while texts.len() < most {
        let fork = texts[0].fork(slots, slots + STEPS * rows)?;
        texts.push(fork);
    }
    println!("{shape}, {}, {slots} slots, {rows} rows a step", dtype.name());
    println!("{:>6} {:>14} {:>14} {:>8}   (range)", "texts", "in turn, ms", "together, ms", "faster");
    for count in TEXTS {
        let texts = &mut texts[..count];
        let (mut turns, mut joined, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let started = Instant::now();
            for text in &mut *texts {
                write(text, slots, rows);
            }
            let in_turn = started.elapsed().as_secs_f64() * 1e3 / STEPS as f64;
            let together = at_once(texts, slots, rows) / STEPS as f64;
            // The first round warms up.
            if round > 0 {
                turns.push(in_turn);
                joined.push(together);
                ratios.push(in_turn / together);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let [low, high] = [ratios.first(), ratios.last()].map(|ratio| ratio.copied().unwrap_or(f64::NAN));
        let [turns, joined, faster] = [turns, joined, ratios].map(|all| median(all).unwrap_or(f64::NAN));
        println!("{count:>6} {turns:>14.2} {joined:>14.2} {faster:>7.2}x   ({low:.2} to {high:.2})");
    }
    Ok(())
}

/// Milliseconds in which each text is written by a thread of its own.
fn at_once(texts: &mut [Sequence], slots: usize, rows: usize) -> f64 {
    let (group, barrier) = (Together::default(), Barrier::new(texts.len() + 1));
    thread::scope(|scope| {
        let threads: Vec<_> = texts
            .iter_mut()
            .map(|text| {
                let (group, barrier) = (&group, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let _turn = group.enter();
                    write(text, slots, rows);
                })
            })
            .collect();
        barrier.wait();
        let started = Instant::now();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        started.elapsed().as_secs_f64() * 1e3
    })
}

/// Steps of a text, which is left as it was.
#[expect(clippy::expect_used, reason = "a bench that fails ends")]
fn write(text: &mut Sequence, slots: usize, rows: usize) {
    let mut ids: Vec<u32> = (1..=rows as u32).collect();
    for _ in 0..STEPS {
        let pass = text.feed(&ids, &Taps::default()).expect("a pass");
        let logits = text.logits(&pass.states).expect("logits");
        let needs = LogitNeeds { vocab: logits.shape().1, ..LogitNeeds::default() };
        let best = |rows: Vec<LogitRow<'_>>| rows.iter().map(LogitRow::argmax).collect::<Vec<u32>>();
        ids = logits.read(&needs, best).expect("logits in memory");
    }
    text.truncate(slots);
}
