//! Where a chain ends that pays off, from measured times and acceptance.
//!
//! T(rows) is a line through the target's latest passes. The chance that a draft passes is counted over the latest drafts, by the probability
//! that the drafter gave them ([`Stopping`]). K = 0, autoregressive decoding, is among the choices: where drafting does not pay, it
//! stops and is tried again occasionally, for a few steps in a row, since the first one after a rest says little: the drafter has to read
//! what was written meanwhile.
//!
//! How often drafts of a model pass also follows from how sure the target is of what it writes ([`Unsureness`]): a drafter that rests or
//! has not begun is expected to do better where the text turns from prose to code.

use std::borrow::Cow;

use super::{Calibration, DraftCost, GUESSED_ROWS, Place, Stopping};
use crate::{
    confidence::{Beside, Calibrator, ChainTimes},
    draft::Foreseen,
    fit::{Disagreement, FadingChance, PassTimes, RowTimes, Unsureness, UsualTime},
};

/// Share of the rate with drafts that is taken for sure: the chance and the times are estimates, and where drafting is hardly better, it is
/// left out.
const NEARLY: f64 = 0.98;
/// Longest chain that is considered.
pub const LONGEST: usize = 24;
/// Plain steps before a trial; doubled after each trial that did not pay.
const REST: usize = 16;
/// The same for a drafter of which the text says whether it would do better.
const KNOWN_REST: usize = 64;
/// Most plain steps between two trials.
const LONG_REST: usize = 256;
/// Steps of a trial, and of the beginning.
const TRIAL: usize = 2;
/// Chain length of a trial.
const TRY: usize = 2;
/// The same for a drafter that drafts any chain in the same time.
const TRY_AT_ONCE: usize = 4;
/// Number of passes for which earlier knowledge counts.
const GUESSED: usize = 4;
/// Chain length of the first step.
const FIRST: usize = 4;
/// Time in which a drafter reads a token that it did not draft, relative to drafting one.
const READING: f64 = 0.25;

/// Steps before it is computed again where a chain ends.
const STOPPING_STEPS: usize = 8;

/// T(rows): the time of the target's pass by its rows.
#[derive(Clone, Debug)]
pub(crate) struct TargetTimes {
    passes: PassTimes,
    /// Passes over one row.
    alone: UsualTime,
    /// Time of one row, if it was known before the first pass.
    row_ms: Option<f64>,
    /// Time of a further row relative to the first one, before the first passes.
    further: f64,
}

impl TargetTimes {
    /// Begin; `row_ms` is the time of one row, where known, and `further` what another row of its pass is taken to cost, relative to it
    /// ([`further_row`](super::further_row)).
    pub fn new(row_ms: Option<f64>, further: f64) -> Self {
        let mut alone = UsualTime::default();
        row_ms.into_iter().for_each(|ms| alone.push(ms));
        Self { passes: PassTimes::default(), alone, row_ms, further }
    }

    pub fn note(&mut self, rows: usize, ms: f64) {
        self.passes.push(rows, ms);
        if rows == 1 {
            self.note_alone(ms);
        }
    }

    /// Note a pass over one row that was only timed.
    pub fn note_alone(&mut self, ms: f64) {
        self.alone.push(ms);
    }

    /// Time of a further row relative to one alone, as measured; `None` as long as that says little.
    pub fn further(&self) -> Option<f64> {
        let RowTimes { alone, first, more } = self.times().filter(|_| self.passes.tell_further())?;
        let rows = (GUESSED_ROWS - 1) as f64;
        Some(((first + rows * more - alone) / (rows * alone)).clamp(0.0, 2.0))
    }

    /// What passes take; `None` if nothing is known.
    pub fn times(&self) -> Option<RowTimes> {
        let mut passes = Cow::Borrowed(&self.passes);
        if let Some(ms) = self.row_ms.filter(|_| self.passes.len() < GUESSED) {
            passes.to_mut().push(1, ms);
            passes.to_mut().push(GUESSED_ROWS, ms + self.further * (GUESSED_ROWS - 1) as f64 * ms);
        }
        let (first, more) = passes.line()?;
        Some(RowTimes { alone: self.alone.value().unwrap_or(first), first, more })
    }
}

