//! The machine's model of a worker's cache.

/// The ids in a cache after the prompt without its last token. Slot 0 is the prompt's last token.
#[derive(Clone, Debug, Default)]
pub(super) struct Cached(Vec<u32>);

impl Cached {
    /// How many slots to keep and which ids to feed so that the cache holds `text`. Slots from `fresh` on are fed again even
    /// if they hold the right ids, because their rows are needed.
    pub(super) fn toward<'t>(&self, text: &'t [u32], fresh: usize) -> (usize, &'t [u32]) {
        let common = self.0.iter().zip(text).take_while(|(have, want)| have == want).count();
        let keep = common.min(fresh);
        (keep, &text[keep..])
    }

    /// Note that the worker kept `keep` slots and then fed `ids`.
    pub(super) fn fed(&mut self, keep: usize, ids: impl IntoIterator<Item = u32>) {
        self.0.truncate(keep);
        self.0.extend(ids);
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> &[u32] {
        &self.0
    }
}
