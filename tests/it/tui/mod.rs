//! The studio without a terminal: pictures of its screens with styles, whole flows over a scripted engine, random keys.

mod flows;
mod looks;
mod picture;
mod pictures;
mod recorded;
mod script;
mod watch;
