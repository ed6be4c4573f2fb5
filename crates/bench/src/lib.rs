//! Measuring: single passes of a decoder ([`rows`]), and a whole clip with random weights ([`clip_time`]).

pub mod clip_time;
pub mod rows;
