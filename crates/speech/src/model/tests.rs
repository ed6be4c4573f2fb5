//! Against candle's Whisper, whose decoder computes all tokens again for each.

use std::path::Path;

use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::whisper as candle;

use super::*;
use crate::mel::FRAMES;

fn dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/whisper"))
}

fn model() -> Whisper {
    let config = Config::read(&std::fs::read(dir().join("config.json")).unwrap()).unwrap();
    Whisper::load(&config, &Checkpoint::open(dir()).unwrap()).unwrap()
}

/// Some spectrogram: `FRAMES × 80`.
fn spectrogram(phase: f32) -> Vec<f32> {
    (0..FRAMES * 80).map(|i| (i as f32 * 0.37 + phase).sin() * (i as f32 * 0.0011).cos()).collect()
}

fn reference(spectrogram: &[f32], ids: &[u32]) -> Vec<Vec<f32>> {
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir().join("config.json")).unwrap()).unwrap();
    config["suppress_tokens"] = serde_json::json!([]);
    let config: candle::Config = serde_json::from_value(config).unwrap();
    let tensors = candle_core::safetensors::load(dir().join("model.safetensors"), &Device::Cpu).unwrap();
    let tensors = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let mut model = candle::model::Whisper::load(&tensors, config).unwrap();
    let mel = Tensor::from_slice(spectrogram, (FRAMES, 80), &Device::Cpu).unwrap();
    let mel = mel.t().unwrap().contiguous().unwrap().unsqueeze(0).unwrap();
    let heard = model.encoder.forward(&mel, true).unwrap();
    let ids = Tensor::new(ids, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
    let states = model.decoder.forward(&ids, &heard, true).unwrap();
    model.decoder.final_linear(&states).unwrap().i(0).unwrap().to_vec2().unwrap()
}

#[test]
fn every_token_has_the_logits_of_the_reference() {
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 1600).collect();
    let spectrogram = spectrogram(0.0);
    let expected = reference(&spectrogram, &ids).concat();
    let mut model = model();
    model.hear(&spectrogram).unwrap();
    let mut ours = model.next(&ids[..3]).unwrap();
    for id in &ids[3..] {
        ours.extend(model.next(&[*id]).unwrap());
    }
    assert_eq!(ours.len(), expected.len());
    for (at, (ours, theirs)) in ours.iter().zip(&expected).enumerate() {
        // The reference's GELU is an approximation.
        assert!((ours - theirs).abs() < 2e-2, "{at}: {ours} {theirs}");
    }
}

#[test]
fn logits_have_the_same_bits_in_any_pass_and_window() {
    let bits = |logits: &[f32]| logits.iter().map(|logit| logit.to_bits()).collect::<Vec<u32>>();
    let mut model = model();
    model.hear(&spectrogram(1.0)).unwrap();
    let other = model.next(&[7, 9]).unwrap();
    model.hear(&spectrogram(0.0)).unwrap();
    let together = model.next(&[3, 1, 4, 1, 5]).unwrap();
    model.restart();
    let apart: Vec<f32> = [3, 1, 4, 1, 5].iter().flat_map(|id| model.next(&[*id]).unwrap()).collect();
    assert_eq!(bits(&together), bits(&apart));
    model.hear(&spectrogram(1.0)).unwrap();
    assert_eq!(bits(&model.next(&[7, 9]).unwrap()), bits(&other), "nothing is left of another window");
}

#[test]
fn a_text_that_is_too_long_is_an_error() {
    let mut model = model();
    model.hear(&spectrogram(0.0)).unwrap();
    model.next(&[1; 64]).unwrap();
    assert!(model.next(&[1]).unwrap_err().to_string().contains("65 tokens"));
    model.restart();
    assert!(model.next(&[5000]).unwrap_err().to_string().contains("5000"));
}
