//! Reading methods: TOML text, files, and `--set` on top of either.

use std::path::Path;

use toml::{Table, Value as Toml};

use super::{AXES, Axis, Key, Method, MethodError, Origin, Problem, Value, short};

/// Keys of a method file in addition to the five axes.
const HEADER: [&str; 3] = ["name", "about", "paper"];

/// The key of a laboratory's file that says how the target is pruned.
const PRUNER: &str = "pruner";

impl Method {
    /// Read a method from a TOML file and check it. Fails if the file cannot be read, or the method is invalid
    /// ([`MethodError::class`] is input for both).
    pub fn from_file(path: &Path) -> Result<Method, MethodError> {
        let read = |source| MethodError::Read { path: path.into(), source };
        let length = std::fs::metadata(path).map_err(read)?.len();
        if length > 1 << 20 {
            return Err(read(std::io::Error::other("larger than 1 MiB: not a method file")));
        }
        Self::from_toml(&std::fs::read_to_string(path).map_err(read)?, path)
    }

    /// Read a method from TOML text and check it; `path` names it in errors.
    pub fn from_toml(text: &str, path: &Path) -> Result<Method, MethodError> {
        let origin = || Origin::File(path.into());
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            MethodError::invalid(origin(), Problem::Syntax { message: e.to_string().trim_end().into() })
        })?;
        from_table(table).map_err(|problem| MethodError::invalid(origin(), problem))
    }

    /// This method with one value changed, `axis.key=value`, for example `acceptance.lambda=0.5`; the axis may be left out if
    /// only one axis of the method has the key. Fails if it is not of that form, the axis or key does not exist, or the changed
    /// method is invalid.
    pub fn with_set(&self, set: &str) -> Result<Method, MethodError> {
        self.with_sets([set])
    }

    /// This method with one number changed.
    pub fn with_number(&self, axis: &Axis, key: &Key, value: f64) -> Result<Method, MethodError> {
        self.with_set(&format!("{}.{}={value}", axis.name, key.name))
    }

    /// This method with several values changed; only the result is checked, so an axis may change its kind and the keys
    /// of the new kind at once. A new `kind` clears the keys of the old one.
    pub fn with_sets<'a>(&self, sets: impl IntoIterator<Item = &'a str>) -> Result<Method, MethodError> {
        let mut table = self.table();
        let mut typed = Vec::new();
        for set in sets {
            apply(&mut table, set).map_err(|p| MethodError::invalid(Origin::Set(set.into()), p))?;
            typed.push(set);
        }
        if typed.is_empty() {
            return Ok(self.clone());
        }
        from_table(table).map_err(|p| MethodError::invalid(Origin::Set(typed.join(" --set ")), p))
    }

    /// This method with one key at its default, `axis.key`, for example `acceptance.always_strict`. A key that is not set
    /// changes nothing. Fails if the key is required.
    pub fn without(&self, place: &str) -> Result<Method, MethodError> {
        let mut table = self.table();
        if let Some((axis, key)) = place.split_once('.')
            && let Some(Toml::Table(choice)) = table.get_mut(axis)
        {
            choice.remove(key);
        }
        from_table(table).map_err(|p| MethodError::invalid(Origin::Set(format!("{place}=")), p))
    }

    /// The method as a TOML file.
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| Toml::String(text.into()).to_string();
        let mut out = format!("name = {}\nabout = {}\n", quoted(&self.name), quoted(&self.about));
        if let Some(paper) = &self.paper {
            out += &format!("paper = {}\n", quoted(paper));
        }
        let table = self.table();
        for axis in &AXES {
            let Some(Toml::Table(choice)) = table.get(axis.name) else { continue };
            let kind = choice.get("kind").and_then(Toml::as_str).unwrap_or_default();
            let keys = axis.kind(kind).map(|k| k.keys).unwrap_or_default();
            let mut parts = vec![format!("kind = \"{kind}\"")];
            let written =
                |key: &&Key| choice.get(key.name).is_some_and(|v| v.as_array().is_none_or(|a| !a.is_empty()));
            parts.extend(
                keys.iter()
                    .filter(written)
                    .filter_map(|k| Some(format!("{} = {}", k.name, choice.get(k.name)?))),
            );
            out += &format!("{} = {{ {} }}\n", axis.name, parts.join(", "));
        }
        out
    }

    /// The value of a key of an axis, as TOML on one line; `None` for a default that is not written.
    pub fn toml_value(&self, axis: &str, key: &str) -> Option<String> {
        Some(self.table().get(axis)?.get(key)?.to_string())
    }

    fn table(&self) -> Table {
        let mut table = Table::try_from(self).unwrap_or_default();
        table.iter_mut().filter_map(|(_, v)| v.as_table_mut()).for_each(shorten);
        table
    }
}

/// Write floats that came from 32 bits with the shortest unambiguous digits, also in lists of choices.
fn shorten(choice: &mut Table) {
    for (_, value) in choice.iter_mut() {
        match value {
            Toml::Float(x) if f64::from(*x as f32) == *x => {
                *x = (*x as f32).to_string().parse().unwrap_or(*x);
            }
            Toml::Array(rules) => rules.iter_mut().filter_map(Toml::as_table_mut).for_each(shorten),
            _ => {}
        }
    }
}