/// Chooses the length of a drafter's next chain.
#[derive(Clone, Debug)]
pub(crate) struct AutoLength {
    drafter_ms: UsualTime,
    /// The longest chain of a drafter that drafts any chain in the same time.
    at_once: Option<usize>,
    /// Emitted tokens that the drafter has not read: it has not drafted since.
    unread: usize,
    chance: FadingChance,
    calibrator: Calibrator,
    /// How often its drafts fail by how unsure the target is; `None` if they have nothing to do with each other (prompt lookup).
    disagreement: Option<Disagreement>,
    /// Where its chains end, if that is known, and the steps since it was computed.
    stopping: Option<Stopping>,
    stopping_steps: usize,
    /// Steps in which it has drafted.
    drafted: usize,
    /// The last choice was a chain that ends there.
    stops: bool,
    /// It has chosen once.
    has_begun: bool,
    /// The last choice asked for drafts.
    asked: bool,
    /// How often it has a draft when it is asked.
    offers: FadingChance,
    /// Steps left of the trial, or of the beginning.
    trial: usize,
    /// Plain steps since the last trial, and those before the next.
    plain: usize,
    rest: usize,
    /// What was expected before the drafter drafted; its time before the first draft is 0 after it.
    expected: Option<DraftCost>,
}

impl Default for AutoLength {
    fn default() -> Self {
        Self {
            drafter_ms: UsualTime::default(),
            at_once: None,
            unread: 0,
            chance: FadingChance::default(),
            calibrator: Calibrator::new(Calibration::usual(FadingChance::default().value())),
            disagreement: None,
            stopping: None,
            stopping_steps: STOPPING_STEPS,
            drafted: 0,
            stops: false,
            has_begun: false,
            asked: false,
            offers: FadingChance::of(1.0),
            trial: TRIAL,
            plain: 0,
            rest: REST,
            expected: None,
        }
    }
}

impl AutoLength {
    /// For a drafter of which this is expected.
    pub fn expecting(cost: &DraftCost) -> Self {
        let chance = FadingChance::of(cost.chance);
        let (calibrator, offers) = (Calibrator::new(cost.calibration), FadingChance::of(cost.offers));
        let expected = Some(*cost);
        let disagreement = cost.disagreement.map(Disagreement::of);
        let auto = Self { chance, calibrator, disagreement, offers, expected, ..Self::default() };
        Self { rest: auto.first_rest(), ..auto }
    }

    /// Plain steps before the first trial.
    fn first_rest(&self) -> usize {
        if self.disagreement.is_some() { KNOWN_REST } else { REST }
    }

    /// For a drafter that drafts any chain up to this length in the same time (DFlash); `None` = it drafts token by token.
    pub fn at_once(self, at_once: Option<usize>) -> Self {
        Self { at_once, ..self }
    }

    /// The length of the next chain.
    pub fn choose(&mut self, target: &TargetTimes, text: &Unsureness) -> usize {
        let times = target.times();
        times.into_iter().for_each(|times| self.refresh(times, text));
        let drafts = self.chain(times);
        self.asked = drafts > 0;
        self.has_begun = true;
        drafts
    }

    fn chain(&mut self, times: Option<RowTimes>) -> usize {
        self.stops = false;
        let best = times.and_then(|times| self.best(times)).map(|best| best.0);
        let best = best.unwrap_or(self.at_once.map_or(FIRST, |most| most.min(FIRST)));
        let in_trial = self.trial > 0;
        self.trial = self.trial.saturating_sub(1);
        if best > 0 {
            self.stops = true;
            (self.plain, self.rest) = (0, self.first_rest());
            return best;
        }
        if !in_trial {
            self.plain += 1;
            if self.plain <= self.rest {
                return 0;
            }
            (self.plain, self.rest, self.trial) = (0, (2 * self.rest).min(LONG_REST), TRIAL - 1);
        }
        self.at_once.map_or(TRY, |most| most.min(TRY_AT_ONCE))
    }

