//! T(rows): what a target pass costs by the number of its rows, the number on which all speculation rests.
//!
//! `cargo bench --bench rows [-- DIR]` times passes of 1 to 32 rows over contexts of 100, 300 and 1000 slots, on the embedded
//! target (or a checkpoint directory), in q8_0 and f32. Printed are medians in milliseconds and ratios to one row.

use std::time::Instant;

use specreel::{
    assets,
    model::{
        WeightType,
        decoder::{Sequence, Taps},
        family::QwenVl,
    },
};

const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 11, 16, 26, 32];

fn main() {
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    if let Err(problem) = bench() {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let named = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(std::path::PathBuf::from);
    let demo = assets::demo(None)?;
    let models = match named {
        Some(dir) => vec![dir],
        None => vec![demo.target, demo.drafter],
    };
    for dir in models {
        for dtype in [WeightType::Q8_0, WeightType::F32] {
            let model = QwenVl::load(&dir, dtype, &mut |_, _| {})?;
            println!("{} {dtype:?}: {:.1} MB of weights", model.name(), model.decoder().bytes() as f64 / 1e6);
            for slots in [100, 300, 1000] {
                let mut sequence = Sequence::new(model.decoder().clone(), slots + 64);
                let ids: Vec<u32> = (0..slots as u32).map(|i| 10 + i % 200).collect();
                sequence.feed(&ids, &Taps::default())?;
                let mut one = 0.0;
                print!("  {slots:>4} slots:");
                for rows in ROWS {
                    let mut times = Vec::new();
                    for _ in 0..60 {
                        let started = Instant::now();
                        let pass = sequence.feed(&ids[..rows], &Taps::default())?;
                        sequence.logits(&pass.states)?;
                        times.push(started.elapsed().as_secs_f64() * 1e3);
                        sequence.truncate(slots);
                    }
                    times.sort_by(f64::total_cmp);
                    let median = times[times.len() / 2];
                    if rows == 1 {
                        one = median;
                    }
                    print!("  T({rows}) {median:.3} ({:.2}x)", median / one);
                }
                println!();
            }
        }
    }
    Ok(())
}
