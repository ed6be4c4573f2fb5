//! Fields of a request's JSON. A refusal names the field, what it expects, and what it got.

use std::{fmt::Display, ops::RangeInclusive};

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Longest value that a refusal shows, in characters.
const LONGEST: usize = 60;

/// A value, and where it is: `messages[0].content`. The body itself has no place.
pub struct Field {
    pub at: String,
    pub value: Value,
}

/// The fields of an object that nobody has taken yet.
pub struct Fields {
    at: String,
    left: Map<String, Value>,
    /// Those that were asked for.
    known: Vec<&'static str>,
}

impl Field {
    /// The refusal of this value.
    pub fn refuse(&self, expected: impl Display) -> ApiError {
        refusal(&self.at, expected, &self.value)
    }

    pub fn string(self) -> Result<String, ApiError> {
        match self.value {
            Value::String(text) => Ok(text),
            value => Err(refusal(&self.at, "a string", &value)),
        }
    }

    pub fn flag(self) -> Result<bool, ApiError> {
        self.value.as_bool().ok_or_else(|| self.refuse("true or false"))
    }

    /// An integer, which some clients write as `8.0`.
    pub fn whole(&self) -> Option<i64> {
        let whole =
            self.value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 2f64.powi(53));
        self.value.as_i64().or_else(|| whole.map(|number| number as i64))
    }

    pub fn integer(self, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
        self.whole().filter(|number| range.contains(number)).ok_or_else(|| {
            self.refuse(match (*range.start(), *range.end()) {
                (i64::MIN, i64::MAX) => "an integer".to_owned(),
                (1, most) if most == i64::from(u32::MAX) => "an integer from 1".to_owned(),
                (least, most) => format!("an integer from {least} to {most}"),
            })
        })
    }

    pub fn number(self, range: RangeInclusive<f64>) -> Result<f64, ApiError> {
        self.value.as_f64().filter(|number| range.contains(number)).ok_or_else(|| {
            self.refuse(match (*range.start(), *range.end()) {
                (f64::MIN, f64::MAX) => "a number".to_owned(),
                (least, most) => format!("a number from {least} to {most}"),
            })
        })
    }

    pub fn array(self) -> Result<Vec<Self>, ApiError> {
        match self.value {
            Value::Array(items) => {
                let at = |i| format!("{}[{i}]", self.at);
                Ok(items.into_iter().enumerate().map(|(i, value)| Self { at: at(i), value }).collect())
            }
            value => Err(refusal(&self.at, "an array", &value)),
        }
    }

    pub fn strings(self) -> Result<Vec<String>, ApiError> {
        self.array()?.into_iter().map(Self::string).collect()
    }

    pub fn object(self) -> Result<Fields, ApiError> {
        match self.value {
            Value::Object(left) => Ok(Fields { at: self.at, left, known: Vec::new() }),
            value => Err(refusal(&self.at, "an object", &value)),
        }
    }
}

impl Fields {
    /// The fields of a body.
    pub fn of(value: Value) -> Result<Self, ApiError> {
        Field { at: String::new(), value }.object()
    }

    pub fn at(&self, name: &str) -> String {
        match self.at.as_str() {
            "" => name.to_owned(),
            at => format!("{at}.{name}"),
        }
    }

    /// Take a field; `null` is as good as none.
    pub fn take(&mut self, name: &'static str) -> Option<Field> {
        self.known.push(name);
        let value = self.left.shift_remove(name).filter(|value| !value.is_null())?;
        Some(Field { at: self.at(name), value })
    }

    /// Take a field that has to be there.
    pub fn need(&mut self, name: &'static str, expected: &str) -> Result<Field, ApiError> {
        let at = self.at(name);
        self.take(name).ok_or_else(|| {
            ApiError::invalid(&at, "missing_field", format!("{at}: missing; expected {expected}"))
        })
    }

    pub fn string(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        self.take(name).map(Field::string).transpose()
    }

    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        self.take(name).map(Field::flag).transpose()
    }

    pub fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        self.take(name).map(|field| field.integer(range)).transpose()
    }

    /// A count of at least 1.
    pub fn count(&mut self, name: &'static str, most: usize) -> Result<Option<u32>, ApiError> {
        let most = i64::from(u32::try_from(most).unwrap_or(u32::MAX));
        let count = self.integer(name, 1..=most)?;
        Ok(count.and_then(|count| u32::try_from(count).ok()))
    }

    pub fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        self.take(name).map(|field| field.number(range)).transpose()
    }

    /// Refuse what nobody has taken.
    pub fn end(self) -> Result<(), ApiError> {
        let known = self.known.join(", ");
        self.rest().next().map_or(Ok(()), |(_, field)| {
            let at: String = field.at.chars().take(100).collect();
            let message = format!("{at}: unknown field; expected one of: {known}");
            Err(ApiError::invalid(at, "unknown_field", message))
        })
    }

    /// What nobody has taken.
    pub fn rest(self) -> impl Iterator<Item = (String, Field)> {
        let Self { at, left, .. } = self;
        let place = move |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        left.into_iter().filter(|(_, value)| !value.is_null()).map(move |(name, value)| {
            let field = Field { at: place(&name), value };
            (name, field)
        })
    }
}

fn refusal(at: &str, expected: impl Display, value: &Value) -> ApiError {
    let (place, got) = (if at.is_empty() { "the request body" } else { at }, shown(value));
    let error = ApiError::invalid(at, "invalid_value", format!("{place}: expected {expected}, got {got}"));
    ApiError { param: error.param.filter(|at| !at.is_empty()), ..error }
}

/// A value in a refusal.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if !items.is_empty() => "an array".into(),
        Value::Object(fields) if !fields.is_empty() => "an object".into(),
        Value::String(text) if text.chars().count() > LONGEST => {
            let start: String = text.chars().take(LONGEST).collect();
            Value::String(start + "…").to_string()
        }
        value => value.to_string(),
    }
}

/// The fields of a body; what is no JSON is refused with the place where that is seen.
pub fn parse(bytes: &[u8]) -> Result<Fields, ApiError> {
    let value = serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let (line, column) = (error.line(), error.column());
        let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        let before: usize =
            bytes.split_inclusive(|byte| *byte == b'\n').take(line.max(1) - 1).map(<[u8]>::len).sum();
        let byte = (before + column).min(bytes.len());
        let message =
            format!("the request body is not valid JSON: {problem} at byte {byte} of {}", bytes.len());
        ApiError { param: None, ..ApiError::invalid("", "invalid_json", message) }
    })?;
    Fields::of(value)
}
