//! Counters, and their text for Prometheus.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, fmt::Write};

use specreel_os::memory;
use specreel_record::{Stats, VerdictCounts};

/// Upper bounds of the histograms' buckets, in seconds.
const BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

#[derive(Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn write(&self, text: &mut String, name: &str, help: &str) {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (count, bound) in self.buckets.iter().zip(BOUNDS) {
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let Self { count, sum, .. } = self;
        let _ =
            writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
    }
}

#[derive(Default)]
struct Counts {
    /// By route and status.
    requests: BTreeMap<(String, u16), u64>,
    runs: BTreeMap<&'static str, u64>,
    prompt_tokens: u64,
    cached_tokens: u64,
    stats: Totals,
    request_s: Histogram,
    queue_s: Histogram,
    first_token_s: Histogram,
    decode_s: Histogram,
}

#[derive(Default)]
struct Totals {
    tokens: u64,
    steps: u64,
    drafted: u64,
    accepted: u64,
    verdicts: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
pub struct Metrics(Mutex<Counts>);

/// A finished run, in numbers.
pub struct Finished<'a> {
    pub stats: &'a Stats,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    /// Seconds from the request to its run.
    pub queue_s: Option<f64>,
    /// Seconds from the request to its first token.
    pub first_token_s: Option<f64>,
}

pub struct Load {
    pub waiting: usize,
    pub running: usize,
    pub engines: usize,
    /// Bytes of stored videos.
    pub stored: u64,
}

impl Metrics {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was answered with this status; of a stream, its head was.
    pub fn answered(&self, route: String, status: u16, seconds: f64) {
        let mut counts = self.counts();
        *counts.requests.entry((route, status)).or_default() += 1;
        counts.request_s.add(seconds);
    }

    /// A run ended: `stop`, `length`, `cancelled`, `timeout` or `failed`.
    pub fn ended(&self, how: &'static str) {
        *self.counts().runs.entry(how).or_default() += 1;
    }

    pub fn wrote(&self, run: &Finished<'_>) {
        let mut counts = self.counts();
        counts.prompt_tokens += run.prompt_tokens;
        counts.cached_tokens += run.cached_tokens;
        let totals = &mut counts.stats;
        totals.tokens += run.stats.emitted;
        totals.steps += run.stats.steps;
        totals.drafted += run.stats.drafted;
        totals.accepted += run.stats.accepted;
        let verdicts: &VerdictCounts = &run.stats.verdicts;
        for (verdict, count) in verdicts.iter() {
            *totals.verdicts.entry(verdict.name()).or_default() += count;
        }
        counts.decode_s.add(run.stats.timings.generate_ms() / 1e3);
        if let Some(seconds) = run.queue_s {
            counts.queue_s.add(seconds);
        }
        if let Some(seconds) = run.first_token_s {
            counts.first_token_s.add(seconds);
        }
    }

    /// The text format of Prometheus.
    pub fn text(&self, load: &Load) -> String {
        let counts = self.counts();
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        let requests: Vec<_> = (counts.requests.iter())
            .map(|((route, status), n)| (format!("{{route=\"{route}\",status=\"{status}\"}}"), *n as f64))
            .collect();
        family("specreel_requests_total", "counter", "Requests by route and status.", &requests);
        let runs: Vec<_> =
            counts.runs.iter().map(|(how, n)| (format!("{{end=\"{how}\"}}"), *n as f64)).collect();
        family("specreel_runs_total", "counter", "Runs by how they ended.", &runs);
        family("specreel_queue_length", "gauge", "Runs that wait.", &one(load.waiting as f64));
        family("specreel_runs_in_progress", "gauge", "Runs in progress.", &one(load.running as f64));
        family("specreel_engines", "gauge", "Engines that can run.", &one(load.engines as f64));
        let totals = &counts.stats;
        let values = [
            ("specreel_prompt_tokens_total", "Prompt tokens, visual ones included.", counts.prompt_tokens),
            (
                "specreel_cached_prompt_tokens_total",
                "Prompt tokens that an earlier run had read.",
                counts.cached_tokens,
            ),
            ("specreel_tokens_total", "Tokens written.", totals.tokens),
            ("specreel_steps_total", "Decoding steps.", totals.steps),
            ("specreel_drafted_tokens_total", "Draft tokens.", totals.drafted),
            ("specreel_accepted_tokens_total", "Accepted draft tokens.", totals.accepted),
        ];
        for (name, help, value) in values {
            family(name, "counter", help, &one(value as f64));
        }
        let tau = totals.accepted as f64 / totals.steps.max(1) as f64;
        family("specreel_tau", "gauge", "Accepted drafts per step, of all runs.", &one(tau));
        let verdicts: Vec<_> = (totals.verdicts.iter())
            .map(|(verdict, n)| (format!("{{verdict=\"{verdict}\"}}"), *n as f64))
            .collect();
        family("specreel_verdicts_total", "counter", "Tokens written by verdict.", &verdicts);
        family("specreel_stored_bytes", "gauge", "Bytes of stored videos.", &one(load.stored as f64));
        let (resident, peak) = (memory::resident(0) as f64, memory::peak() as f64);
        family("process_resident_memory_bytes", "gauge", "Resident memory.", &one(resident));
        family("specreel_peak_memory_bytes", "gauge", "Peak resident memory.", &one(peak));
        let histograms = [
            (&counts.request_s, "specreel_request_seconds", "Time to the head of the response."),
            (&counts.queue_s, "specreel_queue_seconds", "Time from a request to its run."),
            (
                &counts.first_token_s,
                "specreel_first_token_seconds",
                "Time from a request to its first token.",
            ),
            (&counts.decode_s, "specreel_decode_seconds", "Time from the first to the last token."),
        ];
        for (histogram, name, help) in histograms {
            histogram.write(&mut text, name, help);
        }
        text
    }
}
