//! The layers of towers, on any device.

use super::parts::{LayerParts, MlpParts, NormParts, ProjectorParts};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Result, Weights,
    ops::{HeldWeights, Loaded, Norm, Out, Residual, RowPart, TowerOps},
    tower::Activation,
};

fn norm<D: TowerOps>(
    ops: &D,
    parts: &NormParts,
    joined: usize,
    checkpoint: &Checkpoint,
) -> Loaded<Norm<D::Vector>> {
    let vector = |kind: &str| {
        let name = format!("{}.{kind}", parts.name);
        ops.vector(&name, checkpoint.f32(&name, &[parts.width])?)
    };
    Ok(Norm {
        width: parts.width,
        weight: vector("weight")?,
        bias: parts.bias.then(|| vector("bias")).transpose()?,
        eps: parts.eps,
        joined,
    })
}

/// Rows in a device's memory that the layers use again.
pub(super) struct TowerBuffers<D: TowerOps> {
    pub work: D::Work,
    /// States, of the whole chunk.
    pub x: D::Rows,
    /// Of the whole chunk.
    qkv: D::Rows,
    /// Of the whole chunk.
    attended: D::Rows,
    /// The input of the next matrix.
    pub input: D::Rows,
    hidden: D::Rows,
    gated: D::Rows,
    sums: D::Rows,
    /// States that are made of several, of the whole chunk.
    merged: D::Rows,
    /// States between two norms.
    normed: D::Rows,
    /// The output of each projector, of the whole chunk.
    pub(crate) projected: Vec<D::Rows>,
}

impl<D: TowerOps> Default for TowerBuffers<D> {
    fn default() -> Self {
        Self {
            work: D::Work::default(),
            x: D::Rows::default(),
            qkv: D::Rows::default(),
            attended: D::Rows::default(),
            input: D::Rows::default(),
            hidden: D::Rows::default(),
            gated: D::Rows::default(),
            sums: D::Rows::default(),
            merged: D::Rows::default(),
            normed: D::Rows::default(),
            projected: Vec::new(),
        }
    }
}

enum Mlp<D: TowerOps> {
    Gated { gate_up: D::Matrix, down: D::Matrix },
    Plain { first: D::Matrix, activation: Activation, second: D::Matrix },
}

impl<D: TowerOps> Mlp<D> {
    /// The matrix that takes the input.
    fn first(&self) -> &D::Matrix {
        match self {
            Self::Gated { gate_up: first, .. } | Self::Plain { first, .. } => first,
        }
    }

    /// Of rows as the first matrix takes them, to a part of `out`; `hidden` and `gated` are used in between.
    fn forward(
        &self,
        ops: &D,
        work: &mut D::Work,
        (input, hidden, gated): (&D::Rows, &mut D::Rows, &mut D::Rows),
        part: RowPart,
        out: &mut D::Rows,
    ) -> Result<()> {
        let second = match self {
            Self::Gated { gate_up, down } => {
                ops.gated(work, gate_up, input, Out::before(down, gated))?;
                down
            }
            Self::Plain { first, activation, second } => {
                ops.product(work, first, input, RowPart::all(part.rows), hidden)?;
                ops.activate(work, *activation, hidden, Out::before(second, gated))?;
                second
            }
        };
        ops.product(work, second, gated, part, out)
    }
}

pub(super) struct TowerLayer<D: TowerOps> {
    norm1: Norm<D::Vector>,
    qkv: D::Matrix,
    output: D::Matrix,
    norm2: Norm<D::Vector>,
    mlp: Mlp<D>,
    windows: bool,
    joined: usize,
}

impl<D: TowerOps> TowerLayer<D> {
    pub fn load(ops: &D, parts: &LayerParts, checkpoint: &Checkpoint) -> Loaded<Self> {
        let matrix = |list, pad| ops.tower_matrix(list, pad, checkpoint);
        Ok(Self {
            norm1: norm(ops, &parts.norm1, 1, checkpoint)?,
            qkv: matrix(&parts.qkv, false)?,
            output: matrix(&parts.output, false)?,
            norm2: norm(ops, &parts.norm2, 1, checkpoint)?,
            mlp: match &parts.mlp {
                MlpParts::Gated { gate_up, down } => {
                    Mlp::Gated { gate_up: matrix(gate_up, true)?, down: matrix(down, false)? }
                }
                MlpParts::Plain { first, activation, second } => Mlp::Plain {
                    first: matrix(first, true)?,
                    activation: *activation,
                    second: matrix(second, false)?,
                },
            },
            windows: parts.windows,
            joined: parts.joined,
        })
    }

    /// States that become one.
    pub fn joined(&self) -> usize {
        self.joined
    }

    pub fn bytes(&self) -> usize {
        let [first, second] = match &self.mlp {
            Mlp::Gated { gate_up: first, down: second } | Mlp::Plain { first, second, .. } => [first, second],
        };
        [&self.qkv, &self.output, first, second].map(HeldWeights::bytes).iter().sum()
    }

