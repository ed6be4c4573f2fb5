//! Checkpoints of a training run: the draft head for use, and the state needed to resume.
//!
//! Files are written under a temporary name and then renamed, so that a kill or a full disk leaves the previous checkpoint.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use candle_core::Var;
use half::bf16;
use safetensors::{
    SafeTensors,
    tensor::{Dtype, TensorView, serialize},
};
use serde::{Deserialize, Serialize};

use super::{AdamW, Options, TrainError};
use specreel_model::draft_head::{DraftHeadConfig, TargetIdentity};

/// File of the weights in f32 and the optimizer's moments.
const STATE: &str = "training.safetensors";
/// File of options, target and progress.
const ACCOUNT: &str = "training.json";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Text rows alone.
    #[default]
    Text,
    /// Visual rows before the text rows.
    Visual,
}

/// A point of the learning curve: means since the previous point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub step: usize,
    pub loss: f64,
    /// State loss of the first pass.
    pub state: f64,
    /// Token loss of the first pass.
    pub token: f64,
    /// Share of tokens on which head and target agree, given the target's states.
    pub agreement: f64,
    /// The same given the head's own outputs, after the last recursion.
    pub own_agreement: f64,
}

/// Progress of a training run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Source of the clips, as typed.
    pub data: String,
    pub clips: usize,
    /// First clip of the current round.
    pub clip: usize,
    /// Stage of the current round.
    pub stage: Stage,
    pub(crate) round_steps: usize,
    pub steps: usize,
    pub text_steps: usize,
    /// Caption tokens trained on.
    pub tokens: u64,
    /// Training time in seconds, without pauses.
    pub seconds: f64,
    pub skipped: usize,
    /// True once the run is finished.
    pub finished: bool,
    pub curve: Vec<Point>,
}

/// The contents of `training.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunFile {
    options: Options,
    target: TargetIdentity,
    account: Account,
}

/// The directory of a training run.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    options: Options,
    mark: TargetIdentity,
}

