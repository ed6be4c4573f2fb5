//! How long a run takes: speeds from finished stages (`pace`, kept by `rates`) or from short passes (`probe`), and the estimate
//! made of them; and how much of a time went into waiting for processors that other programs used (`contention`).

pub(crate) mod choice;
mod contention;
pub(crate) mod estimate;
mod pace;
mod probe;
pub(crate) mod rates;

pub(crate) use self::{
    contention::ContentionMeter,
    estimate::{Forecast, Layout},
    pace::{Part, StagePace},
    rates::Rates,
};
