//! A model that writes real language, for tests: SmolLM2-135M-Instruct as the language model of a checkpoint in the layout of
//! SmolVLM2-256M, which has its sizes.
//!
//! `scripts/real-weights.sh` downloads the language model as GGUF in Q4_1. [`target`] and [`half`] make checkpoints of it beside
//! the file, once. Weights are f32, the exact values of the file. The vocabulary is extended to SmolVLM2's 49,280 tokens, and the
//! vision tower is a small random one: its connector mixes embeddings of words, scaled to the norm of an embedding, so that the
//! video changes the text but has no meaning.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use specreel_tensor::{cpu::kernels::HalfKind, weights::random_values};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Changes with the checkpoints, which are made anew under another name.
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
        write(&Gguf::read(&fs::read(&file).unwrap()), layers, made.path());
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

/// The parts of a GGUF file that a checkpoint is made of.
struct Gguf {
    strings: HashMap<String, Vec<String>>,
    /// Row-major values.
    tensors: HashMap<String, Vec<f32>>,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> usize {
        u64::from_le_bytes(self.take(8).try_into().unwrap()) as usize
    }

    fn string(&mut self) -> String {
        let length = self.u64();
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    /// The strings of an array of strings; other values are skipped.
    fn value(&mut self) -> Vec<String> {
        let (kind, count) = match self.u32() {
            9 => (self.u32(), self.u64()),
            scalar => (scalar, 1),
        };
        let width = match kind {
            8 => return (0..count).map(|_| self.string()).collect(),
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            other => panic!("a value of type {other}"),
        };
        self.take(count * width);
        Vec::new()
    }
}

impl Gguf {
    fn read(bytes: &[u8]) -> Self {
        let mut reader = Reader { bytes, at: 8 };
        let (tensors, pairs) = (reader.u64(), reader.u64());
        let strings = (0..pairs).map(|_| (reader.string(), reader.value())).collect();
        let listed: Vec<(String, usize, u32, usize)> = (0..tensors)
            .map(|_| {
                let (name, sizes) = (reader.string(), reader.u32());
                let count = (0..sizes).map(|_| reader.u64()).product();
                (name, count, reader.u32(), reader.u64())
            })
            .collect();
        let start = reader.at.next_multiple_of(32);
        let values = |count, kind, at: usize| dequantized(kind, &bytes[start + at..], count);
        let tensors = listed.into_iter().map(|(name, count, kind, at)| (name, values(count, kind, at)));
        Self { strings, tensors: tensors.collect() }
    }

    fn tensor(&self, name: &str) -> &[f32] {
        &self.tensors[&format!("{name}.weight")]
    }
}

fn half_float(bytes: &[u8]) -> f32 {
    HalfKind::F16.widen(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// The first `count` values of a tensor of this type.
fn dequantized(kind: u32, bytes: &[u8], count: usize) -> Vec<f32> {
    match kind {
        0 => bytes[..4 * count].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
        // Q4_1: scale, minimum, 32 values of 4 bits, the second half in the upper bits.
        3 => bytes[..count / 32 * 20]
            .chunks_exact(20)
            .flat_map(|block| {
                let (scale, least, bits) = (half_float(block), half_float(&block[2..]), &block[4..]);
                let low = bits.iter().map(|byte| byte & 15);
                let all = low.chain(bits.iter().map(|byte| byte >> 4));
                all.map(move |bits| f32::from(bits) * scale + least).collect::<Vec<_>>()
            })
            .collect(),
        // Q8_0: scale, 32 values.
        8 => bytes[..count / 32 * 34]
            .chunks_exact(34)
            .flat_map(|block| block[2..].iter().map(|&byte| f32::from(byte as i8) * half_float(block)))
            .collect(),
        other => panic!("a tensor of type {other}"),
    }
}

/// Rows of heads as Hugging Face has them: in a GGUF file those that rotate together are neighbours.
fn unpaired(matrix: &[f32], heads: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = matrix.chunks_exact(HIDDEN).collect();
    let half = rows.len() / heads / 2;
    let source = |row: usize| {
        let (head, within) = (row / (2 * half), row % (2 * half));
        head * 2 * half + 2 * (within % half) + within / half
    };
    (0..rows.len()).flat_map(|row| rows[source(row)]).copied().collect()
}

/// The tensors of a checkpoint with their shapes.
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
    let mut tokens = gguf.strings["tokenizer.ggml.tokens"].clone();
    assert_eq!(tokens.len(), TOKENS);
    let merges = &gguf.strings["tokenizer.ggml.merges"];
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
        ("tokenizer.json", tokenizer(&tokens, merges)),
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

/// Embeddings and the rows of the output head, which differ: an answer ends with SmolVLM2's token in place of SmolLM2's, and
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
