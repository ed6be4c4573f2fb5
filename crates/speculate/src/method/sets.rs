//! `--set` over several methods: it changes those that have the key.

use super::{AXES, Axis, Drafter, Method, MethodError, Origin, with_axis};
use specreel_record::{Failure, FailureClass};

/// Apply each change to every method that has the key, except the baseline. The notes name the methods where it is not all. Fails
/// if a change is not of the form AXIS.KEY=VALUE, no method has the key, or a changed method is invalid.
pub fn apply(methods: &mut [Method], sets: &[String]) -> Result<Vec<String>, Failure> {
    let mut taken: Vec<Vec<&str>> = vec![Vec::new(); methods.len()];
    let mut notes = Vec::new();
    let sets = sets.iter().map(|set| in_full(methods, set)).collect::<Result<Vec<String>, Failure>>()?;
    for set in &sets {
        let takers = takers(methods, set)?;
        let changeable = methods.iter().filter(|m| drafts(m)).count();
        if takers.len() < changeable {
            let names: Vec<&str> = takers.iter().map(|&i| methods[i].name.as_str()).collect();
            notes.push(format!("--set {set} changes only {}", names.join(", ")));
        }
        for i in takers {
            taken[i].push(set);
        }
    }
    // All at once: only the final method has to be valid.
    for (method, sets) in methods.iter_mut().zip(taken) {
        *method = method.with_sets(sets)?;
    }
    Ok(notes)
}

/// A change with its axis, if it was left out and only one axis of the methods has the key.
fn in_full(methods: &[Method], set: &str) -> Result<String, Failure> {
    let drafting = || methods.iter().filter(|method| drafts(method));
    let choices: Vec<(&Axis, &str)> =
        AXES.iter().flat_map(|axis| drafting().map(move |method| (axis, kind(method, axis)))).collect();
    let full = with_axis(set, &choices);
    let origin = || Origin::Set(set.to_owned());
    Ok(full.map_err(|problem| MethodError::Invalid { origin: origin(), problem })?.into_owned())
}

/// Indices of the methods that have the key of this change.
fn takers(methods: &[Method], set: &str) -> Result<Vec<usize>, Failure> {
    let place = set.split_once('=').and_then(|(place, _)| place.trim().split_once('.'));
    let known = place.and_then(|(axis, key)| Some((Axis::find(axis.trim())?, key.trim())));
    let Some((axis, key)) = known.filter(|(_, key)| !key.is_empty()) else {
        // The error of the method says what is wrong with the form, or which axes exist.
        if let Some(method) = methods.first() {
            method.with_set(set)?;
        }
        return Err(usage(
            format!("expected AXIS.KEY=VALUE, got `{set}`"),
            "for example --set shape.length=3",
        ));
    };
    if key == "kind" {
        return Err(usage(
            format!("--set {set} would make the compared methods equal"),
            "to compare another kind, save it as a file: `specreel methods show NAME` prints one to start from",
        ));
    }
    let has = |m: &Method| axis.kind(kind(m, axis)).is_some_and(|k| k.keys.iter().any(|k| k.name == key));
    let takers: Vec<usize> =
        (0..methods.len()).filter(|&i| drafts(&methods[i]) && has(&methods[i])).collect();
    if takers.is_empty() {
        return Err(usage(format!("--set {set} applies to none of the methods"), &whose(axis, key)));
    }
    Ok(takers)
}

fn usage(error: String, hint: &str) -> Failure {
    Failure { class: FailureClass::Usage, error, hint: Some(hint.into()) }
}

fn drafts(method: &Method) -> bool {
    method.drafter != Drafter::None {}
}

fn kind(method: &Method, axis: &Axis) -> &'static str {
    match axis.name {
        "drafter" => method.drafter.kind(),
        "context" => method.context.kind(),
        "shape" => method.shape.kind(),
        "acceptance" => method.acceptance.kind(),
        _ => method.schedule.kind(),
    }
}

