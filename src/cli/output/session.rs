//! Saved runs as `--save` writes them: the events of a run, one JSON object per line.

use std::io;

use super::new_file::Named;
use crate::cli::resolve::stdin_video;
use specreel_record::Event;

/// The file of saved runs, for [`OutputFile`](super::new_file::OutputFile).
pub const SESSION: Named = Named {
    flag: "--save",
    what: "the run to ",
    on_failure: "events saved so far are kept; check the free disk space",
    private: true,
};

/// An event as a line of JSON, its line end included. A video from stdin is called `-`.
pub fn event_line(event: &Event) -> io::Result<Vec<u8>> {
    let renamed = stdin_video::renamed(event);
    let mut line = serde_json::to_vec(renamed.as_ref().unwrap_or(event))?;
    line.push(b'\n');
    Ok(line)
}