    /// Where the chain of the last choice ends, if what the drafter says of its drafts decides it.
    pub fn stopping(&self) -> Option<&Stopping> {
        self.stopping.as_ref().filter(|_| self.stops)
    }

    /// Compute where chains end after such a text, unless that was done a few steps ago.
    pub fn refresh(&mut self, target: RowTimes, text: &Unsureness) {
        self.stopping_steps += 1;
        // What was only expected may be far from what it does: the first steps count at once.
        let due = STOPPING_STEPS.min(1 + self.drafted / 4);
        if self.stopping_steps < due {
            return;
        }
        let [row, once] = match (self.at_once, self.row_ms(), self.drafter_ms.value()) {
            (None, Some(row), _) => [row, 0.0],
            (Some(_), _, Some(once)) => [0.0, once],
            _ => return,
        };
        let times =
            ChainTimes { row, once, target, offers: self.offers.value(), others: self.drafts_others() };
        let near = self.stopping.as_ref().map(|stopping| stopping.rate);
        let known = self.calibrator.value();
        let known = self.foreseen(text).map_or(known, |chance| known.on_average(chance));
        self.stopping = Some(Stopping::new(&known, &times, near));
        self.stopping_steps = 0;
    }

    /// The longest chain that pays and its tokens per millisecond; `None` if the drafter's time is not known.
    fn best(&self, times: RowTimes) -> Option<(usize, f64)> {
        let stopping = self.stopping.as_ref()?;
        let plain = 1.0 / times.alone.max(1e-9);
        let pays = stopping.goes_on(1.0) && NEARLY * stopping.offered > plain;
        let most = self.at_once.unwrap_or(LONGEST);
        Some(if pays { (most, stopping.rate) } else { (0, stopping.rate.max(plain)) })
    }

    /// True if its second and third choices may be drafted next to its first.
    pub fn drafts_others(&self) -> bool {
        self.disagreement.is_some()
    }

    /// Time of a draft.
    fn row_ms(&self) -> Option<f64> {
        self.drafter_ms.value().or(self.expected.map(|cost| cost.row_ms))
    }

    /// The chance that a draft passes once those before it have.
    pub fn chance(&self) -> f64 {
        self.chance.value()
    }

    /// The chance that a draft would pass in such a text; `None` if that does not follow from it.
    pub fn foreseen(&self, text: &Unsureness) -> Option<f64> {
        let disagreement = self.disagreement.as_ref()?.value();
        Some(text.chance(disagreement, self.expected?.chance))
    }

    /// The time until `left` more tokens are written with this drafter, and with prompt lookup if it drafts `beside` it, in milliseconds. It
    /// includes what the drafter has to read first; `None` if its times are not known.
    pub fn rest_ms(&self, left: usize, times: RowTimes, beside: Option<Beside>) -> Option<f64> {
        let (length, rate) = self.best(times)?;
        let rate = beside.map_or(rate, |beside| beside.with(rate));
        let reading = match length {
            0 => 0.0,
            _ => {
                let row_ms = if self.at_once.is_some() { 0.0 } else { self.row_ms()? };
                self.expected.map_or(0.0, |cost| cost.front_ms) + READING * row_ms * self.unread as f64
            }
        };
        Some(reading + left as f64 / rate)
    }

    /// Note what prompt lookup would have drafted for each token of a step, even if another drafter made the drafts.
    pub fn foresee(&mut self, tokens: &[Foreseen]) {
        let found = || tokens.iter().copied().flatten();
        self.offers.add(1, usize::from(tokens.first().is_some_and(Option::is_some)));
        found().for_each(|(probability, _)| self.calibrator.see(probability));
        found().for_each(|found| self.calibrator.judge(std::iter::once(found)));
        self.chance.add(found().count(), found().filter(|found| found.1).count());
        self.drafted += 1;
    }

