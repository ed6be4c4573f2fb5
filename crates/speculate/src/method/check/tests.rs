use super::*;
use crate::method::preset::tests::of_the_laboratory;
use crate::{EntropyOver, StateAt};

/// A preset with these changes, between spaces.
fn with(sets: &str) -> Result<Method, MethodError> {
    Method::preset("lvspec").unwrap().with_sets(sets.split(' '))
}

fn base(acceptance: Acceptance) -> Method {
    Method { acceptance, ..Method::preset("naive").unwrap() }
}

#[test]
fn lossless_truth_table() {
    let visual = |lambda, shift_tolerant| Acceptance::Visual {
        lambda,
        top_n: 10,
        shift_tolerant,
        at: StateAt::Before,
        always_strict: vec![],
    };
    let window = |length| Acceptance::Window { length, threshold: 0.2, entropy: EntropyOver::Top3 };
    let both = |a, b| Acceptance::AllOf { rules: vec![a, b] };
    // The chain is 5 long.
    let table = [
        (Acceptance::Exact {}, true),
        (Acceptance::Sampled {}, true),
        (visual(0.0, false), true),
        (visual(0.0, true), false),
        (visual(0.19, false), true),
        (visual(0.2, false), false),
        (visual(0.7, false), false),
        (window(4), false),
        (window(5), false),
        (window(6), true),
        (Acceptance::Random { probability: 0.0, seed: 1 }, true),
        (Acceptance::Random { probability: 0.01, seed: 1 }, false),
        (Acceptance::Lenient { rho: 1.0 }, false),
        (Acceptance::Lenient { rho: 0.0 }, false),
        (Acceptance::Entropy { threshold: 9.0, entropy: EntropyOver::Top3 }, false),
        (Acceptance::Typical { epsilon: 1.0, delta: 1.0 }, false),
        (Acceptance::Divergence { threshold: 0.0 }, false),
        (Acceptance::Cost { limit: 0.0, ratio: 1.0 }, false),
        (Acceptance::Glance { lambda: 0.19 }, true),
        (Acceptance::Glance { lambda: 0.2 }, false),
        (both(Acceptance::Lenient { rho: 0.1 }, Acceptance::Glance { lambda: 0.19 }), true),
        (both(Acceptance::Lenient { rho: 0.1 }, Acceptance::Glance { lambda: 0.5 }), false),
    ];
    for (acceptance, lossless) in table {
        assert_eq!(base(acceptance.clone()).lossless(), lossless, "{acceptance:?}");
    }
}

/// No method prunes the target: without a drafter nothing has a context.
#[test]
fn a_target_that_decodes_alone_reads_everything() {
    let plain = Method::preset("autoregressive").unwrap();
    assert!(plain.lossless() && plain.is_autoregressive());
    let full = plain.with_set("context.kind=full").unwrap();
    assert!(full.lossless() && full.is_autoregressive());
    for kind in ["uniform", "attention", "dycoke", "fastvid"] {
        let mass = if kind == "attention" { "context.mass=0.5" } else { "context.keep=1" };
        let sets = [&format!("context.kind={kind}"), "context.keep=1", mass];
        let error = plain.with_sets(sets).unwrap_err().to_string();
        assert!(error.contains(&format!("`drafter = none` and `context = {kind}` clash")), "{error}");
    }
    assert!(of_the_laboratory("sd-dycoke").lossless());
}

#[test]
fn a_file_of_the_laboratory_is_refused_with_where_it_runs() {
    let text = Method::default().to_toml() + "pruner = { kind = \"fastv\", keep = 0.5, layer = 2 }\n";
    let error = Method::from_toml(&text, std::path::Path::new("fastv.toml")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "method file fastv.toml: `pruner` drops visual tokens within the target, which only the laboratory does"
    );
    assert!(error.hint().contains("specreel-lab"), "{}", error.hint());
}

#[test]
fn presets_are_marked_as_documented() {
    let lossless = Method::presets().iter().filter(|m| m.lossless()).map(|m| m.name.as_str());
    let known = "autoregressive naive naive-auto auto naive-tree text-only lookup specvlm specvlm-self sparrow msd vispec \
        hivis eagle3 mtp dflash assistant parallelvlm std";
    assert!(lossless.eq(known.split(' ')), "{known}");
}

