//! `key=value` without its axis: the one axis of a method that has the key.

use std::borrow::Cow;

use super::{AXES, Axis, Problem};

/// `axis.key=value` for `key=value`, where exactly one of these choices (an axis and its kind) has the key; text of another form
/// as it is. Fails if none of the choices has the key, or choices of several axes have it.
pub fn with_axis<'s>(set: &'s str, choices: &[(&'static Axis, &str)]) -> Result<Cow<'s, str>, Problem> {
    let Some((key, value)) = set.split_once('=') else { return Ok(set.into()) };
    let key = key.trim();
    if key.is_empty() || key.contains('.') || Axis::find(key).is_some() {
        return Ok(set.into());
    }
    let has = |(axis, kind): &(&'static Axis, &str)| {
        key == "kind" || axis.kind(kind).is_some_and(|kind| kind.keys.iter().any(|k| k.name == key))
    };
    let mut axes: Vec<&str> =
        choices.iter().filter(|choice| has(choice)).map(|(axis, _)| axis.name).collect();
    axes.sort_unstable();
    axes.dedup();
    match axes[..] {
        [axis] => Ok(format!("{axis}.{key}={value}").into()),
        [] => {
            let keys = |(axis, kind): &(&'static Axis, &str)| {
                axis.kind(kind).into_iter().flat_map(|kind| kind.keys).map(|key| key.name.to_owned())
            };
            let mut allowed: Vec<String> = choices.iter().flat_map(keys).collect();
            allowed.sort_unstable();
            allowed.dedup();
            Err(Problem::NoAxis { key: key.into(), owners: owners(key), allowed })
        }
        _ => Err(Problem::SeveralAxes {
            key: key.into(),
            places: axes.iter().map(|axis| format!("{axis}.{key}")).collect(),
        }),
    }
}

/// The choices that have a key: `acceptance = lenient`.
fn owners(key: &str) -> Vec<String> {
    let kinds = AXES.iter().flat_map(|axis| axis.kinds.iter().map(move |kind| (axis, kind)));
    let having = kinds.filter(|(_, kind)| kind.keys.iter().any(|k| k.name == key));
    having.map(|(axis, kind)| format!("{} = {}", axis.name, kind.name)).collect()
}

#[cfg(test)]
mod tests {
    use crate::Method;

    #[test]
    fn the_axis_may_be_left_out_where_one_has_the_key() {
        let lvspec = Method::preset("lvspec").unwrap();
        let set = |set: &str| lvspec.with_set(set).map_err(|e| (e.to_string(), e.hint()));
        assert_eq!(set("lambda=0.2").unwrap(), set("acceptance.lambda=0.2").unwrap());
        assert_eq!(set(" length = 3").unwrap(), set("shape.length=3").unwrap());
        let (error, hint) = set("rho=0.3").unwrap_err();
        assert_eq!(error, "--set rho=0.3: the method has no key `rho`");
        assert_eq!(hint, "only these have it: acceptance = lenient");
        let (_, hint) = set("lamda=0.3").unwrap_err();
        assert!(hint.starts_with("did you mean `lambda`? expected one of: "), "{hint}");
        let (error, hint) = set("kind=exact").unwrap_err();
        assert_eq!(error, "--set kind=exact: several axes have the key `kind`");
        assert!(hint.contains("acceptance.kind") && hint.contains("shape.kind"), "{hint}");
    }

    #[test]
    fn a_new_kind_brings_its_keys() {
        let naive = Method::preset("naive").unwrap();
        let both = naive.with_sets(["acceptance.kind=lenient", "rho=0.3"]);
        assert_eq!(
            both.unwrap(),
            naive.with_sets(["acceptance.kind=lenient", "acceptance.rho=0.3"]).unwrap()
        );
    }
}
