use proptest::prelude::*;

use super::*;

const WIDTH: usize = 12;

fn history(processors: &Processors, prompt: &[u32], text: &[u32]) -> Option<History> {
    let mut history = History::new(processors, prompt)?;
    history.advance(text);
    Some(history)
}

fn processed(processors: &Processors, prompt: &[u32], text: &[u32], drafts: &[u32]) -> Vec<f32> {
    let mut logits: Vec<f32> = (0..WIDTH).map(|id| id as f32 - 5.5).collect();
    if let Some(history) = history(processors, prompt, text) {
        history.apply(&mut logits, drafts);
    }
    logits
}

/// The ids that a processor changed, with the difference.
fn changes(processors: &Processors, prompt: &[u32], text: &[u32]) -> Vec<(u32, f32)> {
    let plain = processed(&Processors::default(), prompt, text, &[]);
    let after = processed(processors, prompt, text, &[]);
    let pairs = plain.iter().zip(&after).zip(0..);
    pairs.filter(|((a, b), _)| a != b).map(|((a, b), id)| (id, b - a)).collect()
}

#[test]
fn each_control_changes_what_it_says() {
    let of = |change: fn(&mut Processors)| {
        let mut processors = Processors::default();
        change(&mut processors);
        processors
    };
    let (prompt, text) = (&[1, 2, 3, 1][..], &[9, 2, 9, 1][..]);
    // Logits are id - 5.5.
    let bias = of(|p| p.bias = vec![(4, 2.0), (99, 1.0)]);
    assert_eq!(changes(&bias, prompt, text), [(4, 2.0)]);
    let repetition = of(|p| p.repetition_penalty = 2.0);
    assert_eq!(changes(&repetition, prompt, text), [(1, -4.5), (2, -3.5), (3, -2.5), (9, -1.75)]);
    let window = of(|p| (p.repetition_penalty, p.repetition_window) = (2.0, 2));
    assert_eq!(changes(&window, prompt, text), [(1, -4.5), (9, -1.75)]);
    // 9 1 follows; 1 was followed by 2 and by 9.
    let ngram = of(|p| p.no_repeat_ngram = 2);
    assert_eq!(changes(&ngram, prompt, text), [(2, f32::NEG_INFINITY), (9, f32::NEG_INFINITY)]);
    let single = of(|p| p.no_repeat_ngram = 1);
    assert_eq!(changes(&single, prompt, text).len(), 4);
    let presence = of(|p| p.presence_penalty = 0.5);
    assert_eq!(changes(&presence, prompt, text), [(1, -0.5), (2, -0.5), (9, -0.5)]);
    let frequency = of(|p| p.frequency_penalty = 0.5);
    assert_eq!(changes(&frequency, prompt, text), [(1, -0.5), (2, -0.5), (9, -1.0)]);
}

#[test]
fn dry_counts_the_tokens_that_are_repeated() {
    let mut processors = Processors {
        dry: Dry { multiplier: 1.0, base: 2.0, allowed: 2, ..Dry::default() },
        ..Processors::default()
    };
    // 1 2 3 was followed by 4, and 2 3 by 5.
    let (prompt, text) = (&[1, 2, 3, 4, 2, 3, 5][..], &[1, 2, 3][..]);
    assert_eq!(changes(&processors, prompt, text), [(4, -2.0), (5, -1.0)]);
    processors.dry.window = 7;
    assert_eq!(changes(&processors, prompt, text), [(5, -1.0)]);
    processors.dry.window = 0;
    processors.dry.breakers = vec![2];
    assert_eq!(changes(&processors, prompt, text), []);
    processors.dry.breakers = vec![4];
    assert_eq!(changes(&processors, prompt, text), [(5, -1.0)]);
    // However long the repetition, the penalty is a number.
    processors.dry.breakers.clear();
    let logits = processed(&processors, &[7; 4000], &[], &[]);
    assert!(logits[7] < -1e30 && logits[7].is_finite());
}

