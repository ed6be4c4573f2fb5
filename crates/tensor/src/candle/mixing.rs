//! Linear attention in tensors, in f32 for every compute type.
//!
//! Rows that are logged are computed one by one, so that a step and its replay are the same operations. A part of a prompt is
//! computed in chunks instead, in the parallel form of the gated delta rule (arXiv:2412.06464).

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::recurrent::{Held, LoggedRow, Recurrent};
use crate::{
    LinearAttention, LinearWeights, Result,
    recurrent::{Bank, LOGGED, RecurrentPass},
    sources::branches,
};

/// Rows of a chunk.
const CHUNK: usize = 64;

/// The tensors of a layer with linear attention besides its matrices.
pub struct TensorLinear {
    shape: LinearAttention,
    /// For each row of the window its weights, `channels` values.
    convolution: Vec<Tensor>,
    rates: Tensor,
    biases: Tensor,
    norm: Tensor,
    eps: f32,
    key_heads: Tensor,
}

impl TensorLinear {
    /// From the weights as they are stored.
    pub fn new(weights: LinearWeights, device: &Device) -> Result<Self> {
        let LinearWeights { shape, convolution, rates, biases, norm, eps } = weights;
        let convolution = Tensor::from_vec(convolution, (shape.channels(), shape.kernel), device)?.t()?;
        let key_heads: Vec<u32> = (0..shape.value_heads).map(|head| shape.key_head(head) as u32).collect();
        Ok(Self {
            convolution: (0..shape.kernel)
                .map(|row| convolution.get(row)?.force_contiguous())
                .collect::<candle_core::Result<_>>()?,
            rates: Tensor::from_vec(rates, shape.value_heads, device)?,
            biases: Tensor::from_vec(biases, shape.value_heads, device)?,
            norm: Tensor::from_vec(norm, shape.value_dim, device)?,
            key_heads: Tensor::from_vec(key_heads, shape.value_heads, device)?,
            shape,
            eps,
        })
    }
}

/// Rows as the rule takes them.
struct Prepared {
    /// `value_heads × rows × key_dim`.
    queries: Tensor,
    keys: Tensor,
    /// `value_heads × rows × value_dim`.
    values: Tensor,
    /// The logarithms of the decays, `value_heads × rows`.
    fades: Tensor,
    /// How far the state turns, `value_heads × rows`.
    rates: Tensor,
}

/// Linear attention of a layer; see [`DecoderOps::mix`](crate::ops::DecoderOps::mix). Fails if the states have fewer layers, or memory
/// is missing.
pub fn mix(
    mixed: &Tensor,
    linear: &TensorLinear,
    RecurrentPass { plan, states, layer }: RecurrentPass<'_, Recurrent>,
) -> Result<Tensor> {
    let (shape, dtype) = (linear.shape, mixed.dtype());
    let (channels, values, heads) = (shape.channels(), shape.values(), shape.value_heads);
    let mixed = mixed.to_dtype(DType::F32)?;
    let rows = mixed.dim(0)?;
    let entered = mixed.narrow(1, 0, channels)?.contiguous()?;
    let gates = mixed.narrow(1, channels, values)?.contiguous()?;
    let turns = mixed.narrow(1, channels + values, heads)?;
    let fades = mixed.narrow(1, channels + values + heads, heads)?;

    let empty = states.empty()?;
    let held = states.layer(layer)?;
    let from = held.held(plan.from, empty)?;
    let windows = held.windows(plan, &from, &entered, shape.kernel)?;
    let prepared = prepare(linear, &windows.windows, &turns, &fades)?;

    let mut root = from.state.clone();
    for place in &plan.replayed {
        root = held.logged(*place)?.replay(&root)?;
    }
    if plan.settles {
        held.hold(Bank::Settled, Held { state: root.clone(), rows: windows.before });
    }
    let (answers, state) = if plan.places.is_none() && plan.ancestors.is_none() && rows > LOGGED {
        in_chunks(&prepared, root)?
    } else {
        let mut state = root.clone();
        let mut answers = Vec::with_capacity(rows);
        for (row, branch) in branches(plan, rows).into_iter().enumerate() {
            if let Some(path) = branch {
                state = root.clone();
                for place in path {
                    state = held.logged(*place)?.replay(&state)?;
                }
            }
            let (query, logged) = step(&prepared, row, &entered, &state)?;
            state = logged.replay(&state)?;
            answers.push(query.matmul(&state)?);
            if let Some(places) = &plan.places {
                held.log(places[row], logged);
            }
        }
        (Tensor::cat(&answers, 1)?, state)
    };
    if plan.ends {
        held.hold(Bank::Current, Held { state, rows: windows.after });
    }
    let answers = answers.transpose(0, 1)?.contiguous()?;
    let normed = ops::rms_norm(&answers, &linear.norm, linear.eps)?.reshape((rows, values))?;
    Ok((normed * ops::silu(&gates)?)?.to_dtype(dtype)?)
}

