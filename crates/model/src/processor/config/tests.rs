use super::*;
use crate::testing::fixture;

#[test]
fn many_frames_share_the_video_s_budget() {
    let config = ProcessorConfig::default();
    assert_eq!(config.max_pixels_for(2), (768 * TOKEN) as f64);
    assert_eq!(config.max_pixels_for(768), 128_000.0 * 784.0 * 0.9 / 768.0 * 2.0);
    assert_eq!(config.max_pixels_for(1_000_000), (128.0f64 * 784.0 * 1.05).floor());
}

#[test]
fn fixed_sizes_are_read_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let load = || ProcessorConfig::pictures(384, 14, 2).load(dir.path());
    let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
    assert_eq!(load().unwrap(), ProcessorConfig::pictures(384, 14, 2));
    write("processor_config.json", r#"{"video_processor": {"size": {"height": 70, "width": 98}}}"#);
    assert_eq!(load().unwrap().fixed, Some(FrameSize::new(70, 98)));
    write(
        "preprocessor_config.json",
        r#"{"size": {"height": 84, "width": 84}, "image_std": [0.2, 0.3, 0.4]}"#,
    );
    let config = load().unwrap();
    assert_eq!((config.fixed, config.std), (Some(FrameSize::new(70, 98)), [0.2, 0.3, 0.4]));
    std::fs::remove_file(dir.path().join("processor_config.json")).unwrap();
    assert_eq!(load().unwrap().fixed, Some(FrameSize::new(84, 84)));
    for size in [r#"{"shortest_edge": 384}"#, r#"{"height": 384}"#, r#"{"height": 13, "width": 84}"#] {
        write("preprocessor_config.json", &format!(r#"{{"size": {size}}}"#));
        let error = load().unwrap_err().to_string();
        assert!(error.contains("size"), "{error}");
    }
}

#[test]
fn invalid_settings_are_refused_by_name() {
    type Break = fn(&mut ProcessorConfig);
    let broken: [(&str, Break); 7] = [
        ("patch_size", |c| c.patch = 0),
        ("temporal_patch_size", |c| c.temporal = 0),
        ("merge_size", |c| c.merge = usize::MAX),
        ("image_std", |c| c.std[1] = 0.0),
        ("image_mean", |c| c.mean[0] = f32::NAN),
        ("shortest edge", |c| c.min_pixels = usize::MAX),
        ("longest edge", |c| c.max_pixels = 10),
    ];
    for (name, breaks) in broken {
        let mut config = ProcessorConfig::default();
        breaks(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// Settings of a directory with these files.
fn with_files(
    family: ProcessorConfig,
    files: &[(&str, &str)],
) -> Result<ProcessorConfig, crate::processor::ProcessorError> {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    family.load(dir.path())
}

const IMAGES: &str = "preprocessor_config.json";
const VIDEOS: &str = "video_preprocessor_config.json";
const BOTH: &str = "processor_config.json";

#[test]
fn limits_of_images_are_not_those_of_videos() {
    let family = ProcessorConfig::qwen3_vl();
    let images =
        r#"{"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "fps": 9}"#;
    assert_eq!(with_files(family.clone(), &[(IMAGES, images)]).unwrap(), family);
    let videos = r#"{"size": {"shortest_edge": 4096, "longest_edge": 64000}, "fps": 4, "min_frames": 2, "max_frames": 9}"#;
    let config = with_files(family.clone(), &[(IMAGES, images), (VIDEOS, videos)]).unwrap();
    assert_eq!((config.min_pixels, config.max_pixels), (4096, 64_000));
    let sampling = SamplingSettings { fps: Some(4.0), min_frames: Some(2), max_frames: Some(9) };
    assert_eq!((config.sampling, config.scope), (Some(sampling), family.scope));
    // As transformers saves it since version 5.
    let saved = r#"{"video_processor": {"size": {"shortest_edge": 4096, "longest_edge": 64000}, "fps": 2, "num_frames": null,
        "cap_pixels_per_frame": true, "max_video_tokens": 100, "resample": 3}}"#;
    let config = with_files(family.clone(), &[(BOTH, saved)]).unwrap();
    assert_eq!((config.max_pixels, config.scope), (64_000, PixelScope::Video { max_tokens: Some(100) }));
    let capped = with_files(family, &[(VIDEOS, r#"{"cap_pixels_per_frame": true}"#)]).unwrap();
    assert_eq!(capped.scope, PixelScope::Video { max_tokens: Some(768) });
    // Qwen2-VL and LLaVA-OneVision sample by rules that no file changes.
    for family in [ProcessorConfig::default(), ProcessorConfig::pictures(28, 14, 2)] {
        assert_eq!(
            with_files(family, &[(VIDEOS, r#"{"fps": 0.5, "num_frames": 8}"#)]).unwrap().sampling,
            None
        );
    }
}

#[test]
fn smolvlm_s_file_for_images_has_what_videos_need() {
    let family = ProcessorConfig::smolvlm(512, 16, 4);
    assert_eq!((family.fixed, family.longest_edge), (Some(FrameSize::new(512, 512)), Some(2048)));
    let published = r#"{"max_image_size": {"longest_edge": 384}, "size": {"longest_edge": 1536}, "resample": 1,
        "video_sampling": {"fps": 2, "max_frames": 20, "video_size": {"longest_edge": 384}}}"#;
    let config = with_files(family.clone(), &[(IMAGES, published)]).unwrap();
    assert_eq!((config.fixed, config.longest_edge), (Some(FrameSize::new(384, 384)), Some(1536)));
    let sampling = SamplingSettings { fps: Some(2.0), min_frames: None, max_frames: Some(20) };
    assert_eq!((config.sampling, config.filter), (Some(sampling), Filter::Lanczos));
    // Without a size for pictures, that for videos; as saved, without `video_sampling`.
    let sizes = r#"{"video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 300}}}"#;
    assert_eq!(with_files(family.clone(), &[(IMAGES, sizes)]).unwrap().longest_edge, Some(300));
    let saved =
        r#"{"video_processor": {"size": {"longest_edge": 9999}, "fps": 3, "num_frames": 7, "resample": 2}}"#;
    let config = with_files(family.clone(), &[(BOTH, saved)]).unwrap();
    assert_eq!((config.longest_edge, config.filter), (Some(4096), Filter::Bilinear));
    let sampling = SamplingSettings { fps: Some(3.0), min_frames: None, max_frames: Some(7) };
    assert_eq!(config.sampling, Some(sampling));
    // Pictures only: the family's defaults.
    assert_eq!(
        with_files(family.clone(), &[(IMAGES, r#"{"image_mean": [0.5, 0.5, 0.5]}"#)]).unwrap(),
        family
    );
}

#[test]
fn published_files_say_what_the_families_do() {
    let folder = fixture("published/processors");
    let smolvlm2 = SamplingSettings { fps: Some(1.0), min_frames: None, max_frames: Some(64) };
    let minicpmv = SamplingSettings { fps: None, min_frames: None, max_frames: Some(128) };
    for (name, family, sampling) in [
        ("smolvlm2", ProcessorConfig::smolvlm(512, 16, 4), Some(smolvlm2)),
        ("llava_onevision", ProcessorConfig::pictures(384, 14, 2), None),
        ("qwen2_vl", ProcessorConfig::default(), None),
        ("qwen2_5_vl", ProcessorConfig::default(), None),
        ("qwen3_vl", ProcessorConfig::qwen3_vl(), Some(SamplingSettings::default())),
        ("minicpmv4_6", ProcessorConfig::minicpmv(14, 4), Some(minicpmv)),
    ] {
        let expected = ProcessorConfig { sampling, ..family.clone() };
        // Unless the files are read, it differs.
        let other = ProcessorConfig { mean: [0.1; 3], std: [0.9; 3], ..family };
        assert_eq!(other.load(&folder.join(name)).unwrap(), expected, "{name}");
    }
}

#[test]
fn minicpmv_scales_frames_and_says_how_many_patches_are_a_token() {
    let family = ProcessorConfig::minicpmv(14, 4);
    let images = r#"{"scale_resolution": 448, "max_slice_nums": 9, "patch_size": 14}"#;
    assert_eq!(with_files(family.clone(), &[(IMAGES, images)]).unwrap(), family);
    let saved = r#"{"image_processor": {"scale_resolution": 300, "downsample_mode": "16x"},
        "video_processor": {"scale_resolution": 200, "downsample_mode": "4x", "max_num_frames": 16, "stack_frames": 1}}"#;
    let config = with_files(family.clone(), &[(BOTH, saved)]).unwrap();
    assert_eq!((config.max_pixels, config.min_pixels, config.merge), (40_000, 28 * 28, 2));
    assert_eq!(config.sampling.unwrap().max_frames, Some(16));
    for (name, text) in [
        ("downsample_mode", r#"{"downsample_mode": "8x"}"#),
        ("downsample_mode", r#"{"downsample_mode": 4}"#),
        ("stack_frames", r#"{"stack_frames": 3}"#),
        ("scale_resolution", r#"{"scale_resolution": 0}"#),
        ("scale_resolution", r#"{"scale_resolution": 100000}"#),
        ("max_num_frames", r#"{"max_num_frames": 0}"#),
    ] {
        let error = with_files(family.clone(), &[(VIDEOS, text)]).unwrap_err().to_string();
        assert!(error.contains(name), "{text}: {error}");
    }
}

#[test]
fn impossible_sizes_and_samplings_are_refused_by_name() {
    for (name, text) in [
        ("fps", r#"{"video_sampling": {"fps": 0, "max_frames": 64}}"#),
        ("fps", r#"{"fps": -1}"#),
        ("fps", r#"{"fps": 1e300}"#),
        ("fps", r#"{"fps": "fast"}"#),
        ("max_frames", r#"{"video_sampling": {"max_frames": 0}}"#),
        ("max_frames", r#"{"max_frames": -4}"#),
        ("num_frames", r#"{"num_frames": 1.5}"#),
        ("min_frames", r#"{"min_frames": "few"}"#),
        ("resample", r#"{"resample": 0}"#),
        ("resample", r#"{"resample": "lanczos"}"#),
        ("size", r#"{"size": {"height": 8, "width": 8}}"#),
        ("longest_edge", r#"{"size": {"longest_edge": 0}}"#),
        ("longest_edge", r#"{"max_image_size": {"longest_edge": "large"}}"#),
        ("size", r#"{"max_image_size": {"longest_edge": 1000000}}"#),
    ] {
        let error = with_files(ProcessorConfig::smolvlm(512, 16, 4), &[(IMAGES, text)]).unwrap_err();
        assert!(error.to_string().contains(name), "{text}: {error}");
    }
    for text in [r#"{"fps": 0}"#, r#"{"cap_pixels_per_frame": true, "max_video_tokens": 0}"#] {
        assert!(with_files(ProcessorConfig::qwen3_vl(), &[(VIDEOS, text)]).is_err(), "{text}");
    }
}
