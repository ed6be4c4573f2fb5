//! The layers of towers, on any device.

use super::parts::{BOUNDS, HeadParts, LayerParts, MlpParts, NormParts, ProjectorParts, bound_of};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Gate, Result, Weights,
    fused::FusedMatrix,
    ops::{HeadNorms, HeldWeights, Loaded, Norm, Out, Residual, RowPart, TowerOps},
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
        let values = match parts.unit {
            true => vec![1.0; parts.width],
            false => checkpoint.f32(&name, &[parts.width])?,
        };
        ops.vector(&name, values)
    };
    Ok(Norm {
        width: parts.width,
        weight: vector("weight")?,
        bias: parts.bias.then(|| vector("bias")).transpose()?,
        eps: parts.eps,
        joined,
    })
}

/// Norms of queries, keys and values in each head.
struct Heads<D: TowerOps> {
    queries: D::Vector,
    keys: D::Vector,
    eps: f32,
    /// The columns of queries, keys and values, where those that are rotated together are half a head apart.
    columns: D::Columns,
}

impl<D: TowerOps> Heads<D> {
    fn load(ops: &D, parts: &HeadParts, heads: usize, checkpoint: &Checkpoint) -> Loaded<Self> {
        let width = parts.order.len();
        // Scores of normed queries are not divided by the root of their width, which all devices do.
        let [queries, keys] =
            [(&parts.names[0], (width as f32).sqrt()), (&parts.names[1], 1.0)].map(|(name, factor)| {
                let values = checkpoint.f32(name, &[width])?;
                ops.vector(name, parts.order.iter().map(|at| values[*at] * factor).collect())
            });
        let rotated = (0..2 * heads).flat_map(|head| parts.order.iter().map(move |at| head * width + at));
        let columns = rotated.chain(2 * heads * width..3 * heads * width).map(|at| at as u32);
        let columns = ops.chosen(columns.collect())?;
        Ok(Self { queries: queries?, keys: keys?, eps: parts.eps, columns })
    }
}

/// The bounds of the inputs and outputs of a layer's matrices: for each column its smallest and its largest value.
struct Bounds<D: TowerOps> {
    /// Of queries, keys and values; of attention's output; of gates and values; of what follows them.
    matrices: [[D::Vector; 2]; 4],
}

impl<D: TowerOps> Bounds<D> {
    /// Fails if matrices that are computed together have inputs of other bounds.
    fn load(ops: &D, parts: &LayerParts, checkpoint: &Checkpoint) -> Loaded<Self> {
        let bound = |name: &str, bound: &str| -> Loaded<f32> {
            let name = bound_of(name, bound);
            match checkpoint.f32(&name, &[])?.first() {
                Some(value) if !value.is_nan() => Ok(*value),
                _ => Err(CheckpointError::tensor(&name, "is not a number")),
            }
        };
        let of = |matrix: &FusedMatrix| -> Loaded<[D::Vector; 2]> {
            let (mut inputs, mut outputs) = (None, [Vec::new(), Vec::new()]);
            for (name, rows) in &matrix.tensors {
                let [low, high, least, most] = BOUNDS.map(|kind| bound(name, kind));
                let own = [low?, high?];
                if *inputs.get_or_insert(own) != own {
                    let name = bound_of(name, BOUNDS[0]);
                    let problem = "differs from that of a matrix with the same input, which is not supported";
                    return Err(CheckpointError::tensor(&name, problem));
                }
                for (all, bound) in outputs.iter_mut().zip([least?, most?]) {
                    all.extend(std::iter::repeat_n(bound, *rows));
                }
            }
            let inputs =
                inputs.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]).map(|bound| vec![bound; matrix.inputs]);
            let name = matrix.tensors.first().map_or("", |(name, _)| name);
            Ok([ops.vector(name, inputs.concat())?, ops.vector(name, outputs.concat())?])
        };
        let [a, b, c, d] = parts.matrices().map(of);
        Ok(Self { matrices: [a?, b?, c?, d?] })
    }
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

impl<D: TowerOps> TowerBuffers<D> {
    /// Put what the layout's taps make of the states in their place.
    pub fn pool(&mut self, ops: &D, layout: &D::Layout, grids: usize) -> Result<()> {
        ops.blend(&mut self.work, layout, &self.x, grids, &mut self.merged)?;
        std::mem::swap(&mut self.x, &mut self.merged);
        Ok(())
    }
}

