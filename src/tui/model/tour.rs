//! The guided first run: one thing to press after another, each said where the caption is, until all were seen or Esc ends it.

use super::{Activity, Model, Tone, stack::Screen};
use crate::look::{Action, KeyContext};
use crate::tui::screens::{compare::CompareScreen, compare_picker::ComparePicker};
use crate::tui::screens::{methods::MethodPicker, models::ModelPicker};
use specreel_record::StopReason;

/// What the tour asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TourStep {
    /// Start the first run.
    Start,
    /// Watch it.
    Watch,
    /// Read what the colors mean, and open the methods.
    Colors,
    /// Compare methods.
    Compare,
    /// See where models for other videos come from.
    Models,
}

impl TourStep {
    const ALL: [Self; 5] = [Self::Start, Self::Watch, Self::Colors, Self::Compare, Self::Models];

    /// Counted from 1, and how many there are.
    pub fn number(self) -> (usize, usize) {
        (1 + self as usize, Self::ALL.len())
    }

    fn next(self) -> Option<Self> {
        Self::ALL.get(1 + self as usize).copied()
    }

    /// True if the screen that it asks for is on top.
    fn is_open(self, model: &Model) -> bool {
        fn shows<S: Screen>(model: &Model) -> bool {
            model.screens.shown::<S>().is_some()
        }
        match self {
            Self::Start | Self::Watch => false,
            Self::Colors => shows::<MethodPicker>(model),
            Self::Compare => shows::<ComparePicker>(model) || shows::<CompareScreen>(model),
            Self::Models => shows::<ModelPicker>(model),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tour {
    pub step: TourStep,
    /// The screen that the step asks for was open.
    opened: bool,
}

impl Tour {
    pub fn start() -> Self {
        Self { step: TourStep::Start, opened: false }
    }
}

/// Go on to the next step once what this one asks for is done.
pub(crate) fn follow(model: &mut Model) {
    let Some(tour) = model.caption.tour else { return };
    let is_done = match tour.step {
        TourStep::Start => model.runs.shown().is_some(),
        TourStep::Watch => {
            let Some(run) = model.runs.shown() else { return };
            match run.activity() {
                // There is nothing to show of such a run.
                Activity::Failed(_) | Activity::CutOff | Activity::Done(StopReason::Cancelled) => {
                    return model.caption.tour = None;
                }
                Activity::Done(_) => !model.shows_player(),
                _ => false,
            }
        }
        _ => tour.opened && model.screens.is_empty(),
    };
    let next = Tour { opened: tour.opened || tour.step.is_open(model), ..tour };
    model.caption.tour = match is_done {
        false => Some(next),
        true => tour.step.next().map(|step| Tour { step, opened: false }),
    };
    if model.caption.tour.is_none() {
        let help = model.keymap.shown(KeyContext::Library, &[Action::Help]);
        model.note(Tone::Info, format!("end of the tour: {help} lists all keys"));
    }
}
