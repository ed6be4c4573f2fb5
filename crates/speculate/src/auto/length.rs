//! Where a chain ends that pays off, from measured times and acceptance, or the tree.
//!
//! T(rows) is a line through the target's latest passes. The chance that a draft passes is counted over the latest drafts, by the probability
//! that the drafter gave them ([`Stopping`]); of a drafter that gives none, over all of them, and its chains have a length. K = 0,
//! autoregressive decoding, is among the choices: where drafting does not pay, it stops and is tried again occasionally, for a few
//! steps in a row, since the first one after a rest says little: the drafter has to read what was written meanwhile.
//!
//! How often drafts of a model pass also follows from how sure the target is of what it writes ([`Unsureness`]): a drafter that rests or
//! has not begun is expected to do better where the text turns from prose to code.

use std::borrow::Cow;

use super::{
    Calibration, DraftCost, GUESSED_ROWS, NEARLY, Place, Stopping, best_length,
    shape::{StepTimes, best_tree},
};
use crate::{
    confidence::{Beside, Calibrator, ChainTimes},
    draft::Foreseen,
    fit::{Disagreement, FadingChance, LaterChances, PassTimes, RowTimes, Unsureness, UsualTime},
    tree::Template,
};

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
/// Steps before the best tree is computed again.
const TREE_STEPS: usize = 8;
/// Share by which a tree has to be faster than the best chain: of many, the best looks better than it is.
const TREE_MARGIN: f64 = 0.03;

/// What is drafted in a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Drafts {
    Chain(usize),
    Tree(Template),
}

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

