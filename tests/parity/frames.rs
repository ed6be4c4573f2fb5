//! Whole runs from decoded frames, of all families, against the processors and models of transformers.

use std::{collections::HashMap, ops::ControlFlow, path::Path};

use candle_core::{Device, Tensor};
use specreel_model::family::{ClipFacts, VideoLlm};
use specreel_tensor::WeightType;
use specreel_video::{Rule, Sampling, Video};

use super::{
    FAMILIES, difference, fixture,
    newer::{cut_into_patches, greedy, levels_off},
    numbers, tensors, values,
};

/// The clip with the two frames of the fixture.
const CLIP: &str = "assets/demo/clips/one-large-shape.mp4";
/// The prompt of `make_families.py`.
pub const PROMPT: &str = "what moves?";

#[derive(Clone)]
pub struct Frame {
    pub height: usize,
    pub width: usize,
    pub rgb: Vec<u8>,
}

fn decoded() -> Vec<Frame> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CLIP);
    let video = Video::open(&path).unwrap();
    let plan = video.plan(None, &Rule::QWEN_VL, Sampling::Frames(6)).unwrap();
    let frames = video.frames(plan, None).unwrap().map(Result::unwrap);
    let mut frames: Vec<Frame> = frames
        .map(|frame| Frame { height: frame.height as usize, width: frame.width as usize, rgb: frame.rgb })
        .collect();
    frames.truncate(3);
    frames.remove(0);
    frames
}

#[test]
#[ignore = "writes the fixture that make_families.py reads"]
fn write_the_decoded_frames() {
    let frames = decoded();
    let (height, width) = (frames[0].height, frames[0].width);
    let all: Vec<u8> = frames.into_iter().flat_map(|frame| frame.rgb).collect();
    let tensor = Tensor::from_vec(all, (2, height, width, 3), &Device::Cpu).unwrap();
    let named = HashMap::from([("frames".to_owned(), tensor)]);
    candle_core::safetensors::save(&named, fixture("decoded.safetensors")).unwrap();
}

pub fn decoded_frames() -> [Frame; 2] {
    let all = &tensors("decoded.safetensors")["frames"];
    let (_, height, width, _) = all.dims4().unwrap();
    let frame = |i: usize| all.get(i).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    [0, 1].map(|i| Frame { height, width, rgb: frame(i) })
}

/// The stored frames, forwards and backwards.
fn stored() -> Vec<Frame> {
    let all = decoded_frames();
    [0, 1, 1, 0].map(|i| all[i].clone()).into()
}

/// The upper left corner of a frame.
pub fn cut(frame: &Frame, side: usize) -> Frame {
    let lines = frame.rgb.chunks_exact(frame.width * 3).take(side);
    Frame { height: side, width: side, rgb: lines.flat_map(|line| line[..side * 3].to_vec()).collect() }
}

#[test]
fn decoding_reproduces_the_fixture_frames() {
    for (ours, stored) in decoded().iter().zip(stored()) {
        assert_eq!((ours.height, ours.width), (stored.height, stored.width));
        let off: u64 = ours.rgb.iter().zip(&stored.rgb).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        // Decoder versions round differently.
        assert!(off as f64 / stored.rgb.len() as f64 <= 1.0, "{off}");
    }
}

#[test]
fn frames_to_ids_equal_transformers() {
    let frames = stored();
    for name in FAMILIES.iter().chain(&["gqa_tied"]) {
        let model = VideoLlm::load(&fixture(name), WeightType::F32, &mut |_, _| {}).unwrap();
        let expected = tensors(&format!("{name}/frames.safetensors"));
        let (side, newline) = model.processor().config().fixed.map_or((84, 0), |size| (size.height, 1));
        let cuts: Vec<Frame> = frames.iter().map(|frame| cut(frame, side)).collect();
        for (case, frames) in [("cut", &cuts), ("whole", &frames)] {
            let part = |what: &str| &expected[&format!("{case}.{what}")];
            // Qwen2.5-VL's fixture sets no limit.
            let limit = model.processor().config().fixed.is_none().then_some(84 * 84);
            let patches = cut_into_patches(model.processor(), frames, limit);
            let grid = [patches.grid.t, patches.grid.h, patches.grid.w].map(|side| side as i64);
            assert_eq!(grid.to_vec(), numbers(part("grid")), "{name} {case}");
            if case == "whole" {
                // Difference in byte levels after a bicubic resize.
                let config = model.processor().config();
                let (mean, _) = levels_off(config, &patches, &values(part("levels")));
                assert!(mean <= 0.5, "{name}: {mean} byte levels on average");
            }

            let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
            let embeds = part("visual_embeds");
            let n = visual.rows();
            let worst = difference(&visual, &embeds.narrow(0, 0, n).unwrap());
            // Frames that are not resized are identical; resized ones may differ by single levels.
            let limit = if case == "cut" { 1e-4 } else { 0.1 };
            assert!(worst <= limit, "{name} {case}: embeddings differ by {worst}");

            let grid = model.processor().visual_grid(patches.grid).unwrap();
            assert_eq!(grid.len(), n);
            let prompt = model.prompt(PROMPT, &ClipFacts::steady(grid, 2 * grid.t, 2.0)).unwrap();
            let ids: Vec<i64> = prompt.ids.iter().map(|id| i64::from(*id)).collect();
            assert_eq!(ids, numbers(part("input_ids")), "{name} {case}");
            assert_eq!(prompt.video_end(), prompt.visual.end() + newline, "{name}");
            let axes: Vec<i64> = prompt.positions.axes.iter().flatten().map(|at| i64::from(*at)).collect();
            assert_eq!(axes, numbers(part("position_ids")), "{name} {case}");
            assert_eq!(i64::from(prompt.next), numbers(part("next_position"))[0]);
            let want = numbers(part("greedy_ids"));
            assert_eq!(greedy(&model, &prompt, &visual, want.len()).0, want, "{name} {case}");
        }
    }
}
