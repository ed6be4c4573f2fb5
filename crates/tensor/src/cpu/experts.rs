//! Layers of experts on the CPU: the rows of a pass are grouped by expert, so that the weights of each are read once.
//!
//! A row's result is the sum of its experts' results in the order of their numbers, regardless of which
//! experts other rows take.

use crate::{Gate, Result, experts::Experts};

use super::{
    forms::QuantizedRows,
    linear::{Linear, MatrixProduct, run},
    rows::CpuRows,
    thread_pool::{DisjointSliceMut, each_row},
};

/// Buffers that layers use again. The rows of all experts are below each other.
#[derive(Default)]
pub(crate) struct ExpertRows {
    logits: Vec<f32>,
    x: Vec<f32>,
    gate_up: Vec<f32>,
    gated: Vec<f32>,
    y: Vec<f32>,
    /// The rows of each expert, as its next matrix takes them.
    quantized: Vec<QuantizedRows>,
}

/// A row that takes an expert.
struct Taker {
    expert: usize,
    row: usize,
    weight: f32,
}

/// An expert, and the rows that take it.
struct ExpertTakers<'a> {
    takers: &'a [Taker],
    matrices: &'a [Linear; 2],
}

/// The places of an expert's matrices.
const GATE_UP: usize = 0;
const DOWN: usize = 1;

/// `out` = the feed-forward layer of `x`. Returns the number of experts that were read, without the shared one.
pub(crate) fn mix(
    layer: &Experts<Linear>,
    x: &CpuRows,
    buffers: &mut ExpertRows,
    out: &mut CpuRows,
) -> Result<usize> {
    let ExpertRows { logits, x: taken, gate_up, gated, y, quantized } = buffers;
    let outputs = layer.router.outputs();
    logits.resize(x.rows * outputs, 0.0);
    layer.router.forward_prepared(&x.values, &x.quantized, x.rows, logits)?;
    let mut takers: Vec<Taker> = Vec::with_capacity(x.rows * (layer.routing.chosen + 1));
    for (row, logits) in logits.chunks_exact(outputs.max(1)).enumerate() {
        let chosen = layer.routing.choose(logits);
        takers.extend(chosen.into_iter().map(|(expert, weight)| Taker { expert, row, weight }));
    }
    // Stable: the rows of an expert stay in order.
    takers.sort_by_key(|taker| taker.expert);
    let groups: Vec<ExpertTakers<'_>> = takers
        .chunk_by(|a, b| a.expert == b.expert)
        .filter_map(|takers| {
            let matrices = layer.routed.get(takers[0].expert).or(layer.shared.as_ref())?;
            Some(ExpertTakers { takers, matrices })
        })
        .collect();
    quantized.resize_with(groups.len().max(quantized.len()), QuantizedRows::default);

    let hidden = x.width();
    taken.clear();
    takers.iter().for_each(|taker| taken.extend_from_slice(x.row(taker.row)));
    let taken = split(&groups, taken, |_| hidden);
    quantize(&groups, GATE_UP, &taken, quantized);
    let mut pairs = split(&groups, gate_up, |group| group.matrices[GATE_UP].outputs());
    let mut gated = split(&groups, gated, |group| group.matrices[DOWN].inputs());
    {
        let jobs = jobs(&groups, GATE_UP, &taken, quantized, &mut pairs)?;
        let jobs: Vec<MatrixProduct<'_>> = jobs.into_iter().map(MatrixProduct::of_pairs).collect();
        let gated: Vec<_> = gated.iter_mut().map(|rows| DisjointSliceMut::new(rows)).collect();
        // SAFETY: these columns are a unit's.
        run(&jobs, &|job, columns| unsafe { jobs[job].gate(Gate::Silu, columns, &gated[job], |_, _| {}) });
    }
    quantize(&groups, DOWN, &gated, quantized);
    run(&jobs(&groups, DOWN, &gated, quantized, &mut split(&groups, y, |_| hidden))?, &|_, _| {});

    let mut of_row: Vec<Vec<usize>> = vec![Vec::new(); x.rows];
    takers.iter().enumerate().for_each(|(at, taker)| of_row[taker.row].push(at));
    let sums = DisjointSliceMut::new(out.reserve(x.rows, hidden));
    each_row(x.rows, hidden, &|row| {
        // SAFETY: each row belongs to one unit.
        let sum = unsafe { sums.slice(row * hidden, hidden) };
        sum.fill(0.0);
        for &at in &of_row[row] {
            let result = &y[at * hidden..][..hidden];
            sum.iter_mut().zip(result).for_each(|(sum, value)| *sum += takers[at].weight * value);
        }
    });
    Ok(groups.iter().filter(|group| group.takers[0].expert < layer.routing.experts).count())
}

/// Resize a buffer to the rows of all groups, of so many values each, and cut it into groups.
fn split<'a>(
    groups: &[ExpertTakers<'_>],
    buffer: &'a mut Vec<f32>,
    width: impl Fn(&ExpertTakers<'_>) -> usize,
) -> Vec<&'a mut [f32]> {
    let lengths: Vec<usize> = groups.iter().map(|group| group.takers.len() * width(group)).collect();
    buffer.resize(lengths.iter().sum(), 0.0);
    let mut rest = &mut buffer[..];
    lengths.into_iter().filter_map(|length| rest.split_off_mut(..length)).collect()
}

