//! The draft head's forward pass, loss and gradients against PyTorch.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::Tensor;
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Positions, Sequence, States, rope::Rope},
    draft_head::{DraftHead, DraftHeadConfig, TextStates},
    family::{VideoLlm, VlConfig},
};
use specreel_tensor::{VisualSpans, WeightType};
use specreel_train::{Batch, Break, Sample, TrainedLayer};

use super::{devices, difference, fixture, load_on, numbers, states, tensors, values};

struct Reference(HashMap<String, Tensor>);

impl Reference {
    fn positions(&self, name: &str) -> Positions {
        let all = numbers(&self.0[name]);
        let axis =
            |a: usize| all[a * all.len() / 3..(a + 1) * all.len() / 3].iter().map(|n| *n as u32).collect();
        Positions { axes: [axis(0), axis(1), axis(2)] }
    }

    fn sample(&self, i: usize) -> Sample {
        let of = |name: &str| &self.0[&format!("{i}.{name}")];
        let shape: Vec<usize> = numbers(of("shape")).into_iter().map(|n| n as usize).collect();
        Sample {
            ids: numbers(of("ids")).into_iter().map(|n| n as u32).collect(),
            positions: self.positions(&format!("{i}.positions")),
            states: values(of("states")),
            before_breaks: values(of("last_visual")),
            breaks: vec![Break {
                text: shape[0],
                visual: self.positions(&format!("{i}.visual_positions")).len(),
            }],
            answer: shape[1]..shape[2],
            visual: values(of("visual")),
            visual_positions: self.positions(&format!("{i}.visual_positions")),
            ..Sample::default()
        }
    }

