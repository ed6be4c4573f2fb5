//! A model that writes real language, for tests: SmolLM2-135M-Instruct as the language model of a checkpoint in the layout of
//! SmolVLM2-256M, which has its sizes.
//!
//! `scripts/real-weights.sh` downloads the language model as GGUF in Q4_1. [`target`] and [`half`] make checkpoints of it next to
//! the file, once. Weights are f32, the exact values of the file. The vocabulary is extended to SmolVLM2's 49,280 tokens, and the
//! vision tower is a small random one: its connector mixes embeddings of words, scaled to the norm of an embedding, so that the
//! video changes the text but has no meaning.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use candle_core::{Device, quantized::gguf_file};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use specreel_tensor::weights::random_values;

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Changes with the checkpoints, which are then made again under another name.
const VERSION: &str = "1";

const HIDDEN: usize = 576;
const LAYERS: usize = 30;
const HEADS: usize = 9;
const KEY_HEADS: usize = 3;
const FEED_FORWARD: usize = 1536;
/// Tokens of SmolLM2; the first ones are special.
const TOKENS: usize = 49_152;
const SPECIAL: usize = 17;
/// Tokens of SmolVLM2.
const VOCABULARY: usize = 49_280;

const TOWER_WIDTH: usize = 192;
const TOWER_LAYERS: usize = 4;
const IMAGE: usize = 512;
const PATCH: usize = 16;
/// A visual token stands for so many patches in each direction.
const SHUFFLE: usize = 4;

/// Factor of the end token's logit: a clip without meaning makes the model end its answer before the first word.
const END: f32 = 0.85;

const WORDS: &str = "man woman bike road tree street riding car house green rabbit grass forest walking people sky city light \
    window running water small red flower";

/// The checkpoint. Without the downloaded file a test says so and is over; with `SPECREEL_REQUIRE_REAL_WEIGHTS=1` it fails.
pub fn target() -> Option<PathBuf> {
    checkpoint("smolvlm2-text", LAYERS)
}

/// The same with the first half of the layers: a drafter.
pub fn half() -> Option<PathBuf> {
    checkpoint("smolvlm2-text-half", LAYERS / 2)
}

fn checkpoint(name: &str, layers: usize) -> Option<PathBuf> {
    let cache = cache()?;
    let file = cache.join(FILE);
    if !file.is_file() {
        let missing = format!("{} is missing: run scripts/real-weights.sh", file.display());
        let required = std::env::var_os("SPECREEL_REQUIRE_REAL_WEIGHTS").is_some_and(|value| value == "1");
        assert!(!required, "{missing}");
        eprintln!("skipped: {missing}");
        return None;
    }
    let dir = cache.join(format!("{name}-{VERSION}"));
    // Tests are processes of their own: one of them makes it, and the others wait.
    let lock = File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !dir.is_dir() {
        let made = tempfile::tempdir_in(&cache).unwrap();
        write(&Gguf::read(&file), layers, made.path());
        fs::rename(made.keep(), &dir).unwrap();
    }
    Some(dir)
}

fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SPECREEL_TEST_CACHE").or_else(|| {
        let user = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        user.map(|dir| dir.join("specreel-test"))
    })
}

struct Gguf {
    metadata: HashMap<String, gguf_file::Value>,
    /// Row-major values.
    tensors: HashMap<String, Vec<f32>>,
}

impl Gguf {
    fn read(path: &Path) -> Self {
        let mut file = File::open(path).unwrap();
        let content = gguf_file::Content::read(&mut file).unwrap();
        let mut values = |name: &str| {
            let tensor = content.tensor(&mut file, name, &Device::Cpu).unwrap();
            tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap()
        };
        let tensors = content.tensor_infos.keys().map(|name| (name.clone(), values(name))).collect();
        Self { metadata: content.metadata, tensors }
    }

    fn strings(&self, key: &str) -> Vec<String> {
        let values = self.metadata[key].to_vec().unwrap();
        values.iter().map(|value| value.to_string().unwrap().clone()).collect()
    }

    fn tensor(&self, name: &str) -> &[f32] {
        &self.tensors[&format!("{name}.weight")]
    }
}

/// Rows of heads as Hugging Face has them: in a GGUF file those that rotate together are neighbors.
fn unpaired(matrix: &[f32], heads: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = matrix.chunks_exact(HIDDEN).collect();
    let half = rows.len() / heads / 2;
    let source = |row: usize| {
        let (head, within) = (row / (2 * half), row % (2 * half));
        head * 2 * half + 2 * (within % half) + within / half
    };
    (0..rows.len()).flat_map(|row| rows[source(row)]).copied().collect()
}

