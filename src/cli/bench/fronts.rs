//! What a method would have spent before its first token, had it come alone.
//!
//! Runs on one clip share work: the target's prefill, the drafter's tower, a drafter context. Only the first that needs a
//! piece pays for it, so a later method would look faster for its place in the list. Here every method is charged with all
//! that it uses, at the price that was measured when it was made.

use crate::{
    record::Stats,
    speculate::{Drafter, Method, VisualContext},
};

/// The prices paid on one clip so far, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Fronts {
    towers: Vec<(Drafter, f64)>,
    prefills: Vec<((Drafter, VisualContext), f64)>,
}

impl Fronts {
    /// What comes before the first token in any run, from the first run on the clip.
    pub fn target_ms(stats: &Stats) -> f64 {
        let t = &stats.timings;
        t.decode_video_ms + t.encode_target_ms + t.prefill_target_ms
    }

    /// What this run's drafter costs before the first token.
    pub fn drafter_ms(&mut self, method: &Method, stats: &Stats) -> f64 {
        let t = &stats.timings;
        let sees = stats.drafter_visual_tokens > 0;
        let tower = if sees { price(&mut self.towers, &method.drafter, t.encode_drafter_ms) } else { 0.0 };
        let context = (method.drafter.clone(), method.context.clone());
        tower + t.select_ms + price(&mut self.prefills, &context, t.prefill_drafter_ms)
    }
}

/// What was paid now, or what was paid for the same thing before.
fn price<K: PartialEq + Clone>(paid: &mut Vec<(K, f64)>, key: &K, now: f64) -> f64 {
    if now > 0.0 {
        paid.retain(|(k, _)| k != key);
        paid.push((key.clone(), now));
    }
    paid.iter().find(|(k, _)| k == key).map_or(0.0, |(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Timings;

    fn stats(encode_drafter_ms: f64, prefill_drafter_ms: f64, drafter_visual_tokens: usize) -> Stats {
        let timings = Timings { encode_drafter_ms, prefill_drafter_ms, select_ms: 1.0, ..Timings::default() };
        Stats { timings, drafter_visual_tokens, ..Stats::default() }
    }

    #[test]
    fn a_later_method_is_charged_for_what_an_earlier_one_made() {
        let method = |name| Method::preset(name).unwrap();
        let mut fronts = Fronts::default();
        assert_eq!(fronts.drafter_ms(&method("naive"), &stats(10.0, 5.0, 64)), 16.0);
        // The same tower and context.
        assert_eq!(fronts.drafter_ms(&method("naive"), &stats(0.0, 0.0, 64)), 16.0);
        // The same tower, another context, then that one again.
        assert_eq!(fronts.drafter_ms(&method("sd-uniform"), &stats(0.0, 3.0, 6)), 14.0);
        assert_eq!(fronts.drafter_ms(&method("lvspec"), &stats(0.0, 0.0, 6)), 14.0);
        // No picture needs no tower; another drafter has not the small model's.
        assert_eq!(fronts.drafter_ms(&method("text-only"), &stats(0.0, 2.0, 0)), 3.0);
        assert_eq!(fronts.drafter_ms(&method("lvspec-self"), &stats(0.0, 4.0, 6)), 5.0);
    }
}
