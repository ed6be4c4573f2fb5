//! The form of the table of methods: axes, their kinds, the keys of each kind, and the macro that turns it into types.
//!
//! [`choices!`] takes one axis with its documentation, kinds and keys, and generates the enum with its serde attributes, the
//! [`Axis`] that describes it, and the functions that every face needs: the kind's name, its words, its numbers. So a mistake in a
//! file is answered with what is allowed, the studio's adjustable parameters and a sweep's values are views of the same rows, and a
//! new rule is one more row.

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number with or without a fraction.
    Number,
    /// A whole number from 0.
    Count,
    /// true or false.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number from 0, or one of these words.
    CountOr(&'static [&'static str]),
    /// A list of strings.
    Words,
    /// A list of choices of the axis itself.
    Choices,
}

impl Value {
    /// The type in words, as in "expected a number".
    pub fn words(self) -> String {
        match self {
            Value::Number => "a number".into(),
            Value::Count => "a whole number from 0".into(),
            Value::Flag => "true or false".into(),
            Value::Word(words) => {
                format!("one of {}", words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", "))
            }
            Value::CountOr(words) => format!("a whole number from 0, or {}", Value::Word(words).words()),
            Value::Words => "a list of strings".into(),
            Value::Choices => "a list of tables, each with its own `kind`".into(),
        }
    }

    /// True if this TOML value has the right type.
    pub(super) fn admits(self, value: &toml::Value) -> bool {
        match (self, value) {
            (Value::Number, toml::Value::Float(_) | toml::Value::Integer(_)) => true,
            (Value::Count, toml::Value::Integer(n)) => *n >= 0,
            (Value::Flag, toml::Value::Boolean(_)) => true,
            (Value::Word(words), toml::Value::String(s)) => words.contains(&s.as_str()),
            (Value::CountOr(words), value) => Value::Count.admits(value) || Value::Word(words).admits(value),
            (Value::Choices, toml::Value::Array(items)) => items.iter().all(toml::Value::is_table),
            (Value::Words, toml::Value::Array(items)) => items.iter().all(toml::Value::is_str),
            _ => false,
        }
    }
}

/// The numbers that a key may have. NaN and infinities are outside of every range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: f64,
    /// Upper bound; may be infinite.
    pub high: f64,
    /// True if the lower bound itself is outside.
    pub(crate) above_low: bool,
    /// True if the upper bound itself is outside.
    pub(crate) below_high: bool,
}

impl Range {
    /// `low..=high`.
    pub(super) const fn new(low: f64, high: f64) -> Range {
        Range { low, high, above_low: false, below_high: false }
    }

    /// True if the range holds this number.
    pub fn contains(&self, value: f64) -> bool {
        let above = if self.above_low { value > self.low } else { value >= self.low };
        let below = if self.below_high { value < self.high } else { value <= self.high };
        value.is_finite() && above && below
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Range { low, high, .. } = self;
        match (self.above_low, self.below_high) {
            (false, false) if high.is_infinite() => write!(f, "at least {low}"),
            (false, false) => write!(f, "{low} to {high}"),
            (true, false) => write!(f, "above {low}, at most {high}"),
            (true, true) => write!(f, "above {low}, below {high}"),
            (false, true) => write!(f, "at least {low}, below {high}"),
        }
    }
}

/// A key of a kind: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    pub(super) doc: &'static str,
    /// What it takes.
    pub value: Value,
    /// Whether it must be given.
    pub required: bool,
    /// As TOML: an example of a required key, the default of any other.
    pub example: &'static str,
    /// The numbers that are allowed, where it takes numbers that mean an amount.
    pub range: Option<Range>,
    /// By how much a number changes when it is adjusted.
    pub step: f64,
    /// The part of the range that a sweep covers.
    pub span: (f64, f64),
    /// True for a number that is rarely adjusted: it comes after all others.
    pub minor: bool,
}

impl Key {
    /// What it means, in one line.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }

    /// True for whole numbers.
    pub fn is_count(&self) -> bool {
        !matches!(self.value, Value::Number)
    }

    /// The number one step up or down from `value`: a multiple of the step, or the bound of the range that is reached first.
    /// The same number where there is no further.
    pub fn adjusted(&self, value: f64, up: bool) -> f64 {
        let by = if up { self.step } else { -self.step };
        // Steps of 0.05 must not accumulate rounding errors.
        let round = |value: f64| (value * 1e6).round() / 1e6;
        let next = round(((value + by) / self.step).round() * self.step);
        let Some(range) = self.range else { return next.max(0.0) };
        let low = if range.above_low { range.low + self.step } else { range.low };
        let high = if range.below_high { range.high - self.step } else { range.high };
        let next = round(next.clamp(low, high));
        // A value between an open bound and the first step stays where it is.
        if up == (next > value) { next } else { value }
    }

