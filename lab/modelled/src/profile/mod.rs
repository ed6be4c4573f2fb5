//! Speed on other hardware: recorded steps, charged with the time of a pass there.
//!
//! A [`Profile`] knows the time of a pass of the target and of each drafter by rows and by slots of the cache; a [`Workload`] is
//! a run, pass by pass. [`Profile::charge`] gives the time that the same drafts, with the same acceptance, would take.
//! Nothing of it is measured, and every face calls it "modelled".

mod charge;
mod cost;
mod file;

pub use charge::{Drafting, Modelled, Tick, Window, Workload, ticks};
pub use cost::{Cost, Curve, Device, Equation, Point, Roofline, Sizes};

use std::collections::BTreeMap;

/// What passes take on some hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: String,
    /// Models, hardware and source in a line; may be empty.
    pub about: String,
    /// True if the drafter has a device of its own, and works at the same time under the parallel schedule.
    pub two_devices: bool,
    /// Host time of a step in milliseconds, besides its passes; `None` = as recorded.
    pub step_ms: Option<f64>,
    /// Host time of growing a dynamic tree in milliseconds, for each step that has one.
    pub grow_ms: f64,
    /// Time before the first token, from file to prefill, in milliseconds; `None` = unknown.
    pub prefill_ms: Option<f64>,
    /// Visual tokens of a prompt; `None` = as recorded. The drafter sees the recorded share of them.
    pub visual: Option<usize>,
    /// The other tokens of a prompt; `None` = as recorded.
    pub text: Option<usize>,
    pub target: Cost,
    pub drafter: Option<Cost>,
    /// Draft heads by recipe; under the empty name one for every recipe.
    pub heads: BTreeMap<String, Cost>,
}
