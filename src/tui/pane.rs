//! The panes.

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
