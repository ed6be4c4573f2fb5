//! What logits processors, cuts and the loop guard cost.
//!
//! `cargo bench -p specreel-lab --bench sampling [-- ROUNDS]` captions one clip with the embedded pair, in turn with plain greedy decoding,
//! with the loop guard, with all processors at values too small to change a text, and with those and the guard. Each method writes the
//! same text in all of them, so a run is compared with plain decoding in its round: median, and the range of the middle half.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "its requests say more than a method")]
mod engine;

use specreel_demo as assets;
use specreel_engine::RunRequest;
use specreel_record::{EventKind, OnLoop};
use specreel_speculate::{Method, SamplingControls};

/// A value that moves a logit by less than its distance to the next one.
const TINY: f32 = 1e-6;

fn main() {
    engine::main(bench);
}

fn processors() -> SamplingControls {
    SamplingControls {
        repetition_penalty: Some(1.0 + TINY),
        presence_penalty: Some(TINY),
        frequency_penalty: Some(TINY),
        no_repeat_ngram: Some(64),
        dry_multiplier: Some(TINY),
        logit_bias: vec![(7, TINY)],
        ..SamplingControls::greedy()
    }
}

fn bench() -> Result<(), String> {
    let rounds = engine::number(40);
    let demo = assets::demo(None).map_err(|e| e.to_string())?;
    let mut models = engine::Loaded::new(&demo.target, Some(&demo.drafter))?;
    let clip = &demo.clips[0].path;
    let settings = [
        ("plain", SamplingControls::greedy(), OnLoop::Keep),
        ("loop guard", SamplingControls::greedy(), OnLoop::Stop),
        ("processors", processors(), OnLoop::Keep),
        ("both", processors(), OnLoop::Stop),
    ];
    println!("{:<16} {:<12} {:>8}   {:>6}  (middle half)", "method", "", "ms/step", "ratio");
    for name in ["autoregressive", "naive", "lookup"] {
        let method = Method::preset(name).map_err(|e| e.to_string())?;
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); settings.len()];
        let mut first = None;
        // The first round decodes, encodes and reads the prompt.
        for round in 0..=rounds {
            for (times, (what, text, on_loop)) in times.iter_mut().zip(&settings) {
                let request = RunRequest {
                    video: clip.clone(),
                    method: method.clone(),
                    text: text.clone(),
                    on_loop: *on_loop,
                    ..RunRequest::default()
                };
                let mut done = None;
                models.play(request, &mut |event| {
                    let EventKind::Done { text, stats, .. } = event else { return false };
                    done = Some((text, stats));
                    true
                })?;
                let (written, stats) = done.ok_or("a run without an end")?;
                if *first.get_or_insert_with(|| written.clone()) != written {
                    return Err(format!("{name}: another text with {what}"));
                }
                if round > 0 {
                    times.push(stats.timings.generate_ms() / stats.steps.max(1) as f64);
                }
            }
        }
        for (times_of, (what, ..)) in times.iter().zip(&settings) {
            let mut ratios: Vec<f64> =
                times_of.iter().zip(&times[0]).map(|(own, plain)| own / plain).collect();
            let [low, middle, high] = quartiles(&mut ratios);
            let [_, ms, _] = quartiles(&mut times_of.clone());
            println!("{name:<16} {what:<12} {ms:>8.3}   {middle:>6.4}  ({low:.4} to {high:.4})");
        }
    }
    Ok(())
}

fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}