    /// Note a step in which this one was to draft: the places that were judged, what the drafter gave the token before which it stopped, the
    /// tokens emitted, and the time of a draft.
    pub fn note(&mut self, places: &[Place], unsure: Option<f32>, emitted: usize, draft_ms: f64) {
        let offered = !places.is_empty() || unsure.is_some();
        if self.asked {
            self.offers.add(1, usize::from(offered));
        }
        let seen = places.iter().filter_map(|place| place.probability).chain(unsure);
        seen.for_each(|probability| self.calibrator.see(probability));
        let judged = places.iter().filter_map(|place| Some((place.probability?, place.passed)));
        self.calibrator.judge(judged);
        if !offered {
            self.unread += emitted;
            return;
        }
        self.drafted += 1;
        if self.unread == 0 {
            self.drafter_ms.push(draft_ms);
        }
        let passed = places.iter().filter(|place| place.passed).count();
        if !places.is_empty() {
            self.chance.add(places.len(), passed);
        }
        self.disagreement.iter_mut().for_each(|ratio| places.iter().for_each(|place| ratio.add(place)));
        self.unread = 0;
        self.expected = self.expected.map(DraftCost::after_front);
    }

    /// Note a step in which another one drafted in its place.
    pub fn miss(&mut self, tokens: usize) {
        self.unread += tokens;
        self.asked = false;
    }

    /// How often its drafts pass.
    pub fn calibration(&self) -> Calibration {
        self.calibrator.value()
    }

    /// The tokens per millisecond of its chains, if they are known.
    pub fn rate(&self) -> Option<f64> {
        self.stopping.as_ref().map(|stopping| stopping.rate)
    }

    /// The share of a text that it would write alongside another drafter, if its times are known. Only for prompt lookup, whose drafts
    /// are free.
    pub fn beside(&self) -> Option<Beside> {
        self.stopping.as_ref().map(|stopping| stopping.beside)
    }

    /// True once it has drafted, or has chosen not to.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// What drafting is expected to gain in a step, in tokens; `None` if that is not known yet.
    pub fn gain(&self) -> Option<f64> {
        if self.plain > 0 {
            return Some(0.0);
        }
        let stopping = self.stopping.as_ref()?;
        Some(stopping.gain())
    }

    /// True if a draft takes the same time in a chain of any length.
    pub fn drafts_at_once(&self) -> bool {
        self.at_once.is_some()
    }

    /// Note a step in which another drafter was to draft, and the tokens that it wrote.
    pub fn skip(&mut self, tokens: usize) {
        self.unread += tokens;
        self.chance.fade();
        self.calibrator.fade();
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::draft::{Branch, Unsure};

    /// What a made-up drafter gives its drafts.
    const SURE: f32 = 0.9;

    /// A length with the target that it is for.
    struct Auto(TargetTimes, AutoLength);

    impl Auto {
        fn new(row_ms: Option<f64>, further: f64) -> Self {
            Self(TargetTimes::new(row_ms, further), AutoLength::default())
        }

        fn at_once(self, at_once: Option<usize>) -> Self {
            Self(self.0, self.1.at_once(at_once))
        }

        fn choose(&mut self) -> usize {
            let most = self.1.choose(&self.0, &Unsureness::default());
            let mut branch = Branch::new(self.1.stopping().map_or(Unsure::Never, Unsure::Unprofitable));
            (0..most).take_while(|_| branch.goes_on() && branch.take(SURE)).count()
        }

        fn note(&mut self, rows: usize, [drafts, accepted]: [usize; 2], verify_ms: f64, draft_ms: f64) {
            self.0.note(rows, verify_ms);
            let place = |at| Place { passed: at < accepted, probability: Some(SURE), sure: 1.0 };
            let places: Vec<Place> = (0..drafts.min(accepted + 1)).map(place).collect();
            let each = if self.1.drafts_at_once() { 1 } else { drafts.max(1) };
            self.1.note(&places, None, accepted + 1, draft_ms / each as f64);
        }
    }

    /// Tokens per millisecond of a made-up pair, with K from `choose`; `verify` is the time of a pass by its rows.
    fn rate(
        chance: f64,
        verify: &dyn Fn(usize) -> f64,
        drafter: f64,
        mut choose: impl FnMut() -> Option<usize>,
    ) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut auto = Auto::new(Some(verify(1)), 0.25);
        let (mut tokens, mut time) = (0.0, 0.0);
        for _ in 0..400 {
            let k = choose().unwrap_or_else(|| auto.choose());
            let accepted = (0..k).take_while(|_| rng.random::<f64>() < chance).count();
            let noise = rng.random_range(0.9..1.1);
            let (verify, draft) = (verify(k + 1) * noise, drafter * k as f64);
            auto.note(k + 1, [k, accepted], verify, draft);
            tokens += accepted as f64 + 1.0;
            time += verify + draft;
        }
        tokens / time
    }

