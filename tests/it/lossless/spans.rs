//! Prompts with text between the frames, so that the visual tokens are in several spans: the time stamps of families that write
//! them, and a token before every frame pair of the others.

use std::ops::Range;

use specreel_model::{
    decoder::{AttentionProbe, AttentionStats, Taps},
    draft_head::Recipe,
};
use specreel_speculate::{Acceptance, Drafter, Method, Stamps};
use specreel_tensor::{VisualSpans, WeightType};

use super::{FAMILIES, GREEDY, WHOLE, context, method, support::Bench};

fn bench(family: &[&str]) -> Bench {
    let mut bench = Bench::new(family[0], family[family.len() - 1], WeightType::F32, 1);
    if bench.prompt().stamps.is_empty() {
        bench.split_video();
    }
    let prompt = bench.prompt();
    assert_eq!((prompt.visual.ranges().len(), prompt.stamps.len()), (4, 4));
    // A stamp is text, and no row belongs to two of them.
    let stamps: Vec<usize> = prompt.stamps.iter().flatten().flat_map(Clone::clone).collect();
    assert!(stamps.is_sorted_by(|a, b| a < b) && stamps.iter().all(|row| prompt.is_text(*row)));
    assert_eq!(prompt.visual.len(), bench.relevance_states().len());
    bench
}

/// All contexts, each with a drafter that it goes with.
pub fn methods(keep: f64) -> Vec<Method> {
    let (model, own) = (&Drafter::Model {}, &Drafter::SELF);
    let [sparrow, msd, vispec, hivis, eagle3, mtp, dflash, _] =
        &Recipe::ALL.map(|recipe| Drafter::Head { recipe });
    [
        (model, "full"),
        (model, "random KEEP seed=3"),
        (own, "random KEEP seed=7 positions='compact'"),
        (own, "uniform KEEP"),
        (model, "frames KEEP"),
        (own, "attention KEEP mass=0.5"),
        (model, "variation layers=20 KEEP depth=0.5"),
        (own, "streaming first=1 last=2"),
        (model, "dycoke KEEP"),
        (model, "fastvid KEEP"),
        (own, "top_k_kv KEEP rows='sparse'"),
        (sparrow, "none"),
        (sparrow, "full"),
        (msd, "uniform KEEP"),
        (vispec, "full"),
        (vispec, "uniform KEEP"),
        (hivis, "none"),
        (eagle3, "full"),
        (eagle3, "uniform KEEP"),
        (mtp, "full"),
        (mtp, "uniform KEEP"),
        (dflash, "full"),
        (dflash, "uniform KEEP"),
    ]
    .map(|(drafter, words)| {
        let context = context(&words.replace("KEEP", &format!("keep={keep:?}")));
        method(drafter.clone(), context, 4, Acceptance::Exact {})
    })
    .into_iter()
    .flat_map(with_either_stamps)
    .collect()
}

/// A method as it is, and one that drops the stamps of frames that its drafter does not see.
fn with_either_stamps(method: Method) -> Vec<Method> {
    match method.with_set("context.stamps=drop") {
        Ok(dropping) => vec![method, dropping],
        // A drafter that sees everything needs every stamp.
        Err(_) => vec![method],
    }
}

/// All contexts on several spans, and the relevances of a loose rule, which are cosines.
pub fn are_lossless(bench: &mut Bench, limit: usize) {
    super::are_lossless(bench, GREEDY, limit, methods(0.4));
    let loose = bench.write(&Method::preset("lvspec").unwrap(), GREEDY, limit);
    let relevances = loose.steps.iter().flat_map(|step| &step.tokens).filter_map(|token| token.relevance);
    assert!(relevances.clone().count() > 0 && relevances.clone().all(|r| r.abs() <= 1.0 + 1e-5));
}

#[test]
fn several_spans_are_lossless() {
    FAMILIES.iter().for_each(|family| are_lossless(&mut bench(family), 40));
}

/// A drafter that is the target and sees all visual tokens at their positions drafts what the target would write.
#[test]
fn a_self_drafter_that_keeps_everything_is_always_right() {
    let mut accepted = 0;
    for family in FAMILIES {
        let mut bench = bench(family);
        for words in WHOLE.into_iter().chain(["random keep=1.0 seed=3", "attention keep=1.0 mass=0.5"]) {
            let method = method(Drafter::SELF, context(words), 3, Acceptance::Exact {});
            let written = bench.write(&method, GREEDY, 24);
            // The last step may be cut short by the end of the text.
            let (_, steps) = written.steps.split_last().unwrap();
            assert!(steps.iter().all(|step| step.accepted == 3), "{method:?} {:?}", written.steps);
            accepted += written.accepted;
        }
    }
    assert!(accepted > 60, "{accepted}");
}

#[test]
fn contexts_drop_visual_rows_and_unseen_stamps() {
    let mut dropped = 0;
    for family in FAMILIES {
        let mut bench = bench(family);
        for method in methods(0.4) {
            let (kept, rows) = bench.rows(&method);
            let prompt = bench.prompt();
            let visual: Vec<usize> = prompt.visual.rows().collect();
            let drops = method.context.stamps() == Stamps::Drop;
            let keeps = |row: &usize| match (visual.iter().position(|v| v == row), &kept) {
                (Some(token), Some(kept)) => kept.contains(&token),
                (None, Some(kept)) if drops => {
                    let holds = |stamp: &Vec<_>| stamp.iter().any(|rows: &Range<usize>| rows.contains(row));
                    let frame = prompt.stamps.iter().position(holds);
                    let of_frame = |token: &usize| Some(token * 4 / visual.len()) == frame;
                    frame.is_none() || kept.iter().any(of_frame)
                }
                _ => true,
            };
            let expected: Vec<usize> = (0..prompt.ids.len() - 1).filter(keeps).collect();
            assert_eq!(rows, expected, "{method:?}");
            let stamps = prompt.stamps.iter().flatten().flat_map(Clone::clone);
            dropped += stamps.filter(|row| !rows.contains(row)).count();
        }
    }
    assert!(dropped > 20, "{dropped} stamps");
}

/// Attention on several spans is the part of the attention on all slots that falls on them.
#[test]
fn a_probe_sees_its_spans_only() {
    for family in FAMILIES {
        let mut bench = bench(family);
        let spans = bench.prompt().visual.clone();
        let mut look = |spans: VisualSpans| -> AttentionStats {
            let probe = Some(AttentionProbe { spans, by_head: true });
            bench.feed(&[3, 4, 5], &Taps { probe, ..Taps::default() }).attention.unwrap()
        };
        let slots = spans.end();
        let (some, all) = (look(spans.clone()), look(VisualSpans::from(0..slots)));
        let picked: Vec<f32> =
            all.by_head.chunks_exact(slots).flat_map(|head| spans.rows().map(|row| head[row])).collect();
        assert_eq!(some.by_head, picked);
        let first = look(VisualSpans::from(spans.ranges().next().unwrap()));
        let bounds = some.peaks.iter().zip(&all.peaks).zip(&first.peaks);
        assert!(bounds.clone().count() == 3);
        for ((some, all), first) in bounds {
            assert!(some <= all && first <= some && *some > 0.0);
        }
    }
}
