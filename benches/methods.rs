//! Decode speed of every preset against autoregressive decoding, on the embedded pair and clips.
//!
//! `cargo bench --bench methods [-- RUNS]`: each run decodes a clip autoregressively and then with each method, over one kept
//! context, so that every ratio is of two neighbours in time. Printed are medians over all clips and runs.

#[path = "support/engine.rs"]
mod engine;

use specreel_demo as assets;
use specreel_record::{Stats, median};
use specreel_speculate::Method;

fn main() {
    engine::main(bench);
}

fn bench() -> Result<(), String> {
    let runs = engine::number(3);
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let mut models = engine::Loaded::new(&demo.target, Some(&demo.drafter))?;
    let mut rows: Vec<Row> = Method::presets().iter().map(|m| Row::new(m.clone())).collect();
    for clip in &demo.clips {
        for _ in 0..runs {
            let mut plain = 0.0;
            for row in &mut rows {
                let (_, stats) = models.run(&clip.path, row.method.clone())?;
                if row.method.name == "autoregressive" {
                    plain = stats.tokens_per_second;
                }
                row.add(&stats, plain);
            }
        }
    }
    println!(
        "{} clips x {runs} runs, medians; speed-up of decoding against autoregressive in the same run",
        demo.clips.len()
    );
    println!(
        "method            tokens/s  speed-up    tau  emitted/step  loosened  T(1) ms  T(K+1) ms  Td ms  rest   relevance"
    );
    rows.iter().for_each(Row::print);
    Ok(())
}

struct Row {
    method: Method,
    columns: [Vec<f64>; 10],
}

impl Row {
    fn new(method: Method) -> Self {
        Self { method, columns: Default::default() }
    }

    fn add(&mut self, stats: &Stats, plain: f64) {
        let t = &stats.timings;
        let all = t.generate_ms().max(f64::MIN_POSITIVE);
        let values = [
            stats.tokens_per_second,
            stats.tokens_per_second / plain,
            stats.tau,
            stats.emitted_per_step,
            100.0 * stats.loosened_share(),
            t.t1_ms,
            t.tk1_ms,
            t.td_ms,
            100.0 * t.other_ms / all,
            100.0 * t.relevance_ms / all,
        ];
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
    }

    fn print(&self) {
        let m: Vec<f64> =
            self.columns.iter().map(|c| median(c.iter().copied()).unwrap_or_default()).collect();
        let mark = if self.method.lossless() { " " } else { "~" };
        println!(
            "{:<16}{mark} {:>8.0}  {:>7.2}x  {:>5.2}  {:>12.2}  {:>7.1}%  {:>7.3}  {:>9.3}  {:>5.3}  {:>4.1}%  {:>7.2}%",
            self.method.name, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9]
        );
    }
}