#[derive(Default)]
struct Tensors(Vec<(String, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn push(&mut self, name: impl Into<String>, shape: &[usize], values: &[f32]) {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.push((name.into(), shape.to_vec(), bytes));
    }

    /// Random values, those of matrices with a variance of `gain²` over the number of inputs.
    fn random(&mut self, name: String, shape: &[usize], gain: f32) {
        let mut values = random_values(&name, shape);
        if shape.len() > 1 {
            values.iter_mut().for_each(|value| *value *= gain);
        }
        self.push(name, shape, &values);
    }

    fn save(&self, path: &Path) {
        let views = self.0.iter().map(|(name, shape, bytes)| {
            (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize_to_file(views, None, path).unwrap();
    }
}

fn write(gguf: &Gguf, layers: usize, dir: &Path) {
    let mut tokens = gguf.strings("tokenizer.ggml.tokens");
    assert_eq!(tokens.len(), TOKENS);
    let merges = gguf.strings("tokenizer.ggml.merges");
    tokens.extend(added_tokens());
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let mut tensors = Tensors::default();
    embeddings(gguf, &ids, &mut tensors);
    decoder(gguf, layers, &mut tensors);
    tower(gguf, &ids, &mut tensors);
    tensors.save(&dir.join("model.safetensors"));
    let end = ids["<end_of_utterance>"];
    for (name, value) in [
        ("tokenizer.json", tokenizer(&tokens, &merges)),
        ("config.json", config(layers, ids["<image>"])),
        ("generation_config.json", json!({ "bos_token_id": 1, "eos_token_id": end, "pad_token_id": 2 })),
        ("preprocessor_config.json", processor()),
    ] {
        fs::write(dir.join(name), value.to_string()).unwrap();
    }
}

/// The tokens after SmolLM2's, so that `<image>` is 49,190 and `<end_of_utterance>` 49,279, as in SmolVLM2.
fn added_tokens() -> Vec<String> {
    let mut added = vec!["<global-img>".to_owned()];
    added.extend((1..=6).flat_map(|row| (1..=6).map(move |column| format!("<row_{row}_col_{column}>"))));
    added.extend(["<fake_token_around_image>", "<image>"].map(str::to_owned));
    let reserved = VOCABULARY - TOKENS - added.len() - 1;
    added.extend((0..reserved).map(|n| format!("<|reserved_special_token_{n}|>")));
    added.push("<end_of_utterance>".to_owned());
    added
}

/// Embeddings and the rows of the LM head, which differ: an answer ends with SmolVLM2's token in place of SmolLM2's, and
/// other new tokens are as unlikely as `<reponame>`.
fn embeddings(gguf: &Gguf, ids: &HashMap<&str, usize>, tensors: &mut Tensors) {
    let mut table = gguf.tensor("token_embd").to_vec();
    let mut head = table.clone();
    let row = |id: usize| id * HIDDEN..(id + 1) * HIDDEN;
    let words = &table[SPECIAL * HIDDEN..];
    let mean: Vec<f32> = (0..HIDDEN)
        .map(|at| words[at..].iter().step_by(HIDDEN).sum::<f32>() / (TOKENS - SPECIAL) as f32)
        .collect();
    let (unlikely, end) = (head[row(ids["<reponame>"])].to_vec(), head[row(ids["<|im_end|>"])].to_vec());
    for _ in TOKENS..VOCABULARY {
        table.extend(&mean);
        head.extend(&unlikely);
    }
    for (token, like) in
        [("<fake_token_around_image>", "Ċ"), ("<global-img>", ":"), ("<end_of_utterance>", "<|im_end|>")]
    {
        table.copy_within(row(ids[like]), ids[token] * HIDDEN);
    }
    let end: Vec<f32> = end.iter().map(|value| END * value).collect();
    head[row(ids["<end_of_utterance>"])].copy_from_slice(&end);
    head[row(ids["<|im_end|>"])].copy_from_slice(&unlikely);
    tensors.push("model.text_model.embed_tokens.weight", &[VOCABULARY, HIDDEN], &table);
    tensors.push("lm_head.weight", &[VOCABULARY, HIDDEN], &head);
    tensors.push("model.text_model.norm.weight", &[HIDDEN], gguf.tensor("output_norm"));
}

fn decoder(gguf: &Gguf, layers: usize, tensors: &mut Tensors) {
    let keys = HIDDEN / HEADS * KEY_HEADS;
    for layer in 0..layers {
        let from = |name: &str| gguf.tensor(&format!("blk.{layer}.{name}"));
        let mut push = |name: &str, shape: &[usize], values: &[f32]| {
            tensors.push(format!("model.text_model.layers.{layer}.{name}.weight"), shape, values);
        };
        push("self_attn.q_proj", &[HIDDEN, HIDDEN], &unpaired(from("attn_q"), HEADS));
        push("self_attn.k_proj", &[keys, HIDDEN], &unpaired(from("attn_k"), KEY_HEADS));
        push("self_attn.v_proj", &[keys, HIDDEN], from("attn_v"));
        push("self_attn.o_proj", &[HIDDEN, HIDDEN], from("attn_output"));
        push("mlp.gate_proj", &[FEED_FORWARD, HIDDEN], from("ffn_gate"));
        push("mlp.up_proj", &[FEED_FORWARD, HIDDEN], from("ffn_up"));
        push("mlp.down_proj", &[HIDDEN, FEED_FORWARD], from("ffn_down"));
        push("input_layernorm", &[HIDDEN], from("attn_norm"));
        push("post_attention_layernorm", &[HIDDEN], from("ffn_norm"));
    }
}

fn tower(gguf: &Gguf, ids: &HashMap<&str, usize>, tensors: &mut Tensors) {
    let (w, patches) = (TOWER_WIDTH, (IMAGE / PATCH) * (IMAGE / PATCH));
    let name = |rest: &str| format!("model.vision_model.{rest}");
    tensors.random(name("embeddings.patch_embedding.weight"), &[w, 3, PATCH, PATCH], 1.5);
    tensors.random(name("embeddings.patch_embedding.bias"), &[w], 1.0);
    tensors.random(name("embeddings.position_embedding.weight"), &[patches, w], 4.0);
    for layer in 0..TOWER_LAYERS {
        let mut matrix = |rest: &str, outputs: usize, inputs: usize| {
            let name = name(&format!("encoder.layers.{layer}.{rest}"));
            tensors.random(format!("{name}.weight"), &[outputs, inputs], 1.2);
            tensors.random(format!("{name}.bias"), &[outputs], 1.0);
        };
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            matrix(&format!("self_attn.{part}"), w, w);
        }
        matrix("mlp.fc1", 2 * w, w);
        matrix("mlp.fc2", w, 2 * w);
        for norm in ["layer_norm1", "layer_norm2"] {
            tensors.random(name(&format!("encoder.layers.{layer}.{norm}.weight")), &[w], 1.0);
            tensors.random(name(&format!("encoder.layers.{layer}.{norm}.bias")), &[w], 1.0);
        }
    }
    tensors.random(name("post_layernorm.weight"), &[w], 1.0);
    tensors.random(name("post_layernorm.bias"), &[w], 1.0);
    connector(gguf, ids, tensors);
}

/// Σ word · directionᵀ over some words. States are normed, so that their product with a random direction has a variance of 1.
fn connector(gguf: &Gguf, ids: &HashMap<&str, usize>, tensors: &mut Tensors) {
    let table = gguf.tensor("token_embd");
    let embedding = |id: usize| &table[id * HIDDEN..(id + 1) * HIDDEN];
    let square = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>();
    let words: Vec<&[f32]> =
        WORDS.split_whitespace().map(|word| embedding(ids[format!("Ġ{word}").as_str()])).collect();
    let typical =
        (SPECIAL..TOKENS).map(|id| square(embedding(id)).sqrt()).sum::<f32>() / (TOKENS - SPECIAL) as f32;
    let scale = typical / words.iter().map(|word| square(word)).sum::<f32>().sqrt();
    let inputs = TOWER_WIDTH * SHUFFLE * SHUFFLE;
    let directions = random_values("directions", &[words.len(), inputs]);
    let mut matrix = vec![0.0; HIDDEN * inputs];
    for (output, row) in matrix.chunks_exact_mut(inputs).enumerate() {
        for (word, direction) in words.iter().zip(directions.chunks_exact(inputs)) {
            row.iter_mut().zip(direction).for_each(|(value, along)| *value += scale * word[output] * along);
        }
    }
    tensors.push("model.connector.modality_projection.proj.weight", &[HIDDEN, inputs], &matrix);
}

fn tokenizer(tokens: &[String], merges: &[String]) -> Value {
    let added: Vec<Value> = (0..SPECIAL)
        .chain(TOKENS..VOCABULARY)
        .map(|id| {
            json!({
                "id": id, "content": tokens[id], "special": true,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let vocabulary: serde_json::Map<String, Value> =
        tokens[..TOKENS].iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let bytes =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    let digits = json!({ "type": "Digits", "individual_digits": true });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [digits, bytes] },
        "post_processor": null,
        "decoder": bytes,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges,
        },
    })
}

fn config(layers: usize, image: usize) -> Value {
    json!({
        "architectures": ["SmolVLMForConditionalGeneration"],
        "model_type": "smolvlm",
        "image_token_id": image,
        "scale_factor": SHUFFLE,
        "tie_word_embeddings": false,
        "text_config": {
            "model_type": "llama",
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": FEED_FORWARD,
            "num_hidden_layers": layers,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_HEADS,
            "head_dim": HIDDEN / HEADS,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "rope_theta": 100_000.0,
            "tie_word_embeddings": false,
        },
        "vision_config": {
            "model_type": "smolvlm_vision",
            "hidden_size": TOWER_WIDTH,
            "intermediate_size": 2 * TOWER_WIDTH,
            "num_hidden_layers": TOWER_LAYERS,
            "num_attention_heads": 3,
            "num_channels": 3,
            "image_size": IMAGE,
            "patch_size": PATCH,
        },
    })
}

fn processor() -> Value {
    let edge = |side: usize| json!({ "longest_edge": side });
    json!({
        "image_processor_type": "SmolVLMImageProcessor",
        "do_convert_rgb": true, "do_image_splitting": true, "do_normalize": true, "do_pad": true,
        "do_rescale": true, "do_resize": true,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "rescale_factor": 1.0 / 255.0, "resample": 1,
        "max_image_size": edge(IMAGE), "size": edge(4 * IMAGE),
        "video_sampling": { "fps": 1, "max_frames": 64, "video_size": edge(IMAGE) },
    })
}
