use super::*;
use crate::{config::TextConfig, draft_head::eagle3::taps};

/// The file of a head for Qwen2.5-VL 7B, as SpecForge writes it.
const PUBLISHED: &str = r#"{
    "architectures": ["LlamaForCausalLMEagle3"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 3584,
    "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 8192, "max_window_layers": 28,
    "model_type": "llama", "num_attention_heads": 28, "num_hidden_layers": 1, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_theta": 1000000,
    "sliding_window": 32768, "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false,
    "vocab_size": 152064, "draft_vocab_size": 32000
}"#;

fn changed(from: &str, to: &str) -> Result<DraftHeadConfig, String> {
    assert!(PUBLISHED.contains(from), "{from}");
    read(&PUBLISHED.replace(from, to))
}

#[test]
fn published_files_are_read() {
    assert!(
        is_published(PUBLISHED)
            && !is_published("{}")
            && !is_published(r#"{"architectures": ["LlamaForCausalLM"]}"#)
    );
    let config = read(PUBLISHED).unwrap();
    assert_eq!((config.recipe, config.head_dim, config.num_key_value_heads), (Recipe::Eagle3, 128, 4));
    assert_eq!((config.mrope_section, config.mrope_interleaved), (Some([16, 24, 24]), false));
    assert_eq!((config.target.hidden_size, config.target.vocab_size), (3584, 152_064));
    let own = config.eagle3.unwrap();
    assert_eq!((own.draft_vocab, own.layers.clone(), own.norm_before_residual), (32_000, None, false));
    let target = |layers| TextConfig { layers, ..crate::shapes::find("tiny").unwrap() };
    assert_eq!(taps(&own, &target(28)).unwrap(), [1, 13, 24]);
    assert!(taps(&own, &target(5)).is_err());

    let text = r#""vocab_size": 152064, "draft_vocab_size": 32000"#;
    let whole = changed(text, r#""vocab_size": 152064"#).unwrap().eagle3.unwrap();
    assert_eq!(whole.draft_vocab, 152_064);
    let layers =
        |key: &str| changed(text, &format!("{text}, {key}")).map(|config| config.eagle3.unwrap().layers);
    let inside = layers(
        r#""eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 33], "use_aux_hidden_state": true}"#,
    );
    assert_eq!(inside.unwrap(), Some(vec![1, 17, 33]));
    // vLLM counts the embedding as 0.
    assert_eq!(layers(r#""eagle_aux_hidden_state_layer_ids": [2, 18, 33]"#).unwrap(), Some(vec![1, 17, 32]));
    assert!(layers(r#""eagle_aux_hidden_state_layer_ids": [0, 18, 33]"#).unwrap_err().contains("embedding"));
    assert!(layers(r#""eagle_aux_hidden_state_layer_ids": [2, 3]"#).unwrap_err().contains("three"));
    let own = Eagle3Config { layers: Some(vec![1, 2, 28]), ..own };
    assert!(taps(&own, &target(28)).unwrap_err().contains("layer 28"));
}

#[test]
fn what_the_head_does_not_compute_is_refused() {
    for (from, to, words) in [
        (r#""num_hidden_layers": 1"#, r#""num_hidden_layers": 2"#, "num_hidden_layers"),
        (r#""silu""#, r#""gelu""#, "hidden_act"),
        (r#""type": "mrope""#, r#""rope_type": "yarn""#, "yarn"),
        ("[16, 24, 24]", "[16, 24]", "mrope_section"),
        (r#""use_cache": true"#, r#""target_hidden_size": 4096"#, "target_hidden_size"),
        (r#""use_cache": true"#, r#""quantization_config": {}"#, "quantized"),
        (r#""hidden_size": 3584,"#, "", "hidden_size"),
    ] {
        let problem = changed(from, to).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}