/// Check names and types against the table, build the value with serde, then check ranges and clashes.
fn from_table(table: Table) -> Result<Method, Problem> {
    let allowed = || HEADER.iter().copied().chain(AXES.iter().map(|a| a.name)).map(String::from).collect();
    if table.contains_key(PRUNER) {
        return Err(Problem::Pruner);
    }
    if let Some(key) = table.keys().find(|k| !HEADER.contains(&k.as_str()) && Axis::find(k).is_none()) {
        return Err(Problem::UnknownKey { key: key.clone(), allowed: allowed() });
    }
    for key in HEADER {
        match table.get(key) {
            None if key == "name" => {
                return Err(Problem::Missing { key: key.into(), example: "name = \"mine\"".into() });
            }
            None | Some(Toml::String(_)) => {}
            Some(other) => return Err(wrong_type(key, other, "a string".into())),
        }
    }
    for axis in &AXES {
        check_axis(axis, table.get(axis.name))?;
    }
    let method: Method =
        table.try_into().map_err(|e: toml::de::Error| Problem::Syntax { message: e.to_string() })?;
    method.problem().map_or(Ok(method), Err)
}

fn check_axis(axis: &Axis, value: Option<&Toml>) -> Result<(), Problem> {
    let example = || format!("{} = {}", axis.name, axis.kinds[0].example());
    let Some(value) = value else {
        return Err(Problem::Missing { key: axis.name.into(), example: example() });
    };
    let Toml::Table(choice) = value else {
        return Err(wrong_type(axis.name, value, format!("a table such as {}", example())));
    };
    let kind = match choice.get("kind") {
        Some(Toml::String(kind)) => kind,
        Some(other) => return Err(wrong_type(&format!("{}.kind", axis.name), other, "a string".into())),
        None => return Err(Problem::Missing { key: format!("{}.kind", axis.name), example: example() }),
    };
    let Some(known) = axis.kind(kind) else {
        return Err(Problem::UnknownKind {
            axis: axis.name.into(),
            kind: kind.clone(),
            allowed: axis.kinds.iter().map(|k| k.name.into()).collect(),
        });
    };
    for (name, value) in choice.iter().filter(|(name, _)| *name != "kind") {
        let place = format!("{}.{name}", axis.name);
        let Some(key) = known.keys.iter().find(|k| k.name == name) else {
            return Err(Problem::UnknownKey {
                key: place,
                allowed: known.keys.iter().map(|k| k.name.into()).collect(),
            });
        };
        if !key.value.admits(value) {
            return Err(wrong_type(&place, value, key.value.words()));
        }
        if let (Value::Choices, Toml::Array(inner)) = (key.value, value) {
            inner.iter().try_for_each(|choice| check_axis(axis, Some(choice)))?;
        }
    }
    match known.keys.iter().find(|k| k.required && !choice.contains_key(k.name)) {
        Some(key) => Err(Problem::Missing {
            key: format!("{}.{}", axis.name, key.name),
            example: format!("{} = {}", axis.name, known.example()),
        }),
        None => Ok(()),
    }
}

fn wrong_type(key: &str, found: &Toml, wanted: String) -> Problem {
    let found = match found {
        Toml::Table(_) => "a table".into(),
        Toml::Array(items) if items.len() > 4 => "a list".into(),
        other => other.to_string(),
    };
    Problem::Type { key: key.into(), found, wanted }
}

fn apply(table: &mut Table, set: &str) -> Result<(), Problem> {
    let form = || Problem::Form { text: set.into() };
    let kind = |axis: &Axis| table.get(axis.name)?.get("kind")?.as_str();
    let choices: Vec<(&Axis, &str)> = AXES.iter().filter_map(|axis| Some((axis, kind(axis)?))).collect();
    let set = &*short::with_axis(set, &choices)?;
    let (place, text) = set.split_once('=').ok_or_else(form)?;
    let (axis, key) = place.trim().split_once('.').ok_or_else(form)?;
    let (axis, key, text) = (axis.trim(), key.trim(), text.trim());
    if key.is_empty() || text.is_empty() {
        return Err(form());
    }
    let Some(known) = Axis::find(axis) else {
        let allowed = AXES.iter().map(|a| a.name.into()).collect();
        return Err(Problem::UnknownKey { key: axis.into(), allowed });
    };
    let value = parse_value(text);
    let choice = table.entry(known.name).or_insert_with(|| Toml::Table(Table::new()));
    let Toml::Table(choice) = choice else { return Err(form()) };
    if key == "kind" && choice.get("kind") != Some(&value) {
        choice.clear();
    }
    choice.insert(key.into(), value);
    Ok(())
}

/// A TOML value; a bare word is a string, and `.5` is a number.
fn parse_value(text: &str) -> Toml {
    let as_toml = |t: &str| format!("v = {t}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
    as_toml(text)
        .or_else(|| text.parse::<f64>().ok().map(Toml::Float))
        .unwrap_or_else(|| Toml::String(text.into()))
}

#[cfg(test)]
mod tests;
