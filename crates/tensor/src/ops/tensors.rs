//! The operations of models in candle's tensors.
//!
//! The library chooses kernels by the number of rows, so a row computed among others can differ in its last bits from the same
//! row computed alone. A pass is queued on the device without waiting. Positions, a mask and ids are sent to the device. Rows
//! that enter and leave a pass are f32; in between, values have the compute type.

mod decoder;
mod tower;

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::{HeldWeights, Loaded, Norm, Out, Residual, RowOps, RowPart, rows::refuse_gate};
use crate::{
    CheckpointError, ComputeDevice, Gate, Result, Weights,
    candle::{
        attention::{PassAttention, ProbeSums},
        linear::Matrix,
        states::CandleRows,
    },
    convolution::{Convolution, Side},
    fused::FusedMatrix,
    states::{States, with_slice},
};

#[derive(Clone, Debug)]
pub struct TensorOps {
    place: ComputeDevice,
}

/// Rows in the compute type; none before something was written to them.
#[derive(Default)]
pub struct TensorRows(Option<Tensor>);

impl TensorRows {
    fn get(&self) -> Result<&Tensor> {
        self.0.as_ref().ok_or_else(|| crate::Error::Message("rows are used before they are written".into()))
    }
}

/// What the operations of a pass have in common.
#[derive(Default)]
pub struct TensorWork(Option<TensorPass>);

struct TensorPass {
    cos: Tensor,
    sin: Tensor,
    attention: PassAttention,
    probe: Option<ProbeSums>,
}

impl TensorWork {
    fn pass(&mut self) -> Result<&mut TensorPass> {
        self.0.as_mut().ok_or_else(|| crate::Error::Message("no pass has begun".into()))
    }
}

impl TensorOps {
    /// A device whose weight type is resolved.
    pub fn new(place: &ComputeDevice) -> Self {
        Self { place: place.clone() }
    }

    fn device(&self) -> &Device {
        self.place.device()
    }

    fn dtype(&self) -> DType {
        self.place.candle_type()
    }

    /// Values of an input tensor in the compute type.
    fn rows(&self, states: &States) -> Result<Tensor> {
        let Some(rows) = states.in_tensors() else {
            let rows =
                with_slice(states, |values| Tensor::from_slice(values, states.shape(), self.device()))?;
            return Ok(rows?.to_dtype(self.dtype())?);
        };
        Ok(rows.tensor().to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?)
    }
}

fn on_tensor(name: &str) -> impl Fn(crate::Error) -> CheckpointError {
    move |error| CheckpointError::tensor(name, &error.to_string())
}