#[test]
fn a_row_of_which_nothing_is_left_stays_as_it_was() {
    let processors = Processors { no_repeat_ngram: 1, ..Processors::default() };
    let history = history(&processors, &[0, 1], &[2]).unwrap();
    let row = |logits: &[f32]| {
        history.process(&LogitRow::whole(logits), None, 3, &[]).unwrap().values().unwrap().to_vec()
    };
    assert_eq!(row(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
    assert_eq!(row(&[1.0, f32::NEG_INFINITY, 3.0]), [1.0, f32::NEG_INFINITY, 3.0]);
}

#[test]
fn nothing_is_kept_where_nothing_is_processed() {
    let window = Processors { repetition_window: 64, ..Processors::default() };
    let breakers = Dry { breakers: vec![1], base: 3.0, ..Dry::default() };
    for idle in [Processors::default(), window, Processors { dry: breakers, ..Processors::default() }] {
        assert!(History::new(&idle, &[1]).is_none(), "{idle:?}");
    }
    for busy in [
        Processors { bias: vec![(0, 1.0)], ..Processors::default() },
        Processors { repetition_penalty: 1.1, ..Processors::default() },
        Processors { dry: Dry { multiplier: 0.8, ..Dry::default() }, ..Processors::default() },
    ] {
        assert!(History::new(&busy, &[1]).is_some(), "{busy:?}");
    }
}

prop_compose! {
    fn any_processors()(
        bias in prop::collection::vec((0u32..WIDTH as u32, -3.0f32..3.0), 0..3),
        repetition_penalty in prop::sample::select(vec![1.0f32, 0.8, 1.3]),
        repetition_window in 0usize..6,
        no_repeat_ngram in 0usize..4,
        presence_penalty in prop::sample::select(vec![0.0f32, 0.5, -0.5]),
        frequency_penalty in prop::sample::select(vec![0.0f32, 0.25]),
        multiplier in prop::sample::select(vec![0.0f32, 0.8]),
        allowed in 0usize..4,
        window in 0usize..10,
        breakers in prop::sample::select(vec![vec![], vec![3], vec![1, 4]]),
    ) -> Processors {
        let dry = Dry { multiplier, base: 1.75, allowed, window, breakers };
        Processors { bias, repetition_penalty, repetition_window, no_repeat_ngram, presence_penalty, frequency_penalty, dry }
    }
}

/// The longest run at the end of `ids` that also precedes an earlier occurrence of `next`, without a breaker.
fn repeated(ids: &[u32], next: u32, breakers: &[u32]) -> usize {
    let matching = |end: usize| {
        let pairs = ids.iter().rev().zip(ids[..end].iter().rev());
        pairs.take_while(|(a, b)| a == b && !breakers.contains(a)).count()
    };
    (0..ids.len()).filter(|&at| ids[at] == next).map(matching).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn drafts_count_as_the_text_that_they_may_become(
        processors in any_processors(),
        prompt in prop::collection::vec(0u32..6, 1..8),
        text in prop::collection::vec(0u32..6, 0..8),
        drafts in prop::collection::vec(0u32..6, 0..6),
        wrong in prop::collection::vec(0u32..6, 0..6),
    ) {
        let Some(mut history) = history(&processors, &prompt, &text) else { return Ok(()) };
        let mut ahead = vec![1.0; WIDTH];
        history.apply(&mut ahead, &drafts);
        // A rejected draft leaves nothing behind.
        history.advance(&wrong);
        history.truncate(text.len());
        history.advance(&drafts);
        let mut written = vec![1.0; WIDTH];
        history.apply(&mut written, &[]);
        prop_assert_eq!(ahead, written);
    }

    #[test]
    fn dry_is_what_its_definition_says(
        ids in prop::collection::vec(0u32..4, 1..14),
        allowed in 0usize..4,
        breakers in prop::sample::select(vec![vec![], vec![3], vec![1, 2]]),
    ) {
        let dry = Dry { multiplier: 1.0, base: 2.0, allowed, window: 0, breakers: breakers.clone() };
        let processors = Processors { dry, ..Processors::default() };
        let changed: HashMap<u32, f32> = changes(&processors, &ids, &[]).into_iter().collect();
        for next in 0..4 {
            let length = repeated(&ids, next, &breakers);
            let counts = length >= allowed.max(1) && !breakers.contains(&next);
            let penalty = if counts { -2f32.powi((length - allowed) as i32) } else { 0.0 };
            prop_assert_eq!(changed.get(&next).copied().unwrap_or(0.0), penalty, "{} of {:?}", next, &ids);
        }
    }
}
