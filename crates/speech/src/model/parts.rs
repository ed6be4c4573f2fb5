//! What encoder and decoder are made of: matrices, norms, and the feed-forward part of a layer.

use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Importance, Result, Weights,
    cpu::{kernels::HalfKind, linear::Linear, rows::CpuRows, table::Values},
    fused::FusedMatrix,
    ops::{CpuOps, CpuWork, Loaded, Norm as NormOf, Out, RowOps as _, RowPart, TowerOps as _},
    tower::Activation,
    weights::TakeRows,
};

pub type Norm = NormOf<Vec<f32>>;

/// Added to the variance in norms.
const EPS: f32 = 1e-5;

/// The weights of a checkpoint. Whisper's keys have no bias, which softmax would ignore; here they have zeros, so that queries, keys
/// and values are one matrix.
pub struct Tensors<'a>(pub &'a Checkpoint);

impl Weights for Tensors<'_> {
    fn f32(&self, name: &str, shape: &[usize]) -> Loaded<Vec<f32>> {
        if name.ends_with(".k_proj.bias") && !self.0.contains(name) {
            return Ok(vec![0.0; shape.iter().product()]);
        }
        self.0.f32(name, shape)
    }

    fn verify(&self, name: &str, shape: &[usize]) -> Loaded<()> {
        self.0.verify(name, shape)
    }

    fn rows_parallel(&self, name: &str, shape: [usize; 2], take: TakeRows<'_>) -> Loaded<u64> {
        self.0.rows_parallel(name, shape, take)
    }

    fn native(&self, name: &str, shape: [usize; 2]) -> Loaded<(Values, u64)> {
        self.0.native(name, shape)
    }

    fn half_kind(&self, name: &str, shape: &[usize]) -> Loaded<Option<HalfKind>> {
        self.0.half_kind(name, shape)
    }
}

/// The tensors `at.PART` below each other, each with `outputs` rows and a bias.
pub fn fused(at: &str, parts: &[&str], outputs: usize, inputs: usize) -> FusedMatrix {
    let tensors = parts.iter().map(|part| (format!("{at}.{part}"), outputs)).collect();
    FusedMatrix { tensors, inputs, bias: true, importance: Importance::Usual }
}

pub fn norm(tensors: &Tensors<'_>, name: &str, width: usize) -> Result<Norm, CheckpointError> {
    let vector = |kind: &str| tensors.f32(&format!("{name}.{kind}"), &[width]);
    Ok(Norm { width, weight: vector("weight")?, bias: Some(vector("bias")?), eps: EPS, joined: 1 })
}

/// Linear, GELU, linear; with the norm before them.
pub struct FeedForward {
    pub norm: Norm,
    pub first: Linear,
    second: Linear,
}

impl FeedForward {
    /// The tensors `at.final_layer_norm`, `at.fc1` and `at.fc2`; `load` loads a matrix.
    pub fn load(
        tensors: &Tensors<'_>,
        at: &str,
        (width, ffn): (usize, usize),
        load: impl Fn(&FusedMatrix) -> Loaded<Linear>,
    ) -> Loaded<Self> {
        Ok(Self {
            norm: norm(tensors, &format!("{at}.final_layer_norm"), width)?,
            first: load(&fused(at, &["fc1"], ffn, width))?,
            second: load(&fused(at, &["fc2"], width, ffn))?,
        })
    }

    /// `out` = the result for normed rows.
    pub fn forward(
        &self,
        ops: &CpuOps,
        work: &mut CpuWork,
        input: &CpuRows,
        [hidden, active]: [&mut CpuRows; 2],
        rows: usize,
        out: &mut CpuRows,
    ) -> Result<()> {
        ops.product(work, &self.first, input, RowPart::all(rows), hidden)?;
        ops.activate(work, Activation::GeluErf, hidden, Out::before(&self.second, active))?;
        ops.product(work, &self.second, active, RowPart::all(rows), out)
    }
}
