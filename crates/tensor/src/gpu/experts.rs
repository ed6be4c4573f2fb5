//! Layers of experts on a GPU: the rows of a pass are grouped by expert, without the host.
//!
//! The matrices of all experts are one below the other. Each row with one of its experts is a pair, which is
//! computed on its own, in the order of sums that all products have; a row's result is the sum of its pairs
//! in the order of their experts' numbers. So it has the same bits regardless of which experts other rows
//! take.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::{
    Access, Buffer, GpuError, Matrix, Result, Rows, Scratch, Stream,
    buffer::grown,
    products::{
        Grouped, Tile,
        input::InputRows,
        source::{Setting, source},
    },
};
use crate::experts::Experts;

/// Most experts of a layer, as in `shaders/plan.wgsl`.
const MOST: usize = 512;

/// Buffers of layers, kept between passes.
#[derive(Debug, Default)]
pub struct ExpertRows {
    logits: Rows,
    choice: Option<Buffer>,
    plan: Option<Buffer>,
    gate_up: Rows,
    y: Rows,
    gated: Rows,
    shared: Rows,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RouteParams {
    rows: u32,
    experts: u32,
    chosen: u32,
    stride: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PlanParams {
    pairs: u32,
    experts: u32,
    size: u32,
    tiles: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct JoinParams {
    width: u32,
    rows: u32,
    chosen: u32,
    padding: u32,
}

/// Why a layer cannot be computed, if so.
pub(crate) fn problem(layer: &Experts<Arc<Matrix>>) -> Option<String> {
    let experts = layer.routing.experts;
    let [[gate_up, down]] = &layer.routed[..] else {
        return Some(format!("{} pairs of matrices: one, of all experts, is expected", layer.routed.len()));
    };
    if experts > MOST {
        return Some(format!("{experts} experts: GPUs compute up to {MOST}, --device cpu more"));
    }
    let odd = [gate_up, down].map(|matrix| matrix.outputs() / experts.max(1));
    if let Some(outputs) = odd.into_iter().find(|outputs| !outputs.is_multiple_of(16)) {
        let what = format!("experts with matrices of {outputs} outputs");
        return Some(format!("{what}: GPUs compute multiples of 16, --device cpu any"));
    }
    let in_blocks = layer.router.takes_only_blocks();
    in_blocks.then(|| "a quantized router: it is computed with --device cpu only".into())
}

/// `out` = the feed-forward layer of `x`, of a layer without a [`problem`]. Fails if sizes do not fit, memory is missing, or the
/// device is lost.
pub(crate) fn mix(
    layer: &Experts<Arc<Matrix>>,
    stream: &mut Stream,
    x: &Rows,
    scratch: &mut Scratch,
    work: &mut ExpertRows,
    out: &mut Rows,
) -> Result<()> {
    use Access::{Read, Write};
    let gpu = stream.gpu().clone();
    let [[gate_up, down]] = &layer.routed[..] else {
        return Err(GpuError::Invalid("a layer of experts in several matrices".into()));
    };
    let (rows, hidden) = (x.rows(), x.width());
    let (experts, chosen) = (layer.routing.experts, layer.routing.chosen);
    let pairs = rows * chosen;
    let ExpertRows { logits, choice, plan, gate_up: both, y, gated, shared } = work;

    layer.router.forward(stream, x, rows, logits, scratch)?;
    let choice = grown(choice, &gpu, (pairs + rows) * 8)?.clone();
    let written = || source(&[include_str!("shaders/route.wgsl")], Setting::default());
    let kernel = gpu.kernel("choose experts", &written, &[Read, Write], &[])?;
    let params = [rows, experts, chosen, layer.router.outputs()].map(|n| n as u32);
    let [rows_u32, experts_u32, chosen_u32, stride] = params;
    let params = RouteParams { rows: rows_u32, experts: experts_u32, chosen: chosen_u32, stride };
    let logits = logits.buffer().unwrap_or(&choice);
    stream.dispatch(&kernel, &params, &[logits, &choice], [rows.div_ceil(64) as u32, 1, 1])?;

    let size = Tile::of(pairs, experts);
    let tiles = pairs.min(pairs / size.rows() + experts);
    let plan = grown(plan, &gpu, (3 * tiles + pairs) * 4)?.clone();
    let written = || source(&[include_str!("shaders/plan.wgsl")], Setting::default());
    let kernel = gpu.kernel("group rows by expert", &written, &[Read, Write], &[])?;
    let [pairs_u32, size_u32, tiles_u32] = [pairs, size.rows(), tiles].map(|n| n as u32);
    let params = PlanParams { pairs: pairs_u32, experts: experts_u32, size: size_u32, tiles: tiles_u32 };
    stream.dispatch(&kernel, &params, &[&choice, &plan], [1, 1, 1])?;

    let group = |matrix: &Matrix, fan| Grouped {
        plan: &plan,
        outputs: matrix.outputs() / experts.max(1),
        pairs,
        tiles,
        size,
        fan,
    };
    let memory = |rows: &Rows| {
        rows.buffer().cloned().ok_or_else(|| GpuError::Invalid("rows of experts are missing".into()))
    };
    let from = memory(x)?;
    let of_rows = InputRows { x: &from, row: 0, rows, width: hidden, gated: false };
    gate_up.forward_grouped(stream, of_rows, group(gate_up, chosen), both, scratch)?;
    let from = memory(both)?;
    let of_pairs = InputRows { x: &from, row: 0, rows: pairs, width: down.inputs(), gated: true };
    down.forward_grouped(stream, of_pairs, group(down, 1), y, scratch)?;

    if let Some([gate_up, down]) = &layer.shared {
        gate_up.forward_gated_for(down, stream, x, rows, gated, scratch)?;
        down.forward(stream, gated, rows, shared, scratch)?;
    }
    let y = memory(y)?;
    let names: &[&str] = if layer.shared.is_some() { &["SHARED"] } else { &[] };
    let name = if layer.shared.is_some() { "add experts and the shared one" } else { "add experts" };
    let written = || source(&[include_str!("shaders/join.wgsl")], Setting { rows: 0, names });
    let kernel = gpu.kernel(name, &written, &[Read, Read, Read, Write], &[])?;
    let params = JoinParams { width: hidden as u32, rows: rows_u32, chosen: chosen_u32, padding: 0 };
    let out = out.reserve(&gpu, rows, hidden)?;
    let shared = shared.buffer().unwrap_or(&y);
    let groups = [hidden.div_ceil(256) as u32, rows_u32, 1];
    stream.dispatch(&kernel, &params, &[&y, &choice, shared, out], groups)
}

#[cfg(test)]
mod tests;
