use serde_json::json;

use super::*;
use crate::family::Family;

fn qwen3() -> Value {
    json!({
        "model_type": "qwen3_vl", "video_token_id": 7, "tie_word_embeddings": true,
        "vision_config": {"deepstack_visual_indexes": [1, 2]},
        "text_config": {
            "model_type": "qwen3_vl_text", "hidden_size": 64, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128,
            "vocab_size": 320, "rope_theta": 5_000_000, "attention_bias": false,
            "rope_scaling": {"mrope_interleaved": true, "mrope_section": [6, 5, 5], "rope_type": "default"}
        }
    })
}

fn smol() -> Value {
    json!({
        "model_type": "smolvlm", "image_token_id": 49_190, "tie_word_embeddings": false, "vocab_size": 49_280,
        "text_config": {
            "model_type": "llama", "head_dim": 64, "hidden_size": 960, "intermediate_size": 2560,
            "max_position_embeddings": 8192, "num_attention_heads": 15, "num_key_value_heads": 5,
            "rms_norm_eps": 1e-5, "rope_theta": 100_000, "pad_token_id": 2
        }
    })
}

fn resolve(raw: &Value) -> Result<TextConfig, String> {
    Family::of(raw).unwrap().language_model.config(raw)
}

#[test]
fn a_head_of_qwen3_may_be_wider_than_its_share_of_a_state() {
    let c = resolve(&qwen3()).unwrap();
    assert_eq!((c.hidden, c.heads * c.head_dim, c.deepstack), (64, 128, 2));
    assert_eq!((c.qk_norm, c.bias, c.interleaved, c.tied), (true, false, true, true));
    assert_eq!((c.mrope_section, c.rope_theta), (Some([6, 5, 5]), 5e6));
    // As newer versions of transformers save it.
    let mut raw = qwen3();
    let text = raw["text_config"].as_object_mut().unwrap();
    text.remove("rope_theta");
    let mut rope = text.remove("rope_scaling").unwrap();
    rope["rope_theta"] = json!(5_000_000);
    text.insert("rope_parameters".into(), rope);
    assert_eq!(resolve(&raw).unwrap(), c);
}

#[test]
fn a_llama_has_one_axis_and_no_biases() {
    let c = resolve(&smol()).unwrap();
    assert_eq!((c.layers, c.vocab, c.tied, c.mrope_section), (32, 49_280, false, None));
    assert_eq!((c.qk_norm, c.bias, c.interleaved, c.deepstack), (false, false, false, 0));
    assert_eq!((c.norm_eps, c.max_positions), (1e-5, 8192));
    let mut raw = smol();
    raw["text_config"]["tie_word_embeddings"] = json!(true);
    assert!(resolve(&raw).unwrap().tied);
    assert_eq!(Family::of(&raw).unwrap().language_model.video_token(&raw), Ok(49_190));
}

#[test]
fn keys_that_a_saved_file_leaves_out_have_their_defaults() {
    let raw = json!({"model_type": "qwen3_vl", "text_config": {}, "vision_config": {}});
    let c = resolve(&raw).unwrap();
    assert_eq!((c.hidden, c.layers, c.kv_heads, c.head_dim, c.vocab), (4096, 32, 32, 128, 151_936));
    assert_eq!((c.intermediate, c.rope_theta, c.mrope_section), (22_016, 5e5, Some([24, 20, 20])));
    assert_eq!((c.max_positions, c.norm_eps, c.deepstack), (128_000, 1e-6, 3));
    assert_eq!(Family::of(&raw).unwrap().language_model.video_token(&raw), Ok(151_656));
    let raw =
        json!({"model_type": "smolvlm", "text_config": {"hidden_size": 2048, "num_key_value_heads": 8}});
    let c = resolve(&raw).unwrap();
    assert_eq!((c.layers, c.heads, c.kv_heads, c.head_dim, c.vocab), (32, 32, 8, 64, 32_000));
    assert_eq!((c.intermediate, c.rope_theta, c.max_positions), (11_008, 1e4, 2048));
    let raw = json!({"model_type": "qwen2_vl", "hidden_size": 64});
    assert!(resolve(&raw).unwrap_err().contains("num_hidden_layers"));
}

#[test]
fn what_the_decoder_does_not_compute_is_refused_by_name() {
    let set = |mut raw: Value, at: &str, value: Value| {
        let (parent, key) = at.rsplit_once('/').unwrap();
        raw.pointer_mut(parent).unwrap()[key] = value;
        resolve(&raw).unwrap_err()
    };
    for (at, value, words) in [
        ("/text_config/attention_bias", json!(true), "attention_bias"),
        ("/text_config/rope_scaling/mrope_interleaved", json!(false), "mrope_interleaved"),
        ("/text_config/rope_scaling/mrope_section", json!([6, 5, 6]), "half of `head_dim`"),
        ("/text_config/rope_scaling/rope_type", json!("yarn"), "yarn"),
        ("/text_config/model_type", json!("qwen3_text"), "qwen3_text"),
        ("/text_config/hidden_act", json!("gelu"), "gelu"),
        ("/text_config/num_hidden_layers", json!(1), "2 levels, but the language model has 1 layers"),
        ("/vision_config/deepstack_visual_indexes", json!(3), "expected a list"),
    ] {
        let error = set(qwen3(), at, value);
        assert!(error.contains(words), "{at}: {error}");
    }
    for (at, value, words) in [
        ("/text_config/attention_bias", json!(true), "attention_bias"),
        ("/text_config/mlp_bias", json!(true), "mlp_bias"),
        ("/text_config/rope_scaling", json!({"rope_type": "llama3"}), "llama3"),
        ("/text_config/rope_scaling", json!({"type": "mrope"}), "expected default"),
        ("/text_config/rope_scaling", json!({"mrope_section": [8, 12, 12]}), "one axis"),
        ("/text_config/model_type", json!("mistral"), "mistral"),
    ] {
        let error = set(smol(), at, value);
        assert!(error.contains(words), "{at}: {error}");
    }
}