#[test]
fn values_out_of_range_are_refused() {
    let rules = "acceptance.kind=all_of acceptance.rules=";
    let none = format!("{rules}[]");
    let exact = format!(r#"{rules}[{{kind="exact"}},{{kind="lenient",rho=0.1}}]"#);
    let twice = format!(r#"{rules}[{{kind="glance",lambda=1}},{{kind="glance",lambda=0.1}}]"#);
    let loosening = "but must be two to four loosening rules";
    let table: &[(&str, String)] = &[
        ("acceptance.lambda=nan", "`acceptance.lambda` is NaN, but must be 0 to 1".into()),
        ("acceptance.lambda=-0.1", "`acceptance.lambda` is -0.1, but must be 0 to 1".into()),
        ("acceptance.top_n=0", "`acceptance.top_n` is 0, but must be at least 1".into()),
        (
            r#"shape.kind=static_tree shape.nodes=["00"]"#,
            "`shape.nodes` is \"00\", but must be 1 to 63 nodes".into(),
        ),
        (&none, format!("`acceptance.rules` is [], {loosening}")),
        (&exact, format!("`acceptance.rules` is [exact, lenient], {loosening}")),
        (&twice, format!("`acceptance.rules` is [glance, glance], {loosening} of different kinds")),
        (r#"acceptance.always_strict=["Not"]"#, "`acceptance.always_strict` is \"Not\"".into()),
    ];
    for (sets, sentence) in table {
        let error = with(sets).unwrap_err();
        assert!(error.to_string().contains(sentence), "{sets:?}: {error}");
        assert!(!error.hint().is_empty());
        assert_eq!(error.class().exit_code(), 2);
    }
}

#[test]
fn clashes_name_both_choices_and_the_way_out() {
    let table: &[(&str, &str, &str)] = &[
        (
            "drafter.kind=none",
            "`drafter = none` and `acceptance = visual` clash: without a drafter there are no drafts to accept",
            "pick acceptance = exact, or drafter = model or self",
        ),
        (
            "drafter.kind=none acceptance.kind=exact context.kind=attention context.mass=0.5 context.keep=0.1",
            "`drafter = none` and `context = attention` clash: without a drafter nothing sees less: the target reads all visual tokens",
            "pick context = none, or drafter = model or self",
        ),
    ];
    for (sets, sentence, hint) in table {
        let error = with(sets).unwrap_err();
        assert!(error.to_string().ends_with(sentence), "{error}");
        assert_eq!(error.hint(), *hint);
    }
    let table: &[(&str, &str)] = &[
        ("context.kind=top_k_kv context.keep=0.5", "`drafter = model` and `context = top_k_kv` clash"),
        ("drafter.kind=early_exit drafter.depth=0.5", "`drafter = early_exit` and `context = uniform` clash"),
        ("drafter.kind=lookup drafter.ngram=3", "`drafter = lookup` and `context = uniform` clash"),
        (
            "drafter.kind=lookup drafter.ngram=3 context.kind=none shape.kind=two_branch shape.length=4",
            "`drafter = lookup` and `shape = two_branch` clash",
        ),
        (
            "drafter.kind=lookup drafter.ngram=3 context.kind=none acceptance.kind=divergence acceptance.threshold=1",
            "`drafter = lookup` and `acceptance = divergence` clash",
        ),
        ("shape.length=auto", "`shape = chain` and `acceptance = visual` clash"),
        ("context.kind=auto", "`context = auto` and `acceptance = visual` clash"),
        (
            "context.kind=auto acceptance.kind=exact drafter.kind=lookup drafter.ngram=3",
            "`drafter = lookup` and `context = auto` clash",
        ),
        ("drafter.kind=auto acceptance.kind=exact", "`drafter = auto` and `context = uniform` clash"),
        ("drafter.kind=auto context.kind=auto", "`drafter = auto` and `acceptance = visual` clash"),
        (
            "drafter.kind=auto context.kind=auto acceptance.kind=sampled",
            "`drafter = auto` and `acceptance = sampled` clash",
        ),
        (
            "drafter.kind=auto context.kind=auto acceptance.kind=exact shape.kind=static_tree",
            "`drafter = auto` and `shape = static_tree` clash",
        ),
        (
            "drafter.kind=auto context.kind=auto acceptance.kind=exact schedule.kind=parallel schedule.window=4",
            "`drafter = auto` and `schedule = parallel` clash",
        ),
        ("schedule.kind=parallel schedule.window=4", "`acceptance = visual` and `schedule = parallel` clash"),
        (
            "acceptance.at=before schedule.kind=parallel schedule.window=4",
            "`acceptance = visual` and `schedule = parallel` clash",
        ),
        (
            "acceptance.kind=exact schedule.kind=parallel schedule.window=4 shape.kind=two_branch shape.length=4",
            "`shape = two_branch` and `schedule = parallel` clash",
        ),
        (
            "acceptance.kind=exact context.kind=full drafter.kind=none schedule.kind=parallel schedule.window=auto",
            "`drafter = none` and `schedule = parallel` clash",
        ),
        (
            "acceptance.kind=exact context.kind=none drafter.kind=lookup drafter.ngram=3 schedule.kind=parallel schedule.window=auto",
            "`drafter = lookup` and `schedule = parallel` clash",
        ),
        (
            "acceptance.kind=exact shape.gate=0.1 schedule.kind=parallel schedule.window=auto",
            "`shape = chain` and `schedule = parallel` clash",
        ),
    ];
    for (sets, sentence) in table {
        let error = with(sets).unwrap_err();
        assert!(error.to_string().contains(sentence), "{sets:?}: {error}");
        assert!(error.hint().starts_with("pick "), "{}", error.hint());
    }
    with("drafter.kind=none acceptance.kind=exact context.kind=none").unwrap();
    with("drafter.kind=none acceptance.kind=sampled context.kind=full").unwrap();
}

#[test]
fn only_a_drawn_chain_promises_less_than_its_tokens() {
    use Promise::{Distribution, Nothing, Tokens};
    let warm = Sampler { temperature: 0.8, ..Sampler::GREEDY };
    for (sets, greedy, sampled) in [
        ("acceptance.kind=exact", Tokens, Tokens),
        ("acceptance.kind=sampled", Tokens, Distribution),
        ("acceptance.kind=sampled schedule.kind=parallel schedule.window=4", Tokens, Distribution),
        ("acceptance.kind=sampled shape.kind=two_branch shape.length=4", Tokens, Tokens),
        ("acceptance.kind=sampled drafter.kind=none context.kind=full", Tokens, Tokens),
        ("acceptance.lambda=0.3", Nothing, Nothing),
    ] {
        let method = with(sets).unwrap();
        let found = (method.promise(&Sampler::GREEDY), method.promise(&warm));
        assert_eq!(found, (greedy, sampled), "{sets}");
    }
}

#[test]
fn names_are_plain() {
    for name in ["", "Mine", "a b", "a/b", "é"] {
        let method = Method { name: name.into(), ..Method::preset("naive").unwrap() };
        assert!(method.validate().is_err(), "{name}");
    }
}