    /// How far the head's outputs for the text of a sample are from the reference; so many of the visual tokens are in the input.
    fn off(&self, i: usize, head: &DraftHead, input: &States, visual: usize) -> f32 {
        let (width, sample) = (head.decoder().config().hidden, self.sample(i));
        let front = sample.breaks[0].text;
        let axis = |a: usize| {
            let (text, video) = (&sample.positions.axes[a], &sample.visual_positions.axes[a]);
            [&text[..front], &video[video.len() - visual..], &text[front..]].concat()
        };
        let positions = Positions { axes: [axis(0), axis(1), axis(2)] };
        let mut sequence = Sequence::new(head.decoder().clone(), 4);
        let mut out = Vec::new();
        let mut keep = |_: usize, states: &[f32]| out.extend_from_slice(states);
        let going = &mut |_, _| ControlFlow::Continue(());
        assert!(sequence.prefill(input, &positions, 0, &mut keep, going).unwrap());
        out.drain(front * width..(front + visual) * width);
        let want = values(&self.0[&format!("{i}.out")]);
        out.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

/// The same samples through the adaptor of a ViSpec head.
#[test]
fn the_adaptor_computes_what_torch_computes() {
    let reference = Reference(tensors("vispec/reference.safetensors"));
    for (target, (i, shown)) in devices(WeightType::F32)
        .iter()
        .flat_map(|device| [(0, true), (1, false)].map(|case| (load_on("gqa_tied", device), case)))
    {
        let head = DraftHead::load(&fixture("vispec"), target.decoder()).unwrap();
        let (width, sample) = (head.decoder().config().hidden, reference.sample(i));
        let (front, rows) = (sample.breaks[0].text, sample.ids.len());
        let compressed = head.compress(&states(&reference.0[&format!("{i}.visual")])).unwrap().unwrap();
        assert_eq!(compressed.rows.rows(), head.config().num_queries - 1);
        let before = |row: usize| match row {
            0 => vec![0.0; width],
            row if row == front => sample.before_breaks.clone(),
            row => sample.states[(row - 1) * width..row * width].to_vec(),
        };
        let text = |rows: std::ops::Range<usize>, vector: &[f32]| {
            let before = States::new(rows.clone().flat_map(before).collect(), width).unwrap();
            let before = head.mix(before, vector).unwrap();
            head.fuse(&sample.ids[rows], &before).unwrap()
        };
        let (video, vector) = match shown {
            true => (compressed.rows.clone(), &compressed.vector[..]),
            false => (compressed.rows.narrow(0, 0).unwrap(), &[][..]),
        };
        let n = video.rows();
        let parts = [text(0..front, &[]), video, text(front..rows, vector)];
        let input =
            States::cat(&parts.into_iter().filter(|part| part.rows() > 0).collect::<Vec<_>>()).unwrap();
        let worst = reference.off(i, &head, &input, n);
        assert!(worst < 5e-5, "sample {i} on {}: {worst}", target.device().name());
    }
}

#[test]
fn the_head_computes_what_torch_computes() {
    let reference = Reference(tensors("sparrow/reference.safetensors"));
    for (target, (i, shown)) in devices(WeightType::F32)
        .iter()
        .flat_map(|device| [(0, true), (1, false)].map(|case| (load_on("gqa_tied", device), case)))
    {
        let head = DraftHead::load(&fixture("sparrow"), target.decoder()).unwrap();
        let width = head.decoder().config().hidden;
        let sample = reference.sample(i);
        let visual = if shown { sample.visual_positions.len() } else { 0 };
        // The states in the order of a prefill: text, video, text.
        let all = sample.visual_positions.len();
        let front = sample.breaks[0].text;
        let mut before = TextStates::new(width, VisualSpans::from(front..front + all));
        before.push(0, &sample.states[..front * width]);
        before.push(front + all - 1, &sample.before_breaks);
        before.push(front + all, &sample.states[front * width..]);
        let text = |rows: std::ops::Range<usize>| {
            let row = |r: usize| if r < front { r } else { r + all };
            let before = before.before_all(&rows.clone().map(row).collect::<Vec<_>>()).unwrap();
            head.fuse(&sample.ids[rows], &before).unwrap()
        };
        let video = states(&reference.0[&format!("{i}.visual")]).narrow(0, visual).unwrap();
        let rows = sample.ids.len();
        let input = States::cat(&[text(0..front), video, text(front..rows)]).unwrap();
        let worst = reference.off(i, &head, &input, visual);
        assert!(worst < 2e-5, "sample {i} on {}: {worst}", target.device().name());
    }
}

#[test]
fn loss_and_gradients_equal_torch() {
    for name in ["sparrow", "vispec"] {
        let reference = Reference(tensors(&format!("{name}/reference.safetensors")));
        let config = VlConfig::read(&fixture("gqa_tied")).unwrap().text;
        let queries = DraftHeadConfig::read(&fixture(name)).unwrap().num_queries;
        let layer = TrainedLayer::new(&Checkpoint::open(&fixture("gqa_tied")).unwrap(), &config, 0).unwrap();
        let layer = if queries > 0 { layer.with_adaptor(queries, 0).unwrap() } else { layer };
        let saved = tensors(&format!("{name}/model.safetensors"));
        assert_eq!(saved.len(), layer.vars().len());
        for (name, tensor) in saved {
            layer.vars()[&name].set(&tensor).unwrap();
        }
        let samples = [reference.sample(0), reference.sample(1)];
        let rope = Rope::new(&config);
        let pair = [(&samples[0], true), (&samples[1], false)];
        let batch = match queries {
            0 => Batch::new(&pair, &rope, &mut |_| 0.0).unwrap(),
            queries => Batch::compressed(&pair, queries, &rope, &mut |_| 0.0).unwrap(),
        };
        let losses = layer.losses(&batch, 1, (1.0, 0.1)).unwrap();
        let (got, want) = (losses.total.to_scalar::<f32>().unwrap(), values(&reference.0["loss"])[0]);
        assert!((got - want).abs() < 1e-5 * want.abs(), "{got} {want}");
        let gradients = losses.total.backward().unwrap();
        for (name, var) in layer.vars() {
            let (got, want) = (gradients.get(var).unwrap(), &reference.0[&format!("grad.{name}")]);
            let largest = values(want).into_iter().map(f32::abs).fold(0.0, f32::max);
            let worst = difference(got, want);
            assert!(worst < 1e-4 * largest.max(1e-2), "{name}: {worst} of {largest}");
            // Softmax does not see what is added to all keys alike.
            assert!(largest > 0.0 || name.ends_with("k_proj.bias"), "{name}");
        }
    }
}

#[test]
fn another_target_is_refused() {
    let other = VideoLlm::load(&fixture("nested_bf16"), WeightType::F32, &mut |_, _| {}).unwrap();
    let error = DraftHead::load(&fixture("sparrow"), other.decoder()).err().unwrap().to_string();
    assert!(error.contains("trained for another target"), "{error}");
    let error = DraftHead::load(&fixture("gqa_tied"), other.decoder()).err().unwrap();
    assert!(error.to_string().contains("specreel_sparrow") || error.to_string().contains("missing field"));
}
