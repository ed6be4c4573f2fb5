//! Who drafts next: the drafter with which the rest of the text is expected to be written soonest.
//!
//! What is expected of a drafter is what earlier runs have shown, and more and more what it shows in this one, as long as it drafts.
//! Another takes over if it is clearly better, after what it has to read first; and the more often that has happened, the longer the
//! next one stays.

use super::{
    Contender, DraftCost, Place, Stopping, USUAL_TOKENS, further_row,
    length::{AutoLength, TargetTimes},
    tokens_left,
};
use crate::{
    Drafter,
    draft::{Foreseen, Proposal},
    fit::Unsureness,
};
use specreel_model::decoder::Decoder;
use specreel_record::Token;

/// Share of the expected time that another drafter has to save.
const MARGIN: f64 = 0.1;
/// Steps between two computations of where the chains of prompt lookup end while another drafter is active.
const BESIDE_STEPS: usize = 8;
/// What drafting is taken to gain before that is known, in tokens.
const UNKNOWN_GAIN: f64 = 0.5;
/// Steps before the first change; twice as many after each.
const PATIENCE: usize = 6;

/// Chooses the drafter of each step, and its drafts.
#[derive(Clone, Debug)]
pub(crate) struct AutoDraft {
    target: TargetTimes,
    text: Unsureness,
    drafters: Vec<AutoLength>,
    active: usize,
    /// The number of prompt lookup, which costs nothing: it drafts in place of the active one where it is worth more. `None` if it is not
    /// among the drafters.
    lookup: Option<usize>,
    /// Where its chains end while another drafter is active, and the steps since that was computed.
    beside: Option<Stopping>,
    beside_steps: usize,
    /// Steps since the last change, and those before the next.
    since: usize,
    patience: usize,
    /// How long the text is expected to get, and may get.
    usual_tokens: usize,
    most_tokens: usize,
}

/// What a step took and gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'s> {
    /// Rows of the verify pass.
    pub rows: usize,
    pub tokens: &'s [Token],
    pub verify_ms: f64,
    pub draft_ms: f64,
}

/// Why another drafter takes over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// The number of the drafter.
    pub to: usize,
    /// The chances that drafts pass: of the drafter until now, and of the next.
    pub chances: [f64; 2],
    /// The expected times of the rest of the text with either, in milliseconds.
    pub rest_ms: [f64; 2],
}

