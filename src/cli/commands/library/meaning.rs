//! What captions and searches are about, by the target alone.

use super::*;
use crate::cli::interrupt::{Interrupt, interrupted, listen};
use specreel_client::moments::Meaning;
use specreel_engine::Meanings;

/// Captions that are read between two looks at the interrupt.
const TOGETHER: usize = 16;

/// A loaded target, without what drafts for it.
struct Reader {
    client: Client,
    interrupt: Interrupt,
    progress: Progress,
}

impl Reader {
    /// Load the target of these settings. `None` if that was interrupted.
    fn load(settings: &Settings, run: &RunArgs, is_shown: bool) -> Result<Option<Self>, End> {
        let models = ModelSpec { drafter: None, heads: Vec::new(), ..catalog::spec(settings, run.rope)? };
        let mut client = Client::start()?;
        let remote = client.remote();
        let interrupt = listen(move || remote.cancel(0))?;
        client.load(models, run.ignore_memory)?;
        let mut progress = Progress::new(is_shown);
        let loaded = super::super::ask::until_loaded(&mut client, &mut progress);
        match loaded {
            Err(_) if interrupt.asked() => Ok(None),
            loaded => loaded.map(|()| Some(Self { client, interrupt, progress })),
        }
    }

    fn meanings(&self, texts: Vec<String>) -> Result<Meanings, Failure> {
        self.client.remote().meanings(texts, Duration::MAX)
    }
}

/// Read what captions are about of which that is not known yet. Returns the exit code.
pub(super) fn read(
    index: &mut Index,
    settings: &Settings,
    run: &RunArgs,
    is_shown: bool,
) -> Result<i32, End> {
    let lacking = index.without_meaning()?;
    if lacking.is_empty() {
        return Ok(0);
    }
    let Some(mut reader) = Reader::load(settings, run, is_shown)? else { return Ok(interrupted()) };
    for (number, captions) in lacking.chunks(TOGETHER).enumerate() {
        if reader.interrupt.asked() {
            reader.progress.clear();
            return Ok(interrupted());
        }
        reader.progress.looking("reading captions", (number * TOGETHER) as f64, lacking.len() as f64);
        let Meanings { model, vectors } =
            reader.meanings(captions.iter().map(|(_, text)| text.clone()).collect())?;
        let known: Vec<(i64, Vec<f32>)> = captions.iter().map(|(id, _)| *id).zip(vectors).collect();
        index.put_meanings(&model, &known)?;
    }
    reader.progress.clear();
    Ok(0)
}

/// What a text is about. `None` if that was interrupted.
pub(super) fn of(
    text: &str,
    settings: &Settings,
    run: &RunArgs,
    is_shown: bool,
) -> Result<Option<Meaning>, End> {
    let Some(mut reader) = Reader::load(settings, run, is_shown)? else { return Ok(None) };
    let meanings = reader.meanings(vec![text.to_owned()])?;
    reader.progress.clear();
    Ok(Meaning::first(meanings))
}
