//! Decode speed of every preset against autoregressive decoding, on the embedded pair and clips.
//!
//! `cargo bench --bench methods [-- RUNS]`: each run decodes a clip autoregressively and then with each method, over one kept
//! context, so that every ratio is of two neighbours in time. Printed are medians over all clips and runs.

use specreel::{
    assets,
    engine::{Command, Engine, EngineHandle, RunRequest, TextSampling},
    model::{DeviceChoice, ModelSpec, WeightType},
    record::{Event, EventKind, Stats},
    speculate::Method,
    video::Sampling,
};
use tokio::sync::mpsc::Receiver;

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

fn bench() -> Result<(), String> {
    let runs = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok()).unwrap_or(3);
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let (handle, mut events) = Engine::start().map_err(|f| f.error)?;
    let spec = ModelSpec {
        target: demo.target,
        drafter: Some(demo.drafter),
        device: DeviceChoice::Cpu,
        dtype: WeightType::Auto,
    };
    handle.send(Command::Load(spec)).map_err(|f| f.error)?;
    let mut rows: Vec<Row> = Method::presets().iter().map(|m| Row::new(m.clone())).collect();
    let mut number = 0;
    for clip in &demo.clips {
        for _ in 0..runs {
            let mut plain = 0.0;
            for row in &mut rows {
                number += 1;
                let request = RunRequest {
                    run: number,
                    video: clip.path.clone(),
                    prompt: "Describe the video in detail.".into(),
                    method: row.method.clone(),
                    sampling: Sampling::Auto,
                    max_pixels: None,
                    max_new_tokens: 200,
                    text: TextSampling::default(),
                    logprobs: 0,
                };
                let stats = run(&handle, &mut events, request)?;
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

fn run(handle: &EngineHandle, events: &mut Receiver<Event>, request: RunRequest) -> Result<Stats, String> {
    let name = request.method.name.clone();
    handle.send(Command::Run(Box::new(request))).map_err(|f| f.error)?;
    while let Some(event) = events.blocking_recv() {
        match event.kind {
            EventKind::Done { stats, .. } => return Ok(*stats),
            EventKind::Failed(failure) => return Err(format!("{name}: {}", failure.error)),
            _ => {}
        }
    }
    Err("the engine stopped".into())
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
        let m: Vec<f64> = self.columns.iter().map(|c| median(c.clone())).collect();
        let mark = if self.method.lossless() { " " } else { "~" };
        println!(
            "{:<16}{mark} {:>8.0}  {:>7.2}x  {:>5.2}  {:>12.2}  {:>7.1}%  {:>7.3}  {:>9.3}  {:>5.3}  {:>4.1}%  {:>7.2}%",
            self.method.name, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9]
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
