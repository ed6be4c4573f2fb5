//! A pass through the layers of a decoder, on any device.

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
pub(super) struct CheckedPass<'a> {
    pub(super) input: Input<'a>,
    /// DeepStack levels after the embeddings or states of a row; 0 for text.
    pub(super) levels: usize,
    pub(super) positions: &'a Positions,
    pub(super) mask: &'a Mask,
    pub(super) recurring: Option<Recurring>,
}

impl<D: DecoderOps> OnDevice<D> {
    /// Run the rows of a pass through the layers; the cache grows by as many slots.
    pub(super) fn run(
        &self,
        checked: &CheckedPass<'_>,
        cache: &mut HybridCache<D>,
        taps: &Taps,
        buffers: &mut PassBuffers<D>,
    ) -> Result<Pass> {
        let (c, ops) = (&self.config, &self.ops);
        let CheckedPass { input, levels, positions, mask, ref recurring } = *checked;
        let rows = input.rows();
        let part = taps.layers.clone().unwrap_or(0..self.layers.len());
        let (entered, inputs) = (self.entered(), self.layer_inputs.as_deref());
        let probe = taps.probe.as_ref();
        let (cos, sin) = self.rope.tables(positions);
        let layers = c.unbounded_layers();
        let pass = PassSpec { rows, layers, shape: self.shape(), cos, sin, mask, window: None, probe };
        // An assistant's row has no slot of its own, which a window counts.
        let absent = usize::from(c.assists.is_some());
        let within = match (&self.sliding_rope, self.sliding_shape(), &c.gemma) {
            (Some(rope), Some(shape), Some(gemma)) => {
                let ((cos, sin), window) =
                    (rope.tables(positions), Some(gemma.window.saturating_sub(absent).max(1)));
                Some(PassSpec { rows, layers, shape, cos, sin, mask, window, probe: None })
            }
            _ => None,
        };
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
        if let (Some(within), Some(sliding)) = (&within, &mut cache.sliding) {
            ops.begin(work, within, sliding)?;
        }
        ops.begin(work, &pass, &mut cache.attention)?;
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
        let mut tapped = vec![None; taps.after_layers.len()];
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
                    let (pass, attention) = match (&within, &mut cache.sliding) {
                        (Some(within), Some(cache)) if *sliding => (within, cache),
                        _ => (&pass, &mut cache.attention),
                    };
                    ops.store(work, pass, qkv, layer.head_norms(c.norm_eps), attention, *number)?;
                    let out = Out::before(&layer.output, attended);
                    ops.attend(work, pass, qkv, attention, *number, out)?;
                    if let Some(columns) = gated_by {
                        ops.choose(work, mixed, columns, gates)?;
                        ops.gate_by(work, gates, Gate::Sigmoid, Out::before(&layer.output, attended))?;
                    }
                    attended
                }
                Mixer::Linear { weights, number } => {
                    let (Some(recurring), Some(states)) = (recurring, cache.states()) else {
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
            let tapped_here = taps.after_layers.contains(&index);
            if (deep || tapped_here) && pending {
                ops.add(work, x, all, projected)?;
                pending = false;
            }
            if deep {
                ops.add_columns(work, x, wide, level * c.hidden..(level + 1) * c.hidden)?;
            }
            if tapped_here {
                for (slot, &wanted) in tapped.iter_mut().zip(&taps.after_layers) {
                    if wanted == index {
                        *slot = Some(ops.keep(work, x)?);
                    }
                }
            }
        }
        let residual = Residual { x, part: all, add: pending.then_some(&*projected) };
        ops.norm(work, residual, &self.norm, Out { rows: normed, next: None })?;
        let after_layers: Option<Vec<States>> = tapped.into_iter().collect();
        let after_layers = after_layers.ok_or_else(|| {
            specreel_tensor::Error::Message(format!("the model has only {} layers", self.layers.len()))
        })?;
        let states = ops.take(work, normed)?;
        let before_norm = taps.before_norm.then(|| ops.take(work, x)).transpose()?;
        let attention = ops.finish(work, &pass, &mut cache.attention)?;
        if let (Some(within), Some(sliding)) = (&within, &mut cache.sliding) {
            ops.finish(work, within, sliding)?;
        }
        cache.advance(recurring.as_ref());
        Ok(Pass { states, before_norm, after_layers, attention, experts_read })
    }
}
