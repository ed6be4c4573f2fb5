//! Who drafts next: the drafter with which the rest of the text is expected to be written soonest.
//!
//! What is expected of a drafter is what earlier runs have shown, and more and more what it shows in this one, as long as it drafts.
//! Another takes over if it is clearly better, after what it has to read first; and the more often that has happened, the longer the
//! next one stays.

use super::{
    Contender, DraftCost, Drafts, Place, RANKS, USUAL_TOKENS, further_row,
    length::{AutoLength, TargetTimes},
    tokens_left,
};
use specreel_model::decoder::Decoder;

/// Share of the expected time that another drafter has to save.
const MARGIN: f64 = 0.1;
/// A chain's other choices are noted in one of so many steps: it takes a look at all the drafter's logits.
const NOTED: usize = 8;
/// Steps before the first change; twice as many after each.
const PATIENCE: usize = 6;

/// Chooses the drafter of each step, and its drafts.
#[derive(Clone, Debug)]
pub(crate) struct AutoDraft {
    target: TargetTimes,
    drafters: Vec<AutoLength>,
    active: usize,
    /// Trees may be drafted.
    trees: bool,
    /// Steps since the last change, and those before the next.
    since: usize,
    patience: usize,
    /// How long the text is expected to get, and may get.
    usual_tokens: usize,
    most_tokens: usize,
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
        let first = Self::new(row_ms, further, chosen.is_some()).with(cost, at_once);
        let all = reserves.fold(first, |auto, reserve| auto.with(Some(reserve.cost), None));
        Self { usual_tokens, most_tokens, ..all }
    }

    /// Begin without a drafter; `row_ms` is the time of one target row, where known, and `further` what another row of its pass is
    /// taken to cost, relative to it ([`Contender::further`](super::Contender::further)); `trees` says that trees may be drafted.
    pub fn new(row_ms: Option<f64>, further: f64, trees: bool) -> Self {
        Self {
            target: TargetTimes::new(row_ms, further),
            drafters: Vec::new(),
            active: 0,
            trees,
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
        let own = &self.drafters[self.active];
        let own_ms = own.rest_ms(left, times)?;
        let others = self.drafters.iter().enumerate().filter(|(to, _)| *to != self.active);
        let timed = others.filter_map(|(to, other)| Some((to, other.chance(), other.rest_ms(left, times)?)));
        let (to, chance, ms) = timed.min_by(|a, b| a.2.total_cmp(&b.2))?;
        let turn = Turn { to, chances: [own.chance(), chance], rest_ms: [own_ms, ms] };
        (ms < (1.0 - MARGIN) * own_ms).then(|| {
            (self.active, self.since, self.patience) = (to, 0, 2 * self.patience);
            turn
        })
    }

    /// Let this drafter draft from now on.
    pub fn follow(&mut self, to: usize) {
        self.active = to;
    }

    /// What the next step drafts.
    pub fn drafts(&mut self) -> Drafts {
        match self.drafters.get_mut(self.active) {
            Some(drafter) => drafter.choose(&self.target, self.trees),
            None => Drafts::Chain(0),
        }
    }

    /// How many of the drafter's choices are worth knowing in step number `step`, if it drafts a chain.
    pub fn ranks(&self, step: usize) -> usize {
        if self.trees && step.is_multiple_of(NOTED) { RANKS } else { 1 }
    }

    /// Note a pass of the target over one row that was only timed.
    pub fn note_alone(&mut self, ms: f64) {
        self.target.note_alone(ms);
    }

    /// Time of a further row of the target's pass relative to a row alone, as measured.
    pub fn further(&self) -> Option<f64> {
        self.target.further()
    }

    /// Note a step: the rows of the verify pass, the places that were judged, the tokens emitted, the times of the pass and of drafting,
    /// and whether the drafts were a chain.
    pub fn note(
        &mut self,
        rows: usize,
        places: &[Place],
        emitted: usize,
        [verify_ms, draft_ms]: [f64; 2],
        is_chain: bool,
    ) {
        self.target.note(rows, verify_ms);
        for (at, drafter) in self.drafters.iter_mut().enumerate() {
            if at != self.active {
                drafter.skip(emitted);
                continue;
            }
            let each = if drafter.drafts_at_once() { 1 } else { (rows - 1).max(1) };
            drafter.note(places, emitted, is_chain.then_some(draft_ms / each as f64));
        }
        self.since += 1;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// A made-up drafter: what is expected of it, and the chance that its drafts really pass.
    type Made = (DraftCost, f64);

    fn made(front_ms: f64, row_ms: f64, chance: f64, real: f64) -> Made {
        (DraftCost { front_ms, row_ms, chance, later: [0.0; 2] }, real)
    }

    /// The time of a text of 400 tokens, and its changes: after how many tokens, and who drafts then. A row of the target takes 1 ms.
    fn write(drafters: &[Made], seed: u64) -> (f64, Vec<(usize, usize)>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let auto = AutoDraft { usual_tokens: 400, most_tokens: 400, ..AutoDraft::new(Some(1.0), 0.1, true) };
        let mut auto = drafters.iter().fold(auto, |auto, made| auto.with(Some(made.0), None));
        let (mut tokens, mut ms, mut turns, mut at) = (0, 0.0, Vec::new(), 0);
        let mut unread = vec![0; drafters.len()];
        let mut front: Vec<f64> = drafters.iter().map(|made| made.0.front_ms).collect();
        while tokens < 400 {
            if let Some(turn) = auto.turn(tokens) {
                assert!(turn.rest_ms[1] < turn.rest_ms[0] && turn.to != at, "{turn:?}");
                at = turn.to;
                turns.push((tokens, at));
            }
            let Drafts::Chain(k) = auto.drafts() else { panic!("a tree without second choices") };
            let accepted = (0..k).take_while(|_| rng.random::<f64>() < drafters[at].1).count();
            let row = drafters[at].0.row_ms;
            let (verify, mut draft) = (1.0 + 0.1 * k as f64, row * k as f64);
            if k > 0 {
                draft +=
                    std::mem::take(&mut front[at]) + 0.25 * row * f64::from(std::mem::take(&mut unread[at]));
            }
            let found = |at: usize| (at < accepted).then_some(0);
            let places: Vec<Place> =
                (0..k.min(accepted + 1)).map(|at| Place { known: 1, found: found(at) }).collect();
            auto.note(k + 1, &places, accepted + 1, [verify, draft], true);
            let others = unread.iter_mut().enumerate().filter(|(other, _)| *other != at || k == 0);
            others.for_each(|(_, unread)| *unread += accepted as u32 + 1);
            tokens += accepted + 1;
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

    /// Neither a drafter whose prompt takes longer than the text, nor one that is no better, whatever was expected of it.
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
}
