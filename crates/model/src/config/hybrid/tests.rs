use serde_json::json;

use super::*;
use crate::{config::TextConfig, family::VlConfig};

/// The published file of the 0.8B model, with layers that are named one by one.
fn published() -> Value {
    let types: Vec<&str> = (1..=24).map(|layer| if layer % 4 == 0 { FULL } else { LINEAR }).collect();
    json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "image_token_id": 248_056,
        "text_config": {
            "attention_bias": false, "attn_output_gate": true, "eos_token_id": 248_044,
            "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 1024,
            "intermediate_size": 3584, "layer_types": types, "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 16,
            "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262_144,
            "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": false, "num_attention_heads": 8, "num_hidden_layers": 24,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "vocab_size": 248_320,
            "rope_parameters": {
                "mrope_interleaved": true, "mrope_section": [11, 11, 10], "rope_type": "default",
                "rope_theta": 10_000_000, "partial_rotary_factor": 0.25
            }
        },
        "tie_word_embeddings": true, "video_token_id": 248_057,
        "vision_config": {"deepstack_visual_indexes": [], "model_type": "qwen3_5"}
    })
}

fn resolve(raw: &Value) -> Result<TextConfig, String> {
    VlConfig::resolve(raw.clone()).map(|config| config.text)
}

#[test]
fn the_published_file_resolves() {
    let config = VlConfig::resolve(published()).unwrap();
    assert_eq!((config.family.name, config.video_token), ("Qwen3.5", 248_057));
    let c = config.text;
    assert_eq!((c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim), (1024, 24, 8, 2, 256));
    assert_eq!((c.tied, c.bias, c.qk_norm, c.interleaved, c.deepstack), (true, false, true, true, 0));
    assert_eq!((c.output_gate, c.norm_offset, c.rotary_dim), (true, true, 64));
    assert_eq!((c.mrope_section, c.rope_theta, c.max_positions), (Some([11, 11, 10]), 1e7, 262_144));
    let linear = c.linear.unwrap();
    assert_eq!((linear.every, linear.kernel, linear.tiled), (4, 4, false));
    assert_eq!((linear.key_heads, linear.value_heads, linear.key_dim, linear.value_dim), (16, 16, 128, 128));
    let full: Vec<usize> = (0..24).filter(|layer| !c.is_linear(*layer)).collect();
    assert_eq!((full, c.attention_layers()), (vec![3, 7, 11, 15, 19, 23], 6));
}

#[test]
fn every_spelling_of_a_value_is_read() {
    let expected = resolve(&published()).unwrap();
    for (key, values) in [
        ("hidden_act", &["swish"][..]),
        // Of the gate of linear attention; since Qwen3.8.
        ("output_gate_type", &["swish", "silu"]),
    ] {
        for value in values {
            let mut raw = published();
            raw["text_config"][key] = json!(value);
            assert_eq!(resolve(&raw).unwrap(), expected, "{key}");
            raw["text_config"][key] = json!("sigmoid");
            assert!(resolve(&raw).unwrap_err().contains(key));
        }
    }
    let mut raw = published();
    raw["text_config"]["rope_parameters"]["mrope_section"] = json!([11, 11, 10, 0]);
    assert_eq!(resolve(&raw).unwrap(), expected, "four axes");
    raw["text_config"]["rope_parameters"]["mrope_section"] = json!([11, 11, 9, 1]);
    assert!(resolve(&raw).unwrap_err().contains("mrope_section"));
    let mut raw = published();
    raw["language_model_only"] = json!(false);
    assert_eq!(resolve(&raw).unwrap(), expected);
    raw["language_model_only"] = json!(true);
    assert!(resolve(&raw).unwrap_err().contains("language_model_only"));
    // Without a list of layers, as newer versions of transformers accept it.
    let mut raw = published();
    raw["text_config"].as_object_mut().unwrap().remove("layer_types");
    assert_eq!(resolve(&raw).unwrap(), expected);
    raw["text_config"].as_object_mut().unwrap().remove("full_attention_interval");
    assert_eq!(resolve(&raw).unwrap(), expected);
    // The list counts where it says something else.
    let mut raw = published();
    raw["text_config"]["full_attention_interval"] = json!(2);
    assert_eq!(resolve(&raw).unwrap(), expected);
    // The rotated share next to the other keys.
    let mut raw = published();
    raw["text_config"]["rope_parameters"].as_object_mut().unwrap().remove("partial_rotary_factor");
    assert_eq!(resolve(&raw).unwrap(), expected, "the default");
    raw["text_config"]["partial_rotary_factor"] = json!(0.5);
    raw["text_config"]["rope_parameters"]["mrope_section"] = json!([22, 22, 20]);
    assert_eq!(resolve(&raw).unwrap().rotary_dim, 128);
    raw["text_config"]["rope_parameters"]["partial_rotary_factor"] = json!(0.25);
    assert!(resolve(&raw).unwrap_err().contains("mrope_section"), "the inner one counts");
    // All layers have full attention.
    let mut raw = published();
    raw["text_config"]["layer_types"] = json!(vec![FULL; 24]);
    let c = resolve(&raw).unwrap();
    assert_eq!((c.linear, c.attention_layers()), (None, 24));
    raw["text_config"]["attn_output_gate"] = json!(false);
    assert!(!resolve(&raw).unwrap().output_gate);
}

