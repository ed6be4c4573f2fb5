//! Statistics of runs as table columns and in words.
//!
//! A new statistic is computed in `record::stats`, gets a field in [`Measures`] and a [`Column`] or a line here, and is then
//! shown by every table (compare, bench, saved runs), the command line and the exported files.

use super::formats::{NOTHING, differs_at, duration, percent, plural, rate, rough, speedup};
use super::verdicts::lossless_mark;
use specreel_record::stats::{Equality, Tie};
use specreel_record::{
    Comparison, Interval, Pieces, Promise, Row, RowState, RunLog, Speedup, Stats, StopReason, Traffic,
    Verdict, Verification, paired, units::bytes,
};

/// What the tables show of one method or run; `None` where a value is unknown or has no meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    pub name: String,
    /// True if the method emits exactly what autoregressive decoding would.
    pub lossless: bool,
    /// Emitted tokens per second of decoding.
    pub tokens_per_second: Option<f64>,
    /// Ratio of decode speeds.
    pub decode: Option<f64>,
    pub interval: Option<Interval>,
    /// Ratio of times from file to last token.
    pub end_to_end: Option<f64>,
    /// Accepted drafts per step.
    pub tau: Option<f64>,
    pub emitted_per_step: Option<f64>,
    /// Share of the tokens that the target would not have written, 0 to 1.
    pub loosened_share: Option<f64>,
    /// The text against the baseline's.
    pub output: Output,
}

/// A method's text compared with the baseline's, or why there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Output {
    /// Not compared.
    #[default]
    Unknown,
    Waiting,
    /// Cancelled before the first run finished.
    Interrupted,
    Failed,
    Baseline,
    Identical,
    /// Index of the first token that differs, from 0.
    DiffersAt(usize),
}

impl Output {
    fn of(equality: Option<&Equality>) -> Self {
        match equality {
            None => Output::Unknown,
            Some(equality) => equality.first_difference.map_or(Output::Identical, Output::DiffersAt),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Output::Unknown => NOTHING.into(),
            Output::Waiting => "not run".into(),
            Output::Interrupted => "interrupted".into(),
            Output::Failed => "failed".into(),
            Output::Baseline => "baseline".into(),
            Output::Identical => "identical".into(),
            Output::DiffersAt(index) => differs_at(*index),
        }
    }
}

impl Measures {
    pub fn of_row(comparison: &Comparison, row: &Row) -> Self {
        let figures = row.figures.as_ref();
        let output = match row.state {
            RowState::Waiting => Output::Waiting,
            RowState::Cancelled => Output::Interrupted,
            RowState::Failed => Output::Failed,
            RowState::Done if row.method == comparison.baseline => Output::Baseline,
            RowState::Done => Output::of(figures.and_then(|f| f.equality.as_ref())),
        };
        Self {
            name: row.method.clone(),
            lossless: row.lossless,
            tokens_per_second: figures.map(|f| f.tokens_per_second),
            decode: figures.and_then(|f| f.decode_speedup),
            interval: figures.and_then(|f| f.interval),
            end_to_end: figures.and_then(|f| f.end_to_end_speedup),
            tau: figures.and_then(|f| f.tau),
            emitted_per_step: figures.and_then(|f| f.emitted_per_step),
            loosened_share: figures.and_then(|f| f.loosened_share),
            output,
        }
    }

    /// Of one run by itself: without a baseline's output, and with the speedup that the engine gave.
    pub fn of_stats(name: &str, lossless: bool, stats: &Stats) -> Self {
        let speculates = stats.judged > 0;
        Self {
            name: name.to_owned(),
            lossless,
            tokens_per_second: Some(stats.speed()).filter(|speed| *speed > 0.0),
            decode: stats.speedup.as_ref().map(|s| s.decode),
            interval: stats.speedup.as_ref().map(|s| s.interval),
            end_to_end: stats.speedup.as_ref().map(|s| s.end_to_end),
            tau: speculates.then_some(stats.tau),
            emitted_per_step: speculates.then_some(stats.emitted_per_step),
            loosened_share: speculates.then(|| stats.loosened_share()),
            output: Output::of(stats.equality.as_ref()),
        }
    }
}

#[derive(Debug)]
pub struct Column {
    pub title: &'static str,
    pub right: bool,
    /// Columns with a higher rank are dropped first where the width is short; those with 0 stay.
    pub rank: u8,
    pub cell: fn(&Measures) -> String,
}

pub const NAME: Column = Column { title: "method", right: false, rank: 0, cell: |m| m.name.clone() };
pub const KIND: Column =
    Column { title: "kind", right: false, rank: 0, cell: |m| lossless_mark(m.lossless).into() };
