//! How specreel says what happened: the words, styles, columns and files that the command line and the studio share.
//!
//! Both render a [`RunLog`](specreel_record::RunLog). The parts that must agree are defined here, once:
//!
//! | module | what |
//! |---|---|
//! | [`verdicts`] | the legend: looks and colors of verdicts |
//! | [`statistics`] | statistics of runs, as table columns and in words |
//! | [`reason`] | why a token is in the caption |
//! | [`ledger`] | the steps of a run, row by row |
//! | [`estimate`] | time and memory of a run, before and during it |
//! | [`heat`] | visual tokens as values from 0 to 1 |
//! | [`player`] | the playback of a run: the part seen so far, and the scene of the current step |
//! | [`formats`] | bytes, times, percentages, ratios |
//! | [`systems`] | which system a method belongs to |
//! | [`text`] | foreign text that reaches a terminal: sanitized, measured, cut |
//! | [`grid`], [`wrap`] | text in columns, and in lines, for a width |
//! | [`export`] | runs as text, Markdown, subtitles and HTML |
//!
//! Nothing here knows a terminal, an argument or a screen.

pub mod estimate;
pub mod export;
pub mod formats;
pub mod grid;
pub mod heat;
pub mod ledger;
pub mod player;
pub mod reason;
pub mod statistics;
pub mod systems;
pub mod text;
pub mod verdicts;
pub mod wrap;
