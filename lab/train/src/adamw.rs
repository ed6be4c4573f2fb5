//! AdamW whose state can be saved; candle's own keeps it private.

use std::collections::BTreeMap;

use candle_core::{Device, Result, Tensor, Var, backprop::GradStore};

/// Added to the denominator, as in torch.
const EPSILON: f32 = 1e-8;

/// Moments of every trained tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdamW {
    /// Number of updates.
    pub steps: usize,
    /// First and second moments by name.
    pub moments: BTreeMap<String, (Vec<f32>, Vec<f32>)>,
}

/// Hyperparameters of one update.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub rate: f64,
    /// Decay of the moments.
    pub(crate) betas: [f64; 2],
    /// Weight decay, times the rate.
    pub decay: f64,
    /// Gradients are clipped to ± this value.
    pub clip: f64,
}

impl AdamW {
    /// Update the weights (Loshchilov and Hutter, in torch's order of operations). Fails if a gradient is not finite; the weights
    /// are unchanged.
    pub fn update(&mut self, vars: &BTreeMap<String, Var>, grads: &GradStore, rule: Rule) -> Result<()> {
        let mut gradients = Vec::with_capacity(vars.len());
        for (name, var) in vars {
            let values = match grads.get(var) {
                Some(gradient) => gradient.flatten_all()?.to_vec1::<f32>()?,
                None => vec![0.0; var.elem_count()],
            };
            if values.iter().any(|g| !g.is_finite()) {
                candle_core::bail!("the gradient of `{name}` is not finite");
            }
            gradients.push(values);
        }
        self.steps += 1;
        let [b1, b2] = rule.betas;
        let step = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let (first, second) = (1.0 - b1.powi(step), 1.0 - b2.powi(step));
        let (size, root) = ((rule.rate / first) as f32, second.sqrt() as f32);
        let (b1, b2, clip) = (b1 as f32, b2 as f32, rule.clip as f32);
        let shrink = (1.0 - rule.rate * rule.decay) as f32;
        for ((name, var), gradient) in vars.iter().zip(gradients) {
            let mut weights = var.flatten_all()?.to_vec1::<f32>()?;
            let n = weights.len();
            let (m, v) = self.moments.entry(name.clone()).or_insert_with(|| (vec![0.0; n], vec![0.0; n]));
            for (((w, g), m), v) in weights.iter_mut().zip(&gradient).zip(m).zip(v) {
                let g = g.clamp(-clip, clip);
                *w *= shrink;
                *m = b1 * *m + (1.0 - b1) * g;
                *v = b2 * *v + (1.0 - b2) * g * g;
                *w -= size * *m / (v.sqrt() / root + EPSILON);
            }
            var.set(&Tensor::from_vec(weights, var.shape(), &Device::Cpu)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against `torch.optim.AdamW(lr=0.1, betas=(0.9, 0.95), weight_decay=0.01)` on w²·c.
    #[test]
    fn it_moves_as_torch_does() {
        let var = Var::new(&[1f32, -2.0, 0.5], &Device::Cpu).unwrap();
        let vars = BTreeMap::from([("w".to_owned(), var.clone())]);
        let mut adam = AdamW::default();
        let rule = Rule { rate: 0.1, betas: [0.9, 0.95], decay: 0.01, clip: 10.0 };
        for _ in 0..3 {
            let c = Tensor::new(&[1f32, 2.0, 3.0], &Device::Cpu).unwrap();
            let loss = (var.sqr().unwrap() * c).unwrap().sum_all().unwrap();
            adam.update(&vars, &loss.backward().unwrap(), rule).unwrap();
        }
        let got = var.to_vec1::<f32>().unwrap();
        for (got, want) in got.iter().zip(TORCH) {
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
    }

    const TORCH: [f32; 3] = [0.698_409_26, -1.694_7, 0.202_662_6];
}