/// Quantize the rows of each group as its next matrix takes them.
fn quantize(groups: &[ExpertTakers<'_>], next: usize, x: &[&mut [f32]], quantized: &mut [QuantizedRows]) {
    let places: Vec<_> = groups
        .iter()
        .zip(quantized)
        .map(|(group, rows)| {
            let (matrix, count) = (&group.matrices[next], group.takers.len());
            let forms = matrix.forms();
            forms.any().then(|| rows.resize(forms, count, matrix.inputs()))
        })
        .collect();
    let values: usize = x.iter().map(|x| x.len()).sum();
    each_row(groups.len(), values / groups.len().max(1), &|group| {
        if let Some(place) = &places[group] {
            // SAFETY: each group belongs to one unit.
            unsafe { place.quantize(0, x[group]) };
        }
    });
    for ((group, place), x) in groups.iter().zip(places).zip(x) {
        if let Some(place) = place {
            place.finish(x, group.takers.len());
        }
    }
}

fn jobs<'a>(
    groups: &[ExpertTakers<'a>],
    at: usize,
    x: &'a [&mut [f32]],
    quantized: &'a [QuantizedRows],
    y: &'a mut [&mut [f32]],
) -> Result<Vec<MatrixProduct<'a>>> {
    let parts = groups.iter().zip(x).zip(quantized).zip(y);
    parts
        .map(|(((group, x), quantized), y)| {
            MatrixProduct::new(&group.matrices[at], x, quantized, group.takers.len(), y)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        WeightType,
        cpu::{builder::Builder, rows::gated},
        experts::Routing,
        weights::random_values,
    };

    const HIDDEN: usize = 256;
    const WIDTH: usize = 512;
    const EXPERTS: usize = 6;

    fn matrix(name: &str, outputs: usize, inputs: usize, dtype: WeightType) -> Linear {
        let mut builder = Builder::new(outputs, inputs, dtype);
        builder.push(&random_values(name, &[outputs, inputs])).unwrap();
        builder.finish(None)
    }

    /// Six experts, and a shared one that is narrower.
    fn layer(dtype: WeightType) -> Experts<Linear> {
        let expert = |at: usize| {
            let width = if at < EXPERTS { WIDTH } else { HIDDEN };
            [
                matrix(&format!("up {at}"), 2 * width, HIDDEN, dtype),
                matrix(&format!("down {at}"), HIDDEN, width, dtype),
            ]
        };
        Experts {
            routing: Routing { experts: EXPERTS, chosen: 2 },
            router: matrix("router", EXPERTS + 1, HIDDEN, WeightType::F32),
            routed: (0..EXPERTS).map(expert).collect(),
            shared: Some(expert(EXPERTS)),
        }
    }

    fn rows(layer: &Experts<Linear>, values: &[f32]) -> CpuRows {
        let mut rows = CpuRows::default();
        rows.fill(values.len() / HIDDEN, HIDDEN, Some(&layer.router), &|r, to| {
            to.copy_from_slice(&values[r * HIDDEN..][..HIDDEN]);
        });
        rows
    }

    fn mixed(layer: &Experts<Linear>, values: &[f32]) -> (Vec<f32>, usize) {
        let (mut out, mut buffers) = (CpuRows::default(), ExpertRows::default());
        let read = mix(layer, &rows(layer, values), &mut buffers, &mut out).unwrap();
        (out.values, read)
    }

    /// Expert after expert, of one row.
    fn one_by_one(layer: &Experts<Linear>, row: &[f32]) -> Vec<f32> {
        let mut logits = vec![0.0; EXPERTS + 1];
        layer.router.forward(row, 1, &mut logits, &mut QuantizedRows::default()).unwrap();
        let mut sum = vec![0.0; HIDDEN];
        for (expert, weight) in layer.routing.choose(&logits) {
            let [gate_up, down] = layer.routed.get(expert).or(layer.shared.as_ref()).unwrap();
            let mut x = CpuRows::default();
            x.fill(1, HIDDEN, Some(gate_up), &|_, to| to.copy_from_slice(row));
            let (mut between, mut y) = (CpuRows::default(), vec![0.0; HIDDEN]);
            gated((gate_up, Gate::Silu), &x, &mut Vec::new(), Some(down), &mut between).unwrap();
            down.forward_prepared(&between.values, &between.quantized, 1, &mut y).unwrap();
            sum.iter_mut().zip(&y).for_each(|(sum, y)| *sum += weight * y);
        }
        sum
    }

    #[test]
    fn a_row_is_the_sum_of_its_experts_among_any_other_rows() {
        for dtype in WeightType::ALL {
            let layer = layer(dtype);
            let all = random_values("x", &[9, HIDDEN]);
            let (together, read) = mixed(&layer, &all);
            assert!((3..=EXPERTS).contains(&read), "{read} experts");
            for (row, sum) in all.chunks_exact(HIDDEN).zip(together.chunks_exact(HIDDEN)) {
                let alone = mixed(&layer, row);
                assert_eq!(alone.1, 2);
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&alone.0), bits(sum), "{dtype:?}: alone");
                assert_eq!(bits(&one_by_one(&layer, row)), bits(sum), "{dtype:?}: expert after expert");
            }
        }
    }
}
