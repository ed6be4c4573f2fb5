//! T(rows) of the embedded pair in q8_0 and f32: `cargo bench --bench rows [-- DIR]`. The same as `specreel bench --suite step`,
//! where contexts, rows and weights can be chosen.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "no engine runs here")]
mod engine;

use std::ops::ControlFlow;

use specreel_bench::rows::{self, Effort, Work};
use specreel_demo as assets;
use specreel_model::family::VideoLlm;
use specreel_tensor::WeightType;

const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 11, 16, 26, 32];

fn main() {
    engine::main(|| bench().map_err(|e| e.to_string()));
}

fn bench() -> Result<(), Box<dyn std::error::Error>> {
    let named = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(std::path::PathBuf::from);
    let demo = assets::demo(None)?;
    let models = named.map_or_else(|| vec![demo.target, demo.drafter], |dir| vec![dir]);
    for dir in models {
        for dtype in [WeightType::Q8_0, WeightType::F32] {
            let model = VideoLlm::load(&dir, dtype, &mut |_, _| {})?;
            let weights = Work::of(model.decoder(), 0, 1).weight_bytes as f64 / 1e6;
            println!("{} {dtype:?}: {weights:.1} MB of matrices", model.name());
            for slots in [100, 300, 1000] {
                let go = &mut |_, _| ControlFlow::Continue(());
                let times = rows::time(model.decoder(), None, slots, &ROWS, Effort::default(), go)?
                    .unwrap_or_default();
                print!("  {slots:>4} slots:");
                for time in &times.passes {
                    print!("  T({}) {:.3} ({:.2}x)", time.rows, time.ms, time.ms / times.passes[0].ms);
                }
                println!();
            }
        }
    }
    Ok(())
}
