//! Automatic drafters and contexts: from known speeds and earlier acceptance to what drafts in a run, what it sees, and what may
//! take over.
//!
//! What earlier runs left in the cache does not count, so that the order of runs changes no choice.

use std::cmp::min;

use super::{
    knowledge::{
        calibration, decoder_of, disagreeing, draft_work, further, key, offers, passing, text_tokens,
    },
    profile::{ModelProfile, Profile},
};
use crate::timing::{Part, Rate, Rates};
use specreel_model::{
    draft_head::Recipe,
    mac_count::{self, MacCount},
    processor::Grid,
};
use specreel_record::Expected;
use specreel_speculate::{
    Drafter, Length, Method, Occurrence, Shape, VisualContext,
    auto::{Calibration, Contender, DraftCost, SHARES, chance_at, failing_at, tokens_left, usual_chance},
};

/// [`DraftCost::disagreement`] of a drafter that has not been tried: 0.9 to 1.1 of Qwen2.5-Coder's 0.5B for its 1.5B.
const USUAL_RATIO: f64 = 1.0;

/// A run whose method leaves choices open.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub method: &'a Method,
    pub profile: &'a Profile,
    /// Tokens of the prompt, and visual tokens among them.
    pub prompt: usize,
    pub visual: usize,
    pub patches: Grid,
    pub max_new_tokens: usize,
}

/// A contender, with the expected time until the text is written, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub contender: Contender,
    pub ms: f64,
}

/// What an automatic method stands for in a run.
pub(crate) struct Answer {
    /// The method with all choices made.
    pub method: Method,
    /// What each drafter was expected to take, the fastest first; empty where speeds are not known.
    pub expected: Vec<Expected>,
    /// What drafts, and what was expected of it; `None` where nothing drafts or speeds are not known.
    pub contender: Option<Contender>,
}

/// The target's speeds, on which a choice depends.
pub(crate) struct Speeds {
    /// A row, in milliseconds.
    pub target_ms: f64,
    token: Rate,
    prompt: Rate,
    tower: Rate,
}

