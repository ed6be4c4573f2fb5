//! Suite `step`: time of a forward pass of the target by number of rows, and of each drafter.

use super::*;
use crate::rows::{Effort, Work};
use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_client::present::grid::stacked;
use specreel_model::{
    config::Sparse,
    draft_head::{DraftHead, Recipe},
    family::{ModelError, VideoLlm},
    shapes,
};
use specreel_tensor::{Backend, cpu::measure::Rates};

const SLOTS: [usize; 3] = [100, 300, 1000];
/// Tokens in the cache of a draft head without visual tokens: a prompt and half of a caption.
const TEXT: usize = 100;
/// Rows of a drafter's passes: a chain, and a level of a tree of width 8.
const DRAFTER_ROWS: [usize; 2] = [1, 8];
const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 11, 16, 26, 32];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOptions {
    /// Lengths of the context in tokens; none are 100, 300 and 1000.
    pub slots: Vec<usize>,
    /// Rows of the target's passes; none are 1 to 32.
    pub rows: Vec<usize>,
    /// Random weights in this shape instead of the target, and without draft heads.
    pub shape: Option<String>,
    /// The same instead of the drafter.
    pub drafter_shape: Option<String>,
    /// Relate the passes to what the processor reaches.
    pub explain: bool,
}

/// Passes of one model over one context.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct PassCurve {
    model: String,
    /// `target`, `drafter`, or `layer` (a draft head on the target's states).
    role: &'static str,
    /// How a draft head was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipe: Option<Recipe>,
    dtype: &'static str,
    device: String,
    slots: usize,
    /// Those of them in the model's cache: a draft head without visual tokens holds only the text.
    held: usize,
    fill_ms: f64,
    weight_bytes: usize,
    passes: Vec<Pass>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Pass {
    rows: usize,
    ms: f64,
    /// Time relative to one row.
    ratio: f64,
    gigabytes_per_second: f64,
    gigamacs_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    experts: Option<PassExperts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
}

/// What a pass takes at least, if reading and multiplying overlap: the longer of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Limit {
    /// Reading its weights, and its keys and values, once.
    read_ms: f64,
    /// Its multiply-adds, with weights in the caches.
    multiply_ms: f64,
    /// The pass's time relative to the longer one.
    ratio: f64,
}

impl Limit {
    fn of(work: &Work, rates: &Rates, ms: f64) -> Self {
        let read_ms = (work.weight_bytes + work.cache_bytes) as f64 / rates.read * 1e3;
        let multiply_ms = work.macs as f64 / rates.macs * 1e3;
        Self { read_ms, multiply_ms, ratio: ms / read_ms.max(multiply_ms) }
    }

    /// What bounds the pass, if anything does.
    fn bound(&self) -> &'static str {
        match self.ratio {
            ..1.3 if self.read_ms > self.multiply_ms => "memory",
            ..1.3 => "products",
            _ => "neither",
        }
    }
}

/// Experts of a layer of which a pass reads the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct PassExperts {
    /// On average over the layers.
    read: f64,
    /// On average over independent rows.
    expected: f64,
}

