//! `--sweep axis.key=v,v,…`: the values of a key, and all combinations of several keys.

use super::*;

/// Most combinations of all sweeps together.
const MOST: usize = 256;
const EXAMPLE: &str = "for example: --sweep acceptance.lambda=0,0.5,0.9";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    key: String,
    values: Vec<String>,
}

impl Sweep {
    /// Read `axis.key=v,v,…`. Commas inside brackets or quotes belong to a value. Fails if not of that form, or a value is
    /// empty. Key and values are validated with the method.
    pub fn parse(text: &str) -> Result<Sweep, Failure> {
        let (key, list) =
            text.split_once('=').filter(|(key, _)| !key.trim().is_empty()).ok_or_else(|| {
                Failure::usage(format!("expected --sweep AXIS.KEY=VALUE,VALUE, got `{text}`"), EXAMPLE)
            })?;
        if list.trim().is_empty() {
            return Err(Failure::usage(format!("--sweep {text} has no values"), EXAMPLE));
        }
        let values = split(list);
        if values.iter().any(String::is_empty) {
            return Err(Failure::usage(format!("--sweep {text} has an empty value"), EXAMPLE));
        }
        Ok(Sweep { key: key.trim().into(), values })
    }
}

/// Every combination, the last sweep varying fastest; each is a list of `axis.key=value` as `--set` takes them. Fails if a key
/// is swept twice, or there are too many combinations.
pub fn grid(sweeps: &[Sweep]) -> Result<Vec<Vec<String>>, Failure> {
    for (index, sweep) in sweeps.iter().enumerate() {
        if sweeps[..index].iter().any(|s| s.key == sweep.key) {
            let hint = format!("list all values in one option: --sweep {}=V,V,…", sweep.key);
            return Err(Failure::usage(format!("{} is swept twice", sweep.key), &hint));
        }
    }
    let size = sweeps.iter().fold(1usize, |n, s| n.saturating_mul(s.values.len()));
    if size > MOST {
        let hint = format!("use fewer values, or several runs: the limit is {MOST}");
        return Err(Failure::usage(format!("the sweeps make {size} combinations"), &hint));
    }
    Ok(sweeps.iter().fold(vec![Vec::new()], |points, sweep| {
        let with = |point: &Vec<String>, value: &String| {
            point.iter().cloned().chain([format!("{}={value}", sweep.key)]).collect()
        };
        points.iter().flat_map(|point| sweep.values.iter().map(move |v| with(point, v))).collect()
    }))
}

/// Split at commas outside of brackets and quotes.
fn split(list: &str) -> Vec<String> {
    let (mut depth, mut quoted) = (0usize, false);
    let parts = list.split(|c: char| {
        match c {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    parts.map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    #[test]
    fn lists_of_words_are_one_value() {
        let sweep = Sweep::parse(r#"acceptance.always_strict=[], ["no","not"],["a,b"]"#).unwrap();
        assert_eq!(sweep.values, ["[]", r#"["no","not"]"#, r#"["a,b"]"#]);
        assert_eq!(sweep.key, "acceptance.always_strict");
    }

    #[test]
    fn a_grid_has_every_combination() {
        let sweeps = ["a.b=1,2", "c.d=x,y"].map(|s| Sweep::parse(s).unwrap());
        let points: Vec<String> = grid(&sweeps).unwrap().iter().map(|p| p.join(" ")).collect();
        assert_eq!(points, ["a.b=1 c.d=x", "a.b=1 c.d=y", "a.b=2 c.d=x", "a.b=2 c.d=y"]);
        assert_eq!(grid(&[]).unwrap(), [Vec::<String>::new()]);
    }

    #[test]
    fn an_invalid_list_is_refused() {
        for (text, part) in [
            ("acceptance.lambda", "expected --sweep AXIS.KEY=VALUE,VALUE"),
            ("=1,2", "expected --sweep AXIS.KEY=VALUE,VALUE"),
            ("acceptance.lambda=", "has no values"),
            ("acceptance.lambda= ", "has no values"),
            ("acceptance.lambda=0.1,,0.3", "has an empty value"),
            ("acceptance.lambda=0.1,", "has an empty value"),
        ] {
            let failure = Sweep::parse(text).unwrap_err();
            assert!(failure.error.contains(part), "{}", failure.error);
            assert_eq!(failure.class, FailureClass::Usage);
        }
    }

    #[test]
    fn a_key_twice_and_too_many_points_are_refused() {
        let twice = ["a.b=1", "a.b=2"].map(|s| Sweep::parse(s).unwrap());
        assert_eq!(grid(&twice).unwrap_err().error, "a.b is swept twice");
        let long = (0..20).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let many = ["a.b", "c.d"].map(|key| Sweep::parse(&format!("{key}={long}")).unwrap());
        assert!(grid(&many).unwrap_err().error.contains("400 combinations"));
    }
}
