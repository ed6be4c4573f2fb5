use std::collections::BTreeSet;

use super::*;
use specreel_speculate::{Acceptance, Drafter, Shape};

#[test]
fn every_method_of_every_row_exists_and_takes_its_values() {
    let mut rows = 0;
    for paper in papers().unwrap() {
        for table in &paper.tables {
            for row in &table.rows {
                let place = format!("{} {} {}", paper.name, table.number, row.label);
                assert_eq!(row.method.is_some(), row.missing.is_empty(), "{place}");
                match row.method() {
                    Ok(method) => assert_eq!(method.is_some(), row.method.is_some()),
                    Err(error) => panic!("{place}: {error}"),
                }
                rows += 1;
            }
        }
    }
    assert!(rows > 200, "{rows}");
}

#[test]
fn every_table_compares_what_it_shows() {
    for paper in papers().unwrap() {
        let mut seen = BTreeSet::new();
        for table in &paper.tables {
            let place = format!("{} {} {}", paper.name, table.number, table.part);
            assert!(seen.insert((&table.number, &table.part)), "{place} twice");
            assert!(!table.title.ends_with('.') && !table.setting.ends_with('.'), "{place}");
            let profiles = specreel_modelled::names();
            assert!(table.profile.as_deref().is_none_or(|name| profiles.contains(&name)), "{place}");
            for measure in table.compared() {
                assert!(table.columns.contains(measure), "{place}: {measure:?} is not shown");
                let values: BTreeSet<u64> =
                    table.rows.iter().filter_map(|row| row.paper_value(*measure)).map(f64::to_bits).collect();
                assert!(values.len() > 1, "{place}: {measure:?} has nothing to compare");
            }
            for row in &table.rows {
                let own = row.figures.keys().chain(row.because.keys()).chain(table.because.keys());
                let always = [Measure::Modelled, Measure::Replayed];
                let unknown: Vec<_> =
                    own.filter(|m| !table.columns.contains(m) && !always.contains(m)).collect();
                assert_eq!(unknown, Vec::<&Measure>::new(), "{place} {}", row.label);
            }
            for (at, row) in table.rows.iter().enumerate().filter(|(_, row)| row.method.is_some()) {
                let settings =
                    |row: &Row| (row.method().ok(), row.frames, row.head.clone(), row.step, row.first_steps);
                let same = table.rows[..at].iter().find(|other| settings(other) == settings(row));
                assert!(same.is_none(), "{place}: {} runs what {} does", row.label, same.unwrap().label);
            }
            let labels: BTreeSet<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
            assert_eq!(labels.len(), table.rows.len(), "{place}: two rows have one name");
        }
    }
}

#[test]
fn papers_and_tables_are_found_by_name() {
    let found = find("LVSpec", Some("f7")).unwrap();
    assert!(!found.is_empty() && found.iter().all(|(p, t)| p.name == "lvspec" && t.place() == "figure 7"));
    assert!(find("lvspec", None).unwrap().len() > found.len());
    let papers: BTreeSet<&str> = find("all", None).unwrap().iter().map(|(p, _)| p.name.as_str()).collect();
    assert_eq!(papers.len(), 5);
}

/// Figures of runs are in the tables, which are generated. Sentences explain them, and would go stale.
#[test]
fn sentences_have_no_figures_of_runs() {
    // A share, a decimal fraction, or a time.
    let figure = |text: &str| {
        let number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
        let words: Vec<&str> = text.split_whitespace().collect();
        let unit =
            |at: usize| words.get(at + 1).is_some_and(|next| next.starts_with('%') || next.starts_with("ms"));
        let fraction = |word: &str| word.trim_end_matches(['.', ',', ';', ')']).contains('.');
        words.iter().enumerate().any(|(at, word)| number(word) && (fraction(word) || unit(at)))
    };
    assert!(figure("By 2 % with one") && figure("loses 0.4 drafts") && figure("takes 40 ms"));
    let clauses = |text: &'static str| {
        text.split(". ").flat_map(|part| part.split("; ")).flat_map(|part| part.split(", "))
    };
    assert!(!figure("Of 10 drafts a third passes.") && !figure("A pass of 25 rows (figure 7)."));
    for paper in papers().unwrap() {
        for table in &paper.tables {
            let rows = table.rows.iter().flat_map(|row| row.because.values().chain([&row.deviates]));
            for text in table.because.values().chain(rows) {
                // What the paper says of itself stays as it is.
                let own = clauses(text).filter(|clause| !clause.contains("paper"));
                for clause in own {
                    assert!(!figure(clause), "{} {}: {clause}", paper.name, table.number);
                }
            }
        }
    }
}

