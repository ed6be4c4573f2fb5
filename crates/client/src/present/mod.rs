//! How specreel says what happened: the words, styles, columns and files that the command line and the studio share.
//!
//! Both render a [`RunLog`](specreel_record::RunLog). What they must agree on lives here, once:
//!
//! | module | what |
//! |---|---|
//! | [`verdicts`] | the legend: looks and colours of verdicts |
//! | [`statistics`] | statistics of runs, as table columns and in words |
//! | [`reason`] | why a token is in the caption |
//! | [`ledger`] | the steps of a run, row by row |
//! | [`estimate`] | what a run takes, before and while it runs |
//! | [`heat`] | visual tokens as values from 0 to 1 |
//! | [`modelled`] | runs on hardware that is not here |
//! | [`player`] | a run as it is played: what has been seen of it, and the scene of the current step |
//! | [`formats`] | bytes, times, percentages, ratios |
//! | [`systems`] | which system a method belongs to |
//! | [`text`] | foreign text that reaches a terminal: sanitised, measured, cut |
//! | [`wrap`] | words, broken into lines |
//! | [`export`] | runs as text, Markdown, subtitles and HTML |
//!
//! Nothing here knows a terminal, an argument or a screen.

pub mod estimate;
pub mod export;
pub mod formats;
pub mod heat;
pub mod ledger;
pub mod modelled;
pub mod player;
pub mod reason;
pub mod statistics;
pub mod systems;
pub mod text;
pub mod verdicts;
pub mod wrap;
