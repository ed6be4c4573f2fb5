//! Tests of the command line: exit codes, stdout and stderr.

#[macro_use]
#[path = "../../support/transcript.rs"]
mod transcript;

mod broken;
mod captioning;
mod comparing;
mod damage;
mod devices;
mod families;
mod gguf;
mod inputs;
mod inspecting;
mod interrupts;
mod library;
mod many;
mod models;
mod outputs;
mod own_files;
#[path = "../../support/program.rs"]
mod program;
mod real_language;
mod replaying;
mod segments;
mod shells;
mod structured;
mod tools;
mod watching;
mod weight_cache;

use ffmpeg_next::format::Pixel;

pub(crate) use self::program::{Outcome, Program, event, events, fixture, outcome, send};
use crate::{hub::server, video::make};

/// A home with `clip.mkv` of four frames, of which every family samples all.
pub(crate) fn with_clip() -> Program {
    let program = Program::new();
    program.file("clip.mkv", make::Clip::lossless(4, 64, 48, Pixel::YUV444P).write().bytes());
    program
}

/// These methods for `--methods`; methods of the laboratory are named by their files.
pub(crate) fn lab_methods(names: &str) -> String {
    let named = |name: &str| {
        let file = format!("{}/lab/methods/{name}.toml", crate::REPOSITORY);
        if std::path::Path::new(&file).exists() { file } else { name.to_owned() }
    };
    names.split(',').map(named).collect::<Vec<_>>().join(",")
}