impl AutoDraft {
    /// Begin a text of at most `most_tokens` with the drafter of a method, of which something is expected if it was `chosen`, and with
    /// those that may take over from it. For `row_ms` see [`AutoDraft::new`], for `at_once` [`AutoDraft::with`].
    pub fn begin<'c>(
        target: &Decoder,
        row_ms: Option<f64>,
        most_tokens: usize,
        chosen: Option<&Contender>,
        at_once: Option<usize>,
        reserves: impl Iterator<Item = &'c Contender>,
    ) -> Self {
        let further = chosen.map_or_else(|| further_row(target), |chosen| chosen.further);
        let usual_tokens = chosen.map_or(USUAL_TOKENS, |chosen| chosen.text_tokens);
        let cost = chosen.map(|chosen| chosen.cost.after_front());
        let first = Self::new(row_ms, further).with(cost, at_once);
        let is_lookup = |contender: &Contender| matches!(contender.drafter, Drafter::Lookup { .. });
        let reserves: Vec<&Contender> = reserves.collect();
        let lookup = reserves.iter().position(|reserve| is_lookup(reserve)).map(|at| at + 1);
        let lookup = if chosen.is_some_and(is_lookup) { Some(0) } else { lookup };
        let all = reserves.into_iter().fold(first, |auto, reserve| auto.with(Some(reserve.cost), None));
        Self { usual_tokens, most_tokens, lookup, ..all }
    }

    /// Begin without a drafter; `row_ms` is the time of one target row, where known, and `further` what another row of its pass is
    /// taken to cost, relative to it ([`Contender::further`](super::Contender::further)).
    pub fn new(row_ms: Option<f64>, further: f64) -> Self {
        Self {
            target: TargetTimes::new(row_ms, further),
            text: Unsureness::default(),
            drafters: Vec::new(),
            active: 0,
            lookup: None,
            beside: None,
            beside_steps: BESIDE_STEPS,
            since: 0,
            patience: PATIENCE,
            usual_tokens: USUAL_TOKENS,
            most_tokens: usize::MAX,
        }
    }

    /// With another drafter, and what is expected of it; the first one drafts first. `at_once` is its longest chain if it drafts any
    /// chain in the same time.
    pub fn with(mut self, cost: Option<DraftCost>, at_once: Option<usize>) -> Self {
        let drafter = cost.map_or_else(AutoLength::default, |cost| AutoLength::expecting(&cost));
        self.drafters.push(drafter.at_once(at_once));
        self
    }

    /// Let another drafter draft from now on, if that is expected to pay off over what follows the `written` tokens.
    pub fn turn(&mut self, written: usize) -> Option<Turn> {
        let left = tokens_left(self.usual_tokens, self.most_tokens, written);
        if self.since < self.patience || self.drafters.len() < 2 {
            return None;
        }
        let times = self.target.times()?;
        self.drafters.iter_mut().for_each(|drafter| drafter.refresh(times, &self.text));
        let own = &self.drafters[self.active];
        let beside = |of: usize| self.drafters[self.lookup.filter(|lookup| *lookup != of)?].beside();
        let own_ms = own.rest_ms(left, times, beside(self.active))?;
        let others = self.drafters.iter().enumerate().filter(|(to, _)| *to != self.active);
        let chance = |of: &AutoLength| of.foreseen(&self.text).unwrap_or(of.chance());
        let timed = others
            .filter_map(|(to, other)| Some((to, chance(other), other.rest_ms(left, times, beside(to))?)));
        let (to, chance, ms) = timed.min_by(|a, b| a.2.total_cmp(&b.2))?;
        let turn = Turn { to, chances: [own.chance(), chance], rest_ms: [own_ms, ms] };
        (ms < (1.0 - MARGIN) * own_ms).then(|| {
            (self.active, self.since, self.patience) = (to, 0, 2 * self.patience);
            turn
        })
    }

    /// Prompt lookup, where another one is active and has begun: its number, and where its chains end.
    pub fn beside(&mut self) -> Option<(usize, Stopping)> {
        let at = self.lookup.filter(|at| *at != self.active)?;
        let times = self.target.times()?;
        let active = self.drafters.get_mut(self.active).filter(|active| active.has_begun())?;
        active.refresh(times, &self.text);
        self.beside_steps += 1;
        if self.beside.is_none() || self.beside_steps >= BESIDE_STEPS {
            let rate = active.rate().unwrap_or(0.0).max(1.0 / times.alone.max(1e-9));
            self.beside = Some(Stopping::beside(&self.drafters[at].calibration(), times.more, rate));
            self.beside_steps = 0;
        }
        self.beside.clone().map(|stopping| (at, stopping))
    }

    /// True if drafts of prompt lookup are worth more than what the active drafter is expected to draft.
    pub fn prefers(&self, lookup: &Proposal) -> bool {
        let Some(stopping) = &self.beside else { return false };
        let drafts = lookup.forced..lookup.tree.len();
        let gain = stopping.gain_of(drafts.filter_map(|node| lookup.confidence(node)));
        let active = self.drafters.get(self.active);
        gain > active.map_or(0.0, |active| active.gain().unwrap_or(UNKNOWN_GAIN))
    }

    /// Let this drafter draft from now on.
    pub fn follow(&mut self, to: usize) {
        self.active = to;
    }

    /// The length of the next step's chain.
    pub fn drafts(&mut self) -> usize {
        let active = self.drafters.get_mut(self.active);
        active.map_or(0, |drafter| drafter.choose(&self.target, &self.text))
    }

    /// Where the chain of the next step ends, if what its drafter says of its drafts decides it.
    pub fn stopping(&self) -> Option<&Stopping> {
        self.drafters.get(self.active)?.stopping()
    }

    /// True if the active drafter's second and third choices may be drafted next to its first.
    pub fn drafts_others(&self) -> bool {
        self.drafters.get(self.active).is_some_and(AutoLength::drafts_others)
    }

    /// Note a pass of the target over one row that was only timed.
    pub fn note_alone(&mut self, ms: f64) {
        self.target.note_alone(ms);
    }

    /// Time of a further row of the target's pass relative to a row alone, as measured.
    pub fn further(&self) -> Option<f64> {
        self.target.further()
    }

    /// The number of prompt lookup.
    pub fn lookup(&self) -> Option<usize> {
        self.lookup
    }

    /// Note a step: the number of the drafter, what it proposed, and the places that were judged; and what prompt lookup would have drafted
    /// for each of its tokens.
    pub fn note(
        &mut self,
        (by, proposal, places): (usize, &Proposal, &[Place]),
        foreseen: &[Foreseen],
        seen: &Seen<'_>,
    ) {
        let Seen { rows, tokens, verify_ms, draft_ms } = *seen;
        let (unsure, emitted) = (proposal.unsure, tokens.len());
        // What a grammar forces says nothing.
        let sure = tokens.iter().skip(proposal.forced).filter_map(|token| token.probability);
        sure.for_each(|sure| self.text.add(sure));
        self.target.note(rows, verify_ms);
        for (at, drafter) in self.drafters.iter_mut().enumerate() {
            if Some(at) == self.lookup {
                drafter.foresee(foreseen);
                continue;
            }
            if at != by {
                if at == self.active {
                    drafter.miss(emitted)
                } else {
                    drafter.skip(emitted)
                }
                continue;
            }
            // The token before which it stopped took a pass too.
            let depth = proposal.tree.depths().into_iter().max().unwrap_or(0);
            let passes = depth + usize::from(unsure.is_some());
            let each = if drafter.drafts_at_once() { 1 } else { passes.max(1) };
            drafter.note(places, unsure, emitted, draft_ms / each as f64);
        }
        self.since += 1;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::{
        super::{CLASSES, Calibration},
        *,
    };
    use crate::{
        Tree,
        confidence::class,
        draft::{Branch, Unsure},
    };
    use specreel_record::Verdict;

    /// What a made-up drafter gives its drafts.
    const SURE: f32 = 0.9;

    /// A made-up drafter: what is expected of it, and the chance that its drafts really pass; `None` = as often as the target is sure.
    type Made = (DraftCost, Option<f64>);

    fn tokens(count: usize, probability: Option<f32>) -> Vec<Token> {
        vec![Token { probability, ..Token::new(7, "", Verdict::Plain) }; count]
    }

    fn made(front_ms: f64, row_ms: f64, chance: f64, real: f64) -> Made {
        let mut shares = [0.0; CLASSES];
        shares[class(SURE)] = 1.0;
        let calibration = Calibration::of([chance; CLASSES], shares).unwrap();
        (DraftCost { calibration, ..DraftCost::usual([front_ms, row_ms], chance) }, Some(real))
    }

    /// The time of a text of 400 tokens, and its changes: after how many tokens, and who drafts then. A row of the target takes 1 ms.
    fn write(drafters: &[Made], seed: u64) -> (f64, Vec<(usize, usize)>) {
        write_text(drafters, seed, |_| 1.0)
    }

    /// The same of a text of which the target is so sure after so many tokens.
    fn write_text(drafters: &[Made], seed: u64, sure: impl Fn(usize) -> f64) -> (f64, Vec<(usize, usize)>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let auto = AutoDraft { usual_tokens: 400, most_tokens: 400, ..AutoDraft::new(Some(1.0), 0.1) };
        let mut auto = drafters.iter().fold(auto, |auto, made| auto.with(Some(made.0), None));
        let (mut written, mut ms, mut turns, mut at) = (0, 0.0, Vec::new(), 0);
        let mut unread = vec![0; drafters.len()];
        let mut front: Vec<f64> = drafters.iter().map(|made| made.0.front_ms).collect();
        while written < 400 {
            if let Some(turn) = auto.turn(written) {
                assert!(turn.rest_ms[1] < turn.rest_ms[0] && turn.to != at, "{turn:?}");
                at = turn.to;
                turns.push((written, at));
            }
            let most = auto.drafts();
            let mut branch = Branch::new(auto.stopping().map_or(Unsure::Never, Unsure::Unprofitable));
            let k = (0..most).take_while(|_| branch.goes_on() && branch.take(SURE)).count();
            let sure = sure(written);
            let real = drafters[at].1.unwrap_or(sure);
            let accepted = (0..k).take_while(|_| rng.random::<f64>() < real).count();
            let row = drafters[at].0.row_ms;
            let (verify, mut draft) = (1.0 + 0.1 * k as f64, row * k as f64);
            if k > 0 {
                draft +=
                    std::mem::take(&mut front[at]) + 0.25 * row * f64::from(std::mem::take(&mut unread[at]));
            }
            let place = |at| Place { passed: at < accepted, probability: Some(SURE), sure: sure as f32 };
            let places: Vec<Place> = (0..k.min(accepted + 1)).map(place).collect();
            let emitted = tokens(accepted + 1, Some(sure as f32));
            let seen = Seen { rows: k + 1, tokens: &emitted, verify_ms: verify, draft_ms: draft };
            let proposal = Proposal { tree: Tree::chain(vec![7; k]), ..Proposal::default() };
            auto.note((at, &proposal, &places), &[], &seen);
            let others = unread.iter_mut().enumerate().filter(|(other, _)| *other != at || k == 0);
            others.for_each(|(_, unread)| *unread += accepted as u32 + 1);
            written += accepted + 1;
            ms += verify + draft;
        }
        (ms, turns)
    }

    #[test]
    fn a_drafter_that_does_not_keep_what_was_expected_is_replaced() {
        for seed in 0..20 {
            let [bad, good] = [made(0.0, 0.1, 0.9, 0.2), made(5.0, 0.1, 0.8, 0.8)];
            let (ms, turns) = write(&[bad, good], seed);
            assert!(turns[0].0 < 60 && turns.last().unwrap().1 == 1, "{turns:?}");
            assert!(ms < 1.2 * write(&[good], seed).0, "{ms} ms");
        }
    }

    #[test]
    fn alike_drafters_do_not_alternate() {
        for seed in 0..20 {
            for chance in [0.2, 0.8] {
                let (_, turns) =
                    write(&[made(0.0, 0.1, chance, chance), made(1.0, 0.1, chance, chance)], seed);
                assert!(turns.len() <= 2, "{turns:?}");
            }
        }
    }

    /// A drafter is not kept if its prompt takes longer than the text, or if it is no better, even where it
    /// was expected to be.
    #[test]
    fn what_does_not_pay_off_is_left_out_or_left_again() {
        let (mut all, mut alone) = (0.0, 0.0);
        for seed in 0..20 {
            let bad = made(0.0, 0.1, 0.9, 0.2);
            assert_eq!(write(&[bad, made(1e3, 0.1, 0.9, 0.9)], seed).1, []);
            let good = made(0.0, 0.1, 0.5, 0.5);
            let (ms, turns) = write(&[good, made(0.0, 0.1, 0.95, 0.1)], seed);
            // Without drafts it would take 400 ms.
            assert!(turns.len() <= 5 && ms < 1.03 * 400.0, "{ms}: {turns:?}");
            (all, alone) = (all + ms, alone + write(&[good], seed).0);
        }
        assert!(all < 1.2 * alone, "{all} and {alone}");
    }

    /// Prose, of which the target is not sure, and code after it. Nobody drafts well at first; the draft model that waits takes over soon
    /// after the text turns, and not before.
    #[test]
    fn a_drafter_that_waits_takes_over_where_the_target_gets_surer() {
        let turned = |written: usize| if written < 150 { 0.4 } else { 0.97 };
        let nothing = (DraftCost { offers: 0.0, ..DraftCost::usual([0.0; 2], 0.0) }, Some(0.0));
        for seed in 0..20 {
            let turns = |disagreement| {
                let waits = DraftCost { disagreement, ..DraftCost::usual([4.0, 0.25], 0.4) };
                write_text(&[nothing, (waits, None)], seed, turned).1
            };
            let is_soon_after = |turns: &[(usize, usize)]| matches!(turns, [(150..200, 1)]);
            assert!(is_soon_after(&turns(Some(1.0))) && !is_soon_after(&turns(None)));
        }
    }

    #[test]
    fn prompt_lookup_drafts_where_what_it_found_is_worth_more() {
        let lookup = Drafter::Lookup { ngram: 4, min_ngram: 1, occurrence: crate::Occurrence::Frequent };
        let calibration = Calibration::of_drafter(&lookup, 0.3);
        let auto = AutoDraft { lookup: Some(1), ..AutoDraft::new(Some(1.0), 0.1) };
        let mut auto = auto
            .with(Some(made(0.0, 0.2, 0.6, 0.6).0), None)
            .with(Some(DraftCost { calibration, ..DraftCost::usual([0.0; 2], 0.3) }), None);
        assert!(auto.beside().is_none(), "the active one begins");
        auto.drafts();
        let (at, stopping) = auto.beside().unwrap();
        assert!(at == 1 && stopping.goes_on(1.0));
        let found = |probabilities: &[f32]| {
            let mut proposal = Proposal::default();
            for probability in probabilities {
                let parent = proposal.tree.len().checked_sub(1);
                proposal.tree.push(parent, 7, Some(*probability));
            }
            proposal
        };
        assert!(
            auto.prefers(&found(&[0.95; 6])) && !auto.prefers(&found(&[0.5])) && !auto.prefers(&found(&[]))
        );
        // Its drafts would fail: they are passed over, and the model drafts. Then they would be right.
        let token = tokens(1, None);
        let seen = Seen { rows: 1, tokens: &token, verify_ms: 1.0, draft_ms: 0.0 };
        for is_right in [false, true] {
            for _ in 0..60 {
                auto.note((0, &Proposal::default(), &[]), &[Some((0.95, is_right))], &seen);
                auto.beside();
            }
            assert_eq!(auto.prefers(&found(&[0.95; 6])), is_right);
        }
        auto.follow(1);
        assert!(auto.beside().is_none(), "it is the active one");
    }
}
