//! Element-wise functions and norms of vision towers.

use super::vectorized;
use crate::tower::Activation;

/// Apply an activation in place.
#[inline]
pub fn activate(activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::QuickGelu => quick_gelu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::GeluErf => gelu_erf(x),
    }
}

fn quick_gelu(x: &mut [f32]) {
    vectorized!(loops::quick_gelu(x: &mut [f32]))
}

fn gelu_tanh(x: &mut [f32]) {
    vectorized!(loops::gelu_tanh(x: &mut [f32]))
}

fn gelu_erf(x: &mut [f32]) {
    vectorized!(loops::gelu_erf(x: &mut [f32]))
}

/// Layer norm of one row: `out = (x - mean) / sqrt(variance + eps) * weight + bias`.
#[inline]
pub(crate) fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let n = x.len();
    assert!(n == weight.len() && n == bias.len() && n == out.len(), "rows and weights differ in width");
    vectorized!(loops::layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]))
}

/// `x[i] *= factor`.
#[inline]
pub fn scale(x: &mut [f32], factor: f32) {
    vectorized!(loops::scale(x: &mut [f32], factor: f32))
}

/// Loops that the compiler vectorises for the caller's instruction set.
mod loops {
    use super::super::{LANES, exp};

    #[inline(always)]
    pub(crate) fn quick_gelu(x: &mut [f32]) {
        for x in x {
            *x /= 1.0 + exp(-1.702 * *x);
        }
    }

    #[inline(always)]
    pub(crate) fn gelu_tanh(x: &mut [f32]) {
        for x in x {
            // (1 + tanh u) / 2 = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x³)
            let u = *x * (1.0 + 0.044_715 * *x * *x);
            *x /= 1.0 + exp(-1.595_769 * u);
        }
    }

    /// erf by Abramowitz and Stegun, 7.1.26: absolute error below 1.5e-7.
    #[inline(always)]
    pub(crate) fn gelu_erf(x: &mut [f32]) {
        for x in x {
            let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
            let t = 1.0 / (1.0 + 0.327_591_1 * z);
            let mut p = 1.061_405_4f32;
            p = p * t - 1.453_152;
            p = p * t + 1.421_413_8;
            p = p * t - 0.284_496_74;
            p = p * t + 0.254_829_6;
            // The part of the distribution beyond |x|.
            let beyond = 0.5 * p * t * exp(-z * z);
            *x *= if *x < 0.0 { beyond } else { 1.0 - beyond };
        }
    }

    #[inline(always)]
    fn sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
        let mut lanes = [0f32; 2 * LANES];
        let (chunks, rest) = x.as_chunks::<{ 2 * LANES }>();
        let mut tail = 0.0;
        for v in rest {
            tail += term(*v);
        }
        for chunk in chunks {
            for (lane, v) in lanes.iter_mut().zip(chunk) {
                *lane += term(*v);
            }
        }
        lanes.iter().sum::<f32>() + tail
    }

    #[inline(always)]
    pub(crate) fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
        let n = x.len() as f32;
        let mean = sum(
            x,
            #[inline(always)]
            |v| v,
        ) / n;
        let variance = sum(
            x,
            #[inline(always)]
            |v| (v - mean) * (v - mean),
        ) / n;
        let factor = 1.0 / (variance + eps).sqrt();
        for (((o, v), w), b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
            *o = (v - mean) * factor * w + b;
        }
    }

    #[inline(always)]
    pub fn scale(x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// erf by its series, for |x| below 6.
    pub(crate) fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn activations_are_those_of_their_definitions() {
        let x: Vec<f32> = (-400..=400).map(|i| i as f32 * 0.01).collect();
        let tanh = |x: f64| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        };
        let definitions: [(Activation, &dyn Fn(f64) -> f64); 3] = [
            (Activation::QuickGelu, &|x| x * sigmoid(1.702 * x)),
            (Activation::GeluTanh, &tanh),
            (Activation::GeluErf, &|x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        ];
        for (activation, definition) in definitions {
            let mut y = x.clone();
            activate(activation, &mut y);
            for (x, y) in x.iter().zip(y) {
                assert!((f64::from(y) - definition(f64::from(*x))).abs() < 2e-6, "{activation:?} {x} {y}");
            }
            let mut far = [-90.0, -1e4, 1e4, 0.0];
            activate(activation, &mut far);
            assert!(far[0].abs() < 1e-6 && far[1].abs() < 1e-6 && far[2] == 1e4 && far[3] == 0.0, "{far:?}");
        }
    }

    #[test]
    fn rows_are_normed() {
        for n in [5, 16, 77] {
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * 3.0 + 1.0).collect();
            let (weight, bias) = (vec![2.0; n], vec![0.5; n]);
            let mut out = vec![0.0; n];
            layer_norm(&x, &weight, &bias, 1e-6, &mut out);
            let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64;
            let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n as f64;
            for (x, y) in x.iter().zip(&out) {
                let want = (f64::from(*x) - mean) / (variance + 1e-6).sqrt() * 2.0 + 0.5;
                assert!((f64::from(*y) - want).abs() < 1e-5);
            }
            scale(&mut out, 0.0);
            assert!(out.iter().all(|v| *v == 0.0));
        }
    }
}
