//! Reads the meanings of captions with the target alone.

use super::*;
use specreel_client::moments::tells_meanings;
use specreel_engine::Meanings;

/// Read the captions of an index that have no meaning of the target of these settings. Returns the exit code.
pub(super) fn read(
    index: &mut Index,
    settings: &Settings,
    run: &RunArgs,
    is_shown: bool,
) -> Result<i32, End> {
    let (models, model) = target_alone(settings, run)?;
    let lacking = index.without_meaning(&model)?;
    if lacking.is_empty() {
        return Ok(0);
    }
    let Some((client, interrupt)) = loaded(models, run, is_shown)? else { return Ok(interrupted()) };
    let remote = client.remote();
    let mut progress = Progress::new(is_shown);
    if !index.meaning_models()?.contains(&model) {
        progress.looking("checking whether the target can search by meaning", 0.0, 0.0);
        if !tells_meanings(&mut |texts| remote.meanings(texts, None))? {
            progress.clear();
            index.put_unable(&model)?;
            if is_shown {
                tell!("note: {model} cannot search by meaning; captions are found by their words only");
            }
            return Ok(0);
        }
    }
    for (number, (caption, text)) in lacking.iter().enumerate() {
        if interrupt.asked() {
            progress.clear();
            return Ok(interrupted());
        }
        progress.looking("reading captions", number as f64, lacking.len() as f64);
        let Meanings { vectors, .. } = remote.meanings(vec![text.clone()], None)?;
        let known: Vec<(i64, Vec<f32>)> = std::iter::once(*caption).zip(vectors).collect();
        index.put_meanings(&model, &known)?;
    }
    progress.clear();
    Ok(0)
}
