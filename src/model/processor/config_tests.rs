use super::*;

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
    assert_eq!(load().unwrap().fixed, Some((70, 98)));
    write(
        "preprocessor_config.json",
        r#"{"size": {"height": 84, "width": 84}, "image_std": [0.2, 0.3, 0.4]}"#,
    );
    let config = load().unwrap();
    assert_eq!((config.fixed, config.std), (Some((70, 98)), [0.2, 0.3, 0.4]));
    std::fs::remove_file(dir.path().join("processor_config.json")).unwrap();
    assert_eq!(load().unwrap().fixed, Some((84, 84)));
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
