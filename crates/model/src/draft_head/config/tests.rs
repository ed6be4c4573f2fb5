use super::*;

fn config() -> DraftHeadConfig {
    DraftHeadConfig {
        model_type: MODEL_TYPE.into(),
        recipe: Recipe::Msd,
        visual_rows: VisualRows::Embeddings,
        intermediate_size: 64,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 16,
        rope_theta: 1e4,
        mrope_section: Some([2, 3, 3]),
        mrope_interleaved: false,
        attention_bias: true,
        qk_norm: false,
        rms_norm_eps: 1e-6,
        target: TargetIdentity {
            name: "t".into(),
            hidden_size: 64,
            vocab_size: 320,
            num_hidden_layers: 2,
            fingerprint: "1".into(),
        },
        num_queries: 0,
        eagle3: None,
        dflash: None,
        assistant: None,
    }
}

#[test]
fn configs_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), serde_json::to_string(&config()).unwrap()).unwrap();
    assert_eq!(DraftHeadConfig::read(dir.path()).unwrap(), config());
    assert!(DraftHeadConfig::is_in(dir.path()));
    // Files of targets with biases say nothing of them, as always.
    let saved = serde_json::to_string(&config()).unwrap();
    assert!(["bias", "qk_norm", "interleaved"].iter().all(|key| !saved.contains(key)), "{saved}");
    let normed =
        DraftHeadConfig { mrope_interleaved: true, attention_bias: false, qk_norm: true, ..config() };
    std::fs::write(dir.path().join("config.json"), serde_json::to_string(&normed).unwrap()).unwrap();
    let read = DraftHeadConfig::read(dir.path()).unwrap();
    assert_eq!(read, normed);
    let target = TextConfig { deepstack: 1, ..crate::shapes::find("tiny").unwrap() };
    let layer = read.layer(&target);
    assert_eq!((layer.bias, layer.qk_norm, layer.interleaved, layer.deepstack), (false, true, true, 0));
    assert!(!DraftHeadConfig::is_in(&dir.path().join("no")));
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "qwen2_5_vl"}"#).unwrap();
    assert!(!DraftHeadConfig::is_in(dir.path()));
}

#[test]
fn a_layer_for_a_gated_target_rotates_whole_heads() {
    let tiny = crate::shapes::find("tiny").unwrap();
    assert_eq!(layer_of(&tiny), tiny, "nothing to change");
    let gated = TextConfig {
        head_dim: 256,
        mrope_section: Some([11, 11, 10]),
        interleaved: true,
        output_gate: true,
        rotary_dim: 64,
        norm_offset: true,
        ..tiny
    };
    let layer = layer_of(&gated);
    assert_eq!((layer.mrope_section, layer.rotary_dim), (Some([44, 42, 42]), 256));
    assert!(!layer.output_gate && !layer.norm_offset);
    let identity = config().target;
    let head = DraftHeadConfig::like(&gated, identity, Recipe::Sparrow, VisualRows::Middle);
    assert_eq!((head.problem(), head.mrope_section), (None, layer.mrope_section));
}

#[test]
fn impossible_sizes_are_refused() {
    let wrong = |change: &dyn Fn(&mut DraftHeadConfig)| {
        let mut config = config();
        change(&mut config);
        config.problem().unwrap()
    };
    assert!(wrong(&|c| c.num_key_value_heads = 3).contains("not a multiple"));
    assert!(wrong(&|c| c.num_queries = 2).contains("recipe msd has none"));
    assert!(wrong(&|c| c.recipe = Recipe::Vispec).contains("1 to 256"));
    assert!(wrong(&|c| c.intermediate_size = 0).contains("intermediate_size"));
    assert!(wrong(&|c| c.mrope_section = Some([usize::MAX, 1, 1])).contains("mrope_section"));
    assert!(wrong(&|c| c.rope_theta = f64::NAN).contains("rope_theta"));
    assert_eq!(config().problem(), None);
}

#[test]
fn another_target_is_recognized() {
    let expected = config().target;
    let other = |change: &dyn Fn(&mut TargetIdentity)| {
        let mut other = expected.clone();
        change(&mut other);
        expected.difference(&other)
    };
    assert_eq!(other(&|_| {}), None);
    assert_eq!(other(&|o| o.name = "renamed".into()), None);
    assert!(other(&|o| o.hidden_size = 32).unwrap().contains("a `hidden_size` of 64, this target has 32"));
    assert!(other(&|o| o.fingerprint = "2".into()).unwrap().contains("expects `t`"));
    let published = TargetIdentity { num_hidden_layers: 0, fingerprint: String::new(), ..expected.clone() };
    assert_eq!(published.difference(&expected), None, "what it does not say");
    assert!(published.difference(&TargetIdentity { vocab_size: 9, ..expected }).is_some());
}
