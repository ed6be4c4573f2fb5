//! Linear attention on a GPU.
//!
//! Four kernels: one prepares all rows, one keeps the rows under the convolution, one runs the gated delta rule over the rows in
//! order, one norms and gates the states' answers. The rule is computed for few value columns in a workgroup, which do not depend on each other. So a row's result does not
//! depend on the other rows, and a step and its replay change a state by the same operations.

use bytemuck::{Pod, Zeroable};

use crate::gpu::{
    Access, Buffer, Gpu, GpuError, Result, Rows, Stream,
    buffer::grown,
    elements::heads,
    recurrent::{LayerStates, Recurrent},
    rows::filled,
    states::SharedStream,
};
use crate::{
    LinearAttention, LinearWeights,
    recurrent::{Bank, RecurrentPass, StatePlan},
    sources::{RowOrigin, Sources, branches},
};

/// In place of an index.
const NONE: u32 = u32::MAX;
/// Value columns and parts of the keys of a workgroup (see `shaders/mix_delta.wgsl`).
const COLUMNS: usize = 8;
const PARTS: usize = 16;

/// The tensors of a layer with linear attention besides its matrices.
#[derive(Debug)]
pub struct GpuLinear {
    shape: LinearAttention,
    /// `kernel × channels`.
    convolution: Buffer,
    /// Rates and then biases of the value heads.
    heads: Buffer,
    norm: Buffer,
    eps: f32,
}

/// What the layers of a pass have in common, and memory for one of them.
#[derive(Debug, Default)]
pub(crate) struct Mixing {
    table: Option<Buffer>,
    params: Option<MixParams>,
    prepared: Rows,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct MixParams {
    rows: u32,
    width: u32,
    key_heads: u32,
    value_heads: u32,
    key_dim: u32,
    value_dim: u32,
    kernel: u32,
    tiled: u32,
    replayed: u32,
    places: u32,
    windows: u32,
    before: u32,
    after: u32,
    branches: u32,
    from: u32,
    settled: u32,
    current: u32,
    eps: f32,
    unused: [u32; 2],
}

impl GpuLinear {
    /// From the weights as they are stored.
    pub fn new(gpu: &Gpu, weights: LinearWeights) -> Result<Self> {
        let (channels, kernel) = (weights.shape.channels(), weights.shape.kernel);
        let by_row = |at: usize| weights.convolution[at % channels * kernel + at / channels];
        let convolution: Vec<f32> = (0..channels * kernel).map(by_row).collect();
        let upload = |values: &[f32]| gpu.upload(bytemuck::cast_slice(values));
        Ok(Self {
            convolution: upload(&convolution)?,
            heads: upload(&[weights.rates, weights.biases].concat())?,
            norm: upload(&weights.norm)?,
            shape: weights.shape,
            eps: weights.eps,
        })
    }
}

impl Mixing {
    pub(crate) fn begin(&mut self) {
        self.params = None;
    }

    /// Linear attention of a layer; see [`DecoderOps::mix`](crate::ops::DecoderOps::mix). All layers of a pass have one plan.
    pub(crate) fn mix(
        &mut self,
        stream: &SharedStream,
        mixed: &Rows,
        linear: &GpuLinear,
        RecurrentPass { plan, states, layer }: RecurrentPass<'_, Recurrent>,
        out: &mut Rows,
    ) -> Result<()> {
        let mut recording = stream.lock();
        let result = states
            .begin(stream, &mut recording, plan, layer)
            .and_then(|held| self.run(&mut recording, mixed, linear, plan, states, &held, out));
        states.record(result)
    }