enum Mlp<D: TowerOps> {
    Gated { gate_up: D::Matrix, gate: Gate, down: D::Matrix },
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
            Self::Gated { gate_up, gate, down } => {
                ops.gated(work, gate_up, *gate, input, Out::before(down, gated))?;
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
    heads: Option<Heads<D>>,
    after: Option<[Norm<D::Vector>; 2]>,
    bounds: Option<Bounds<D>>,
    /// Width between the two matrices of the feed-forward layer.
    inner: usize,
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
                // Bounded gates and values are columns of their own.
                MlpParts::Gated { gate_up, gate, down } => Mlp::Gated {
                    gate_up: matrix(gate_up, !parts.bounded)?,
                    gate: *gate,
                    down: matrix(down, false)?,
                },
                MlpParts::Plain { first, activation, second } => Mlp::Plain {
                    first: matrix(first, true)?,
                    activation: *activation,
                    second: matrix(second, false)?,
                },
            },
            windows: parts.windows,
            heads: match &parts.heads {
                Some(heads) => {
                    let count = parts.output.inputs / heads.order.len().max(1);
                    Some(Heads::load(ops, heads, count, checkpoint)?)
                }
                None => None,
            },
            after: match &parts.after {
                Some([attention, feed_forward]) => {
                    Some([norm(ops, attention, 1, checkpoint)?, norm(ops, feed_forward, 1, checkpoint)?])
                }
                None => None,
            },
            bounds: parts.bounded.then(|| Bounds::load(ops, parts, checkpoint)).transpose()?,
            inner: parts.matrices()[3].inputs,
            joined: parts.joined,
        })
    }

    /// States that become one.
    pub fn joined(&self) -> usize {
        self.joined
    }

    pub fn bytes(&self) -> usize {
        let [first, second] = match &self.mlp {
            Mlp::Gated { gate_up: first, down: second, .. } | Mlp::Plain { first, second, .. } => {
                [first, second]
            }
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
        if self.bounds.is_some() || self.after.is_some() {
            return self.forward_normed(ops, layout, grids, rows, buffers);
        }
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

    /// As [`TowerLayer::forward`], of a layer with norms after attention and the feed-forward layer, and perhaps bounds.
    fn forward_normed(
        &self,
        ops: &D,
        layout: &D::Layout,
        grids: usize,
        rows: usize,
        buffers: &mut TowerBuffers<D>,
    ) -> Result<()> {
        let TowerBuffers {
            work, x, qkv, attended, input, hidden: middle, gated, sums, merged, normed, ..
        } = buffers;
        let hidden = self.norm1.width;
        let bounds = self.bounds.as_ref().map(|bounds| &bounds.matrices);
        let parts = || RowPart::each(rows, ops.rows_at_once(hidden));
        // Rows within the bounds of a matrix's input, as it takes them.
        let enter = |work: &mut D::Work,
                     rows: &mut D::Rows,
                     count,
                     of: usize,
                     next: &D::Matrix,
                     input: &mut D::Rows| {
            let all = RowPart::all(count);
            if let Some([inputs, _]) = bounds.map(|bounds| &bounds[of]) {
                ops.clamp(work, rows, all, inputs)?;
            }
            ops.part(work, rows, all, Out::before(next, input))
        };
        let leave = |work: &mut D::Work, rows: &mut D::Rows, part, of: usize| match bounds
            .map(|bounds| &bounds[of])
        {
            Some([_, outputs]) => ops.clamp(work, rows, part, outputs),
            None => Ok(()),
        };
        let settle = |work: &mut D::Work, sums: &mut D::Rows, count, of: usize, normed: &mut D::Rows| {
            if let Some(norm) = self.after.as_ref().map(|after| &after[of]) {
                let residual = Residual { x: sums, part: RowPart::all(count), add: None };
                ops.norm(work, residual, norm, Out { rows: normed, next: None })?;
                std::mem::swap(sums, normed);
            }
            Ok::<(), specreel_tensor::Error>(())
        };
        for part in parts() {
            let residual = Residual { x, part, add: None };
            ops.norm(work, residual, &self.norm1, Out { rows: normed, next: None })?;
            enter(work, normed, part.rows, 0, &self.qkv, input)?;
            ops.product(work, &self.qkv, input, part, qkv)?;
            leave(work, qkv, part, 0)?;
        }
        if let Some(heads) = &self.heads {
            ops.choose(work, qkv, &heads.columns, merged)?;
            std::mem::swap(qkv, merged);
            let Heads { queries, keys, eps, .. } = heads;
            ops.norm_heads(work, layout, qkv, HeadNorms { queries, keys, values: true, eps: *eps })?;
        }
        ops.attend_in_grids(work, layout, qkv, grids, self.windows, attended)?;
        for part in parts() {
            let own = RowPart::all(part.rows);
            ops.part(work, attended, part, Out { rows: normed, next: None })?;
            enter(work, normed, part.rows, 1, &self.output, input)?;
            ops.product(work, &self.output, input, own, sums)?;
            leave(work, sums, own, 1)?;
            settle(work, sums, part.rows, 0, normed)?;
            let residual = Residual { x, part, add: Some(sums) };
            ops.norm(work, residual, &self.norm2, Out { rows: normed, next: None })?;
            enter(work, normed, part.rows, 2, self.mlp.first(), input)?;
            match &self.mlp {
                Mlp::Gated { gate_up, gate, down } if bounds.is_some() => {
                    ops.product(work, gate_up, input, own, middle)?;
                    leave(work, middle, own, 2)?;
                    let width = self.inner;
                    ops.columns(work, middle, width..2 * width, gated)?;
                    ops.columns(work, middle, 0..width, normed)?;
                    ops.gate_by(work, normed, *gate, Out { rows: gated, next: None })?;
                    enter(work, gated, part.rows, 3, down, input)?;
                    ops.product(work, down, input, own, sums)?;
                    leave(work, sums, own, 3)?;
                }
                mlp => mlp.forward(ops, work, (input, middle, gated), own, sums)?,
            }
            settle(work, sums, part.rows, 1, normed)?;
            ops.add(work, x, part, sums)?;
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
    pooled: bool,
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
            pooled: parts.pooled,
        })
    }

    /// True if it takes what the layout's taps make of the states.
    pub fn pools(&self) -> bool {
        self.pooled
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
