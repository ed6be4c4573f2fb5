use super::*;
use crate::paper::catalog;
use specreel_speculate::{Acceptance, VisualContext};

fn models(drafter: bool) -> ModelSpec {
    ModelSpec { heads: Vec::new(), ..crate::plan::tests::spec(drafter) }
}

fn work(name: &str, table: Option<&str>, drafter: bool) -> Work {
    Work::of(&catalog::find(name, table).unwrap(), &models(drafter)).unwrap()
}

#[test]
fn a_method_of_several_tables_runs_once() {
    let all = work("all", None, true);
    for group in &all.groups {
        let mut labels: Vec<&str> = group.systems.iter().map(|s| s.label.as_str()).collect();
        assert!(labels[0].starts_with(BASELINE), "{labels:?}");
        let count = labels.len();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), count);
    }
    let rows: usize = catalog::papers().unwrap().iter().flat_map(|p| &p.tables).map(|t| t.rows.len()).sum();
    assert!(all.runs() < rows as u64, "{} of {rows}", all.runs());
}

#[test]
fn every_condition_has_its_own_baseline() {
    // What the paper measures at T = 1 needs draft heads.
    let models = ModelSpec { heads: specreel_demo::demo(None).unwrap().heads, ..models(true) };
    let sparrow = Work::of(&catalog::find("sparrow", None).unwrap(), &models).unwrap();
    let warm = sparrow.groups.iter().find(|group| group.condition.temperature > 0.0).unwrap();
    assert_eq!(warm.systems[0].label, "autoregressive --temperature 1");
    assert!(sparrow.groups.iter().any(|group| group.condition.frames == Some(4)));
}

#[test]
fn what_the_models_cannot_do_is_skipped_with_a_reason() {
    let alone = work("std", None, false);
    assert!(alone.skipped.is_empty() && alone.runs() > 3);
    let alone = work("specvlm", Some("4"), false);
    assert_eq!(alone.groups.len(), 0);
    assert!(alone.skipped["naive"].contains("--drafter is missing"), "{:?}", alone.skipped);
}

#[test]
fn what_is_left_to_chance_is_drawn_anew_on_every_clip() {
    let all = work("all", None, true);
    let systems = || all.groups.iter().flat_map(|group| &group.systems);
    let (by_chance, others): (Vec<&System>, Vec<&System>) = systems().partition(|system| system.draws() > 1);
    let random = |system: &&System| system.label.contains("random");
    assert!(by_chance.len() >= 15 && by_chance.iter().all(random) && !others.iter().any(random));
    assert_eq!(all.runs(), others.len() as u64 + 3 * by_chance.len() as u64);
    for system in by_chance {
        let of = |clip, draw| {
            let lab = system.drawn(clip, draw).lab;
            let rule = match lab.method.acceptance {
                Acceptance::Random { seed, .. } => Some(seed),
                _ => None,
            };
            match lab.method.context {
                VisualContext::Random { seed, .. } => (Some(seed), rule),
                _ => (None, rule),
            }
        };
        let seeds: Vec<_> = (1000..1020).flat_map(|clip| (0..3).map(move |draw| of(clip, draw))).collect();
        let mut different = seeds.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), seeds.len(), "{}", system.label);
    }
    let naive = systems().find(|system| system.label == "naive").unwrap();
    assert_eq!(naive.drawn(1000, 0), *naive);
}

#[test]
fn rows_of_a_trained_head_run_with_that_head_alone() {
    let table = catalog::find("sparrow", Some("6")).unwrap();
    let with = |name: &str| {
        let head = specreel_demo::demo(None).unwrap().heads[0].with_file_name(name);
        Work::of(&table, &ModelSpec { heads: vec![head], ..models(true) }).unwrap()
    };
    let work = with("no-ivsb");
    assert!(work.skipped.iter().all(|(key, _)| !key.ends_with("--drafter no-ivsb")), "{:?}", work.skipped);
    let why = &work.skipped["sparrow shape.total=48 shape.width=10 --frames 4 --drafter no-vata"];
    assert!(why.starts_with("needs the draft head `no-vata`"), "{why}");
}
