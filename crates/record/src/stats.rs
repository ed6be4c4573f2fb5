//! Statistics of a run, counted the same way for every method.

use serde::{Deserialize, Serialize};

use super::{Speedup, Step, Traffic, Verdict, speedup};

/// What becomes of a text that repeats itself without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLoop {
    /// It ends after the first of the repeated passages
    #[default]
    Stop,
    /// It is written again, up to twice, with another seed and a DRY penalty
    Retry,
    /// It continues up to its token limit
    Keep,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The target wrote an end token.
    Eos,
    /// The maximum number of tokens was reached.
    Length,
    /// A stop text was written; the caption ends before it.
    Stop,
    /// The text repeated itself without end; the caption ends after the first of the repeated passages.
    Loop,
    Cancelled,
}

impl StopReason {
    /// True if the generation came to an end of its own: it was not cancelled.
    pub fn is_end(self) -> bool {
        self != Self::Cancelled
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerdictCounts(std::collections::BTreeMap<Verdict, u64>);

impl VerdictCounts {
    /// Count one more token of this verdict.
    pub fn add(&mut self, verdict: Verdict) {
        *self.0.entry(verdict).or_default() += 1;
    }

    pub fn get(&self, verdict: Verdict) -> u64 {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    /// The verdicts that occurred with their counts, in the order of [`Verdict::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Verdict, u64)> + '_ {
        self.0.iter().map(|(v, n)| (*v, *n))
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Tokens that the target would not have written itself.
    pub fn loosened(&self) -> u64 {
        self.iter().filter(|(v, _)| !v.is_strict()).map(|(_, n)| n).sum()
    }
}

/// Time per stage in milliseconds; 0 for stages whose result was reused from an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timings {
    pub decode_video_ms: f64,
    /// The target's vision tower.
    pub encode_target_ms: f64,
    /// The drafter's vision tower.
    pub encode_drafter_ms: f64,
    pub prefill_target_ms: f64,
    /// Choosing the drafter's visual tokens.
    pub select_ms: f64,
    /// The drafter's prefill, and its first window if that was drafted during the target's prefill.
    pub prefill_drafter_ms: f64,
    /// Time saved by overlapping the drafter's prefill with the target's.
    pub overlapped_ms: f64,
    pub draft_ms: f64,
    /// All target passes after the prefill.
    pub verify_ms: f64,
    /// Computing visual relevance, a part of `other_ms`.
    pub relevance_ms: f64,
    /// Everything else between the first and the last token.
    pub other_ms: f64,
    /// Time after the prefill in which drafter and target were at work at once, under the parallel schedule.
    #[serde(skip_serializing_if = "is_zero")]
    pub both_ms: f64,
    /// Measured time of one target row, median.
    pub t1_ms: f64,
    /// Measured time of a verify pass of K+1 rows, median; 0 without speculation.
    pub tk1_ms: f64,
    /// Measured time of one drafter row, median; 0 without a drafter.
    pub td_ms: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(ms: &f64) -> bool {
    *ms == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_no_token(count: &u64) -> bool {
    *count == 0
}

impl Timings {
    /// Time from the first to the last generated token.
    pub fn generate_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.other_ms
    }

    /// The drafter's part of the time before the first token. `read_ms` is the time of its prefill, and of a first window drafted
    /// during the target's, as measured when they were made.
    pub fn drafter_front_ms(&self, read_ms: f64) -> f64 {
        self.encode_drafter_ms + self.select_ms + read_ms - self.overlapped_ms
    }

    /// Time from the file to the last token.
    pub fn total_ms(&self) -> f64 {
        self.decode_video_ms
            + self.encode_target_ms
            + self.encode_drafter_ms
            + self.prefill_target_ms
            + self.select_ms
            + self.prefill_drafter_ms
            + self.generate_ms()
            - self.overlapped_ms
    }
}

impl Timings {
    /// Add the times of another run; the medians are replaced by the other's.
    fn add(&mut self, other: &Timings) {
        let Timings { t1_ms, tk1_ms, td_ms, .. } = *other;
        (self.t1_ms, self.tk1_ms, self.td_ms) = (t1_ms, tk1_ms, td_ms);
        self.decode_video_ms += other.decode_video_ms;
        self.encode_target_ms += other.encode_target_ms;
        self.encode_drafter_ms += other.encode_drafter_ms;
        self.prefill_target_ms += other.prefill_target_ms;
        self.select_ms += other.select_ms;
        self.prefill_drafter_ms += other.prefill_drafter_ms;
        self.overlapped_ms += other.overlapped_ms;
        self.draft_ms += other.draft_ms;
        self.verify_ms += other.verify_ms;
        self.relevance_ms += other.relevance_ms;
        self.other_ms += other.other_ms;
        self.both_ms += other.both_ms;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Steps (one draft and one verify each).
    pub steps: u64,
    /// Draft tokens. If drafting and verifying overlap, more than are judged: those after a rejected one are discarded.
    pub drafted: u64,
    /// Drafts that a verify pass judged.
    pub judged: u64,
    pub accepted: u64,
    /// Discarded draft tokens: rejected ones and those that no verify pass judged; 0 unless drafting and verifying overlap.
    pub discarded: u64,
    /// Mean number of accepted drafts between two rejects, as PEARL and ParallelVLM count; only if drafting and verifying overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_run: Option<f64>,
    /// Passes that rejected a draft, each of which ends a run of accepted ones; only if drafting and verifying overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejects: Option<u64>,
    /// Emitted tokens without the end token.
    pub emitted: u64,
    /// Those among them that the grammar of the answer forced. They are not counted as drafted, judged or accepted.
    #[serde(skip_serializing_if = "is_no_token")]
    pub forced: u64,
    /// Whether the answer is a whole text of its grammar; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    pub verdicts: VerdictCounts,
    /// Accepted drafts per step, bonus not counted.
    pub tau: f64,
    pub emitted_per_step: f64,
    /// Decode speed by the run's own clock. Tables show [`Stats::speed`].
    pub tokens_per_second: f64,
    /// Time per stage.
    pub timings: Timings,
    /// Speed against autoregressive decoding; `None` until it has been measured in enough pairs.
    #[serde(deserialize_with = "speedup::with_interval", skip_serializing_if = "Option::is_none")]
    pub speedup: Option<Speedup>,
    /// Share of the decoding time, 0 to 1, that the run waited for processors that other programs used; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// Equality with an autoregressive run over the same prefill, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equality: Option<Equality>,
    /// With a pruned target: the share of its text that the whole target would have written after the tokens before; only if the
    /// whole target has read the same clip and prompt, and without sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_share: Option<f64>,
    /// Where a lossless method differs from that autoregressive run, which only happens on an accelerator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tie: Option<Tie>,
    pub visual_tokens: usize,
    pub drafter_visual_tokens: usize,
    /// Peak resident memory of the process in bytes, 0 if unknown.
    pub peak_memory_bytes: u64,
    /// What passed to and from GPUs while the text was generated; `None` if the models are on no GPU of `--device gpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// How a run's ids compare with autoregressive decoding's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equality {
    pub equal: bool,
    /// Index of the first token that differs, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<usize>,
}

/// Where a run emitted another token than autoregressive decoding, and how close the two tokens are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tie {
    /// Index of the token, from 0.
    pub at: usize,
    /// The token of autoregressive decoding.
    pub plain: String,
    pub other: String,
    /// Log-probability of the former minus the latter's, in nats, in a separate target pass over the shared text.
    pub gap: f32,
    /// True if rounding on this device explains the difference.
    pub near: bool,
}

impl Equality {
    /// Compare a run's ids with the autoregressive run's.
    pub fn of(ids: &[u32], autoregressive: &[u32]) -> Self {
        let common = ids.iter().zip(autoregressive).take_while(|(a, b)| a == b).count();
        let equal = common == ids.len() && common == autoregressive.len();
        Self { equal, first_difference: (!equal).then_some(common) }
    }
}

impl Stats {
    /// Add one step to the counts and times.
    pub fn add(&mut self, step: &Step) {
        self.steps += 1;
        self.drafted += (step.drafted.len() - step.forced.len()) as u64;
        self.judged += step.judged_freely() as u64;
        self.accepted += step.accepted_freely() as u64;
        self.forced += step.forced_tokens() as u64;
        self.emitted += step.tokens.len() as u64;
        for token in &step.tokens {
            self.verdicts.add(token.verdict);
        }
        self.timings.draft_ms += step.draft_ms;
        self.timings.verify_ms += step.verify_ms;
        self.timings.other_ms += step.other_ms;
        self.timings.both_ms += step.busy.map_or(0.0, |busy| busy.both_ms());
        self.rate();
    }

    /// Add the statistics of another run. Speedup, equality and tie are not combined: they belong to each run alone.
    pub fn add_run(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.drafted += other.drafted;
        self.judged += other.judged;
        self.accepted += other.accepted;
        self.discarded += other.discarded;
        self.emitted += other.emitted;
        self.forced += other.forced;
        for (verdict, n) in other.verdicts.iter() {
            *self.verdicts.0.entry(verdict).or_default() += n;
        }
        self.complete = match (self.complete, other.complete) {
            (Some(own), Some(others)) => Some(own && others),
            (own, others) => own.or(others),
        };
        self.visual_tokens += other.visual_tokens;
        self.drafter_visual_tokens += other.drafter_visual_tokens;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
        if let Some(more) = other.traffic {
            self.traffic = Some(self.traffic.unwrap_or_default() + more);
        }
        self.timings.add(&other.timings);
        self.rate();
    }

    /// Compute the ratios from the counts and times.
    fn rate(&mut self) {
        let steps = self.steps.max(1) as f64;
        self.tau = self.accepted as f64 / steps;
        self.emitted_per_step = self.emitted as f64 / steps;
        let ms = self.timings.generate_ms();
        self.tokens_per_second = if ms > 0.0 { self.emitted as f64 * 1000.0 / ms } else { 0.0 };
    }

    /// Share of the emitted tokens that the target would not have written itself, 0 to 1.
    pub fn loosened_share(&self) -> f64 {
        let total = self.verdicts.total();
        if total == 0 { 0.0 } else { self.verdicts.loosened() as f64 / total as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    fn token(verdict: Verdict) -> Token {
        Token::new(1, "a", verdict)
    }

    #[test]
    fn traffic_of_a_gpu_adds_up_and_is_absent_without_one() {
        let mut stats = Stats::default();
        assert!(!serde_json::to_string(&stats).unwrap().contains("traffic"));
        let traffic = Traffic { up: 100, down: 20, submissions: 3, dispatches: 40 };
        let other = Stats { traffic: Some(traffic), ..Stats::default() };
        stats.add_run(&other);
        stats.add_run(&Stats::default());
        stats.add_run(&other);
        assert_eq!(stats.traffic, Some(traffic + traffic));
        assert_eq!(traffic + traffic - traffic, traffic);
        let json = serde_json::to_string(&other).unwrap();
        let words = r#""traffic":{"up_bytes":100,"down_bytes":20,"submissions":3,"kernels":40}"#;
        assert!(json.contains(words), "{json}");
        assert_eq!(serde_json::from_str::<Stats>(&json).unwrap(), other);
    }

    #[test]
    fn counts_add_up() {
        let mut stats = Stats::default();
        let step = Step {
            drafted: vec![1, 2, 3],
            judged: 3,
            accepted: 2,
            tokens: vec![token(Verdict::Exact), token(Verdict::Loosened), token(Verdict::Corrected)],
            draft_ms: 1.0,
            verify_ms: 2.0,
            ..Step::default()
        };
        stats.add(&step);
        stats.add(&step);
        assert_eq!(stats.emitted, stats.verdicts.total());
        assert_eq!(stats.tau, 2.0);
        assert_eq!(stats.emitted_per_step, 3.0);
        assert_eq!(stats.tokens_per_second, 1000.0);
        assert!((stats.loosened_share() - 1.0 / 3.0).abs() < 1e-12);
        let mut both = Stats::default();
        both.add_run(&stats);
        assert_eq!(both, stats);
        both.add_run(&stats);
        assert_eq!((both.emitted, both.verdicts.total(), both.tau), (12, 12, 2.0));
        assert_eq!((both.tokens_per_second, both.timings.generate_ms()), (1000.0, 12.0));
    }

    #[test]
    fn forced_tokens_are_counted_apart() {
        let step = Step {
            drafted: vec![1, 2, 3, 4],
            forced: vec![0, 2],
            judged: 4,
            accepted: 3,
            tokens: [Verdict::Forced, Verdict::Exact, Verdict::Forced, Verdict::Corrected]
                .map(token)
                .to_vec(),
            ..Step::default()
        };
        assert_eq!((step.judged_freely(), step.accepted_freely(), step.forced_first()), (2, 1, 1));
        let mut stats = Stats::default();
        stats.add(&step);
        assert_eq!((stats.drafted, stats.judged, stats.accepted, stats.forced), (2, 2, 1, 2));
        assert_eq!((stats.emitted, stats.tau), (4, 1.0));
        // Of several runs all have to be complete.
        for (own, others, both) in
            [(None, None, None), (Some(true), None, Some(true)), (Some(true), Some(false), Some(false))]
        {
            let mut sum = Stats { complete: own, ..Stats::default() };
            sum.add_run(&Stats { complete: others, ..Stats::default() });
            assert_eq!(sum.complete, both);
        }
    }

    #[test]
    fn equality_finds_the_first_difference() {
        assert!(Equality::of(&[1, 2], &[1, 2]).equal);
        assert_eq!(Equality::of(&[1, 3], &[1, 2]).first_difference, Some(1));
        assert_eq!(Equality::of(&[1], &[1, 2]).first_difference, Some(1));
    }
}
