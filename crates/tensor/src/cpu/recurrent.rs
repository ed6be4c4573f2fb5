//! Linear attention on the CPU: the states of one sequence, and their update row by row.
//!
//! A state is computed in strips of [`COLUMNS`] value columns, which do not depend on each other: a strip is loaded once for all
//! rows of a pass, and strips are shared out to the threads. So a row's result does not depend on the other rows or on the
//! number of threads.

use super::{
    forms::DisjointRowsMut,
    kernels::{self, COLUMNS, Columns, DeltaRow},
    states::{CpuRecurrent, LayerStates, strips},
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::{
    LinearAttention, LinearWeights, Result,
    recurrent::{Bank, RecurrentPass, StatePlan},
    sources::{RowOrigin, Sources, branches},
};

/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 1 << 14;

/// The weights of a layer, its convolution as `kernel × channels`.
pub struct CpuLinear {
    weights: LinearWeights,
    convolution: Vec<f32>,
}

impl CpuLinear {
    /// From the weights as they are stored.
    pub fn new(weights: LinearWeights) -> Self {
        let (channels, kernel) = (weights.shape.channels(), weights.shape.kernel);
        let by_row = |at: usize| weights.convolution[at % channels * kernel + at / channels];
        Self { convolution: (0..channels * kernel).map(by_row).collect(), weights }
    }
}

/// Rows as the rule takes them.
struct Prepared {
    /// Queries, keys and values after the convolution, `rows × channels`.
    mixed: Vec<f32>,
    /// `rows × value_heads`.
    decays: Vec<f32>,
    /// `rows × value_heads`.
    rates: Vec<f32>,
}

/// A pass through one layer; see [`DecoderOps::mix`](crate::ops::DecoderOps::mix). `out` is quantized too where it says so. Fails if the states
/// have fewer layers. Panics if the plan is not one of these states, or the rows have another width.
pub(crate) fn mix(
    (values, rows): (&[f32], usize),
    linear: &CpuLinear,
    RecurrentPass { plan, states, layer }: RecurrentPass<'_, CpuRecurrent>,
    out: &mut [f32],
    quantized: Option<DisjointRowsMut<'_>>,
) -> Result<()> {
    let (shape, count) = (states.shape, states.layers.len());
    let Some(layer) = states.layers.get_mut(layer) else {
        crate::bail!("the cache has states for {count} layers with linear attention only");
    };
    let input = Input { values, rows, channels: shape.channels() };
    layer.reserve(&shape, plan);
    let (channels, keys, heads) = (shape.channels(), shape.keys(), shape.value_heads);
    for (row, place) in plan.places.iter().flatten().enumerate() {
        layer.log.rows[place * channels..][..channels].copy_from_slice(input.mixed(row));
    }
    let sources = Sources::new(plan, rows, shape.kernel);
    let prepared = prepare(&shape, &input, linear, layer, &sources);
    for (row, place) in plan.places.iter().flatten().enumerate() {
        let from = &prepared.mixed[row * channels + keys..][..keys];
        layer.log.keys[place * keys..][..keys].copy_from_slice(from);
        let from = &prepared.decays[row * heads..][..heads];
        layer.log.decays[place * heads..][..heads].copy_from_slice(from);
    }
    layer.run(&shape, plan, rows, &prepared, out);
    layer.hold_rows(plan, &sources, &input);
    finish(&shape, &input, linear, out, quantized);
    Ok(())
}

impl LayerStates {
    /// A row under the convolution; `zeros` is as wide as one.
    fn row<'a>(&'a self, source: RowOrigin, input: &Input<'a>, zeros: &'a [f32]) -> &'a [f32] {
        let channels = input.channels;
        match source {
            RowOrigin::Pass(row) => input.mixed(row),
            RowOrigin::Logged(place) => &self.log.rows[place * channels..][..channels],
            RowOrigin::Held(bank, row) => &self.banks[bank.index()].rows[row * channels..][..channels],
            RowOrigin::Zero => zeros,
        }
    }

    /// Run the rule over all rows: `out` (`rows × values`) are the state's answers.
    fn run(
        &mut self,
        shape: &LinearAttention,
        plan: &StatePlan,
        rows: usize,
        prepared: &Prepared,
        out: &mut [f32],
    ) {
        let branches = branches(plan, rows);
        let (keys, channels, heads, width) =
            (shape.keys(), shape.channels(), shape.value_heads, shape.key_dim);
        let strips = strips(shape);
        let banks = self.banks.each_mut().map(|bank| DisjointSliceMut::new(&mut bank.state));
        let bank = |bank: Bank| &banks[bank.index()];
        let (log, deltas) = (&self.log.keys, DisjointSliceMut::new(&mut self.log.deltas));
        let (decays, out) = (&self.log.decays, DisjointSliceMut::new(out));
        let unit = |unit: usize| {
            let (head, first) = (unit / strips, unit % strips * COLUMNS);
            let columns = COLUMNS.min(shape.value_dim - first);
            let key_at = shape.key_head(head) * width;
            // SAFETY: every strip of a bank and of the log belongs to one unit, which holds one slice of each at a time.
            let held = |from: Bank| unsafe { bank(from).slice(unit * width, width) };
            // SAFETY: as above.
            let delta = |place: usize| unsafe { deltas.slice(place * heads * strips + unit, 1) };
            let replay = |state: &mut [Columns], place: usize| {
                let key = &log[place * keys + key_at..][..width];
                kernels::delta_replay(state, key, decays[place * heads + head], &delta(place)[0]);
            };
            let mut scratch = vec![Columns::default(); if plan.ends { 0 } else { width }];
            let state = if plan.ends { held(Bank::Current) } else { &mut scratch[..] };
            match plan.from {
                None => state.fill(Columns::default()),
                Some(Bank::Current) if plan.ends => {}
                Some(from) => state.copy_from_slice(held(from)),
            }
            plan.replayed.iter().for_each(|place| replay(state, *place));
            if plan.settles {
                held(Bank::Settled).copy_from_slice(state);
            }
            // The state before the pass, for branches that do not continue from the row before them.
            let root = plan.ancestors.as_ref().map(|_| state.to_vec());
            for (row, branch) in branches.iter().enumerate() {
                if let (Some(path), Some(root)) = (branch, &root) {
                    state.copy_from_slice(root);
                    path.iter().for_each(|place| replay(state, *place));
                }
                let mixed = &prepared.mixed[row * channels..][..channels];
                let mut value = Columns::default();
                let from = 2 * keys + head * shape.value_dim + first;
                value.0[..columns].copy_from_slice(&mixed[from..from + columns]);
                let step = DeltaRow {
                    query: &mixed[key_at..][..width],
                    key: &mixed[keys + key_at..][..width],
                    decay: prepared.decays[row * heads + head],
                    rate: prepared.rates[row * heads + head],
                };
                let (update, answer) = kernels::delta_step(state, step, &value);
                if let Some(places) = &plan.places {
                    delta(places[row])[0] = update;
                }
                let to = row * shape.values() + head * shape.value_dim + first;
                // SAFETY: as above.
                unsafe { out.slice(to, columns) }.copy_from_slice(&answer.0[..columns]);
            }
        };
        let units = heads * strips;
        match rows * units * width < SINGLE_THREADED {
            true => (0..units).for_each(unit),
            false => ThreadPool::global().run(units, &unit),
        }
    }

    /// Keep the rows under the convolution with the states that were kept.
    fn hold_rows(&mut self, plan: &StatePlan, sources: &Sources, input: &Input<'_>) {
        let zeros = vec![0.0; input.channels];
        let gathered = |rows: &[RowOrigin]| {
            rows.iter().flat_map(|source| self.row(*source, input, &zeros)).copied().collect::<Vec<f32>>()
        };
        let settled = plan.settles.then(|| gathered(&sources.before));
        let current = plan.ends.then(|| gathered(&sources.after));
        for (bank, rows) in [(Bank::Settled, settled), (Bank::Current, current)] {
            if let Some(rows) = rows {
                self.banks[bank.index()].rows = rows;
            }
        }
    }
}

