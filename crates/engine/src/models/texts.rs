//! Texts that were written for other clips, in which prompt lookup searches too: the captions of one folder, and the segments of one
//! video, share their phrases.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::cache::ContextKey;

/// Most tokens that are kept, of the latest texts.
const MOST: usize = 16 << 10;
/// Follows each text: no token, so nothing is repeated beyond it.
const END: u32 = u32::MAX;

/// The texts of one target, with what it had read.
#[derive(Default)]
pub(crate) struct Texts(Mutex<VecDeque<(ContextKey, Vec<u32>)>>);

impl Texts {
    /// Keep a finished text.
    pub fn add(&self, key: &ContextKey, ids: &[u32]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| other != key);
        all.push_back((key.clone(), ids.to_vec()));
        while all.len() > 1 && all.iter().map(|(_, ids)| ids.len()).sum::<usize>() > MOST {
            all.pop_front();
        }
    }

    /// The texts for all other contexts, the latest last: to find a context's own text would be no achievement.
    pub fn before(&self, key: &ContextKey) -> Vec<u32> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|(other, _)| other != key);
        others.flat_map(|(_, ids)| ids.iter().copied().chain([END])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunRequest, cache::ClipKey};
    use specreel_video::Sampling;

    #[test]
    fn texts_of_other_contexts_are_found_and_the_oldest_dropped() {
        let texts = Texts::default();
        let clip = ClipKey {
            path: "clip.mp4".into(),
            bytes: 1,
            modified: None,
            span: None,
            sampling: Sampling::Auto,
            max_pixels: None,
            max_visual_tokens: None,
        };
        let reading = |prompt: &str| RunRequest { prompt: prompt.into(), ..RunRequest::default() }.reading();
        let key = |prompt: &str| (clip.clone(), reading(prompt));
        texts.add(&key("a"), &[1, 2]);
        texts.add(&key("b"), &[3]);
        texts.add(&key("a"), &[4, 5]);
        assert_eq!(texts.before(&key("c")), [3, END, 4, 5, END]);
        assert_eq!(texts.before(&key("a")), [3, END]);
        texts.add(&key("d"), &vec![6; MOST]);
        assert_eq!(texts.before(&key("c")).len(), MOST + 1);
        assert!(texts.before(&key("d")).is_empty());
    }
}
