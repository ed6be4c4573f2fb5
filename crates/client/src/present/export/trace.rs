//! A run as a trace of who was at work when, in the format that Perfetto and browsers' tracing pages open.

use serde_json::{Value, json};

use super::Names;
use specreel_record::{Pieces, RunLog, Step};

/// Rows of the trace, from the top.
const ROWS: [&str; 3] = ["drafter", "target", "judging"];

/// The trace of some runs, one process each: spans of drafter, target and judging, from the first step on.
pub(super) fn write(names: &Names<'_>, runs: &Pieces<'_>) -> String {
    let mut events = Vec::new();
    for (process, run) in runs.logs().iter().enumerate() {
        let title = format!("{} · {}", names.video, names.method);
        events.push(named("process_name", process, 0, &title));
        for (row, name) in ROWS.iter().enumerate() {
            events.push(named("thread_name", process, row, name));
        }
        spans(run, process, &mut events);
    }
    let mut text = json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string();
    text.push('\n');
    text
}

fn named(kind: &str, process: usize, row: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": kind, "pid": process, "tid": row, "args": { "name": name } })
}

fn spans(run: &RunLog, process: usize, events: &mut Vec<Value>) {
    let mut begin = 0.0;
    for step in run.steps() {
        let end = begin + step.total_ms();
        for (row, [from, to]) in times(step).into_iter().enumerate() {
            if to > from {
                let about = json!({ "step": step.index, "drafted": step.drafted.len(), "judged": step.judged,
                    "accepted": step.accepted, "text": step.tokens.iter().map(|t| t.text.as_str()).collect::<String>() });
                // Microseconds.
                let (at, length) = (((begin + from) * 1e3).round(), ((to - from) * 1e3).round());
                let name = format!("{} {}", ROWS[row], step.index + 1);
                events.push(
                    json!({ "ph": "X", "name": name, "pid": process, "tid": row, "ts": at, "dur": length,
                    "args": about }),
                );
            }
        }
        begin = end;
    }
}

/// Begin and end of each row's work in a step, in milliseconds from its beginning.
fn times(step: &Step) -> [[f64; 2]; 3] {
    let whole = step.total_ms();
    match step.busy {
        Some(busy) => [busy.drafter, busy.target, [busy.drafter[1].max(busy.target[1]).min(whole), whole]],
        None => {
            let drafted = step.draft_ms;
            let verified = drafted + step.verify_ms;
            [[0.0, drafted], [drafted, verified], [verified, whole]]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{Busy, EventKind, testing::run};

    fn log(busy: Option<Busy>) -> RunLog {
        let step = Step { draft_ms: 2.0, verify_ms: 5.0, other_ms: 1.0, busy, ..Step::default() };
        let steps = (0..2).map(|index| EventKind::Step(Step { index, ..step.clone() }));
        run(1, steps)
    }

    /// Row, begin and duration of every span, in microseconds.
    fn spans_of(log: &RunLog) -> Vec<(u64, f64, f64)> {
        let names = Names { video: "clip", method: "parallelvlm" };
        let logs = [log.clone()];
        let trace: Value = serde_json::from_str(&write(&names, &Pieces::of(&logs))).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        let spans = all.iter().filter(|event| event["ph"] == "X");
        spans
            .map(|e| (e["tid"].as_u64().unwrap(), e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap()))
            .collect()
    }

    #[test]
    fn sequential_steps_follow_each_other() {
        assert_eq!(
            spans_of(&log(None)),
            [
                (0, 0.0, 2000.0),
                (1, 2000.0, 5000.0),
                (2, 7000.0, 1000.0),
                (0, 8000.0, 2000.0),
                (1, 10000.0, 5000.0),
                (2, 15000.0, 1000.0),
            ]
        );
    }

    #[test]
    fn side_by_side_both_are_at_work_at_once() {
        let busy = Busy { target: [0.25, 7.0], drafter: [0.0, 6.0] };
        assert_eq!(busy.both_ms(), 5.75);
        let spans = spans_of(&log(Some(busy)));
        assert_eq!(spans[..3], [(0, 0.0, 6000.0), (1, 250.0, 6750.0), (2, 7000.0, 1000.0)]);
        let idle = Busy { target: [0.0, 7.0], drafter: [0.0, 0.0] };
        assert_eq!(idle.both_ms(), 0.0);
        assert!(spans_of(&log(Some(idle))).iter().all(|span| span.0 != 0));
    }
}
