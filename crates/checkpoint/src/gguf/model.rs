//! A language model and its vision tower: files that belong together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    GgufFile, Metadata, Vocabulary,
    architecture::{self, SUPPORTED},
    family::{self, Architecture},
    file::as_one,
    file_names,
    header::DAMAGED,
    names::NamedTensors,
};
use specreel_tensor::{CheckpointError, TensorType};

/// Their open files.
pub struct GgufModel {
    /// The language model.
    pub text: Arc<GgufFile>,
    /// The vision tower (mmproj).
    pub tower: Arc<GgufFile>,
    row: &'static Architecture,
}

fn refuse(path: &Path, problem: String, hint: &'static str) -> CheckpointError {
    CheckpointError::file_hint(path, problem, hint)
}

const OTHER_MODEL: &str = "use a GGUF file of a supported model, or a directory in Hugging Face layout";
const OTHER_TOWER: &str = "use the mmproj file of the same model";

impl GgufModel {
    /// Open a language model, by any part of a split one, and its mmproj file, by default the one in its folder: the only one,
    /// or of several the one whose name belongs to the language model's, see [`file_names::tower_of`].
    pub fn open(text: &Path, tower: Option<&Path>) -> Result<Self, CheckpointError> {
        Self::read(text, tower).map_err(as_one)
    }

    /// Everything that is wrong with a language model and the mmproj file in its folder.
    pub fn problems(text: &Path, tower: Option<&Path>) -> Vec<CheckpointError> {
        Self::read(text, tower).err().unwrap_or_default()
    }

    /// As [`GgufModel::open`], with everything that is wrong. A missing tower comes first: without one, a file with
    /// supported types is of no use either.
    fn read(text: &Path, tower: Option<&Path>) -> Result<Self, Vec<CheckpointError>> {
        let file = GgufFile::read(text);
        let metadata = match &file {
            Ok(file) => Ok(file.metadata.clone()),
            Err(_) => GgufFile::metadata(text),
        };
        let name = match metadata {
            Ok(metadata) => language_model(text, &metadata).map_err(|problem| vec![problem])?,
            // `file` has this problem as well.
            Err(problem) => return Err(file.err().unwrap_or_else(|| vec![problem])),
        };
        let tower = tower.map_or_else(|| beside(text, &name), |tower| Ok(tower.to_owned()));
        let tower = tower.and_then(|path| {
            let (tower, projector) = open_tower(&path)?;
            let row = SUPPORTED.iter().find(|row| row.text == name && row.projector == projector);
            Ok((tower, row.ok_or_else(|| foreign_projector(&path, &name, &projector))?))
        });
        let (tower, row, file) = match (tower, file) {
            (Ok((tower, row)), Ok(file)) => (tower, row, file),
            (tower, file) => {
                return Err(tower.err().into_iter().chain(file.err().unwrap_or_default()).collect());
            }
        };
        let model = Self { text: Arc::new(file), tower: Arc::new(tower), row };
        model.check_widths().map_err(|problem| vec![problem])?;
        Ok(model)
    }

    /// Check that a file is a vision tower of a supported family.
    pub fn check_tower(path: &Path) -> Result<(), CheckpointError> {
        let (_, projector) = open_tower(path)?;
        match SUPPORTED.iter().any(|row| row.projector == projector) {
            true => Ok(()),
            false => Err(unsupported_projector(path, &projector)),
        }
    }

    /// Check that the tower's embeddings are as wide as the language model's.
    fn check_widths(&self) -> Result<(), CheckpointError> {
        let width = |file: &GgufFile, name: &str, at: usize| file.tensors.get(name)?.shape.get(at).copied();
        let tower = width(&self.tower, self.row.output, 0);
        let text = width(&self.text, "token_embd.weight", 1);
        match tower.zip(text).filter(|(tower, text)| tower != text) {
            None => Ok(()),
            Some((tower, text)) => {
                let model = self.text.path().display();
                let problem = format!("its embeddings are {tower} wide, {model}'s {text}");
                Err(refuse(self.tower.path(), problem, OTHER_TOWER))
            }
        }
    }

