//! The key map: the built-in bindings, and a user's file that overrides them.
//!
//! A key is looked up in the context where it is pressed, and then in `everywhere`. While text is edited, keys that type a
//! character are text and not looked up in `everywhere`.

use std::path::Path;

use serde_json::json;
use toml::de::{DeTable, DeValue};

use super::{action::Action, error::StudioError, key::Key};

/// The built-in key map, and an example for the user's `keymap.toml`.
pub const DEFAULT_KEYMAP: &str = include_str!("keymap.toml");

const KEYS: &str = "write keys such as \"q\", \"ctrl-q\", \"alt-enter\", \"shift-tab\", \"f1\"";

macro_rules! contexts {
    ($($variant:ident $name:literal $title:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum KeyContext {
            $(#[doc = $title] $variant,)*
        }

        impl KeyContext {
            /// All contexts with their names in key maps, in the order of the help page.
            const ALL: &'static [(KeyContext, &'static str)] = &[$((KeyContext::$variant, $name)),*];

            pub(crate) fn title(self) -> &'static str {
                match self { $(KeyContext::$variant => $title,)* }
            }
        }
    };
}

contexts! {
    Everywhere "everywhere" "Everywhere";
    Library "library" "Library";
    Preview "preview" "Preview";
    Prompt "prompt" "Prompt";
    Reading "reading" "Caption and meters";
    Inspector "inspector" "Inspector";
    Steps "steps" "Steps";
    Player "player" "Playback";
    Methods "methods" "Method picker";
    Edit "edit" "Method editor";
    Sampling "sampling" "Sampling";
    Pick "pick" "Methods to compare";
    Compare "compare" "Comparison";
    Timeline "timeline" "Timeline";
    Batch "batch" "Batch";
    CaptionEdit "caption_edit" "Caption editor";
    Models "models" "Models";
    Sessions "sessions" "Saved runs";
    Confirm "confirm" "Confirmation";
    List "list" "Lists";
    Entry "entry" "Text input";
}

impl KeyContext {
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(context, _)| *context)
    }

    /// Where a key is looked up that is not bound in this context.
    fn behind(self) -> Option<KeyContext> {
        match self {
            KeyContext::Everywhere | KeyContext::Confirm => None,
            KeyContext::Player | KeyContext::Steps => Some(KeyContext::Reading),
            _ => Some(KeyContext::Everywhere),
        }
    }

    fn chain(self) -> impl Iterator<Item = KeyContext> {
        std::iter::successors(Some(self), |context| context.behind())
    }

    /// True if a binding of `everywhere` applies in this context: in a box, not if it is about the panes behind it.
    fn lets(self, action: Action) -> bool {
        use Action::{
            Again, Boundaries, Copy, Export, Faster, FollowUp, Inspect, NewerRun, OlderRun, Segments, Slower,
            Speech, StepBack, StepForward, Steps, Sweep, Verify,
        };
        const OF_PANES: [Action; 17] = [
            Again,
            Boundaries,
            Copy,
            Export,
            FollowUp,
            Inspect,
            NewerRun,
            OlderRun,
            Segments,
            Speech,
            Steps,
            Sweep,
            Verify,
            StepBack,
            StepForward,
            Slower,
            Faster,
        ];
        let own: &[Action] = match self {
            KeyContext::Compare => &[Sweep],
            KeyContext::Preview => &[Segments, Speech],
            KeyContext::List
            | KeyContext::Methods
            | KeyContext::Edit
            | KeyContext::Sampling
            | KeyContext::Pick
            | KeyContext::Models
            | KeyContext::Sessions
            | KeyContext::Timeline
            | KeyContext::Batch
            | KeyContext::CaptionEdit
            | KeyContext::Entry => &[],
            _ => return true,
        };
        own.contains(&action) || !OF_PANES.contains(&action)
    }

    fn is_typing(self) -> bool {
        use KeyContext::{CaptionEdit, Entry, Methods, Models, Pick, Prompt, Timeline};
        matches!(self, Prompt | Entry | Methods | Models | Pick | Timeline | CaptionEdit)
    }
}

pub(crate) type KeysOf = (Action, Vec<Key>);

#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<(KeyContext, Key, Action)>,
}

impl Keymap {
    pub fn built_in() -> Result<Self, StudioError> {
        let mut map = Self { bindings: Vec::new() };
        map.overlay(DEFAULT_KEYMAP, "the built-in key map")?;
        Ok(map)
    }

