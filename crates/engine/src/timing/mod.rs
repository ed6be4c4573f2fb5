//! How long things take: speeds from finished stages (`pace`, kept by `rates`) or from short passes (`probe`) and
//! whole ones (`passes`); and how much of a
//! time went into waiting for processors that other programs used (`contention`).

mod contention;
mod pace;
pub(crate) mod passes;
pub(crate) mod probe;
pub(crate) mod rates;

pub(crate) use self::{
    contention::ContentionMeter,
    pace::{Part, Rate, StagePace},
    rates::Rates,
};