impl Store {
    /// Open a new or empty directory, or the directory of an interrupted run with these options, with its progress. Fails if the
    /// directory holds something else, cannot be created or read, or its run is finished.
    pub fn open(
        dir: &Path,
        options: &Options,
        mark: &TargetIdentity,
        data: &str,
    ) -> Result<(Self, Option<Account>), TrainError> {
        fs::create_dir_all(dir).map_err(TrainError::write(dir))?;
        let store = Self { dir: dir.to_owned(), options: options.clone(), mark: mark.clone() };
        let path = dir.join(ACCOUNT);
        let damaged = |problem: String| TrainError::Damaged { path: path.clone(), problem };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let unreadable = |source| TrainError::Unreadable { dir: dir.to_owned(), source };
                let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".half-");
                let others = fs::read_dir(dir).map_err(unreadable)?.flatten().any(|e| !ours(&e.file_name()));
                return match others {
                    true => Err(TrainError::Occupied { dir: dir.to_owned() }),
                    false => Ok((store, None)),
                };
            }
            Err(e) => return Err(damaged(e.to_string())),
        };
        let saved: RunFile = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let other = |key: &str, saved: &str, asked: &str| {
            Err(TrainError::Other {
                dir: dir.to_owned(),
                key: key.into(),
                saved: saved.into(),
                asked: asked.into(),
            })
        };
        if let Some((key, asked, saved)) = options.difference(&saved.options) {
            return other(&key, &saved, &asked);
        }
        if saved.account.data != data {
            return other("data", &saved.account.data, data);
        }
        if saved.target.fingerprint != mark.fingerprint {
            return other("the target", &saved.target.name, &mark.name);
        }
        if saved.account.finished {
            return Err(TrainError::Finished { dir: dir.to_owned() });
        }
        Ok((store, Some(saved.account)))
    }

    /// Restore weights and moments; returns the progress that belongs to them. Fails if the state is missing or damaged.
    pub fn resume(&self, vars: &BTreeMap<String, Var>, adam: &mut AdamW) -> Result<Account, TrainError> {
        let path = self.dir.join(STATE);
        let damaged = |problem: String| TrainError::Damaged { path: path.clone(), problem };
        let bytes = fs::read(&path).map_err(|e| damaged(e.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(e.to_string()))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(e.to_string()))?;
        let text = metadata.metadata().as_ref().and_then(|m| m.get("account").cloned()).unwrap_or_default();
        let account: Account = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let read = |name: String| -> Result<Vec<f32>, TrainError> {
            let view = file.tensor(&name).map_err(|e| damaged(e.to_string()))?;
            Ok(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        };
        for (name, var) in vars {
            let values = read(format!("weight.{name}"))?;
            if values.len() != var.elem_count() {
                return Err(damaged(format!("`{name}` has {} values", values.len())));
            }
            let tensor = candle_core::Tensor::from_vec(values, var.shape(), var.device())?;
            var.set(&tensor)?;
            adam.moments
                .insert(name.clone(), (read(format!("first.{name}"))?, read(format!("second.{name}"))?));
        }
        adam.steps = account.steps;
        Ok(account)
    }

    /// Save the head for use, and the state needed to resume (unless the run is finished). Fails if a file cannot be written; the
    /// previous checkpoint is kept.
    pub fn save(
        &self,
        vars: &BTreeMap<String, Var>,
        config: &DraftHeadConfig,
        adam: &AdamW,
        account: &Account,
    ) -> Result<(), TrainError> {
        let (mut state, mut model) = (Vec::new(), Vec::new());
        for (name, var) in vars {
            let (values, shape) = (var.flatten_all()?.to_vec1::<f32>()?, var.dims().to_vec());
            let short = values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect::<Vec<u8>>();
            model.push((name.clone(), Dtype::BF16, shape.clone(), short));
            let zeros = || vec![0.0; values.len()];
            let (first, second) = adam.moments.get(name).cloned().unwrap_or_else(|| (zeros(), zeros()));
            for (what, values) in [("weight", &values), ("first", &first), ("second", &second)] {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
                state.push((format!("{what}.{name}"), Dtype::F32, shape.clone(), bytes));
            }
        }
        let file =
            RunFile { options: self.options.clone(), target: self.mark.clone(), account: account.clone() };
        let text = serde_json::to_string(account).unwrap_or_default();
        self.write_json("config.json", config)?;
        self.write("model.safetensors", &self.file(&model, None)?)?;
        if !account.finished {
            self.write(STATE, &self.file(&state, Some(("account".into(), text)))?)?;
        }
        self.write_json(ACCOUNT, &file)?;
        if account.finished {
            // A finished run is not resumed; a state file that stays does no harm.
            let _ = fs::remove_file(self.dir.join(STATE));
        }
        Ok(())
    }

    /// The first save, into an empty directory. If it fails, the directory is emptied again, so that the command can be repeated.
    pub(crate) fn save_first(
        &self,
        vars: &BTreeMap<String, Var>,
        config: &DraftHeadConfig,
        adam: &AdamW,
        account: &Account,
    ) -> Result<(), TrainError> {
        self.save(vars, config, adam, account).inspect_err(|_| {
            for name in ["config.json", "model.safetensors", STATE, ACCOUNT] {
                let _ = fs::remove_file(self.dir.join(name));
            }
        })
    }

    fn file(
        &self,
        tensors: &[(String, Dtype, Vec<usize>, Vec<u8>)],
        about: Option<(String, String)>,
    ) -> Result<Vec<u8>, TrainError> {
        let failed = |e: safetensors::SafeTensorError| TrainError::Damaged {
            path: self.dir.join("model.safetensors"),
            problem: e.to_string(),
        };
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| Ok((name, TensorView::new(*dtype, shape.clone(), bytes)?)))
            .collect();
        serialize(views.map_err(failed)?, about.map(|pair| HashMap::from([pair]))).map_err(failed)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), TrainError> {
        let damaged =
            |e: serde_json::Error| TrainError::Damaged { path: self.dir.join(name), problem: e.to_string() };
        let text = serde_json::to_string_pretty(value).map_err(damaged)?;
        self.write(name, (text + "\n").as_bytes())
    }

    /// Write a file of the directory under a temporary name, then rename it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TrainError> {
        let (path, half) = (self.dir.join(name), self.dir.join(format!(".half-{name}")));
        let written = fs::File::create(&half).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let moved = written.and_then(|()| fs::rename(&half, &path));
        if moved.is_err() {
            // Do not leave a partial file on a full disk.
            let _ = fs::remove_file(&half);
        }
        moved.map_err(TrainError::write(&path))
    }
}
