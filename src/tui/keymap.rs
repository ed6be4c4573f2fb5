//! Which key does what, as data: the built-in map and a user's file over it.
//!
//! A key is looked up in the place where it is pressed and then everywhere; while a text is edited, keys that type a
//! character are text and never looked up everywhere.

use std::path::Path;

use serde_json::json;

use super::{
    Action, Key, StudioError,
    lines::{line_of, place},
};

/// The built-in map; also what `keymap.toml` in the configuration folder may say.
pub const DEFAULT_KEYMAP: &str = include_str!("keymap.toml");

/// Where a key is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyContext {
    /// Any pane.
    Everywhere,
    /// The library.
    Library,
    /// The prompt.
    Prompt,
    /// The selected clip with its frames.
    Preview,
    /// The caption and the meters.
    Reading,
    /// The caption, token by token.
    Inspector,
    /// The caption and the meters while a saved session is replayed.
    Player,
    /// The five choices of a method.
    Edit,
    /// Picking the methods of a comparison.
    Pick,
    /// The comparison.
    Compare,
    /// The saved sessions.
    Sessions,
    /// A question before something is deleted.
    Confirm,
    /// The method picker and the presets.
    List,
    /// A line of text: the filter, a path, the search in the help.
    Entry,
}

impl KeyContext {
    const ALL: [(KeyContext, &'static str); 14] = [
        (KeyContext::Everywhere, "everywhere"),
        (KeyContext::Library, "library"),
        (KeyContext::Preview, "preview"),
        (KeyContext::Prompt, "prompt"),
        (KeyContext::Reading, "reading"),
        (KeyContext::Inspector, "inspector"),
        (KeyContext::Player, "player"),
        (KeyContext::Edit, "edit"),
        (KeyContext::Pick, "pick"),
        (KeyContext::Compare, "compare"),
        (KeyContext::Sessions, "sessions"),
        (KeyContext::Confirm, "confirm"),
        (KeyContext::List, "list"),
        (KeyContext::Entry, "entry"),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(place, _)| *place)
    }

    /// Where a key is looked up that has no meaning in this place.
    fn behind(self) -> Option<KeyContext> {
        match self {
            KeyContext::Everywhere | KeyContext::Confirm => None,
            KeyContext::Player => Some(KeyContext::Reading),
            _ => Some(KeyContext::Everywhere),
        }
    }

    /// This place and those behind it.
    fn chain(self) -> impl Iterator<Item = KeyContext> {
        std::iter::successors(Some(self), |place| place.behind())
    }

    /// True for what reaches from everywhere into this place: into a box, nothing that is about what lies behind it.
    fn lets(self, action: Action) -> bool {
        use Action::{
            Again, Boundaries, Copy, Export, FollowUp, Inspect, NewerRun, OlderRun, Segments, Sweep,
        };
        const OF_PANES: [Action; 10] =
            [Again, Boundaries, Copy, Export, FollowUp, Inspect, NewerRun, OlderRun, Segments, Sweep];
        let own: &[Action] = match self {
            KeyContext::Compare => &[Sweep],
            KeyContext::Preview => &[Segments],
            KeyContext::List
            | KeyContext::Edit
            | KeyContext::Pick
            | KeyContext::Sessions
            | KeyContext::Entry => &[],
            _ => return true,
        };
        own.contains(&action) || !OF_PANES.contains(&action)
    }

    fn is_typing(self) -> bool {
        matches!(self, KeyContext::Prompt | KeyContext::Entry)
    }

    /// The heading on the help page.
    pub(crate) fn title(self) -> &'static str {
        match self {
            KeyContext::Everywhere => "Everywhere",
            KeyContext::Library => "Library",
            KeyContext::Preview => "Preview",
            KeyContext::Prompt => "Prompt",
            KeyContext::Reading => "Caption and meters",
            KeyContext::Inspector => "Inspector",
            KeyContext::Player => "Replay",
            KeyContext::Edit => "A method's choices",
            KeyContext::Pick => "Methods to compare",
            KeyContext::Compare => "Comparison",
            KeyContext::Sessions => "Saved sessions",
            KeyContext::Confirm => "Before something is deleted",
            KeyContext::List => "Lists",
            KeyContext::Entry => "Lines of text",
        }
    }
}

/// An action with its keys.
pub(crate) type KeysOf = (Action, Vec<Key>);

