//! Passes through the layers of a decoder, on any device.

use super::{
    Mask, Pass, Positions, Taps,
    buffers::PassBuffers,
    cache::{HybridCache, Recurring},
    layer::Mixer,
    on_device::OnDevice,
    parts::FeedForward,
};
use specreel_tensor::{
    Gate, Result,
    ops::{DecoderOps, Input, Out, PassSpec, Residual, RowPart},
    recurrent::RecurrentPass,
    states::States,
};

/// A pass whose inputs agree with each other, the model and the cache.
pub(super) struct CheckedPass<'a, D: DecoderOps> {
    pub(super) rows: usize,
    pub(super) positions: &'a Positions,
    pub(super) mask: &'a Mask,
    pub(super) recurring: Option<Recurring>,
    pub(super) cache: &'a mut HybridCache<D>,
    pub(super) taps: &'a Taps,
}

/// What enters the layers: the rows of some passes, one after another.
pub(super) struct Entering<'a> {
    pub(super) input: Input<'a>,
    /// DeepStack levels after the embeddings or states of a row; 0 for text.
    pub(super) levels: usize,
}

impl<D: DecoderOps> OnDevice<D> {
    /// What the layers need to know of passes that are computed together: of those with full attention, and of those that attend
    /// within a window, if the model has such layers.
    fn specs<'a>(&self, passes: &[CheckedPass<'a, D>]) -> (Vec<PassSpec<'a>>, Option<Vec<PassSpec<'a>>>) {
        let c = &self.config;
        let layers = c.unbounded_layers();
        let mut first = 0;
        let whole = passes.iter().map(|&CheckedPass { rows, positions, mask, taps, .. }| {
            let ((cos, sin), probe, shape) = (self.rope.tables(positions), taps.probe.as_ref(), self.shape());
            first += rows;
            PassSpec { first: first - rows, rows, layers, shape, cos, sin, mask, window: None, probe }
        });
        let whole: Vec<_> = whole.collect();
        let (Some(rope), Some(shape), Some(gemma)) = (&self.sliding_rope, self.sliding_shape(), &c.gemma)
        else {
            return (whole, None);
        };
        // An assistant's row has no slot of its own, which a window counts.
        let absent = usize::from(c.assists.is_some());
        let window = Some(gemma.window.saturating_sub(absent).max(1));
        let within = passes.iter().zip(&whole).map(|(pass, &PassSpec { first, rows, mask, .. })| {
            let (cos, sin) = rope.tables(pass.positions);
            PassSpec { first, rows, layers, shape, cos, sin, mask, window, probe: None }
        });
        let within = Some(within.collect());
        (whole, within)
    }

    /// Run the rows of passes through the layers, all at once; each cache grows by as many slots as its pass has rows.
    ///
    /// Several passes have text alone, and need a device that computes them [together](Ability::Together), and a model without
    /// linear attention and convolutions.
    pub(super) fn run(
        &self,
        entering: Entering<'_>,
        passes: &mut [CheckedPass<'_, D>],
        buffers: &mut PassBuffers<D>,
    ) -> Result<Vec<Pass>> {
        let (c, ops) = (&self.config, &self.ops);
        let Entering { input, levels } = entering;
        let rows = input.rows();
        let part = passes.first().and_then(|pass| pass.taps.layers.clone()).unwrap_or(0..self.layers.len());
        let (whole, within) = self.specs(passes);
        let (entered, inputs) = (self.entered(), self.layer_inputs.as_deref());
        let PassBuffers {
            work,
            wide,
            x,
            normed,
            qkv,
            mixed,
            gates,
            attended,
            answered,
            projected,
            gated,
            settled,
            added,
            convolved,
        } = buffers;
        for (number, pass) in passes.iter_mut().enumerate() {
            if let (Some(within), Some(sliding)) = (&within, &mut pass.cache.sliding) {
                ops.begin(work, &within[number], sliding)?;
            }
            ops.begin(work, &whole[number], &mut pass.cache.attention)?;
        }
        let all = RowPart::all(rows);
        if let Some(values) = entered {
            ops.load(work, &self.table, input, wide)?;
            ops.columns(work, wide, 0..values, qkv)?;
            ops.columns(work, wide, values..values + c.hidden, x)?;
        } else if let (Some(inputs), Input::States(_)) = (inputs, input) {
            ops.load(work, &self.table, input, wide)?;
            ops.columns(work, wide, 0..c.hidden, x)?;
            ops.columns(work, wide, c.hidden..c.hidden + inputs.per_layer.values(), added)?;
        } else if levels == 0 {
            ops.load(work, &self.table, input, x)?;
            if let (Input::Ids(ids), true) = (input, self.embedding_scale != 1.0) {
                ops.scale(work, x, self.embedding_scale)?;
                if let Some(inputs) = inputs {
                    inputs.write(ops, (work, &self.table), ids, (x, normed, mixed), added)?;
                }
            }
        } else {
            ops.load(work, &self.table, input, wide)?;
            ops.columns(work, wide, 0..c.hidden, x)?;
        }
        let mut tapped: Vec<Vec<Option<States>>> =
            passes.iter().map(|pass| vec![None; pass.taps.after_layers.len()]).collect();
        let mut experts_read = Vec::new();
        // True if `projected` is yet to be added to the residual stream.
        let mut pending = false;
        for (index, layer) in self.layers.iter().enumerate().filter(|(index, _)| part.contains(index)) {
            let entering = match &layer.mixer {
                Mixer::Attention { picked: None, .. } => &mut *qkv,
                _ => &mut *mixed,
            };
            if let Some((norm, matrix)) = &layer.entry {
                let residual = Residual { x, part: all, add: pending.then_some(&*projected) };
                let out = Out::before(matrix, normed);
                match &layer.convolutions {
                    None => ops.norm(work, residual, norm, out)?,
                    Some([attention, _]) => attention.enter(ops, work, residual, norm, convolved, out)?,
                }
                ops.product(work, matrix, normed, all, entering)?;
            }
            let attended: &D::Rows = match &layer.mixer {
                Mixer::Attention { picked, gates: gated_by, number, sliding, .. } => {
                    if let Some(picked) = picked {
                        ops.choose(work, mixed, picked, qkv)?;
                    }
                    let specs = within.as_ref().filter(|_| *sliding).unwrap_or(&whole);
                    for (spec, pass) in specs.iter().zip(&mut *passes) {
                        let cache = pass.cache.of_mut(*sliding);
                        ops.store(work, spec, qkv, layer.head_norms(c.norm_eps), cache, *number)?;
                    }
                    let out = Out::before(&layer.output, attended);
                    let cache = |of: usize| passes[of].cache.of(*sliding);
                    ops.attend(work, specs, qkv, &cache, *number, out)?;
                    if let Some(columns) = gated_by {
                        ops.choose(work, mixed, columns, gates)?;
                        ops.gate_by(work, gates, Gate::Sigmoid, Out::before(&layer.output, attended))?;
                    }
                    attended
                }
                Mixer::Linear { weights, number } => {
                    let [CheckedPass { recurring: Some(recurring), cache, .. }] = &mut *passes else {
                        specreel_tensor::bail!("linear attention over several caches, or without a plan");
                    };
                    let Some(states) = cache.states() else {
                        specreel_tensor::bail!("the cache has no states for layers with linear attention");
                    };
                    let pass = RecurrentPass { plan: &recurring.plan, states, layer: *number };
                    ops.mix(work, mixed, weights, pass, Out::before(&layer.output, answered))?;
                    answered
                }
            };
            ops.product(work, &layer.output, attended, all, projected)?;
            if let Some([after, _]) = &layer.after {
                let residual = Residual { x: projected, part: all, add: None };
                ops.norm(work, residual, after, Out { rows: settled, next: None })?;
                std::mem::swap(projected, settled);
            }

            let out = Out::before(layer.feed_forward.first(), normed);
            match &layer.convolutions {
                None => {
                    let residual = Residual { x, part: all, add: Some(projected) };
                    ops.norm(work, residual, &layer.post_norm, out)?;
                }
                Some([attention, feed_forward]) => {
                    attention.leave(ops, work, convolved, projected)?;
                    let residual = Residual { x, part: all, add: Some(projected) };
                    feed_forward.enter(ops, work, residual, &layer.post_norm, convolved, out)?;
                }
            }
            match &layer.feed_forward {
                FeedForward::Dense { gate_up, down } => {
                    ops.gated(work, gate_up, c.gate(), normed, Out::before(down, gated))?;
                    ops.product(work, down, gated, all, projected)?;
                }
                FeedForward::Sparse(experts) => {
                    experts_read.extend(ops.mix_experts(work, experts, normed, projected)?);
                }
            }
            if let Some([_, feed_forward]) = &layer.convolutions {
                feed_forward.leave(ops, work, convolved, projected)?;
            }
            pending = true;
            if let Some([_, after]) = &layer.after {
                let residual = Residual { x: projected, part: all, add: None };
                ops.norm(work, residual, after, Out { rows: settled, next: None })?;
                std::mem::swap(projected, settled);
            }
            if let (Some(part), Some(inputs)) = (&layer.added, inputs) {
                ops.add(work, x, all, projected)?;
                ops.part(work, x, all, Out::before(&part.gate, normed))?;
                ops.product(work, &part.gate, normed, all, gates)?;
                let width = inputs.per_layer.width;
                ops.columns(work, added, index * width..(index + 1) * width, gated)?;
                ops.gate_by(work, gates, c.gate(), Out::before(&part.projection, gated))?;
                ops.product(work, &part.projection, gated, all, projected)?;
                let residual = Residual { x: projected, part: all, add: None };
                ops.norm(work, residual, &part.norm, Out { rows: settled, next: None })?;
                std::mem::swap(projected, settled);
            }
            if let Some(factor) = layer.scalar {
                ops.add(work, x, all, projected)?;
                ops.scale(work, x, factor)?;
                pending = false;
            }

            // The first levels belong to the first layers; the levels of skipped layers are not among the columns.
            let level = 1 + index - part.start;
            let deep = level <= levels && index < c.deepstack;
            let tapped_here = passes.iter().any(|pass| pass.taps.after_layers.contains(&index));
            if (deep || tapped_here) && pending {
                ops.add(work, x, all, projected)?;
                pending = false;
            }
            if deep {
                ops.add_columns(work, x, wide, level * c.hidden..(level + 1) * c.hidden)?;
            }
            if tapped_here {
                let states = ops.keep(work, x)?;
                for ((tapped, pass), spec) in tapped.iter_mut().zip(&*passes).zip(&whole) {
                    for (slot, &wanted) in tapped.iter_mut().zip(&pass.taps.after_layers) {
                        if wanted == index {
                            *slot = Some(states.narrow(spec.first, spec.rows)?);
                        }
                    }
                }
            }
        }
        let residual = Residual { x, part: all, add: pending.then_some(&*projected) };
        ops.norm(work, residual, &self.norm, Out { rows: normed, next: None })?;
        let states = ops.take(work, normed)?;
        let keeps_last = passes.iter().any(|pass| pass.taps.before_norm);
        let before_norm = keeps_last.then(|| ops.take(work, x)).transpose()?;
        let mut done = Vec::with_capacity(passes.len());
        for (number, (pass, after_layers)) in passes.iter_mut().zip(tapped).enumerate() {
            let spec = &whole[number];
            let own = |states: &States| states.narrow(spec.first, spec.rows);
            let after_layers: Option<Vec<States>> = after_layers.into_iter().collect();
            let after_layers = after_layers.ok_or_else(|| {
                specreel_tensor::Error::Message(format!("the model has only {} layers", self.layers.len()))
            })?;
            let attention = ops.finish(work, spec, &mut pass.cache.attention)?;
            if let (Some(within), Some(sliding)) = (&within, &mut pass.cache.sliding) {
                ops.finish(work, &within[number], sliding)?;
            }
            pass.cache.advance(pass.recurring.as_ref());
            done.push(Pass {
                states: own(&states)?,
                before_norm: before_norm.as_ref().filter(|_| pass.taps.before_norm).map(own).transpose()?,
                after_layers,
                attention,
                experts_read: experts_read.clone(),
            });
        }
        Ok(done)
    }
}