pub const SPEED: Column =
    Column { title: "tokens/s", right: true, rank: 3, cell: |m| known(m.tokens_per_second, rate) };
pub const DECODE: Column = Column { title: "decode", right: true, rank: 1, cell: decode };
/// Speedup from file to last token.
pub const END_TO_END: Column =
    Column { title: "end to end", right: true, rank: 6, cell: |m| known(m.end_to_end, rough) };
/// Accepted drafts per step.
pub const TAU: Column = Column { title: "tau", right: true, rank: 5, cell: |m| known(m.tau, two_decimals) };
/// Emitted tokens per step.
pub const PER_STEP: Column =
    Column { title: "per step", right: true, rank: 7, cell: |m| known(m.emitted_per_step, two_decimals) };
/// Share of loosened tokens.
pub const LOOSENED: Column =
    Column { title: "loosened", right: true, rank: 4, cell: |m| known(m.loosened_share, percent) };
/// The text against the baseline's.
pub const OUTPUT: Column = Column { title: "output", right: false, rank: 2, cell: |m| m.output.words() };

pub const COMPARISON: [Column; 9] = [NAME, KIND, TAU, PER_STEP, LOOSENED, SPEED, DECODE, END_TO_END, OUTPUT];

fn decode(measures: &Measures) -> String {
    measures.decode.map_or_else(|| NOTHING.into(), |ratio| speedup(ratio, measures.interval.as_ref()))
}

fn known(value: Option<f64>, words: fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.into(), words)
}

fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

/// Statistics as rows of name and value: decoding, speedup, time.
pub fn statistics(stats: &Stats) -> Vec<(&'static str, String)> {
    let mut parts = vec![in_passes(stats)];
    if stats.judged > 0 {
        parts.push(format!("{} of {} accepted", stats.accepted, plural(stats.judged, "draft")));
        parts.push(format!("{:.2} per step (tau {:.2})", stats.emitted_per_step, stats.tau));
    }
    if stats.forced > 0 {
        parts.push(format!("{} forced", plural(stats.forced, "token")));
    }
    parts.push(format!("{} tokens/s", rate(stats.speed())));
    let mut rows = vec![("decoding", parts.join(" · "))];
    match &stats.speedup {
        Some(speedup) => {
            let decode = self::speedup(speedup.decode, Some(&speedup.interval));
            let (name, basis) = (&speedup.baseline.name, basis(speedup));
            let end_to_end = end_to_end(stats, speedup);
            rows.push(("speedup", format!("{decode} decoding · {end_to_end} · against {name} ({basis})")));
        }
        None if stats.judged > 0 => rows.push(("speedup", NOT_MEASURED.to_owned())),
        None => {}
    }
    rows.extend(contention(stats).map(|words| ("machine", words)));
    let t = &stats.timings;
    if t.total_ms() > 0.0 {
        let [total, video, vision, prompt, decoding] = [
            t.total_ms(),
            t.decode_video_ms,
            t.encode_target_ms + t.encode_drafter_ms,
            t.prefill_target_ms + t.select_ms + t.prefill_drafter_ms,
            t.generate_ms(),
        ]
        .map(duration);
        let parts = format!("video {video} · vision {vision} · prompt {prompt} · decoding {decoding}");
        rows.push(("time", format!("{total} ({parts})")));
    }
    rows.extend(overlap(stats).map(|words| ("overlap", words)));
    rows.extend(stats.traffic.map(|traffic| ("gpu", gpu(&traffic))));
    rows
}

/// How long drafter and target were at work at once; `None` if they took turns.
fn overlap(stats: &Stats) -> Option<String> {
    let (both, whole) = (stats.timings.both_ms, stats.timings.generate_ms());
    (both > 0.0 && whole > 0.0).then(|| {
        let share = percent((both / whole).min(1.0));
        format!("{} · target and drafter both at work {share} of the decoding time", duration(both))
    })
}

/// What passed to and from a GPU.
fn gpu(traffic: &Traffic) -> String {
    let Traffic { up, down, submissions, dispatches } = *traffic;
    let (submissions, kernels) = (plural(submissions, "submission"), plural(dispatches, "kernel"));
    format!("{} sent · {} read · {submissions} of {kernels}", bytes(up), bytes(down))
}

/// The counts that never vary: `76 tokens in 15 target passes`.
pub fn in_passes(stats: &Stats) -> String {
    let passes = if stats.steps == 1 { "pass" } else { "passes" };
    format!("{} in {} target {passes}", plural(stats.emitted, "token"), stats.steps)
}

/// In place of a speedup that is not known.
pub const NOT_MEASURED: &str = "not measured";

/// What a speedup was measured with, in a few words.
pub fn basis(speedup: &Speedup) -> String {
    let pairs = plural(speedup.interval.pairs as u64, "pair");
    if busy(speedup.contention).is_some() { format!("{pairs}, busy machine") } else { pairs }
}