    pub(super) const fn of_type(mut self, name: &'static str, doc: &'static str, value: Value) -> Key {
        (self.name, self.doc, self.value) = (name, doc, value);
        self
    }

    pub(super) const fn range(self, low: f64, high: f64) -> Key {
        Key { range: Some(Range::new(low, high)), span: (low, high), ..self }
    }

    /// Without an upper bound; a sweep goes up to `usual`.
    pub(super) const fn at_least(self, low: f64, usual: f64) -> Key {
        Key { range: Some(Range::new(low, f64::INFINITY)), span: (low, usual), ..self }
    }

    pub(super) const fn share(self) -> Key {
        self.range(0.0, 1.0).step(0.05)
    }

    /// A share above 0; a sweep covers 0.1 to `usual`.
    pub(super) const fn above_zero(self, usual: f64) -> Key {
        let range = Range { above_low: true, below_high: usual < 1.0, ..Range::new(0.0, 1.0) };
        Key { range: Some(range), span: (0.1, usual), ..self }.step(0.05)
    }

    pub(super) const fn step(self, step: f64) -> Key {
        Key { step, ..self }
    }

    pub(super) const fn minor(self) -> Key {
        Key { minor: true, ..self }
    }
}

/// A key that must be given, for example as this.
pub(super) const fn required(example: &'static str) -> Key {
    Key {
        name: "",
        doc: "",
        value: Value::Flag,
        required: true,
        example,
        range: None,
        step: 1.0,
        span: (0.0, 0.0),
        minor: false,
    }
}

/// A key that may be left out and is this then.
pub(super) const fn optional(default: &'static str) -> Key {
    Key { required: false, ..required(default) }
}

/// One value of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// As written after `kind =`.
    pub name: &'static str,
    pub(super) doc: &'static str,
    /// Its keys in addition to `kind`.
    pub keys: &'static [Key],
}

impl Kind {
    /// What it does, in one line.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }

    /// A choice of this kind as TOML, with the required keys.
    pub(super) fn example(&self) -> String {
        let keys = self.keys.iter().filter(|k| k.required).map(|k| format!(", {} = {}", k.name, k.example));
        format!("{{ kind = \"{}\"{} }}", self.name, keys.collect::<String>())
    }
}

/// One of the five choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// As written.
    pub name: &'static str,
    pub question: &'static str,
    /// What can be chosen.
    pub kinds: &'static [Kind],
}

impl Axis {
    pub fn find(name: &str) -> Option<&'static Axis> {
        super::AXES.iter().find(|axis| axis.name == name)
    }

    pub fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// A type that a key can have.
pub(super) trait Field {
    /// What its key takes.
    const VALUE: Value;

    /// Its number, where it is one.
    fn number(&self) -> Option<f64> {
        None
    }
}

/// Generate the type of an axis, its [`Axis`], and what all faces ask of a choice, from the table.
macro_rules! choices {
    (
        $(#[doc = $about:literal])+
        $Type:ident: $axis:literal, $question:literal {
            $(
                $(#[doc = $kind_doc:literal])+
                $kind:literal $Variant:ident {
                    $(
                        $(#[doc = $doc:literal])+
                        $(#[serde($($serde:tt)+)])?
                        $field:ident: $type:ty = $key:expr,
                    )*
                } => $words:expr,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", deny_unknown_fields)]
        pub enum $Type {
            $(
                $(#[doc = $kind_doc])+
                #[serde(rename = $kind)]
                $Variant {
                    $(
                        $(#[doc = $doc])+
                        $(#[serde($($serde)+)])?
                        $field: $type,
                    )*
                },
            )+
        }

        impl $Type {
            /// What can be chosen.
            pub const AXIS: Axis = Axis {
                name: $axis,
                question: $question,
                kinds: &[$(Kind {
                    name: $kind,
                    doc: concat!($($kind_doc),+),
                    keys: &[$(
                        $key.of_type(stringify!($field), concat!($($doc),+), <$type as Field>::VALUE),
                    )*],
                },)+],
            };

            /// The kind as written in a file.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Variant { .. } => $kind,)+
                }
            }

            /// In words.
            pub fn describe(&self) -> String {
                match self {
                    $(Self::$Variant { $($field),* } => {
                        $(let _ = $field;)*
                        $words.into()
                    })+
                }
            }

            /// The keys that are numbers here, with their values.
            pub(super) fn numbers(&self) -> Vec<(&'static Key, f64)> {
                let values: Vec<Option<f64>> = match self {
                    $(Self::$Variant { $($field),* } => vec![$(Field::number($field)),*],)+
                };
                let keys = Self::AXIS.kind(self.kind()).map_or(&[][..], |kind| kind.keys);
                keys.iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect()
            }
        }
    };
}

pub(super) use choices;