impl Question<'_> {
    /// The choices for this run; `target_ms` is the time of a target row, 0 if it is not known. `None` where the method leaves none
    /// open. Where speeds are not known, the first of the drafters drafts, and sees all.
    pub fn answer(&self, rates: &Rates, target_ms: f64) -> Option<Answer> {
        let open =
            self.method.drafter == (Drafter::Auto {}) || self.method.context == (VisualContext::Auto {});
        if !open {
            return None;
        }
        let method = |drafter, context| Method { drafter, context, ..self.method.clone() };
        let drafters = self.drafters();
        let Some(speeds) = self.speeds(rates, target_ms) else {
            let first = drafters.into_iter().next()?;
            let context = self.contexts(&first).pop()?.1;
            return Some(Answer { method: method(first, context), expected: Vec::new(), contender: None });
        };
        let candidates = self.candidates(rates, &speeds);
        let expected = |of: &Candidate| Expected { drafter: of.contender.name(), ms: of.ms };
        let expected = candidates.iter().map(expected).collect();
        let Candidate { contender, .. } = candidates.into_iter().next()?;
        let (drafter, context) = (contender.drafter.clone(), contender.context.clone());
        let contender = Some(contender).filter(|contender| contender.drafter != (Drafter::None {}));
        Some(Answer { method: method(drafter, context), expected, contender })
    }

    /// Each drafter with what it should see, the fastest first.
    pub fn candidates(&self, rates: &Rates, speeds: &Speeds) -> Vec<Candidate> {
        let all = self.drafters();
        // Prompt lookup drafts in addition to any drafter that the method leaves open.
        let lookup = all.iter().find(|drafter| matches!(drafter, Drafter::Lookup { .. }));
        let lookup = lookup.and_then(|lookup| self.contenders(lookup, rates, speeds).pop());
        let lookup = lookup.map(|lookup| lookup.cost);
        let best = |drafter| self.best(drafter, lookup.as_ref(), rates, speeds);
        let mut candidates: Vec<Candidate> = all.into_iter().filter_map(best).collect();
        candidates.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        candidates
    }

    /// The drafters that may take over from the chosen one during the run: those that can read the prompt at
    /// that point, without signals of the target's prefill. `reads` says whether a draft head can.
    pub fn reserves(
        &self,
        rates: &Rates,
        target_ms: f64,
        chosen: &Contender,
        reads: impl Fn(Recipe) -> bool,
    ) -> Vec<Contender> {
        let follows = matches!(self.method.shape, Shape::Chain { length: Length::AUTO, .. });
        let Some(speeds) = self.speeds(rates, target_ms).filter(|_| follows) else { return Vec::new() };
        let can = |contender: &Contender| match contender.drafter {
            Drafter::Model {} => {
                matches!(contender.context.share(), Some(share) if share == 0.0 || share == 1.0)
            }
            Drafter::Head { recipe } => reads(recipe),
            Drafter::Lookup { .. } => true,
            _ => false,
        };
        let is_other = |other: &Contender| {
            other.drafter != chosen.drafter || other.context.share() != chosen.context.share()
        };
        let all = self.drafters().into_iter().flat_map(|drafter| self.contenders(&drafter, rates, &speeds));
        all.filter(|contender| can(contender) && is_other(contender)).collect()
    }

    /// What may draft, in the order of what is usually faster; none of them last.
    fn drafters(&self) -> Vec<Drafter> {
        if self.method.drafter != (Drafter::Auto {}) {
            return vec![self.method.drafter.clone()];
        }
        let parts = &self.profile.parts;
        let heads = Recipe::ALL.into_iter().filter(|recipe| match recipe {
            Recipe::Mtp => parts.mtp,
            recipe => parts.heads.iter().any(|head| head == recipe.name()),
        });
        let lookup = Drafter::Lookup { ngram: 16, min_ngram: 1, occurrence: Occurrence::Frequent };
        let model = parts.drafter.then_some(Drafter::Model {});
        let heads = heads.map(|recipe| Drafter::Head { recipe });
        model.into_iter().chain(heads).chain([lookup, Drafter::None {}]).collect()
    }

    /// What a drafter may see, with the share of the visual tokens.
    fn contexts(&self, drafter: &Drafter) -> Vec<(f64, VisualContext)> {
        match drafter {
            Drafter::Model {} | Drafter::Target { .. } => {
                SHARES.map(|share| (share, VisualContext::of_share(share))).into()
            }
            // What it was trained with.
            Drafter::Head { recipe: Recipe::Sparrow | Recipe::Hivis } => {
                vec![(0.0, VisualContext::of_share(0.0))]
            }
            Drafter::Head { .. } => vec![(1.0, VisualContext::Full {})],
            _ => vec![(0.0, VisualContext::of_share(0.0))],
        }
    }

    /// A drafter with all that it may see.
    fn contenders(&self, drafter: &Drafter, rates: &Rates, speeds: &Speeds) -> Vec<Contender> {
        let number = |name: String| rates.number(&key(&name, drafter, self.profile)?);
        let of_shares = |name: fn(f64) -> String| -> Vec<(f64, f64)> {
            SHARES.into_iter().filter_map(|share| Some((share, number(name(share))?))).collect()
        };
        let (chances, ratios) = (of_shares(passing), of_shares(disagreeing));
        let usual = usual_chance(drafter);
        let further = further(rates, self.profile);
        let all = self.contexts(drafter).into_iter().map(|(share, context)| {
            let chance = match drafter {
                Drafter::None {} => 0.0,
                Drafter::Model {} | Drafter::Target { .. } => chance_at(share, &chances, usual),
                _ => number(passing(share)).unwrap_or(usual),
            };
            let [front_ms, row_ms] = self.times(drafter, share, rates, speeds);
            let calibration = calibration(rates, drafter, share, self.profile);
            let calibration = calibration.unwrap_or_else(|| Calibration::of_drafter(drafter, chance));
            let offers = offers(rates, drafter, self.profile);
            let disagreement = drafter.reads().then(|| match drafter {
                Drafter::Model {} | Drafter::Target { .. } => failing_at(share, &ratios, USUAL_RATIO),
                _ => number(disagreeing(share)).unwrap_or(USUAL_RATIO),
            });
            let cost = DraftCost { front_ms, row_ms, chance, calibration, offers, disagreement };
            let text_tokens = text_tokens(rates, self.profile);
            Contender { drafter: drafter.clone(), context, cost, text_tokens, further }
        });
        all.collect()
    }

    /// How many tokens the text is expected to get.
    pub fn tokens(&self, rates: &Rates) -> usize {
        tokens_left(text_tokens(rates, self.profile), self.max_new_tokens, 0)
    }

    /// A drafter with what it should see, if prompt lookup of this cost drafts too.
    fn best(
        &self,
        drafter: Drafter,
        lookup: Option<&DraftCost>,
        rates: &Rates,
        speeds: &Speeds,
    ) -> Option<Candidate> {
        let tokens = self.tokens(rates);
        let lookup = lookup.filter(|_| drafter.reads());
        let timed = self.contenders(&drafter, rates, speeds).into_iter().map(|contender| {
            let ms = contender.cost.expected_ms(lookup, tokens, speeds.target_ms, contender.further);
            Candidate { contender, ms }
        });
        timed.min_by(|a, b| a.ms.total_cmp(&b.ms))
    }

    /// What the drafter needs before the first token, and for each draft, in milliseconds.
    fn times(&self, drafter: &Drafter, share: f64, rates: &Rates, speeds: &Speeds) -> [f64; 2] {
        let seen = (self.visual as f64 * share) as usize;
        let slots = self.prompt - min(self.visual, self.prompt) + seen;
        let Some(config) = decoder_of(drafter, self.profile) else { return [0.0; 2] };
        let Profile { target, drafter: small, .. } = self.profile;
        let by = small.as_ref().filter(|_| *drafter == (Drafter::Model {})).unwrap_or(target);
        let known = |part: Part| Some(rates.get(&by.identity.key(part))?.0);
        let work = match drafter {
            Drafter::Model {} if seen > 0 => by.tower.mac_count(self.patches).total(),
            // The target's own embeddings are there.
            _ => MacCount::default(),
        };
        let read = mac_count::prompt(&config, 0, slots);
        let tower = known(Part::Tower).unwrap_or(speeds.tower);
        let prompt = known(Part::Prompt).unwrap_or(speeds.prompt);
        let own = key("drafting", drafter, self.profile).and_then(|key| Some(rates.get(&key)?.0));
        let of_model = || known(Part::Token).filter(|_| !matches!(drafter, Drafter::Target { .. }));
        let token = own.or_else(of_model).unwrap_or_else(|| speeds.token.times(self.density(drafter)));
        let row_ms = draft_work(drafter, self.profile, slots).map_or(0.0, |work| token.ms(&work));
        // An assistant reads no prompt.
        if *drafter == (Drafter::Head { recipe: Recipe::Assistant }) {
            return [0.0, row_ms];
        }
        [tower.ms(&work) + prompt.ms(&read), row_ms]
    }

    /// Bytes that a row of this drafter reads for a multiply-add, relative to the target's: a row takes mostly the time of reading
    /// them.
    fn density(&self, drafter: &Drafter) -> f64 {
        let Profile { target, drafter: small, .. } = self.profile;
        let per_mac = |bytes: usize, model: &ModelProfile| {
            bytes as f64 / mac_count::token(&model.text, 0).products.max(1.0)
        };
        let own = match (drafter, small) {
            (Drafter::Model {}, Some(small)) => per_mac(small.row_bytes, small),
            (Drafter::Target { dtype }, _) => match dtype.weights() {
                Some(dtype) => per_mac(target.row_bytes_in(dtype), target),
                None => return 1.0,
            },
            _ => return 1.0,
        };
        own / per_mac(target.row_bytes, target)
    }

    /// The target's speeds; `target_ms` is the time of a row, 0 if it is not known. What of it has not run yet is as fast as the
    /// drafter; `None` where neither is known.
    pub fn speeds(&self, rates: &Rates, target_ms: f64) -> Option<Speeds> {
        let Profile { target, drafter, .. } = self.profile;
        let rate = |part: Part, model: &ModelProfile| Some(rates.get(&model.identity.key(part))?.0);
        let either = |part: Part| rate(part, target).or_else(|| rate(part, drafter.as_ref()?));
        let row = mac_count::token(&target.text, self.prompt);
        let measured = || Rate::of(&row, target_ms, &Rate::unknown(Part::Token));
        let token = rate(Part::Token, target).or_else(measured).or_else(|| either(Part::Token))?;
        let target_ms = if target_ms > 0.0 { target_ms } else { token.ms(&row) };
        Some(Speeds { target_ms, token, prompt: either(Part::Prompt)?, tower: either(Part::Tower)? })
    }
}
