//! What stands before the first token.
//!
//! Runs over one kept context share most of it: it is made, and timed, in the first run that needs it, and the others say 0.
//! For a fair account every run is charged with what it needed, whoever made it.

use crate::record::{RunRecord, Timings};

/// What every run needs: the video, the target's tower and its prefill, in milliseconds.
pub fn shared_ms(runs: &[RunRecord]) -> f64 {
    most(runs, |t| t.decode_video_ms)
        + most(runs, |t| t.encode_target_ms)
        + most(runs, |t| t.prefill_target_ms)
}

/// What only this run's drafter needs: its tower, the choice of its visual tokens and its prefill, in milliseconds.
pub fn drafter_ms(runs: &[RunRecord], run: &RunRecord) -> f64 {
    if run.drafter.is_none() {
        return 0.0;
    }
    let same = |other: &&RunRecord| other.drafter == run.drafter && other.own_drafter == run.own_drafter;
    let same: Vec<&RunRecord> = runs.iter().filter(same).collect();
    // Drafting for itself, the target uses its own embeddings; a drafter that sees nothing needs none.
    let encodes = !run.own_drafter && run.stats.drafter_visual_tokens > 0;
    let encode = if encodes { most(same.iter().copied(), |t| t.encode_drafter_ms) } else { 0.0 };
    let prefilled = same.into_iter().filter(|other| other.kept == run.kept);
    encode + run.stats.timings.select_ms + most(prefilled, |t| t.prefill_drafter_ms)
}

fn most<'a>(runs: impl IntoIterator<Item = &'a RunRecord>, ms: fn(&Timings) -> f64) -> f64 {
    runs.into_iter().map(|run| ms(&run.stats.timings)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(drafter: Option<&str>, kept: Option<Vec<u32>>, timings: Timings) -> RunRecord {
        let mut run = RunRecord { drafter: drafter.map(Into::into), kept, ..RunRecord::default() };
        run.stats.timings = timings;
        run.stats.drafter_visual_tokens = 4;
        run
    }

    #[test]
    fn everybody_is_charged_with_what_was_made_once() {
        let whole = Timings {
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
            run(None, None, whole),
            run(Some("small"), None, first),
            run(Some("small"), None, Timings { select_ms: 0.25, ..Timings::default() }),
            run(Some("small"), Some(vec![0, 9]), Timings { prefill_drafter_ms: 3.0, ..Timings::default() }),
        ];
        assert_eq!(shared_ms(&runs), 7.0);
        let drafters: Vec<f64> = runs.iter().map(|run| drafter_ms(&runs, run)).collect();
        assert_eq!(drafters, [0.0, 24.5, 24.25, 11.0]);
    }

    #[test]
    fn a_drafter_that_sees_nothing_needs_no_tower() {
        let encoded = Timings { encode_drafter_ms: 8.0, ..Timings::default() };
        let mut blind = run(Some("small"), Some(vec![]), Timings::default());
        blind.stats.drafter_visual_tokens = 0;
        let own = RunRecord { own_drafter: true, ..run(Some("big"), None, Timings::default()) };
        let runs = [run(Some("small"), None, encoded), blind, own];
        assert_eq!((drafter_ms(&runs, &runs[1]), drafter_ms(&runs, &runs[2])), (0.0, 0.0));
    }
}
