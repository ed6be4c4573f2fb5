//! The pages that are there already: new ones must not lose a figure or a verdict without saying why.

use std::{collections::BTreeSet, fs, path::Path, sync::LazyLock};

use serde::Deserialize;

use super::{FIGURES, Pages, VERDICTS, csv};
use crate::paper::catalog;
use specreel_record::Failure;

/// Names of the losses that an error lists.
const LISTED: usize = 8;

/// Why figures and verdicts that earlier pages had are gone.
static CHANGES: LazyLock<Result<Vec<Change>, String>> = LazyLock::new(|| {
    let file: File =
        toml::from_str(include_str!("../../../../papers/changes.toml")).map_err(|e| e.to_string())?;
    Ok(file.changes)
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "change", default)]
    changes: Vec<Change>,
}

/// What is gone: everything with these properties.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    paper: String,
    #[serde(default)]
    table: Option<String>,
    #[serde(default)]
    part: Option<String>,
    #[serde(default)]
    row: Option<String>,
    /// The measure of a figure or an order, or the sentence of a claim.
    #[serde(default)]
    of: Option<String>,
    #[serde(rename = "why")]
    _why: String,
}

/// What identifies a figure or a verdict: paper, table, part, row, measure or claim, drafter.
type Key = [String; 6];

impl Change {
    fn covers(&self, key: &Key) -> bool {
        let [paper, table, part, row, of, _] = key;
        let is = |own: &Option<String>, other: &String| own.as_ref().is_none_or(|own| own == other);
        self.paper == *paper
            && is(&self.table, table)
            && is(&self.part, part)
            && is(&self.row, row)
            && is(&self.of, of)
    }
}

/// The figures and verdicts of the pages in a directory.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    keys: BTreeSet<Key>,
}

impl Earlier {
    /// Those that are there; files that are missing have none. Fails if one cannot be read.
    pub fn read(dir: &Path) -> Result<Earlier, Failure> {
        let read = |name: &str| match fs::read_to_string(dir.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            other => other.map_err(|error| {
                Failure::input(
                    format!("--pages: cannot read {}: {error}", dir.join(name).display()),
                    "name another directory",
                )
            }),
        };
        Ok(Earlier::of(&read(FIGURES)?, &read(VERDICTS)?))
    }

    fn of(figures: &str, verdicts: &str) -> Earlier {
        let mut keys = BTreeSet::new();
        for line in figures.lines().skip(1) {
            if let [paper, table, part, row, _, _, measure, _, drafter, ..] = &csv::fields(line)[..] {
                keys.insert([paper, table, part, row, measure, drafter].map(String::clone));
            }
        }
        for line in verdicts.lines().skip(1) {
            if let [paper, table, part, of, drafter, ..] = &csv::fields(line)[..] {
                keys.insert([paper, table, part, &String::new(), of, drafter].map(String::clone));
            }
        }
        Earlier { keys }
    }

    /// Fails if the pages lack what is there, and `lab/papers/changes.toml` does not say why.
    pub(in crate::paper) fn check(&self, pages: &Pages) -> Result<(), Failure> {
        let broken = |error: &String| catalog::broken("the changes of the papers' pages", error);
        let changes = CHANGES.as_deref().map_err(broken)?;
        let own = |name: &str| {
            pages.files.iter().find(|(own, _)| own == name).map_or("", |(_, text)| text.as_str())
        };
        let new = Earlier::of(own(FIGURES), own(VERDICTS));
        let gone = self.keys.difference(&new.keys);
        let gone: Vec<&Key> = gone.filter(|key| !changes.iter().any(|change| change.covers(key))).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let words = |key: &&Key| {
            let given: Vec<&str> = key.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            given.join(", ")
        };
        let listed: Vec<String> = gone.iter().take(LISTED).map(words).collect();
        let more = if gone.len() > LISTED { "; and others" } else { "" };
        Err(Failure::input(
            format!(
                "the pages would lose {} of the figures and verdicts that are there: {}{more}",
                gone.len(),
                listed.join("; ")
            ),
            "measure them, or write to another directory; what shall go needs a line in lab/papers/changes.toml that says why",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    fn pages(figures: &str, verdicts: &str) -> Pages {
        let files = [(FIGURES.to_owned(), figures.to_owned()), (VERDICTS.to_owned(), verdicts.to_owned())];
        Pages { files: files.into(), unexplained: Vec::new() }
    }

    #[test]
    fn a_figure_or_a_verdict_that_is_lost_is_named() {
        let figures = "head\nstd,1,\"a, b\",STD,std,true,tau,1,d,8,2,2,2\nstd,1,\"a, b\",STD,std,true,speedup,1,d,8,2,2,2\n";
        let verdicts = "head\nstd,1,,It is fast.,,reproduced\n";
        let earlier = Earlier::of(figures, verdicts);
        assert!(earlier.check(&pages(figures, verdicts)).is_ok());
        // Other values are no loss, and a new row is none.
        let more = format!("{}std,1,,New,std,true,tau,,d,8,2,2,2\n", figures.replace(",8,2,2,2", ",9,3,3,3"));
        assert!(earlier.check(&pages(&more, &verdicts.replace("reproduced", "partly"))).is_ok());
        let one = figures.lines().take(2).collect::<Vec<_>>().join("\n");
        let failure = earlier.check(&pages(&one, "head\n")).unwrap_err();
        assert_eq!(failure.class, FailureClass::Input);
        let listed = "lose 2 of the figures and verdicts that are there: std, 1, It is fast.; std, 1, a, b, STD, speedup, d";
        assert!(failure.error.ends_with(listed), "{}", failure.error);
        assert!(Earlier::default().check(&pages("", "")).is_ok());
    }

    #[test]
    fn every_change_says_what_and_why() {
        let changes = CHANGES.as_ref().unwrap();
        assert!(!changes.is_empty());
        for change in changes {
            assert!(
                change._why.ends_with('.') && (change.table.is_some() || change.of.is_some()),
                "{change:?}"
            );
        }
        let key = |table: &str| ["lvspec", table, "same tau", "random, 0.5", "kept", "d"].map(str::to_owned);
        assert!(changes.iter().any(|change| change.covers(&key("F7"))));
        assert!(!changes.iter().any(|change| change.covers(&key("1"))));
    }
}
