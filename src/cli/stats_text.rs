//! The account of a run in words.

use std::fmt::Write as _;

use crate::record::{Stats, StopReason};

/// The account of a run: decoding, speed against the baseline, time, and how it ended unless at its own end.
pub fn statistics(reason: StopReason, stats: &Stats, limit: usize) -> String {
    let plural = |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let mut parts = vec![format!("{} in {}", plural(stats.emitted, "token"), plural(stats.steps, "step"))];
    if stats.judged > 0 {
        parts.push(format!("{:.2} a step (tau {:.2})", stats.emitted_per_step, stats.tau));
    }
    parts.push(format!("{:.1} tokens/s", stats.tokens_per_second));
    let mut out = format!("decoding  {}\n", parts.join(" · "));
    if let Some(s) = &stats.speedup {
        let kind = match s.baseline.kind {
            crate::record::BaselineKind::Measured => "measured",
            crate::record::BaselineKind::Calibrated => "calibrated",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "speedup   {:.2}x decoding · {:.2}x from file to end · against {} ({kind})",
            s.decode, s.end_to_end, s.baseline.name
        );
    }
    let t = &stats.timings;
    let _ = writeln!(
        out,
        "time      {} (video {} · vision {} · prompt {} · decoding {})",
        seconds(t.total_ms()),
        seconds(t.decode_video_ms),
        seconds(t.encode_target_ms + t.encode_drafter_ms),
        seconds(t.prefill_target_ms + t.select_ms + t.prefill_drafter_ms),
        seconds(t.generate_ms())
    );
    match reason {
        StopReason::Eos => {}
        StopReason::Length => {
            let n = if limit == 0 { stats.emitted as usize } else { limit };
            let _ = writeln!(out, "stopped after {n} tokens; --max-new-tokens N allows more");
        }
        StopReason::Cancelled => out += "interrupted\n",
    }
    out
}

/// A time for people.
fn seconds(ms: f64) -> String {
    if ms < 999.5 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speedup_names_its_baseline() {
        let mut stats = Stats { emitted: 2, tokens_per_second: 20.0, ..Stats::default() };
        stats.timings.verify_ms = 100.0;
        let baseline = crate::record::Baseline {
            name: "autoregressive".into(),
            kind: crate::record::BaselineKind::Calibrated,
            tokens_per_second: 10.0,
        };
        stats.set_baseline(baseline, 1000.0, 100.0);
        let text = statistics(StopReason::Eos, &stats, 256);
        assert!(
            text.contains(
                "speedup   2.00x decoding · 1.00x from file to end · against autoregressive (calibrated)\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn times_are_short() {
        assert_eq!([0.4, 999.4, 999.6, 61_000.0].map(seconds), ["0 ms", "999 ms", "1.0 s", "61.0 s"]);
    }
}
