//! `--suite step`: what a pass of the target costs by the number of its rows, and one of the drafter.

use std::{io::Write, ops::ControlFlow, path::Path};

use serde::Serialize;

use super::{args::BenchArgs, grid::grid, output::Lines, stop::Stop};
use crate::{
    cli::{End, INTERRUPTED, progress::Progress},
    model::{
        ModelSpec, WeightType,
        family::VideoLlm,
        rows::{self, Effort, Work},
    },
    record::{Failure, FailureClass, Stage},
};

const SLOTS: [usize; 3] = [100, 300, 1000];
const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 11, 16, 26, 32];

/// Passes of one model over one context.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Curve {
    model: String,
    /// `target` or `drafter`.
    role: &'static str,
    dtype: &'static str,
    /// Tokens before the pass.
    slots: usize,
    /// Bytes of the matrices that a pass reads.
    weight_bytes: usize,
    passes: Vec<Pass>,
}

/// Passes of so many rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Pass {
    rows: usize,
    /// Median.
    ms: f64,
    /// To one row.
    ratio: f64,
    gigabytes_per_second: f64,
    gigamacs_per_second: f64,
}

/// Measure target and drafter.
///
/// # Errors
/// The models cannot be used, or the output not be written.
pub fn run(args: &BenchArgs, models: &ModelSpec, lines: &mut Lines) -> Result<i32, End> {
    let (dtype, words) = models.weights()?;
    let (slots, rows) = (numbers(&args.slots, &SLOTS), numbers(&args.rows, &ROWS));
    let stop = Stop::new(None);
    stop.listen()?;
    let mut progress = Progress::new(true);
    let roles = [("target", Some(&models.target), &rows[..]), ("drafter", models.drafter.as_ref(), &[1][..])];
    let mut target_row = Vec::new();
    for (role, dir, rows) in roles {
        let Some(dir) = dir else { continue };
        let model = load(dir, dtype, &mut progress)?;
        fits(&model, &slots, rows)?;
        let mut curves = Vec::new();
        for &slots in &slots {
            let Some(passes) = measure(&model, slots, rows, &stop, &mut progress)? else { break };
            let weight_bytes = Work::of(model.decoder(), slots, 1).weight_bytes;
            let curve = Curve { model: model.name().into(), role, dtype: words, slots, weight_bytes, passes };
            lines.write("rows", &curve)?;
            curves.push(curve);
        }
        progress.clear();
        if !lines.stdout && !curves.is_empty() {
            std::io::stdout().write_all(table(&curves, &target_row).as_bytes())?;
        }
        if stop.asked() {
            return Ok(INTERRUPTED);
        }
        target_row = curves.iter().filter_map(|c| Some(c.passes.first()?.ms)).collect();
    }
    Ok(0)
}

/// The numbers asked for, each once and ascending.
fn numbers(asked: &[u32], otherwise: &[usize]) -> Vec<usize> {
    let mut numbers: Vec<usize> =
        if asked.is_empty() { otherwise.to_vec() } else { asked.iter().map(|n| *n as usize).collect() };
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn load(dir: &Path, dtype: WeightType, progress: &mut Progress) -> Result<VideoLlm, Failure> {
    let model = VideoLlm::load(dir, dtype, &mut |done, total| {
        progress.stage(Stage::Load, done as u64, total as u64);
    })?;
    Ok(model)
}

fn fits(model: &VideoLlm, slots: &[usize], rows: &[usize]) -> Result<(), Failure> {
    let (slots, rows) = (slots.last().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
    let limit = model.decoder().config().max_positions;
    if slots + rows <= limit {
        return Ok(());
    }
    Err(Failure {
        class: FailureClass::Input,
        error: format!(
            "{slots} slots and {rows} rows are more than the {limit} tokens that {} holds",
            model.name()
        ),
        hint: Some("name smaller numbers after --slots and --rows".into()),
    })
}

/// None if it was interrupted.
fn measure(
    model: &VideoLlm,
    slots: usize,
    rows: &[usize],
    stop: &Stop,
    progress: &mut Progress,
) -> Result<Option<Vec<Pass>>, Failure> {
    // Ratios are to one row, also where nobody asked for it.
    let timed: Vec<usize> = if rows.contains(&1) { rows.to_vec() } else { [&[1], rows].concat() };
    let times = rows::time(model.decoder(), slots, &timed, Effort::default(), &mut |done, total| {
        if stop.asked() {
            return ControlFlow::Break(());
        }
        progress.stage(Stage::Calibrate, done as u64, total as u64);
        ControlFlow::Continue(())
    });
    let times = times.map_err(crate::model::family::ModelError::from)?;
    Ok(times.map(|times| {
        let one = times.iter().find(|t| t.rows == 1).map_or(f64::NAN, |t| t.ms);
        let pass = |t: &rows::PassTime| {
            let work = Work::of(model.decoder(), slots, t.rows);
            Pass {
                rows: t.rows,
                ms: t.ms,
                ratio: t.ms / one,
                gigabytes_per_second: work.gigabytes_per_second(t.ms),
                gigamacs_per_second: work.gigamacs_per_second(t.ms),
            }
        };
        times.iter().map(pass).collect()
    }))
}

/// One model's curves; `target_row` has the target's time of one row for each context, empty for the target itself.
fn table(curves: &[Curve], target_row: &[f64]) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let mut out = format!(
        "{} {} ({}), {:.1} MB of matrices\n",
        first.role,
        first.model,
        first.dtype,
        first.weight_bytes as f64 / 1e6
    );
    let head = first.passes.iter().map(|p| p.rows.to_string());
    let mut cells: Vec<Vec<String>> = vec![["slots, rows".to_owned()].into_iter().chain(head).collect()];
    for (index, curve) in curves.iter().enumerate() {
        let mut row = |name: String, value: &dyn Fn(&Pass) -> String| {
            cells.push([name].into_iter().chain(curve.passes.iter().map(value)).collect());
        };
        row(format!("{} ms", curve.slots), &|p| format!("{:.3}", p.ms));
        row("  to one row".into(), &|p| format!("{:.2}x", p.ratio));
        if let Some(target) = target_row.get(index) {
            row("  to the target's".into(), &|p| format!("{:.3}x", p.ms / target));
        }
        row("  GB/s".into(), &|p| format!("{:.1}", p.gigabytes_per_second));
        row("  GMAC/s".into(), &|p| format!("{:.1}", p.gigamacs_per_second));
    }
    out += &grid(&cells);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_asked_once_and_in_order() {
        assert_eq!(numbers(&[8, 1, 8, 2], &ROWS), [1, 2, 8]);
        assert_eq!(numbers(&[], &SLOTS), SLOTS);
    }

    #[test]
    fn rows_are_columns_and_the_drafter_is_set_against_the_target() {
        let pass =
            |rows, ms, ratio| Pass { rows, ms, ratio, gigabytes_per_second: 2.0, gigamacs_per_second: 40.0 };
        let curve = Curve {
            model: "small".into(),
            role: "drafter",
            dtype: "q8_0",
            slots: 100,
            weight_bytes: 1_500_000,
            passes: vec![pass(1, 0.05, 1.0), pass(4, 0.1, 2.0)],
        };
        assert_eq!(
            table(&[curve], &[0.5]),
            "drafter small (q8_0), 1.5 MB of matrices\n\
             slots, rows             1       4\n\
             100 ms              0.050   0.100\n\
             \x20 to one row        1.00x   2.00x\n\
             \x20 to the target's  0.100x  0.200x\n\
             \x20 GB/s                2.0     2.0\n\
             \x20 GMAC/s             40.0    40.0\n"
        );
    }
}
