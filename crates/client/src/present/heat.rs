//! Visual tokens as values from 0 (cold) to 1 (hot), for heat maps: one value per visual token.

use specreel_record::{PromptSeen, RunLog};

/// The lowest and the highest finite score; `None` if there is none.
pub fn range(scores: &[f32]) -> Option<(f32, f32)> {
    scores.iter().copied().filter(|score| score.is_finite()).fold(None, |range, score| {
        let (low, high) = range.unwrap_or((score, score));
        Some((low.min(score), high.max(score)))
    })
}

/// Scores as values: the lowest is 0, the highest 1. If all are equal, or a score is not finite, the value is 0.
pub fn normalise(scores: &[f32]) -> Vec<f32> {
    let (low, high) = range(scores).unwrap_or_default();
    let span = f64::from(high) - f64::from(low);
    let value = |score: &f32| (f64::from(*score) - f64::from(low)) / span;
    scores.iter().map(value).map(|v| if v.is_finite() { v.clamp(0.0, 1.0) as f32 } else { 0.0 }).collect()
}

/// The scores by which the drafter's visual tokens were chosen; `None` if they were not chosen by score.
pub fn scores(prompt: &PromptSeen) -> Option<Vec<f32>> {
    let scores = prompt.scores.as_ref().filter(|scores| scores.len() == tokens(prompt))?;
    Some(normalise(scores))
}

/// 1 for the visual tokens that the drafter sees, else 0.
pub fn kept(prompt: &PromptSeen) -> Vec<f32> {
    let Some(kept) = &prompt.kept else { return vec![1.0; tokens(prompt)] };
    spread(prompt, kept.iter().map(|index| (*index, 1.0)))
}

/// The visual tokens that an emitted token resembles most, from 0.25 (the least of them) to 1; `None` if not recorded.
pub fn nearest_visual(log: &RunLog, token: usize) -> Option<Vec<f32>> {
    let (prompt, nearest) = (log.prompt()?, log.nearest_visual(token));
    let similarities: Vec<f32> = nearest.iter().map(|near| near.1).collect();
    let (low, high) = range(&similarities)?;
    let value = |similarity: f32| match high > low {
        true => 0.25 + 0.75 * (similarity - low) / (high - low),
        false => 1.0,
    };
    Some(spread(prompt, nearest.iter().map(|(index, similarity)| (*index, value(*similarity)))))
}

fn tokens(prompt: &PromptSeen) -> usize {
    prompt.grid.iter().product()
}

fn spread(prompt: &PromptSeen, values: impl Iterator<Item = (u32, f32)>) -> Vec<f32> {
    let mut all = vec![0.0; tokens(prompt)];
    for (index, value) in values {
        if let Some(place) = all.get_mut(index as usize) {
            *place = value;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{
        EventKind, Verdict,
        testing::{prompt, run, step},
    };

    #[test]
    fn scores_span_zero_to_one() {
        assert_eq!(normalise(&[2.0, 3.0, 4.0]), [0.0, 0.5, 1.0]);
        assert_eq!(normalise(&[3.0, 3.0]), [0.0, 0.0]);
        assert_eq!(normalise(&[f32::NAN, 1.0, 2.0]), [0.0, 0.0, 1.0]);
        assert_eq!((range(&[f32::NAN]), range(&[2.0, f32::INFINITY, -1.0])), (None, Some((-1.0, 2.0))));
        let wrong = PromptSeen { grid: [1, 1, 2], scores: Some(vec![1.0]), ..PromptSeen::default() };
        assert_eq!(scores(&wrong), None);
        assert_eq!(scores(&PromptSeen { scores: Some(vec![1.0, 3.0]), ..wrong }), Some(vec![0.0, 1.0]));
    }

    #[test]
    fn kept_tokens_and_looks_are_spread_over_the_grid() {
        let EventKind::Step(mut first) = step(&[("A", Verdict::Exact), (" b", Verdict::Exact)]) else {
            panic!()
        };
        first.tokens[0].nearest_visual = vec![(1, 0.9), (3, 0.5), (99, 0.4)];
        let log = run(1, [prompt(Some(vec![2, 99])), EventKind::Step(first)]);
        assert_eq!(kept(log.prompt().unwrap()), [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(kept(run(1, [prompt(None)]).prompt().unwrap()), [1.0; 4]);
        let values = nearest_visual(&log, 0).unwrap();
        assert_eq!((values[0], values[1]), (0.0, 1.0));
        assert!(values[3] > 0.25 && values[3] < 0.5, "{values:?}");
        assert_eq!(nearest_visual(&log, 1), None);
    }
}