/// Convolve the rows, norm queries and keys, and compute how the state of each head decays and turns.
fn prepare(
    shape: &LinearAttention,
    input: &Input<'_>,
    linear: &CpuLinear,
    layer: &LayerStates,
    sources: &Sources,
) -> Prepared {
    let (keys, channels, heads, rows) = (shape.keys(), shape.channels(), shape.value_heads, input.rows);
    let mut prepared = Prepared {
        mixed: vec![0.0; rows * channels],
        decays: vec![0.0; rows * heads],
        rates: vec![0.0; rows * heads],
    };
    let mixed = DisjointSliceMut::new(&mut prepared.mixed);
    let (decays, rates) =
        (DisjointSliceMut::new(&mut prepared.decays), DisjointSliceMut::new(&mut prepared.rates));
    let (scale, zeros) = (1.0 / (shape.key_dim as f32).sqrt(), vec![0.0; channels]);
    let unit = |row: usize| {
        // SAFETY: each row belongs to one unit.
        let (mixed, decays, rates) = unsafe {
            (
                mixed.slice(row * channels, channels),
                decays.slice(row * heads, heads),
                rates.slice(row * heads, heads),
            )
        };
        let earlier = sources.windows[row].iter().map(|source| layer.row(*source, input, &zeros));
        let window: Vec<&[f32]> = earlier.chain([input.mixed(row)]).collect();
        kernels::convolve(&window, &linear.convolution, mixed);
        for (at, head) in mixed[..2 * keys].chunks_exact_mut(shape.key_dim).enumerate() {
            kernels::unit_length(head, if at < shape.key_heads { scale } else { 1.0 });
        }
        let (b, a) = input.heads(row, shape);
        for head in 0..heads {
            let x = a[head] + linear.weights.biases[head];
            let softplus = if x > 20.0 { x } else { x.exp().ln_1p() };
            decays[head] = (linear.weights.rates[head] * softplus).exp();
            rates[head] = 1.0 / (1.0 + (-b[head]).exp());
        }
    };
    match rows * channels < SINGLE_THREADED {
        true => (0..rows).for_each(unit),
        false => ThreadPool::global().run(rows, &unit),
    }
    prepared
}