    fn is_near_the_best(chance: f64, verify: &dyn Fn(usize) -> f64, drafter: f64, what: &str) {
        let fixed = |k| rate(chance, verify, drafter, || Some(k));
        let best = (0..=LONGEST).map(fixed).fold(0.0, f64::max);
        let auto = rate(chance, verify, drafter, || None);
        assert!(auto > 0.9 * best, "{what}: {chance} {drafter}: {auto} of {best}");
    }

    #[test]
    fn it_approaches_the_best_fixed_length() {
        for (chance, first, more, drafter) in
            [(0.8, 1.0, 0.1, 0.1), (0.6, 1.0, 0.4, 0.15), (0.9, 5.0, 0.1, 0.5), (0.3, 1.0, 0.9, 0.5)]
        {
            let line = |rows: usize| first + more * (rows - 1) as f64;
            is_near_the_best(chance, &line, drafter, &format!("{first} {more}"));
        }
    }

    /// In a mixture of experts the first further rows read the most weights.
    #[test]
    fn it_approaches_the_best_fixed_length_where_rows_take_experts() {
        let routing = specreel_tensor::experts::Routing { experts: 128, chosen: 8 };
        for share in [0.4, 0.7] {
            let verify = |rows: usize| 1.0 - share + share * routing.touched(rows) / 8.0 + 0.05 * rows as f64;
            for (chance, drafter) in [(0.95, 0.1), (0.8, 0.2), (0.5, 0.3)] {
                is_near_the_best(chance, &verify, drafter, &format!("experts, {share}"));
            }
        }
    }

    /// Without them the first guess would be less than what was measured, and weigh as much.
    #[test]
    fn experts_that_further_rows_read_shorten_the_first_chains() {
        let first = |further: f64| {
            let mut auto = Auto::new(Some(10.0), further);
            auto.note(5, [4, 3], 35.0, 4.0);
            auto.choose()
        };
        assert!(first(0.625) < first(0.25), "{} and {}", first(0.625), first(0.25));
    }

    /// Other programs take a processor away in the middle of a pass, for many times as long as the pass: the lengths, and so the
    /// accepted drafts, stay as on a quiet machine.
    #[test]
    fn a_busy_machine_does_not_change_the_lengths() {
        let lengths = |interrupted: f64| {
            let mut rng = ChaCha8Rng::seed_from_u64(11);
            let mut auto = Auto::new(Some(0.2), 0.25);
            let mut sum = 0;
            for _ in 0..400 {
                let k = auto.choose();
                let accepted = (0..k).take_while(|_| rng.random::<f64>() < 0.85).count();
                let mut disturbed = |ms: f64| ms + if rng.random_bool(interrupted) { 4.0 } else { 0.0 };
                auto.note(k + 1, [k, accepted], disturbed(0.2 + 0.03 * k as f64), disturbed(0.04 * k as f64));
                sum += k;
            }
            f64::from(sum as u32) / 400.0
        };
        let (quiet, busy) = (lengths(0.0), lengths(0.3));
        assert!((busy / quiet - 1.0).abs() < 0.2, "{quiet} and {busy} drafts per step");
    }