impl HeldWeights for Matrix {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl RowOps for TensorOps {
    type Matrix = Matrix;
    type Vector = Tensor;
    type Columns = Tensor;
    type Rows = TensorRows;
    type Work = TensorWork;

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Matrix> {
        let (weight, bias) = (list.weights(checkpoint)?, list.biases(checkpoint)?);
        let dtype = self.place.dtype().kept(list.importance);
        Matrix::new(weight, bias, [list.outputs(), list.inputs], dtype, &self.place)
            .map_err(on_tensor(list.name()))
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Tensor> {
        let width = values.len();
        self.place.tensor(values, &[width]).map_err(on_tensor(name))
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<Tensor> {
        let count = columns.len();
        let columns = Tensor::from_vec(columns, count, self.device()).map_err(crate::Error::from);
        columns.map_err(on_tensor("chosen columns"))
    }

    fn part(&self, _: &mut TensorWork, rows: &TensorRows, part: RowPart, out: Out<'_, Self>) -> Result<()> {
        out.rows.0 = Some(rows.get()?.narrow(0, part.start, part.rows)?);
        Ok(())
    }

    fn norm(
        &self,
        _: &mut TensorWork,
        Residual { x, add, .. }: Residual<'_, TensorRows>,
        norm: &Norm<Tensor>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        if let Some(add) = add {
            x.0 = Some((x.get()? + add.get()?)?);
        }
        let x = x.get()?.reshape(((), norm.width))?;
        let normed = match &norm.bias {
            None => ops::rms_norm(&x, &norm.weight, norm.eps)?,
            Some(bias) => ops::layer_norm(&x, &norm.weight, bias, norm.eps)?,
        };
        out.rows.0 = Some(normed.reshape(((), norm.joined * norm.width))?);
        Ok(())
    }

    fn product(
        &self,
        _: &mut TensorWork,
        matrix: &Matrix,
        x: &TensorRows,
        _: RowPart,
        out: &mut TensorRows,
    ) -> Result<()> {
        out.0 = Some(matrix.forward(x.get()?)?);
        Ok(())
    }

    fn gated(
        &self,
        _: &mut TensorWork,
        matrix: &Matrix,
        gate: Gate,
        x: &TensorRows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        refuse_gate(gate, Gate::Silu)?;
        out.rows.0 = Some(matrix.forward_gated(x.get()?)?);
        Ok(())
    }

    fn choose(
        &self,
        _: &mut TensorWork,
        from: &TensorRows,
        columns: &Tensor,
        x: &mut TensorRows,
    ) -> Result<()> {
        x.0 = Some(from.get()?.index_select(columns, 1)?);
        Ok(())
    }

    fn gate_by(
        &self,
        _: &mut TensorWork,
        gates: &TensorRows,
        gate: Gate,
        Out { rows: x, .. }: Out<'_, Self>,
    ) -> Result<()> {
        refuse_gate(gate, Gate::Sigmoid)?;
        x.0 = Some((x.get()? * ops::sigmoid(gates.get()?)?)?);
        Ok(())
    }

    fn scale(&self, _: &mut TensorWork, x: &mut TensorRows, factor: f32) -> Result<()> {
        x.0 = Some((x.get()? * f64::from(factor))?);
        Ok(())
    }

    fn convolve(
        &self,
        _: &mut TensorWork,
        x: &TensorRows,
        corrections: &TensorRows,
        convolution: &Convolution<Tensor>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let ([first, own], taps) = (convolution.first(side), convolution.shape.taps);
        let (x, corrections) = (x.get()?, corrections.get()?);
        let ((rows, width), groups) = (x.dims2()?, convolution.width / convolution.shape.group);
        let shared = convolution.shared.narrow(0, first, taps * width)?.reshape((taps, groups, ()))?;
        let mut sum: Option<Tensor> = None;
        for tap in 0..taps.min(rows) {
            let corrections = corrections.narrow(1, own + tap * groups, groups)?.unsqueeze(2)?;
            let kernel = corrections.broadcast_add(&shared.get(tap)?)?.reshape((rows, width))?;
            let shifted = x.narrow(0, 0, rows - tap)?.pad_with_zeros(0, tap, 0)?;
            let mixed = (kernel * shifted)?;
            sum = Some(match sum {
                None => mixed,
                Some(sum) => (sum + mixed)?,
            });
        }
        out.rows.0 = sum;
        Ok(())
    }

    fn add(&self, _: &mut TensorWork, x: &mut TensorRows, _: RowPart, add: &TensorRows) -> Result<()> {
        x.0 = Some((x.get()? + add.get()?)?);
        Ok(())
    }

    fn columns(
        &self,
        _: &mut TensorWork,
        from: &TensorRows,
        columns: Range<usize>,
        x: &mut TensorRows,
    ) -> Result<()> {
        x.0 = Some(from.get()?.narrow(1, columns.start, columns.len())?.contiguous()?);
        Ok(())
    }

    fn add_columns(
        &self,
        _: &mut TensorWork,
        x: &mut TensorRows,
        from: &TensorRows,
        columns: Range<usize>,
    ) -> Result<()> {
        x.0 = Some((x.get()? + from.get()?.narrow(1, columns.start, columns.len())?)?);
        Ok(())
    }

    fn keep(&self, _: &mut TensorWork, rows: &TensorRows) -> Result<States> {
        CandleRows::new(rows.get()?).map(States::Candle)
    }

    fn project(&self, _: &mut TensorWork, matrix: &Matrix, states: &States) -> Result<States> {
        CandleRows::new(&matrix.forward(&self.rows(states)?)?).map(States::Candle)
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        CandleRows::new(&Tensor::cat(&[self.rows(a)?, self.rows(b)?], 1)?).map(States::Candle)
    }

    fn synchronize(&self, _: &mut TensorWork) -> Result<()> {
        Ok(self.device().synchronize()?)
    }
}