/// Norm the states' answers in each head, gate it, and quantize it where it is needed so.
fn finish(
    shape: &LinearAttention,
    input: &Input<'_>,
    linear: &CpuLinear,
    out: &mut [f32],
    quantized: Option<DisjointRowsMut<'_>>,
) {
    let (values, weights) = (shape.values(), &linear.weights);
    let rows = DisjointSliceMut::new(out);
    let unit = |row: usize| {
        // SAFETY: each row belongs to one unit.
        unsafe {
            let out = rows.slice(row * values, values);
            let gates = input.gates(row, shape);
            for (head, gate) in out.chunks_exact_mut(shape.value_dim).zip(gates.chunks_exact(shape.value_dim))
            {
                kernels::rms_norm_in_place(head, &weights.norm, weights.eps);
                // silu(z) = z · sigmoid(z).
                kernels::gate(gate, head);
                kernels::multiply(gate, head);
            }
            if let Some(quantized) = &quantized {
                quantized.quantize(row * values, out);
            }
        }
    };
    match input.rows * values < SINGLE_THREADED {
        true => (0..input.rows).for_each(unit),
        false => ThreadPool::global().run(input.rows, &unit),
    }
}

/// The rows that enter a layer.
struct Input<'a> {
    values: &'a [f32],
    rows: usize,
    channels: usize,
}

impl<'a> Input<'a> {
    fn row(&self, row: usize) -> &'a [f32] {
        let width = self.values.len() / self.rows.max(1);
        &self.values[row * width..][..width]
    }

    fn mixed(&self, row: usize) -> &'a [f32] {
        &self.row(row)[..self.channels]
    }

    fn gates(&self, row: usize, shape: &LinearAttention) -> &'a [f32] {
        &self.row(row)[self.channels..][..shape.values()]
    }

    /// The columns of each head's update and of its decay.
    fn heads(&self, row: usize, shape: &LinearAttention) -> (&'a [f32], &'a [f32]) {
        self.row(row)[self.channels + shape.values()..].split_at(shape.value_heads)
    }
}