#[test]
fn unknown_papers_and_tables_are_listed() {
    let failure = find("lvspek", None).unwrap_err();
    assert_eq!((failure.class, failure.error.as_str()), (FailureClass::Usage, "unknown paper `lvspek`"));
    let hint = "did you mean `lvspec`? expected one of: lvspec, specvlm, parallelvlm, std, sparrow, all";
    assert_eq!(failure.hint.unwrap(), hint);
    let failure = find("std", Some("9")).unwrap_err();
    assert_eq!(failure.error, "no table `9` of std is measured");
    assert_eq!(failure.hint.unwrap(), "expected one of: 1, F1 (F is a figure, T a theorem)");
    assert!(find("all", Some("1")).unwrap_err().error.contains("--table"));
}

#[test]
fn a_key_names_method_and_condition() {
    let plain = Condition::default();
    assert_eq!(plain.key("naive", &[]), "naive");
    let warm = Condition { temperature: 1.0, frames: Some(4), head: Some("other".into()) };
    let set = ["shape.length=3".to_owned()];
    assert_eq!(warm.key("naive", &set), "naive shape.length=3 --frames 4 --temperature 1 --drafter other");
}

#[test]
fn a_place_stands_for_figures_and_uncompared_rows_have_none() {
    let row = |text: &str| -> Row { toml::from_str(&format!("label = \"a\"\n{text}")).unwrap() };
    assert_eq!(row("figures = { tau = 2.5 }").paper_value(Measure::Tau), Some(2.5));
    assert_eq!(row("rank = 2").paper_value(Measure::Tau), Some(-2.0));
    assert_eq!(row("figures = { tau = 2.5 }\ncompared = false").paper_value(Measure::Tau), None);
    assert_eq!(row("").paper_value(Measure::Tau), None);
}

#[test]
fn rows_have_the_papers_own_settings() {
    let of = |paper: &str, number| {
        let tables = find(paper, Some(number)).unwrap();
        let rows = tables.into_iter().flat_map(|(_, table)| &table.rows);
        let methods = rows.filter_map(|row| Some((row.label.as_str(), row.method().unwrap()?.method)));
        methods.collect::<Vec<_>>()
    };
    // Sparrow, section 4: 30-4-8 on L20, 48-5-10 on A800; SpecVLM drafts with the target itself (appendix C).
    for (tables, wanted) in [(["2", "3"], (30, 4, 8)), (["4", "6"], (48, 5, 10))] {
        for (label, method) in tables.into_iter().flat_map(|number| of("sparrow", number)) {
            match (label, &method.shape) {
                ("SpecVLM", _) => assert!(matches!(method.drafter, Drafter::Target { .. })),
                (_, &Shape::DynamicTree { total, depth, width, .. }) => {
                    assert_eq!((total, depth, width), wanted, "{label}");
                }
                (_, shape) => panic!("{label} has the shape {shape:?}"),
            }
        }
    }
    // LVSpec, section 4 and appendix C: FLY's window are the drafts after a mismatch (our length counts it as well), 4 of 10; its
    // threshold is 0.1 for Qwen2.5-VL-32B. With a window of 0 it would be FLY⊖.
    for (label, method) in of("lvspec", "1").into_iter().chain(of("lvspec", "F7")) {
        if let Acceptance::Window { length, .. } = &method.acceptance {
            let window =
                label.split_once("window ").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
            assert_eq!(*length, 1 + window.unwrap_or(4), "{label}");
        }
    }
    let (_, fly) = of("lvspec", "1").into_iter().find(|(label, _)| *label == "FLY").unwrap();
    assert!(matches!(fly.acceptance, Acceptance::Window { threshold, .. } if threshold == 0.1), "{fly:?}");
}