    /// `model_type` of the family's `config.json`.
    pub fn model_type(&self) -> &'static str {
        self.row.model_type
    }

    /// What `config.json` has in a directory.
    pub fn config(&self) -> Result<Value, CheckpointError> {
        let in_text = |problem| refuse(self.text.path(), problem, DAMAGED);
        let mut config = family::text_config(&self.text).map_err(in_text)?;
        (self.row.text_config)(&self.text, &mut config).map_err(in_text)?;
        config["model_type"] = self.row.model_type.into();
        let other = |problem| refuse(self.text.path(), problem, OTHER_MODEL);
        let video = Vocabulary::find(&self.text, self.row.video_token).map_err(other)?;
        let missing = || format!("its tokenizer has no token {}", self.row.video_token);
        config[self.row.video_key] = video.ok_or_else(missing).map_err(other)?.into();
        let vision = (self.row.vision_config)(&self.tower);
        let vision = vision.map_err(|problem| refuse(self.tower.path(), problem, DAMAGED))?;
        if let (Some(config), Value::Object(vision)) = (config.as_object_mut(), vision) {
            config.extend(vision);
        }
        Ok(config)
    }

    /// The tokenizer.
    pub fn vocabulary(&self) -> Result<Vocabulary<'_>, String> {
        Vocabulary::read(&self.text, self.row.ends)
    }

    /// The chat template, if the file has one with videos.
    pub fn template(&self) -> Option<&str> {
        let template = self.text.metadata.string("tokenizer.chat_template").ok()??;
        // Some files have the template of the language model alone.
        template.contains(self.row.video_token).then_some(template)
    }

    /// The token that begins a text, if the file names one.
    pub fn first_token(&self) -> Option<String> {
        let id = self.text.metadata.integer("tokenizer.ggml.bos_token_id").ok()??;
        let tokens = self.text.metadata.strings("tokenizer.ggml.tokens").ok()??;
        tokens.get(usize::try_from(id).ok()?).map(|token| (*token).to_owned())
    }

    /// Mean and standard deviation of the colors.
    pub fn colors(&self) -> Result<[Option<[f32; 3]>; 2], CheckpointError> {
        let read = |key: &str| {
            let values =
                self.tower.metadata.numbers(key).map_err(|e| refuse(self.tower.path(), e, DAMAGED))?;
            let three = |values: Vec<f64>| {
                let [r, g, b] = values[..] else {
                    let problem = format!("`{key}` has {} values, expected 3", values.len());
                    return Err(refuse(self.tower.path(), problem, DAMAGED));
                };
                Ok([r, g, b].map(|value| value as f32))
            };
            values.map(three).transpose()
        };
        Ok([read("clip.vision.image_mean")?, read("clip.vision.image_std")?])
    }

    pub(crate) fn named(&self) -> NamedTensors {
        let mut named = (self.row.text_tensors)(&self.text);
        named.append(&mut (self.row.tower_tensors)(&self.tower));
        named
    }

    /// The type of most of the language model's weights.
    pub fn main_type(&self) -> TensorType {
        let share = |kind: &TensorType| {
            let all = self.text.tensors.values().filter(|tensor| tensor.kind == *kind);
            all.map(|tensor| tensor.values() as u64).sum::<u64>()
        };
        TensorType::ALL.into_iter().max_by_key(share).unwrap_or(TensorType::F32)
    }
}

/// The architecture of a language model that can have a vision tower.
fn language_model(text: &Path, metadata: &Metadata) -> Result<String, CheckpointError> {
    let name = metadata.string("general.architecture").map_err(|problem| refuse(text, problem, DAMAGED))?;
    let name = name.unwrap_or_default();
    if name == architecture::TOWER {
        let hint =
            "pass the language model to --target or --drafter, and this file to --mmproj or --drafter-mmproj";
        return Err(refuse(text, "it is a vision tower (mmproj), not a language model".into(), hint));
    }
    if !architecture::is_supported(name) {
        let problem = match name {
            "" => "`general.architecture` is missing".to_owned(),
            "qwen2" => {
                "it is a language model without video; LLaVA-OneVision is supported in Hugging Face layout only"
                    .to_owned()
            }
            _ => architecture::unsupported(name),
        };
        return Err(refuse(text, problem, OTHER_MODEL));
    }
    Ok(name.to_owned())
}

