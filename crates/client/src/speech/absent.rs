//! A build without speech models: none can be opened.

use std::path::Path;

use super::{Between, SpeechModel};
use crate::Transcript;
use specreel_record::Failure;
use specreel_video::cuts::Progress;

pub enum Ear {}

impl Ear {
    pub fn open(named: &SpeechModel) -> Result<Option<Self>, Failure> {
        let Some(model) = &named.model else { return Ok(None) };
        let error = format!("speech model {}: this build lacks the feature `speech`", model.display());
        Err(Failure::usage(error, "build it with `--features speech`, or pass a transcript"))
    }

    pub(super) fn job(&self) -> String {
        match *self {}
    }

    pub fn hear(&self, _: &Path, _: Between, _: Progress<'_>) -> Result<Transcript, Failure> {
        match *self {}
    }
}