#[test]
fn keys_that_a_saved_file_leaves_out_have_their_defaults() {
    let raw = json!({"model_type": "qwen3_5", "text_config": {}, "vision_config": {}});
    let config = VlConfig::resolve(raw).unwrap();
    let c = config.text;
    assert_eq!(config.video_token, 248_057);
    assert_eq!((c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim), (4096, 32, 16, 4, 256));
    assert_eq!((c.intermediate, c.vocab, c.tied, c.max_positions), (12_288, 248_320, false, 32_768));
    let linear = c.linear.unwrap();
    assert_eq!((linear.key_heads, linear.value_heads, linear.every), (16, 32, 4));
    assert_eq!((linear.key_dim, linear.value_dim, linear.kernel), (128, 128, 4));
}

#[test]
fn layers_that_do_not_repeat_are_refused_by_their_number() {
    let kinds = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut raw = published();
        change(raw["text_config"]["layer_types"].as_array_mut().unwrap());
        resolve(&raw).unwrap_err()
    };
    for (error, words) in [
        (
            kinds(&|l| l.swap(4, 7)),
            "`full_attention` for layer 5, expected `linear_attention`: the types of the first 4",
        ),
        (kinds(&|l| l[7] = json!(LINEAR)), "`linear_attention` for layer 8, expected `full_attention`"),
        (
            kinds(&|l| l[1] = json!(FULL)),
            "`linear_attention` for layer 6, expected `full_attention`: the types of the first 2",
        ),
        (
            kinds(&|l| l[2] = json!("sliding_attention")),
            "`sliding_attention` for layer 3, expected linear_attention or",
        ),
        (kinds(&|l| l.truncate(20)), "has 20 layers, `num_hidden_layers` is 24"),
        (kinds(&|l| l.fill(json!(LINEAR))), "no layer with `full_attention`"),
        (kinds(&|l| l[0] = json!(3)), "invalid type"),
    ] {
        assert!(error.contains(words), "lacks {words}: {error}");
    }
}

#[test]
fn states_and_positions_that_do_not_fit_are_refused_by_name() {
    for (key, value, words) in [
        ("linear_num_key_heads", json!(0), "expected 1 to 1024"),
        (
            "linear_num_key_heads",
            json!(5),
            "`linear_num_value_heads` (16) is not a multiple of `linear_num_key_heads` (5)",
        ),
        ("linear_num_value_heads", json!(24), "is not a multiple"),
        ("linear_num_value_heads", json!(1u64 << 40), "expected 1 to 1024"),
        ("linear_key_head_dim", json!(0), "expected 1 to 1024"),
        ("linear_value_head_dim", json!(4096), "expected 1 to 1024"),
        ("linear_value_head_dim", json!("wide"), "invalid type"),
        ("linear_conv_kernel_dim", json!(1), "expected 2 to 64"),
        ("linear_conv_kernel_dim", json!(0), "expected 2 to 64"),
        ("full_attention_interval", json!(0), "expected 1 to 24"),
        ("full_attention_interval", json!(25), "expected 1 to 24"),
        ("attention_bias", json!(true), "attention_bias"),
        ("model_type", json!("qwen3_5_moe_text"), "unsupported language model `qwen3_5_moe_text`"),
        ("model_type", json!("qwen3_next"), "qwen3_next"),
    ] {
        let mut raw = published();
        let text = raw["text_config"].as_object_mut().unwrap();
        if key == "full_attention_interval" {
            text.remove("layer_types");
        }
        text.insert(key.into(), value.clone());
        let error = resolve(&raw).unwrap_err();
        assert!(error.contains(words), "{key} = {value}: {error}");
    }
    for (key, value, words) in [
        ("mrope_section", json!([24, 20, 20]), "does not add up to half of the 64 rotated values of a head"),
        ("mrope_section", json!([11, 11]), "mrope_section"),
        ("partial_rotary_factor", json!(0.0), "`partial_rotary_factor` is 0"),
        ("partial_rotary_factor", json!(-0.25), "`partial_rotary_factor` is -0.25"),
        ("partial_rotary_factor", json!(1.5), "it rotates 384"),
        ("partial_rotary_factor", json!(0.254), "it rotates 65"),
        ("mrope_interleaved", json!(false), "mrope_interleaved"),
        ("rope_type", json!("yarn"), "yarn"),
    ] {
        let mut raw = published();
        raw["text_config"]["rope_parameters"][key] = value.clone();
        let error = resolve(&raw).unwrap_err();
        assert!(error.contains(words), "{key} = {value}: {error}");
    }
    // Shares are rounded down, as in the reference.
    let mut raw = published();
    raw["text_config"]["rope_parameters"]["partial_rotary_factor"] = json!(0.253);
    assert_eq!(resolve(&raw).unwrap().rotary_dim, 64);
}
