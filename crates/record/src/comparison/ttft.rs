//! The time before the first token, as it would be without reuse.
//!
//! Runs over one prefill share most of it: the first run that needs a part makes and times it, and the others report 0. For a
//! fair comparison each run is charged with everything it needed, whichever run made it.

use crate::{RunLog, Timings};

/// What every run needs: the video, the target's tower and its prefill, in milliseconds.
pub fn shared_ms(runs: &[RunLog]) -> f64 {
    longest(runs, |t| t.decode_video_ms)
        + longest(runs, |t| t.encode_target_ms)
        + longest(runs, |t| t.prefill_target_ms)
}

/// What only this run's drafter needs: its tower, the choice of its visual tokens and its prefill, in milliseconds.
pub fn drafter_ms(runs: &[RunLog], run: &RunLog) -> f64 {
    let drafter = |run: &RunLog| run.started().and_then(|s| Some((s.drafter.clone()?, s.is_self_drafting())));
    let kept = |run: &RunLog| run.prompt().and_then(|prompt| prompt.kept.clone());
    let Some((name, itself)) = drafter(run) else { return 0.0 };
    let same: Vec<&RunLog> =
        runs.iter().filter(|other| drafter(other) == Some((name.clone(), itself))).collect();
    // Drafting for itself, the target uses its own embeddings; a drafter that sees no video needs none.
    let encodes = !itself && run.stats().drafter_visual_tokens > 0;
    let encode = if encodes { longest(same.iter().copied(), |t| t.encode_drafter_ms) } else { 0.0 };
    let prefilled = same.into_iter().filter(|other| kept(other) == kept(run));
    encode + run.stats().timings.select_ms + longest(prefilled, |t| t.prefill_drafter_ms)
}

fn longest<'a>(runs: impl IntoIterator<Item = &'a RunLog>, ms: fn(&Timings) -> f64) -> f64 {
    runs.into_iter().map(|run| ms(&run.stats().timings)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, prompt, started, started_plain};

    /// A run of run number 1 with these timings.
    fn run(kept: Option<Vec<u32>>, timings: Timings) -> RunLog {
        measured(testing::run(1, [started(), prompt(kept)]), timings)
    }

    fn measured(mut run: RunLog, timings: Timings) -> RunLog {
        (run.stats_mut().timings, run.stats_mut().drafter_visual_tokens) = (timings, 4);
        run
    }

    #[test]
    fn every_run_is_charged_with_what_was_made_once() {
        let shared = Timings {
            decode_video_ms: 1.0,
            encode_target_ms: 2.0,
            prefill_target_ms: 4.0,
            ..Timings::default()
        };
        let first = Timings {
            encode_drafter_ms: 8.0,
            prefill_drafter_ms: 16.0,
            select_ms: 0.5,
            ..Timings::default()
        };
        let runs = [
            measured(testing::run(1, [started_plain()]), shared),
            run(None, first),
            run(None, Timings { select_ms: 0.25, ..Timings::default() }),
            run(Some(vec![0, 9]), Timings { prefill_drafter_ms: 3.0, ..Timings::default() }),
        ];
        assert_eq!(shared_ms(&runs), 7.0);
        let drafters: Vec<f64> = runs.iter().map(|run| drafter_ms(&runs, run)).collect();
        assert_eq!(drafters, [0.0, 24.5, 24.25, 11.0]);
    }

    #[test]
    fn a_drafter_that_sees_no_video_needs_no_tower() {
        let encoded = Timings { encode_drafter_ms: 8.0, ..Timings::default() };
        let mut blind = run(Some(vec![]), Timings::default());
        blind.stats_mut().drafter_visual_tokens = 0;
        let mut itself = started();
        if let crate::EventKind::Started(crate::Started { method, drafter, .. }) = &mut itself {
            *method = serde_json::json!({"name": "own", "drafter": {"kind": "self"}});
            *drafter = Some("big".into());
        }
        let itself = measured(testing::run(1, [itself]), Timings::default());
        let runs = [run(None, encoded), blind, itself];
        assert_eq!((drafter_ms(&runs, &runs[1]), drafter_ms(&runs, &runs[2])), (0.0, 0.0));
    }
}
