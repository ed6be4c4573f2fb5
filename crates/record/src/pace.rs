//! How fast a run is played.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};

/// What is expected where a pace is written.
const EXPECTED: &str = "expected auto, off, or a playback speed from 0.0001 to 1000";

/// How fast a run is played: its steps as scenes, on a clock that decoding never waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// A run that would be over before it is seen takes about six seconds; a slower one has its true speed.
    #[default]
    Auto,
    /// This many times the true speed; 1 is the true speed.
    Speed(f64),
    /// No playback: everything is shown as it arrives.
    Off,
}

impl Pace {
    /// The slowest and the fastest playback speed.
    pub const SPEEDS: (f64, f64) = (1e-4, 1e3);
}

impl FromStr for Pace {
    type Err = String;

    /// Read `auto`, `off` or a playback speed.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Pace::Auto),
            "off" => Ok(Pace::Off),
            _ => {
                let (low, high) = Self::SPEEDS;
                let speed = text.parse().ok().filter(|speed| (low..=high).contains(speed));
                speed.map(Pace::Speed).ok_or_else(|| EXPECTED.into())
            }
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Auto => f.write_str("auto"),
            Pace::Off => f.write_str("off"),
            Pace::Speed(speed) => speed.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Pace {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            Number(f64),
        }
        let written = Written::deserialize(value).map_err(|_| D::Error::custom(EXPECTED))?;
        let text = match written {
            Written::Word(word) => word,
            Written::Number(number) => number.to_string(),
        };
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_word_or_a_possible_speed() {
        let all =
            [("auto", Pace::Auto), ("off", Pace::Off), ("0.01", Pace::Speed(0.01)), ("2", Pace::Speed(2.0))];
        for (text, pace) in all {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string(), text);
        }
        for bad in ["0", "-1", "nan", "inf", "-inf", "1e9", "1e-9", "", "fast", "Auto"] {
            assert_eq!(bad.parse::<Pace>(), Err(EXPECTED.into()), "{bad}");
        }
    }

    #[test]
    fn a_configuration_file_may_write_the_number_as_a_number() {
        let read = |json: &str| serde_json::from_str::<Pace>(json).map_err(|error| error.to_string());
        assert_eq!(read("0.5"), Ok(Pace::Speed(0.5)));
        assert_eq!(read("2"), Ok(Pace::Speed(2.0)));
        assert_eq!(read("\"off\""), Ok(Pace::Off));
        for bad in ["0", "-2", "true", "\"slow\"", "[]"] {
            assert!(read(bad).unwrap_err().contains(EXPECTED), "{bad}");
        }
    }
}
