//! Published models of the supported families: their ids on the hub, their sizes, and which of them can draft for which.

use super::{
    decoder::parts,
    family::{Family, VlConfig},
    shapes,
    vision::{self, TowerConfig},
};

/// A published model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Its id on the hub.
    pub id: &'static str,
    /// The name of its shape, see [`shapes`].
    pub shape: &'static str,
    /// Ids of models that can draft for it, the best first: the closest to a fifth of its size.
    pub drafters: &'static [&'static str],
}

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
const SMOL_500M: &str = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct";
const LLAVA_05B: &str = "llava-hf/llava-onevision-qwen2-0.5b-ov-hf";
const LLAVA_7B: &str = "llava-hf/llava-onevision-qwen2-7b-ov-hf";

/// All of them, by family, the smallest first.
#[rustfmt::skip]
pub const KNOWN: [KnownModel; 19] = [
    KnownModel { id: SMOL_256M, shape: "smolvlm2-256m", drafters: &[] },
    KnownModel { id: SMOL_500M, shape: "smolvlm2-500m", drafters: &[SMOL_256M] },
    KnownModel { id: "HuggingFaceTB/SmolVLM2-2.2B-Instruct", shape: "smolvlm2-2.2b", drafters: &[SMOL_500M, SMOL_256M] },
    KnownModel { id: QWEN35_08B, shape: "qwen3.5-0.8b", drafters: &[] },
    KnownModel { id: QWEN35_2B, shape: "qwen3.5-2b", drafters: &[QWEN35_08B] },
    KnownModel { id: QWEN35_4B, shape: "qwen3.5-4b", drafters: &[QWEN35_08B, QWEN35_2B] },
    KnownModel { id: QWEN35_9B, shape: "qwen3.5-9b", drafters: &[QWEN35_2B, QWEN35_4B, QWEN35_08B] },
    KnownModel { id: "Qwen/Qwen3.5-27B", shape: "qwen3.5-27b", drafters: &[QWEN35_4B, QWEN35_9B, QWEN35_2B, QWEN35_08B] },
    KnownModel { id: QWEN3_2B, shape: "qwen3-vl-2b", drafters: &[] },
    KnownModel { id: QWEN3_4B, shape: "qwen3-vl-4b", drafters: &[QWEN3_2B] },
    KnownModel { id: QWEN3_8B, shape: "qwen3-vl-8b", drafters: &[QWEN3_2B, QWEN3_4B] },
    KnownModel { id: "Qwen/Qwen3-VL-32B-Instruct", shape: "qwen3-vl-32b", drafters: &[QWEN3_8B, QWEN3_4B, QWEN3_2B] },
    KnownModel { id: QWEN25_3B, shape: "qwen2.5-vl-3b", drafters: &[] },
    KnownModel { id: QWEN25_7B, shape: "qwen2.5-vl-7b", drafters: &[QWEN25_3B] },
    KnownModel { id: "Qwen/Qwen2.5-VL-32B-Instruct", shape: "qwen2.5-vl-32b", drafters: &[QWEN25_7B, QWEN25_3B] },
    KnownModel { id: "Qwen/Qwen2.5-VL-72B-Instruct", shape: "qwen2.5-vl-72b", drafters: &[QWEN25_7B, QWEN25_3B] },
    KnownModel { id: LLAVA_05B, shape: "llava-onevision-0.5b", drafters: &[] },
    KnownModel { id: LLAVA_7B, shape: "llava-onevision-7b", drafters: &[LLAVA_05B] },
    KnownModel { id: "llava-hf/llava-onevision-qwen2-72b-ov-hf", shape: "llava-onevision-72b", drafters: &[LLAVA_7B, LLAVA_05B] },
];

/// Sizes of a published model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSizes {
    /// Its family.
    pub family: &'static Family,
    /// Parameters of the language model.
    pub text: u64,
    /// Parameters of the vision tower and its projector.
    pub tower: u64,
}

impl KnownModel {
    /// The known model of this id.
    pub fn find(id: &str) -> Option<&'static KnownModel> {
        KNOWN.iter().find(|known| known.id.eq_ignore_ascii_case(id))
    }

    /// Its sizes; none if its shape is not known.
    pub fn sizes(&self) -> Option<KnownSizes> {
        let config = shapes::config(self.shape)?;
        let tower = config.tower().ok()?;
        Some(sizes(&config, &tower))
    }
}

/// Sizes of a model that these describe.
fn sizes(config: &VlConfig, tower: &TowerConfig) -> KnownSizes {
    let count = |tensors: Vec<(String, Vec<usize>)>| {
        let values = |shape: &[usize]| shape.iter().map(|&n| n as u64).product::<u64>();
        tensors.iter().map(|(_, shape)| values(shape)).sum()
    };
    KnownSizes {
        family: config.family,
        text: count(parts::tensors(&config.text)),
        tower: count(vision::parts::tensors(tower)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("qwen3-vl-2b", 2127.532),
            ("qwen3-vl-4b", 4437.816),
            ("qwen3-vl-8b", 8767.124),
            ("qwen3-vl-32b", 33_357.390),
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
    fn drafters_are_smaller_models_of_the_family_that_cut_frames_alike() {
        for known in &KNOWN {
            assert_eq!(KnownModel::find(&known.id.to_lowercase()), Some(known));
            let parameters = known.sizes().unwrap().text;
            let distance = |id: &str| {
                let theirs = KnownModel::find(id).unwrap().sizes().unwrap().text;
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
