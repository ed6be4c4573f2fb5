//! What may be written in a method file: axes, their kinds, the keys of each kind.
//!
//! The serde types say the same; this list exists so that a mistake is answered with what is allowed instead. A test keeps
//! the two in step.

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
    /// The kind of value in words.
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

/// A key of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// What it takes.
    pub value: Value,
    /// Whether it must be given.
    pub required: bool,
    /// A value to show as an example, as TOML.
    pub example: &'static str,
}

/// One value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As written after `kind =`.
    pub name: &'static str,
    /// Its keys beside `kind`.
    pub keys: &'static [Key],
}

/// One of the five choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// As written.
    pub name: &'static str,
    /// The question it answers.
    pub question: &'static str,
    /// What can be chosen.
    pub kinds: &'static [Kind],
}

impl Axis {
    /// The axis of this name.
    pub fn find(name: &str) -> Option<&'static Axis> {
        AXES.iter().find(|axis| axis.name == name)
    }

    /// The kind of this name.
    pub fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

const fn must(name: &'static str, value: Value, example: &'static str) -> Key {
    Key { name, value, required: true, example }
}

const fn may(name: &'static str, value: Value, example: &'static str) -> Key {
    Key { name, value, required: false, example }
}

const fn plain(name: &'static str) -> Kind {
    Kind { name, keys: &[] }
}

const ENTROPY: Key = may("entropy", Value::Word(&["top3", "full"]), "\"top3\"");
const KEEP: Key = must("keep", Value::Number, "0.1");
const POSITIONS: Key = may("positions", Value::Word(&["original", "compact"]), "\"compact\"");
const DEPTH: Key = must("depth", Value::Number, "0.5");
const AUTO: &[&str] = &["auto"];
const SEED: Key = may("seed", Value::Count, "0");

/// The five choices in the order of the files.
pub const AXES: [Axis; 5] = [
    Axis {
        name: "drafter",
        question: "who proposes?",
        kinds: &[
            plain("none"),
            plain("model"),
            plain("self"),
            Kind { name: "early_exit", keys: &[DEPTH] },
            Kind { name: "sparrow", keys: &[may("recipe", Value::Word(&["sparrow", "msd"]), "\"msd\"")] },
            Kind { name: "lookup", keys: &[must("ngram", Value::Count, "3")] },
        ],
    },
    Axis {
        name: "context",
        question: "which visual tokens does the drafter see?",
        kinds: &[
            plain("full"),
            Kind { name: "none", keys: &[POSITIONS] },
            Kind { name: "random", keys: &[KEEP, SEED, POSITIONS] },
            Kind { name: "uniform", keys: &[KEEP, POSITIONS] },
            Kind { name: "frames", keys: &[KEEP, POSITIONS] },
            Kind {
                name: "window",
                keys: &[
                    must("part", Value::Word(&["front", "middle", "end"]), "\"middle\""),
                    KEEP,
                    POSITIONS,
                ],
            },
            Kind {
                name: "streaming",
                keys: &[must("first", Value::Count, "4"), must("last", Value::Count, "32"), POSITIONS],
            },
            Kind { name: "attention", keys: &[KEEP, must("mass", Value::Number, "0.5"), POSITIONS] },
            Kind { name: "variation", keys: &[KEEP, may("depth", Value::Number, "0.5"), POSITIONS] },
            Kind {
                name: "top_k_kv",
                keys: &[KEEP, may("rows", Value::Word(&["dense", "sparse"]), "\"dense\"")],
            },
        ],
    },
    Axis {
        name: "shape",
        question: "what does it propose?",
        kinds: &[
            Kind { name: "chain", keys: &[must("length", Value::CountOr(AUTO), "5")] },
            Kind {
                name: "static_tree",
                keys: &[may("nodes", Value::Words, "[\"0\", \"1\", \"00\", \"01\", \"10\", \"000\"]")],
            },
            Kind { name: "two_branch", keys: &[must("length", Value::Count, "10")] },
            Kind {
                name: "dynamic_tree",
                keys: &[
                    must("total", Value::Count, "25"),
                    must("depth", Value::Count, "5"),
                    must("width", Value::Count, "8"),
                ],
            },
        ],
    },
    Axis {
        name: "acceptance",
        question: "what passes?",
        kinds: &[
            plain("exact"),
            plain("sampled"),
            Kind { name: "entropy", keys: &[must("threshold", Value::Number, "0.2"), ENTROPY] },
            Kind {
                name: "window",
                keys: &[must("length", Value::Count, "4"), must("threshold", Value::Number, "0.2"), ENTROPY],
            },
            Kind {
                name: "visual",
                keys: &[
                    must("lambda", Value::Number, "0.7"),
                    must("top_n", Value::Count, "10"),
                    may("shift_tolerant", Value::Flag, "true"),
                    may("always_strict", Value::Words, "[\"not\", \"no\"]"),
                ],
            },
            Kind { name: "lenient", keys: &[must("rho", Value::Number, "0.2")] },
            Kind { name: "divergence", keys: &[must("threshold", Value::Number, "0.3")] },
            Kind {
                name: "cost",
                keys: &[must("limit", Value::Number, "0.8"), may("ratio", Value::Number, "1.0")],
            },
            Kind { name: "glance", keys: &[must("lambda", Value::Number, "0.7")] },
            Kind {
                name: "all_of",
                keys: &[must(
                    "rules",
                    Value::Choices,
                    "[{ kind = \"lenient\", rho = 0.2 }, { kind = \"divergence\", threshold = 0.3 }]",
                )],
            },
            Kind { name: "random", keys: &[must("probability", Value::Number, "0.5"), SEED] },
        ],
    },
    Axis {
        name: "schedule",
        question: "when?",
        kinds: &[
            plain("sequential"),
            Kind { name: "parallel", keys: &[must("window", Value::CountOr(AUTO), "\"auto\"")] },
        ],
    },
];
