//! The offer to download the models that a run names and the cache lacks. Only people at a terminal are asked.

use std::io::IsTerminal as _;

use super::{pull::download, *};
use crate::cli::args::{caption::CaptionArgs, run::RunArgs};
use specreel_checkpoint::hub::{Hub, HubError, ModelId, Settings as HubSettings, free_space};
use specreel_client::catalog::{local::is_misspelled, published_models};
use specreel_demo as assets;

/// Ask to download the target and the drafter of a run that are not on this machine, and download them: one question for both.
/// Returns an exit code if that was interrupted. Where nobody is asked or the answer is no, nothing happens, and the run fails
/// with the command that downloads them. Fails if the hub lacks the model, or the download fails.
pub fn missing(run: &RunArgs, config: &Config, is_silent: bool) -> Result<Option<i32>, End> {
    let hub = HubSettings::from_env();
    let (true, false, Some(cache)) = (is_asked(is_silent), hub.offline, hub.cache.clone()) else {
        return Ok(None);
    };
    let settings = Settings::merge(run.layer(), config);
    let named = [&settings.target, &settings.drafter].into_iter().filter_map(|named| named.value.as_deref());
    let mut ids: Vec<ModelId> = named.filter_map(local::absent).collect();
    ids.dedup();
    if ids.is_empty() {
        return Ok(None);
    }
    let hub = Hub::new(hub).map_err(Failure::from)?;
    let sizes: Result<Vec<u64>, HubError> = ids.iter().map(|id| hub.size(id)).collect();
    let sizes = match sizes {
        Ok(sizes) => sizes,
        // The error of the run names the nearest known one.
        Err(HubError::Absent { .. }) if ids.iter().any(is_misspelled) => return Ok(None),
        Err(error) => return Err(End::Failed(error.into())),
    };
    let free = free_space(&cache).map(|free| format!(", {} free", bytes(free))).unwrap_or_default();
    if !ask(&question(&ids, &sizes, &free))? {
        return Ok(None);
    }
    let interrupt = listen(|| {})?;
    for id in &ids {
        if download(&hub, id, &interrupt)?.is_none() {
            return Ok(Some(interrupted()));
        }
    }
    Ok(None)
}

/// Offer a small real model to people who caption a video of their own without naming a model, and use it for this run. Returns an
/// exit code if the download was interrupted. Fails as [`missing`] does.
pub fn first(args: &mut CaptionArgs, config: &Config) -> Result<Option<i32>, End> {
    let CaptionArgs { videos, run, output, .. } = &*args;
    let named = Settings::merge(run.layer(), config);
    let hub = HubSettings::from_env();
    let is_real = |video: &PathBuf| video.exists() && !assets::is_embedded_clip(video);
    if !is_asked(output.quiet || output.json)
        || args.dry_run
        || hub.offline
        || named.target.value.is_some()
        || named.drafter.value.is_some()
        || !videos.iter().any(is_real)
    {
        return Ok(None);
    }
    let found = published_models();
    let Some(model) = found.first() else { return Ok(None) };
    let id = ModelId::parse(&model.id).map_err(Failure::from)?;
    let free = found.disk.map(|free| format!(", {} free", bytes(free))).unwrap_or_default();
    let what = match model.stored {
        true => format!("Use {id}, which is on this machine?"),
        false => question(std::slice::from_ref(&id), &[model.bytes], &free),
    };
    if !ask(&format!("The embedded models only know moving colored shapes. {what}"))? {
        return Ok(None);
    }
    if !model.stored && download(&Hub::new(hub).map_err(Failure::from)?, &id, &listen(|| {})?)?.is_none() {
        return Ok(Some(interrupted()));
    }
    args.run.target = Some(model.id.clone().into());
    Ok(None)
}

/// True if questions can be asked and answered.
fn is_asked(is_silent: bool) -> bool {
    !is_silent && io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn ask(question: &str) -> io::Result<bool> {
    eprint!("{question} [Y/n] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn question(ids: &[ModelId], sizes: &[u64], free: &str) -> String {
    let sized = ids.iter().zip(sizes).map(|(id, size)| format!("{id} ({}", bytes(*size)));
    format!("Download {}{free})?", sized.collect::<Vec<_>>().join(") and "))
}

/// An empty line is a yes, the end of the input is not.
fn is_yes(answer: &str) -> bool {
    answer.ends_with('\n') && ["", "y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_models_are_in_one_question() {
        let ids = ["me/large", "me/small:Q8_0"].map(|id| ModelId::parse(id).unwrap());
        let free = ", 81 GB free";
        assert_eq!(question(&ids[..1], &[17_534_000_000], free), "Download me/large (18 GB, 81 GB free)?");
        assert_eq!(
            question(&ids, &[17_534_000_000, 4_255_000_000], free),
            "Download me/large (18 GB) and me/small:Q8_0 (4.3 GB, 81 GB free)?"
        );
    }

    #[test]
    fn only_a_line_that_says_so_is_a_yes() {
        for (answer, expected) in [
            ("\n", true),
            ("y\n", true),
            ("Yes \n", true),
            ("n\n", false),
            ("x\n", false),
            ("", false),
            ("y", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