/// True if the drafter's reading costs more than it saves, from file to last token.
fn is_reading_dear(decode: f64, end_to_end: f64) -> bool {
    end_to_end < 0.95 && end_to_end < decode
}

/// The speedup from file to last token, and why it is below 1 where decoding is not the reason.
fn end_to_end(stats: &Stats, speedup: &Speedup) -> String {
    let words = format!("{} end to end", rough(speedup.end_to_end));
    let why = match stats.drafter_visual_tokens {
        _ if !is_reading_dear(speedup.decode, speedup.end_to_end) => return words,
        0 => "the drafter also reads the prompt",
        _ => "the drafter also reads the video",
    };
    format!("{words}: {why}")
}

/// That other programs slowed a run or its measurement down, if they did noticeably.
pub fn contention(stats: &Stats) -> Option<String> {
    let measured = stats.speedup.as_ref().and_then(|speedup| speedup.contention);
    busy(measured.or(stats.contention))
}

/// The same of a share of the time that was spent waiting for processors.
pub fn busy(share: Option<f64>) -> Option<String> {
    let share = share.filter(|share| *share >= paired::BUSY)?;
    Some(format!(
        "busy with other programs: decoding waited {:.0} % of the time for a processor",
        100.0 * share
    ))
}

/// The verdicts that occur with their counts: `exact 2 · corrected 1`. `paint` styles each of them.
pub fn verdicts(stats: &Stats, paint: impl Fn(Verdict, u64) -> String) -> String {
    stats.verdicts.iter().map(|(verdict, n)| paint(verdict, n)).collect::<Vec<_>>().join(" · ")
}

/// The share of the text that a lossy method changed; empty for a lossless one.
pub fn loosened(lossless: bool, stats: &Stats) -> String {
    match (lossless, stats.loosened_share()) {
        (true, _) => String::new(),
        (false, 0.0) => "no token was loosened".into(),
        (false, share) => format!("{} of the tokens differ from the target's choice", percent(share)),
    }
}

/// How a run ended, if not at an end token. `limit` is the maximum number of tokens, 0 if unknown.
pub fn ending(reason: StopReason, stats: &Stats, limit: usize) -> Option<String> {
    let is_partial = stats.complete == Some(false);
    match reason {
        StopReason::Eos | StopReason::Length | StopReason::Loop | StopReason::Stop if stats.complete == Some(true) => None,
        StopReason::Eos | StopReason::Stop if is_partial => Some("the answer is not complete".into()),
        StopReason::Eos | StopReason::Stop => None,
        StopReason::Length => {
            let n = if limit == 0 { stats.emitted as usize } else { limit };
            let within = if is_partial { ", before the answer was complete" } else { "" };
            Some(format!("stopped after {n} tokens{within}; raise the limit with --max-new-tokens N"))
        }
        StopReason::Loop => Some(
            "stopped, since the text repeated itself; try --repetition-penalty 1.05, --dry-multiplier 0.8 or another --seed".into(),
        ),
        StopReason::Cancelled => Some("interrupted".into()),
    }
}

/// All that files say about runs, as rows of name and value; unknown values are left out.
pub fn account(runs: &Pieces<'_>) -> Vec<(&'static str, String)> {
    let Some(first) = runs.first() else { return Vec::new() };
    let stats = runs.stats();
    let mut rows = Vec::new();
    if let Some(started) = first.started() {
        rows.extend([("video", started.video.clone()), ("models", started.models())]);
    }
    if let ([_], Some(prompt)) = (runs.logs(), first.prompt()) {
        let frames = plural(prompt.frames.len() as u64, "frame");
        rows.push(("input", format!("{frames}, {}", plural(prompt.visual_tokens as u64, "visual token"))));
    }
    if let Some((done, count)) = runs.progress() {
        rows.push(("segments", format!("{done} of {count}")));
    }
    rows.push(("verdicts", verdicts(&stats, |verdict, n| format!("{verdict} {n}"))));
    rows.push(("loosened", loosened(first.is_lossless(), &stats)));
    rows.extend(statistics(&stats));
    rows.extend(runs.logs().iter().filter_map(|log| Some(("verified", verification(log.verification()?)))));
    rows.extend(runs.notes().into_iter().map(|note| ("note", note.to_owned())));
    rows.push(("created by", concat!("specreel ", env!("CARGO_PKG_VERSION")).to_owned()));
    // Several runs have a speedup each.
    rows.retain(|(_, value)| !value.is_empty() && (value != NOT_MEASURED || runs.logs().len() == 1));
    rows
}