    /// Run the states of `grids` temporal grids, `rows` rows, through the layer.
    pub fn forward(
        &self,
        ops: &D,
        layout: &D::Layout,
        grids: usize,
        rows: usize,
        buffers: &mut TowerBuffers<D>,
    ) -> Result<()> {
        let TowerBuffers { work, x, qkv, attended, input, hidden: middle, gated, sums, merged, .. } = buffers;
        let hidden = self.norm1.width;
        let parts = || RowPart::each(rows, ops.rows_at_once(hidden));
        for part in parts() {
            let residual = Residual { x, part, add: None };
            ops.norm(work, residual, &self.norm1, Out::before(&self.qkv, input))?;
            ops.product(work, &self.qkv, input, part, qkv)?;
        }
        ops.attend_in_grids(work, layout, qkv, grids, self.windows, attended)?;
        for part in parts() {
            let own = RowPart::all(part.rows);
            ops.part(work, attended, part, Out::before(&self.output, input))?;
            ops.product(work, &self.output, input, own, sums)?;
            if self.joined > 1 {
                ops.add(work, x, part, sums)?;
                continue;
            }
            let residual = Residual { x, part, add: Some(sums) };
            ops.norm(work, residual, &self.norm2, Out::before(self.mlp.first(), input))?;
            self.mlp.forward(ops, work, (input, middle, gated), own, sums)?;
            ops.add(work, x, part, sums)?;
        }
        if self.joined > 1 {
            let rows = rows / self.joined;
            for part in RowPart::each(rows, ops.rows_at_once(self.joined * hidden)) {
                let residual = Residual { x, part, add: None };
                ops.norm(work, residual, &self.norm2, Out::before(self.mlp.first(), input))?;
                self.mlp.forward(ops, work, (input, middle, gated), part, merged)?;
            }
            ops.blend(work, layout, x, grids, sums)?;
            ops.add(work, merged, RowPart::all(rows), sums)?;
            std::mem::swap(x, merged);
        }
        ops.catch_up(work)
    }
}

/// From the states after a layer to an embedding of each visual token, before they are ordered and pooled: linear, or linear, GELU,
/// linear.
pub(super) struct Projector<D: TowerOps> {
    /// The layer whose states it takes.
    pub after: usize,
    norm: Option<Norm<D::Vector>>,
    joint_norm: Option<Norm<D::Vector>>,
    joined: usize,
    first: D::Matrix,
    second: Option<D::Matrix>,
    /// Width of its input rows.
    width: usize,
}

impl<D: TowerOps> Projector<D> {
    /// Load to a device that is [for the ends](TowerOps::for_ends).
    pub fn load(ops: &D, parts: &ProjectorParts, checkpoint: &Checkpoint) -> Loaded<Self> {
        let matrix = |list, pad| ops.tower_matrix(list, pad, checkpoint);
        // Rows of the norm in an input row.
        let load_norm = |norm: &NormParts| self::norm(ops, norm, parts.first.inputs / norm.width, checkpoint);
        Ok(Self {
            after: parts.after,
            norm: parts.norm.as_ref().map(load_norm).transpose()?,
            joint_norm: parts.joint_norm.as_ref().map(load_norm).transpose()?,
            joined: parts.joined,
            first: matrix(&parts.first, parts.second.is_some())?,
            second: parts.second.as_ref().map(|list| matrix(list, false)).transpose()?,
            width: parts.first.inputs,
        })
    }

    pub fn bytes(&self) -> usize {
        self.first.bytes() + self.second.as_ref().map_or(0, HeldWeights::bytes)
    }

    /// Project `rows` rows of states to the `nth` rows of the projected.
    pub fn forward(&self, ops: &D, rows: usize, nth: usize, buffers: &mut TowerBuffers<D>) -> Result<()> {
        let TowerBuffers { work, x, input, hidden, gated, normed, projected, .. } = buffers;
        if projected.len() <= nth {
            projected.resize_with(nth + 1, D::Rows::default);
        }
        let projected = &mut projected[nth];
        for part in RowPart::each(rows / self.joined, ops.rows_at_once(self.width)) {
            // Rows of the norm in an input row.
            let within =
                self.norm.as_ref().or(self.joint_norm.as_ref()).map_or(self.joined, |norm| norm.joined);
            let n = part.rows;
            let states =
                RowPart { start: part.start * within, rows: n * within, of: rows / self.joined * within };
            let out = Out::before(&self.first, input);
            let residual = Residual { x, part: states, add: None };
            match (&self.norm, &self.joint_norm) {
                (Some(norm), Some(joint)) => {
                    ops.norm(work, residual, norm, Out { rows: normed, next: None })?;
                    let residual = Residual { x: normed, part: RowPart::all(n), add: None };
                    ops.norm(work, residual, joint, out)?;
                }
                (Some(norm), None) | (None, Some(norm)) => ops.norm(work, residual, norm, out)?,
                (None, None) => ops.part(work, x, states, out)?,
            }
            let Some(second) = &self.second else {
                ops.product(work, &self.first, input, part, projected)?;
                continue;
            };
            ops.product(work, &self.first, input, RowPart::all(n), hidden)?;
            ops.activate(work, Activation::GeluErf, hidden, Out::before(second, gated))?;
            ops.product(work, second, gated, part, projected)?;
        }
        Ok(())
    }
}
