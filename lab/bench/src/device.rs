//! Suite `device`: the kernels of a GPU in the sizes of a model, compared with the most that the card reads and multiplies.

use super::*;
use specreel_client::present::grid::stacked;
use specreel_model::{config::TextConfig, family::ModelError, shapes};
use specreel_tensor::{
    BlockKind, KvType, TensorType,
    attention::AttentionShape,
    cpu::kernels::HalfKind,
    gpu::{
        Gpu, GpuError,
        measure::{self, Extent, KernelTime, Rates},
    },
};

const ROWS: [usize; 4] = [1, 6, 26, 512];
const SLOTS: [usize; 3] = [1000, 8000, 25_000];
/// The shape whose sizes the kernels have: on a card, and where the CPU computes.
const SHAPE: &str = "qwen3-vl-2b";
const SOFTWARE_SHAPE: &str = "smolvlm2-256m";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceOptions {
    /// The shape whose sizes the kernels have; a 2B model if it is not given, or a small one without a real card.
    pub shape: Option<String>,
    /// Rows of a pass; none are 1, 6, 26 and 512.
    pub rows: Vec<usize>,
    /// Lengths of the context in tokens; none are 1,000, 8,000 and 25,000.
    pub slots: Vec<usize>,
}

/// The card and its rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Card {
    device: String,
    about: String,
    shape: String,
    read_gigabytes_per_second: f64,
    copied_gigabytes_per_second: f64,
    f32_gigamacs_per_second: f64,
    int8_gigamacs_per_second: f64,
    command_us: f64,
    round_trip_us: f64,
}

/// A kernel, compared with the card's rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct KernelLine {
    kernel: String,
    rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<usize>,
    us: f64,
    us_range: [f64; 2],
    gigabytes_per_second: f64,
    gigamacs_per_second: f64,
    /// The least time that the card's rates allow, relative to the time taken.
    of_bound: f64,
}

impl KernelLine {
    /// `multiplied` is the card's rate for this kernel's numbers.
    fn new(
        kernel: String,
        rows: usize,
        slots: Option<usize>,
        time: &KernelTime,
        [read, multiplied]: [f64; 2],
    ) -> Self {
        let (bytes, macs) = (time.bytes as f64, time.macs as f64);
        Self {
            kernel,
            rows,
            slots,
            us: time.seconds * 1e6,
            us_range: time.range.map(|seconds| seconds * 1e6),
            gigabytes_per_second: bytes / time.seconds / 1e9,
            gigamacs_per_second: macs / time.seconds / 1e9,
            of_bound: (bytes / read).max(macs / multiplied) / time.seconds,
        }
    }
}

/// Measure the device of the target. False if it was interrupted. Fails if it is no GPU (class usage), a kernel fails, or the results
/// cannot be written.
pub fn run<R: Reporter>(
    options: &DeviceOptions,
    models: &ModelSpec,
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let place = models.open_target_device()?;
    let gpu = place.gpu().ok_or_else(|| {
        let error = format!("--suite device measures a GPU, and the device is {}", place.name());
        Failure::usage(error, "add --device gpu; `specreel doctor` lists the GPUs of this machine")
    })?;
    let usual = if gpu.is_software() { SOFTWARE_SHAPE } else { SHAPE };
    let shape = options.shape.as_deref().unwrap_or(usual);
    let config = shapes::find(shape).ok_or_else(|| {
        Failure::usage(format!("unknown shape `{shape}`"), "specreel-lab bench --help lists them")
    })?;
    let whole = measure(gpu, shape, &config, options, interrupt, reporter);
    reporter.ended();
    whole
}

fn measure<R: Reporter>(
    gpu: &Gpu,
    name: &str,
    config: &TextConfig,
    options: &DeviceOptions,
    interrupt: &Interrupt,
    reporter: &mut R,
) -> Result<bool, R::Error> {
    let numbers = |given: &[usize], usual: &[usize]| if given.is_empty() { usual } else { given }.to_vec();
    let (rows, slots) = (numbers(&options.rows, &ROWS), numbers(&options.slots, &SLOTS));
    let extent = Extent::of(gpu);
    let failed = |error: GpuError| Failure::from(ModelError::from(specreel_tensor::Error::from(error)));
    // Gate and up in one matrix: the largest of a layer.
    let [outputs, inputs] = [2 * config.intermediate, config.hidden];
    let shape = AttentionShape { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim };
    let products = TYPES.into_iter().filter(|kind| inputs.is_multiple_of(kind.block())).map(Kernel::Product);
    let attention = [KvType::F16, KvType::Q8_0]
        .into_iter()
        .flat_map(|kind| slots.iter().map(move |slots| Kernel::Attention(kind, *slots)));
    let kernels: Vec<Kernel> = products.chain(attention).collect();
    let total = (1 + rows.len() * kernels.len()) as u64;
    let mut done = 0;
    let mut next = |reporter: &mut R| {
        reporter.stage(Stage::Calibrate, done, total);
        done += 1;
        !interrupt.asked()
    };
    if !next(reporter) {
        return Ok(false);
    }
    let rates = measure::rates(gpu, extent).map_err(failed)?;
    let card = card(gpu, name, &rates);
    reporter.line("card", &card)?;
    let mut lines = Vec::new();
    let mut whole = true;
    for (kernel, rows) in kernels.iter().flat_map(|kernel| rows.iter().map(move |rows| (kernel, *rows))) {
        if !next(reporter) {
            whole = false;
            break;
        }
        let line = match *kernel {
            Kernel::Product(kind) => {
                let time = measure::product(gpu, extent, kind, [outputs, inputs], rows).map_err(failed)?;
                let quantized = matches!(kind, TensorType::Blocks(_));
                let bound = [rates.read, if quantized { rates.int8_macs } else { rates.f32_macs }];
                KernelLine::new(format!("{} {outputs}x{inputs}", kind.name()), rows, None, &time, bound)
            }
            Kernel::Attention(kind, slots) => {
                let time = measure::attention(gpu, extent, shape, kind, slots, rows).map_err(failed)?;
                let bound = [rates.read, rates.f32_macs];
                KernelLine::new(format!("attention {}", kind.name()), rows, Some(slots), &time, bound)
            }
        };
        reporter.line("kernel", &line)?;
        lines.push(line);
    }
    reporter.ended();
    reporter.table(&page(&card, &lines, reporter.columns()))?;
    Ok(whole)
}

