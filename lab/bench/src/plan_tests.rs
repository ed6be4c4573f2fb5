use super::*;
use specreel_record::FailureClass;

/// Models at paths that are never read.
pub(crate) fn spec(drafter: bool) -> ModelSpec {
    ModelSpec {
        target: "t".into(),
        drafter: drafter.then(|| "d".into()),
        heads: vec!["h".into(); usize::from(drafter)],
        ..ModelSpec::default()
    }
}

pub(crate) fn find(name: &str) -> Result<Method, Failure> {
    Ok(methods::preset(name).or_else(|_| Method::find(name))?)
}

fn plan(methods: Option<&str>, sets: &[&str], sweeps: &[&str]) -> Result<Plan, Failure> {
    let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    Plan::new(methods, &texts(sets), &texts(sweeps), &spec(true), &find)
}

fn labels(plan: &Plan) -> Vec<&str> {
    plan.systems.iter().map(|s| s.label.as_str()).collect()
}

#[test]
fn the_baseline_is_first_and_never_twice() {
    assert_eq!(
        labels(&plan(Some("fly,autoregressive,naive"), &[], &[]).unwrap()),
        ["autoregressive", "fly", "naive"]
    );
    let all = plan(None, &[], &[]).unwrap();
    assert_eq!(all.systems.len(), methods::presets().count() + LabMethod::presets().len());
    assert_eq!(all, plan(Some("all"), &[], &[]).unwrap());
    assert_eq!(all.common, "");
    assert_eq!(plan(Some("naive"), &["shape.length=3"], &[]).unwrap().common, "with shape.length=3");
    let twice = plan(Some("naive, naive"), &[], &[]).unwrap();
    assert_eq!(labels(&twice), ["autoregressive", "naive"]);
    assert_eq!(twice.notes, ["naive is listed twice and runs once"]);
    // As `compare` does, `--set` changes every method that has the key.
    let some = plan(Some("naive,naive-tree"), &["shape.length=3"], &[]).unwrap();
    assert_eq!(labels(&some), ["autoregressive", "naive*", "naive-tree"]);
    assert_eq!(some.notes, ["--set shape.length=3 changes only naive"]);
}

#[test]
fn without_a_drafter_all_are_those_that_need_none() {
    let all = Plan::new(None, &[], &[], &spec(false), &find).unwrap();
    let presets = methods::presets().count() + LabMethod::presets().len();
    assert_eq!(all.systems.len() + all.skipped.len(), presets);
    assert!(all.skipped.contains(&"naive".into()) && labels(&all).contains(&"lvspec-self"));
    let failure = Plan::new(Some("naive"), &[], &[], &spec(false), &find).unwrap_err();
    assert_eq!(failure.class, FailureClass::Usage);
    assert!(failure.hint.unwrap().contains("--drafter DIR"));
}

#[test]
fn a_sweep_is_a_row_for_each_value() {
    let swept =
        plan(Some("lvspec"), &["shape.length=6"], &["acceptance.lambda=0,0.5", "acceptance.top_n=1,10"]);
    let swept = swept.unwrap();
    assert_eq!(
        labels(&swept)[1..],
        [
            "acceptance.lambda=0 acceptance.top_n=1",
            "acceptance.lambda=0 acceptance.top_n=10",
            "acceptance.lambda=0.5 acceptance.top_n=1",
            "acceptance.lambda=0.5 acceptance.top_n=10",
        ]
    );
    assert_eq!(swept.common, "lvspec with shape.length=6");
    assert!(swept.systems[1..].iter().all(|s| s.lab.method.draft_length() == Some(6)));
    // The same value written in two ways is one row.
    assert_eq!(plan(Some("lvspec"), &[], &["acceptance.lambda=0.5,.5"]).unwrap().systems.len(), 2);
}

#[test]
fn a_pruned_target_is_a_system_like_any_other() {
    let swept = plan(Some("fastv"), &[], &["pruner.keep=0.1,0.5", "pruner.layer=1"]).unwrap();
    assert_eq!(labels(&swept)[1..], ["pruner.keep=0.1 pruner.layer=1", "pruner.keep=0.5 pruner.layer=1"]);
    assert!(swept.systems[1..].iter().all(|s| s.lab.pruner.is_some() && !s.lab.lossless()));
    let both = plan(Some("naive,pdrop"), &["shape.length=3"], &[]).unwrap();
    assert_eq!(labels(&both), ["autoregressive", "naive*", "pdrop"]);
    assert!(both.systems[2].lab.pruner.is_some());
}

#[test]
fn a_file_that_shares_a_name_gets_a_number() {
    let mut plan = plan(Some("naive"), &[], &[]).unwrap();
    plan.add("naive", methods::preset("fly").unwrap().into());
    plan.add("naive", Method::preset("lenient").unwrap().into());
    assert_eq!(labels(&plan), ["autoregressive", "naive", "naive (2)", "naive (3)"]);
}

#[test]
fn an_invalid_choice_is_refused_before_anything_runs() {
    for (methods, sets, sweeps, part) in [
        (Some(""), &[][..], &[][..], "--methods \"\" has an empty name"),
        (Some("naive,,fly"), &[], &[], "has an empty name"),
        (Some("lvspce"), &[], &[], "unknown method `lvspce`"),
        (None, &[], &["acceptance.lambda=1"], "--sweep needs one method"),
        (Some("fly,lvspec"), &[], &["acceptance.lambda=1"], "--sweep needs one method"),
        (
            Some("lvspec"),
            &[],
            &["acceptance.lamda=1"],
            "--sweep acceptance.lamda=1 for method `lvspec`: unknown key",
        ),
        (
            Some("lvspec"),
            &[],
            &["acceptance.lambda=0.1,abc"],
            "--sweep acceptance.lambda=abc for method `lvspec`: ",
        ),
        (Some("lvspec"), &[], &["acceptance.lambda=2"], "must be 0 to 1"),
        (
            Some("naive"),
            &["acceptance.lambda=1"],
            &[],
            "--set acceptance.lambda=1 applies to none of the methods",
        ),
    ] {
        let failure = plan(methods, sets, sweeps).unwrap_err();
        assert!(failure.error.contains(part), "{}", failure.error);
        assert_eq!(failure.class, FailureClass::Usage, "{}", failure.error);
        assert!(failure.hint.is_some());
    }
}