/// What the figures of a comparison mean, in sentences. `sampled`: text is sampled, and a method accepts by sampling.
pub fn comparison_notes(comparison: &Comparison, sampled: bool) -> Vec<String> {
    // Fewer than were requested, if the comparison was interrupted.
    let passes = comparison.rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
    let baseline = &comparison.baseline;
    let measured = comparison.rows.iter().any(|row| row.method == *baseline && row.figures.is_some());
    let mut notes = vec![if measured {
        format!(
            "Speedups are against {baseline} on this clip, measured here in alternation: decode from the first token on, with \
             its 95 % interval; end to end from the file on. ≈ marks figures that vary by more than a quarter; – those that \
             were not measured."
        )
    } else {
        format!("No speedups: {baseline} did not finish.")
    }];
    let with_interval = |row: &Row| {
        row.method != *baseline && row.figures.as_ref().is_some_and(|figures| figures.interval.is_some())
    };
    match comparison.fastest() {
        Some(row) => notes.push(format!("{} is the fastest: its interval is above all others.", row.method)),
        None if measured && comparison.rows.iter().any(with_interval) => {
            notes.push("No method is the fastest: the intervals overlap, or one is not known.".into());
        }
        None => {}
    }
    if passes > 1 {
        notes.push(format!("Other figures are from the run of median speed out of {passes}."));
    }
    let dear = |row: &Row| {
        let ratios = row.figures.as_ref().and_then(|f| f.decode_speedup.zip(f.end_to_end_speedup));
        ratios.is_some_and(|(decode, end_to_end)| is_reading_dear(decode, end_to_end))
    };
    if comparison.rows.iter().any(dear) {
        notes.push(
            "End to end is below 1x where the drafter also reads the video, and the caption is short.".into(),
        );
    }
    let waited = comparison.rows.iter().filter_map(|row| row.figures.as_ref()?.contention);
    notes.extend(busy(waited.max_by(f64::total_cmp)).map(|words| format!("The machine was {words}.")));
    if sampled {
        notes.push(
            "A method that accepts by sampling preserves the distribution, not the text; other lossless methods \
             preserve both."
                .into(),
        );
    }
    notes
}

/// Where a lossless run differs from autoregressive decoding: how close the two tokens are.
pub fn tie(tie: &Tie) -> String {
    let Tie { plain, other, gap, near, .. } = tie;
    let distance = format!("{plain:?} and {other:?} are {:.3} nats apart", gap.abs());
    if *near {
        format!("a near-tie: {distance}")
    } else {
        format!("not a near-tie, please report this: {distance}")
    }
}

/// What verifying a run has found: `identical, 76 of 76 tokens`, or the first difference, and whether that was to be expected.
pub fn verification(found: &Verification) -> String {
    let Verification { equality, tokens, plain_tokens, promises, difference } = found;
    let Some(at) = equality.first_difference else {
        let promise = match promises {
            Promise::Tokens => "",
            Promise::Distribution => "; the method promises the distribution, not the text",
            Promise::Nothing => "; the method is lossy and does not promise this",
        };
        return format!("identical, {tokens} of {plain_tokens} tokens{promise}");
    };
    let number = at + 1;
    let what = match difference {
        None => differs_at(at),
        Some(Tie { plain, other, .. }) if at >= *plain_tokens => {
            format!(
                "continues at token {number} with {other:?}, where autoregressive decoding ends with {plain:?}"
            )
        }
        Some(Tie { plain, .. }) if at >= *tokens => {
            let tokens = plural(at as u64, "token");
            format!("ends after {tokens}, where autoregressive decoding continues with {plain:?}")
        }
        Some(Tie { plain, other, .. }) => {
            format!("{} of {tokens}: {other:?}, autoregressive decoding has {plain:?}", differs_at(at))
        }
    };
    let margin = difference.as_ref().map_or_else(String::new, |tie| match tie.gap {
        gap if gap < 0.0 => format!("; the target finds it more likely by {:.3} nats", -gap),
        gap => format!("; the target's margin is {gap:.3} nats"),
    });
    let expected = match promises {
        Promise::Distribution => {
            "; expected: drafts are accepted by chance, which keeps the distribution, not the text"
        }
        Promise::Nothing => "; expected: the method is lossy",
        Promise::Tokens if found.is_broken() => "; please report this: the method is lossless",
        Promise::Tokens => "; expected: this device rounds passes of several rows differently",
    };
    what + &margin + expected
}

/// The first line about a run: `lvspec (lossy): big with small on cpu, q8_0`; `name` is the method's name for people.
pub fn headline(name: &str, log: &RunLog) -> String {
    let models = log.started().map(|started| started.models()).unwrap_or_default();
    format!("{name} ({}): {models}", lossless_mark(log.is_lossless()))
}

#[cfg(test)]
mod tests;
