use super::*;
use crate::paper::catalog;

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