/// The query of a row, `value_heads × 1 × key_dim`, and the row's addition to the state.
fn step(prepared: &Prepared, row: usize, entered: &Tensor, state: &Tensor) -> Result<(Tensor, LoggedRow)> {
    let of = |tensor: &Tensor| tensor.narrow(1, row, 1)?.force_contiguous();
    let (key, value) = (of(&prepared.keys)?, of(&prepared.values)?);
    let decay = of(&prepared.fades)?.exp()?.unsqueeze(2)?;
    let rate = of(&prepared.rates)?.unsqueeze(2)?;
    let seen = key.matmul(state)?.broadcast_mul(&decay)?;
    let delta = (value - seen)?.broadcast_mul(&rate)?;
    // Copied: a view would keep the rows of the whole pass.
    let row = entered.narrow(0, row, 1)?.force_contiguous()?;
    Ok((of(&prepared.queries)?, LoggedRow { row, key: key.transpose(1, 2)?, delta, decay }))
}

/// Convolve the rows, norm queries and keys, and compute how the state of each head decays and turns.
fn prepare(linear: &TensorLinear, windows: &[Tensor], turns: &Tensor, fades: &Tensor) -> Result<Prepared> {
    let shape = linear.shape;
    let mut sum: Option<Tensor> = None;
    for (window, weights) in windows.iter().zip(&linear.convolution) {
        let part = window.broadcast_mul(weights)?;
        sum = Some(match sum {
            Some(sum) => (sum + part)?,
            None => part,
        });
    }
    let Some(sum) = sum else { crate::bail!("a convolution of no rows") };
    let mixed = ops::silu(&sum)?;
    let rows = mixed.dim(0)?;
    let in_heads = |first: usize, heads: usize, width: usize| {
        let columns = mixed.narrow(1, first, heads * width)?.reshape((rows, heads, width))?;
        columns.transpose(0, 1)?.contiguous()
    };
    let unit = |first: usize| {
        let x = in_heads(first, shape.key_heads, shape.key_dim)?;
        let length = (x.sqr()?.sum_keepdim(2)? + 1e-6)?.sqrt()?;
        x.broadcast_div(&length)?.index_select(&linear.key_heads, 0)
    };
    // log(1 + exp(x)), without overflow.
    let x = fades.broadcast_add(&linear.biases)?;
    let softplus = (x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
    Ok(Prepared {
        queries: (unit(0)? * (1.0 / (shape.key_dim as f64).sqrt()))?,
        keys: unit(shape.keys())?,
        values: in_heads(2 * shape.keys(), shape.value_heads, shape.value_dim)?,
        fades: softplus.broadcast_mul(&linear.rates)?.t()?.contiguous()?,
        rates: ops::sigmoid(&turns.contiguous()?)?.t()?.contiguous()?,
    })
}

/// The rule over all rows, [`CHUNK`] at a time: the state's answers, `value_heads × rows × value_dim`, and the state after.
///
/// In a chunk, with γ the decay from its first row on, the updates d solve a triangular system,
///
/// ```text
/// d_i = rate_i (v_i − γ_i Sᵀ k_i − Σ_{j<i} γ_i / γ_j (k_i · k_j) d_j)
/// ```
///
/// which is solved for all chunks at once, as far as it does not depend on the state S before the chunk.
fn in_chunks(prepared: &Prepared, mut state: Tensor) -> Result<(Tensor, Tensor)> {
    let (heads, rows, key_dim) = prepared.keys.dims3()?;
    let (value_dim, count) = (prepared.values.dim(2)?, rows.div_ceil(CHUNK));
    let device = prepared.keys.device();
    // Rows that are added have a rate of 0 and no decay: they leave the state as it is.
    let in_chunks = |tensor: &Tensor, width: usize| {
        let padded = tensor.pad_with_zeros(1, 0, count * CHUNK - rows)?;
        padded.contiguous()?.reshape((heads * count, CHUNK, width))
    };
    let (queries, keys) = (in_chunks(&prepared.queries, key_dim)?, in_chunks(&prepared.keys, key_dim)?);
    let values = in_chunks(&prepared.values, value_dim)?;
    let rates = in_chunks(&prepared.rates, 1)?;
    let lower = Tensor::tril2(CHUNK, DType::F32, device)?;
    // The logarithms of γ: sums over the rows up to each one.
    let fades = in_chunks(&prepared.fades, 1)?;
    let fades = lower.broadcast_left(heads * count)?.contiguous()?.matmul(&fades)?;
    let across = fades.transpose(1, 2)?.contiguous()?;
    // γ_i / γ_j from the diagonal down, at most 1; entries above it could overflow.
    let between = fades.broadcast_sub(&across)?.broadcast_mul(&lower)?.exp()?.broadcast_mul(&lower)?;
    let keys_across = keys.transpose(1, 2)?.contiguous()?;
    let system = (keys.matmul(&keys_across)? * &between)?.broadcast_mul(&rates)?;
    let inverse = unit_lower_inverse(&system)?;

    let grown = fades.exp()?;
    let own = inverse.matmul(&values.broadcast_mul(&rates)?)?;
    let seen = inverse.matmul(&keys.broadcast_mul(&(rates * &grown)?)?)?;
    let among = (queries.matmul(&keys_across)? * &between)?;
    let queries = queries.broadcast_mul(&grown)?;
    // γ of the last row, and from each row to it.
    let last = fades.narrow(1, CHUNK - 1, 1)?;
    let fresh = keys_across.broadcast_mul(&last.broadcast_sub(&across)?.exp()?)?;
    let last = last.exp()?;

    let of = |tensor: &Tensor, chunk: usize| {
        let (_, rows, width) = tensor.dims3()?;
        tensor.reshape((heads, count, rows, width))?.narrow(1, chunk, 1)?.squeeze(1)?.contiguous()
    };
    let mut answers = Vec::with_capacity(count);
    for chunk in 0..count {
        let updates = (of(&own, chunk)? - of(&seen, chunk)?.matmul(&state)?)?;
        answers.push((of(&queries, chunk)?.matmul(&state)? + of(&among, chunk)?.matmul(&updates)?)?);
        state = (state.broadcast_mul(&of(&last, chunk)?)? + of(&fresh, chunk)?.matmul(&updates)?)?;
    }
    Ok((Tensor::cat(&answers, 1)?.narrow(1, 0, rows)?, state))
}

/// The inverses of lower triangular matrices whose diagonals are taken to be ones, `count × CHUNK × CHUNK`; what is on and above
/// the diagonals is not read.
///
/// By halves: the inverse of a matrix of four blocks consists of the inverses of its two diagonal blocks, and below them their product with the
/// block between them, negated. All blocks of a size are inverted at once.
fn unit_lower_inverse(matrices: &Tensor) -> Result<Tensor> {
    let (count, device) = (matrices.dim(0)?, matrices.device());
    let mut inverse = Tensor::eye(CHUNK, DType::F32, device)?.broadcast_left(count)?.contiguous()?;
    let mut size = 1;
    while size < CHUNK {
        // The lower left blocks of this size.
        let within = |row: usize, column: usize| {
            row / (2 * size) == column / (2 * size)
                && row / size % 2 == 1
                && (column / size).is_multiple_of(2)
        };
        let mask: Vec<f32> =
            (0..CHUNK * CHUNK).map(|at| if within(at / CHUNK, at % CHUNK) { 1.0 } else { 0.0 }).collect();
        let blocks = matrices.broadcast_mul(&Tensor::from_vec(mask, (CHUNK, CHUNK), device)?)?;
        inverse = (&inverse - inverse.matmul(&blocks)?.matmul(&inverse)?)?;
        size *= 2;
    }
    Ok(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::noise;

    #[test]
    fn inverses_of_triangles() {
        let matrices =
            Tensor::from_vec(noise(3, 2 * CHUNK * CHUNK), (2, CHUNK, CHUNK), &Device::Cpu).unwrap();
        let matrices = (matrices * 0.3).unwrap();
        let inverse = unit_lower_inverse(&matrices).unwrap();
        let strict = |tensor: &Tensor| {
            let lower = Tensor::tril2(CHUNK, DType::F32, &Device::Cpu).unwrap();
            let one = Tensor::eye(CHUNK, DType::F32, &Device::Cpu).unwrap();
            let kept = tensor.broadcast_mul(&(lower - &one).unwrap()).unwrap();
            kept.broadcast_add(&one).unwrap()
        };
        let product = strict(&matrices).matmul(&inverse).unwrap();
        let one = Tensor::eye(CHUNK, DType::F32, &Device::Cpu).unwrap();
        let error =
            product.broadcast_sub(&one).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap();
        assert!(error.to_scalar::<f32>().unwrap() < 1e-4);
    }

    /// The chunked form against the steps, on equal and on different keys.
    #[test]
    fn chunks_are_as_the_steps() {
        let (heads, rows, width, values) = (2, 150, 16, 24);
        let tensor =
            |values: Vec<f32>, shape: &[usize]| Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
        for alike in [0.0, 3.0] {
            let unit = |seed: usize| {
                let x = (tensor(noise(seed, heads * rows * width), &[heads, rows, width]) + alike).unwrap();
                let length = x.sqr().unwrap().sum_keepdim(2).unwrap().sqrt().unwrap();
                x.broadcast_div(&length).unwrap()
            };
            let positive = |seed: usize| tensor(noise(seed, heads * rows), &[heads, rows]).abs().unwrap();
            let prepared = Prepared {
                queries: unit(1),
                keys: unit(2),
                values: tensor(noise(3, heads * rows * values), &[heads, rows, values]),
                fades: (positive(4) * -0.3).unwrap(),
                rates: positive(5),
            };
            let start = tensor(noise(6, heads * width * values), &[heads, width, values]);
            let (answers, end) = in_chunks(&prepared, start.clone()).unwrap();
            let entered = Tensor::zeros((rows, 1), DType::F32, &Device::Cpu).unwrap();
            let (mut state, mut want) = (start, Vec::new());
            for row in 0..rows {
                let (query, logged) = step(&prepared, row, &entered, &state).unwrap();
                state = logged.replay(&state).unwrap();
                want.push(query.matmul(&state).unwrap());
            }
            let apart = |a: &Tensor, b: &Tensor| {
                let apart = (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap();
                apart.to_scalar::<f32>().unwrap()
            };
            assert!(apart(&answers, &Tensor::cat(&want, 1).unwrap()) < 1e-4, "{alike}");
            assert!(apart(&end, &state) < 1e-4, "{alike}");
        }
    }
}