/// A vision tower and its projector type.
fn open_tower(path: &Path) -> Result<(GgufFile, String), CheckpointError> {
    let tower = GgufFile::open(path)?;
    let damaged = |problem| refuse(path, problem, DAMAGED);
    let (name, projector) = (
        family::name_of(&tower).map_err(damaged)?.to_owned(),
        architecture::projector_of(&tower).map_err(damaged)?.to_owned(),
    );
    if name != architecture::TOWER {
        return Err(refuse(path, "it is not a vision tower (mmproj)".into(), OTHER_TOWER));
    }
    Ok((tower, projector))
}

/// The refusal of a tower that belongs to no language model of this architecture.
fn foreign_projector(path: &Path, text: &str, projector: &str) -> CheckpointError {
    let Some(theirs) = SUPPORTED.iter().find(|row| row.projector == projector) else {
        return unsupported_projector(path, projector);
    };
    let own = architecture::projectors_of(text);
    let problem = format!(
        "it is the vision tower of another model: its projector type is `{projector}` ({}), expected one of: {own}",
        theirs.family
    );
    refuse(path, problem, OTHER_TOWER)
}

fn unsupported_projector(path: &Path, projector: &str) -> CheckpointError {
    let known = architecture::supported_projectors();
    let problem = format!("unsupported projector type `{projector}`, expected one of: {known}");
    refuse(path, problem, OTHER_TOWER)
}

/// The folder with the vision towers (mmproj) for a language model, and their names, sorted: its own folder. If that has none
/// and is named for a type, or is a folder of a snapshot in the Hugging Face cache, it is the folder around it.
pub fn towers_of(text: &Path) -> std::io::Result<(PathBuf, Vec<String>)> {
    let own = text.file_name().unwrap_or_default().to_string_lossy();
    let towers = |folder: &Path| -> std::io::Result<(PathBuf, Vec<String>)> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let names = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_first = |name: &str| file_names::part_of(name).is_none_or(|(number, _)| number == 1);
        let mut towers: Vec<String> =
            names.filter(|name| file_names::is_tower(name) && *name != own && is_first(name)).collect();
        towers.sort();
        Ok((folder.to_owned(), towers))
    };
    let folder = text.parent().unwrap_or(Path::new(""));
    let found = towers(folder)?;
    let around = folder.parent().filter(|around| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let is_snapshot = around.parent().is_some_and(|folder| folder.ends_with("snapshots"));
        is_snapshot || file_names::type_folder(&name).is_some()
    });
    match around.filter(|_| found.1.is_empty()).and_then(|around| towers(around).ok()) {
        Some(around) if !around.1.is_empty() => Ok(around),
        _ => Ok(found),
    }
}

/// The mmproj file of a language model, see [`towers_of`] and [`file_names::tower_of`].
fn beside(text: &Path, architecture: &str) -> Result<PathBuf, CheckpointError> {
    let towers = towers_of(text);
    let (folder, towers) = towers.map_err(|e| CheckpointError::file(text, &e.to_string()))?;
    let own = text.file_name().unwrap_or_default().to_string_lossy();
    match file_names::tower_of(&own, &towers) {
        Ok(tower) => Ok(folder.join(tower)),
        Err(none) if none.is_empty() => Err(refuse(
            text,
            match architecture::is_shared(architecture) {
                true => {
                    "it has no vision tower: no mmproj*.gguf in its directory, and models without vision have its \
                     architecture, too"
                }
                false => "it has no vision tower: no mmproj*.gguf in its directory",
            }
            .into(),
            "put the mmproj file of the model into the same folder, or pass it with --mmproj (--drafter-mmproj for a drafter)",
        )),
        Err(several) => {
            let problem = format!("its directory has several mmproj files: {}", several.join(", "));
            Err(refuse(text, problem, "choose one with --mmproj (--drafter-mmproj for a drafter)"))
        }
    }
}
