//! What a plan has to know of models: their sizes, and the names under which their speeds are known. Of loaded models, or of files
//! that are not loaded.

use crate::{models::Models, timing::rates::Identity};
use specreel_checkpoint::ModelFiles;
use specreel_model::{
    ModelSpec, ReadModel as _,
    config::TextConfig,
    draft_head::{AssistantConfig, DraftHeadConfig, mtp},
    family::VideoLlm,
    inspect::Reads,
    vision::TowerConfig,
};
use specreel_record::{Failure, LoadedParts};
use specreel_speculate::auto::{GUESSED_ROWS, further_by_bytes, further_row};
use specreel_tensor::{ComputeDevice, WeightType};

/// What a plan has to know of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelProfile {
    pub text: TextConfig,
    pub tower: TowerConfig,
    pub identity: Identity,
    /// Bytes that a pass of one row reads.
    pub row_bytes: usize,
    /// Time of a further row of a pass relative to one alone, before that is measured.
    pub further: f64,
}

impl ModelProfile {
    pub fn of(model: &VideoLlm) -> Self {
        let decoder = model.decoder();
        Self {
            text: decoder.config().clone(),
            tower: model.tower_config().clone(),
            identity: Identity::of(model),
            row_bytes: decoder.matrix_bytes(),
            further: further_row(decoder),
        }
    }

    /// Of a model that is not loaded, by `reads` of its files. Fails if they cannot be read.
    fn read(files: &ModelFiles, reads: &Reads, device: &ComputeDevice) -> Result<Self, Failure> {
        let tower = files.config()?.tower()?;
        let [one, guessed] = [1, GUESSED_ROWS].map(|rows| reads.pass_bytes(rows));
        let text = reads.config().clone();
        Ok(Self {
            identity: Identity::new((&text, one), &tower, device, device.is_batch_invariant()),
            row_bytes: one,
            further: further_by_bytes(one, guessed),
            text,
            tower,
        })
    }

    /// Bytes that a pass of one row reads with all matrices in a type.
    pub fn row_bytes_in(&self, dtype: WeightType) -> usize {
        Reads::converted(&self.text, dtype).pass_bytes(1)
    }
}

/// What a plan has to know of a pair of models, and what can draft with them.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub target: ModelProfile,
    pub drafter: Option<ModelProfile>,
    pub assistant: Option<AssistantConfig>,
    pub parts: LoadedParts,
}

impl Profile {
    pub fn of(models: &Models) -> Self {
        Self {
            target: ModelProfile::of(&models.target),
            drafter: models.drafter.as_ref().map(ModelProfile::of),
            assistant: models.heads.iter().find_map(|head| head.config().assistant.clone()),
            parts: models.parts(),
        }
    }

    /// Of models that are not loaded. Fails if their files cannot be read, or a device is missing.
    pub fn read(spec: &ModelSpec) -> Result<Self, Failure> {
        let files = spec.target_files()?;
        let device = spec.open_target_device()?;
        let target = ModelProfile::read(&files, &Reads::of(&files, &device, false)?, &device)?;
        let drafter = spec.drafter_files()?.map(|files| {
            let device = spec.open_drafter_device()?;
            let reads = Reads::of(&files, &device, spec.drafter_dtype.is_some())?;
            let reads = match spec.draft_ids(reads.config().vocab) {
                Some(size) => reads.with_vocabulary(&files, size)?,
                None => reads,
            };
            ModelProfile::read(&files, &reads, &device)
        });
        let heads = spec.heads.iter().map(|dir| DraftHeadConfig::read(dir)).collect::<Result<Vec<_>, _>>()?;
        let parts = LoadedParts {
            drafter: spec.drafter.is_some(),
            heads: heads.iter().map(|head| head.recipe.name().to_owned()).collect(),
            mtp: mtp::is_in(&files.checkpoint()?),
            linear_attention: target.text.linear.is_some(),
        };
        let assistant = heads.into_iter().find_map(|head| head.assistant);
        Ok(Self { target, drafter: drafter.transpose()?, assistant, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Part;
    use specreel_model::family::ModelError;

    fn fixture(name: &str) -> std::path::PathBuf {
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures")).join(name)
    }

    #[test]
    fn files_have_the_profile_of_the_loaded_model() {
        let loaded = |name: &str, device: &ComputeDevice| -> Result<ModelProfile, ModelError> {
            Ok(ModelProfile::of(&VideoLlm::load_on(&fixture(name), device, &mut |_, _| {})?))
        };
        for (name, dtype) in [
            ("gqa_tied", WeightType::Auto),
            ("qwen3_vl_moe", WeightType::Q8_0),
            ("gguf/mix/model-q4_k_m.gguf", WeightType::Auto),
        ] {
            let spec = ModelSpec {
                target: fixture(name),
                drafter: Some(fixture(name)),
                drafter_dtype: Some(WeightType::Q5_0),
                drafter_vocabulary: Some(48),
                dtype,
                ..ModelSpec::default()
            };
            let device = spec.open_target_device().unwrap();
            let (read, loaded) = (Profile::read(&spec).unwrap(), loaded(name, &device).unwrap());
            for part in [Part::Tower, Part::Prompt, Part::Token] {
                assert_eq!(read.target.identity.key(part), loaded.identity.key(part), "{name}");
            }
            assert_eq!((read.target.row_bytes, read.target.further), (loaded.row_bytes, loaded.further));
            let small = read.drafter.unwrap();
            assert!(small.row_bytes < read.target.row_bytes, "{name}");
            assert_ne!(small.identity, read.target.identity);
        }
    }

    #[test]
    fn parts_are_what_the_files_have() {
        let spec = ModelSpec { target: fixture("qwen3_5"), ..ModelSpec::default() };
        let parts = Profile::read(&spec).unwrap().parts;
        assert!(parts.linear_attention && !parts.drafter && parts.heads.is_empty());
        let absent = ModelSpec { target: fixture("nowhere"), ..ModelSpec::default() };
        assert!(Profile::read(&absent).unwrap_err().error.contains("nowhere"));
    }
}
