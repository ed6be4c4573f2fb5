//! Patches, frame sizes and positions against transformers.

use specreel_model::processor::{
    FrameSize, Grid, ProcessorConfig, ProcessorError, VideoProcessor, VisualGrid, VisualRope, positions,
};

use super::{
    fixture,
    frames::Frame,
    json,
    newer::{cut_into_patches, levels_off},
    numbers, tensors, values,
};

#[test]
fn patches_equal_transformers() {
    for (name, mean_limit) in [("exact", 0.0), ("down", 0.5), ("up", 0.5), ("mixed", 0.5)] {
        let expected = tensors(&format!("processor/{name}.safetensors"));
        let (n, height, width, _) = expected["frames"].dims4().unwrap();
        let limits = numbers(&expected["limits"]);
        let config = ProcessorConfig {
            min_pixels: limits[0] as usize,
            max_pixels: limits[1] as usize,
            ..ProcessorConfig::default()
        };
        let processor = VideoProcessor::new(config.clone()).unwrap();
        let frame = |i: usize| Frame {
            height,
            width,
            rgb: expected["frames"].get(i).unwrap().flatten_all().unwrap().to_vec1().unwrap(),
        };
        let patches = cut_into_patches(&processor, &(0..n).map(frame).collect::<Vec<_>>(), None);
        let grid: Vec<usize> = numbers(&expected["grid"]).into_iter().map(|v| v as usize).collect();
        assert_eq!([patches.grid.t, patches.grid.h, patches.grid.w], grid[..], "{name}");
        let (mean, most) = levels_off(&config, &patches, &values(&expected["levels"]));
        eprintln!("{name}: mean {mean:.4} and at most {most:.3} byte levels off");
        assert!(mean <= mean_limit + 1e-3 && most <= 2.0, "{name}: mean {mean}, most {most}");
        if let Some(exact) = expected.get("patches") {
            let exact = values(exact);
            let worst = exact.iter().zip(&patches.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= 1e-5, "{name}");
        }
    }
}

#[test]
fn target_sizes_equal_transformers() {
    let processor = VideoProcessor::new(ProcessorConfig::default()).unwrap();
    for row in json("tables.json")["sizes"].as_array().unwrap() {
        let row: Vec<usize> = row.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect();
        let got = processor.target_size(row[0], row[1], row[2], None).unwrap();
        assert_eq!(got, FrameSize::new(row[3], row[4]), "{row:?}");
    }
}

#[test]
fn positions_equal_transformers() {
    for row in json("tables.json")["positions"].as_array().unwrap() {
        let number = |name: &str| row[name].as_u64().unwrap() as usize;
        let side = |i: usize| row["grid"][i].as_u64().unwrap() as usize;
        let grid = VisualGrid::from_patches(Grid { t: side(0), h: side(1), w: side(2) }, 2).unwrap();
        let rope = VisualRope::Multimodal {
            seconds_per_grid: row["seconds_per_grid"].as_f64().unwrap() as f32,
            tokens_per_second: row["tokens_per_second"].as_f64().unwrap() as f32,
        };
        let video = number("before")..number("before") + grid.len();
        let rows = video.end + number("after");
        let got = positions(rows, &video.into(), grid, rope).unwrap();
        let axes: Vec<Vec<u32>> = serde_json::from_value(row["axes"].clone()).unwrap();
        assert_eq!(got.axes.to_vec(), axes);
        assert_eq!(got.next as usize, number("next"));
    }
}

#[test]
fn settings_are_read_from_the_checkpoint() {
    let image_only = VideoProcessor::load(&fixture("gqa_tied"), ProcessorConfig::default()).unwrap();
    assert_eq!(*image_only.config(), ProcessorConfig::default());

    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("video_preprocessor_config.json"), text).unwrap();
    assert_eq!(
        *VideoProcessor::load(dir.path(), ProcessorConfig::default()).unwrap().config(),
        ProcessorConfig::default()
    );
    write(r#"{"size": {"shortest_edge": 3136, "longest_edge": 50176}, "image_mean": [0.5, 0.5, 0.5]}"#);
    let config = VideoProcessor::load(dir.path(), ProcessorConfig::default()).unwrap().config().clone();
    assert_eq!((config.min_pixels, config.max_pixels, config.mean), (3136, 50176, [0.5; 3]));
    write(r#"{"min_pixels": 3136, "max_pixels": 50176}"#);
    assert_eq!(
        VideoProcessor::load(dir.path(), ProcessorConfig::default()).unwrap().config().max_pixels,
        50176
    );
    for bad in
        ["", "[", "[1]", r#"{"patch_size": "x"}"#, r#"{"patch_size": 0}"#, r#"{"image_std": [1, 0, 1]}"#]
    {
        write(bad);
        let error = VideoProcessor::load(dir.path(), ProcessorConfig::default()).unwrap_err();
        assert!(
            matches!(error, ProcessorError::Parse { .. } | ProcessorError::Config { .. }),
            "{bad}: {error}"
        );
    }
}