    pub fn schema() -> serde_json::Value {
        let keys = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
        let action = |action: &Action| {
            let mut keys = keys.clone();
            keys["description"] = action.about().into();
            (action.name().to_owned(), keys)
        };
        let actions: serde_json::Map<_, _> = Action::ALL.iter().map(action).collect();
        let section = |(context, name): &(KeyContext, &str)| {
            let section = json!({
                "description": context.title(), "type": "object", "properties": actions, "additionalProperties": false
            });
            ((*name).to_owned(), section)
        };
        let sections: serde_json::Map<_, _> = KeyContext::ALL.iter().map(section).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Key map of specreel",
            "description": "In each section, actions with their keys. An empty list unbinds the action.",
            "type": "object",
            "properties": sections,
            "additionalProperties": false
        })
    }

    /// The built-in map with the overrides of a user's file, if it exists.
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

    /// Override bindings by a TOML text. An error names the file, the line, the entry, and what to write.
    pub fn overlay(&mut self, text: &str, file: &str) -> Result<(), StudioError> {
        let source = (file, text);
        let table = DeTable::parse(text).map_err(|error| {
            StudioError::not_toml(source, &error, "write lines such as: quit = [\"q\", \"ctrl-q\"]")
        })?;
        let mut new: Vec<(KeyContext, Key, Action)> = Vec::new();
        for (section, actions) in table.get_ref() {
            let wrong = |problem, hint| {
                StudioError::invalid(source, section.span(), section.as_ref().clone(), problem, hint)
            };
            let Some(context) = KeyContext::named(section.as_ref()) else {
                let known = KeyContext::ALL
                    .iter()
                    .map(|(_, name)| format!("[{name}]"))
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(wrong("unknown section", format!("expected one of: {known}")));
            };
            let DeValue::Table(actions) = actions.get_ref() else {
                return Err(wrong(
                    "expected a section",
                    format!("write [{}] on a line of its own", section.as_ref()),
                ));
            };
            for (name, keys) in actions {
                let entry = format!("{}.{}", section.as_ref(), name.as_ref());
                let Some(action) = Action::named(name.as_ref()) else {
                    let known = Action::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ");
                    let hint = format!("expected one of: {known}");
                    return Err(StudioError::invalid(source, name.span(), entry, "unknown action", hint));
                };
                self.bindings.retain(|(c, _, a)| (*c, *a) != (context, action));
                let listed = match keys.get_ref() {
                    DeValue::Array(listed) => &listed[..],
                    _ => std::slice::from_ref(keys),
                };
                for key in listed {
                    let wrong =
                        |problem, hint| StudioError::invalid(source, key.span(), &entry, problem, hint);
                    let written = &text[key.span()];
                    let Some(parsed) = key.get_ref().as_str().and_then(Key::parse) else {
                        return Err(wrong(format!("invalid key {written}"), KEYS));
                    };
                    let taken = |(c, k, a): &&(KeyContext, Key, Action)| {
                        *c == context && *k == parsed && *a != action
                    };
                    if let Some((_, _, other)) = new.iter().find(taken) {
                        let problem = format!("{written} is already bound to {}", other.name());
                        return Err(wrong(problem, "bind each key to one action in a section"));
                    }
                    new.push((context, parsed, action));
                }
            }
        }
        self.bindings.retain(|(c, k, _)| !new.iter().any(|(nc, nk, _)| nc == c && nk == k));
        self.bindings.extend(new);
        Ok(())
    }

    pub fn action(&self, context: KeyContext, key: Key) -> Option<Action> {
        let at =
            |context| self.bindings.iter().find(|(c, k, _)| *c == context && *k == key).map(|(_, _, a)| *a);
        let typing = context.is_typing() && key.typed().is_some();
        match typing {
            true => at(context),
            false => {
                at(context).or_else(|| context.chain().skip(1).find_map(at).filter(|a| context.lets(*a)))
            }
        }
    }

    pub(crate) fn keys(&self, context: KeyContext, action: Action) -> Vec<Key> {
        let of = |wanted| {
            self.bindings.iter().filter(move |(p, _, a)| *p == wanted && *a == action).map(|(_, k, _)| *k)
        };
        context.chain().flat_map(of).filter(|k| self.action(context, *k) == Some(action)).collect()
    }

    /// The first key of an action in a context, as the screen shows it; `None` if it is unbound.
    pub(crate) fn first(&self, context: KeyContext, action: Action) -> Option<String> {
        self.keys(context, action).first().map(ToString::to_string)
    }

    /// The first keys of these actions.
    pub(crate) fn shown(&self, context: KeyContext, actions: &[Action]) -> String {
        let keys = actions.iter().filter_map(|action| self.first(context, *action));
        keys.collect::<Vec<_>>().join(" ")
    }

    /// The help page in this context: contexts with their actions and keys, first those whose keys work here.
    pub(crate) fn pages(&self, here: KeyContext) -> Vec<(KeyContext, Vec<KeysOf>)> {
        let page = |context| {
            let keys = |action| {
                let mine = self.bindings.iter().filter(move |(c, _, a)| *c == context && *a == action);
                mine.map(|(_, k, _)| *k).collect::<Vec<_>>()
            };
            let lines = Action::ALL.iter().map(|a| (*a, keys(*a)));
            lines.filter(|(_, keys)| !keys.is_empty()).collect::<Vec<_>>()
        };
        let others = KeyContext::ALL.iter().map(|(context, _)| *context);
        let others = others.filter(|other| here.chain().all(|context| context != *other));
        here.chain().chain(others).map(|context| (context, page(context))).collect()
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
    fn a_context_overrides_everywhere_and_letters_are_typed_in_text() {
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
    fn errors_name_file_line_and_entry() {
        for (text, entry, instead) in [
            ("\n[everywere]\n", "keymap.toml:2: everywere", "[everywhere]"),
            ("[library]\nquitt = \"q\"\n", "keymap.toml:2: library.quitt", "quit"),
            ("[library]\n\nquit = [\"hyper-q\"]\n", "keymap.toml:3: library.quit", "ctrl-q"),
            ("[library]\nquit = [\n  3]\n", "keymap.toml:3: library.quit: invalid key 3", "ctrl-q"),
            ("[library]\nquit = \"q\"\nrun = \"q\"\n", "keymap.toml:3: library.run", "one action"),
            ("library = 1\n", "keymap.toml:1: library: expected a section", "[library]"),
            ("\n[library\n", "keymap.toml:2: invalid TOML", "quit ="),
        ] {
            let error = overlaid(text).unwrap_err();
            let said = format!("{error} / {}", error.hint().unwrap_or_default());
            assert!(said.starts_with("keymap.toml:"), "{said}");
            assert!(said.contains(entry) && said.contains(instead), "{said}");
        }
    }
}
