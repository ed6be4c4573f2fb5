//! The inspector's token cursor.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heat {
    /// The visual tokens that resemble this token most.
    #[default]
    NearestVisual,
    Kept,
    /// The scores by which they were chosen.
    Scores,
}

impl Heat {
    pub const ALL: [Heat; 3] = [Heat::NearestVisual, Heat::Kept, Heat::Scores];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspector {
    pub token: usize,
    pub heat: Heat,
}
