//! Vocabularies of heads that have rows for a part of the ids.

/// The ids of the target that the rows of a smaller LM head stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftVocabulary {
    ids: Vec<u32>,
}

impl DraftVocabulary {
    /// From the offsets `d2t` (`None` = both vocabularies are one) and, if it is known, which ids of the target are in it.
    /// Errors: the offsets are fewer or more than `size`, lead outside of the target's `vocab` ids or to one id twice, or
    /// contradict `members`.
    pub(crate) fn new(
        offsets: Option<Vec<i64>>,
        members: Option<&[i64]>,
        size: usize,
        vocab: usize,
    ) -> Result<Self, String> {
        let offsets = match offsets {
            Some(offsets) => offsets,
            None if size == vocab => vec![0; size],
            None => return Err(format!("`d2t` is missing: the LM head has {size} rows of {vocab} ids")),
        };
        if offsets.len() != size {
            return Err(format!("`d2t` has {} values, the LM head has {size} rows", offsets.len()));
        }
        let inside = |(row, offset): (i64, i64)| {
            let id = row.checked_add(offset)?;
            u32::try_from(id).ok().filter(|id| (*id as usize) < vocab)
        };
        let ids: Option<Vec<u32>> = (0..).zip(offsets).map(inside).collect();
        let ids = ids.ok_or(format!("`d2t` leads outside of the target's vocabulary of {vocab} ids"))?;
        let mut taken = vec![false; vocab];
        if ids.iter().any(|&id| std::mem::replace(&mut taken[id as usize], true)) {
            return Err("`d2t` leads to one id twice".into());
        }
        let agrees = |members: &[i64]| {
            members.len() == vocab && taken.iter().zip(members).all(|(t, m)| *t == (*m != 0))
        };
        match members.is_none_or(agrees) {
            true => Ok(Self { ids }),
            false => Err("`t2d` and `d2t` name different ids".into()),
        }
    }

    /// Rows that stand for these ids, all different.
    pub fn of(ids: Vec<u32>) -> Self {
        Self { ids }
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Number of rows of the LM head.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Rows before the first one that stands for an id from `vocab` on: such ids are never written, so neither drafted.
    pub fn rows_below(&self, vocab: usize) -> usize {
        self.ids.iter().position(|id| *id as usize >= vocab).unwrap_or(self.ids.len())
    }

    pub fn id(&self, row: u32) -> u32 {
        self.ids.get(row as usize).copied().unwrap_or(row)
    }

    /// Logits by the target's ids, `vocab` of them: minus infinity where the head has no row.
    pub fn spread(&self, logits: &[f32], vocab: usize) -> Vec<f32> {
        let mut spread = vec![f32::NEG_INFINITY; vocab];
        for (&id, &logit) in self.ids.iter().zip(logits) {
            if let Some(place) = spread.get_mut(id as usize) {
                *place = logit;
            }
        }
        spread
    }
}
