//! Models for tests: the next id is a function of the ids before it. Two of them share a script and agree as often as it says.

use std::collections::BTreeMap;

use super::{
    judge::{Case, DraftToken, Exact, Judge},
    tick::{DrafterTask, TargetTask},
    workers::{DrafterWorker, TargetWorker},
};
use specreel_record::{StopReason, Verdict};

/// Ids from here on are words; those below are end tokens.
pub const ENDS: u32 = 2;

/// The text of both models.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub seed: u64,
    pub words: u32,
    /// How often the drafter writes the target's token, in percent.
    pub agreement: u64,
    /// How often the target ends the text, and a drafter that does not agree too, in percent.
    pub ending: u64,
}

/// A number that depends on everything given.
pub fn hash(seed: u64, salt: u64, ids: &[u32]) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    ids.iter().fold(mix(seed.wrapping_mul(31).wrapping_add(salt + 1)), |h, &id| {
        mix(h.wrapping_add(u64::from(id)).wrapping_add(0x9e37_79b9_7f4a_7c15))
    })
}

impl Script {
    fn id(&self, salt: u64, text: &[u32]) -> u32 {
        if hash(self.seed, salt, text) % 100 < self.ending {
            (hash(self.seed, salt + 1, text) % u64::from(ENDS)) as u32
        } else {
            ENDS + (hash(self.seed, salt + 2, text) % u64::from(self.words)) as u32
        }
    }

    /// The target's token after `text`.
    pub fn target(&self, text: &[u32]) -> u32 {
        self.id(10, text)
    }

    /// The drafter's token after `text`.
    pub fn drafter(&self, text: &[u32]) -> u32 {
        if hash(self.seed, 0, text) % 100 < self.agreement { self.target(text) } else { self.id(20, text) }
    }

    /// The target alone.
    pub fn autoregressive(&self, root: u32, most: usize) -> (Vec<u32>, StopReason) {
        let mut text = vec![root];
        while text.len() - 1 < most {
            let id = self.target(&text);
            if id < ENDS {
                return (text.split_off(1), StopReason::Eos);
            }
            text.push(id);
        }
        (text.split_off(1), StopReason::Length)
    }
}

/// A target with a cache that is nothing but ids. Remembers its decision for every position.
pub(crate) struct ScriptedTarget {
    pub script: Script,
    pub cache: Vec<u32>,
    pub wanted: Vec<u32>,
    pub(crate) ruled: BTreeMap<usize, u32>,
}

impl ScriptedTarget {
    pub fn new(script: &Script) -> Self {
        Self { script: script.clone(), cache: vec![], wanted: vec![], ruled: BTreeMap::new() }
    }
}

impl Judge<()> for ScriptedTarget {
    fn accept(&mut self, case: &Case<'_, ()>) -> Vec<Verdict> {
        assert_eq!(case.rows, self.wanted.len());
        let verdicts = Exact { wanted: &self.wanted }.accept(case);
        for (i, draft) in case.drafts.iter().take(verdicts.len()).enumerate() {
            assert_eq!(self.ruled.insert(case.position + i, draft.id), None, "judged twice");
        }
        verdicts
    }

    fn replacement(&mut self, case: &Case<'_, ()>, row: usize) -> u32 {
        let id = Judge::<()>::replacement(&mut Exact { wanted: &self.wanted }, case, row);
        assert_eq!(self.ruled.insert(case.position + row, id), None, "judged twice");
        id
    }
}

impl TargetWorker<()> for ScriptedTarget {
    type Error = String;

    fn verify(&mut self, task: &TargetTask) -> Result<(), String> {
        assert!(task.truncate_to <= self.cache.len(), "cannot keep slots that are not there");
        assert!(!task.rows.is_empty());
        self.cache.truncate(task.truncate_to);
        self.wanted.clear();
        for &id in &task.rows {
            self.cache.push(id);
            self.wanted.push(self.script.target(&self.cache));
        }
        Ok(())
    }
}

/// A drafter with a cache that is nothing but ids.
pub(crate) struct ScriptedDrafter {
    pub script: Script,
    pub cache: Vec<u32>,
    /// An id that it cannot be fed.
    pub unknown: Option<u32>,
    /// Continues after an end token, and beyond the requested length.
    pub(crate) unruly: bool,
}

impl ScriptedDrafter {
    pub fn new(script: &Script) -> Self {
        Self { script: script.clone(), cache: vec![], unknown: None, unruly: false }
    }
}

impl DrafterWorker<()> for ScriptedDrafter {
    type Error = String;

    fn draft(&mut self, task: &DrafterTask) -> Result<Vec<DraftToken>, String> {
        assert!(task.truncate_to <= self.cache.len(), "cannot keep slots that are not there");
        assert!(!task.feed.is_empty() && task.draft > 0);
        assert_eq!(task.position + 1, task.truncate_to + task.feed.len());
        self.cache.truncate(task.truncate_to);
        let mut window: Vec<DraftToken> = Vec::new();
        if self.unknown.is_some_and(|id| task.feed.contains(&id)) {
            return Ok(window);
        }
        self.cache.extend(&task.feed);
        let length = if self.unruly { task.draft + 2 } else { task.draft };
        loop {
            let id = self.script.drafter(&self.cache);
            window.push(id.into());
            let unknown = self.unknown == Some(id);
            if window.len() == length || unknown || (id < ENDS && !self.unruly) {
                return Ok(window);
            }
            self.cache.push(id);
        }
    }
}
