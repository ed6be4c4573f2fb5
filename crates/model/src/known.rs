//! Published models of the supported families: their ids on the hub, their sizes, and which of them can draft for which.
//!
//! Sizes are computed from the shapes of the tensors, and tests compare them with the published files.

mod files;

use super::{
    decoder::parts,
    family::Family,
    inspect::{Facts, Memory},
    shapes, vision,
};
use specreel_tensor::WeightType;

pub use files::GgufType;
use files::{GgufType::*, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownModel {
    pub id: &'static str,
    /// The name of its shape, see [`shapes`].
    pub shape: &'static str,
    /// Ids of models that can draft for it, the best first: the closest to a fifth of its size, of which experts that a token does
    /// not take are no part.
    pub drafters: &'static [&'static str],
    /// Who publishes GGUF files of it, as `OWNER/NAME-GGUF`, and their types; `None` if nobody is known to.
    pub gguf: Option<KnownGguf>,
    /// What its safetensors files hold.
    stored: Stored,
}

/// A repository of GGUF files, with the vision tower as mmproj file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownGguf {
    pub owner: &'static str,
    /// The end of the repository's name, `GGUF` or as its owner spells it.
    suffix: &'static str,
    /// Types of the language model, the smallest first.
    pub types: &'static [GgufType],
}

const fn gguf(owner: &'static str, types: &'static [GgufType]) -> Option<KnownGguf> {
    Some(KnownGguf { owner, suffix: "GGUF", types })
}

const MINICPM_GGUF: Option<KnownGguf> = Some(KnownGguf { owner: "openbmb", suffix: "gguf", types: &[Q4KM] });

const QWEN3_2B: &str = "Qwen/Qwen3-VL-2B-Instruct";
const QWEN3_4B: &str = "Qwen/Qwen3-VL-4B-Instruct";
const QWEN3_8B: &str = "Qwen/Qwen3-VL-8B-Instruct";
const QWEN35_08B: &str = "Qwen/Qwen3.5-0.8B";
const QWEN35_2B: &str = "Qwen/Qwen3.5-2B";
const QWEN35_4B: &str = "Qwen/Qwen3.5-4B";
const QWEN35_9B: &str = "Qwen/Qwen3.5-9B";
const SMOL_256M: &str = "HuggingFaceTB/SmolVLM2-256M-Video-Instruct";
const QWEN25_3B: &str = "Qwen/Qwen2.5-VL-3B-Instruct";
const QWEN25_7B: &str = "Qwen/Qwen2.5-VL-7B-Instruct";
const QWEN2_2B: &str = "Qwen/Qwen2-VL-2B-Instruct";
const QWEN2_7B: &str = "Qwen/Qwen2-VL-7B-Instruct";
const SMOL_500M: &str = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct";
const GEMMA4_E2B: &str = "google/gemma-4-E2B-it";
const LLAVA_05B: &str = "llava-hf/llava-onevision-qwen2-0.5b-ov-hf";
const LLAVA_7B: &str = "llava-hf/llava-onevision-qwen2-7b-ov-hf";

/// Drafters of the 27B sizes: Qwen3.5, 3.6 and 3.8 have the same vocabulary.
const FOR_27B: &[&str] = &[QWEN35_4B, QWEN35_9B, QWEN35_2B, QWEN35_08B];

/// Drafters of the 35B sizes, of whose parameters a token takes 3.5B.
const FOR_35B: &[&str] = &[QWEN35_08B, QWEN35_2B];

