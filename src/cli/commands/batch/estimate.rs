//! `specreel caption --dry-run` for many videos: the plan, with time and memory.

use super::*;
use specreel_batch::{Clip, Outputs, outputs::Need};
use specreel_client::present::{estimate, formats};
use specreel_record::Estimate;

/// Number of videos, evenly spread, that the estimate reads.
const SAMPLES: usize = 8;

pub fn run(args: &CaptionArgs, plan: &Plan, clips: &[Clip], outputs: &mut Outputs) -> Result<i32, End> {
    let (mut todo, mut done, mut failed) = (Vec::new(), 0, 0);
    let mut captions = 0;
    for clip in clips {
        match outputs.need(clip) {
            Ok(Need::Nothing) => done += 1,
            Ok(Need::FailedBefore(_)) | Err(_) => failed += 1,
            Ok(Need::Captions(prompts)) => {
                captions += prompts.len();
                todo.push(clip);
            }
        }
    }
    if let Some(limit) = plan.limit.filter(|limit| *limit < todo.len()) {
        captions = captions * limit / todo.len();
        todo.truncate(limit);
    }
    let Some((estimates, bad)) = sample(args, plan, &todo)? else { return Ok(interrupted()) };
    let times: Vec<f64> = estimates.iter().filter_map(Estimate::total_ms).collect();
    let mean = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
    let total_ms = mean.map(|ms| ms * captions as f64);
    let peak = estimates.iter().filter_map(|estimate| estimate.peak_bytes).max();
    let mut out = std::io::stdout().lock();
    if args.output.json {
        let line = json!({ "run": 0, "event": "batch", "dry_run": true, "total": clips.len(), "todo": todo.len(),
            "captions": captions, "skipped": done, "failed": failed, "sampled": estimates.len(), "unreadable": bad.len(),
            "seconds": total_ms.map(|ms| (ms / 1000.0).round()), "peak_bytes": peak });
        writeln!(out, "{line}")?;
        return Ok(0);
    }
    writeln!(
        out,
        "videos    {}: {} to caption, {done} have captions, {failed} failed before",
        clips.len(),
        todo.len()
    )?;
    writeln!(out, "captions  {captions}")?;
    if let (Some(total), Some(each)) = (total_ms, mean) {
        let of = formats::plural(times.len() as u64, "video");
        writeln!(
            out,
            "time      {}: {} a caption, from {of}",
            estimate::up_to(total),
            estimate::up_to(each)
        )?;
    }
    if let Some(peak) = peak {
        writeln!(out, "memory    {}", formats::bytes(peak))?;
    }
    for (path, failure) in bad {
        writeln!(out, "unusable  {}: {}", shown(&path), super::color::plain(&failure.error))?;
    }
    Ok(0)
}

type Sampled = (Vec<Estimate>, Vec<(std::path::PathBuf, Failure)>);

/// The estimates of some videos, and those that cannot be used. `None` if interrupted.
fn sample(args: &CaptionArgs, plan: &Plan, todo: &[&Clip]) -> Result<Option<Sampled>, End> {
    let (mut estimates, mut bad) = (Vec::new(), Vec::new());
    if todo.is_empty() {
        return Ok(Some((estimates, bad)));
    }
    let (mut client, interrupt) = loading(plan.models.clone(), args.run.ignore_memory)?;
    let runtime = runtime()?;
    let said = |clip: &Path| plan.said(clip, &interrupt);
    let samples = SAMPLES.min(todo.len());
    for number in 0..samples {
        let clip = todo[number * todo.len() / samples];
        let prompt = plan.prompts.first().map(String::as_str).unwrap_or_default();
        let request = match plan.batch(&interrupt, &said).sample(clip, prompt) {
            Ok(request) => RunRequest { run: number as u64 + 1, estimate_only: true, ..request },
            Err(failure) => {
                bad.push((clip.path(), failure));
                continue;
            }
        };
        let mut log = RunLog::new(request.run);
        let mut ignore = |_: &Event, _: &RunLog| Ok::<_, std::convert::Infallible>(ControlFlow::Continue(()));
        let following = client.follow(request, &mut log, &mut ignore, &interrupt, GRACE);
        let Ok(ending) = runtime.block_on(following);
        match ending {
            Ending::NotSent => return Ok(None),
            Ending::NoModels(failure) | Ending::Lost(failure) => return Err(End::Failed(failure)),
            Ending::Failed(failure) => bad.push((clip.path(), failure)),
            Ending::Done(_) => estimates.extend(log.estimate().cloned()),
        }
        if interrupt.asked() {
            return Ok(None);
        }
    }
    Ok(Some((estimates, bad)))
}
