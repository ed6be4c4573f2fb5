//! What the table promises: every value that it allows is valid, every value beyond is refused, and each step of an adjustment and
//! each point of a sweep is a valid method.

use proptest::prelude::*;

use super::*;
use crate::method::preset::tests::of_the_laboratory;

/// A valid method with this kind on this axis, as TOML sets on top of a preset.
fn method_with(axis: &Axis, kind: &Kind) -> Method {
    let chosen = std::iter::once(format!("{}.kind={}", axis.name, kind.name))
        .chain(kind.keys.iter().map(|key| format!("{}.{}={}", axis.name, key.name, key.example)));
    let chosen: Vec<String> = chosen.collect();
    let all = Method::presets().iter();
    let mut fitting = all.filter_map(|preset| preset.with_sets(chosen.iter().map(String::as_str)).ok());
    fitting.next().unwrap_or_else(|| panic!("no preset goes with {} = {}", axis.name, kind.name))
}

fn ranged() -> Vec<(&'static Axis, &'static Kind, &'static Key, Range, Method)> {
    let kinds = AXES.iter().flat_map(|axis| axis.kinds.iter().map(move |kind| (axis, kind)));
    let keys = kinds.flat_map(|(axis, kind)| kind.keys.iter().map(move |key| (axis, kind, key)));
    keys.filter_map(|(axis, kind, key)| Some((axis, kind, key, key.range?, method_with(axis, kind))))
        .collect()
}

fn with(method: &Method, axis: &Axis, key: &Key, value: f64) -> Result<Method, MethodError> {
    method.with_number(axis, key, value)
}

#[test]
fn every_number_has_a_range_a_step_and_a_span_within_the_range() {
    let mut count = 0;
    for key in AXES.iter().flat_map(|axis| axis.kinds).flat_map(|kind| kind.keys) {
        let numeric = matches!(key.value, Value::Number | Value::Count | Value::CountOr(_));
        assert_eq!(key.range.is_some(), numeric && key.name != "seed", "{}", key.name);
        assert!(!key.about().is_empty(), "{}", key.name);
        let Some(range) = key.range else { continue };
        let (low, high) = key.span;
        assert!(range.contains(low) && range.contains(high) && low < high, "{}: {low} to {high}", key.name);
        assert!(key.step > 0.0 && (!key.is_count() || key.step.fract() == 0.0), "{}", key.name);
        count += 1;
    }
    assert!(count > 20, "{count} numbers");
}

#[test]
fn the_bounds_are_valid_and_what_is_beyond_them_is_refused_with_the_range() {
    for (axis, kind, key, range, method) in ranged() {
        let name = format!("{}.{} of {}", axis.name, key.name, kind.name);
        let least = if key.is_count() { 1.0 } else { 1e-3 };
        let (first, before) = match range.above_low {
            true => (range.low + least, range.low),
            false => (range.low, range.low - least),
        };
        let mut beyond = vec![before];
        with(&method, axis, key, first).unwrap_or_else(|e| panic!("{name} = {first}: {e}"));
        if range.high.is_finite() {
            let (last, after) = match range.below_high {
                true => (range.high - least, range.high),
                false => (range.high, range.high + least),
            };
            with(&method, axis, key, last).unwrap_or_else(|e| panic!("{name} = {last}: {e}"));
            beyond.push(after);
        }
        if !key.is_count() {
            beyond.extend([f64::NAN, f64::INFINITY]);
        }
        for value in beyond {
            let error = with(&method, axis, key, value).unwrap_err();
            // A count below 0 is no count at all.
            let words = if value < 0.0 && key.is_count() { key.value.words() } else { range.to_string() };
            assert!(error.to_string().contains(&words), "{name} = {value}: {error}");
            assert!(!error.hint().is_empty());
        }
    }
}

proptest! {
    #[test]
    fn every_number_in_range_is_valid(share in 0.0f64..=1.0) {
        for (axis, kind, key, range, method) in ranged() {
            let high = if range.high.is_finite() { range.high } else { range.low + 1e6 };
            let value = range.low + share * (high - range.low);
            let value = if key.is_count() { value.round() } else { value };
            prop_assume!(range.contains(value));
            let changed = with(&method, axis, key, value);
            prop_assert!(changed.is_ok(), "{} {} = {}: {:?}", kind.name, key.name, value, changed);
        }
    }
}

