//! Speeds of models that have not run yet: short passes of parts of them, timed.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use specreel_tensor::Result;

use crate::{
    events::since,
    timing::pace::{Part, Rate, StagePace},
};
use specreel_model::{
    config::TextConfig,
    decoder::{Positions, Sequence, Taps},
    family::{ModelError, VideoLlm},
    mac_count::{self, MacCount},
    processor::{Grid, Patches},
    vision::VisionError,
};
use specreel_record::median;

/// Slots before the pass in which attention is timed.
const CONTEXT: usize = 2048;
/// Layers of a tower that run; the first one is not timed.
const TOWER_LAYERS: usize = 3;
/// Longest side of the probed temporal grid in patches, where a tower takes any size.
const TOWER_SIDE: usize = 16;
/// Part of a decoder's layers that a single row runs through, and the most. More than one, so that weights come from memory and
/// not from a processor's cache.
const TOKEN_SHARE: usize = 8;
const TOKEN_LAYERS: usize = 4;
/// Passes of a single row that warm up, and those that are timed.
const TOKEN_WARM_UP: usize = 2;
const TOKEN_PASSES: usize = 5;
/// Passes over a part of a prompt of which the fastest counts: little disturbs it, and much can only add to it.
const PROMPT_PASSES: usize = 2;

/// The layers of a decoder that a single row is timed on.
fn token_layers(model: &VideoLlm) -> usize {
    let c = model.decoder().config();
    // Of a model with linear attention, as many layers of each kind as the whole has in proportion.
    let unit = prompt_layers(c);
    (c.layers / TOKEN_SHARE).clamp(1, TOKEN_LAYERS).next_multiple_of(unit)
}

/// The layers that a prompt is timed on: one, or up to the first with full attention.
fn prompt_layers(c: &TextConfig) -> usize {
    c.linear.map_or(1, |linear| linear.every)
}

/// What [`decoder`] computes.
pub(crate) fn decoder_work(model: &VideoLlm) -> MacCount {
    let (decoder, mut c) = (model.decoder(), model.decoder().config().clone());
    let rows = decoder.chunk();
    c.layers = prompt_layers(&c);
    let first = mac_count::prompt(&c, 0, rows) * (1 + PROMPT_PASSES) as f64;
    let later = mac_count::prompt(&c, CONTEXT, rows);
    c.layers = token_layers(model);
    first + later + mac_count::token(&c, 0) * (TOKEN_WARM_UP + TOKEN_PASSES) as f64
}

/// The speeds of reading a prompt and of writing a token: passes through the first layers.
pub(crate) fn decoder(model: &VideoLlm) -> Result<[Option<Rate>; 2]> {
    let whole = model.decoder();
    let rows = whole.chunk();
    let ids: Vec<u32> = (0..rows as u32).map(|id| id % whole.config().vocab.max(1) as u32).collect();
    let input = whole.embed(&ids)?;
    let one = Arc::new(whole.first_layers(prompt_layers(whole.config())));
    let c = one.config().clone();
    let mut sequence = Sequence::new(one, CONTEXT + 2 * rows);
    let pass = |sequence: &mut Sequence| -> Result<f64> {
        let (at, started) = (Positions::text(sequence.len() as u32, rows), Instant::now());
        let next = (sequence.len() + rows) as u32;
        sequence.prefill(&input, &at, next, &mut |_, _| {}, &mut |_, _| ControlFlow::Continue(()))?;
        sequence.synchronize()?;
        Ok(since(started))
    };
    // The first pass reads the weights into memory, where the file is mapped.
    pass(&mut sequence)?;
    let mut first_ms = f64::INFINITY;
    for _ in 0..PROMPT_PASSES {
        sequence.truncate(0);
        first_ms = pass(&mut sequence)?.min(first_ms);
    }
    let copy = sequence.fork(rows, rows)?;
    let whole_copies = (CONTEXT - rows) / rows;
    for _ in 0..whole_copies {
        sequence.append(&copy, 0..rows)?;
    }
    let later_ms = pass(&mut sequence)?;
    let (first, later) = (mac_count::prompt(&c, 0, rows), mac_count::prompt(&c, CONTEXT, rows));
    let attention = (later_ms - first_ms) * 1e9 / (later - first).attention;
    let products = (first_ms - attention * first.attention / 1e9) * 1e9 / first.products;
    let exact = Some(Rate { products, attention }).filter(Rate::is_sane);
    let prompt =
        exact.or_else(|| Rate::of(&(first + later), first_ms + later_ms, &Rate::unknown(Part::Prompt)));

    let few = Arc::new(whole.first_layers(token_layers(model)));
    // A row takes mostly the time of reading the weights, and the first layers and the head may have other types than the rest.
    let share = few.matrix_bytes() as f64 / whole.matrix_bytes().max(1) as f64;
    let passes = TOKEN_WARM_UP + TOKEN_PASSES;
    let mut sequence = Sequence::new(few, passes);
    let mut row = || -> Result<f64> {
        let started = Instant::now();
        let pass = sequence.feed(&ids[..1], &Taps::default())?;
        sequence.logits(&pass.states)?;
        sequence.synchronize()?;
        Ok(since(started))
    };
    let mut all = (0..passes).map(|_| row()).collect::<Result<Vec<f64>>>()?;
    let ms = median(all.split_off(TOKEN_WARM_UP)).unwrap_or_default() / share.max(1e-9);
    let token = Rate::of(&mac_count::token(whole.config(), 0), ms, &Rate::unknown(Part::Token));
    Ok([prompt, token])
}

/// The temporal grid that [`tower`] encodes for a video of this grid.
fn tower_grid(model: &VideoLlm, grid: Grid) -> Grid {
    match model.processor().config().fixed {
        Some(_) => Grid { t: 1, ..grid },
        None => Grid { t: 1, h: grid.h.min(TOWER_SIDE), w: grid.w.min(TOWER_SIDE) },
    }
}

/// What [`tower`] computes.
pub(crate) fn tower_work(model: &VideoLlm, grid: Grid) -> MacCount {
    let work = model.tower_config().mac_count(tower_grid(model, grid));
    work.after(TOWER_LAYERS, model.tower_config().layers())
}

/// The speed of a tower: a few of its layers on one small temporal grid.
pub(crate) fn tower(model: &VideoLlm, grid: Grid) -> std::result::Result<Option<Rate>, ModelError> {
    let grid = tower_grid(model, grid);
    let work = model.tower_config().mac_count(grid);
    let row = model.processor().config().row();
    // Not zeros, which some products would skip.
    let data = (0..grid.h * grid.w * row).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect();
    let patches = Patches { data, grid, row };
    let (mut pace, mut started) = (None::<StagePace>, Instant::now());
    let encoded = model.encode(&patches, &mut |done, total| {
        if model.device().synchronize().is_err() {
            return ControlFlow::Break(());
        }
        let done_work = work.after(done, total) - work.after(1, total);
        match &mut pace {
            None => {
                pace = Some(StagePace::new(Part::Tower, work.total(), None));
                started = Instant::now();
            }
            Some(pace) => {
                pace.tick(done_work, since(started));
            }
        }
        if done >= TOWER_LAYERS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match encoded {
        // A tower with few layers comes to its end.
        Ok(_) | Err(ModelError::Vision(VisionError::Cancelled)) => Ok(pace.and_then(|pace| pace.rate())),
        Err(error) => Err(error),
    }
}
