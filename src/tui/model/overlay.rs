//! Where the user is: the panes, and the boxes that lie over them.

/// A pane that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pane {
    Library,
    Prompt,
    Caption,
    Meters,
}

impl Pane {
    pub const ALL: [Pane; 4] = [Pane::Library, Pane::Prompt, Pane::Caption, Pane::Meters];

    pub fn next(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|p| *p == self).unwrap_or(0) as isize;
        Self::ALL[(at + by).rem_euclid(Self::ALL.len() as isize) as usize]
    }
}

/// What lies over the panes and takes the keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    /// The method picker with its cursor.
    Methods(usize),
    /// The prepared prompts with their cursor.
    Presets(usize),
    /// The help with its search and its first line.
    Help { query: String, top: usize },
    /// Typing the library's filter.
    Filter,
    /// Typing a path; what it could become, where that was asked for.
    Open { line: String, found: Vec<String> },
    /// The selected clip with its frames.
    Preview,
    /// The saved sessions.
    Sessions,
    /// Picking the methods of a comparison, with the cursor.
    Pick(usize),
    /// The comparison.
    Compare,
    /// The chosen method taken apart, with the cursor.
    Edit(usize),
    /// Choosing the kind of file for the shown run, with the cursor.
    Export(usize),
    /// Typing the length of the pieces in which the clip is captioned.
    Segments(String),
    /// Typing what is searched in the caption.
    Search,
    /// Typing a filter for the saved sessions.
    SessionFilter,
    /// The prompts that were run, with the search in them and the cursor.
    History { query: String, cursor: usize },
    /// Typing a question that goes on with the shown caption.
    Ask(String),
    /// Typing the value of a row of the chosen method.
    Value { row: usize, line: String },
    /// Typing the name under which the chosen method is kept.
    SaveMethod(String),
}
