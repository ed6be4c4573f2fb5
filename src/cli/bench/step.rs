//! `--suite step`: what a pass of the target costs by the number of its rows, and one of each drafter.

use std::{io::Write, ops::ControlFlow, path::Path, sync::Arc};

use serde::Serialize;

use super::{args::BenchArgs, output::Lines};
use crate::{
    cli::{End, grid::grid, interrupt::Interrupt, interrupted, progress::Progress},
    model::{
        ComputeDevice, ModelSpec,
        checkpoint::Checkpoint,
        decoder::Decoder,
        draft_head::{DraftHead, Recipe},
        family::{ModelError, VideoLlm},
        rows::{self, Effort, Work},
        shapes,
    },
    record::{Failure, FailureClass, Stage},
};

const SLOTS: [usize; 3] = [100, 300, 1000];
/// Text that a layer holds which does not look at the video: a prompt and half of a caption.
const TEXT: usize = 100;
/// Rows of a layer's passes: a chain's, and a level of a tree of width 8.
const LAYER_ROWS: [usize; 2] = [1, 8];
const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 11, 16, 26, 32];

/// Passes of one model over one context.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Curve {
    model: String,
    /// `target`, `drafter`, or `layer` (one that drafts from the target's states).
    role: &'static str,
    dtype: &'static str,
    device: String,
    /// Tokens before the pass.
    slots: usize,
    /// Those of them that the model's cache holds: a layer that does not look at the video holds the text only.
    held: usize,
    /// Reading them, once.
    fill_ms: f64,
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