#[test]
fn every_step_of_an_adjustment_is_a_valid_method_until_the_bound_is_reached() {
    for (axis, kind, key, range, method) in ranged() {
        for up in [true, false] {
            let mut value: f64 = match key.example.parse() {
                Ok(value) => value,
                Err(_) => range.low,
            };
            for _ in 0..200 {
                let next = key.adjusted(value, up);
                let changed = with(&method, axis, key, next);
                assert!(changed.is_ok(), "{} {} {value} to {next}: {changed:?}", kind.name, key.name);
                assert!(if up { next >= value } else { next <= value }, "{} {value} to {next}", key.name);
                if next == value {
                    break;
                }
                value = next;
            }
            let bound = if up { range.high } else { range.low };
            let near = bound.is_infinite() || (value - bound).abs() <= key.step + 1e-9;
            assert!(near, "{} {} ended at {value}", kind.name, key.name);
        }
    }
}

#[test]
fn adjusted_numbers_are_multiples_of_the_step() {
    let key = |axis: &str, kind: &str, key: &str| {
        let kind = Axis::find(axis).unwrap().kind(kind).unwrap();
        *kind.keys.iter().find(|k| k.name == key).unwrap()
    };
    let lambda = key("acceptance", "visual", "lambda");
    assert_eq!(lambda.adjusted(0.725, true), 0.8);
    assert_eq!(lambda.adjusted(0.3, false), 0.2);
    assert_eq!((lambda.adjusted(1.0, true), lambda.adjusted(0.0, false)), (1.0, 0.0));
    let total = key("shape", "dynamic_tree", "total");
    assert_eq!((total.adjusted(64.0, true), total.adjusted(4.0, false)), (64.0, 2.0));
    let depth = key("drafter", "early_exit", "depth");
    assert_eq!((depth.adjusted(0.95, true), depth.adjusted(0.05, false)), (0.95, 0.05));
    assert_eq!((depth.adjusted(0.99, true), depth.adjusted(0.01, false)), (0.99, 0.01));
}

#[test]
fn the_defaults_of_the_table_are_those_of_the_types() {
    for axis in &AXES {
        for kind in axis.kinds {
            let full = method_with(axis, kind);
            for key in kind.keys.iter().filter(|key| !key.required) {
                let place = format!("{}.{}", axis.name, key.name);
                assert_eq!(full.without(&place).unwrap(), full, "{place} of {}", kind.name);
            }
        }
    }
}

#[test]
fn the_numbers_of_a_method_come_in_order_of_interest() {
    for (name, order) in [
        (
            "lvspec",
            "acceptance.lambda=0.7 shape.length=10 context.keep=0.1 acceptance.top_n=10 shape.gate=0 shape.confidence=0",
        ),
        ("lenient", "acceptance.rho=0.2 shape.length=10 context.keep=0.1 shape.gate=0 shape.confidence=0"),
        ("sparrow", "shape.total=25 shape.depth=5 shape.width=8 shape.confidence=0"),
        ("parallelvlm", "context.keep=0.1 shape.confidence=0 context.layers=20 context.depth=0.5"),
    ] {
        let numbers = Method::preset(name).unwrap().numbers();
        let places = numbers.iter().map(|(axis, key, value)| format!("{}.{}={value}", axis.name, key.name));
        assert_eq!(places.collect::<Vec<_>>().join(" "), order);
    }
}

#[test]
fn ranges_are_written_with_their_bounds() {
    for axis in &AXES {
        for range in axis.kinds.iter().flat_map(|kind| kind.keys).filter_map(|key| key.range) {
            assert!(range.to_string().contains(&range.low.to_string()));
            assert!(!range.to_string().contains("inf"), "{range}");
        }
    }
    assert_eq!(Range::new(0.0, 1.0).to_string(), "0 to 1");
    assert!(!Range::new(0.0, 1.0).contains(f64::NAN));
}

#[test]
fn one_line_names_all_five() {
    let lvspec = Method::preset("lvspec").unwrap();
    assert_eq!(
        lvspec.describe(),
        "draft model · sees 10 % evenly spaced · chain of 10 · visual λ 0.7, N 10, shifts · sequential"
    );
    assert_eq!(
        of_the_laboratory("fly").describe(),
        "draft model · sees 10 % evenly spaced · chain of 10 · entropy ≥ 0.2, window of 4 · sequential"
    );
    assert_eq!(percent(0.125), "12.5 %");
}

#[test]
fn the_kinds_are_those_of_the_files() {
    for m in Method::presets() {
        let json = serde_json::to_value(m).unwrap();
        for (axis, kind) in AXES.iter().zip(m.kinds()) {
            assert_eq!(json[axis.name]["kind"], kind);
        }
    }
}
