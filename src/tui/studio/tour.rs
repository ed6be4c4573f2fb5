//! How the guided first run goes on.

use crate::look::{Action, KeyContext};
use crate::tui::model::{
    Activity, Model, Screen, Tone,
    tour::{Tour, TourStep},
};
use crate::tui::screens::{compare::CompareScreen, compare_picker::ComparePicker};
use crate::tui::screens::{methods::MethodPicker, models::ModelPicker};
use specreel_record::StopReason;

/// Go on to the next step once what this one asks for is done.
pub(super) fn follow(model: &mut Model) {
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
    let here = Tour { opened: tour.opened || is_open(tour.step, model), ..tour };
    model.caption.tour = match is_done {
        false => Some(here),
        true => tour.step.next().map(|step| Tour { step, opened: false }),
    };
    if model.caption.tour.is_none() {
        let help = model.keymap.shown(KeyContext::Library, &[Action::Help]);
        model.note(Tone::Info, format!("end of the tour: {help} lists all keys"));
    }
}

/// True if the screen that a step asks for is on top.
fn is_open(step: TourStep, model: &Model) -> bool {
    fn shows<S: Screen>(model: &Model) -> bool {
        model.screens.shown::<S>().is_some()
    }
    match step {
        TourStep::Start | TourStep::Watch => false,
        TourStep::Colors => shows::<MethodPicker>(model),
        TourStep::Compare => shows::<ComparePicker>(model) || shows::<CompareScreen>(model),
        TourStep::Models => shows::<ModelPicker>(model),
    }
}