/// What is measured: a checkpoint's language model, or random weights in a known shape.
enum Source<'a> {
    Directory(&'a Path),
    Shape(&'a str),
    Overlay(&'a Path),
}

/// One model to measure.
struct Loaded {
    name: String,
    decoder: Arc<Decoder>,
    /// Where it is a layer that drafts from the target's states.
    layer: Option<DraftHead>,
}

impl Loaded {
    /// Of so many tokens before a pass those that its cache holds.
    fn holds(&self, slots: usize) -> usize {
        match &self.layer {
            Some(layer) if layer.config().recipe == Recipe::Sparrow => slots.min(TEXT),
            _ => slots,
        }
    }

    /// Bytes of the matrices of a pass.
    fn weight_bytes(&self) -> usize {
        self.decoder.matrix_bytes() + self.layer.as_ref().map_or(0, DraftHead::projection_bytes)
    }
}

/// Measure target and drafter.
///
/// # Errors
/// The models cannot be used, or the output not be written.
pub fn run(args: &BenchArgs, models: &ModelSpec, lines: &mut Lines) -> Result<i32, End> {
    let (slots, rows) = (numbers(&args.slots, &SLOTS), numbers(&args.rows, &ROWS));
    let (target, drafter) = match &args.shape {
        Some(shape) => (Source::Shape(shape), args.drafter_shape.as_deref().map(Source::Shape)),
        None => (Source::Directory(&models.target), models.drafter.as_deref().map(Source::Directory)),
    };
    let places = (models.target_place()?, drafter.as_ref().map(|_| models.drafter_place()).transpose()?);
    let interrupt = Interrupt::default();
    interrupt.listen(|| {})?;
    let mut progress = Progress::new(true);
    let mut roles = vec![("target", target, places.0.clone(), &rows[..])];
    roles.extend(drafter.zip(places.1).map(|(source, place)| ("drafter", source, place, &[1][..])));
    if args.shape.is_none() {
        let layer = |dir| ("layer", Source::Overlay(dir), places.0.clone(), &LAYER_ROWS[..]);
        roles.extend(models.heads.iter().map(|dir| layer(dir)));
    }
    let (mut target_row, mut decoder) = (Vec::new(), None);
    for (role, source, place, rows) in roles {
        let model = load(&source, &place, decoder.as_ref(), &mut progress)?;
        fits(&model, &slots, rows)?;
        let mut curves = Vec::new();
        for &slots in &slots {
            let held = model.holds(slots);
            let Some((fill_ms, passes)) = measure(&model, held, rows, &interrupt, &mut progress)? else {
                break;
            };
            let curve = Curve {
                model: model.name.clone(),
                role,
                dtype: place.dtype().name(),
                device: place.name().into(),
                slots,
                held,
                fill_ms,
                weight_bytes: model.weight_bytes(),
                passes,
            };
            lines.write("rows", &curve)?;
            curves.push(curve);
        }
        progress.clear();
        if !lines.stdout && !curves.is_empty() {
            std::io::stdout().write_all(table(&curves, &target_row).as_bytes())?;
        }
        if interrupt.asked() {
            return Ok(interrupted());
        }
        if role == "target" {
            target_row = curves.iter().filter_map(|c| Some(c.passes.first()?.ms)).collect();
            decoder = Some(model.decoder);
        }
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

/// `target` is its decoder, once it is there: a layer stands between its embeddings and head.
fn load(
    source: &Source<'_>,
    place: &ComputeDevice,
    target: Option<&Arc<Decoder>>,
    progress: &mut Progress,
) -> Result<Loaded, Failure> {
    let mut progress = |done: usize, total: usize| {
        progress.stage(Stage::Load, done as u64, total as u64);
    };
    match source {
        Source::Directory(dir) => {
            let model = VideoLlm::load_on(dir, place, &mut progress)?;
            Ok(Loaded { name: model.name().into(), decoder: model.decoder().clone(), layer: None })
        }
        Source::Overlay(dir) => {
            let target = target.ok_or_else(|| internal("a layer was loaded before its target"))?;
            let layer = DraftHead::load(dir, target, place)?;
            let (name, decoder) = (layer.name().into(), layer.decoder().clone());
            Ok(Loaded { name, decoder, layer: Some(layer) })
        }
        Source::Shape(name) => {
            let config = shapes::find(name).ok_or_else(|| Failure {
                class: FailureClass::Usage,
                error: format!("no shape is called {name}"),
                hint: Some(format!("there are {}", shapes::names().join(", "))),
            })?;
            let decoder = Decoder::load(&Checkpoint::random(), &config, place, &mut progress)?;
            Ok(Loaded { name: format!("{name} (random weights)"), decoder: Arc::new(decoder), layer: None })
        }
    }
}

fn internal(what: &str) -> Failure {
    Failure { class: FailureClass::Internal, error: what.into(), hint: None }
}

fn fits(model: &Loaded, slots: &[usize], rows: &[usize]) -> Result<(), Failure> {
    let (slots, rows) = (slots.last().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
    let limit = model.decoder.config().max_positions;
    if slots + rows <= limit {
        return Ok(());
    }
    Err(Failure {
        class: FailureClass::Input,
        error: format!(
            "{slots} slots and {rows} rows are more than the {limit} tokens that {} holds",
            model.name
        ),
        hint: Some("name smaller numbers after --slots and --rows".into()),
    })
}

/// The time of reading the context, and the passes; none if it was interrupted.
fn measure(
    model: &Loaded,
    slots: usize,
    rows: &[usize],
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<(f64, Vec<Pass>)>, Failure> {
    // Ratios are to one row, also where nobody asked for it.
    let timed: Vec<usize> = if rows.contains(&1) { rows.to_vec() } else { [&[1], rows].concat() };
    let times = rows::time(
        &model.decoder,
        model.layer.as_ref(),
        slots,
        &timed,
        Effort::default(),
        &mut |done, total| {
            if interrupt.asked() {
                return ControlFlow::Break(());
            }
            progress.stage(Stage::Calibrate, done as u64, total as u64);
            ControlFlow::Continue(())
        },
    );
    let times = times.map_err(ModelError::from)?;
    Ok(times.map(|times| {
        let one = times.passes.iter().find(|t| t.rows == 1).map_or(f64::NAN, |t| t.ms);
        let pass = |t: &rows::PassTime| {
            let mut work = Work::of(&model.decoder, slots, t.rows);
            if model.layer.is_some() {
                // The projection that makes its rows.
                let width = model.decoder.config().hidden;
                work.weight_bytes = model.weight_bytes();
                work.macs += (t.rows * 2 * width * width) as u64;
            }
            Pass {
                rows: t.rows,
                ms: t.ms,
                ratio: t.ms / one,
                gigabytes_per_second: work.gigabytes_per_second(t.ms),
                gigamacs_per_second: work.gigamacs_per_second(t.ms),
            }
        };
        (times.fill_ms, times.passes.iter().map(pass).collect())
    }))
}

/// One model's curves; `target_row` has the target's time of one row for each context, empty for the target itself.
fn table(curves: &[Curve], target_row: &[f64]) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let mut out = format!(
        "{} {} ({}, {}), {:.1} MB of matrices\n",
        first.role,
        first.model,
        first.device,
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
    let fills: Vec<String> = curves.iter().map(|c| format!("{} in {:.0} ms", c.slots, c.fill_ms)).collect();
    out + &format!("slots filled: {}\n", fills.join(", "))
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
            device: "cpu".into(),
            slots: 100,
            held: 100,
            fill_ms: 12.4,
            weight_bytes: 1_500_000,
            passes: vec![pass(1, 0.05, 1.0), pass(4, 0.1, 2.0)],
        };
        assert_eq!(
            table(&[curve], &[0.5]),
            "drafter small (cpu, q8_0), 1.5 MB of matrices\n\
             slots, rows             1       4\n\
             100 ms              0.050   0.100\n\
             \x20 to one row        1.00x   2.00x\n\
             \x20 to the target's  0.100x  0.200x\n\
             \x20 GB/s                2.0     2.0\n\
             \x20 GMAC/s             40.0    40.0\n\
             slots filled: 100 in 12 ms\n"
        );
    }
}
