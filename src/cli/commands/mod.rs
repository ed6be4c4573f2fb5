//! The subcommands.

pub mod batch;
pub mod caption;
pub mod compare;
pub mod complete;
pub mod config;
pub mod dataset;
pub mod doctor;
pub mod dry_run;
pub mod inspect;
pub mod manual;
pub mod methods;
pub mod models;
pub mod replay;
pub mod scenes;
pub mod train;