    #[test]
    fn drafting_stops_where_it_never_pays() {
        let mut auto = Auto::new(Some(1.0), 0.25);
        let lengths: Vec<usize> = (0..200)
            .map(|_| {
                let k = auto.choose();
                auto.note(k + 1, [k, 0], 1.0 + k as f64, 0.5 * k as f64);
                k
            })
            .collect();
        assert!(lengths[20..].iter().filter(|&&k| k > 0).count() <= TRIAL * (200 / REST + 1), "{lengths:?}");
        assert!(lengths[20..].iter().any(|&k| k > 0));
    }

    /// A drafter reads in its first step after a rest what was written meanwhile, and the first drafts may all be rejected.
    #[test]
    fn drafting_begins_again_after_a_rest() {
        for at_once in [None, Some(7)] {
            let mut auto = Auto::new(Some(1.0), 0.1).at_once(at_once);
            let (mut waiting, mut rested) = (0, false);
            for step in 0..200 {
                let k = auto.choose();
                assert!(k <= at_once.unwrap_or(LONGEST), "{k} drafts in step {step}");
                let accepted = if step < 60 { 0 } else { k };
                let drafter = if at_once.is_some() { 0.3 } else { 0.1 * k as f64 };
                auto.note(k + 1, [k, accepted], 1.0 + 0.1 * k as f64, drafter + 0.5 * f64::from(waiting));
                waiting = if k == 0 { waiting + 1 } else { 0 };
                rested |= k == 0;
            }
            assert!(rested && auto.choose() > TRY_AT_ONCE, "{at_once:?}");
        }
    }

    #[test]
    fn what_drafts_at_once_drafts_more() {
        let length = |at_once: bool| {
            let mut auto = Auto::new(Some(1.0), 0.1).at_once(at_once.then_some(LONGEST));
            for _ in 0..40 {
                let k = auto.choose();
                auto.note(k + 1, [k, k * 4 / 5], 1.0 + 0.1 * k as f64, if k > 0 { 0.8 } else { 0.0 });
            }
            auto.choose()
        };
        assert!(length(true) > length(false), "{} and {}", length(true), length(false));
        // A block that takes longer than the tokens that it saves.
        let mut auto = Auto::new(Some(1.0), 0.1).at_once(Some(LONGEST));
        (0..40).for_each(|_| {
            let k = auto.choose();
            auto.note(k + 1, [k, k / 4], 1.0 + 0.1 * k as f64, 5.0);
        });
        assert_eq!(auto.1.best(auto.0.times().unwrap()).unwrap().0, 0);
    }

    /// Several rows on processors that others use too: a pass over them takes far longer than a line through passes over one row
    /// says, and the other way round.
    #[test]
    fn a_row_alone_is_timed_for_itself() {
        let mut auto = Auto::new(Some(0.2), 0.25);
        let lengths: Vec<usize> = (0..60)
            .map(|_| {
                let k = auto.choose();
                let verify = if k == 0 { 0.2 } else { 0.7 + 0.1 * k as f64 };
                auto.note(k + 1, [k, k * 4 / 5], verify, 0.04 * k as f64);
                k
            })
            .collect();
        assert!(lengths.iter().filter(|k| **k == 0).count() > 45, "{lengths:?}");
        assert!(auto.0.further().unwrap() > 0.25, "{:?}", auto.0.further());
    }

    #[test]
    fn extreme_times_are_harmless() {
        let mut auto = Auto::new(None, 0.25);
        for ms in [0.0, f64::MAX / 1e10, 1e-300] {
            let k = auto.choose();
            assert!(k <= LONGEST);
            auto.note(k + 1, [k, k], ms, ms);
        }
    }
}