/// The key map.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<(KeyContext, Key, Action)>,
}

impl Keymap {
    /// The built-in map.
    ///
    /// # Errors
    /// Never, as the tests make sure.
    pub fn built_in() -> Result<Self, StudioError> {
        let mut map = Self { bindings: Vec::new() };
        map.overlay(DEFAULT_KEYMAP, "the built-in key map")?;
        Ok(map)
    }

    /// What a key map may say, as a JSON schema.
    pub fn schema() -> serde_json::Value {
        let keys = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
        let action = |action: &Action| {
            let mut keys = keys.clone();
            keys["description"] = action.about().into();
            (action.name().to_owned(), keys)
        };
        let actions: serde_json::Map<_, _> = Action::ALL.iter().map(action).collect();
        let section = |(place, name): (KeyContext, &str)| {
            let section = json!({
                "description": place.title(), "type": "object", "properties": actions, "additionalProperties": false
            });
            (name.to_owned(), section)
        };
        let sections: serde_json::Map<_, _> = KeyContext::ALL.into_iter().map(section).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Key map of specreel",
            "description": "For each section, actions and the keys that do them; an empty list takes the keys away.",
            "type": "object",
            "properties": sections,
            "additionalProperties": false
        })
    }

    /// The built-in map with a user's file over it, where there is one.
    ///
    /// # Errors
    /// The file cannot be read, or says something that is not a key map.
    pub fn with_file(file: Option<&Path>) -> Result<Self, StudioError> {
        let mut map = Self::built_in()?;
        let Some(file) = file else { return Ok(map) };
        match std::fs::read_to_string(file) {
            Ok(text) => map.overlay(&text, &file.display().to_string())?,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(StudioError::Read { file: file.into(), source }),
        }
        Ok(map)
    }

    /// Put the bindings of a TOML text over those of this map.
    ///
    /// # Errors
    /// Names the file, the entry, what is wrong and what to write.
    pub fn overlay(&mut self, text: &str, file: &str) -> Result<(), StudioError> {
        let wrong = |key: String, problem: String, instead: String| {
            let line = match key.split_once('.') {
                Some((section, action)) => line_of(text, Some(section), Some(action)),
                None => line_of(text, Some(&key), None),
            };
            StudioError::Keymap { file: place(file, line), key, problem, instead }
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |s| text[..s.start.min(text.len())].lines().count().max(1));
            let what = error.message().to_owned();
            wrong(format!("line {line}"), what, "write lines like  quit = [\"q\", \"ctrl-q\"]".into())
        })?;
        let mut new: Vec<(KeyContext, Key, Action)> = Vec::new();
        for (section, actions) in &table {
            let places = || KeyContext::ALL.map(|(_, n)| format!("[{n}]")).join(", ");
            let Some(place) = KeyContext::named(section) else {
                return Err(wrong(section.clone(), "no such section".into(), format!("use {}", places())));
            };
            let Some(actions) = actions.as_table() else {
                let problem = "must be a section".to_owned();
                return Err(wrong(section.clone(), problem, format!("write [{section}] on its own line")));
            };
            for (name, keys) in actions {
                let entry = format!("{section}.{name}");
                let Some(action) = Action::named(name) else {
                    let known = Action::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ");
                    return Err(wrong(entry, "no such action".into(), format!("use one of {known}")));
                };
                self.bindings.retain(|(p, _, a)| (*p, *a) != (place, action));
                let listed = match keys {
                    toml::Value::Array(keys) => keys.clone(),
                    one => vec![one.clone()],
                };
                for key in listed {
                    let read = key.as_str().and_then(Key::parse).ok_or_else(|| {
                        wrong(
                            entry.clone(),
                            format!("{key} is no key"),
                            "write a list of keys like [\"q\", \"ctrl-q\", \"alt-enter\", \"shift-tab\", \"f1\"]"
                                .into(),
                        )
                    })?;
                    if let Some((_, _, other)) =
                        new.iter().find(|(p, k, a)| *p == place && *k == read && *a != action)
                    {
                        return Err(wrong(
                            entry,
                            format!("{key} already does \"{}\" in [{section}]", other.name()),
                            "give each key one action in a section".into(),
                        ));
                    }
                    new.push((place, read, action));
                }
            }
        }
        self.bindings.retain(|(p, k, _)| !new.iter().any(|(np, nk, _)| np == p && nk == k));
        self.bindings.extend(new);
        Ok(())
    }

    /// What a key does in a place.
    pub fn action(&self, place: KeyContext, key: Key) -> Option<Action> {
        let at = |place| self.bindings.iter().find(|(p, k, _)| *p == place && *k == key).map(|(_, _, a)| *a);
        let typing = place.is_typing() && key.typed().is_some();
        match typing {
            true => at(place),
            false => at(place).or_else(|| place.chain().skip(1).find_map(at).filter(|a| place.lets(*a))),
        }
    }

    /// The keys that do something in a place, the place's own first, in the order of the map.
    pub(crate) fn keys(&self, place: KeyContext, action: Action) -> Vec<Key> {
        let of = |wanted| {
            self.bindings.iter().filter(move |(p, _, a)| *p == wanted && *a == action).map(|(_, k, _)| *k)
        };
        place.chain().flat_map(of).filter(|k| self.action(place, *k) == Some(action)).collect()
    }

    /// The help page: places in order, in each its actions with their keys.
    pub(crate) fn pages(&self) -> Vec<(KeyContext, Vec<KeysOf>)> {
        let page = |place| {
            let keys = |action| {
                let mine = self.bindings.iter().filter(move |(p, _, a)| *p == place && *a == action);
                mine.map(|(_, k, _)| *k).collect::<Vec<_>>()
            };
            let lines = Action::ALL.iter().map(|a| (*a, keys(*a)));
            lines.filter(|(_, keys)| !keys.is_empty()).collect::<Vec<_>>()
        };
        KeyContext::ALL.into_iter().map(|(place, _)| (place, page(place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaid(text: &str) -> Result<Keymap, StudioError> {
        let mut map = Keymap::built_in()?;
        map.overlay(text, "keymap.toml")?;
        Ok(map)
    }

    #[test]
    fn every_action_but_the_unbound_has_a_key() {
        let map = Keymap::built_in().unwrap();
        for action in Action::ALL {
            assert!(map.bindings.iter().any(|(_, _, a)| a == action), "{} has no key", action.name());
        }
    }

    #[test]
    fn a_place_goes_before_everywhere_and_typing_before_letters() {
        let map = Keymap::built_in().unwrap();
        assert_eq!(map.action(KeyContext::Reading, Key::char('q')), Some(Action::Quit));
        assert_eq!(map.action(KeyContext::List, Key::char('q')), Some(Action::Back));
        assert_eq!(map.action(KeyContext::Prompt, Key::char('q')), None);
        assert_eq!(map.action(KeyContext::Prompt, Key::ctrl('c')), Some(Action::Interrupt));
    }

    #[test]
    fn a_users_file_changes_only_what_it_names() {
        let map = overlaid("[everywhere]\nquit = \"ctrl-x\"\ntheme = []\nhelp = [\"m\"]\n").unwrap();
        assert_eq!(map.action(KeyContext::Reading, Key::char('q')), None);
        assert_eq!(map.action(KeyContext::Reading, Key::ctrl('x')), Some(Action::Quit));
        assert_eq!(map.action(KeyContext::Reading, Key::char('t')), None);
        assert_eq!(map.action(KeyContext::Reading, Key::char('m')), Some(Action::Help));
        assert_eq!(map.action(KeyContext::Reading, Key::char('y')), Some(Action::Copy));
    }

    #[test]
    fn mistakes_name_file_entry_and_way_out() {
        for (text, entry, instead) in [
            ("\n[everywere]\n", "keymap.toml:2: everywere", "[everywhere]"),
            ("[library]\nquitt = \"q\"\n", "keymap.toml:2: library.quitt", "quit"),
            ("[library]\n\nquit = [\"hyper-q\"]\n", "keymap.toml:3: library.quit", "ctrl-q"),
            ("[library]\nquit = [3]\n", "library.quit", "ctrl-q"),
            ("[library]\nquit = \"q\"\nrun = \"q\"\n", "library.", "one action"),
            ("library = 1\n", "library", "[library]"),
            ("[library\n", "line 1", "quit ="),
        ] {
            let error = overlaid(text).unwrap_err();
            let said = format!("{error} / {}", error.hint().unwrap_or_default());
            assert!(said.starts_with("keymap.toml:"), "{said}");
            assert!(said.contains(entry) && said.contains(instead), "{said}");
        }
    }
}
