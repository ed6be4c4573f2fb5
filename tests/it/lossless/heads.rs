//! Draft heads of other layouts than the trained ones, for any target.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    config::Gemma,
    draft_head::{DraftHead, layer_of},
    family::VideoLlm,
};

/// Values between -1 and 1.
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// An EAGLE-3 head that drafts two thirds of the ids: those that the target's state before a token speaks for, disturbed by a
/// random layer. A `newer` one norms the states, and goes on from its normed outputs (EAGLE 3.1).
pub fn eagle3(target: &VideoLlm, newer: bool) -> DraftHead {
    let c = &layer_of(target.decoder().config());
    let (d, vocab, cpu) = (c.hidden, c.vocab, &Device::Cpu);
    let tensor = |values: Vec<f32>, shape: &[usize]| Tensor::from_vec(values, shape, cpu).unwrap();
    let mut tensors = HashMap::new();
    let mut random = |name: &str, shape: &[usize], scale: f32| {
        let values =
            noise(shape.iter().product(), name.len() as u64).into_iter().map(|v| v * scale).collect();
        tensors.insert(name.to_owned(), tensor(values, shape));
    };
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    for (name, rows) in [("q", q), ("k", kv), ("v", kv)] {
        random(&format!("midlayer.self_attn.{name}_proj.weight"), &[rows, 2 * d], 0.1);
        random(&format!("midlayer.self_attn.{name}_proj.bias"), &[rows], 0.1);
    }
    random("midlayer.self_attn.o_proj.weight", &[d, q], 0.1);
    for name in ["gate", "up"] {
        random(&format!("midlayer.mlp.{name}_proj.weight"), &[48, d], 0.1);
    }
    random("midlayer.mlp.down_proj.weight", &[d, 48], 0.1);
    for name in [
        "midlayer.input_layernorm.weight",
        "midlayer.hidden_norm.weight",
        "midlayer.post_attention_layernorm.weight",
        "norm.weight",
    ] {
        tensors.insert(name.to_owned(), Tensor::ones(d, DType::F32, cpu).unwrap());
    }
    if newer {
        for state in 0..3 {
            let ones = Tensor::ones(d, DType::F32, cpu).unwrap();
            tensors.insert(format!("fc_norm.{state}.weight"), ones);
        }
    }
    // Of the three states the last.
    let last = (0..d * 3 * d).map(|i| if i % (3 * d) == 2 * d + i / (3 * d) { 1.0 } else { 0.0 }).collect();
    tensors.insert("fc.weight".to_owned(), tensor(last, &[d, 3 * d]));
    let kept: Vec<u32> = (0..vocab as u32).filter(|id| id % 3 != 2).collect();
    let rows = target.decoder().embed(&kept).unwrap().to_vec().unwrap();
    tensors.insert("lm_head.weight".to_owned(), tensor(rows, &[kept.len(), d]));
    let offsets = kept.iter().zip(0i64..).map(|(id, row)| i64::from(*id) - row).collect::<Vec<_>>();
    tensors.insert("d2t".to_owned(), Tensor::from_vec(offsets, kept.len(), cpu).unwrap());

    let rope = c.mrope_section.map(|section| {
        serde_json::json!({ "type": "mrope", "mrope_section": section, "mrope_interleaved": c.interleaved })
    });
    let config = serde_json::json!({
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": d,
        "intermediate_size": 48,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "num_hidden_layers": 1,
        "head_dim": c.head_dim,
        "rms_norm_eps": c.norm_eps,
        "rope_theta": c.rope_theta,
        "rope_scaling": rope,
        "vocab_size": vocab,
        "draft_vocab_size": kept.len(),
        "eagle_config": { "eagle_aux_hidden_state_layer_ids": [0, c.layers / 2, c.layers - 1] },
        "fc_norm": newer,
        "norm_output": newer,
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, dir.path().join("model.safetensors")).unwrap();
    DraftHead::load(dir.path(), target.decoder()).unwrap()
}

/// A layer for multi-token prediction in a target's own checkpoint: what the target's state before a token speaks for, disturbed by
/// a random layer of the form of the target's own.
pub fn mtp(target: &VideoLlm) -> DraftHead {
    let c = target.decoder().config();
    let (d, cpu) = (c.hidden, &Device::Cpu);
    let tensor = |values: Vec<f32>, shape: &[usize]| Tensor::from_vec(values, shape, cpu).unwrap();
    let mut tensors = HashMap::new();
    let mut random = |name: &str, shape: &[usize]| {
        let values = noise(shape.iter().product(), name.len() as u64).into_iter().map(|v| v * 0.1).collect();
        tensors.insert(format!("mtp.{name}"), tensor(values, shape));
    };
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let queries = if c.output_gate { 2 * q } else { q };
    for (name, rows) in [("q", queries), ("k", kv), ("v", kv)] {
        random(&format!("layers.0.self_attn.{name}_proj.weight"), &[rows, d]);
        if c.bias {
            random(&format!("layers.0.self_attn.{name}_proj.bias"), &[rows]);
        }
    }
    random("layers.0.self_attn.o_proj.weight", &[d, q]);
    let mut dense = |name: &str, width: usize| {
        random(&format!("layers.0.mlp.{name}gate_proj.weight"), &[width, d]);
        random(&format!("layers.0.mlp.{name}up_proj.weight"), &[width, d]);
        random(&format!("layers.0.mlp.{name}down_proj.weight"), &[d, width]);
    };
    match &c.sparse {
        None => dense("", c.intermediate),
        Some(sparse) => {
            sparse.shared.iter().for_each(|width| dense("shared_expert.", *width));
            random("layers.0.mlp.shared_expert_gate.weight", &[1, d]);
            random("layers.0.mlp.gate.weight", &[sparse.experts, d]);
            random("layers.0.mlp.experts.gate_up_proj", &[sparse.experts, 2 * sparse.width, d]);
            random("layers.0.mlp.experts.down_proj", &[sparse.experts, d, sparse.width]);
        }
    }
    let neutral = if c.norm_offset { 0.0 } else { 1.0 };
    let mut norm = |name: &str, width: usize| {
        tensors.insert(format!("mtp.{name}.weight"), tensor(vec![neutral; width], &[width]));
    };
    let names = "layers.0.input_layernorm layers.0.post_attention_layernorm norm pre_fc_norm_embedding \
             pre_fc_norm_hidden";
    for name in names.split(' ') {
        norm(name, d);
    }
    for name in ["q", "k"].into_iter().filter(|_| c.qk_norm) {
        norm(&format!("layers.0.self_attn.{name}_norm"), c.head_dim);
    }
    // Of embedding and state the state.
    let state = (0..d * 2 * d).map(|i| if i % (2 * d) == d + i / (2 * d) { 1.0 } else { 0.0 }).collect();
    tensors.insert("mtp.fc.weight".to_owned(), tensor(state, &[d, 2 * d]));
    let dir = tempfile::tempdir().unwrap();
    candle_core::safetensors::save(&tensors, dir.path().join("model.safetensors")).unwrap();
    DraftHead::own(Checkpoint::open(dir.path()).unwrap(), target.decoder(), "random").unwrap()
}

/// A DFlash head of two layers that drafts what the target's state at the token before the root speaks for, disturbed by random layers,
/// one of which sees few rows: it is right now and then. With `second` it has the parts of DFlash 2.
pub fn dflash(target: &VideoLlm, second: bool) -> DraftHead {
    let c = &layer_of(target.decoder().config());
    let (d, cpu) = (c.hidden, &Device::Cpu);
    let tensor = |values: Vec<f32>, shape: &[usize]| Tensor::from_vec(values, shape, cpu).unwrap();
    let mut tensors = HashMap::new();
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    for layer in 0..2 {
        let mut random = |name: &str, shape: &[usize], scale: f32| {
            let name = format!("layers.{layer}.{name}.weight");
            let seed = (name.len() + 31 * layer) as u64;
            let values = noise(shape.iter().product(), seed).into_iter().map(|v| v * scale).collect();
            tensors.insert(name, tensor(values, shape));
        };
        random("self_attn.q_proj", &[q, d], 0.1);
        random("self_attn.k_proj", &[kv, d], 0.1);
        random("self_attn.v_proj", &[kv, d], 0.6);
        random("self_attn.o_proj", &[d, q], 0.6);
        random("mlp.gate_proj", &[48, d], 0.1);
        random("mlp.up_proj", &[48, d], 0.1);
        random("mlp.down_proj", &[d, 48], 0.1);
        for name in ["attention_conv", "mlp_conv"].into_iter().filter(|_| second) {
            random(&format!("{name}.kernel_projection"), &[2 * 2 * d / 8, d], 0.1);
        }
        for name in ["attention_conv", "mlp_conv"].into_iter().filter(|_| second) {
            let one_side = [vec![1.0; d], vec![0.1; d]].concat();
            let taps = tensor(one_side.repeat(2), &[2, 2, d]);
            tensors.insert(format!("layers.{layer}.{name}.base_kernel"), taps);
        }
        for (name, width) in [
            ("input_layernorm", d),
            ("post_attention_layernorm", d),
            ("self_attn.q_norm", c.head_dim),
            ("self_attn.k_norm", c.head_dim),
        ] {
            let ones = Tensor::ones(width, DType::F32, cpu).unwrap();
            tensors.insert(format!("layers.{layer}.{name}.weight"), ones);
        }
    }
    for name in ["hidden_norm.weight", "norm.weight"] {
        tensors.insert(name.to_owned(), Tensor::ones(d, DType::F32, cpu).unwrap());
    }
    // Of the two states the last.
    let last = (0..d * 2 * d).map(|i| if i % (2 * d) == d + i / (2 * d) { 1.0 } else { 0.0 }).collect();
    tensors.insert("fc.weight".to_owned(), tensor(last, &[d, 2 * d]));
    let mut own = serde_json::json!({ "mask_token_id": 3, "target_layer_ids": [0, c.layers - 1] });
    if second {
        for (key, size) in
            [("conv_kernel_size", 2), ("conv_group_size", 8), ("selector_rank", 12), ("selector_top_k", 9)]
        {
            own[key] = size.into();
        }
        for (name, shape) in [
            ("predecessor_codebook", [c.vocab, 12]),
            ("successor_codebook", [c.vocab, 12]),
            ("hidden_projection.weight", [12, d]),
        ] {
            let values = noise(shape[0] * shape[1], name.len() as u64);
            tensors.insert(format!("candidate_selector.{name}"), tensor(values, &shape));
        }
    }
    let rope = c.mrope_section.map(|section| {
        serde_json::json!({ "type": "mrope", "mrope_section": section, "mrope_interleaved": c.interleaved })
    });
    let config = serde_json::json!({
        "architectures": [if second { "DFlash2DraftModel" } else { "DFlashDraftModel" }],
        "model_type": "qwen3",
        "block_size": 6,
        "dflash_config": own,
        "hidden_size": d,
        "intermediate_size": 48,
        "is_causal": false,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 16,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "num_hidden_layers": 2,
        "num_target_layers": c.layers,
        "head_dim": c.head_dim,
        "rms_norm_eps": c.norm_eps,
        "rope_theta": c.rope_theta,
        "rope_scaling": rope,
        "vocab_size": c.vocab,
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, dir.path().join("model.safetensors")).unwrap();
    DraftHead::load(dir.path(), target.decoder()).unwrap()
}

/// An assistant of a target of the family of Gemma 4, whose drafts are what the target's state before a token speaks for, disturbed by
/// random layers; a `clustered` one with logits for the ids of some clusters alone. `None` for other targets.
pub fn assistant(target: &VideoLlm, clustered: bool) -> Option<DraftHead> {
    let c = target.decoder().config();
    let Gemma { window, kv_heads, head_dim, rope_theta, rotated_pairs, .. } = c.gemma.as_ref()?;
    let (d, cpu) = (c.hidden, &Device::Cpu);
    let tensor = |values: Vec<f32>, shape: &[usize]| Tensor::from_vec(values, shape, cpu).unwrap();
    let mut tensors = HashMap::new();
    let ones = |width: usize| Tensor::ones(width, DType::F32, cpu).unwrap();
    for (layer, width) in [*head_dim, c.head_dim].into_iter().enumerate() {
        let mut random = |name: &str, shape: [usize; 2], scale: f32| {
            let name = format!("model.layers.{layer}.{name}.weight");
            let values = noise(shape[0] * shape[1], (name.len() + 31 * layer) as u64);
            tensors.insert(name, tensor(values.into_iter().map(|v| v * scale).collect(), &shape));
        };
        random("self_attn.q_proj", [c.heads * width, d], 0.3);
        random("self_attn.o_proj", [d, c.heads * width], 0.3);
        random("mlp.gate_proj", [48, d], 0.3);
        random("mlp.up_proj", [48, d], 0.3);
        random("mlp.down_proj", [d, 48], 0.3);
        let norms = ["input", "post_attention", "pre_feedforward", "post_feedforward"];
        for name in norms {
            // What the sublayers add is small.
            let weight = if name.starts_with("post") { 0.15 } else { 1.0 };
            tensors
                .insert(format!("model.layers.{layer}.{name}_layernorm.weight"), (ones(d) * weight).unwrap());
        }
        tensors.insert(format!("model.layers.{layer}.self_attn.q_norm.weight"), ones(width));
        tensors.insert(format!("model.layers.{layer}.layer_scalar"), ones(1));
    }
    tensors.insert("model.norm.weight".to_owned(), ones(d));
    // Of embedding and state the state.
    let last = (0..2 * d * d).map(|i| if i % (2 * d) == d + i / (2 * d) { 1.0 } else { 0.0 }).collect();
    tensors.insert("pre_projection.weight".to_owned(), tensor(last, &[d, 2 * d]));
    let same = (0..d * d).map(|i| if i % d == i / d { 1.0 } else { 0.0 }).collect();
    tensors.insert("post_projection.weight".to_owned(), tensor(same, &[d, d]));
    let ids: Vec<u32> = (0..c.vocab as u32).collect();
    let table = target.decoder().embed(&ids).unwrap().to_vec().unwrap();
    tensors.insert("model.embed_tokens.weight".to_owned(), tensor(table, &[c.vocab, d]));
    let clusters = (2..20).rev().find(|count| c.vocab.is_multiple_of(*count)).unwrap();
    if clustered {
        tensors.insert(
            "masked_embedding.centroids.weight".to_owned(),
            tensor(noise(clusters * d, 3), &[clusters, d]),
        );
        let mixed: Vec<i64> = (0..c.vocab).map(|place| (place * 7 % c.vocab) as i64).collect();
        let mixed = if c.vocab.is_multiple_of(7) { (0..c.vocab as i64).rev().collect() } else { mixed };
        let order = Tensor::from_vec(mixed, &[c.vocab], cpu).unwrap();
        tensors.insert("masked_embedding.token_ordering".to_owned(), order);
    }
    let config = serde_json::json!({
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "backbone_hidden_size": d,
        "use_ordered_embeddings": clustered,
        "num_centroids": clusters,
        "centroid_intermediate_top_k": clusters.div_ceil(2),
        "tie_word_embeddings": true,
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size": d,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_kv_shared_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": window,
            "num_attention_heads": c.heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "global_head_dim": c.head_dim,
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "rms_norm_eps": c.norm_eps,
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "proportional",
                    "rope_theta": c.rope_theta,
                    "partial_rotary_factor": 2.0 * *rotated_pairs as f64 / c.head_dim as f64,
                },
                "sliding_attention": { "rope_type": "default", "rope_theta": rope_theta },
            },
            "vocab_size": c.vocab,
        },
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, dir.path().join("model.safetensors")).unwrap();
    Some(DraftHead::load(dir.path(), target.decoder()).unwrap())
}
