use super::*;
use crate::config::TextConfig;

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
    for name in ARCHITECTURES {
        assert_eq!(changed("LlamaForCausalLMEagle3", name), read(PUBLISHED), "{name}");
    }
    let config = read(PUBLISHED).unwrap();
    assert_eq!((config.recipe, config.head_dim, config.num_key_value_heads), (Recipe::Eagle3, 128, 4));
    assert_eq!((config.mrope_section, config.mrope_interleaved), (Some([16, 24, 24]), false));
    assert_eq!((config.target.hidden_size, config.target.vocab_size), (3584, 152_064));
    let own = config.eagle3.unwrap();
    assert_eq!((own.draft_vocab, own.layers.clone(), own.norm_before_residual), (32_000, None, false));
    let target = |layers| TextConfig { layers, ..crate::shapes::find("tiny").unwrap() };
    assert_eq!(own.taps(&target(28)).unwrap(), [1, 13, 24]);
    assert!(own.taps(&target(5)).is_err());

    let text = r#""vocab_size": 152064, "draft_vocab_size": 32000"#;
    let whole = changed(text, r#""vocab_size": 152064"#).unwrap().eagle3.unwrap();
    assert_eq!(whole.draft_vocab, 152_064);
    let rope = changed(
        r#""rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_theta": 1000000"#,
        r#""rope_parameters": {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1000000}"#,
    );
    assert_eq!(rope, read(PUBLISHED), "as newer versions of transformers save it");
    let layers =
        |key: &str| changed(text, &format!("{text}, {key}")).map(|config| config.eagle3.unwrap().layers);
    let inside = layers(
        r#""eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 33], "use_aux_hidden_state": true}"#,
    );
    assert_eq!(inside.unwrap(), Some(vec![1, 17, 33]));
    // vLLM counts the embedding as 0.
    assert_eq!(layers(r#""eagle_aux_hidden_state_layer_ids": [2, 18, 33]"#).unwrap(), Some(vec![1, 17, 32]));
    assert!(layers(r#""eagle_aux_hidden_state_layer_ids": [0, 18, 33]"#).unwrap_err().contains("embedding"));
    assert_eq!(layers(r#""eagle_aux_hidden_state_layer_ids": [2, 3]"#).unwrap(), Some(vec![1, 2]));
    let own = Eagle3Config { layers: Some(vec![1, 2, 28]), ..own };
    assert!(own.taps(&target(28)).unwrap_err().contains("layer 28"));
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
        (r#""use_sliding_window": false"#, r#""use_sliding_window": true"#, "use_sliding_window"),
        (r#""use_cache": true"#, r#""num_aux_hidden_states": 4"#, "reads 4 states"),
        (
            r#""use_cache": true"#,
            r#""eagle_config": {"use_aux_hidden_state": false}"#,
            "use_aux_hidden_state",
        ),
        (r#""hidden_size": 3584,"#, "", "hidden_size"),
        ("LlamaForCausalLMEagle3", "EagleLlamaForCausalLM", "a draft head of EAGLE,"),
        (
            "LlamaForCausalLMEagle3",
            "DSparkDraftModel",
            "a draft head of DSpark, expected one of EAGLE-3, DFlash or an assistant",
        ),
    ] {
        let problem = changed(from, to).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}

/// The file of a head for Qwen3-VL 8B, as speculators writes it.
const SPECULATORS_FILE: &str = r#"{
    "architectures": ["Eagle3Speculator"], "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"}, "draft_vocab_size": 32000,
    "eagle_aux_hidden_state_layer_ids": null, "embed_requires_grad": false, "norm_before_residual": true,
    "speculators_config": {
        "algorithm": "eagle3", "default_proposal_method": "greedy",
        "proposal_methods": [
            {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
        ],
        "verifier": {"architectures": ["Qwen3VLForConditionalGeneration"], "name_or_path": "Qwen/Qwen3-VL-8B-Instruct"}
    },
    "speculators_model_type": "eagle3", "speculators_version": "0.3.0", "target_hidden_size": null,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformer_layer_config": {
        "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 40960, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 1, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "use_cache": true, "vocab_size": 151936
    }
}"#;

#[test]
fn files_of_speculators_are_read() {
    let changed = |from: &str, to: &str| {
        assert!(SPECULATORS_FILE.contains(from), "{from}");
        read(&SPECULATORS_FILE.replace(from, to))
    };
    assert!(is_published(SPECULATORS_FILE));
    let config = read(SPECULATORS_FILE).unwrap();
    assert_eq!((config.recipe, config.head_dim, config.num_key_value_heads), (Recipe::Eagle3, 128, 8));
    assert_eq!((config.rope_theta, config.mrope_section), (1e6, None));
    let target = &config.target;
    assert_eq!(
        (target.name.as_str(), target.hidden_size, target.vocab_size),
        ("Qwen/Qwen3-VL-8B-Instruct", 4096, 151_936)
    );
    let own = Eagle3Config { draft_vocab: 32_000, norm_before_residual: true, ..Eagle3Config::default() };
    assert_eq!(config.eagle3, Some(own));
    let newer = changed(
        r#""target_hidden_size": null"#,
        r#""fc_norm": true, "norm_output": true, "num_aux_hidden_states": 3"#,
    );
    let newer = newer.unwrap().eagle3.unwrap();
    assert!(newer.fc_norm && newer.norm_output && !newer.norm_before_fc);
    let four = changed(r#"layer_ids": null"#, r#"layer_ids": [2, 46, 91, 93]"#).unwrap().eagle3.unwrap();
    assert_eq!(four.layers, Some(vec![1, 45, 90, 92]));
    let layers = changed(r#"layer_ids": null"#, r#"layer_ids": [2, 18, 33]"#).unwrap().eagle3.unwrap().layers;
    assert_eq!(layers, Some(vec![1, 17, 32]));
    for (from, to, words) in [
        (r#"_type": "eagle3""#, r#"_type": "dflash""#, "`speculators_model_type` is dflash"),
        (r#""norm_before_residual": true"#, r#""x": 1"#, "missing `norm_before_residual`"),
        ("transformer_layer_config", "layer", "missing `transformer_layer_config`"),
        (r#""hidden_size": 4096,"#, "", "`transformer_layer_config`: missing field `hidden_size`"),
        (r#""num_hidden_layers": 1"#, r#""num_hidden_layers": 2"#, "num_hidden_layers"),
        (r#"layer_ids": null"#, r#"layer_ids": []"#, "names 0 layers"),
        (r#""use_cache": true"#, r#""use_sliding_window": true"#, "use_sliding_window"),
    ] {
        let problem = changed(from, to).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}

/// A file in the layout of `z-lab/Qwen3.5-…-DFlash`.
const DFLASH_FILE: &str = r#"{
    "architectures": ["DFlashDraftModel"], "attention_bias": false, "attention_dropout": 0.0, "block_size": 16,
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]}, "dtype": "bfloat16",
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 17408,
    "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 262144, "model_type": "qwen3",
    "num_attention_heads": 32, "num_hidden_layers": 2, "num_key_value_heads": 8, "num_target_layers": 64,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000, "sliding_window": 2048,
    "tie_word_embeddings": false, "use_sliding_window": true, "vocab_size": 248320
}"#;

#[test]
fn dflash_heads_are_read() {
    let changed = |from: &str, to: &str| {
        assert!(DFLASH_FILE.contains(from), "{from}");
        read(&DFLASH_FILE.replace(from, to))
    };
    assert!(is_published(DFLASH_FILE));
    let config = read(DFLASH_FILE).unwrap();
    assert_eq!((config.recipe, config.head_dim, config.num_key_value_heads), (Recipe::Dflash, 128, 8));
    assert_eq!((config.rope_theta, config.mrope_section, config.qk_norm), (1e7, None, true));
    let target = &config.target;
    assert_eq!((target.hidden_size, target.vocab_size, target.num_hidden_layers), (5120, 248_320, 64));
    let own = config.dflash.unwrap();
    assert_eq!((own.block_size, own.mask_token_id), (16, 248_070));
    assert_eq!(own.target_layer_ids, [1, 16, 31, 46, 61]);
    let near = BlockAttention { window: Some(2048), causal: true };
    assert_eq!(own.layers, [near, BlockAttention::default()]);
    // Newer files say all of it under `dflash_config`, and that their blocks see later rows.
    let inside = r#""is_causal": false, "dflash_config": {"block_size": 8, "mask_token_id""#;
    let newer = changed(r#""dflash_config": {"mask_token_id""#, inside).unwrap().dflash.unwrap();
    assert_eq!((newer.block_size, newer.layers[0].causal), (8, false));
    let unnamed = changed(r#", "target_layer_ids": [1, 16, 31, 46, 61]"#, "").unwrap().dflash.unwrap();
    assert_eq!(unnamed.target_layer_ids, [1, 61]);
    for (from, to, words) in [
        (r#""mask_token_id": 248070, "#, "", "missing `mask_token_id`"),
        (r#""sliding_window": 2048,"#, "", "missing `sliding_window`"),
        (r#""full_attention""#, r#""linear_attention""#, "`layer_types` has linear_attention"),
        (r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 5"#, "`layer_types` names 2 layers"),
        (r#""rope_scaling": null"#, r#""rope_scaling": {"rope_type": "yarn"}"#, "yarn"),
        (r#""attention_bias": false"#, r#""attention_bias": true"#, "attention_bias"),
        (r#""mask_token_id""#, r#""output_multiplier": 0.5, "mask_token_id""#, "`output_multiplier` is 0.5"),
        ("DFlashDraftModel", "DFlash2DraftModel", "missing `conv_kernel_size`"),
        (r#""mask_token_id""#, r#""conv_kernel_size": 2, "mask_token_id""#, "missing `conv_group_size`"),
        (r#""mask_token_id""#, r#""selector_top_k": 16, "mask_token_id""#, "missing `selector_rank`"),
    ] {
        let problem = changed(from, to).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}

/// The keys of the head for Qwen3.8 27B that an older head has not.
#[test]
fn dflash_2_heads_are_read() {
    let keys = r#"{"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16, "mask_token_id""#;
    let second = DFLASH_FILE.replace("DFlashDraftModel", "DFlash2DraftModel");
    let text = second.replace(r#"{"mask_token_id""#, keys);
    assert!(is_published(&text));
    let own = read(&text).unwrap().dflash.unwrap();
    assert_eq!(own.convolution, Some(ConvolutionShape { taps: 2, group: 16 }));
    assert_eq!(own.selector, Some(SelectorConfig { rank: 256, candidates: 16 }));
    assert_eq!(read(DFLASH_FILE).unwrap().dflash.unwrap().selector, None);
}