/// All of them, by family, the smallest first.
#[rustfmt::skip]
pub const KNOWN: [KnownModel; 35] = [
    KnownModel { id: SMOL_256M, shape: "smolvlm2-256m", drafters: &[], gguf: gguf("ggml-org", &[Q80, F16]), stored: Stored::F32 },
    KnownModel { id: SMOL_500M, shape: "smolvlm2-500m", drafters: &[SMOL_256M], gguf: gguf("ggml-org", &[Q80, F16]), stored: Stored::F32 },
    KnownModel { id: "HuggingFaceTB/SmolVLM2-2.2B-Instruct", shape: "smolvlm2-2.2b", drafters: &[SMOL_500M, SMOL_256M], gguf: gguf("ggml-org", &[Q4KM, Q80, F16]), stored: Stored::F32 },
    KnownModel { id: QWEN35_08B, shape: "qwen3.5-0.8b", drafters: &[], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: QWEN35_2B, shape: "qwen3.5-2b", drafters: &[QWEN35_08B], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "NemoStation/Marlin-2B", shape: "qwen3.5-2b", drafters: &[QWEN35_08B], gguf: None, stored: Stored::HeadCopy },
    KnownModel { id: QWEN35_4B, shape: "qwen3.5-4b", drafters: &[QWEN35_08B, QWEN35_2B], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: QWEN35_9B, shape: "qwen3.5-9b", drafters: &[QWEN35_2B, QWEN35_4B, QWEN35_08B], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "Qwen/Qwen3.5-27B", shape: "qwen3.5-27b", drafters: FOR_27B, gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "Qwen/Qwen3.6-27B", shape: "qwen3.5-27b", drafters: FOR_27B, gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "Qwen/Qwen3.8-27B", shape: "qwen3.5-27b", drafters: FOR_27B, gguf: gguf("ggml-org", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "Qwen/Qwen3.5-35B-A3B", shape: "qwen3.5-35b-a3b", drafters: FOR_35B, gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "Qwen/Qwen3.6-35B-A3B", shape: "qwen3.5-35b-a3b", drafters: FOR_35B, gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Predicting },
    KnownModel { id: "openbmb/MiniCPM-V-4.6", shape: "minicpm-v-4.6", drafters: &[], gguf: MINICPM_GGUF, stored: Stored::Model },
    KnownModel { id: "openbmb/MiniCPM-V-4.6-Thinking", shape: "minicpm-v-4.6", drafters: &[], gguf: MINICPM_GGUF, stored: Stored::Model },
    KnownModel { id: QWEN3_2B, shape: "qwen3-vl-2b", drafters: &[], gguf: gguf("Qwen", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: "internlm/CapRL-Qwen3VL-2B", shape: "qwen3-vl-2b", drafters: &[], gguf: None, stored: Stored::Model },
    KnownModel { id: QWEN3_4B, shape: "qwen3-vl-4b", drafters: &[QWEN3_2B], gguf: gguf("Qwen", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: "internlm/CapRL-Qwen3VL-4B", shape: "qwen3-vl-4b", drafters: &[QWEN3_2B], gguf: None, stored: Stored::Model },
    KnownModel { id: QWEN3_8B, shape: "qwen3-vl-8b", drafters: &[QWEN3_2B, QWEN3_4B], gguf: gguf("Qwen", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: "Qwen/Qwen3-VL-30B-A3B-Instruct", shape: "qwen3-vl-30b-a3b", drafters: &[QWEN3_2B], gguf: gguf("Qwen", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: "Qwen/Qwen3-VL-32B-Instruct", shape: "qwen3-vl-32b", drafters: &[QWEN3_8B, QWEN3_4B, QWEN3_2B], gguf: gguf("Qwen", &[Q4KM, Q80]), stored: Stored::Model },
    KnownModel { id: QWEN25_3B, shape: "qwen2.5-vl-3b", drafters: &[], gguf: gguf("ggml-org", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: QWEN25_7B, shape: "qwen2.5-vl-7b", drafters: &[QWEN25_3B], gguf: gguf("ggml-org", &[Q4KM, Q80, F16]), stored: Stored::Model },
    KnownModel { id: "xiaosu-zhu/Qwen-VL-Narrator", shape: "qwen2.5-vl-7b", drafters: &[QWEN25_3B], gguf: None, stored: Stored::Model },
    KnownModel { id: "Qwen/Qwen2.5-VL-32B-Instruct", shape: "qwen2.5-vl-32b", drafters: &[QWEN25_7B, QWEN25_3B], gguf: gguf("ggml-org", &[Q4KM]), stored: Stored::Model },
    KnownModel { id: "Qwen/Qwen2.5-VL-72B-Instruct", shape: "qwen2.5-vl-72b", drafters: &[QWEN25_7B, QWEN25_3B], gguf: gguf("ggml-org", &[Q4KM]), stored: Stored::Model },
    KnownModel { id: QWEN2_2B, shape: "qwen2-vl-2b", drafters: &[], gguf: gguf("bartowski", &[Q4KM, Q80]), stored: Stored::Model },
    KnownModel { id: QWEN2_7B, shape: "qwen2-vl-7b", drafters: &[QWEN2_2B], gguf: gguf("bartowski", &[Q4KM, Q80]), stored: Stored::Model },
    KnownModel { id: "Qwen/Qwen2-VL-72B-Instruct", shape: "qwen2-vl-72b", drafters: &[QWEN2_7B, QWEN2_2B], gguf: gguf("bartowski", &[Q4KM]), stored: Stored::Model },
    KnownModel { id: GEMMA4_E2B, shape: "gemma-4-e2b", drafters: &[], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Hearing },
    KnownModel { id: "google/gemma-4-E4B-it", shape: "gemma-4-e4b", drafters: &[GEMMA4_E2B], gguf: gguf("unsloth", &[Q4KM, Q80]), stored: Stored::Hearing },
    KnownModel { id: LLAVA_05B, shape: "llava-onevision-0.5b", drafters: &[], gguf: None, stored: Stored::Model },
    KnownModel { id: LLAVA_7B, shape: "llava-onevision-7b", drafters: &[LLAVA_05B], gguf: None, stored: Stored::Model },
    KnownModel { id: "llava-hf/llava-onevision-qwen2-72b-ov-hf", shape: "llava-onevision-72b", drafters: &[LLAVA_7B, LLAVA_05B], gguf: None, stored: Stored::Model },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSizes {
    pub family: &'static Family,
    /// Parameters of the language model.
    pub text: u64,
    /// Those that a token takes: not all experts.
    pub active: u64,
    /// Parameters of the vision tower and its projector.
    pub tower: u64,
    /// Bytes of its safetensors files.
    pub bytes: u64,
}

impl KnownModel {
    pub fn find(id: &str) -> Option<&'static KnownModel> {
        KNOWN.iter().find(|known| known.id.eq_ignore_ascii_case(id))
    }

    /// Its sizes; `None` if its shape is not known.
    pub fn sizes(&self) -> Option<KnownSizes> {
        let config = shapes::config(self.shape)?;
        let tower = config.tower().ok()?;
        let (text, tower) = (count(parts::tensors(&config.text)), count(vision::parts::tensors(&tower)));
        let bytes = self.stored.bytes(&config.text, text + tower);
        let active = text - config.text.idle_parameters();
        Some(KnownSizes { family: config.family, text, active, tower, bytes })
    }

    /// The repository of its GGUF files, their types, and the bytes of each, the vision tower in f16 included.
    pub fn gguf_files(&self) -> Option<(String, Vec<(GgufType, u64)>)> {
        let gguf = self.gguf?;
        let config = shapes::config(self.shape)?;
        let tower = 2 * count(vision::parts::tensors(&config.tower().ok()?));
        let name = self.id.split_once('/').map_or(self.id, |(_, name)| name);
        let bytes = |kind: &GgufType| (*kind, kind.bytes(&config.text) + tower);
        Some((format!("{}/{name}-{}", gguf.owner, gguf.suffix), gguf.types.iter().map(bytes).collect()))
    }

    /// Estimates of the memory that it takes in these types, without a drafter; `None` if its shape is not known.
    pub fn memory(&self, types: &[WeightType]) -> Option<Vec<Memory>> {
        let config = shapes::config(self.shape)?;
        Facts::published(config).ok().map(|facts| facts.memory(types))
    }
}

fn count(tensors: Vec<(String, Vec<usize>)>) -> u64 {
    tensors.iter().map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The difference of two sizes as a share of the second.
    fn off(found: u64, published: u64) -> f64 {
        (found as f64 - published as f64).abs() / published as f64
    }

    #[test]
    fn safetensors_have_their_published_size() {
        // Some with their headers, of up to 100 KB.
        for (id, bytes) in [
            ("Qwen/Qwen3.5-4B", 9_319_828_096),
            ("NemoStation/Marlin-2B", 5_443_677_224),
            // Qwen3-VL-Embedding-2B has the same tensors.
            (QWEN3_2B, 4_255_140_312),
            (QWEN25_3B, 7_509_245_952),
            (QWEN25_7B, 16_584_333_312),
            (QWEN2_2B, 4_417_971_200),
            (QWEN2_7B, 16_582_751_232),
        ] {
            let found = KnownModel::find(id).unwrap().sizes().unwrap().bytes;
            assert!(off(found, bytes) < 1e-4, "{id}: {found}");
        }
        // As the hub shows them, in three digits.
        for (id, megabytes) in [(SMOL_256M, 1030), (SMOL_500M, 2030), (LLAVA_05B, 1790), (LLAVA_7B, 16_060)] {
            let found = KnownModel::find(id).unwrap().sizes().unwrap().bytes;
            assert!(off(found, megabytes * 1_000_000) < 5e-3, "{id}: {found}");
        }
    }

    #[test]
    fn gguf_files_have_their_published_size() {
        for (id, kind, bytes) in [
            ("Qwen/Qwen2.5-VL-3B-Instruct", Q4KM, 1_929_901_056),
            ("Qwen/Qwen3-VL-8B-Instruct", Q4KM, 5_027_784_800),
            ("Qwen/Qwen3.6-27B", Q80, 28_595_762_496),
            ("Qwen/Qwen3.8-27B", Q80, 28_595_763_648),
        ] {
            let config = shapes::config(KnownModel::find(id).unwrap().shape).unwrap();
            let found = kind.bytes(&config.text);
            assert!(off(found, bytes) < 1e-3, "{id} {}: {found}", kind.name());
        }
        // As others give it, in three digits: the embeddings for each layer have as many bits as the others.
        let gemma = shapes::config("gemma-4-e2b").unwrap();
        assert!(off(Q4KM.bytes(&gemma.text), 3_412_000_000) < 2e-2);
        // Of this, its owner and others say: 529 MB, and 1109 MB for the tower.
        let (repository, files) = KnownModel::find("openbmb/MiniCPM-V-4.6").unwrap().gguf_files().unwrap();
        assert_eq!((repository.as_str(), files.len()), ("openbmb/MiniCPM-V-4.6-gguf", 1));
        assert!(off(files[0].1, 529_000_000 + 1_109_000_000) < 1e-2, "{files:?}");
        // With the tower, whose file has 1,159,029,824 bytes.
        let (repository, files) = KnownModel::find(QWEN3_8B).unwrap().gguf_files().unwrap();
        assert_eq!((repository.as_str(), files.len()), ("Qwen/Qwen3-VL-8B-Instruct-GGUF", 3));
        assert!(off(files[0].1, 5_027_784_800 + 1_159_029_824) < 2e-3, "{files:?}");
        assert!(files.is_sorted_by_key(|(_, bytes)| *bytes));
        assert_eq!(KnownModel::find("NemoStation/Marlin-2B").unwrap().gguf_files(), None);
    }

    #[test]
    fn a_smaller_type_takes_less_memory() {
        let types = [WeightType::Bf16, WeightType::Q8_0, WeightType::Q4K];
        for known in &KNOWN {
            let memory = known.memory(&types).unwrap();
            assert!(memory.is_sorted_by(|a, b| a.run > b.run && a.weights > b.weights), "{}", known.id);
            let least = known.sizes().unwrap().text / 2;
            assert!(memory.iter().all(|m| m.run > m.weights && m.weights > least), "{}", known.id);
        }
    }

    #[test]
    fn sizes_add_up() {
        // Parameters in millions, counted from the sizes by hand.
        for (shape, millions) in [
            ("smolvlm2-256m", 256.485),
            ("smolvlm2-500m", 507.482),
            ("smolvlm2-2.2b", 2246.785),
            // As published, less the layer for multi-token prediction.
            ("qwen3.5-0.8b", 852.986),
            ("qwen3.5-2b", 2213.242),
            ("qwen3.5-4b", 4539.265),
            ("qwen3.5-9b", 9409.814),
            ("qwen3.5-27b", 27_356.729),
            ("minicpm-v-4.6", 1300.428),
            ("qwen3-vl-2b", 2127.532),
            ("qwen3-vl-4b", 4437.816),
            ("qwen3-vl-8b", 8767.124),
            ("qwen3-vl-32b", 33_357.390),
            ("qwen3-vl-30b-a3b", 31_070.754),
            ("qwen3.5-35b-a3b", 35_107.182),
            ("qwen2-vl-2b", 2208.986),
            ("qwen2-vl-7b", 8291.376),
            ("qwen2.5-vl-3b", 3754.623),
            ("qwen2.5-vl-7b", 8292.167),
            ("qwen2.5-vl-32b", 33_452.718),
            ("qwen2.5-vl-72b", 73_410.777),
        ] {
            let known = KNOWN.iter().find(|known| known.shape == shape).unwrap();
            let sizes = known.sizes().unwrap();
            let found = (sizes.text + sizes.tower) as f64 / 1e6;
            assert!((found - millions).abs() < 1e-3, "{shape}: {found}");
        }
    }

    #[test]
    fn a_token_takes_few_of_the_experts() {
        for (id, billions) in [("Qwen/Qwen3-VL-30B-A3B-Instruct", 3.35), ("Qwen/Qwen3.5-35B-A3B", 3.45)] {
            let sizes = KnownModel::find(id).unwrap().sizes().unwrap();
            assert!((sizes.active as f64 / 1e9 - billions).abs() < 0.01, "{id}: {}", sizes.active);
        }
        let dense = KnownModel::find(QWEN3_2B).unwrap().sizes().unwrap();
        assert_eq!(dense.active, dense.text);
    }

    #[test]
    fn drafters_are_smaller_models_of_the_family_that_cut_frames_alike() {
        for known in &KNOWN {
            assert_eq!(KnownModel::find(&known.id.to_lowercase()), Some(known));
            let parameters = known.sizes().unwrap().active;
            let distance = |id: &str| {
                let theirs = KnownModel::find(id).unwrap().sizes().unwrap().active;
                ((theirs * 5) as f64 / parameters as f64).ln().abs()
            };
            assert!(known.drafters.is_sorted_by(|a, b| distance(a) <= distance(b)), "{}", known.id);
            for id in known.drafters {
                let drafter = KnownModel::find(id).unwrap();
                assert!(drafter.sizes().unwrap().text < parameters, "{id}");
                let read = |known: &KnownModel| {
                    let config = shapes::config(known.shape).unwrap();
                    let tower = config.tower().unwrap();
                    (config.family, tower.frames())
                };
                let ((ours, frames), (theirs, cut)) = (read(known), read(drafter));
                assert!(ours == theirs && frames.temporal == cut.temporal, "{id} for {}", known.id);
            }
        }
        assert_eq!(KnownModel::find("me/model"), None);
    }
}