enum Source<'a> {
    Files(ModelFiles),
    Shape(&'a str),
    Head(&'a Path),
}

struct LoadedModel {
    name: String,
    /// The type that a GGUF file has.
    stored: Option<&'static str>,
    decoder: Arc<Decoder>,
    /// Set for a draft head.
    head: Option<DraftHead>,
}

const fn reads_text_alone(recipe: Recipe) -> bool {
    match recipe {
        Recipe::Sparrow | Recipe::Vispec | Recipe::Hivis => true,
        Recipe::Msd | Recipe::Eagle3 | Recipe::Mtp | Recipe::Dflash | Recipe::Assistant => false,
    }
}

impl LoadedModel {
    /// How many of the tokens before a pass are in its cache.
    fn holds(&self, slots: usize) -> usize {
        match &self.head {
            Some(head) if reads_text_alone(head.config().recipe) => slots.min(TEXT),
            _ => slots,
        }
    }

    fn weight_bytes(&self) -> usize {
        self.decoder.matrix_bytes() + self.head.as_ref().map_or(0, DraftHead::projection_bytes)
    }
}

/// Measure target and drafter. False if it was interrupted. Fails if the models are unusable, or the results cannot be written.
pub fn run<R: Reporter>(
    options: &StepOptions,
    models: &ModelSpec,
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let (slots, rows) = (numbers(&options.slots, &SLOTS), numbers(&options.rows, &ROWS));
    let explain = |place: &ComputeDevice, stored: Option<&str>| -> Result<Option<Rates>, Failure> {
        if !options.explain {
            return Ok(None);
        }
        if !matches!(place.backend(), Backend::Cpu) || stored.is_some() {
            return Err(Failure::usage(
                "--explain relates passes on a CPU, with weights of one type",
                "pass --device cpu, and a directory or --shape instead of a GGUF file",
            ));
        }
        Rates::measure(place.dtype()).map(Some).map_err(|e| ModelError::from(e).into())
    };
    let (target, drafter) = match &options.shape {
        Some(shape) => (Source::Shape(shape), options.drafter_shape.as_deref().map(Source::Shape)),
        None => {
            let target = models.target_files().map_err(Failure::from)?;
            let drafter = models.drafter_files().map_err(Failure::from)?;
            models.check_dtype(&target, drafter.as_ref())?;
            (Source::Files(target), drafter.map(Source::Files))
        }
    };
    let places =
        (models.open_target_device()?, drafter.as_ref().map(|_| models.open_drafter_device()).transpose()?);
    let mut roles = vec![("target", target, places.0.clone(), &rows[..])];
    roles.extend(drafter.zip(places.1).map(|(source, place)| ("drafter", source, place, &DRAFTER_ROWS[..])));
    if options.shape.is_none() {
        let head = |dir| ("layer", Source::Head(dir), places.0.clone(), &DRAFTER_ROWS[..]);
        roles.extend(models.heads.iter().map(|dir| head(dir)));
    }
    let (mut target_row, mut decoder) = (Vec::new(), None);
    for (role, source, place, rows) in roles {
        let model = load(&source, &place, decoder.as_ref(), reporter)?;
        fits(&model, &slots, rows)?;
        let rates = explain(&place, model.stored)?;
        let mut curves = Vec::new();
        for &slots in &slots {
            let held = model.holds(slots);
            let Some((fill_ms, passes)) = measure(&model, rates.as_ref(), held, rows, interrupt, reporter)?
            else {
                break;
            };
            let curve = PassCurve {
                model: model.name.clone(),
                role,
                recipe: model.head.as_ref().map(|head| head.config().recipe),
                dtype: model.stored.unwrap_or_else(|| place.dtype().name()),
                device: place.name().into(),
                slots,
                held,
                fill_ms,
                weight_bytes: model.weight_bytes(),
                passes,
            };
            reporter.line("rows", &curve)?;
            curves.push(curve);
        }
        reporter.ended();
        if !curves.is_empty() {
            reporter.table(&table(&curves, &target_row, reporter.columns()))?;
        }
        if interrupt.asked() {
            return Ok(false);
        }
        if role == "target" {
            target_row = curves.iter().filter_map(|c| Some(c.passes.first()?.ms)).collect();
            decoder = Some(model.decoder);
        }
    }
    Ok(true)
}

/// The requested numbers, without duplicates, ascending.
fn numbers(given: &[usize], default: &[usize]) -> Vec<usize> {
    let mut numbers = if given.is_empty() { default } else { given }.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// `target` is the target's decoder, if loaded: a draft head uses its embeddings and output matrix.
fn load<R: Reporter>(
    source: &Source<'_>,
    place: &ComputeDevice,
    target: Option<&Arc<Decoder>>,
    reporter: &mut R,
) -> Result<LoadedModel, Failure> {
    let mut progress = |done: usize, total: usize| {
        reporter.stage(Stage::Load, done as u64, total as u64);
    };
    match source {
        Source::Files(files) => {
            let model = VideoLlm::from_checkpoint(&VideoLlm::open(files)?, place, &mut progress)?;
            Ok(LoadedModel {
                name: model.name().into(),
                stored: model.stored_type(),
                decoder: model.decoder().clone(),
                head: None,
            })
        }
        Source::Head(dir) => {
            let target =
                target.ok_or_else(|| internal("internal error: draft head loaded before its target"))?;
            let head = DraftHead::load(dir, target)?;
            let (name, decoder) = (head.name().into(), head.decoder().clone());
            Ok(LoadedModel { name, stored: None, decoder, head: Some(head) })
        }
        Source::Shape(name) => {
            let config = shapes::find(name).ok_or_else(|| {
                Failure::usage(
                    format!("unknown shape `{name}`"),
                    format!("expected one of: {}", shapes::names().join(", ")),
                )
            })?;
            let decoder = Decoder::load(&Checkpoint::random(), &config, place, &mut progress)?;
            Ok(LoadedModel {
                name: format!("{name} (random weights)"),
                stored: None,
                decoder: Arc::new(decoder),
                head: None,
            })
        }
    }
}

fn internal(what: &str) -> Failure {
    Failure { class: FailureClass::Internal, error: what.into(), hint: None }
}

fn fits(model: &LoadedModel, slots: &[usize], rows: &[usize]) -> Result<(), Failure> {
    let (slots, rows) = (slots.last().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
    let limit = model.decoder.config().max_positions;
    if slots + rows <= limit {
        return Ok(());
    }
    Err(Failure::input(
        format!("{slots} slots and {rows} rows exceed the context of {}, {limit} tokens", model.name),
        "pass smaller numbers to --slots and --rows",
    ))
}

fn measure<R: Reporter>(
    model: &LoadedModel,
    rates: Option<&Rates>,
    slots: usize,
    rows: &[usize],
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<Option<(f64, Vec<Pass>)>, Failure> {
    // Ratios are relative to one row, even if it was not requested.
    let timed: Vec<usize> = if rows.contains(&1) { rows.to_vec() } else { [&[1], rows].concat() };
    let times = rows::time(
        &model.decoder,
        model.head.as_ref(),
        slots,
        &timed,
        Effort::default(),
        &mut |done, total| {
            if interrupt.asked() {
                return ControlFlow::Break(());
            }
            reporter.stage(Stage::Calibrate, done as u64, total as u64);
            ControlFlow::Continue(())
        },
    );
    let times = times.map_err(ModelError::from)?;
    Ok(times.map(|times| {
        let routing = model.decoder.config().sparse.as_ref().map(Sparse::routing);
        let one = times.passes.iter().find(|t| t.rows == 1).map_or(f64::NAN, |t| t.ms);
        let pass = |t: &rows::PassTime| {
            let mut work = Work::of(&model.decoder, slots, t.rows);
            if model.head.is_some() {
                // The projection of its input rows.
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
                experts: t
                    .experts
                    .zip(routing)
                    .map(|(read, routing)| PassExperts { read, expected: routing.touched(t.rows) }),
                limit: rates.map(|rates| Limit::of(&work, rates, t.ms)),
            }
        };
        (times.fill_ms, times.passes.iter().map(pass).collect())
    }))
}

/// One model's curves; `target_row` has the target's time for one row in each context, empty for the target itself.
fn table(curves: &[PassCurve], target_row: &[f64], columns: Option<usize>) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let mut out = format!(
        "{} {} ({}, {}), {:.1} MB of weight matrices\n",
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
        row("  vs one row".into(), &|p| format!("{:.2}x", p.ratio));
        if let Some(target) = target_row.get(index) {
            row("  vs target".into(), &|p| format!("{:.3}x", p.ms / target));
        }
        row("  GB/s".into(), &|p| format!("{:.1}", p.gigabytes_per_second));
        row("  GMAC/s".into(), &|p| format!("{:.1}", p.gigamacs_per_second));
        if curve.passes.iter().any(|pass| pass.experts.is_some()) {
            let of = |p: &Pass, value: fn(PassExperts) -> f64| {
                p.experts.map_or_else(String::new, |experts| format!("{:.1}", value(experts)))
            };
            row("  experts".into(), &|p| of(p, |experts| experts.read));
            row("  expected".into(), &|p| of(p, |experts| experts.expected));
        }
    }
    for curve in curves.iter().filter(|curve| curve.passes.iter().any(|pass| pass.limit.is_some())) {
        let mut row = |name: String, value: &dyn Fn(&Limit) -> String| {
            let cell = |pass: &Pass| pass.limit.as_ref().map_or_else(String::new, value);
            cells.push([name].into_iter().chain(curve.passes.iter().map(cell)).collect());
        };
        row(format!("{} read ms", curve.slots), &|limit| format!("{:.3}", limit.read_ms));
        row("  multiply ms".into(), &|limit| format!("{:.3}", limit.multiply_ms));
        row("  pass".into(), &|limit| format!("{:.2}x", limit.ratio));
        row("  bound by".into(), &|limit| limit.bound().into());
    }
    out += &stacked(&cells, columns);
    let fills: Vec<String> = curves.iter().map(|c| format!("{} in {:.0} ms", c.slots, c.fill_ms)).collect();
    out + &format!("prefill: {}\n", fills.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_sorted() {
        assert_eq!(numbers(&[8, 1, 8, 2], &ROWS), [1, 2, 8]);
        assert_eq!(numbers(&[], &SLOTS), SLOTS);
    }

    #[test]
    fn rows_are_columns_and_the_drafter_is_compared_with_the_target() {
        let pass = |rows, ms, ratio, experts| Pass {
            rows,
            ms,
            ratio,
            gigabytes_per_second: 2.0,
            gigamacs_per_second: 40.0,
            experts: Some(PassExperts { read: experts, expected: experts + 0.5 }),
            limit: None,
        };
        let curve = PassCurve {
            model: "small".into(),
            role: "drafter",
            recipe: None,
            dtype: "q8_0",
            device: "cpu".into(),
            slots: 100,
            held: 100,
            fill_ms: 12.4,
            weight_bytes: 1_500_000,
            passes: vec![pass(1, 0.05, 1.0, 8.0), pass(4, 0.1, 2.0, 28.25)],
        };
        assert_eq!(
            table(&[curve], &[0.5], None),
            "drafter small (cpu, q8_0), 1.5 MB of weight matrices\n\
             slots, rows        1       4\n\
             100 ms         0.050   0.100\n\
             \x20 vs one row   1.00x   2.00x\n\
             \x20 vs target   0.100x  0.200x\n\
             \x20 GB/s           2.0     2.0\n\
             \x20 GMAC/s        40.0    40.0\n\
             \x20 experts        8.0    28.2\n\
             \x20 expected       8.5    28.8\n\
             prefill: 100 in 12 ms\n"
        );
    }

    #[test]
    fn a_pass_is_bound_by_the_slower_of_reading_and_multiplying() {
        let rates = Rates { read: 1e9, macs: 1e10 };
        let work = Work { weight_bytes: 90_000_000, cache_bytes: 10_000_000, macs: 500_000_000 };
        let limit = Limit::of(&work, &rates, 120.0);
        assert_eq!((limit.read_ms, limit.multiply_ms, limit.bound()), (100.0, 50.0, "memory"));
        let limit = Limit::of(&Work { macs: 2_000_000_000, ..work }, &rates, 220.0);
        assert_eq!((limit.multiply_ms, limit.ratio, limit.bound()), (200.0, 1.1, "products"));
        assert_eq!(Limit::of(&work, &rates, 200.0).bound(), "neither");
    }
}
