//! Time before the first token, as if each method ran alone.
//!
//! Runs on one clip share work: the target's prefill, the drafter's vision tower, the drafter's prefill. Only the first run
//! that needs a part computes it, so later methods would look faster. Here every method is charged for all parts that it uses,
//! at the time measured when they were computed.

use super::*;
use specreel_record::Stats;
use specreel_speculate::{Drafter, VisualContext};

#[derive(Clone, Debug, Default)]
pub struct Fronts {
    towers: Vec<(Drafter, f64)>,
    prefills: Vec<((Drafter, VisualContext), f64)>,
}

impl Fronts {
    /// Time before the first token that all runs share, from the first run on the clip.
    pub fn target_ms(stats: &Stats) -> f64 {
        let t = &stats.timings;
        t.decode_video_ms + t.encode_target_ms + t.prefill_target_ms
    }

    /// Time that this run's drafter takes before the first token.
    pub fn drafter_ms(&mut self, method: &Method, stats: &Stats) -> f64 {
        let t = &stats.timings;
        let sees = stats.drafter_visual_tokens > 0;
        let tower = if sees { charge(&mut self.towers, &method.drafter, t.encode_drafter_ms) } else { 0.0 };
        let context = (method.drafter.clone(), method.context.clone());
        tower + t.select_ms + charge(&mut self.prefills, &context, t.prefill_drafter_ms)
    }
}

/// The time measured now, or earlier for the same key.
fn charge<K: PartialEq + Clone>(measured: &mut Vec<(K, f64)>, key: &K, now: f64) -> f64 {
    if now > 0.0 {
        measured.retain(|(k, _)| k != key);
        measured.push((key.clone(), now));
    }
    measured.iter().find(|(k, _)| k == key).map_or(0.0, |(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::Timings;

    fn stats(encode_drafter_ms: f64, prefill_drafter_ms: f64, drafter_visual_tokens: usize) -> Stats {
        let timings = Timings { encode_drafter_ms, prefill_drafter_ms, select_ms: 1.0, ..Timings::default() };
        Stats { timings, drafter_visual_tokens, ..Stats::default() }
    }

    #[test]
    fn a_later_method_is_charged_for_shared_work() {
        let method = |name| methods::preset(name).unwrap();
        let mut fronts = Fronts::default();
        assert_eq!(fronts.drafter_ms(&method("naive"), &stats(10.0, 5.0, 64)), 16.0);
        // The same tower and context.
        assert_eq!(fronts.drafter_ms(&method("naive"), &stats(0.0, 0.0, 64)), 16.0);
        // The same tower, another context, then that context again.
        assert_eq!(fronts.drafter_ms(&method("sd-uniform"), &stats(0.0, 3.0, 6)), 14.0);
        assert_eq!(fronts.drafter_ms(&method("lvspec"), &stats(0.0, 0.0, 6)), 14.0);
        // Without visual tokens there is no tower; self-drafting does not use the draft model's.
        assert_eq!(fronts.drafter_ms(&method("text-only"), &stats(0.0, 2.0, 0)), 3.0);
        assert_eq!(fronts.drafter_ms(&method("lvspec-self"), &stats(0.0, 4.0, 6)), 5.0);
    }
}