    #[expect(clippy::too_many_arguments, reason = "rows, weights, states and their plan")]
    fn run(
        &mut self,
        stream: &mut Stream,
        mixed: &Rows,
        linear: &GpuLinear,
        plan: &StatePlan,
        states: &Recurrent,
        held: &LayerStates,
        out: &mut Rows,
    ) -> Result<()> {
        use Access::{Read, Write};
        let (gpu, shape, rows) = (stream.gpu().clone(), linear.shape, mixed.rows());
        let width = shape.channels() + shape.values() + 2 * shape.value_heads;
        if mixed.width() != width || *states.shape() != shape {
            let got = mixed.width();
            return Err(GpuError::Invalid(format!(
                "linear attention of {got} columns, {width} are expected"
            )));
        }
        let params = match self.params {
            Some(params) => params,
            None => self.prepare(stream, &shape, plan, rows, states.bank())?,
        };
        let params = MixParams { eps: linear.eps, ..params };
        let prepared = self.prepared.reserve(&gpu, rows, shape.channels() + 2 * shape.value_heads)?.clone();
        let table = self.table.as_ref().ok_or_else(|| GpuError::Invalid("no table of the pass".into()))?;
        let (mixed, out) = (filled(mixed)?, out.reserve(&gpu, rows, shape.values())?);

        let shared = concat!(include_str!("../shaders/mix.wgsl"), include_str!("../shaders/mix_source.wgsl"));
        let kernel = gpu.kernel(
            "prepare mixing",
            &|| [shared, include_str!("../shaders/mix_prepare.wgsl")].concat(),
            &[Read, Write, Write, Read, Read, Read, Write],
            &[],
        )?;
        let (banks, log) = (&held.banks, &held.log);
        let buffers = [mixed, banks, log, table, &linear.convolution, &linear.heads, &prepared];
        stream.dispatch(&kernel, &params, &buffers, heads(rows, 2 * shape.key_heads + shape.value_heads))?;

        if shape.kernel > 1 && (plan.settles || plan.ends) {
            let kernel = gpu.kernel(
                "hold rows",
                &|| [shared, include_str!("../shaders/mix_hold.wgsl")].concat(),
                &[Read, Write, Write, Read],
                &[],
            )?;
            let groups = [shape.channels().div_ceil(256) as u32, 1, 1];
            stream.dispatch(&kernel, &params, &[mixed, banks, log, table], groups)?;
        }

        let own = shape.key_dim.div_ceil(PARTS);
        let kernel = gpu.kernel(
            &format!("delta rule {own}"),
            &|| {
                [shared, include_str!("../shaders/mix_delta.wgsl")].concat().replace("ROWS", &own.to_string())
            },
            &[Read, Write, Write, Read, Write],
            &[],
        )?;
        let groups = [(shape.value_heads * shape.value_dim.div_ceil(COLUMNS)) as u32, 1, 1];
        stream.dispatch(&kernel, &params, &[&prepared, banks, log, table, out], groups)?;

        let kernel = gpu.kernel(
            "finish mixing",
            &|| {
                concat!(include_str!("../shaders/mix.wgsl"), include_str!("../shaders/mix_finish.wgsl"))
                    .into()
            },
            &[Read, Read, Write],
            &[],
        )?;
        stream.dispatch(&kernel, &params, &[mixed, &linear.norm, out], heads(rows, shape.value_heads))
    }

    /// Send the plan to the device.
    fn prepare(
        &mut self,
        stream: &mut Stream,
        shape: &LinearAttention,
        plan: &StatePlan,
        rows: usize,
        bank: usize,
    ) -> Result<MixParams> {
        let index = |at: usize| at as u32;
        let code = |source: &RowOrigin| match *source {
            RowOrigin::Pass(row) => index(row),
            RowOrigin::Logged(place) => 1 << 30 | index(place),
            RowOrigin::Held(_, row) => 2 << 30 | index(row),
            RowOrigin::Zero => 3 << 30,
        };
        let sources = Sources::new(plan, rows, shape.kernel);
        let mut table: Vec<u32> = plan.replayed.iter().copied().map(index).collect();
        let mut add = |values: &mut dyn Iterator<Item = u32>| {
            let at = index(table.len());
            table.extend(values);
            at
        };
        let places = match &plan.places {
            Some(places) => add(&mut places.iter().copied().map(index)),
            None => add(&mut std::iter::repeat_n(NONE, rows)),
        };
        let windows = add(&mut sources.windows.iter().flatten().map(code));
        let before = add(&mut sources.before.iter().map(code));
        let after = add(&mut sources.after.iter().map(code));
        let mut starts = None;
        if plan.ancestors.is_some() {
            let mut found = Vec::with_capacity(2 * rows);
            for path in branches(plan, rows) {
                found.extend(match path {
                    Some(path) => [add(&mut path.iter().copied().map(index)), index(path.len())],
                    None => [NONE, 0],
                });
            }
            starts = Some(add(&mut found.into_iter()));
        }
        let at = |bank_number: Bank| index(bank_number.index() * bank);
        let params = MixParams {
            rows: index(rows),
            width: index(shape.channels() + shape.values() + 2 * shape.value_heads),
            key_heads: index(shape.key_heads),
            value_heads: index(shape.value_heads),
            key_dim: index(shape.key_dim),
            value_dim: index(shape.value_dim),
            kernel: index(shape.kernel),
            tiled: shape.tiled.into(),
            replayed: index(plan.replayed.len()),
            places,
            windows,
            before,
            after,
            branches: starts.unwrap_or(NONE),
            from: plan.from.map_or(NONE, at),
            settled: if plan.settles { at(Bank::Settled) } else { NONE },
            current: if plan.ends { at(Bank::Current) } else { NONE },
            eps: 0.0,
            unused: [0; 2],
        };
        let buffer = grown(&mut self.table, stream.gpu(), (4 * table.len()).next_power_of_two())?;
        stream.write(buffer, 0, bytemuck::cast_slice(&table))?;
        self.params = Some(params);
        Ok(params)
    }
}