/// The kinds that have this key; if none has, the keys of the axis.
fn whose(axis: &Axis, key: &str) -> String {
    let owners: Vec<&str> = axis
        .kinds
        .iter()
        .filter(|kind| kind.keys.iter().any(|k| k.name == key))
        .map(|kind| kind.name)
        .collect();
    if !owners.is_empty() {
        return format!("`{}.{key}` belongs to {} = {}", axis.name, axis.name, owners.join(" or "));
    }
    let mut keys: Vec<&str> = axis.kinds.iter().flat_map(|kind| kind.keys).map(|key| key.name).collect();
    keys.sort_unstable();
    keys.dedup();
    match keys.is_empty() {
        true => format!("`{}` has no keys other than `kind`", axis.name),
        false => format!(
            "expected one of: {}",
            keys.iter().map(|key| format!("{}.{key}", axis.name)).collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(names: &[&str], sets: &[&str]) -> Result<(Vec<Method>, Vec<String>), Failure> {
        let mut methods: Vec<Method> = names.iter().map(|name| Method::preset(name).unwrap()).collect();
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let notes = apply(&mut methods, &sets)?;
        Ok((methods, notes))
    }

    #[test]
    fn methods_that_have_the_key_are_changed_but_not_the_baseline() {
        let (methods, notes) = changed(&["autoregressive", "naive", "lvspec"], &["shape.length=3"]).unwrap();
        assert_eq!(methods[0], Method::preset("autoregressive").unwrap());
        assert_eq!((methods[1].draft_length(), methods[2].draft_length()), (Some(3), Some(3)));
        assert!(notes.is_empty());
    }

    #[test]
    fn the_axis_may_be_left_out() {
        let names = ["autoregressive", "naive", "lvspec"];
        assert_eq!(changed(&names, &["lambda=0.5"]), changed(&names, &["acceptance.lambda=0.5"]));
    }

    #[test]
    fn a_note_names_the_changed_methods_if_some_lack_the_key() {
        let names = ["autoregressive", "naive", "lvspec"];
        let (methods, notes) = changed(&names, &["acceptance.lambda=0.5", "shape.length=4"]).unwrap();
        assert_eq!(methods[1].acceptance, Method::preset("naive").unwrap().acceptance);
        assert!(methods[2].describe().contains("chain of 4 · visual λ 0.5"), "{}", methods[2].describe());
        assert_eq!(notes, ["--set acceptance.lambda=0.5 changes only lvspec"]);
    }

    #[test]
    fn a_change_that_applies_to_nothing_is_refused_with_a_hint() {
        for (set, error, hint) in [
            ("acceptance.rho=0.3", "applies to none", "`acceptance.rho` belongs to acceptance = lenient"),
            ("acceptance.lamda=1", "applies to none", "acceptance.lambda"),
            ("schedule.length=1", "applies to none", "schedule.window"),
            ("acceptance.kind=exact", "equal", "save it as a file"),
            ("lambda", "expected AXIS.KEY=VALUE", "--set acceptance.lambda=0.5"),
            ("lamda=1", "the method has no key `lamda`", "did you mean `lambda`?"),
            ("rho=1", "the method has no key", "only these have it: acceptance = lenient"),
            ("kind=exact", "several axes", "acceptance.kind"),
            ("shape.=1", "expected AXIS.KEY=VALUE", "--set"),
            ("color.red=1", "unknown key `color`", "acceptance"),
            ("shape.length=0", "must be 1 to 64", ""),
        ] {
            let failure = changed(&["autoregressive", "naive", "lvspec"], &[set]).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage, "{set}");
            assert!(failure.error.contains(error), "{set}: {}", failure.error);
            assert!(failure.hint.as_deref().unwrap_or_default().contains(hint), "{set}: {:?}", failure.hint);
        }
        let failure = changed(&["autoregressive"], &["shape.length=3"]).unwrap_err();
        assert!(failure.error.contains("applies to none"), "{}", failure.error);
    }
}
