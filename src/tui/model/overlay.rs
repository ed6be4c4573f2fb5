//! The panes, and the boxes over them.

use crate::tui::KeyContext;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pane {
    Library,
    Prompt,
    Caption,
    Steps,
    Meters,
}

impl Pane {
    pub const ALL: [Pane; 5] = [Pane::Library, Pane::Prompt, Pane::Caption, Pane::Steps, Pane::Meters];

    pub fn next(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|p| *p == self).unwrap_or(0) as isize;
        Self::ALL[(at + by).rem_euclid(Self::ALL.len() as isize) as usize]
    }
}

/// A box or an input line over the panes, which has the focus.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    /// The method picker with its filter, and the cursor among the methods that match.
    Methods {
        query: String,
        cursor: usize,
    },
    /// The models screen with its filter, and the cursor among the rows that match.
    Models {
        query: String,
        cursor: usize,
    },
    /// The path of the vision tower for a target in GGUF.
    Tower {
        target: std::path::PathBuf,
        line: String,
    },
    Presets(usize),
    /// The help page, opened in a context, with its search and its first line.
    Help {
        from: KeyContext,
        query: String,
        top: usize,
    },
    Filter,
    Open {
        line: String,
        found: Vec<String>,
    },
    Preview,
    Batch,
    EditCaption,
    Sessions,
    /// The selection of methods to compare, with its filter, and the cursor among those that match.
    Pick {
        query: String,
        cursor: usize,
    },
    /// The themes, of which the one under the cursor is shown, the one to go back to, and the box that they cover.
    Themes {
        cursor: usize,
        before: usize,
        over: Option<Box<Overlay>>,
    },
    Compare,
    Edit(usize),
    Export(usize),
    Segments(String),
    /// The transcript of the selected clip, or the speech model.
    Speech {
        line: String,
        found: Vec<String>,
    },
    /// The segments of the shown clip, with a search in their captions, and the cursor among those that match.
    Timeline {
        query: String,
        cursor: usize,
    },
    Search,
    SessionFilter,
    History {
        query: String,
        cursor: usize,
    },
    Ask(String),
    Value {
        row: usize,
        line: String,
    },
    SaveMethod(String),
}

impl Overlay {
    /// The cursor of its list, or the first line of the help page.
    pub fn cursor(&mut self) -> Option<&mut usize> {
        match self {
            Overlay::Presets(at)
            | Overlay::Edit(at)
            | Overlay::Export(at)
            | Overlay::Help { top: at, .. }
            | Overlay::Methods { cursor: at, .. }
            | Overlay::Models { cursor: at, .. }
            | Overlay::Pick { cursor: at, .. }
            | Overlay::Themes { cursor: at, .. }
            | Overlay::History { cursor: at, .. }
            | Overlay::Timeline { cursor: at, .. } => Some(at),
            _ => None,
        }
    }
}