/// Chooses the length of a drafter's next chain, or a tree.
#[derive(Clone, Debug)]
pub(crate) struct AutoLength {
    drafter_ms: UsualTime,
    /// The longest chain of a drafter that drafts any chain in the same time.
    at_once: Option<usize>,
    /// Emitted tokens that the drafter has not read: it has not drafted since.
    unread: usize,
    chance: FadingChance,
    later: LaterChances,
    calibrator: Calibrator,
    /// How often its drafts fail by how unsure the target is; `None` if they have nothing to do with each other (prompt lookup).
    disagreement: Option<Disagreement>,
    /// True if it is known what its probabilities are worth, or becoming known.
    is_calibrated: bool,
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
    /// The best tree with its tokens per millisecond, and the steps since it was computed.
    tree: Option<(Template, f64)>,
    tree_steps: usize,
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
            later: LaterChances::default(),
            calibrator: Calibrator::new(Calibration::usual(FadingChance::default().value())),
            disagreement: None,
            is_calibrated: false,
            stopping: None,
            stopping_steps: STOPPING_STEPS,
            drafted: 0,
            stops: false,
            has_begun: false,
            asked: false,
            offers: FadingChance::of(1.0),
            tree: None,
            tree_steps: TREE_STEPS,
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
        let (chance, later) = (FadingChance::of(cost.chance), LaterChances::of(cost.later));
        let (calibrator, offers) = (Calibrator::new(cost.calibration), FadingChance::of(cost.offers));
        let (is_calibrated, expected) = (true, Some(*cost));
        let disagreement = cost.disagreement.map(Disagreement::of);
        Self { chance, later, calibrator, disagreement, is_calibrated, offers, expected, ..Self::default() }
            .rested()
    }

    /// Begin a rest of the usual length.
    fn rested(self) -> Self {
        Self { rest: self.first_rest(), ..self }
    }

    /// Plain steps before the first trial.
    fn first_rest(&self) -> usize {
        if self.disagreement.is_some() { KNOWN_REST } else { REST }
    }

    /// For a drafter that drafts any chain up to this length in the same time (DFlash); `None` = it drafts token by token.
    pub fn at_once(self, at_once: Option<usize>) -> Self {
        Self { at_once, ..self }
    }

    /// What the next step drafts; a tree only if `trees` may be drafted.
    pub fn choose(&mut self, target: &TargetTimes, text: &Unsureness, trees: bool) -> Drafts {
        let times = target.times();
        times.into_iter().for_each(|times| self.refresh(times, text));
        let drafts = self.chain_or_tree(times, trees);
        self.asked = drafts != Drafts::Chain(0);
        self.has_begun = true;
        drafts
    }

    fn chain_or_tree(&mut self, times: Option<RowTimes>, trees: bool) -> Drafts {
        self.stops = false;
        let best = match times.and_then(|times| self.best(times)) {
            Some((length, rate)) => {
                if let Some(tree) = times.filter(|_| trees).and_then(|times| self.tree(times, rate)) {
                    return Drafts::Tree(tree);
                }
                length
            }
            None => self.at_once.map_or(FIRST, |most| most.min(FIRST)),
        };
        let in_trial = self.trial > 0;
        self.trial = self.trial.saturating_sub(1);
        if best > 0 {
            self.stops = true;
            (self.plain, self.rest) = (0, self.first_rest());
            return Drafts::Chain(best);
        }
        if !in_trial {
            self.plain += 1;
            if self.plain <= self.rest {
                return Drafts::Chain(0);
            }
            (self.plain, self.rest, self.trial) = (0, (2 * self.rest).min(LONG_REST), TRIAL - 1);
        }
        Drafts::Chain(self.at_once.map_or(TRY, |most| most.min(TRY_AT_ONCE)))
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
        if self.stopping_steps < due || !self.is_calibrated {
            return;
        }
        let [row, once] = match (self.at_once, self.row_ms(), self.drafter_ms.value()) {
            (None, Some(row), _) => [row, 0.0],
            (Some(_), _, Some(once)) => [0.0, once],
            _ => return,
        };
        let times = ChainTimes { row, once, target, offers: self.offers.value() };
        let near = self.stopping.as_ref().map(|stopping| stopping.rate);
        let known = self.calibrator.value();
        let known = self.foreseen(text).map_or(known, |chance| known.on_average(chance));
        self.stopping = Some(Stopping::new(&known, &times, near));
        self.stopping_steps = 0;
    }

    /// The best length and its tokens per millisecond; `None` if the drafter's time is not known.
    fn best(&self, RowTimes { alone, first, more }: RowTimes) -> Option<(usize, f64)> {
        if let Some(stopping) = &self.stopping {
            let plain = 1.0 / alone.max(1e-9);
            let pays = stopping.goes_on(1.0) && NEARLY * stopping.offered > plain;
            let most = self.at_once.unwrap_or(LONGEST);
            return Some(if pays { (most, stopping.rate) } else { (0, stopping.rate.max(plain)) });
        }
        let chance = self.chance.value();
        let (length, rate) = match self.at_once {
            None => best_length(LONGEST, chance, self.row_ms()?, first, more),
            Some(most) => best_length(most, chance, 0.0, self.drafter_ms.value()? + first, more),
        };
        // Without drafts there is nothing to draft either.
        let plain = 1.0 / alone.max(1e-9);
        Some(if NEARLY * rate > plain { (length, rate) } else { (0, rate.max(plain)) })
    }

    /// The best tree, if it is faster than a chain of this rate.
    fn tree(&mut self, RowTimes { first, more, .. }: RowTimes, rate: f64) -> Option<Template> {
        self.tree_steps += 1;
        if self.tree_steps >= TREE_STEPS {
            self.tree_steps = 0;
            let (once, level) = match self.at_once {
                Some(_) => (self.drafter_ms.value()?, 0.0),
                None => (0.0, self.row_ms()?),
            };
            let times = StepTimes { once, level, first, more };
            self.tree = best_tree(&self.later.with(self.chance.value()), &times);
        }
        let tree = self.tree.as_ref().filter(|tree| tree.1 > (1.0 + TREE_MARGIN) * rate)?;
        Some(tree.0.clone())
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

    /// The time until `left` more tokens are written with this drafter and what drafts `beside` it, what it has to read before included, in
    /// milliseconds; `None` if its times are not known.
    pub fn rest_ms(&self, left: usize, times: RowTimes, beside: Option<Beside>) -> Option<f64> {
        let (length, rate) = self.best(times)?;
        // A tree's rate is known once it was chosen.
        let rate = self.tree.as_ref().map_or(rate, |tree| rate.max(tree.1));
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

    /// Note what prompt lookup would have drafted for each token of a step, whoever drafted.
    pub fn foresee(&mut self, tokens: &[Foreseen]) {
        let found = || tokens.iter().copied().flatten();
        self.offers.add(1, usize::from(tokens.first().is_some_and(Option::is_some)));
        found().for_each(|(probability, _)| self.calibrator.see(probability));
        found().for_each(|found| self.calibrator.judge(std::iter::once(found)));
        self.chance.add(found().count(), found().filter(|found| found.1).count());
        self.drafted += 1;
    }

    /// Note a step in which this one was to draft: the places that were judged, what the drafter gave the token before which it stopped, the
    /// tokens emitted, and the time of a draft, if it is known.
    pub fn note(&mut self, places: &[Place], unsure: Option<f32>, emitted: usize, draft_ms: Option<f64>) {
        let offered = !places.is_empty() || unsure.is_some();
        if self.asked {
            self.offers.add(1, usize::from(offered));
        }
        for probability in places.iter().filter_map(|place| place.probability).chain(unsure) {
            self.is_calibrated = true;
            self.calibrator.see(probability);
        }
        let judged = places.iter().filter_map(|place| Some((place.probability?, place.found == Some(0))));
        self.calibrator.judge(judged);
        if !offered {
            self.unread += emitted;
            return;
        }
        self.drafted += 1;
        if let Some(ms) = draft_ms.filter(|_| self.unread == 0) {
            self.drafter_ms.push(ms);
        }
        let passed = places.iter().filter(|place| place.found == Some(0)).count();
        if !places.is_empty() {
            self.chance.add(places.len(), passed);
        }
        places.iter().for_each(|place| self.later.add(place));
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

    /// What it does beside another drafter, if it costs nothing and that is known.
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
        // A step takes no less than writing a token alone.
        let tree = self.tree.as_ref().map_or(0.0, |tree| tree.1 / stopping.rate - 1.0);
        Some(stopping.gain().max(tree))
    }

    /// True if a draft takes the same time in a chain of any length.
    pub fn drafts_at_once(&self) -> bool {
        self.at_once.is_some()
    }

    /// Note a step in which another drafter was to draft, and the tokens that it wrote.
    pub fn skip(&mut self, tokens: usize) {
        self.unread += tokens;
        self.tree = None;
        self.chance.fade();
        self.calibrator.fade();
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

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
            match self.1.choose(&self.0, &Unsureness::default(), true) {
                Drafts::Chain(length) => length,
                Drafts::Tree(tree) => panic!("{tree:?}"),
            }
        }

        fn note(&mut self, rows: usize, [drafts, accepted]: [usize; 2], verify_ms: f64, draft_ms: f64) {
            self.0.note(rows, verify_ms);
            let found = |at: usize| (at < accepted).then_some(0);
            let judged = drafts.min(accepted + 1);
            let places: Vec<Place> = (0..judged)
                .map(|at| Place { known: 1, found: found(at), probability: None, sure: 1.0 })
                .collect();
            let each = if self.1.drafts_at_once() { 1 } else { drafts.max(1) };
            self.1.note(&places, None, accepted + 1, Some(draft_ms / each as f64));
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
            auto.1.best(auto.0.times().unwrap()).unwrap().0
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
            for step in 0..100 {
                let k = auto.choose();
                assert!(k <= at_once.unwrap_or(LONGEST), "{k} drafts in step {step}");
                let accepted = if step < 8 { 0 } else { k };
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

    /// A drafter that is slow compared with further rows, and often right with its second choice: from chains whose second choices are
    /// known it learns to draft trees, and they emit more.
    #[test]
    fn trees_are_drafted_where_they_pay_off_and_nowhere_else() {
        let rate = |second: f64, more: f64, trees: bool| {
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let (mut target, mut auto) = (TargetTimes::new(Some(1.0), more), AutoLength::default());
            let (mut tokens, mut ms, mut drawn) = (0.0, 0.0, 0);
            for _ in 0..600 {
                let rank = |rng: &mut ChaCha8Rng| match rng.random::<f64>() {
                    chance if chance < 0.55 => Some(0),
                    chance => (chance < 0.55 + second).then_some(1),
                };
                let mut places = Vec::new();
                let levels;
                let rows = match auto.choose(&target, &Unsureness::default(), trees) {
                    Drafts::Chain(length) => {
                        levels = length;
                        while places.len() < length {
                            let found = rank(&mut rng);
                            places.push(Place { known: 2, found, probability: None, sure: 1.0 });
                            if found != Some(0) {
                                break;
                            }
                        }
                        tokens += places.iter().filter(|place| place.found == Some(0)).count() as f64 + 1.0;
                        length
                    }
                    Drafts::Tree(tree) => {
                        drawn += 1;
                        let mut at = None;
                        tokens += 1.0;
                        loop {
                            let children: Vec<usize> =
                                (0..tree.nodes().len()).filter(|node| tree.nodes()[*node].0 == at).collect();
                            if children.is_empty() {
                                break;
                            }
                            let found = rank(&mut rng).filter(|rank| *rank < children.len());
                            places.push(Place { known: children.len(), found, probability: None, sure: 1.0 });
                            let Some(rank) = found else { break };
                            (at, tokens) = (Some(children[rank]), tokens + 1.0);
                        }
                        levels = tree.depth();
                        tree.nodes().len()
                    }
                };
                let verify = 1.0 + more * rows as f64;
                target.note(rows + 1, verify);
                auto.note(&places, None, 1, Some(0.4));
                ms += verify + 0.4 * levels as f64;
            }
            (tokens / ms, drawn)
        };
        let [with, without] = [true, false].map(|trees| rate(0.3, 0.01, trees));
        assert!(with.1 > 400 && without.1 == 0 && with.0 > 1.1 * without.0, "{with:?} {without:?}");
        // Rows that cost what they cost on the embedded pair, or no second choice that passes.
        assert_eq!((rate(0.1, 0.4, true).1, rate(0.0, 0.01, true).1), (0, 0));
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
        assert!(lengths.iter().filter(|k| **k == 0).count() > 50, "{lengths:?}");
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