/// Weight types whose products are measured: those of `--dtype` that most models have.
const TYPES: [TensorType; 3] = [
    TensorType::Blocks(BlockKind::Q8_0),
    TensorType::Blocks(BlockKind::Q4K),
    TensorType::Half(HalfKind::F16),
];

/// What is measured.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    /// A product with weights of this type.
    Product(TensorType),
    /// Attention to a cache of this type and so many slots.
    Attention(KvType, usize),
}

fn card(gpu: &Gpu, shape: &str, rates: &Rates) -> Card {
    Card {
        device: gpu.adapter().label(),
        about: gpu.adapter().about(),
        shape: shape.into(),
        read_gigabytes_per_second: rates.read / 1e9,
        copied_gigabytes_per_second: rates.copied / 1e9,
        f32_gigamacs_per_second: rates.f32_macs / 1e9,
        int8_gigamacs_per_second: rates.int8_macs / 1e9,
        command_us: rates.command_s * 1e6,
        round_trip_us: rates.round_trip_s * 1e6,
    }
}

fn page(card: &Card, lines: &[KernelLine], columns: Option<usize>) -> String {
    let mut out = format!("{}\n{}\n\n", card.device, card.about);
    let rates = [
        ("reads", card.read_gigabytes_per_second, "GB/s"),
        ("copies", card.copied_gigabytes_per_second, "GB/s"),
        ("multiplies f32", card.f32_gigamacs_per_second, "GMAC/s"),
        ("multiplies 8-bit integers", card.int8_gigamacs_per_second, "GMAC/s"),
        ("a kernel takes at least", card.command_us, "µs"),
        ("a result takes at least", card.round_trip_us, "µs"),
    ];
    let rates = rates.map(|(what, value, unit)| vec![what.into(), format!("{value:.1}"), unit.into()]);
    out += &stacked(&rates, columns);
    out += &format!("\nsizes of {}\n", card.shape);
    let heads = ["kernel", "rows", "slots", "µs", "range", "GB/s", "GMAC/s", "of bound"];
    let mut cells = vec![heads.map(str::to_owned).to_vec()];
    cells.extend(lines.iter().map(|line| {
        vec![
            line.kernel.clone(),
            line.rows.to_string(),
            line.slots.map_or_else(String::new, |slots| slots.to_string()),
            format!("{:.1}", line.us),
            format!("{:.1} to {:.1}", line.us_range[0], line.us_range[1]),
            format!("{:.1}", line.gigabytes_per_second),
            format!("{:.1}", line.gigamacs_per_second),
            format!("{:.0} %", 100.0 * line.of_bound),
        ]
    }));
    out + &stacked(&cells, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_compared_with_the_rate_that_bounds_it() {
        let time = KernelTime { seconds: 2e-6, range: [1e-6, 4e-6], bytes: 1000, macs: 4000 };
        let line = |rates| KernelLine::new("q8_0".into(), 4, None, &time, rates);
        // A microsecond to read, or half of one to multiply.
        assert_eq!(line([1e9, 8e9]).of_bound, 0.5);
        assert_eq!(line([1e9, 2e9]).of_bound, 1.0);
        let card = Card {
            device: "gpu:0 (card, vulkan)".into(),
            about: "card".into(),
            shape: "tiny".into(),
            read_gigabytes_per_second: 1.0,
            copied_gigabytes_per_second: 2.0,
            f32_gigamacs_per_second: 3.0,
            int8_gigamacs_per_second: 4.0,
            command_us: 5.0,
            round_trip_us: 60.0,
        };
        assert_eq!(
            page(&card, &[line([1e9, 8e9])], None),
            "gpu:0 (card, vulkan)\ncard\n\n\
             reads                       1.0    GB/s\n\
             copies                      2.0    GB/s\n\
             multiplies f32              3.0  GMAC/s\n\
             multiplies 8-bit integers   4.0  GMAC/s\n\
             a kernel takes at least     5.0      µs\n\
             a result takes at least    60.0      µs\n\
             \nsizes of tiny\n\
             kernel  rows  slots   µs       range  GB/s  GMAC/s  of bound\n\
             q8_0       4         2.0  1.0 to 4.0   0.5     2.0      50 %\n"
        );
    }
}
